// A GPU as data: the limits and latencies of its scheduling hardware.  Filled from a GPU description file, in
// which every value names its source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "traces/model/basis.h"
#include "traces/model/ids.h"
#include "traces/model/time.h"

namespace corun {

/// What one SM holds, and in which steps it hands it out.
struct SmLimits {
  std::uint32_t max_threads = 0;
  std::uint32_t max_warps = 0;
  std::uint32_t max_blocks = 0;
  std::uint32_t warp_size = 32;
  std::uint32_t warp_allocation_granularity = 4;  // a block is admitted as if it had whole multiples of this
  std::uint32_t sub_partitions = 4;               // each with its own register file and issue slot
  std::uint32_t fp64_units = 0;                   // FP64 multiply-adds that it starts in a cycle; 0: not known
  std::uint32_t registers = 0;
  std::uint32_t registers_per_block = 0;         // most that one block may use
  std::uint32_t register_allocation_unit = 256;  // registers, per warp
  std::uint32_t registers_per_thread = 255;
  std::uint32_t threads_per_block = 1024;
  std::uint32_t shared_memory_bytes = 0;
  std::uint32_t shared_memory_per_block_bytes = 0;  // most that one block may ask for (opt-in)
  std::uint32_t shared_memory_allocation_unit = 0;  // bytes
  std::uint32_t shared_memory_reserved_bytes = 0;   // per block, taken by the system
  /// Carveouts of shared memory from L1 that there are: bytes, rising.  Empty: not a matter of scheduling.
  std::vector<std::uint32_t> shared_memory_carveouts;
  std::uint32_t empty_sm_shared_memory_bytes = 0;  // of these, what an empty SM takes at least
  bool operator==(const SmLimits&) const = default;
};

/// What kernels that run side by side share, and what a launch costs: the machine constants of
/// sim/model/contention.h and sim/model/kernel_model.h.
struct Contention {
  double dram_read_bytes_per_second = 0, dram_write_bytes_per_second = 0;
  Time dram_latency{};                    // idle
  double dram_over_l2_latency_ratio = 0;  // of an access to that of an L2 hit
  double dram_read_queueing_factor = 0;   // how waits for DRAM grow with its use
  double dram_write_queueing_factor = 0;  // what writes add to that
  double dram_queue_full_use = 0;         // at which its queues are full, and more waits before L2
  double dram_backlog_factor = 0;         // what L2 hits wait too, near saturation
  double l2_read_bytes_per_second = 0, l2_write_bytes_per_second = 0;
  double l2_queueing_factor = 0;          // how waits for L2 grow with its use
  double l2_sector_cost_ratio = 0;        // most that a byte of random sectors costs beside a streamed one
  Time l2_wait{};                         // of a round of loads that hit, with what surrounds them in a block
  std::uint64_t l2_own_bytes = 0;         // that L2 holds of lines which one SM uses
  std::uint64_t l2_shared_bytes = 0;      // of lines which all use
  std::uint64_t l2_first_loss_bytes = 0;  // moved between two uses of a line before any is lost
  std::uint64_t l2_dirty_bytes = 0;       // that a launch leaves in L2 to be written later
  double sm_read_bytes_per_second = 0, sm_write_bytes_per_second = 0;  // into one SM, out of it
  double sm_sector_bytes_per_second = 0;                               // random sectors into one SM
  double issue_by_age_share = 0;      // of the issue slots, where launches' blocks came in turn
  double tensor_clock_ratio = 0;      // the clock over that beside a tensor kernel
  double wgmma_least = 1;             // time of wgmma on one SM alone over that with all SMs at it; 1: not known
  // How busy a block that works on tiles keeps a part of its SM that no counter shows: most, and for each share
  // of the registers that it has.  0: not known.
  double tile_use = 0, tile_use_per_registers = 0;
  Time launch_cost{};                 // of a kernel alone, beside its blocks
  Time launch_beside_others{};        // what a launch takes longer while others run
  Time launch_beside_memory{};        // and in a stream, more while others move bytes of DRAM
  double launch_memory_accesses = 0;  // on a launch's way, one after the other
  Time launch_access_most_wait{};     // what one of them takes longer at most; 0: not known
  // The same of a graph's kernels, the first where another stream launched since the kernel before it.
  Time graph_launch_after_others{};
  double graph_launch_memory_accesses = 0;
  bool operator==(const Contention&) const = default;
};

/// Taking launches off the GPU, and padding them.
struct PreemptionCosts {
  /// Where the flag lives that stops a launch at its next blocks: host memory that every block polls, a
  /// device flag written by one block that polls the host, a device flag written by a copy.
  enum class FlagPlace : std::uint8_t { host, relay, copied } flag_place = FlagPlace::relay;
  Time flag_host{}, flag_host_block{};  // in host memory: one block polls; each further one
  Time flag_copied{};
  Time host_queue_reset{};
  Time evicted_launch{};           // to pass the GPU, beside the dispatch of its blocks
  Time evicted_launch_interval{};  // of those that follow it
  Time kill{};                     // of running blocks
  double padding_cost_ratio = 1;   // a block's time in a padded launch over its own
  bool operator==(const PreemptionCosts&) const = default;
};

/// What the GPU draws, and may.  Energies are those at the highest clock.
struct Power {
  double limit_w = 0;  // 0: not known, the clock stays the highest
  double idle_w = 0;   // at the highest clock, with nothing to do
  double warp_instruction_pj = 0, dram_byte_pj = 0;
  double wgmma_column_pj = 0;  // a warp's share of a wgmma, for each of its columns
  Time interval{};             // at which the clock is set anew
  bool operator==(const Power&) const = default;
};

struct Gpu {
  std::string name;          // "h200": the name of its file
  std::string product;       // "NVIDIA H200"
  std::string architecture;  // "hopper"
  std::uint32_t compute_capability_major = 0, compute_capability_minor = 0;

  std::uint32_t sms = 0;
  std::uint32_t sms_per_tpc = 1;
  std::vector<std::uint32_t> gpc_of_tpc;  // empty: unknown (floorsweeping makes it differ by card)
  std::vector<SmId>
      placement_order;  // which of two equally free SMs is taken first; a permutation of all SMs
  SmLimits sm;

  std::uint32_t task_slots = 0;       // grids that the WDU holds at once
  std::uint32_t priority_levels = 1;  // stream priorities 0 (lowest) .. -(levels - 1)
  std::uint32_t host_channels =
      0;  // hardware queues of one context; streams beyond that share (default setting)
  std::uint32_t channel_depth = 1024;  // launches that one channel holds before it refuses more
  std::uint32_t copy_engines = 0;
  std::optional<std::uint32_t>
      mps_client_channels;          // hardware queues of one MPS client; 0: all share; absent: no MPS
  std::uint32_t mps_least_sms = 0;  // that a thread percentage leaves a client; 0: no percentages
  std::uint32_t mps_sm_step = 0;    // in multiples of which it leaves more
  std::uint32_t mps_kept_back_sms = 0;  // that clients with percentages do not get while others are free
  /// Kernels of graphs without copies that the front end reads before those in front have ended; a context
  /// with nothing left to read gives its turn up once what was read has ended.  0: it reads each when it can
  /// start.
  std::uint32_t read_ahead_launches = 0;

  Time dispatch_interval{};  // between two blocks leaving the WDU, whole GPU
  bool dispatch_assumed = false;  // not measured on such a card
  Time launch_call{};        // host thread time of one launch call
  Time launch_latency{};     // from the call to the task reaching the TMU, idle channel
  Time stream_gap{};         // end of a kernel to the start of the next in its stream, already queued
  Time graph_launch_call{};  // the same three for a CUDA graph
  Time graph_launch_latency{};
  Time graph_gap{};
  Time mps_graph_gap{};   // the same of a client of MPS
  Time turn_graph_gap{};  // and of a context that takes turns with others
  Time mps_kernel{};      // what kernels take longer there than without MPS, part of mps_graph_gap
  Time device_copy{};  // of a copy or memset within the device, beside its bytes
  Time copy_kernel{};  // the same where the driver does it by a kernel: copies from copy_kernel_bytes on
  Time time_slice{};   // between contexts that do not share through MPS
  Time context_switch{};
  Time switch_sm{};  // more for each SM that has blocks to be interrupted
  // Instead, from a context that has nothing under way: to one that has not, and to one that was interrupted.
  Time idle_switch{}, idle_switch_to_interrupted{};
  Time completion_notice{};  // end of a kernel until its host knows
  Time progress_read{};      // host asking how many blocks are done, until the answer
  Time persistent_task{};    // a persistent worker taking its next task block
  Time retreat{};    // a persistent worker on an SM where it is not wanted, from its start to its exit
  Time stop_flag{};  // host write until persistent workers see it
  // How a host program makes kernels persistent (`through`): what a worker keeps of its own in shared memory,
  // and whether, where there are more seats than blocks, the workers of an SM take theirs together.
  std::uint32_t persistent_shared_bytes = 0;
  bool neighbours_take_together = false;

  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
  double clock_hz = 0;
  double dram_bytes_per_second = 0;
  double copy_bytes_per_second = 0;  // host <-> device, pinned, each way
  std::uint64_t copy_kernel_bytes = std::numeric_limits<std::uint64_t>::max();

  PreemptionCosts preemption;
  Contention contention;
  Power power;
  Basis basis;  // of the values above

  std::uint32_t tpcs() const { return sms / sms_per_tpc; }

  /// SMs that an MPS client with this active thread percentage uses at most.
  std::uint32_t mps_sms(double percentage) const {
    if (percentage >= 100) return sms;
    const auto steps = static_cast<std::uint32_t>(percentage * sms / (100.0 * mps_sm_step));
    return std::min(sms, std::max(mps_least_sms, steps * mps_sm_step));
  }
  bool operator==(const Gpu&) const = default;
};

}  // namespace corun
