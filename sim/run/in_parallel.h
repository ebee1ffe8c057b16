// Independent runs on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace corun::sim {

/// Calls `job(i)` for each i below `count`, on `threads` threads (0: one a core).  Throws what the first of the
/// jobs threw.
void in_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job);
/// `ended` is told of each job that has ended and what share of all have, one at a time.
void in_parallel(std::size_t count, unsigned threads,
                 const std::function<void(std::size_t job, double share)>& ended,
                 const std::function<void(std::size_t)>& job);

}  // namespace corun::sim
