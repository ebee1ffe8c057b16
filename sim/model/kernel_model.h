// A kernel's part in the contention model, from what is known of it alone: launch shape, solo time, solo time
// on fewer SMs, hardware counters, or without them what kernels of its class usually do.  Nothing here has seen
// a co-run.
#pragma once

#include <string>
#include <vector>

#include "sim/model/contention.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/occupancy.h"
#include "traces/model/time.h"

namespace corun::sim {

/// Time of one block such that the kernel alone on `sms` SMs lasts `solo_time`, given the dispatch rate and
/// the waves that its residency makes.  At least 1 ps: a kernel that ends faster than its blocks can be
/// dispatched is dispatch-bound.
Time solo_block_time(const Kernel& kernel, Time solo_time, const Gpu& gpu, std::uint32_t sms);

/// Length of a kernel alone whose blocks all take `block`: the inverse of the above.
Time solo_length(std::uint64_t blocks, std::uint64_t places, Time block, Time dispatch_interval);

struct Prior;

class KernelModel {
 public:
  /// `solo_time` is that of the launch on the whole GPU.
  KernelModel(const Kernel& kernel, Time solo_time, const Gpu& gpu);

  /// Of a launch confined to so many SMs, alone: its length, and what a block takes if all take the same.
  Time solo_time(std::uint32_t sms) const;
  Time block_alone(std::uint32_t sms) const;
  BlockLoad load(std::uint32_t sms) const;
  /// What a block costs more when a persistent worker takes it: as measured of this kernel, else the GPU's.
  Time persistent_task() const;
  /// And where the launch may be stopped.
  Time stoppable_task() const;
  /// Which inputs it is made of, for people.
  const std::string& basis() const { return basis_; }

 private:
  struct Point {  // a solo time
    std::uint32_t sms;
    double time;  // ps
  };
  void read_counters();
  void fill_counters(const Prior& prior);
  void from_shape();
  void fit_curve(const std::vector<Point>& curve);
  void fit_whole(const Point& whole);
  bool tiled() const;
  std::uint32_t residents(std::uint32_t sms) const;
  double waves(std::uint32_t sms) const;
  double block_time(std::uint32_t sms, double time) const;
  double block_among(const BlockLoad& load, std::uint32_t sms, double blocks) const;
  double length(const BlockLoad& load, std::uint32_t sms) const;
  double average_length(const BlockLoad& load, std::uint32_t sms) const;
  double length_of_workers(const BlockLoad& load, std::uint32_t each) const;
  double workers_error(const BlockLoad& load) const;
  BlockLoad on(BlockLoad load, std::uint32_t sms) const;
  Time longer_by_block(Time time) const;

  Kernel kernel_;
  const Gpu& gpu_;
  MemoryLimits limits_;
  Time solo_time_;
  std::string basis_;
  std::uint32_t measured_sms_;  // on which the launch took its solo time
  std::uint32_t room_;
  bool usual_ = false;      // its counters are what its class usually has
  double least_issue_ = 0;  // ps a block, from the instructions
  double l2_written_ = 0;   // bytes a block
  double sectors_ = 0;      // bytes a block that it reads by sectors
  double least_wait_ = 0;   // ps a block, from the bytes that its threads read
  double most_wait_ = 1e300;  // the same if each load waited for the one before
  double tensor_ = 0;         // ps a block of the tensor pipe, where its cost is known
  bool l2_bound_ = false;
  bool dram_bound_ = false;
  bool random_ = false;     // reads of single sectors, of which DRAM moves two
  bool scattered_ = false;  // L2-bound reads of single sectors
  BlockLoad load_;          // on the whole GPU
};

}  // namespace corun::sim
