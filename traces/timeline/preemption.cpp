#include "traces/timeline/preemption.h"

#include <algorithm>
#include <numeric>

#include "traces/model/statistics.h"

namespace corun {
namespace {

double us(Time t) { return to_ns(t) / 1e3; }

/// Mean, median, 99th percentile and largest; order statistics, as in metrics.h.
Spread spread_of(std::vector<Time> times) {
  Spread s;
  if (times.empty()) return s;
  std::sort(times.begin(), times.end());
  const auto at = [&](std::size_t percent) { return us(order_statistic(times, percent)); };
  s.mean_us = us(std::accumulate(times.begin(), times.end(), Time{})) / static_cast<double>(times.size());
  s.p50_us = at(50), s.p99_us = at(99), s.max_us = at(100);
  return s;
}

}  // namespace

void PreemptionMeter::record(const RequestRecord& r) {
  if (r.dropped || trace_.clients[r.client.value].service_class != ServiceClass::real_time) return;
  arrivals_.push_back({{r.client.value, r.request}, r.arrival});
}

void PreemptionMeter::record(const KernelRecord& r) {
  redone_blocks_ += r.redone_blocks;
  if (r.started == kNever || trace_.clients[r.client.value].service_class != ServiceClass::real_time) return;
  const auto [at, fresh] = first_.try_emplace({r.client.value, r.request}, r.started);
  if (!fresh) at->second = std::min(at->second, r.started);
}

void PreemptionMeter::record(const PreemptionRecord& r) {
  Off& off = off_[r.decided];
  off.cleared = std::max(off.cleared, r.cleared);
  off.launches += r.launches;
}

PreemptionResult PreemptionMeter::result(const Window& window) const {
  PreemptionResult result;
  std::vector<Time> latencies, delays;
  for (const auto& [decided, off] : off_) {
    if (decided < window.begin || decided > window.end) continue;
    latencies.push_back(off.cleared - decided);
    result.launches += off.launches;
  }
  for (const auto& [request, arrival] : arrivals_)
    if (const auto first = first_.find(request);
        first != first_.end() && arrival >= window.begin && arrival <= window.end)
      delays.push_back(first->second - arrival);
  result.count = latencies.size();
  result.redone_blocks = redone_blocks_;
  result.latency = spread_of(std::move(latencies));
  result.start_delay = spread_of(std::move(delays));
  return result;
}

}  // namespace corun
