#include "sim/oracle/oracle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>

#include "policies/api/topology.h"
#include "policies/session/instances.h"
#include "sim/run/in_parallel.h"
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
      std::vector<std::string> policies;
      for (const Division& d : divisions)
        policies.push_back(fmt::format("static-split:{}={}", parameter, fmt::join(d, "/")));
      return try_all(policies);
    });
  }

  /// How good each is, larger being better.
  std::vector<double> try_all(const std::vector<std::string>& policies) {
    std::vector<std::optional<RunResult>> results(policies.size());
    in_parallel(policies.size(), options_.threads, [&](std::size_t i) {
      try {
        results[i] = run_one(policies[i]);
      } catch (const std::exception&) {  // in a helper of a run that was stopped
        if (!stopped()) throw;
      } catch (const Stopped&) {
      }
      if (!results[i]) return;
      const std::scoped_lock lock(telling_);
      ++oracle_.tried;
      if (options_.progress) options_.progress(policies[i].c_str(), expected_share());
    });
    std::vector<double> merits;
    for (std::optional<RunResult>& result : results) {
      merits.push_back(result ? merit(*result, options_.objective) : -HUGE_VAL);
      if (!result || (found_ && merits.back() <= best_)) continue;
      found_ = true;
      best_ = merits.back();
      oracle_.best = std::move(*result);
    }
    return merits;
  }

  Oracle take() {
    if (found_) oracle_.value = value_of(oracle_.best, options_.objective);
    return std::move(oracle_);
  }

 private:
  struct Stopped {};
  bool stopped() const { return options_.stop && options_.stop(); }
  RunResult run_one(const std::string& policy) const {
    const auto interrupt = [this] {
      if (stopped()) throw Stopped{};
    };
    interrupt();
    return run(trace_, gpu_,
               {{.policy = policy, .interrupt = interrupt}, options_.engine, 1, options_.memory});
  }

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

std::optional<Oracle> find_best_instances(const Trace& trace, const Gpu& gpu, const OracleOptions& options) {
  std::vector<std::string> policies = divisions(gpu, trace.clients.size());
  if (policies.empty()) return std::nullopt;
  for (std::string& policy : policies) policy.insert(0, "mig:profile=");
  Finder finder(trace, gpu, options);
  finder.try_all(policies);
  return finder.take();
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
