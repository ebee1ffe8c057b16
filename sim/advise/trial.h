// Settings on one card: each is simulated, under as many seeds as asked, and judged by what was promised.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/advise/advise.h"
#include "sim/run/memory.h"

namespace corun::sim {

class Trial {
 public:
  /// `number` of the card; what is given must outlive it.
  Trial(const AdvisedCard& card, std::size_t number, const AdviseOptions& options) : card_(card), number_(number), options_(options) {}

  /// Each under the first seed.  Throws InputError where the run cannot say whether a promise is kept.
  std::vector<Tried> of(const std::vector<Setting>& settings);
  /// Adds the seeds that are left, up to `seeds`.
  void complete(const std::vector<Tried*>& tried, std::size_t seeds);
  /// True if the promises hold over all seeds.
  bool holds(const Setting& setting);

 private:
  void simulate(Tried& tried, std::size_t seed, RunResult& result, std::string& refused);

  const AdvisedCard& card_;
  std::size_t number_;
  const AdviseOptions& options_;
  Memory memory_;
};

}  // namespace corun::sim
