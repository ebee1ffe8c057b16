#include "policies/session/profile_points.h"

#include <algorithm>
#include <set>

namespace corun {
namespace {

std::set<std::uint32_t> sm_counts(std::uint32_t sms) {
  std::set<std::uint32_t> counts{sms};
  for (std::uint32_t n = 1; n < sms; n *= 2) counts.insert(n);
  const std::uint32_t step = sms % 5 == 0 ? 5 : std::max(1u, sms / 8);
  for (std::uint32_t n = step; n < sms; n += step) counts.insert(n);
  return counts;
}

/// All up to 4, then two in each doubling; on the whole GPU all.
std::set<std::uint32_t> ctas_on_each(std::uint32_t most, bool whole_gpu) {
  std::set<std::uint32_t> counts{most};
  for (std::uint32_t n = 1; n < most; n = whole_gpu ? n + 1 : 2 * n) counts.insert(n);
  for (std::uint32_t n = 3; n < most; n *= 2) counts.insert(n);
  return counts;
}

}  // namespace

Profile points_by_total(std::uint32_t sms, std::uint32_t most) {
  std::set<std::uint32_t> counts{most};
  for (std::uint32_t c = 1; c < std::min(sms, most); c *= 2) counts.insert(c);
  for (std::uint32_t c = sms; c < most; c += sms) counts.insert(c);
  Profile points;
  for (const std::uint32_t c : counts) points.push_back({c, {}, std::min(c, sms), (c + sms - 1) / sms});
  return points;
}

Profile points_by_sm(std::uint32_t sms, std::uint32_t most, std::uint64_t blocks) {
  Profile points;
  for (const std::uint32_t n : sm_counts(sms))
    for (const std::uint32_t each : ctas_on_each(most, n == sms)) {
      points.push_back({n * each, {}, n, each});
      if (n * each >= blocks) break;  // more would find no block
    }
  std::sort(points.begin(), points.end(), [](const ProfilePoint& a, const ProfilePoint& b) {
    return std::pair(a.ctas, a.sms) < std::pair(b.ctas, b.sms);
  });
  return points;
}

}  // namespace corun
