#include "traces/import/same_launches.h"

#include <algorithm>
#include <map>

namespace corun {
namespace {

using Launches = std::span<const std::uint32_t>;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Of how many `a` and each beginning of `b` have in common (`back`: each end), Hirschberg 1975.
std::vector<std::uint32_t> in_common(Launches a, Launches b, bool back) {
  std::vector<std::uint32_t> row(b.size() + 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint32_t launch = a[back ? a.size() - 1 - i : i];
    std::uint32_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::uint32_t above = row[j];
      row[j] = launch == b[back ? b.size() - j : j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row;
}

void align(Launches a, Launches b, std::uint32_t at_a, std::uint32_t at_b, Pairs& pairs) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    pairs.emplace_back(at_a++, at_b++);
    a = a.subspan(1), b = b.subspan(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    pairs.emplace_back(at_a + a.size() - 1, at_b + b.size() - 1);
    a = a.first(a.size() - 1), b = b.first(b.size() - 1);
  }
  if (a.empty() || b.empty()) return;
  if (a.size() == 1) {
    if (const auto found = std::ranges::find(b, a.front()); found != b.end())
      pairs.emplace_back(at_a, at_b + static_cast<std::uint32_t>(found - b.begin()));
    return;
  }
  const std::size_t half = a.size() / 2;
  const auto before = in_common(a.first(half), b, false), behind = in_common(a.subspan(half), b, true);
  std::size_t cut = 0;
  for (std::size_t j = 0; j <= b.size(); ++j)
    if (before[j] + behind[b.size() - j] > before[cut] + behind[b.size() - cut]) cut = j;
  align(a.first(half), b.first(cut), at_a, at_b, pairs);
  align(a.subspan(half), b.subspan(cut), at_a + static_cast<std::uint32_t>(half), at_b + static_cast<std::uint32_t>(cut), pairs);
}

}  // namespace

Pairs same_launches(Launches a, Launches b) {
  Pairs pairs;
  align(a, b, 0, 0, pairs);
  struct Left {
    std::vector<std::uint32_t> a, b;
  };
  std::map<std::uint32_t, Left> left;
  std::vector<bool> taken_a(a.size()), taken_b(b.size());
  for (const auto& [i, j] : pairs) taken_a[i] = taken_b[j] = true;
  for (std::uint32_t i = 0; i < a.size(); ++i)
    if (!taken_a[i]) left[a[i]].a.push_back(i);
  for (std::uint32_t j = 0; j < b.size(); ++j)
    if (!taken_b[j]) left[b[j]].b.push_back(j);
  for (const auto& [launch, places] : left)
    if (places.a.size() == places.b.size())
      for (std::size_t n = 0; n < places.a.size(); ++n) pairs.emplace_back(places.a[n], places.b[n]);
  std::ranges::sort(pairs);
  return pairs;
}

}  // namespace corun
