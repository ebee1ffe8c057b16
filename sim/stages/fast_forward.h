// Waves that repeat: while each block that ends is replaced at once, on the same SM, by the next one of its
// task and of the same length, and no other task comes or goes, one wave is like the one before.  This looks
// how many may be skipped, and changes nothing; exact to the tick.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/stages/completion_queue.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

/// Since when the residents of the SMs are what they are.
class ResidencyHistory {
 public:
  void changed(TaskId by, Time now) {
    CORUN_EXPECTS_SLOW(now >= last_change_);
    if (sole_ != by) {
      sole_ = by;
      sole_since_ = now;
    }
    last_change_ = now;
  }
  /// The task's number is another's from now on.
  void forget(TaskId task) {
    if (sole_ == task) sole_ = kNoTask;
  }
  /// Whether nobody's blocks but the task's came or went since then.
  bool only(TaskId task) const { return sole_ == task; }
  Time only_since() const { return sole_since_; }
  Time last_change() const { return last_change_; }

 private:
  TaskId sole_ = kNoTask;  // whose block came or went last
  Time sole_since_{}, last_change_{};
};

struct WaveJump {
  std::int64_t time;        // ps
  std::uint64_t blocks;     // that start and end meanwhile
  std::uint32_t residents;  // of a wave
  Time last_end;
};

/// Of the task at the head of the table (or a persistent one), whose blocks are in `fifo`.  `due`: when
/// something else happens.
std::optional<WaveJump> waves_to_skip(TaskId id, const Task& task, const Work& work,
                                      const CompletionQueue::Fifo& fifo, const ResidencyHistory& history,
                                      Time due);

}  // namespace corun::sim
