#include "sim/stages/cohorts.h"

#include <algorithm>

#include "traces/model/expects.h"

namespace corun::sim {

Cohorts::Cohorts(std::uint32_t sms, bool together)
    : together_(together && sms > 1), members_(sms), size_(sms, 1), zone_(sms) {
  CORUN_EXPECTS(sms > 0 && sms <= kMaxSms);
  SmMask all;
  for (std::uint32_t rank = 0; rank < sms; ++rank) {
    members_[rank].set(rank);
    all.set(rank);
    list_.push_back(static_cast<std::uint16_t>(rank));
  }
  masks_.push_back(all);
  heads_ = all;
  if (!together_) return;
  heads_ = all.first(1);
  list_.resize(1);
  members_[0] = all;
  size_[0] = sms;
}

std::uint32_t Cohorts::split(std::uint32_t head, const SmMask& part) {
  CORUN_EXPECTS(heads_.test(head));
  CORUN_EXPECTS(!part.none() && part != members_[head] && part.minus(members_[head]).none());
  const SmMask rest = members_[head].minus(part);
  const SmMask leaves = part.test(head) ? rest : part;
  const std::uint32_t other = leaves.first();
  members_[head] = part.test(head) ? part : rest;
  members_[other] = leaves;
  size_[other] = leaves.count();
  size_[head] -= size_[other];
  heads_.set(other);
  list_.insert(std::lower_bound(list_.begin(), list_.end(), other), static_cast<std::uint16_t>(other));
  return other;
}

void Cohorts::merge(std::uint32_t head, std::uint32_t other) {
  CORUN_EXPECTS(head < other && heads_.test(head) && heads_.test(other));
  CORUN_EXPECTS(may_merge(head, other));
  members_[head] |= members_[other];
  size_[head] += size_[other];
  heads_.reset(other);
  list_.erase(std::lower_bound(list_.begin(), list_.end(), other));
}

std::vector<Cohorts::Part> Cohorts::respect(const SmMask& mask) {
  std::vector<Part> cut;
  if (!together_ || mask == masks_.front() || !divide_zones(mask)) return cut;
  heads_.for_each([&](std::uint32_t head) {
    const SmMask inside = members_[head] & mask;
    if (!inside.none() && inside != members_[head]) cut.push_back({head, inside});
  });
  return cut;
}

/// False if it tells no SMs apart that were one zone.
bool Cohorts::divide_zones(const SmMask& mask) {
  if (std::find(masks_.begin(), masks_.end(), mask) != masks_.end()) return false;
  std::vector<std::uint32_t> zones, keys;
  std::uint32_t before = 0;
  for (std::uint32_t rank = 0; rank < zone_.size(); ++rank) {
    before = std::max(before, zone_[rank] + 1);
    const std::uint32_t key = 2 * zone_[rank] + mask.test(rank);
    auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) found = keys.insert(found, key);
    zones.push_back(static_cast<std::uint32_t>(found - keys.begin()));
  }
  if (keys.size() == before) return false;
  masks_.push_back(mask);
  zone_ = std::move(zones);
  return true;
}

}  // namespace corun::sim
