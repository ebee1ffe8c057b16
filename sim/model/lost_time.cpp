#include "sim/model/lost_time.h"

#include <algorithm>
#include <bit>

#include <boost/container/static_vector.hpp>

#include "sim/model/memory_balance.h"
#include "traces/model/expects.h"

namespace corun::sim {
namespace {

/// As many as an SM holds blocks.
constexpr std::size_t kMostSharers = 64;
using Sharing = unsigned;  // a bit a resource

constexpr bool has(Sharing shared, std::size_t resource) { return (shared >> resource & 1) != 0; }

Met met_of(const Sharer& s, Sharing shared) {
  Met met = s.alone;
  if (has(shared, kAtClock)) met.clock = s.beside.clock;
  if (has(shared, kAtL2)) met.missing = s.beside.missing, met.l2 = s.beside.l2;
  if (has(shared, kAtDram)) met.dram = s.beside.dram, met.backlog = s.beside.backlog;
  return met;
}

SmShare share_of(const Sharer& s, const Met& met, const MemoryLimits& m) {
  return {s.load->sm.issue_ps * met.clock,
          delay_of(*s.load, met, m),
          s.blocks,
          0,
          s.load->sm.arrival_randomness,
          s.load->sm.uses,
          s.load->sm.accounted};
}

/// Time of a block of `which`, which shares these resources; the others share all.
double time_of(std::span<const Sharer> sharers, std::size_t which, Sharing shared, std::uint32_t apart,
               const MemoryLimits& m) {
  const SmShare own = share_of(sharers[which], met_of(sharers[which], shared), m);
  if (!has(shared, kAtIssue) && !has(shared, kAtPipes))
    return alone_on_sm(own.issue_ps, own.blocks, own.delay_ps, own.arrival_randomness);
  boost::container::static_vector<SmShare, kMostSharers> shares;
  for (const Sharer& s : sharers) shares.push_back(share_of(s, s.beside, m));
  shares[which] = own;
  for (SmShare& s : shares)
    for (std::size_t i = 0; i < kPipes; ++i)
      if (!has(shared, i == kSlots ? kAtIssue : kAtPipes)) s.uses[i] = 0;
  share_sm({shares.data(), shares.size()}, apart, m);
  return shares[which].time_ps;
}

}  // namespace

LostShares lost_shares(std::span<const Sharer> sharers, std::size_t which, std::uint32_t apart,
                       const MemoryLimits& m) {
  CORUN_EXPECTS(which < sharers.size() && sharers.size() <= kMostSharers);
  CORUN_EXPECTS(apart <= kProcessorSharing);
  const Sharer& own = sharers[which];
  LostShares lost{};
  boost::container::static_vector<std::size_t, kSharedResources> matter;  // others have nothing of the rest
  if (sharers.size() > 1) matter.push_back(kAtIssue);
  if (std::ranges::any_of(sharers, [](const Sharer& s) { return s.load->sm.uses != kSlotsAlone; }) &&
      sharers.size() > 1)
    matter.push_back(kAtPipes);
  if (own.alone.missing != own.beside.missing || own.alone.l2 != own.beside.l2) matter.push_back(kAtL2);
  if (own.alone.dram != own.beside.dram || own.alone.backlog != own.beside.backlog) matter.push_back(kAtDram);
  if (own.alone.clock != own.beside.clock) matter.push_back(kAtClock);
  if (matter.empty()) return lost;

  const std::size_t n = matter.size(), all = (std::size_t{1} << n) - 1;
  std::array<double, std::size_t{1} << kSharedResources> times;
  for (std::size_t subset = 0; subset <= all; ++subset) {
    Sharing shared = 0;
    for (std::size_t i = 0; i < n; ++i)
      if ((subset >> i & 1) != 0) shared |= 1u << matter[i];
    times[subset] = time_of(sharers, which, shared, apart, m);
  }
  const double more = times[all] - times[0];
  if (!(more > 0)) return lost;

  // Of all orders of n, those in which exactly this subset comes before a resource: |subset|! (n - 1 -
  // |subset|)!
  constexpr std::array<double, kSharedResources> kFactorial{1, 1, 2, 6, 24};
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double adds = 0;
    for (std::size_t subset = 0; subset <= all; ++subset) {
      if ((subset >> i & 1) != 0) continue;
      const auto before = static_cast<std::size_t>(std::popcount(subset));
      const double added = times[subset | std::size_t{1} << i] - times[subset];
      adds += kFactorial[before] * kFactorial[n - 1 - before] * added;
    }
    lost[matter[i]] = std::max(0.0, adds);  // the approximations may let one seem to help a little
    sum += lost[matter[i]];
  }
  for (double& share : lost) share *= more / (times[all] * sum);
  return lost;
}

}  // namespace corun::sim
