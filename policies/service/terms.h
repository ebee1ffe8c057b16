// Words between a service and the programs that it steers, whatever carries them, and its limits on waits.
#pragma once

#include <chrono>
#include <cstdint>

namespace corun::live {

namespace limits {

// Waits for another program; docs/trust.md lists them with those of hw/live/limits.h
inline constexpr auto kOnGpu = std::chrono::seconds(5);  // of a launch on the GPU; then others wait for it no longer
inline constexpr auto kMove = std::chrono::seconds(5);  // for a program to move a block of memory; one that takes longer is let go
inline constexpr auto kMoveGib = std::chrono::seconds(2);  // more for each GiB that the program was ordered to move

}  // namespace limits

/// Attempts of a launch, at most.
inline constexpr std::uint32_t kMostAttempts = 6;

/// Number `a` of a stream is at or behind `b`, also where numbers begin again.
constexpr bool reached(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) >= 0; }

/// An order for a block of a program's device memory.
struct MemoryCommand {
  enum class What : std::uint32_t {
    allocate,    // there is room: its memory is made
    refuse,      // there is no room and will be none
    checkpoint,  // to the host, and its device memory is given back
    restore,     // behind the same address again
    go           // the call that wants memory: all is there; `block`: the call's number
  } what = What::allocate;
  std::uint32_t block = 0, generation = 0;
};

}  // namespace corun::live
