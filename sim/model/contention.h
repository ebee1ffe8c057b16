// How fast blocks run beside others: what they wait for, and what they leave each other.
//
// A block's time is R + D.  R is its time at its SM's issue slots, queueing included: the SM's residents are
// a closed network of one server (the slots) and one delay, in the approximation of Bard and Schweitzer.
// That holds for what comes to the slots at random; warps that issue at even steps wait for each other only
// where the slots cannot serve all (`arrival_randomness`).  D is the delay: work that nobody stretches, and
// waits for L2 and DRAM, which all clients stretch together: F (DRAM) and G (L2) grow with the use of each,
// and the use falls as blocks wait longer, so all follow from the residents (`share_memory`).  What a launch
// re-reads from L2 it loses to DRAM as the others fill the cache.
//
// Behind the slots lie pipes: of FP64, of special functions, of the data of L1 and shared memory, and others.
// R is the time at the one that a block needs most.  Beside other launches a block is held up where it waits
// longest for them: at the slots, or at a pipe that both need.
//
// Times are in picoseconds, computed with + - * / and sqrt alone, so that results are the same anywhere.
//
// Leaves out: the tensor pipe, what others leave of the contents of L1, address translation, and that stores
// go by age too.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "traces/model/gpu.h"

namespace corun::sim {

/// What an SM has once for all its blocks: the issue slots, and the pipes behind them.
inline constexpr std::size_t kSlots = 0, kFp64 = 1, kL1 = 2, kAlu = 3, kFma = 4, kXu = 5;
inline constexpr std::size_t kPipes = 6;
/// A block's time at each, over that at the one which it needs most.
using PipeUse = std::array<double, kPipes>;
inline constexpr PipeUse kSlotsAlone{1};
inline constexpr PipeUse kAllOfIt{1, 1, 1, 1, 1, 1};

/// What a block asks of its SM.
struct SmLoad {
  double issue_ps = 0;  // of what it needs most of its SM: the issue slots, or a pipe
  double fixed_ps = 0;  // that nobody stretches
  double arrival_randomness =
      1;  // 0: it comes to the slots when they are free if ever they are; 1: at random
  bool processor_sharing = false;  // it stalls too often for its age to count at the slots
  bool tensor = false;             // slows the clock for all
  double wgmma_sms = 0;            // not 0: it is at wgmma, and had these in its time alone
  double wgmma_share = 0;          // of that time, which is shorter where fewer SMs are at wgmma
  double clock_ratio = 1;          // the highest clock over that for which `issue_ps` and `fixed_ps` are
  double energy_pj = 0;            // at the highest clock
  double oldest_served = 0;        // not 0: blocks that an SM's slots serve at a time, oldest first
  PipeUse uses = kSlotsAlone;
  PipeUse accounted = kAllOfIt;  // share of it that counters account for: the rest it waits for by itself
  bool operator==(const SmLoad&) const = default;
};

/// What a block asks of the memory that all SMs share.
struct MemoryLoad {
  double wait_ps = 0;         // for memory if all were L2 hits, unloaded
  double read_bytes = 0;      // from DRAM even with an empty company in L2
  double reread_bytes = 0;    // that come from L2 if they survive there between two uses
  double write_bytes = 0;     // to DRAM
  double l2_read_bytes = 0;   // read through L2
  double l2_ps = 0;           // of the whole GPU's L2
  double dram_cost_ratio = 1;  // what its bytes cost beside streamed ones
  double uncached_share = 1;  // of what it reads and writes: not in L2 from the launch before
  bool staged = false;        // through shared memory, ahead of use: only what misses is waited for
  bool random = false;        // reads single sectors
  bool operator==(const MemoryLoad&) const = default;
};

/// Where the blocks of a launch are when it is alone.
struct LaunchExtent {
  std::uint32_t residents = 0;  // blocks an SM
  std::uint32_t sms = 0;        // that it may use
  double blocks = 0;            // of the launch
  std::uint64_t places = 0;     // blocks on all its SMs, if it had more
  bool operator==(const LaunchExtent&) const = default;
  /// At most at a time, and the SMs that have any.
  double blocks_alone() const { return std::min(blocks, static_cast<double>(places)); }
  double sms_alone() const { return std::min(static_cast<double>(sms), blocks_alone() / residents); }
};

/// What one block of a launch asks for, and what it takes alone.
struct BlockLoad {
  SmLoad sm;
  MemoryLoad memory;
  LaunchExtent extent;
  double delay_alone_ps = 0;  // D and R + D when the launch is alone
  double alone_ps = 0;

  bool operator==(const BlockLoad&) const = default;
  bool contends() const { return alone_ps > 0; }
  /// Uses what all SMs share.
  bool presses() const {
    return sm.tensor || memory.l2_ps > 0 || memory.read_bytes > 0 || memory.reread_bytes > 0 ||
           memory.write_bytes > 0;
  }
};

struct DramLimits {
  double read_bytes_per_ps = 0, write_bytes_per_ps = 0;
  double over_l2_ratio = 0;  // latency of a DRAM access over that of an L2 hit
  double latency_ps = 0;
  double read_queueing = 0;  // F = 1 + (these, by the share of writes) * use / sqrt(1 - use)
  double write_queueing = 0;
  double queue_full_use = 0;  // of use at most this: what finds the queues full backs up before L2,
  double backlog = 0;         //     + this * use / (1 - use), which L2 hits meet too
};
struct L2Limits {
  double read_bytes_per_ps = 0, write_bytes_per_ps = 0;
  double queueing = 0;  // G
  double sector_cost_ratio = 0;
  double wait_ps = 0;
  double own_bytes = 0;         // of lines that one SM uses
  double shared_bytes = 0;      // of lines that all SMs use: each half keeps a copy
  double first_loss_bytes = 0;  // the smallest footprint that loses private re-reads
  double dirty_bytes = 0;
};
/// An SM's ports and slots, and what all launches meet.
struct SmRates {
  double read_bytes_per_ps = 0, write_bytes_per_ps = 0, sector_bytes_per_ps = 0;
  double issue_by_age = 0;
  double tensor_clock_ratio = 0;
  double wgmma_least = 1;  // as of `Contention`
  double sms = 0;          // of the GPU
  double launch_cost_ps = 0;
};
/// The GPU's `Contention`.
struct MemoryLimits {
  DramLimits dram;
  L2Limits l2;
  SmRates sm;
};
MemoryLimits limits_of(const Gpu& gpu);

/// How long a launch's own traffic is between two uses of what it re-reads, as a share of what its resident
/// blocks move.
inline constexpr double kOwnTurnover = 0.4;
/// Share that is still in L2 if `bytes` have come since: all below `shared`, none above `all`.
double survival(double bytes, double shared, double all);

/// A launch with blocks on the GPU.
struct Contender {
  const BlockLoad* load;
  double blocks;     // on all SMs
  double sms;        // that have any
  double delay_ps = 0;  // out: D of its blocks
  double issue_ps = 0;  // out: of issue slots, of a block
};
struct MemoryUse {
  double dram = 0;     // 0 to 1
  double latency_inflation = 1;  // F, of what waits for DRAM
};
MemoryUse share_memory(std::span<Contender> contenders, const MemoryLimits& limits);

/// What the blocks of a launch meet at the memory, part by part.
struct Met {
  double clock = 1;    // the clock's slowing by others
  double missing = 0;  // share of its waits that is for DRAM, L2 having lost what it re-reads
  double l2 = 1;       // G without the backlog
  double dram = 1;     // F without the backlog
  double backlog = 0;  // of DRAM's queues
  bool operator==(const Met&) const = default;
};
/// The same balance as `share_memory`, told part by part.
void meet(std::span<const Contender> contenders, const MemoryLimits& limits, std::span<Met> met);
/// D of a block that meets that.
double delay_of(const BlockLoad& load, const Met& met, const MemoryLimits& limits);

/// Its DRAM traffic, bytes a block, if what it re-reads survives in L2.
inline double bytes_moved(const BlockLoad& load) { return (load.memory.read_bytes + load.memory.write_bytes) * load.memory.uncached_share; }

/// Sets `alone_ps` and `delay_alone_ps` for the number of SMs that the launch may use.
void settle_alone(BlockLoad& load, const MemoryLimits& limits);

/// The same where the clock is the highest one over `clock_ratio`.
void slow_down(BlockLoad& load, double clock_ratio, const MemoryLimits& limits);

/// Time of a block of a launch that has its SM to itself, `blocks` there.
double alone_on_sm(double issue, double blocks, double delay, double arrival_randomness = 1);

/// Launches on one SM, the one with the older blocks first.
struct SmShare {
  double issue_ps, delay_ps;
  std::uint32_t blocks;
  double time_ps = 0;  // out: of a block
  double arrival_randomness = 1;
  PipeUse uses = kSlotsAlone, accounted = kAllOfIt;
};
/// When the blocks of a launch on an SM started, ps.
struct Starts {
  std::int64_t mean, first, last;
};
/// How far the blocks of two launches are apart in age: 0 where they came in turn, kMostApart where those of
/// one came long before those of the other.
inline constexpr std::uint32_t kMostApart = 7;
/// Instead, where the age of the older ones counts for nothing.
inline constexpr std::uint32_t kProcessorSharing = kMostApart + 1;
std::uint32_t apart(const Starts& older, const Starts& younger);
/// The slots and pipes go to the oldest first, the more strictly the further the launches are `apart`.
void share_sm(std::span<SmShare> shares, std::uint32_t apart, const MemoryLimits& limits);

}  // namespace corun::sim
