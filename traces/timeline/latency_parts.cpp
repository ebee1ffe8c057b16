#include "traces/timeline/latency_parts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace corun {
namespace {

Time overlap(Time begin, Time end, Time from, Time to) {
  return std::max(Time{}, std::min(end, to) - std::max(begin, from));
}

/// `whole` divided as `of` is, to the picosecond: each part ends where its share of the whole does.
RunningParts in_proportion(const RunningParts& of, Time whole) {
  __extension__ using Wide = __int128;
  const std::int64_t sum = of.sum().count();
  if (sum <= 0) return {.alone = whole};
  RunningParts parts;
  std::int64_t before = 0, given = 0;
  for (Time RunningParts::*part : kRunningParts) {
    before += (of.*part).count();
    const auto until = static_cast<std::int64_t>(Wide{whole.count()} * before / sum);
    parts.*part = Time{until - given};
    given = until;
  }
  return parts;
}

}  // namespace

void PartsMeter::Union::add(Time begin, Time end) {
  if (end <= begin) return;
  while (!all_.empty() && all_.back().second >= begin) {
    begin = std::min(begin, all_.back().first);
    end = std::max(end, all_.back().second);
    all_.pop_back();
  }
  all_.emplace_back(begin, end);
}

Time PartsMeter::Union::length(Time from, Time to) const {
  Time sum{};
  for (const auto& [begin, end] : all_) sum += overlap(begin, end, from, to);
  return sum;
}

template <class Turns>
Time PartsMeter::Union::length_within(const Turns& turns, Time from, Time to) const {
  Time sum{};
  auto turn = std::lower_bound(turns.begin(), turns.end(), from,
                               [](const auto& interval, Time at) { return interval.second <= at; });
  for (const auto& [begin, end] : all_) {
    while (turn != turns.end() && turn->second <= begin) ++turn;
    for (auto t = turn; t != turns.end() && t->first < std::min(end, to); ++t)
      sum += overlap(std::max(begin, from), std::min(end, to), t->first, t->second);
  }
  return sum;
}

PartsMeter::PartsMeter(const Trace& trace, bool turns, bool resources)
    : turns_(turns), resources_(resources), under_way_(trace.clients.size()) {
  std::map<std::string, std::uint32_t> of_process;  // numbered as the contexts are: in the order of the clients
  for (const Client& client : trace.clients) {
    const auto next = static_cast<std::uint32_t>(of_process.size());
    context_of_client_.push_back(turns ? of_process.emplace(client.process, next).first->second : 0);
  }
  turns_of_context_.resize(std::max<std::size_t>(1, of_process.size()));
}

PartsMeter::Request& PartsMeter::under_way(ClientId client, std::uint64_t number) {
  std::vector<Request>& all = under_way_[client.value];
  for (Request& request : all)
    if (request.number == number) return request;
  for (Request& request : all)
    if (request.number == kNone) return (request.number = number), request;
  return all.emplace_back(Request{number, {}, {}});
}

PartsMeter::Union PartsMeter::Union::with(const Union& other) const {
  std::vector<std::pair<Time, Time>> both;
  std::merge(all_.begin(), all_.end(), other.all_.begin(), other.all_.end(), std::back_inserter(both),
             [](const auto& a, const auto& b) { return a.second < b.second; });
  Union sum;
  for (const auto& [begin, end] : both) sum.add(begin, end);
  return sum;
}

void PartsMeter::record(const KernelRecord& r) {
  if (r.finished == kNever) return;
  Request& request = under_way(r.client, r.request);
  request.levels[r.preemptions == 0 ? kRunning : kPreempted].add(r.started, r.finished);
  request.levels[kWaiting].add(r.queued, r.finished);
  request.levels[kLaunching].add(r.submitted, r.finished);
  request.levels[kHeld].add(r.ready, r.finished);
}

void PartsMeter::record(const LossRecord& r) {
  under_way(r.client, r.request).of_kernels += r.parts;
}

void PartsMeter::record(const CopyRecord& r) {
  if (r.finished == kNever) return;
  Request& request = under_way(r.client, r.request);
  for (const Level level : {kCopying, kWaiting, kLaunching, kHeld}) request.levels[level].add(r.started, r.finished);
}

void PartsMeter::settle(RequestRecord& record, const Request& request) const {
  const Time from = record.started, to = record.finished;
  const auto& turns = turns_of_context_[context_of_client_[record.client.value]];
  std::array<Time, kLevels> all, on_turn;  // of an interval, what lies in a turn of its context
  const auto measure = [&](std::size_t level, const Union& its) {
    all[level] = its.length(from, to);
    on_turn[level] = level != kHeld && !turns.empty() ? its.length_within(turns, from, to) : all[level];
  };
  const auto& levels = request.levels;
  for (const std::size_t level : {kRunning, kWaiting, kLaunching, kHeld}) measure(level, levels[level]);
  all[kPreempted] = all[kCopying] = all[kRunning], on_turn[kPreempted] = on_turn[kCopying] = on_turn[kRunning];
  if (!levels[kPreempted].empty() || !levels[kCopying].empty()) {
    const Union on_sms = levels[kRunning].with(levels[kPreempted]);
    measure(kPreempted, on_sms);
    measure(kCopying, on_sms.with(levels[kCopying]));
  }
  LatencyParts& parts = record.parts;
  parts.queue = from - record.arrival;
  parts.running = on_turn[kRunning];
  parts.preempted = on_turn[kPreempted] - on_turn[kRunning];
  parts.waiting = on_turn[kWaiting] - on_turn[kCopying];
  parts.launching = on_turn[kLaunching] - on_turn[kWaiting];
  // Copies go on while others have the SMs.
  const Time off_turn = all[kLaunching] - on_turn[kLaunching];
  const Time copied = on_turn[kCopying] - on_turn[kPreempted];
  const Time copied_off_turn = std::min(off_turn, all[kCopying] - all[kPreempted] - copied);
  parts.copying = copied + copied_off_turn;
  parts.off_turn = off_turn - copied_off_turn;
  parts.held = all[kHeld] - all[kLaunching];
  parts.host = to - from - all[kHeld];
  if (resources_) parts.of_running = in_proportion(request.of_kernels, parts.running);
}

void PartsMeter::record(const RequestRecord& r) {
  requests_.push_back(r);
  if (r.dropped || r.finished == kNever) return;
  Request& request = under_way(r.client, r.request);
  if (turns_) {
    ended_.push_back({requests_.size() - 1, std::exchange(request, {})});
  } else {
    settle(requests_.back(), request);
    request.number = kNone;
    for (Union& level : request.levels) level.clear();
    request.of_kernels = {};
  }
}

void PartsMeter::record(const TurnRecord& r) {
  if (!turns_ || r.context >= turns_of_context_.size()) return;
  turns_of_context_[r.context].emplace_back(r.start, r.end);
  // What ended by now has had its last turn: only one that is under way is not yet told.
  std::erase_if(ended_, [&](const Ended& ended) {
    if (requests_[ended.index].finished > r.end) return false;
    settle(requests_[ended.index], ended.request);
    return true;
  });
}

std::vector<RequestRecord> PartsMeter::requests() {
  for (const Ended& ended : ended_) settle(requests_[ended.index], ended.request);
  ended_.clear();
  return std::move(requests_);
}

}  // namespace corun
