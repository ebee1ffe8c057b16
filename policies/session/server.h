// A server of sequences, as of a language model's (continuous batching): which of its captured steps is the
// next, and when each sequence has its tokens.  Prompts are read first, one at a time, in chunks of what was
// captured; else all sequences in the batch get a token.
//
// A step takes what lies between the captured steps around its size (step_times.h): the tokens of a prompt,
// or the sequences of a decode and the mean of their contexts, of a server that pads the longest.  A decode
// outside of all that was captured follows their law; a longer prompt is read chunk by chunk, behind what the
// prefix cache has of it.  Leaves out: steps that decode and read prompts at once, and what is put off for lack of
// the cache's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policies/session/prefix_cache.h"
#include "policies/session/step_times.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

class Server {
 public:
  /// `merged`: the client's program, with a part for each step.  It and the client, which serves, must outlive this.
  Server(const Client& client, const Program& merged, std::span<const Kernel> kernels);

  /// When the next step can begin: `from`, or when the next sequence comes; kNever: none is left.
  Time next(Time from) const;
  /// The step that begins now: its first operation, and one behind its last.
  std::pair<std::size_t, std::size_t> begin(Time now);
  /// Of a launch of the step that runs, in a trace that says it takes `own`.
  Time solo_time(OpId op, Time own) const { return times_.solo_time(step_, op, own); }
  /// The step has ended; sequences that have all their tokens now.
  std::vector<SequenceRecord> ended(Time now);
  /// At the end of the run: those that have come and not ended.
  std::vector<SequenceRecord> unfinished() const;

 private:
  struct Running {
    std::size_t index;      // into Serving::sequences
    std::uint32_t read = 0;  // of its prompt, what was cached too
    std::uint32_t generated = 0;
    Time last_token{};
    SequenceRecord record;
  };
  StepTimes::Choice decode() const;
  std::pair<std::size_t, std::size_t> range() const;

  const Serving& serving_;
  const Program& program_;
  StepTimes times_;
  std::optional<PrefixCache> prefixes_;
  StepTimes::Choice step_;  // the one under way
  std::size_t next_sequence_, among_;  // of all, of which each so many-th is its own
  std::vector<Running> batch_;  // the last one's prompt may be unread yet
  std::uint32_t reads_ = 0;     // tokens of the prefill under way; 0: a decode
};

}  // namespace corun
