#include "traces/import/host_stalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "traces/import/median.h"

namespace corun {
namespace {

using kineto::Call;
using kineto::Nanoseconds;

/// Of a kind, so that a few that were held up leave its median as it is.
constexpr std::size_t kOften = 8;
/// The host stood still where it takes this many times the median or more.  With it the stalls hold what the mean has over the
/// median, which is all that a trace of medians lacks: in three recordings of a server's steps 1.41, 1.49 and 1.56 would do that
/// exactly (decision 372).
constexpr double kSlow = 1.5;
/// The first request of a name that takes more than this many times the median loads or compiles its code: no stall.
constexpr std::int64_t kCold = 10;
constexpr Nanoseconds kLeast{200'000};
/// A host that stands still now for 10 us and then for 50, between any two calls, is written as one that stands for this
/// long together: a GPU has as much to do.
constexpr Nanoseconds kGrain{500'000};
/// What a trace can say (traces/schema/trace.schema.json): how long the host was watched, and how many stalls.
constexpr Nanoseconds kLongest = std::chrono::hours{24};
constexpr std::size_t kMost = 1'000'000;

/// What the host did by itself, not waiting for the GPU: calls that issue work, and what lies between calls.
struct Piece {
  Nanoseconds start{}, end{};
  Nanoseconds length() const { return end - start; }
};

struct Seen {
  const WatchedRequest* request;
  std::vector<Piece> pieces;
  Nanoseconds work{};
};

bool waits(Call::Kind kind) {
  return kind == Call::Kind::synchronize || kind == Call::Kind::copy || kind == Call::Kind::copy_and_wait;
}

/// By what they are said to be and by the calls that they make.
std::map<std::pair<std::uint64_t, std::vector<Call::Kind>>, std::vector<Seen>> by_kind(const std::vector<WatchedRequest>& requests,
                                                                                       const std::vector<Call>& calls) {
  std::map<std::pair<std::uint64_t, std::vector<Call::Kind>>, std::vector<Seen>> kinds;
  for (const WatchedRequest& request : requests) {
    auto call = std::ranges::lower_bound(calls, request.start, {}, &Call::start);
    Seen seen{&request, {}};
    std::vector<Call::Kind> made;
    Nanoseconds free = request.start;
    const auto add = [&](Nanoseconds start, Nanoseconds end) {
      seen.pieces.push_back({start, std::max(start, end)});
      seen.work += seen.pieces.back().length();
    };
    for (; call != calls.end() && call->start < request.end; ++call) {
      const Nanoseconds returned = std::min(call->start + call->duration, request.end);
      made.push_back(call->kind);
      add(free, call->start);
      if (!waits(call->kind)) add(std::max(free, call->start), returned);
      free = std::max(free, returned);
    }
    add(free, request.end);
    kinds[{request.kind, std::move(made)}].push_back(std::move(seen));
  }
  return kinds;
}

/// Those of one request, as pieces of the recording.
void stalls_of(const Seen& seen, const std::vector<Nanoseconds>& usual, Nanoseconds too_long, std::vector<Piece>& stalls) {
  Nanoseconds lost{};
  const auto stood = [&](Nanoseconds until) {
    const Nanoseconds lasting = std::min(lost, too_long);
    if (lasting > Nanoseconds{}) stalls.push_back({until - lasting, until});
    too_long -= lasting, lost = Nanoseconds{};
  };
  for (std::size_t i = 0; i < seen.pieces.size(); ++i) {
    lost = std::max(Nanoseconds{}, lost + seen.pieces[i].length() - usual[i]);
    if (lost >= kGrain) stood(seen.pieces[i].end);
  }
  if (lost > Nanoseconds{}) stood(seen.pieces.back().end);
}

}  // namespace

std::optional<FoundStalls> find_host_stalls(const std::vector<WatchedRequest>& requests, const std::vector<Call>& calls) {
  if (requests.empty() || requests.back().end - requests.front().start > kLongest) return std::nullopt;
  FoundStalls found;
  std::vector<Piece> stalls;
  std::vector<const WatchedRequest*> compared;
  for (const auto& [kind, all] : by_kind(requests, calls)) {
    if (all.size() < kOften) continue;
    std::vector<Nanoseconds> works, usual;
    for (const Seen& seen : all) works.push_back(seen.work), compared.push_back(seen.request);
    const Nanoseconds work = lower_median(works);
    for (std::size_t i = 0; i < all.front().pieces.size(); ++i) {
      std::vector<Nanoseconds> lengths;
      for (const Seen& seen : all) lengths.push_back(seen.pieces[i].length());
      usual.push_back(lower_median(std::move(lengths)));
    }
    for (const Seen& seen : all) {
      if (seen.work < Nanoseconds(static_cast<std::int64_t>(kSlow * static_cast<double>(work.count()))) || seen.work - work < kLeast) continue;
      ++found.requests;
      stalls_of(seen, usual, seen.work - work, stalls);
    }
  }
  if (stalls.empty()) return std::nullopt;
  std::ranges::sort(stalls, {}, &Piece::start);
  std::ranges::sort(compared, {}, &WatchedRequest::start);

  // Of a time in which the host was not watched nothing is known, so it is not there; a short one between two requests is.
  Nanoseconds watched{}, before{};
  auto stall = stalls.begin();
  for (std::size_t i = 0; i < compared.size() && found.record.stalls.size() < kMost; ++i) {
    const WatchedRequest& request = *compared[i];
    if (i > 0) watched += std::min(request.start - compared[i - 1]->end, before);
    before = request.end - request.start;
    for (; stall != stalls.end() && stall->start < request.end && found.record.stalls.size() < kMost; ++stall) {
      found.record.stalls.push_back({watched + (stall->start - request.start), stall->length()});
      found.together += stall->length();
    }
    watched += before;
  }
  found.record.observed = watched;
  found.of = compared.size();
  if (found.together >= watched) return std::nullopt;  // requests that take no time but for one
  return found;
}

std::string FoundStalls::in_words() const {
  return fmt::format(
      "In {} of {} requests the host took 1.5 times its usual time or more: it stood still for {:.4g} ms together in {:.4g} s, which is "
      "kept (host_stalls); --no-host-stalls leaves it out.",
      requests, of, static_cast<double>(together.count()) * 1e-6, to_ns(record.observed) * 1e-9);
}

std::optional<FoundStalls> stalls_in_ranges(std::vector<WatchedRange> ranges, std::vector<Call> calls) {
  std::map<const void*, std::vector<Nanoseconds>> lengths;
  for (const WatchedRange& range : ranges) lengths[range.name].push_back(range.end - range.start);
  std::erase_if(ranges, [&](const WatchedRange& range) { return lengths.at(range.name).size() < kOften; });
  if (ranges.empty()) return std::nullopt;
  std::map<std::uint32_t, std::size_t> threads;
  for (const WatchedRange& range : ranges) ++threads[range.thread];
  const std::uint32_t thread = std::ranges::max_element(threads, {}, [](const auto& t) { return t.second; })->first;
  std::erase_if(calls, [&](const Call& call) { return call.thread != thread; });
  std::ranges::stable_sort(ranges, [](const WatchedRange& a, const WatchedRange& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<WatchedRequest> requests;
  std::map<std::pair<const void*, bool>, std::uint64_t> kinds;
  std::map<const void*, Nanoseconds> usual;
  for (auto& [name, of] : lengths) usual[name] = lower_median(std::move(of));
  std::set<const void*> begun;
  const WatchedRange* before = nullptr;  // the outer one
  for (const WatchedRange& range : ranges) {
    if (range.thread != thread || (before != nullptr && range.start < before->end)) continue;
    const bool undisturbed = range.segment == range.last_segment && (before == nullptr || before->last_segment == range.segment);
    before = &range;
    if (!undisturbed || (begun.insert(range.name).second && range.end - range.start > kCold * usual.at(range.name))) continue;
    const std::uint64_t kind = kinds.try_emplace({range.name, range.records}, kinds.size()).first->second;
    requests.push_back({kind, range.start, range.end});
  }
  return find_host_stalls(requests, calls);
}

}  // namespace corun
