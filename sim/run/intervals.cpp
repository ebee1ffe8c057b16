#include "sim/run/intervals.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <variant>

#include "sim/run/interval_table.h"

namespace corun::sim {
namespace {

/// Share of a client's kernel time that something must be known of.
constexpr double kMost = 0.9;
/// A time alone repeats within this.
constexpr double kRepeats = 0.03;

const char* in_words(Known known) {
  switch (known) {
    case Known::time: return "times";
    case Known::counters: return "times, counters";
    case Known::part: return "times on parts";
  }
  return "";
}

struct KernelTime {
  double sum = 0, longest = 0, counted = 0, on_parts = 0;  // ps; `longest`: of one kernel
};

KernelTime kernel_time_of(const Trace& trace, ProgramId program) {
  KernelTime time;
  std::map<std::uint32_t, double> by_kernel;
  for (const Op& op : trace.programs[program.value].ops) {
    const auto* launch = std::get_if<Launch>(&op.what);
    if (launch == nullptr) continue;
    const Kernel& kernel = trace.kernels[launch->kernel.value];
    const auto ps = static_cast<double>(launch->solo_time.value_or(kernel.solo_time.value_or(Time{})).count());
    time.sum += ps;
    time.longest = std::max(time.longest, by_kernel[launch->kernel.value] += ps);
    if (kernel.counters.warp_instructions || kernel.counters.issue_active_pct) time.counted += ps;
    if (kernel.solo_time_by_sms.size() > 1 || kernel.solo_time_sms != 0) time.on_parts += ps;
  }
  return time;
}

bool is_confined(const Requirements& needed, std::size_t client) {
  if (!needed.instances.empty() || needed.capabilities.has(Capability::tpc_mask)) return true;
  const std::vector<double>& shares = needed.thread_percentages;
  return !shares.empty() && shares[std::min(client, shares.size() - 1)] < 100;
}

bool resizes(const CapabilitySet& has) {
  return has.has(Capability::cta_quota) || has.has(Capability::sm_quota) || has.has(Capability::preempt_at_block) ||
         has.has(Capability::preempt_reset) || has.has(Capability::padding);
}

Interval of(double value, const Interval& factors) { return {value * factors.low, value * factors.high}; }

}  // namespace

std::vector<Basis> bases_of(const Trace& trace, const Requirements& needed) {
  std::vector<Basis> bases(trace.clients.size());
  std::vector<KernelTime> times;
  for (const Client& client : trace.clients) times.push_back(kernel_time_of(trace, client.program));
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const KernelTime& time = times[i];
    bases[i].known = time.on_parts >= kMost * time.sum ? Known::part : time.counted >= kMost * time.sum ? Known::counters : Known::time;
    bases[i].one_kernel = 2 * time.longest > time.sum;
    if (trace.programs[trace.clients[i].program.value].coarse) bases[i].known = Known::time, bases[i].one_kernel = true;
    if (is_confined(needed, i))
      bases[i].sharing = Sharing::part;
    else if (resizes(needed.capabilities))
      bases[i].sharing = Sharing::resized;
    else if (bases.size() > 1)
      bases[i].sharing = needed.contexts == Contexts::per_process            ? Sharing::turns
                         : needed.capabilities.has(Capability::priority) ? Sharing::ranked
                                                                         : Sharing::together;
  }
  // Who shares SMs is as well known as what it meets there.
  Known least = Known::part;
  for (const Basis& basis : bases) least = std::min(least, basis.known);
  for (Basis& basis : bases)
    if (basis.sharing == Sharing::together || basis.sharing == Sharing::ranked || basis.sharing == Sharing::resized) basis.known = least;
  return bases;
}

Interval factors(const Basis& basis, Measure measure) {
  return kIntervals[static_cast<std::size_t>(basis.sharing)][basis.one_kernel ? 1 : 0][static_cast<std::size_t>(basis.known)]
                   [static_cast<std::size_t>(measure)];
}

ClientIntervals intervals_of(const ClientResult& c, const Client& of_trace, const Basis& basis) {
  const auto latency = [&](double value, Measure measure) {
    Interval interval = of(value, factors(basis, measure));
    if (c.alone_mean_ms > 0) interval.low = std::max(interval.low, std::min(value, c.alone_mean_ms) * (1 - kRepeats));
    return interval;
  };
  ClientIntervals to{latency(c.mean_ms, Measure::latency), latency(c.p50_ms, Measure::latency), latency(c.p95_ms, Measure::tail),
                     latency(c.p99_ms, Measure::tail),     {},                                 in_words(basis.known)};
  if (std::holds_alternative<ClosedLoop>(of_trace.arrivals)) {
    to.throughput_per_s = of(c.throughput_per_s, factors(basis, Measure::throughput));
    if (c.alone_throughput_per_s > 0)
      to.throughput_per_s.high =
          std::min(to.throughput_per_s.high, std::max(c.throughput_per_s, c.alone_throughput_per_s) * (1 + kRepeats));
  }
  return to;
}

void add_intervals(RunResult& result, const Trace& trace, const Requirements& needed) {
  const std::vector<Basis> bases = bases_of(trace, needed);
  for (std::size_t i = 0; i < result.clients.size(); ++i)
    result.clients[i].intervals = intervals_of(result.clients[i], trace.clients[i], bases[i]);
  if (bases.size() < 2 || !(result.stp > 0)) return;
  Basis least = bases.front();
  for (const Basis& basis : bases) least = {std::max(least.sharing, basis.sharing), least.one_kernel || basis.one_kernel, std::min(least.known, basis.known)};
  result.stp_interval = of(result.stp, factors(least, Measure::stp));
}

}  // namespace corun::sim
