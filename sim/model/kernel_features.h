// What is known of a kernel before anything is fitted: launch shape, counters (mended, or what its class usually
// has), and what these say of a block: its traffic, the least it must issue, the least and the most it must
// wait.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/model/contention.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::sim {

struct Prior;

struct DramUse {
  bool bounds = false;   // the launch takes about as long as its bytes
  bool sectors = false;  // it moves more than passes L2, which asked for single sectors
};

/// L2 traffic counts a fill from DRAM and a write-back by half beside the SMs' accesses.
inline constexpr double kFillsCounted = 0.5;
/// Warps on an SM at which a kernel without counters is taken to fill what it fills: half of an H200's 64.
inline constexpr double kWarpsToFill = 32;
/// Waves from which on they have drifted apart.
inline constexpr double kDrifting = 20;

struct KernelFeatures {
  /// `alone`: the solo time of the launch on the whole GPU; 0: what the kernel itself tells.  `on_gpu` must
  /// outlive this.
  KernelFeatures(const Kernel& of, Time alone, const Gpu& on_gpu);

  /// Something is known of what it does, beside its shape.
  bool counted() const;
  /// Time of a block at the one of the slots and pipes that it needs most.
  double busiest() const { return *std::max_element(pipes.begin(), pipes.end()); }
  /// Of a block that needs `issue` at what it needs most: at its busiest pipe, and at the slots too where the
  /// counters do not account for that.
  PipeUse uses(double issue) const;
  /// Share of each that the counters account for; of the data pipe, also as the way to L2.
  PipeUse accounted(double issue) const;
  /// Time of a block at its SM's way to L2.
  double port() const;
  /// It stages its reads in shared memory.
  bool tiled() const;
  /// ps of a warp whose instructions take `cycles` each; where they were not counted, without bound.
  double warp_time(double cycles) const;
  /// Blocks on an SM, waves, and the time of a block, ps, of a launch alone on `sms` SMs.
  std::uint32_t residents(std::uint32_t sms) const;
  double waves(std::uint32_t sms) const;
  double block_time(std::uint32_t sms, double time) const;
  /// Of its re-reads, alone on `sms` SMs with an L2 like that, the share that its own traffic, bytes, spares.
  double spared(double moved, std::uint32_t sms, const MemoryLimits& l2) const;
  /// The load of a launch that may use `sms` SMs.
  BlockLoad on(BlockLoad other, std::uint32_t sms) const;

  Kernel kernel;
  const Gpu& gpu;
  MemoryLimits limits;
  Time solo_time;
  std::uint32_t measured_sms;  // on which the launch took its solo time
  std::uint32_t max_active_blocks;  // of an SM
  const Prior* prior = nullptr;     // its counters are what this class usually has
  double least_issue = 0;           // ps a block, from the instructions
  std::array<double, kPipes> pipes{};  // ps a block at each, as far as counters say
  double l2_written = 0;            // bytes a block
  double sectors = 0;               // bytes a block that it reads by sectors
  double least_wait = 0;            // ps a block, from the bytes that its threads read
  double fill_wait = 0;             // the same, if each fill of its tiles is waited for
  double most_wait = 1e300;         // the same if each load waited for the one before
  double tensor = 0;                // ps a block of the tensor pipe, where its cost is known
  bool l2_bound = false;
  bool random = false;     // reads of single sectors, of which DRAM moves two
  DramUse dram;
  bool scattered = false;  // L2-bound reads of single sectors
  BlockLoad load;          // on the whole GPU, as far as it is known

 private:
  void fill_counters();
  void from_shape();
  void read_counters();
  void read_pipes();
};

}  // namespace corun::sim
