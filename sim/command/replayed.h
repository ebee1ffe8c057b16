// After an import: is what was recorded what a replay alone gives, and if not, where is the difference?
#pragma once

#include <string>
#include <vector>

#include "traces/import/kineto.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// "recorded 216 ms, replayed 64.6 ms (0.30)", and the kernels' sums; beyond 10 % a warning with the largest causes by
/// name.  One request of the imported program is simulated alone.  Nothing if the GPU is not known.
std::vector<std::string> replay_notes(const Trace& trace, const RecordedTimes& recorded);

/// Of which share of the time of kernels without counters the model knows the class.  Empty: all have
/// counters.
std::string prior_note(const Trace& trace);

}  // namespace corun::sim
