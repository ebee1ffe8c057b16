// A launch that comes when nothing else is there, and ends undisturbed, goes as one like it did before.  This
// remembers how that one went, exact to the tick.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/engine/kept_table.h"
#include "sim/stages/pipeline.h"
#include "sim/stages/sm_mask.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

class SoloMemory {
 public:
  /// All of a launch that decides how it goes.  `Pipeline::at_rest` rules out what else could.
  struct Key {
    std::uint64_t blocks = 0;
    Time block_alone{}, per_task{};
    std::uint32_t ctas = 0;
    SmResources demand;
    SmMask allowed;
    BlockLoad load;
    bool operator==(const Key&) const = default;
    /// Of what differs between launches of one kernel.
    std::uint64_t hash() const {
      std::uint64_t h = blocks << 32 ^ ctas;
      const auto mix = [&h](std::uint64_t bits) { h = (h ^ h >> 31 ^ bits) * 0xff51afd7ed558ccdu; };
      mix(static_cast<std::uint64_t>(block_alone.count()) ^ static_cast<std::uint64_t>(per_task.count()) << 32);
      mix(std::bit_cast<std::uint64_t>(load.alone_ps));
      mix(std::bit_cast<std::uint64_t>(load.memory.uncached_share));
      return h;
    }
  };
  /// Of a launch that has been conditioned and not yet accepted.  None: it goes like no other.
  static std::optional<Key> key_of(const Work& work, const SmMask& allowed, const SmResources& demand) {
    // Each field of a Work has its place here: with one more this does not compile until it is said what that decides.
    const auto& [record, block_alone, block_times, load, times_alone, per_task, first, last, next, done, ctas, workers,
                 instances, resident, spread, tells_last, resumed, reset, partner] = work;
    // A part of a launch has times of before in its record.
    if (first != 0 || last != record.blocks || resumed || block_times != nullptr || !spread.quota.empty())
      return std::nullopt;
    CORUN_EXPECTS_SLOW(next == 0 && done == 0 && workers == 0 && instances == 0 && resident == 0 && !reset && !partner);
    // Who launches it, its level, who is told (`tells_last`), and what explains its time (`times_alone`) decide nothing.
    return Key{record.blocks, block_alone, per_task, ctas, demand, allowed, load};
  }

  /// Null: none like it has been seen.  Valid until the next `learn`.
  const UndisturbedRun* find(const Key& key) const { return runs_.find(key, key.hash()); }
  void learn(const Key& key, const UndisturbedRun& run) {
    CORUN_EXPECTS(run.started >= Time{} && run.last_block >= run.started && run.end >= run.last_block);
    CORUN_EXPECTS(run.sm_ps >= 0 && run.warp_ps >= 0);
    if (UndisturbedRun* known = runs_.find(key, key.hash())) {
      *known = run;
      return;
    }
    if (++known_ > kMost) runs_ = {}, known_ = 1;
    runs_.add(key, key.hash(), run);
  }

 private:
  /// Of a kernel whose data others replace in L2 each launch may be another: then the older ones are of no use.
  static constexpr std::size_t kMost = std::size_t{1} << 14;
  KeptTable<Key, UndisturbedRun> runs_;
  std::size_t known_ = 0;
};

}  // namespace corun::sim
