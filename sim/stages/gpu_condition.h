// The GPU as a launch finds it: its clock, and what is in L2 of what its client's launch before left there,
// of which others have replaced a part since then.  And how much energy launches have taken.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/contention.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

class GpuCondition {
 public:
  explicit GpuCondition(const MemoryLimits& limits) : limits_(limits) {}

  /// The highest clock of the GPU over its clock, for launches from now on.
  void set_clock(double clock_ratio) {
    CORUN_EXPECTS(clock_ratio >= 1);
    clock_ratio_ = clock_ratio;
  }
  /// A launch comes now: its load and the time of its blocks are as clock and L2 have it.  `moved`: bytes to and from
  /// DRAM of launches that have ended, and of those of other clients that run.
  void meet(Work& work, double moved);
  void ended(const Work& work);
  /// Bytes to and from DRAM, and pJ, of launches that have ended.
  double moved() const { return moved_; }
  double energy() const { return energy_; }

 private:
  struct Client {
    double moved = 0;   // bytes to and from DRAM, of launches that have ended
    double others = 0;  // what the other clients had moved when it launched last
    bool launched = false;
  };
  void replace_in_l2(Work& work, double moved);

  MemoryLimits limits_;
  double clock_ratio_ = 1;
  double moved_ = 0;  // by all
  double energy_ = 0;
  std::vector<Client> clients_;
};

}  // namespace corun::sim
