// How much of what was measured a test simulates: `make test` a part, `make test-all` all of it, within the same bounds.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace corun {

inline bool whole() { return std::getenv("CORUN_WHOLE") != nullptr; }

/// Every n-th, from the first one on, or all.
template <class T>
std::vector<T> part(std::vector<T> all, std::size_t n) {
  if (whole()) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < all.size(); i += n) some.push_back(std::move(all[i]));
  return some;
}

}  // namespace corun
