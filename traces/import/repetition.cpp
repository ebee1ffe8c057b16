#include "traces/import/repetition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "traces/import/median.h"

namespace corun {
namespace {

using kineto::Call;
using kineto::Nanoseconds;

constexpr std::size_t kTimes = 3;
/// Periods that are tried: the distances that occur most often.
constexpr std::size_t kPeriods = 200;
/// Of the longest segment a shorter period may miss this share: a first or last round that differs a little.
constexpr double kAsLong = 0.98;
constexpr std::uint64_t kWait = 1;  // Issued::what of a wait

/// What the host issued that reached the GPU, or its wait for that.
struct Issued {
  const Call* call;
  std::uint64_t what;       // equal for launches of the same kernels
  bool waits = false;       // the call returns when the GPU is through
  Nanoseconds gpu{}, end{};  // time of its kernels, in all; end of all

  Nanoseconds returned() const { return call->start + call->duration; }
};

/// In the host's order.  With waits: also these, of several in a row the last.
std::vector<Issued> issued_by(const kineto::Records& records, bool with_waits) {
  std::unordered_map<std::uint64_t, const Call*> calls;  // the outer one, by correlation
  for (const Call& call : records.calls) {
    const auto [it, added] = calls.try_emplace(call.correlation, &call);
    if (!added && call.start < it->second->start) it->second = &call;
  }
  std::map<std::uint64_t, Issued> launched;  // by correlation
  for (const kineto::GpuOp& op : records.ops) {
    if (!op.correlation || !calls.contains(*op.correlation) || op.migration) continue;
    const std::uint64_t what = op.kind == kineto::GpuOp::Kind::kernel ? op.shape + 3 : op.bytes << 2 | std::uint64_t(op.kind);
    const Call* call = calls.at(*op.correlation);
    Issued& issued = launched.try_emplace(*op.correlation, Issued{call, 0}).first->second;
    // In any order: branches of a graph run beside each other.
    issued.what += (what + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
    issued.waits = call->kind == Call::Kind::copy_and_wait;
    if (op.kind == kineto::GpuOp::Kind::kernel) issued.gpu += op.duration;
    issued.end = std::max(issued.end, op.start + op.duration);
  }
  std::vector<Issued> all;
  for (const auto& [correlation, launch] : launched) all.push_back(launch);
  if (with_waits)
    for (const auto& [correlation, call] : calls)
      if (call->kind == Call::Kind::synchronize) all.push_back({call, kWait, true});
  std::sort(all.begin(), all.end(), [](const Issued& a, const Issued& b) {
    return a.call->start != b.call->start ? a.call->start < b.call->start : a.call->correlation < b.call->correlation;
  });
  std::vector<Issued> kept;
  for (const Issued& issued : all) {
    if (issued.what == kWait && !kept.empty() && kept.back().what == kWait) kept.pop_back();
    kept.push_back(issued);
  }
  return kept;
}

/// Distances between launches of the same kind, the most frequent first.
std::vector<std::size_t> periods_of(const std::vector<Issued>& issued) {
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < issued.size(); ++i) places[issued[i].what].push_back(i);
  std::map<std::size_t, std::size_t> seen;  // by distance
  for (std::size_t i = 0; i < issued.size(); ++i) {
    const auto& of = places[issued[i].what];
    if (of.size() < kTimes || of.front() != i) continue;
    // The kind occurs m times a round: the distances over 1, 2, 4, ... occurrences hold a round.
    for (std::size_t over = 1; over <= 8 && over * kTimes <= of.size(); ++over)
      for (std::size_t k = over; k < of.size(); ++k) ++seen[of[k] - of[k - over]];
  }
  std::vector<std::pair<std::size_t, std::size_t>> by_count;  // {count, distance}
  for (const auto& [distance, n] : seen)
    if (n + 1 >= kTimes && distance * kTimes <= issued.size()) by_count.emplace_back(n, distance);
  std::stable_sort(by_count.begin(), by_count.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (by_count.size() > kPeriods) by_count.resize(kPeriods);
  std::vector<std::size_t> periods;
  for (const auto& [n, distance] : by_count) periods.push_back(distance);
  std::sort(periods.begin(), periods.end());
  return periods;
}

struct Segment {
  std::size_t period = 0, begin = 0, end = 0;
  Nanoseconds gpu{};
};

/// The segment with most time of the GPU in which each launch is that of a period before.
Segment longest(const std::vector<Issued>& issued, const std::vector<Nanoseconds>& gpu_before, std::size_t period) {
  Segment best{period};
  std::size_t begin = 0;
  for (std::size_t i = 0; i + period <= issued.size(); ++i) {
    const bool same = i + period < issued.size() && issued[i].what == issued[i + period].what;
    if (same) continue;
    const std::size_t end = i + period;
    const Nanoseconds gpu = gpu_before[end] - gpu_before[begin];
    if (i > begin && end - begin >= kTimes * period && gpu > best.gpu) best = {period, begin, end, gpu};
    begin = i + 1;
  }
  return best;
}

/// Without a period: nothing repeats.
Segment best_of(const std::vector<Issued>& issued) {
  std::vector<Nanoseconds> gpu_before(1);
  for (const Issued& one : issued) gpu_before.push_back(gpu_before.back() + one.gpu);
  std::vector<Segment> segments;
  Nanoseconds most{};
  for (const std::size_t period : periods_of(issued)) {
    segments.push_back(longest(issued, gpu_before, period));
    most = std::max(most, segments.back().gpu);
  }
  const auto found = std::find_if(segments.begin(), segments.end(), [&](const Segment& s) {
    return most > Nanoseconds{} && static_cast<double>(s.gpu.count()) >= kAsLong * static_cast<double>(most.count());
  });
  return found == segments.end() ? Segment{} : *found;
}

/// Where in the segment a round begins: after the longest pause of the host, summed over the rounds; after a wait, where
/// there are any.
std::size_t beginning(const std::vector<Issued>& issued, const Segment& segment) {
  std::vector<Nanoseconds> pause(segment.period);
  std::vector<bool> after_wait(segment.period);
  for (std::size_t i = std::max<std::size_t>(segment.begin, 1); i < segment.end; ++i) {
    const std::size_t at = (i - segment.begin) % segment.period;
    const Nanoseconds idle = issued[i].call->start - issued[i - 1].returned();
    // One long pause, as of a first call that loads code, must not decide.
    pause[at] += std::min(std::max(idle, Nanoseconds{}), Nanoseconds{10'000'000});
    if (i > segment.begin) after_wait[at] = issued[i - 1].waits;
  }
  const bool any_wait = std::find(after_wait.begin(), after_wait.end(), true) != after_wait.end();
  std::size_t best = 0;
  for (std::size_t at = 0; at < segment.period; ++at)
    if ((!any_wait || after_wait[at]) && ((any_wait && !after_wait[best]) || pause[at] > pause[best])) best = at;
  return segment.begin + best;
}

/// Since when a round's host had nothing to wait for any more: a wait returned, or, where none is seen, the GPU was done.
Nanoseconds round_over(const std::vector<Issued>& issued, std::size_t begin, std::size_t end) {
  Nanoseconds over = issued[end - 1].returned();
  if (!issued[end - 1].waits)
    for (std::size_t i = begin; i < end; ++i) over = std::max(over, issued[i].end);
  return over;
}

using Kind = Call::Kind;

bool counts(const Call& call) { return call.kind != Kind::query && call.kind != Kind::event_record && call.kind != Kind::event_wait; }

/// Those that issue work or wait for it, the outer ones, in the host's order; of several waits in a row the last.
std::vector<Call> outer_calls(const std::vector<Call>& calls) {
  std::vector<Call> sorted = calls, kept;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Call& a, const Call& b) { return a.start < b.start; });
  std::unordered_set<std::uint64_t> seen;
  for (const Call& call : sorted) {
    if (!counts(call) || !seen.insert(call.correlation).second) continue;
    if (call.kind == Kind::synchronize && !kept.empty() && kept.back().kind == Kind::synchronize) kept.pop_back();
    kept.push_back(call);
  }
  return kept;
}

}  // namespace

std::optional<UnrecordedRound> unrecorded_round(const kineto::Records& records, const Repetition& repetition) {
  if (repetition.steps.empty()) return std::nullopt;
  std::vector<kineto::Step> steps = repetition.steps;
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.duration < b.duration; });
  const kineto::Step& typical = steps[(steps.size() - 1) / 2];
  std::vector<Kind> round;
  for (const Call& call : outer_calls(records.calls))
    if (call.start >= typical.start && call.start < typical.start + typical.duration) round.push_back(call.kind);
  if (round.empty()) return std::nullopt;
  const auto waits = [](Kind kind) { return kind == Kind::synchronize || kind == Kind::copy_and_wait; };
  // Of a host that is seen to wait for nothing, and still begins a round after the GPU has ended the one
  // before, a round lasts until the next one.
  const bool unseen = std::none_of(round.begin(), round.end(), waits) && repetition.between_is_work &&
                      repetition.between > Nanoseconds{};
  if (!unseen && !waits(round.back())) return std::nullopt;
  const std::vector<Call> calls = outer_calls(records.unrecorded_calls);
  const auto returned = [&](std::size_t i) { return calls[i].start + calls[i].duration; };
  std::vector<Nanoseconds> took, leads, periods;
  for (std::size_t at = 0, last = 0; at + round.size() <= calls.size();) {
    const bool same = std::equal(round.begin(), round.end(), calls.begin() + static_cast<std::ptrdiff_t>(at),
                                 [](Kind kind, const Call& call) { return kind == call.kind; });
    if (!same) {
      ++at;
      continue;
    }
    if (!took.empty() && last == at) {
      leads.push_back(std::max(Nanoseconds{}, calls[at].start - returned(at - 1)));
      periods.push_back(calls[at].start - calls[at - round.size()].start);
    }
    last = at + round.size();
    took.push_back(returned(last - 1) - calls[at].start);
    at = last;
  }
  const auto told = [](const std::vector<Nanoseconds>& times, Nanoseconds more) {
    const auto [tenth, nine_tenths] = tenths(times);
    return UnrecordedRound{lower_median(times) + more, {times.size(), tenth + more, nine_tenths + more}};
  };
  if (unseen) return periods.size() < kTimes ? std::nullopt : std::optional(told(periods, {}));
  if (took.size() < kTimes || leads.empty()) return std::nullopt;
  std::sort(leads.begin(), leads.end());
  return told(took, repetition.between_is_work ? leads[leads.size() / 4] : Nanoseconds{});
}

Repetition find_repetition(const kineto::Records& records) {
  std::vector<Issued> issued = issued_by(records, true);
  Segment segment = best_of(issued);
  // Waits of other threads come at any time: without them far more may repeat.
  std::vector<Issued> launches = issued_by(records, false);
  if (const Segment without = best_of(launches); 2 * segment.gpu < without.gpu)
    issued = std::move(launches), segment = without;
  Repetition found;
  if (segment.period == 0) return found;

  struct Round {
    Nanoseconds first, over, lead{};
  };
  std::vector<Round> rounds;
  for (std::size_t at = beginning(issued, segment); at + segment.period <= segment.end; at += segment.period) {
    Round round{issued[at].call->start, round_over(issued, at, at + segment.period)};
    if (!rounds.empty()) round.lead = std::max(Nanoseconds{}, round.first - rounds.back().over);
    rounds.push_back(round);
    if (rounds.size() > 1) continue;
    for (std::size_t i = at; i < at + segment.period; ++i) found.launches += issued[i].what == kWait ? 0 : 1;
  }
  if (rounds.size() > 1) {
    std::vector<Nanoseconds> leads, took;
    for (std::size_t i = 1; i < rounds.size(); ++i) leads.push_back(rounds[i].lead);
    for (const Round& round : rounds) took.push_back(round.over - round.first);
    std::sort(leads.begin(), leads.end()), std::sort(took.begin(), took.end());
    found.between = leads[leads.size() / 4];
    found.between_is_work = found.between <= took[took.size() / 2];
  }
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const auto start = [&](std::size_t k) {
      return rounds[k].first - (found.between_is_work ? std::min(rounds[k].lead, found.between) : Nanoseconds{});
    };
    const Nanoseconds over = rounds[i].over + Nanoseconds{1};
    const Nanoseconds end = i + 1 < rounds.size() ? std::min(over, start(i + 1)) : over;
    found.steps.push_back({fmt::format("repetition {}", i), start(i), end - start(i)});
  }
  return found;
}

}  // namespace corun
