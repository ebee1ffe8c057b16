#include "sim/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "policies/session/instances.h"
#include "sim/backend/sim_backend.h"
#include "sim/forecast/forecast.h"
#include "sim/model/kernel_prior.h"
#include "sim/model/mended_counters.h"
#include "sim/model/other_card.h"
#include "sim/run/alone.h"
#include "sim/run/in_parallel.h"
#include "sim/run/intervals.h"
#include "sim/run/metered.h"
#include "sim/run/on_parts.h"
#include "sim/service/served_gpu.h"
#include "sim/service/served_policy.h"
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

class Simulator final : public Player {
 public:
  Simulator(const Gpu& gpu, const RunOptions& options)
      : gpu_(gpu), options_(options), memory_(options.memory != nullptr ? *options.memory : own_) {
    if (options.profiles != nullptr) host_ = options.profiles->host;
  }

  SessionOutcome play(const Run& run, Timeline& timeline, const PlayOptions& how) override {
    Memory::OnPlace& here = known(run.gpu);
    const EngineOptions& engine = options_.engine;
    const bool by_sm = run.needed.capabilities.has(Capability::sm_quota),
               served = options_.served_ahead && run.together;
    Requirements needed = run.needed;
    // `sim serve` starts an MPS server where the policy wants one context.
    if (served && needed.contexts == Contexts::one) needed.thread_percentages = {100};
    SimBackend backend(run.trace, run.gpu, needed, timeline, engine, &here.shapes, host());
    backend.offer(make_forecast(run.trace, run.gpu, needed, &here.shapes, host()));
    Backend* asked = &backend;
    Policy* policy = &run.policy;
    if (run.together && run.needed.forecast && &run.gpu == &gpu_) policy = &metered_.emplace(*policy);

    ServedLaunches launches;
    std::optional<ServedGpu> service;
    std::optional<ServedPolicy> by_books;
    if (served) {
      // Sizes are what --persistent is for: sim serve refuses such a policy without it.
      const bool persistent =
          options_.served_persistent || (by_sm && run.needed.capabilities.has(Capability::preempt_at_block));
      const auto foretell = [&, look = options_.served_look.value_or(Time{})](const Gpu& on, const Requirements& needs) {
        return std::make_unique<LaterForecast>(make_forecast(on, needs, engine.contention), look);
      };
      const auto reach = [&](const LaunchView& l, Time at, Time wait) { backend.let_reach(l, at, wait); };
      asked = &service.emplace(backend, run.trace, launches, reach, options_.served_waits);
      policy = &by_books.emplace(*policy, run.trace, run.gpu, ServedOptions{*options_.served_ahead, persistent, foretell}, launches);
    }
    const auto profile = [&](KernelId id) {
      const Kernel& kernel = run.trace.kernels[id.value];
      return options_.profiles != nullptr ? points_for(options_.profiles->of(kernel.name), run.gpu.sms, by_sm)
                                          : here.profile(kernel, by_sm);
    };
    SessionOutcome outcome =
        corun::play(run.trace, *policy, *asked, timeline, profile, {engine.audit, how.progress, how.stop});
    if (!run.together) return outcome;  // others go on beside it
    totals.blocks += backend.blocks_run();
    totals.events += backend.events();
    totals.sm_ps += static_cast<double>(backend.sm_ps());
    totals.warp_ps += static_cast<double>(backend.warp_ps());
    return outcome;
  }

  std::optional<Requests> foretell(const Run& alone, const Requests* already,
                                   const std::function<void(Time)>& progress) override {
    if (already != nullptr && !options_.served_ahead) return *already;
    const bool as_before = options_.engine.shortcuts && !options_.engine.audit && !host_;
    return as_before ? repeat_alone(alone.trace, alone.gpu, known(alone.gpu).shapes, progress) : std::nullopt;
  }

  void each(std::size_t count, const std::function<void(std::size_t)>& job) override {
    in_parallel(count, options_.threads, job);
  }

  Memory::OnPlace& known(const Gpu& gpu) {
    return memory_.at({gpu_, gpu, options_.engine.contention, host_});
  }
  const HostCosts* host() const { return host_ ? &*host_ : nullptr; }
  RunResult::LookedAhead looked_ahead() const {
    return metered_ ? metered_->sum() : RunResult::LookedAhead{};
  }

  Totals totals;

 private:
  const Gpu& gpu_;
  const RunOptions& options_;
  Memory own_;
  Memory& memory_;
  std::optional<HostCosts> host_;
  std::optional<MeteredPolicy> metered_;
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

constexpr double kWorthSaying = 1.01;  // times as long as given

/// Its time where it is alone, if that decides how long its blocks are.
Time given_time(const Kernel& kernel, const Launch& launch) {
  return kernel.block_times.empty() ? launch.solo_time.value_or(kernel.solo_time.value_or(Time{})) : Time{};
}

/// The card where it hands out blocks as fast as times alone say that it did, up to one a cycle of its clock: a given time was measured, an
/// assumed interval was not.  Nothing: it was measured, or holds them.
struct Quicker {
  Gpu gpu;
  std::string by;
};
std::optional<Quicker> quicker(const Trace& trace, const Gpu& gpu) {
  if (!gpu.dispatch_assumed || gpu.clock_hz <= 0) return std::nullopt;
  const Kernel* least = nullptr;
  Time interval = gpu.dispatch_interval;
  for (const Program& program : trace.programs)
    for (const Op& op : program.ops)
      if (const auto* launch = std::get_if<Launch>(&op.what)) {
        const Kernel& kernel = trace.kernels[launch->kernel.value];
        const Time time = given_time(kernel, *launch), fits = time / static_cast<std::int64_t>(kernel.blocks());
        if (time > Time{} && fits < interval) interval = fits, least = &kernel;
      }
  if (least == nullptr) return std::nullopt;
  Quicker found{gpu, ""};
  found.gpu.dispatch_interval = std::min(gpu.dispatch_interval, std::max(interval, from_ns(1e9 / gpu.clock_hz)));
  found.gpu.dispatch_assumed = false;
  found.by = fmt::format("{} is taken to hand out a block each {:.3g} ns, not {:.3g}, which nobody measured: {} has {} blocks, and a time alone that says so", gpu.name,
                         to_ns(found.gpu.dispatch_interval), to_ns(gpu.dispatch_interval), in_quotes(least->name), least->blocks());
  return found;
}

/// A time alone in which the dispatcher cannot hand out the blocks.
void note_dispatch(const Trace& trace, const Gpu& gpu, RunResult& result) {
  const Kernel* worst = nullptr;
  Time given{};
  double longer = kWorthSaying;
  std::set<std::uint32_t> such;
  for (const Program& program : trace.programs)
    for (const Op& op : program.ops) {
      const auto* launch = std::get_if<Launch>(&op.what);
      if (launch == nullptr) continue;
      const Kernel& kernel = trace.kernels[launch->kernel.value];
      const Time time = given_time(kernel, *launch);
      if (time <= Time{}) continue;
      const double ratio = static_cast<double>(gpu.dispatch_interval.count()) * static_cast<double>(kernel.blocks()) / static_cast<double>(time.count());
      if (ratio <= kWorthSaying) continue;
      such.insert(launch->kernel.value);
      if (ratio > longer) worst = &kernel, given = time, longer = ratio;
    }
  if (worst == nullptr) return;
  add_note(result, NoteKind::card, fmt::format("{} {} not as long alone as given but longer, as {} hands out a block each {:.3g} ns: {} with its {} blocks takes at least {:.4g} ms "
                              "instead of {:.4g}; slowdowns are against that, and how busy its SMs are is not known",
                              such.size(), such.size() == 1 ? "kernel is" : "kernels are", gpu.name, to_ns(gpu.dispatch_interval), in_quotes(worst->name),
                              worst->blocks(), to_ms(given) * longer, to_ms(given)));
}

/// Tells how a division is read that names no client.
void note_shares(const Plan& plan, RunResult& result) {
  const std::size_t clients = plan.recorded.clients.size();
  if (const std::vector<double>& shares = plan.needed.thread_percentages; shares.size() == 1 && shares.front() < 100 && clients > 1)
    add_note(result, NoteKind::parts,
             fmt::format("percentages={0:g} is for each of the {1} clients: at most {2} of {3} SMs, which others may use too; percentages={0:g}/{4:g} is one a client",
                         shares.front(), clients, plan.gpu.mps_sms(shares.front()), plan.gpu.sms, 100 - shares.front()));
  if (plan.policy->name() == "mig" && plan.needed.instances.empty())
    add_note(result, NoteKind::instances, "mig without profile= divides nothing: all share the GPU, as under fcfs; name an instance for each client, as mig:profile=3g.71gb/4g.71gb");
}

/// Clients whose latency alone is mostly their host's, on a core that nobody else uses here.
void note_hosts(const Trace& trace, RunResult& result) {
  constexpr double kMost = 0.5;
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> named;
  for (std::size_t i = 0; i < trace.clients.size(); ++i) {
    const ClientResult& c = result.clients[i];
    const double share = c.alone_parts.host / (c.alone_mean_ms - c.alone_parts.queue);
    if (!trace.clients[i].cpus && share > kMost) named.push_back(fmt::format("{} {:.0f} %", c.name, 100 * share));
  }
  if (named.empty() || trace.clients.size() < 2) return;
  const std::size_t more = named.size() - std::min(named.size(), kNamed);
  named.resize(named.size() - more);
  add_note(result, NoteKind::host, fmt::format("the host takes most of a request alone ({}{}), and each client's has a CPU core to itself here; where they share cores, say which: cpus=0-3",
                                               fmt::join(named, ", "), more == 0 ? "" : fmt::format(", +{} more", more)));
}

void note_instances(const Plan& plan, RunResult& result) {
  const std::vector<Instance>& instances = plan.needed.instances;
  if (instances.empty()) return;
  if (std::ranges::any_of(plan.trace().clients, [](const Client& c) { return c.cpus.has_value(); }))
    add_note(result, NoteKind::host, "clients share CPU cores only with those of the same instance here");
  const std::vector<Gpu> gpus = instances_of(plan.gpu, instances);
  std::vector<std::string> each;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    each.push_back(fmt::format("{} ({} SMs, {:.0f} GiB, {:.2g} TB/s) under {}", instances[i].profile,
                               gpus[i].sms, static_cast<double>(gpus[i].memory_bytes) / (1 << 30),
                               gpus[i].contention.dram_read_bytes_per_second * 1e-12, instances[i].policy));
  add_note(result, NoteKind::instances, fmt::format("instances: {}", fmt::join(each, ", ")));
  add_note(result, NoteKind::instances,
           "MIG is simulated from documents, and no GPU could be divided here: three networks alone in "
           "instances of an A100 come out within 8 % of what others published, two do not "
           "(experiments/mig); instances share nothing, and a kernel finds as much of its data in L2 as on the "
           "whole GPU");
}

}  // namespace

Plan simulated(Plan plan) {
  plan.on_parts = on_parts(plan.recorded, plan.gpu, plan.needed);
  return plan;
}

RunResult run(const Plan& plan, const RunOptions& options) {
  if (const auto faster = quicker(plan.trace(), plan.gpu)) {
    RunResult result = run(Plan{plan.recorded, faster->gpu, plan.named, plan.policy, plan.is_registered, plan.needed, plan.on_parts}, options);
    if (faster->gpu.dispatch_interval < plan.gpu.dispatch_interval) add_note(result, NoteKind::card, faster->by);
    return result;
  }
  const auto began = std::chrono::steady_clock::now();
  const Trace& trace = plan.trace();
  const Gpu& gpu = plan.gpu;
  Simulator simulator(gpu, options);
  PreemptionMeter preemption(trace);
  corun::RunOptions watched = options;
  watched.sinks.push_back(&preemption);
  auto [result, window, outcome, requests] = execute(plan, watched, simulator, simulator.known(gpu).alone);

  result.looked_ahead = simulator.looked_ahead();
  result.preemption = preemption.result(window);
  result.alone =
      options.alone
          ? "each client simulated alone on the same GPU under fcfs, with the same arrivals and seed"
          : "not simulated";
  const Totals& totals = simulator.totals;
  const double span = static_cast<double>(outcome.end.count()) * gpu.sms;
  if (span > 0) {
    result.sm_busy = totals.sm_ps / span;
    result.occupancy = totals.warp_ps / span / gpu.sm.max_warps;
  }
  note_mended_counters(trace, gpu, result);
  if (const std::string warning = contention_warning(trace, options.engine.contention); !warning.empty()) add_note(result, NoteKind::contention, warning);
  for (const std::string& note : card_notes(trace, gpu)) add_note(result, NoteKind::card, note);
  note_dispatch(trace, gpu, result);
  if (plan.on_parts) add_note(result, NoteKind::parts, on_parts_note(plan.recorded, trace));
  if (const HostCosts* host = simulator.host(); host != nullptr && host->launch_call != Time{})
    add_note(result, NoteKind::host, "one host thread issues for all clients, at the costs in the profile file");
  note_shares(plan, result);
  note_hosts(trace, result);
  note_instances(plan, result);
  if (options.engine.contention) add_intervals(result, trace, plan.needed);
  result.blocks = totals.blocks;
  result.events = totals.events;
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace corun::sim
