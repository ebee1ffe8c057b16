// What the launches of a server's step take at a size between those that were captured: what lies between
// their times at the captured sizes around it.  The program is that of the larger size, whose launches keep
// their shapes.
//
// A launch of one size is compared with the launch that has its place in another size's program, where both
// have as many. Otherwise all launches are shortened alike, so that together they take what lies between the
// totals.
//
// A size counts in eighths of the way between its neighbours, so that of each launch few different times
// occur.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "traces/model/trace.h"

namespace corun {

class StepTimes {
 public:
  /// `merged`: the client's program, with a part for each step.
  StepTimes(const Serving& serving, const Program& merged, std::span<const Kernel> kernels);

  /// A step as it runs: the program of one captured step, and the times of up to four.
  struct Choice {
    struct Part {
      std::size_t step;
      std::int64_t weight;  // of kWhole in all
    };
    std::size_t program = 0;  // the step's
    std::vector<Part> parts;
  };
  static constexpr std::int64_t kWhole = 64;

  Choice prompt(std::uint32_t tokens) const;
  Choice decode(std::uint32_t batch, std::uint32_t context) const;
  /// Of a launch of the choice's program that was captured with `own`.
  Time solo_time(const Choice& choice, OpId op, Time own) const;

  std::uint32_t largest_prompt() const { return rows_.at(0).back().size; }

 private:
  struct Captured {
    std::uint32_t size;
    std::size_t step;
  };
  struct OfStep {
    std::vector<Time> launches;  // in the program's order; negative: not known
    Time total{};
  };

  /// By batch, ascending in context; 0: prompts, ascending in tokens.
  std::map<std::uint32_t, std::vector<Captured>> rows_;
  std::vector<OfStep> steps_;
  std::vector<std::uint32_t> place_;  // of an operation, among its step's launches
};

}  // namespace corun
