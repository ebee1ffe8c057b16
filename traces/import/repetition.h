// A recording without marks: which of its launches are one request?  A program that serves or trains in a
// loop issues the same sequence of launches again and again.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "traces/import/kineto_records.h"

namespace corun {

struct Repetition {
  std::vector<kineto::Step> steps;  // "repetition 0", one behind the other
  std::size_t launches = 0;         // of the host, in each
  /// From the end of a round, where the host had waited, to the next round's first launch; the lower
  /// quartile.
  kineto::Nanoseconds between{};
  bool between_is_work = false;  // so the steps begin by that much before the first launch
};

/// Of the segments in which a sequence of launches, and of the host's waits for them, repeats at least three
/// times: the one with most time of kernels; of nearly equal ones that of the shortest sequence.  A round
/// begins after a wait of the host, where it has any, and there after the longest pause.  The host is taken
/// to work between rounds if that takes no longer than the round itself, else to wait for requests.  No
/// steps: nothing repeats.
Repetition find_repetition(const kineto::Records& records);

struct UnrecordedRound {
  kineto::Nanoseconds median{};
  kineto::Untraced untraced;
};

/// What a step of it took while only calls were recorded: of the rounds of the same calls in the same order.
/// Nothing: there are fewer than three, or the host does not wait at their end.
std::optional<UnrecordedRound> unrecorded_round(const kineto::Records& records, const Repetition& repetition);

}  // namespace corun
