#include "traces/import/repetition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace corun {
namespace {

using kineto::Call;
using kineto::Nanoseconds;

constexpr std::size_t kTimes = 3;
/// Periods that are tried: the distances that occur most often.
constexpr std::size_t kPeriods = 200;
/// Of the longest stretch a shorter period may miss this share: a first or last round that differs a little.
constexpr double kAsLong = 0.98;

struct Issued {
  const Call* call;
  std::uint64_t what;  // equal for launches of the same kernels
};

/// What the host issued that reached the GPU, in its order.
std::vector<Issued> launches_of(const kineto::Records& records) {
  std::unordered_map<std::uint64_t, const Call*> calls;  // the outer one, by correlation
  for (const Call& call : records.calls) {
    const auto [it, added] = calls.try_emplace(call.correlation, &call);
    if (!added && call.start < it->second->start) it->second = &call;
  }
  std::map<std::uint64_t, std::uint64_t> hash;  // by correlation: of all that it launched
  for (const kineto::GpuOp& op : records.ops) {
    if (!op.correlation || !calls.contains(*op.correlation)) continue;
    const std::uint64_t what = op.kind == kineto::GpuOp::Kind::kernel ? op.shape + 3 : op.bytes << 2 | std::uint64_t(op.kind);
    auto& h = hash[*op.correlation];
    // In any order: branches of a graph run beside each other.
    h += (what + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  }
  std::vector<Issued> launches;
  for (const auto& [correlation, what] : hash) launches.push_back({calls.at(correlation), what});
  std::stable_sort(launches.begin(), launches.end(),
                   [](const Issued& a, const Issued& b) { return a.call->start < b.call->start; });
  return launches;
}

/// Distances between launches of the same kind, the most frequent first.
std::vector<std::size_t> periods_of(const std::vector<Issued>& launches) {
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < launches.size(); ++i) places[launches[i].what].push_back(i);
  std::map<std::size_t, std::size_t> seen;  // by distance
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const auto& of = places[launches[i].what];
    if (of.size() < kTimes || of.front() != i) continue;
    // The kind occurs m times a round: the distances over 1, 2, 4, ... occurrences hold a round.
    for (std::size_t over = 1; over <= 8 && over * kTimes <= of.size(); ++over)
      for (std::size_t k = over; k < of.size(); ++k) ++seen[of[k] - of[k - over]];
  }
  std::vector<std::pair<std::size_t, std::size_t>> by_count;  // {count, distance}
  for (const auto& [distance, n] : seen)
    if (n + 1 >= kTimes && distance * kTimes <= launches.size()) by_count.emplace_back(n, distance);
  std::stable_sort(by_count.begin(), by_count.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (by_count.size() > kPeriods) by_count.resize(kPeriods);
  std::vector<std::size_t> periods;
  for (const auto& [n, distance] : by_count) periods.push_back(distance);
  std::sort(periods.begin(), periods.end());
  return periods;
}

struct Stretch {
  std::size_t period = 0, begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// The longest stretch in which each launch is that of a period before.
Stretch longest(const std::vector<Issued>& launches, std::size_t period) {
  Stretch best{period, 0, 0};
  std::size_t begin = 0;
  for (std::size_t i = 0; i + period <= launches.size(); ++i) {
    const bool same = i + period < launches.size() && launches[i].what == launches[i + period].what;
    if (same) continue;
    if (i > begin && i + period - begin > best.size()) best = {period, begin, i + period};
    begin = i + 1;
  }
  return best.size() >= kTimes * period ? best : Stretch{period, 0, 0};
}

/// Where in the stretch a round begins: after the longest pause of the host, summed over the rounds.
std::size_t beginning(const std::vector<Issued>& launches, const Stretch& stretch) {
  std::vector<Nanoseconds> pause(stretch.period);
  for (std::size_t i = std::max<std::size_t>(stretch.begin, 1); i < stretch.end; ++i) {
    const Call& before = *launches[i - 1].call;
    const Nanoseconds idle = launches[i].call->start - (before.start + before.duration);
    // One long pause, as of a first call that loads code, must not decide.
    pause[(i - stretch.begin) % stretch.period] += std::min(std::max(idle, Nanoseconds{}), Nanoseconds{10'000'000});
  }
  return stretch.begin + static_cast<std::size_t>(std::max_element(pause.begin(), pause.end()) - pause.begin());
}

}  // namespace

Repetition find_repetition(const kineto::Records& records) {
  const std::vector<Issued> launches = launches_of(records);
  std::vector<Stretch> stretches;
  std::size_t most = 0;
  for (const std::size_t period : periods_of(launches)) {
    stretches.push_back(longest(launches, period));
    most = std::max(most, stretches.back().size());
  }
  Repetition found;
  if (most == 0) return found;
  const Stretch& stretch = *std::find_if(stretches.begin(), stretches.end(), [&](const Stretch& s) {
    return static_cast<double>(s.size()) >= kAsLong * static_cast<double>(most);
  });
  found.launches = stretch.period;
  for (std::size_t at = beginning(launches, stretch); at + stretch.period <= stretch.end; at += stretch.period) {
    const Nanoseconds start = launches[at].call->start;
    const Call& last = *launches[at + stretch.period - 1].call;
    // Up to the next round: what the host waits for at the end of one belongs to it.  The last is taken to be as long
    // as the one before, but has all of its launches.
    const Nanoseconds own = last.start + last.duration + Nanoseconds{1} - start;
    const Nanoseconds length = at + stretch.period < launches.size() ? launches[at + stretch.period].call->start - start
                               : found.steps.empty()                 ? own
                                                                     : std::max(own, found.steps.back().duration);
    found.steps.push_back({fmt::format("repetition {}", found.steps.size()), start, length});
  }
  return found;
}

}  // namespace corun
