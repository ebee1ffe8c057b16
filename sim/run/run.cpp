#include "sim/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "policies/api/registry.h"
#include "sim/backend/sim_backend.h"
#include "sim/forecast/forecast.h"
#include "sim/model/kernel_prior.h"
#include "sim/model/mended_counters.h"
#include "sim/model/other_card.h"
#include "sim/run/alone.h"
#include "sim/run/in_parallel.h"
#include "sim/run/instances.h"
#include "sim/run/intervals.h"
#include "sim/run/metered.h"
#include "sim/run/on_parts.h"
#include "sim/run/profile.h"
#include "sim/service/served.h"
#include "sim/service/service_view.h"
#include "traces/json/spelling.h"
#include "traces/timeline/preemption.h"

namespace corun::sim {
namespace {

/// Notes on single kernels; more are counted.
constexpr std::size_t kMostMended = 3;

constexpr const char* kUsually = " taken to do what kernels of their class did in networks measured on an H200";
constexpr const char* kByShape =
    " taken to fill the issue slots by their warps and not to use the memory, so how much clients slow each "
    "other may be far off";

/// What the simulator keeps count of in the run of all clients.
struct Totals {
  std::uint64_t blocks = 0, events = 0;
  double sm_ps = 0, warp_ps = 0;
};

/// `sim serve` starts an MPS server where the policy wants one context; what a program is compared with alone runs without both.
Requirements needed_of(const Setting& s, const RunOptions& options) {
  Requirements needed = s.needed;
  if (options.served_ahead && s.together && needed.contexts == Contexts::one) needed.thread_percentages = {100};
  return needed;
}

class SimSetup final : public Setup {
 public:
  SimSetup(const Setting& s, const Gpu& gpu, Common& common, const RunOptions& options, const HostCosts* host,
           Totals* totals)
      : trace_(s.trace),
        gpu_(gpu),
        common_(common),
        profiles_(options.profiles),
        by_sm_(s.needed.capabilities.has(Capability::sm_quota)),
        instance_(!s.profile.empty()),
        engine_(options.engine),
        totals_(totals),
        backend_(s.trace, gpu, needed_of(s, options), s.timeline, options.engine, common.shapes.get(), host) {
    backend_.offer(make_forecast(s.trace, gpu, needed_of(s, options), common.shapes.get(), host));
    if (!options.served_ahead || !s.together) return;
    Served::Options served{*options.served_ahead};
    if (s.needed.forecast && options.served_look)
      served.forecast = std::make_unique<LaterForecast>(make_forecast(gpu_, s.needed, engine_.contention), *options.served_look);
    if (options.served_waits) served.let_reach = [this](const LaunchView& l, Time at, Time wait) { backend_.let_reach(l, at, wait); };
    viewed_ = !s.needed.forecast || served.forecast != nullptr;
    // Sizes are what --persistent is for: sim serve refuses such a policy without it.
    if (viewed_ && (options.served_persistent || by_sm_)) served.persistent = &persistent_.emplace(trace_, gpu_);
    served_.emplace(backend_, s.trace, s.needed, std::move(served));
  }

  Backend& backend() override {
    if (served_) return *served_;
    return backend_;
  }
  /// A forecast that knows the trace foretells its launches, a graph's too.
  Policy& asked(Policy& policy) override {
    if (!viewed_) return policy;
    return view_.emplace(policy, trace_, persistent_ ? &*persistent_ : nullptr);
  }
  bool audited() const override { return engine_.audit; }
  Profile profile(KernelId id) override {
    const Kernel& kernel = trace_.kernels[id.value];
    if (profiles_ != nullptr) return points_for(profiles_->of(kernel.name), gpu_.sms, by_sm_);
    return common_.profile(id, by_sm_, [&] {
      Shape on_instance;
      if (instance_) on_instance = common_.shapes->of(kernel, kernel.solo_time.value_or(Time{}), gpu_.sms);
      const Shape* shape = instance_ ? &on_instance : nullptr;
      return by_sm_ ? profile_by_sm(kernel, gpu_, shape, engine_.contention)
                    : profile_kernel(kernel, gpu_, {}, shape, engine_.contention);
    });
  }
  void ended(SessionOutcome&) override {
    if (totals_ == nullptr) return;
    totals_->blocks += backend_.blocks_run();
    totals_->events += backend_.events();
    totals_->sm_ps += static_cast<double>(backend_.sm_ps());
    totals_->warp_ps += static_cast<double>(backend_.warp_ps());
  }

 private:
  const Trace& trace_;
  const Gpu& gpu_;
  Common& common_;
  const Profiles* profiles_;
  bool by_sm_, instance_;
  EngineOptions engine_;
  Totals* totals_;  // null: of a client alone, whose runs go on side by side
  SimBackend backend_;
  std::optional<PersistentLaunches> persistent_;
  std::optional<Served> served_;
  bool viewed_ = false;  // the policy sees what a service shows it
  std::optional<ServiceView> view_;
};

class Simulator final : public Testbed {
 public:
  Simulator(const Gpu& gpu, Common& common, const RunOptions& options, const HostCosts* host)
      : gpu_(gpu), common_(common), options_(options), host_(host), instances_(gpu, options.engine.contention) {}

  std::unique_ptr<Setup> set_up(const Setting& s) override {
    const bool whole = s.profile.empty();
    return std::make_unique<SimSetup>(s, whole ? gpu_ : instances_.gpu(s.profile),
                                      whole ? common_ : instances_.common(s.profile), options_, host_,
                                      s.together ? &totals_ : nullptr);
  }
  std::vector<std::uint32_t> divide(const std::vector<Instance>& instances) override {
    return instances_.make(instances);
  }
  Requests alone(std::size_t client, const Trace& trace, const Requests* already, const std::function<void(Time)>& progress,
                 const std::function<Requests()>& run) override {
    return common_.alone(Common::alone_of(client, trace), [&] {
      if (already != nullptr && !options_.served_ahead) return *already;
      const bool as_before = options_.engine.shortcuts && !options_.engine.audit && host_ == nullptr;
      auto requests = as_before ? repeat_alone(trace, gpu_, common_.shapes, progress) : std::nullopt;
      return requests ? *std::move(requests) : run();
    });
  }

  void each(std::size_t count, const std::function<void(std::size_t)>& job) override {
    in_parallel(count, options_.threads, job);
  }

  const Totals& totals() const { return totals_; }
  const Instances& instances() const { return instances_; }

 private:
  const Gpu& gpu_;
  Common& common_;
  const RunOptions& options_;
  const HostCosts* host_;
  Totals totals_;
  Instances instances_;
};

/// What a reader must know before believing how much the clients slow each other.
std::string contention_warning(const Trace& trace, bool contention) {
  if (!contention)
    return "contention is not modelled: blocks take as long as alone, at the highest clock, whatever runs beside them";
  if (trace.clients.size() < 2) return {};
  std::size_t bare = 0, usual = 0;
  for (const Kernel& k : trace.kernels) {
    if (k.counters.issue_active_pct || k.counters.warp_instructions) continue;
    ++bare;
    if (prior_for(k) != nullptr) ++usual;
  }
  if (bare == 0) return {};
  const std::string none = fmt::format("{} of {} kernels have no counters: ", bare, trace.kernels.size());
  if (usual == 0) return none + "they are" + kByShape;
  if (usual == bare) return none + "they are" + kUsually;
  return fmt::format("{}{} of them{}; the other {}{}", none, usual, kUsually, bare - usual, kByShape);
}

/// Kernels of launches whose counters cannot be as they are.
void note_mended_counters(const Trace& trace, const Gpu& gpu, RunResult& result) {
  std::vector<bool> seen(trace.kernels.size());
  std::size_t kernels = 0;
  for (const Program& program : trace.programs)
    for (const Op& op : program.ops) {
      const auto* launch = std::get_if<Launch>(&op.what);
      if (launch == nullptr || seen[launch->kernel.value]) continue;
      const Kernel& kernel = trace.kernels[launch->kernel.value];
      const Time solo_time = launch->solo_time.value_or(kernel.solo_time.value_or(Time{}));
      const MendedCounters mended = mend_counters(kernel, solo_time, gpu);
      if (mended.said.empty()) continue;
      seen[launch->kernel.value] = true;
      if (++kernels <= kMostMended)
        add_note(result, NoteKind::counters, fmt::format("the counters of kernel {} contradict themselves: {}",
                                                         in_quotes(kernel.name), fmt::join(mended.said, "; ")));
    }
  if (kernels > kMostMended)
    add_note(result, NoteKind::counters,
             fmt::format("the counters of {} more kernels contradict themselves and are mended", kernels - kMostMended));
}

std::string bytes_of(const Arrivals& arrivals) {
  std::string bytes(1, static_cast<char>(arrivals.index()));
  const auto add = [&bytes](const auto&... values) {
    (bytes.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  };
  if (const auto* times = std::get_if<ExplicitTimes>(&arrivals)) {
    for (const Time time : times->times) add(time);
  } else if (const auto* loop = std::get_if<ClosedLoop>(&arrivals)) {
    const auto& [think_time, in_flight] = *loop;
    add(think_time, in_flight);
  } else if (const auto* periodic = std::get_if<Periodic>(&arrivals)) {
    const auto& [period, offset] = *periodic;
    add(period, offset);
  } else if (const auto* poisson = std::get_if<Poisson>(&arrivals)) {
    const auto& [rate, seed] = *poisson;
    add(rate, seed);
  } else {
    const auto& [at] = std::get<Once>(arrivals);
    add(at);
  }
  return bytes;
}

}  // namespace

template <class Key, class Made>
Made Common::once(Known<Key, Made>& known, const Key& key, const std::function<Made()>& make) {
  std::promise<Made> promise;
  std::shared_future<Made> made;
  bool mine = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto [found, added] = known.try_emplace(key);
    if (added) found->second = promise.get_future().share();
    mine = added;
    made = found->second;
  }
  if (!mine) try {
      return made.get();
    } catch (...) {
      return once(known, key, make);  // who made it may have been ended
    }
  try {
    promise.set_value(make());
  } catch (...) {
    {
      const std::scoped_lock lock(mutex_);
      known.erase(key);
    }
    promise.set_exception(std::current_exception());
  }
  return made.get();
}

Common::Alone Common::alone_of(std::size_t client, const Trace& one) {
  const auto& [duration, warm_up, seed] = one.run;  // which is no matter of the simulation: the warm-up
  return {client, duration.value_or(kNever), seed, bytes_of(one.clients.front().arrivals)};
}

Common::Requests Common::alone(const Alone& which, const std::function<Requests()>& simulate) {
  return once(alone_, which, simulate);
}

Profile Common::profile(KernelId kernel, bool by_sm, const std::function<Profile()>& simulate) {
  return once(profiles_, {kernel.value, by_sm}, simulate);
}

RunResult run(const Trace& recorded, const Gpu& gpu, const RunOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  std::optional<Common> own;
  Common& common = options.common != nullptr ? *options.common : own.emplace(gpu, options.engine.contention);
  const HostCosts* host =
      options.profiles != nullptr && options.profiles->host ? &*options.profiles->host : nullptr;
  Simulator simulator(gpu, common, options, host);
  const std::unique_ptr<Policy> made = options.object == nullptr ? make_policy(options.policy) : nullptr;
  Policy& policy = made ? *made : *options.object;
  const std::optional<Trace> confined = on_parts(recorded, gpu, policy.requirements());
  const Trace& trace = confined ? *confined : recorded;
  PreemptionMeter preemption(trace);
  corun::RunOptions watched = options;
  watched.sinks.push_back(&preemption);
  watched.alone_of = &recorded;
  std::optional<MeteredPolicy> metered;
  if (policy.requirements().forecast) metered.emplace(policy);
  auto [result, window, outcome, requests] =
      corun::run(trace, gpu, watched, simulator, metered ? &*metered : options.object);

  if (metered) result.looked_ahead = metered->sum();
  result.preemption = preemption.result(window);
  result.alone =
      options.alone
          ? "each client simulated alone on the same GPU under fcfs, with the same arrivals and seed"
          : "not simulated";
  const Totals& totals = simulator.totals();
  const double span = static_cast<double>(outcome.end.count()) * gpu.sms;
  if (span > 0) {
    result.sm_busy = totals.sm_ps / span;
    result.occupancy = totals.warp_ps / span / gpu.sm.max_warps;
  }
  note_mended_counters(trace, gpu, result);
  if (const std::string warning = contention_warning(trace, options.engine.contention); !warning.empty()) add_note(result, NoteKind::contention, warning);
  for (const std::string& note : card_notes(trace, gpu)) add_note(result, NoteKind::card, note);
  if (confined) add_note(result, NoteKind::parts, on_parts_note(recorded, *confined));
  if (host != nullptr && host->launch_call != Time{})
    add_note(result, NoteKind::host, "one host thread issues for all clients, at the costs in the profile file");
  for (const std::string& note : simulator.instances().notes()) add_note(result, NoteKind::instances, note);
  if (options.engine.contention) add_intervals(result, trace, policy.requirements());
  result.blocks = totals.blocks;
  result.events = totals.events;
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace corun::sim
