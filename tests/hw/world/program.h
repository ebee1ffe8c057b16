// A program of the world: it launches, waits, captures, destroys streams and resets its context through the library that is shipped,
// and is not told what befalls it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/hw/world/machine.h"

namespace corun::world {

struct Plan {
  std::string name;
  bool real_time = false;
  std::uint32_t threads = 1, streams = 2, requests = 6;
  Ns begins{};
  bool resets = false, captures = false, destroys = false, hangs = false;
  std::uint32_t blocks = 0, units = 0;  // of device memory, each of so many kBlockUnit at most
  std::uint64_t seed = 0;
};
/// `units`: that the service gives all programs; 0: it decides nothing about memory.
Plan any_plan(Random& random, const std::string& name, std::uint32_t units, bool one_block);

class Stage;
std::shared_ptr<Process> begin_program(Stage& stage, const Plan& plan);

/// What a child of a program does for so long: nothing, and it has nothing of its parent's.
void live_as_child(Ns how_long);

/// Clients that are none of the library's: a word too few, too many, none, of another user, or any bytes in the page.
void come_as_stranger(std::uint64_t seed);
constexpr std::uint32_t kStrangers = 8;

}  // namespace corun::world
