// A recording without marks: which of its launches are one request?  A program that serves or trains in a loop issues the
// same sequence of launches again and again.
#pragma once

#include <cstddef>
#include <vector>

#include "traces/import/kineto_records.h"

namespace corun {

struct Repetition {
  std::vector<kineto::Step> steps;  // "repetition 0", one behind the other
  std::size_t launches = 0;         // of the host, in each
};

/// The longest stretch of launches that repeats a sequence of them at least three times; of equally long ones the
/// shortest sequence.  A repetition begins where the host had the longest pause before.  No steps: nothing repeats.
Repetition find_repetition(const kineto::Records& records);

}  // namespace corun
