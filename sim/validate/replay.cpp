#include "sim/validate/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/api/registry.h"
#include "policies/session/run.h"
#include "sim/backend/sim_backend.h"
#include "sim/run/in_parallel.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

class LastEnds final : public Sink {
 public:
  using Sink::record;
  explicit LastEnds(std::size_t clients) : of_client(clients) {}
  void record(const KernelRecord& r) override {
    of_client[r.client.value] = std::max(of_client[r.client.value], r.finished);
  }
  std::vector<Time> of_client;
};

/// By client, ms.
std::vector<double> run_once(const Trace& trace, const Gpu& gpu, Shapes& shapes, const char* policy_name,
                             EngineOptions engine) {
  Timeline timeline;
  LastEnds ends(trace.clients.size());
  timeline.attach(ends);
  const std::unique_ptr<Policy> policy = make_policy(policy_name);
  SimBackend backend(trace, gpu, policy->requirements(), timeline, engine, &shapes);
  const SessionOutcome outcome = play(trace, *policy, backend, timeline, {});
  if (!outcome.stuck.empty())
    throw InputError(trace.name, "", "the run cannot go on: " + outcome.stuck, "check the launch shapes");
  std::vector<double> ms;
  for (std::size_t i = 0; i < trace.clients.size(); ++i)
    ms.push_back(to_ms(ends.of_client[i] + *std::get<Launch>(trace.programs[i].ops.front().what).gap));
  return ms;
}

/// What holds up a block of each client while both have all the blocks on the GPU that fit.
std::string bounds(const Reference& reference, const ReferenceRow& row, const Gpu& gpu, Shapes& shapes) {
  const bool apart = row.mode == Mode::half || row.mode == Mode::quarter;
  const std::uint32_t border = first_part(row.mode, gpu);
  std::vector<BlockLoad> loads;
  for (const auto& [index, sms] :
       {std::pair(row.a, apart ? border : gpu.sms), std::pair(row.b, apart ? gpu.sms - border : gpu.sms)}) {
    const Kernel& kernel = reference.kernels[index].kernel;
    loads.push_back(shapes.of(kernel, kernel.solo_time.value_or(Time{}), sms).load);
  }
  std::vector<Contender> both;
  for (const BlockLoad& load : loads) {
    if (!load.contends()) return {};
    const double blocks = std::min(load.extent.blocks, static_cast<double>(load.extent.places)) / (apart ? 1 : 2);
    both.push_back({&load, blocks, blocks / load.extent.residents, 0, 0});
  }
  const MemoryUse use = share_memory(both, limits_of(gpu));
  const auto bound = [](const Contender& c) {
    const double slots =
        alone_on_sm(c.issue_ps, c.load->extent.residents, c.delay_ps, c.load->sm.arrival_randomness) - c.delay_ps;
    const double memory = c.delay_ps - c.load->sm.fixed_ps;
    if (memory > slots && memory > c.load->sm.fixed_ps) return "memory";
    if (slots <= c.load->sm.fixed_ps) return "latency of its own";
    return c.load->sm.uses[kSlots] >= 1 ? "issue slots" : "a pipe of its SM";
  };
  return fmt::format("a: {}, b: {}; DRAM {:.0f} % in use, {:.1f} x latency", bound(both[0]), bound(both[1]),
                     100 * use.dram, use.latency_inflation);
}

/// One kernel, again and again.  What its places are free of its time is free between its launches.
void add_client(Trace& trace, const ReferenceKernel& from, const Gpu& gpu, const char* name,
                std::int32_t priority, std::optional<TpcMask> mask) {
  const auto index = static_cast<std::uint32_t>(trace.clients.size());
  trace.kernels.push_back(from.kernel);
  Program program;
  program.name = name;
  program.streams.push_back({"main"});
  Op op;
  Launch launch{KernelId{index}, {}, {}};
  launch.gap = gpu.stream_gap + from.kernel.places_free(mask ? mask->count() * gpu.sms_per_tpc : gpu.sms);
  op.what = launch;
  program.ops.assign(from.launches, op);
  trace.programs.push_back(std::move(program));
  Client client;
  client.name = name;
  client.origin = from.kernel.origin;
  client.program = ProgramId{index};
  client.process = "one";
  client.priority = priority;
  client.tpc_mask = mask;
  client.streams.resize(1);
  client.arrivals = Once{};
  trace.clients.push_back(std::move(client));
}

}  // namespace

Gpu behind_gate(Gpu gpu) {
  gpu.launch_call = gpu.launch_latency = gpu.graph_launch_call = gpu.graph_launch_latency = Time{};
  return gpu;
}

const char* policy_of(Mode mode) {
  switch (mode) {
    case Mode::streams:
    case Mode::streams_ba:
      return "fcfs";
    case Mode::prio_a:
    case Mode::prio_b:
      return "priority";
    case Mode::half:
    case Mode::quarter:
      return "tpc-mask";
  }
  return "";
}

Trace together(const Reference& reference, const ReferenceRow& row, const Gpu& gpu) {
  Trace trace;
  trace.name = fmt::format("{}/{}", reference.pair(row), to_string(row.mode));
  trace.gpu = gpu.name;
  const std::int32_t highest = 1 - static_cast<std::int32_t>(gpu.priority_levels);
  std::optional<TpcMask> mask_a, mask_b;
  if (row.mode == Mode::half || row.mode == Mode::quarter) {
    const std::uint32_t border = first_part(row.mode, gpu) / gpu.sms_per_tpc;
    mask_a = TpcMask::range(0, border);
    mask_b = TpcMask::range(border, gpu.tpcs());
  }
  const auto add_a = [&] {
    add_client(trace, reference.kernels[row.a], gpu, "a", row.mode == Mode::prio_a ? highest : 0, mask_a);
  };
  const auto add_b = [&] {
    add_client(trace, reference.kernels[row.b], gpu, "b", row.mode == Mode::prio_b ? highest : 0, mask_b);
  };
  if (row.mode == Mode::streams_ba) {
    add_b();
    add_a();
  } else {
    add_a();
    add_b();
  }
  return trace;
}

Trace alone(const ReferenceKernel& kernel, const Gpu& gpu, std::optional<std::uint32_t> sms) {
  Trace trace;
  trace.name = kernel.kernel.name + " alone";
  trace.gpu = gpu.name;
  add_client(trace, kernel, gpu, "alone", 0,
             sms ? std::optional(TpcMask::range(0, *sms / gpu.sms_per_tpc)) : std::nullopt);
  return trace;
}

Replay replay(const Reference& reference, const Gpu& measured_gpu, const ReplayOptions& options) {
  const Gpu gpu = of_periods(behind_gate(measured_gpu));
  Shapes shapes(gpu, options.engine.contention);
  Replay result;
  result.solo_ms.resize(reference.kernels.size());
  result.solo_ms_by_sms.resize(reference.kernels.size());
  result.rows.resize(reference.rows.size());

  std::vector<std::function<void()>> jobs;
  for (std::size_t i = 0; i < reference.kernels.size(); ++i) {
    const ReferenceKernel& kernel = reference.kernels[i];
    jobs.emplace_back(
        [&, i] { result.solo_ms[i] = run_once(alone(kernel, gpu), gpu, shapes, "fcfs", options.engine)[0]; });
    for (const auto& [sms, ms] : kernel.solo_ms_by_sms)
      jobs.emplace_back([&, to = &result.solo_ms_by_sms[i][sms], n = sms] {
        *to = run_once(alone(kernel, gpu, n), gpu, shapes, "tpc-mask", options.engine)[0];
      });
  }
  for (std::size_t i = 0; i < result.rows.size(); ++i)
    jobs.emplace_back([&, i] {
      const ReferenceRow& row = reference.rows[i];
      std::vector<double> ms =
          run_once(together(reference, row, gpu), gpu, shapes, policy_of(row.mode), options.engine);
      if (row.mode == Mode::streams_ba) std::swap(ms[0], ms[1]);
      result.rows[i] = {ms[0], ms[1], bounds(reference, row, gpu, shapes)};
    });

  const auto tell = [&](std::size_t, double share) {
    if (options.progress) options.progress("validate", share);
  };
  in_parallel(jobs.size(), options.threads, tell, [&](std::size_t i) { jobs[i](); });
  return result;
}

}  // namespace corun::sim
