// The SMs: what each has room for, how it divides L1 and shared memory, which of them are in the same state
// and so kept as one (`Cohorts`), and which have changed of late.  Who runs there, and how fast, is known to
// others.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/stages/cohorts.h"
#include "sim/stages/sm_mask.h"
#include "traces/model/expects.h"
#include "traces/model/gpu.h"
#include "traces/model/occupancy.h"
#include "traces/model/tpc_mask.h"

namespace corun::sim {

class SmArray {
 public:
  /// SMs or warps x ps.  In 64 bits those of a GPU that is full of warps would end after a thousand seconds.
  __extension__ using Integral = __int128;

  /// `number_places`: block places are told apart, for block records.
  SmArray(const Gpu& gpu, bool together, bool number_places);

  const Cohorts& cohorts() const { return cohorts_; }
  const SmMask& all() const { return all_; }
  SmMask mask_of(const TpcMask& tpcs) const;
  /// Numbers by SmId as numbers by rank.
  std::vector<std::uint16_t> by_rank(const std::vector<std::uint16_t>& by_sm) const;

  /// Blocks of `demand` that an SM of the cohort could take now; 0 where `head` is no head.
  std::uint32_t free_places(std::uint32_t head, const SmResources& demand, std::uint32_t carveout) const {
    if (!cohorts_.heads().test(head)) return 0;
    return empty(head) || carveout <= carveout_[head] ? max_active_blocks(free_[head], demand) : 0;
  }
  bool empty(std::uint32_t head) const { return free_[head].blocks == gpu_.sm.max_blocks; }

  /// Each SM of the cohort gives room to `each` blocks.  `fixed`: their end is known now.  Returns the number
  /// of the place, if places are told apart.
  std::uint16_t take(std::uint32_t head, const SmResources& demand, std::uint32_t carveout,
                     std::uint32_t each, bool fixed) {
    CORUN_EXPECTS_SLOW(each != 0 && (each == 1 || !number_places_));
    CORUN_EXPECTS_SLOW(free_places(head, demand, carveout) >= each);
    const std::uint32_t sms = cohorts_.size(head);
    if (empty(head)) {
      busy_ += sms;
      carveout_[head] = std::max(carveout, gpu_.sm.empty_sm_shared_memory_bytes);
    }
    free_[head] -= each * demand;
    warps_ += sms * each * demand.warps;
    blocks_ += sms * each;
    fixed_[head] += fixed;
    if (!number_places_) return 0;
    const auto place = static_cast<std::uint16_t>(std::countr_one(places_[head]));
    places_[head] |= std::uint64_t{1} << place;
    return place;
  }
  void give_back(std::uint32_t head, const SmResources& demand, std::uint16_t place, std::uint32_t each,
                 bool fixed) {
    CORUN_EXPECTS_SLOW(cohorts_.heads().test(head) && free_[head].blocks + each <= gpu_.sm.max_blocks);
    CORUN_EXPECTS_SLOW(!number_places_ || (places_[head] >> place & 1) != 0);
    const std::uint32_t sms = cohorts_.size(head);
    free_[head] += each * demand;
    if (empty(head)) busy_ -= sms;
    warps_ -= sms * each * demand.warps;
    blocks_ -= sms * each;
    fixed_[head] -= fixed;
    if (number_places_) places_[head] &= ~(std::uint64_t{1} << place);
  }

  /// All stay as they are for so long, ps.
  void pass_time(std::int64_t span) {
    CORUN_EXPECTS_SLOW(span >= 0);
    sm_ps_ += Integral{span} * busy_;
    warp_ps_ += Integral{span} * warps_;
  }
  /// The same of residents that were not simulated.
  void skip_time(Integral sm_ps, Integral warp_ps) {
    CORUN_EXPECTS(sm_ps >= 0 && warp_ps >= 0);
    sm_ps_ += sm_ps;
    warp_ps_ += warp_ps;
  }
  /// Integrals: SMs with a block x ps, and resident warps x ps.
  Integral sm_ps() const { return sm_ps_; }
  Integral warp_ps() const { return warp_ps_; }

  std::uint32_t busy() const { return busy_; }
  std::uint32_t resident_warps() const { return warps_; }
  std::uint32_t resident_blocks() const { return blocks_; }
  const std::vector<SmResources>& free() const { return free_; }

  // ---- cohorts ----
  /// As `Cohorts::respect`.
  std::vector<Cohorts::Part> respect(const SmMask& mask) { return cohorts_.respect(mask); }
  /// As `Cohorts::split`.
  std::uint32_t split(std::uint32_t head, const SmMask& part) {
    const std::uint32_t other = cohorts_.split(head, part);
    free_[other] = free_[head];
    carveout_[other] = carveout_[head];
    note_change(other);
    return other;
  }
  void merge(std::uint32_t head, std::uint32_t other) {
    CORUN_EXPECTS(alike(head, other));
    cohorts_.merge(head, other);
    touched_.set(head);
    log(other);
  }
  /// As far as room goes.
  bool alike(std::uint32_t a, std::uint32_t b) const {
    if (free_[a] != free_[b] || fixed_[a] != 0 || fixed_[b] != 0) return false;
    return empty(a) || carveout_[a] == carveout_[b];
  }

  // ---- changes ----
  /// The SM has gained or lost blocks.
  void note_change(std::uint32_t rank) {
    touched_.set(rank);
    log(rank);
  }
  /// Changes so far; the latest `kRemembered` can be asked for.
  std::uint64_t changes() const { return changes_; }
  std::uint32_t changed(std::uint64_t change) const {
    CORUN_EXPECTS_SLOW(change < changes_ && changes_ - change <= kRemembered);
    return log_[change % kRemembered];
  }
  /// SMs that have changed since it was asked last.
  SmMask take_touched() { return std::exchange(touched_, {}); }

  static constexpr std::uint64_t kRemembered = 64;

 private:
  void log(std::uint32_t rank) { log_[changes_++ % kRemembered] = static_cast<std::uint16_t>(rank); }

  const Gpu& gpu_;
  bool number_places_;
  Cohorts cohorts_;
  std::vector<SmResources> free_;        // by head
  std::vector<std::uint32_t> carveout_;  // by head
  std::vector<std::uint32_t> fixed_;     // blocks whose end is known, by head
  std::vector<std::uint64_t> places_;    // used block places as bits, by rank
  std::vector<std::uint32_t> rank_of_sm_;
  SmMask all_;
  std::uint32_t busy_ = 0, warps_ = 0, blocks_ = 0;
  Integral sm_ps_ = 0, warp_ps_ = 0;
  SmMask touched_;
  std::vector<std::uint16_t> log_;  // ring
  std::uint64_t changes_ = 2 * kRemembered;
};

}  // namespace corun::sim
