#include "traces/import/captured_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "traces/import/median.h"
#include "traces/json/spelling.h"

namespace corun {
namespace {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;

/// Ranges without CUPTI, so that their median counts, also beside four times as many with it.
constexpr std::size_t kEnough = 8, kBeside = 4;
/// And beside any number where all their work is of graphs, so that the GPU decides what they take, and their quartiles are within this
/// share of their median.
constexpr double kSteady = 0.05;

bool steady(std::vector<Nanoseconds> times) {
  std::ranges::sort(times);
  const auto at = [&](std::size_t quarter) { return static_cast<double>(times[quarter * (times.size() - 1) / 4].count()); };
  return at(3) - at(1) <= kSteady * at(2);
}

/// Every second one, from `first` on.
std::vector<Nanoseconds> every_second(const std::vector<Nanoseconds>& times, std::size_t first) {
  std::vector<Nanoseconds> found;
  for (std::size_t i = first; i < times.size(); i += 2) found.push_back(times[i]);
  return found;
}

/// Neighbours share the pace of their host, which changes for seconds: of every two one tells what a request
/// takes, and the other is kept back, to hold the replay against.  Of a few all tell.
void tell(const std::vector<Nanoseconds>& times, bool tool_away, kineto::Records& r) {
  const auto [tenth, nine_tenths] = tenths(times);
  r.untraced = {times.size(), tenth, nine_tenths, std::nullopt, tool_away};
  const bool enough = tool_away && times.size() >= 2 * kEnough;
  r.unrecorded_request = lower_median(enough ? every_second(times, 0) : times);
  if (enough) r.untraced.kept_back = lower_median(every_second(times, 1));
}

/// What is launched within them is graphs, but for a few launches.
bool graphs_alone(const std::vector<kineto::Step>& steps, const std::vector<Call>& calls) {
  constexpr std::size_t kFew = 16;
  std::size_t launches = 0, graphs = 0;
  for (const kineto::Step& step : steps) {
    auto call = std::ranges::lower_bound(calls, step.start, {}, &Call::start);
    for (; call != calls.end() && call->start < step.start + step.duration; ++call) {
      launches += call->kind == Call::Kind::launch;
      graphs += call->kind == Call::Kind::graph_launch;
    }
  }
  return graphs > kFew * launches;
}

/// Of those that occur three times, by their time, and no more than are worth a look: outer ones come before inner ones.
std::vector<std::string> longest_ranges(const RangesByName& ranges) {
  constexpr std::size_t kTimes = 3, kTried = 64;
  std::vector<std::pair<Nanoseconds, std::string>> by_time;
  for (const auto& [name, of] : ranges) {
    if (of.steps.size() < kTimes) continue;
    Nanoseconds time{};
    for (const kineto::Step& step : of.steps) time += step.duration;
    by_time.emplace_back(-time, name);
  }
  std::sort(by_time.begin(), by_time.end());
  std::vector<std::string> names;
  for (auto& [time, name] : by_time)
    if (names.size() < kTried) names.push_back(std::move(name));
  return names;
}

/// Empty: none holds four fifths of the work between its first and its last, and a quarter of all.
std::string best_range(const RangesByName& ranges, const kineto::Records& r) {
  std::unordered_map<std::uint64_t, Nanoseconds> issued;
  for (const Call& call : r.calls) issued.try_emplace(call.correlation, call.start);
  Nanoseconds all{}, most{};
  for (const GpuOp& op : r.ops) all += op.duration;
  std::string best;
  for (const std::string& name : longest_ranges(ranges)) {
    std::vector<kineto::Step> steps = ranges.at(name).steps;
    std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    Nanoseconds within{}, between{};
    for (const GpuOp& op : r.ops) {
      const auto call = issued.find(op.correlation.value_or(0));
      const Nanoseconds at = call == issued.end() ? op.start : call->second;
      auto next = std::upper_bound(steps.begin(), steps.end(), at, [](Nanoseconds t, const auto& step) { return t < step.start; });
      if (next == steps.begin()) continue;
      if (const auto& step = *std::prev(next); at < step.start + step.duration) within += op.duration;
      else if (next != steps.end()) between += op.duration;
    }
    if (4 * between <= within && 4 * within >= all && within > most) best = name, most = within;
  }
  return best;
}

}  // namespace

void choose_range(const RangesByName& ranges, const std::string& asked, RecordedProcess& process) {
  if (ranges.empty()) return;
  kineto::Records& r = process.records;
  const std::string chosen = asked.empty() ? best_range(ranges, r) : asked;
  if (const auto known = ranges.find(chosen); known != ranges.end()) {
    const RangesOfName& of = known->second;
    r.steps = of.steps;
    if (of.away.size() >= kEnough && (kBeside * of.away.size() >= of.unrecorded.size() || (steady(of.away) && graphs_alone(of.steps, r.calls)))) {
      tell(of.away, true, r);
      r.added_to_call = r.added_to_node = Nanoseconds{};
    } else if (!of.unrecorded.empty()) {
      tell(of.unrecorded, false, r);
    }
  }
  if (!asked.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, of] : ranges)
    if (names.size() < 6) names.push_back(fmt::format("{} ({})", name, of.count));
  process.notes.push_back(fmt::format("It has ranges of NVTX, {}{}: {}--range takes {}.", fmt::join(names, ", "),
                                      ranges.size() > names.size() ? " and more" : "",
                                      chosen.empty() ? "" : fmt::format("{} is taken as the request; ", in_quotes(chosen)),
                                      chosen.empty() ? "one as the request" : "another"));
}

}  // namespace corun
