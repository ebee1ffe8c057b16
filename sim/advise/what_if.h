// Sensitivity of an advice: the question asked again with one assumption varied each (arrivals, hand-over of requests, seed,
// the model's error), among the settings that came nearest to being named.
//
// Leaves out: two assumptions at once, recorded arrivals, the hand-over of a server's steps, and what lies between the settings of a search.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/advise/advise.h"

namespace corun::sim {

struct WhatIf {
  std::string assumed;  // "Poisson arrivals with queues"
  std::string refused{};  // not empty: it cannot be asked, and why
  bool changes = false;
  std::optional<Tried> named{};    // the advised setting then; of an advice without one: none
  std::optional<Tried> instead{};  // where it changes: what is named then; none: of those asked nothing holds
  double apart = 0;              // where both hold: by which share of the goal `instead` is better
  bool surely = false;           // and by more than the model errs
};

/// Empty where nothing ran.  An advice changes where what it names breaks a promise, or another setting that holds serves the goal
/// better by more than kClose; an advice that nothing holds, where something does.  Throws what `options.interrupt` does.
std::vector<WhatIf> what_would_change(const std::vector<AdvisedCard>& cards, const Advice& advice, const AdviseOptions& options);

}  // namespace corun::sim
