#include "sim/oracle/oracle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "policies/api/topology.h"
#include "sim/backend/in_parallel.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

constexpr std::uint32_t kPercent = 100;
constexpr std::uint32_t kFinestPercent = 2;

/// Larger is better; worse than all numbers where there is none.
double merit(const RunResult& result, Objective objective) {
  const double value = value_of(result, objective);
  if (std::isnan(value)) return -HUGE_VAL;
  return objective == Objective::stp ? value : -value;
}

class Finder {
 public:
  Finder(const Trace& trace, const Gpu& gpu, const OracleOptions& options)
      : trace_(trace), gpu_(gpu), options_(options) {}

  void search_by(const char* parameter, std::uint32_t units, std::uint32_t finest) {
    const auto clients = static_cast<std::uint32_t>(trace_.clients.size());
    search(clients, units, finest, [&](const std::vector<Division>& divisions) {
      std::vector<RunResult> results(divisions.size());
      in_parallel(divisions.size(), options_.threads, [&](std::size_t i) {
        const std::string policy = fmt::format("static-split:{}={}", parameter, fmt::join(divisions[i], "/"));
        results[i] = run(trace_, gpu_, {{policy}, options_.engine, 1, options_.common});
        const std::scoped_lock lock(telling_);
        ++oracle_.tried;
        if (options_.progress) options_.progress(policy.c_str(), expected_share());
      });
      std::vector<double> merits;
      for (RunResult& result : results) {
        merits.push_back(merit(result, options_.objective));
        if (!found_ || merits.back() > best_) {
          found_ = true;
          best_ = merits.back();
          oracle_.best = std::move(result);
        }
      }
      return merits;
    });
  }

  Oracle take() {
    oracle_.value = value_of(oracle_.best, options_.objective);
    return std::move(oracle_);
  }

 private:
  /// How many will be tried is not known; this approaches 1.
  double expected_share() const {
    const auto tried = static_cast<double>(oracle_.tried);
    return tried / (tried + 20);
  }

  const Trace& trace_;
  const Gpu& gpu_;
  const OracleOptions& options_;
  std::mutex telling_;
  Oracle oracle_;
  bool found_ = false;
  double best_ = 0;
};

}  // namespace

double value_of(const RunResult& result, Objective objective) {
  if (objective == Objective::stp) return result.stp;
  if (objective == Objective::antt) return result.antt;
  if (const double worst = worst_real_time_p99(result); !std::isnan(worst)) return worst;
  double worst = std::numeric_limits<double>::quiet_NaN();
  for (const ClientResult& c : result.clients) worst = std::fmax(worst, c.p99_ms);
  return worst;
}

double regret(double value, double best, Objective objective) {
  return objective == Objective::stp ? best - value : value - best;
}

Oracle find_oracle(const Trace& trace, const Gpu& gpu, const OracleOptions& options) {
  if (trace.clients.size() > gpu.tpcs())
    throw InputError("", "--oracle",
                     fmt::format("{} clients cannot each have a TPC of {}, which has {}",
                                 trace.clients.size(), gpu.name, gpu.tpcs()),
                     "run fewer clients, or a larger GPU");
  Finder finder(trace, gpu, options);
  finder.search_by("tpcs", gpu.tpcs(), 1);
  if (trace.clients.size() <= kPercent / kFinestPercent) finder.search_by("ctas", kPercent, kFinestPercent);
  return finder.take();
}

}  // namespace corun::sim
