// The one clock unit of the project: integer picoseconds.  1 ps resolves the 602 ps between two blocks that
// an H200 dispatches (1.66 G blocks/s), and a signed 64-bit count of them covers 106 days.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

namespace corun {

using Time = std::chrono::duration<std::int64_t, std::pico>;

inline constexpr Time kNever{std::numeric_limits<std::int64_t>::max()};

/// Nanoseconds as files carry them (fractions allowed, 0.001 ns kept) to Time, rounding half away from zero.
inline Time from_ns(double ns) { return Time{std::llround(ns * 1e3)}; }
inline constexpr double to_ns(Time t) { return static_cast<double>(t.count()) / 1e3; }
inline constexpr double to_ms(Time t) { return static_cast<double>(t.count()) / 1e9; }
inline constexpr double to_seconds(Time t) { return static_cast<double>(t.count()) / 1e12; }

}  // namespace corun
