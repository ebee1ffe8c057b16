#include "sim/run/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace corun::sim {

void in_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> thrown(count);
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        job(i);
      } catch (...) {
        thrown[i] = std::current_exception();
        next = count;  // those before i have begun already
      }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < std::min<std::size_t>(threads, count); ++i) helpers.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

void in_parallel(std::size_t count, unsigned threads,
                 const std::function<void(std::size_t job, double share)>& ended,
                 const std::function<void(std::size_t)>& job) {
  std::mutex telling;
  double done = 0;
  in_parallel(count, threads, [&](std::size_t i) {
    job(i);
    const std::scoped_lock lock(telling);
    ended(i, ++done / static_cast<double>(count));
  });
}

}  // namespace corun::sim
