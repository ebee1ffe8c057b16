#include "traces/timeline/served.h"

#include <algorithm>

#include "traces/model/statistics.h"

namespace corun {
namespace {

bool within_limits(const Serving& serving, const SequenceRecord& r) {
  if (serving.first_token_slo && r.first_token - r.arrival > *serving.first_token_slo) return false;
  if (!serving.between_tokens_slo || r.gaps.empty()) return true;
  return r.finished - r.first_token <= *serving.between_tokens_slo * static_cast<std::int64_t>(r.gaps.size());
}

}  // namespace

ServedResult measure_served(const Serving& serving, ClientId client, const Window& window,
                            std::span<const SequenceRecord> sequences) {
  ServedResult result;
  std::vector<Time> first, gaps, means;
  std::uint64_t tokens = 0, good = 0;
  for (const SequenceRecord& r : sequences) {
    if (r.client != client || r.arrival < window.begin || r.arrival > window.end) continue;
    if (r.finished == kNever || r.finished > window.end) {
      ++result.unfinished;
      continue;
    }
    ++result.finished;
    first.push_back(r.first_token - r.arrival);
    gaps.insert(gaps.end(), r.gaps.begin(), r.gaps.end());
    if (!r.gaps.empty()) means.push_back((r.finished - r.first_token) / static_cast<std::int64_t>(r.gaps.size()));
    tokens += r.gaps.size() + 1;
    good += within_limits(serving, r);
  }
  std::sort(first.begin(), first.end());
  std::sort(gaps.begin(), gaps.end());
  std::sort(means.begin(), means.end());
  result.first_token_mean_ms = mean_ms(first);
  result.first_token_p50_ms = percentile_ms(first, 50), result.first_token_p99_ms = percentile_ms(first, 99);
  result.between_tokens_mean_ms = mean_ms(gaps);
  result.between_tokens_p50_ms = percentile_ms(gaps, 50), result.between_tokens_p99_ms = percentile_ms(gaps, 99);
  result.sequence_gap_p99_ms = percentile_ms(means, 99);
  const double length_s = to_seconds(window.end - window.begin);
  if (length_s > 0)
    result.tokens_per_s = static_cast<double>(tokens) / length_s, result.goodput_per_s = static_cast<double>(good) / length_s;
  return result;
}

}  // namespace corun
