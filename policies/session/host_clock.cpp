#include "policies/session/host_clock.h"

#include <algorithm>
#include <array>
#include <boost/random/seed_seq.hpp>
#include <vector>

namespace corun {
namespace {

/// Of its own, so that the place in the record says nothing about arrivals.
constexpr std::uint32_t kPurpose = 0x486f7374;

std::uint64_t drawn(const Client& client, std::uint64_t seed) {
  std::vector<std::uint32_t> words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), kPurpose};
  for (const char c : client.name) words.push_back(static_cast<unsigned char>(c));
  const boost::random::seed_seq sequence(words.begin(), words.end());
  std::array<std::uint32_t, 2> halves{};
  sequence.generate(halves.begin(), halves.end());
  return std::uint64_t{halves[1]} << 32 | halves[0];
}

}  // namespace

HostClock::HostClock(const Client& client, std::uint64_t seed) {
  if (!client.host_stalls || client.host_stalls->stalls.empty()) return;
  stalls_ = &*client.host_stalls;
  place_ = Time{static_cast<std::int64_t>(drawn(client, seed) % static_cast<std::uint64_t>(stalls_->observed.count()))};
  goes_ = stalls_->observed;
  for (const HostStalls::Stall& stall : stalls_->stalls) goes_ -= stall.lasting;
}

Time HostClock::after(Time from, Time work) const {
  if (stalls_ == nullptr || from == kNever) return from + work;
  const Time period = stalls_->observed;
  from += period * (work / goes_);
  work %= goes_;
  Time at = (from % period + place_) % period;
  const auto& all = stalls_->stalls;
  auto next = std::ranges::upper_bound(all, at, {}, [](const HostStalls::Stall& s) { return s.at + s.lasting; });
  for (;; ++next) {
    if (next == all.end()) next = all.begin(), at -= period;
    if (next->at > at) {
      if (work < next->at - at) return from + work;
      work -= next->at - at, from += next->at - at, at = next->at;
    }
    from += next->at + next->lasting - at;
    at = next->at + next->lasting;
  }
}

}  // namespace corun
