// What has become of each launch that the policy has handed over, as far as the simulator must know it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/api/snapshot.h"
#include "sim/stages/sm_mask.h"
#include "traces/model/expects.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

struct Fate {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  LaunchId launch;
  const Kernel* kernel = nullptr;  // null: a copy
  std::uint32_t context = 0, stream = 0;
  std::uint64_t blocks = 0;
  Time end = kNever;
  bool spreads = false;  // it has a number of CTAs per SM
  SmMask allowed;
  std::uint32_t preemption = kNone;  // that it is under
  std::uint32_t graph = kNone;       // that it is a node of
  bool padded = false;               // part of a padded launch
  bool was_held = false;             // taken back before it was handed over
  std::uint32_t preemptions = 0;
  std::unique_ptr<KernelRecord> record;  // of earlier runs, if it was on the GPU before
  std::uint64_t done = 0;                // in those
  Time reaches{};                        // the GPU, not earlier
  Time wait{};                           // of its stream before it, on the GPU
};

class LaunchFates {
 public:
  /// Keeps what is known of a launch that has been on the GPU before.
  Fate& renew(const LaunchView& l, std::uint32_t context, std::uint32_t stream) {
    if (l.id.slot >= by_slot_.size()) by_slot_.resize(l.id.slot + 1);
    Fate& fate = by_slot_[l.id.slot];
    if (fate.launch != l.id || fate.blocks == 0) {
      fate = Fate{};
      fate.launch = l.id;
    }
    fate.kernel = l.kernel;
    fate.context = context, fate.stream = stream;
    fate.blocks = l.kernel != nullptr ? l.kernel->blocks() : 0;
    fate.end = kNever;
    fate.preemption = fate.graph = Fate::kNone;
    fate.padded = fate.was_held = false;
    return fate;
  }
  Fate& operator[](std::uint32_t slot) {
    CORUN_EXPECTS_SLOW(slot < by_slot_.size());
    return by_slot_[slot];
  }
  const Fate& operator[](std::uint32_t slot) const {
    CORUN_EXPECTS_SLOW(slot < by_slot_.size());
    return by_slot_[slot];
  }
  /// Null: it has not been handed over yet.
  const Fate* find(LaunchId launch) const {
    return launch.slot < by_slot_.size() && by_slot_[launch.slot].launch == launch ? &by_slot_[launch.slot]
                                                                                   : nullptr;
  }
  /// kNever: it has not ended, or is a graph's whose turn has not come.  If its slot has been used again, it ended long ago.
  Time ended_at(LaunchId launch) const {
    if (launch.slot >= by_slot_.size()) return kNever;
    const Fate& fate = by_slot_[launch.slot];
    if (fate.launch == launch) return fate.end;
    return fate.launch.serial < launch.serial ? kNever : Time{};
  }

 private:
  std::vector<Fate> by_slot_;  // by LaunchId::slot
};

}  // namespace corun::sim
