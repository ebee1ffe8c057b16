// What the launches of a server's step take at a size between those that were captured: what lies between
// their times at the captured sizes around it.  The program is that of the larger size, whose launches keep
// their shapes.
//
// A launch of one size is compared with the launch that has its place in another size's program, where both
// have as many. Otherwise all launches are shortened alike, so that together they take what lies between the
// totals.
//
// Outside of the captured sizes a decode follows a law of them all, by least squares: what weights and the rest
// take, what each sequence adds, and what each token that is read of the cache adds.  The launches that grow
// among the captured sizes take what is more.  Of a prompt that follows tokens which are in the cache, the
// launches named as attention also read those: as many pairs of tokens more take as much longer.
//
// A size counts in eighths of the way between its neighbours, and what is more in sixty-fourths of itself, so that
// of each launch few different times occur.  Leaves out: that products need more tiles at larger batches than
// were captured, and attention made of several kernels.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
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
    Time more{};              // than the parts: what the growing launches of the program take
    bool uncaptured = false;  // a decode of a batch or context outside of all
  };
  static constexpr std::int64_t kWhole = 64;

  /// `before`: tokens of the sequence that are in the cache already.
  Choice prompt(std::uint32_t tokens, std::uint32_t before = 0) const;
  Choice decode(std::uint32_t batch, std::uint32_t context) const;
  /// Of a launch of the choice's program that was captured with `own`.
  Time solo_time(const Choice& choice, OpId op, Time own) const;

  /// The growth of decodes outside of the captured sizes, and of prompts behind others, for a note.
  std::string decodes_in_words() const;
  std::string prompts_in_words() const;

  std::uint32_t largest_prompt() const { return rows_.at(0).back().size; }

 private:
  struct Captured {
    std::uint32_t size;
    std::size_t step;
  };
  struct OfStep {
    std::vector<Time> launches;  // in the program's order; negative: not known
    std::vector<double> grows;   // of what is more, each launch's share; empty: all alike
    Time total{};
  };
  /// A decode's time in ps: constant + of_sequence * batch + of_token * batch * context.
  struct Law {
    double constant = 0, of_sequence = 0, of_token = 0;
    std::size_t batches = 0, contexts = 0;  // captured
    bool known() const { return batches * contexts > 1; }
  };
  void fit(const Serving& serving);
  void find_growth(const Serving& serving);
  void find_attention(const Serving& serving, const Program& merged, std::span<const Kernel> kernels);

  /// By batch, ascending in context; 0: prompts, ascending in tokens.
  std::map<std::uint32_t, std::vector<Captured>> rows_;
  std::vector<OfStep> steps_;
  Law law_;
  double attention_ = 0;        // of the largest prompt: ps of a pair of tokens
  double attention_share_ = 0;  // of its time
  std::vector<std::uint32_t> place_;  // of an operation, among its step's launches
};

}  // namespace corun
