// What a backend tells while a test lets it run.
#pragma once

#include <variant>
#include <vector>

#include "policies/api/backend.h"

namespace corun {

/// All notices until `duration` from the backend's now.
inline std::vector<Notice> told_within(Backend& backend, Time duration) {
  std::vector<Notice> all;
  const Time until = backend.now() + duration;
  while (backend.now() < until) backend.wait(until, all);
  return all;
}

/// Those of one kind.
template <class N>
std::vector<N> only(const std::vector<Notice>& notices) {
  std::vector<N> found;
  for (const Notice& n : notices)
    if (const auto* it = std::get_if<N>(&n)) found.push_back(*it);
  return found;
}

}  // namespace corun
