// Which launches of a request are those of the same request recorded otherwise?
//
// Launches are the same where function, grid and block are, in the order of the request: a longest common subsequence.
// Of a function that is left over equally often on both sides the n-th is the n-th, as threads of a host change places.
// Nothing else is taken to be the same.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace corun {

/// A number for each function, grid and block, in the order of the launches.  Returns pairs of places, {in `a`, in `b`}, ascending
/// in `a`.  Takes time for each pair of launches that a common beginning and end leave over, and memory for each launch.
std::vector<std::pair<std::uint32_t, std::uint32_t>> same_launches(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b);

}  // namespace corun
