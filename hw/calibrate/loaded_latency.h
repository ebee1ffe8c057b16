// The factors of the contention model's waits for memory, from how long lone loads take beside loads of the
// memory.
#pragma once

#include <span>

namespace corun::hw {

/// What lone loads met beside one load.
struct LoadedLatency {
  enum class Load { reads, writes, copies, l2_reads };
  Load load = Load::reads;
  double use = 0, writes = 0,
         l2_use = 0;        // of DRAM, the share of writes in it, of L2; as the model counts them
  double dram = 1, l2 = 1;  // times as long as alone
};

/// What a card's memory does where nothing else is asked of it, bytes per second.
struct MemoryRates {
  double read = 0, write = 0, l2_read = 0, l2_write = 0;
};
/// With the uses that the model says of that load at this rate; its latencies are as alone.
LoadedLatency as_the_model_counts(LoadedLatency::Load load, double bytes_per_second,
                                  const MemoryRates& rates);

struct QueueingFactors {
  double read = 0.1, write = 0.5, full_use = 0.9, backlog = 0.01, l2 = 0.2;
};

/// The factors with which the model's form comes nearest, by least squares of logarithms, each of the four
/// loads as much as the others.  Use is a share of the most that a load of its kind makes.  Where DRAM is
/// full it says nothing of the backlog: there it is what suits both latencies best.
QueueingFactors fit_queueing(std::span<const LoadedLatency> all, double dram_over_l2);

}  // namespace corun::hw
