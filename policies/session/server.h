// A server of sequences, as of a language model's (continuous batching): which of its captured steps is the next, and
// when each sequence has its tokens.  Prompts are read first, one at a time, in chunks of what was captured; else all
// sequences in the batch get a token.
//
// A decode takes the smallest captured batch that holds the sequences, and of that the smallest context that is at least
// their mean; what exceeds all is taken by the largest.  Leaves out: steps that decode and read prompts at once, the
// cache's memory and what is put off for lack of it, prefixes that are cached.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

class Server {
 public:
  /// `merged`: the client's program, with a part for each step.
  Server(const Serving& serving, const Program& merged);

  /// When the next step can begin: `from`, or when the next sequence comes; kNever: none is left.
  Time next(Time from) const;
  /// The step that begins now: its first operation, and one behind its last.
  std::pair<std::size_t, std::size_t> begin(Time now);
  /// The step has ended; sequences that have all their tokens now.
  std::vector<SequenceRecord> ended(Time now);
  /// At the end of the run: those that have come and not ended.
  std::vector<SequenceRecord> unfinished() const;

 private:
  struct Running {
    std::size_t index;      // into Serving::sequences
    std::uint32_t read = 0;  // of its prompt
    std::uint32_t generated = 0;
    Time last_token{};
    SequenceRecord record;
  };
  std::size_t decode_step() const;
  std::size_t prefill_step(std::uint32_t tokens) const;
  std::pair<std::size_t, std::size_t> range(std::size_t step) const;

  const Serving& serving_;
  const Program& program_;
  std::size_t next_sequence_ = 0;
  std::vector<Running> batch_;  // the last one's prompt may be unread yet
  std::uint32_t reads_ = 0;     // tokens of the prefill under way; 0: a decode
};

}  // namespace corun
