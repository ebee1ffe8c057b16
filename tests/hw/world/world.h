// A world: a service, programs, strangers and a GPU in one thread, and what befalls them, all of it by one number.  Service and
// library are what is shipped.
//
// Looked at all the time: each launch that the driver took runs once, in the order of its stream, and no graph has what its program
// did not put there; nobody uses what has gone; pages stay as long as they were; a program that has ended is forgotten; nobody who
// lives is held for longer than others' work and the deadlines of hw/live/limits.h explain.  In the end the books are empty.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/hw/world/machine.h"

namespace corun::world {

struct Outcome {
  std::string wrong;  // empty: nothing is
  std::string policy;
  std::uint64_t digest = 0;  // of all that happened, in its order
  Ns lasted{};
  std::uint64_t launches = 0;
  std::uint32_t befell = 0;
  std::map<std::string, std::uint64_t> counts{};  // what it came to, and how often
};

/// `tells`: on standard output.
Outcome play(std::uint64_t seed, const Plants& plants = {}, bool tells = false);

}  // namespace corun::world
