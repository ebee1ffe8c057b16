// The backend as policies use it: a real-time client that stops a best-effort one with a long queue.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "hw/backend/cuda_backend.h"
#include "hw/measure/jobs.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

/// Whenever the first client has launches, all others are off the GPU.  Of the others, a few launches of each
/// are handed over at a time: the rest waits here, and costs nothing when they come off.
class StopAndGo final : public Policy {
 public:
  std::string_view name() const override { return "stop-and-go"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::priority, Capability::preempt_at_block}, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    const auto first = [&](LaunchId id) { return now.launch(id).client.value == 0; };
    const bool urgent = std::any_of(now.pending.begin(), now.pending.end(), first) ||
                        std::any_of(now.running.begin(), now.running.end(), first);
    if (urgent)
      for (LaunchId id : now.running)
        if (const LaunchView& l = now.launch(id);
            !first(id) && l.kernel != nullptr && l.state != LaunchState::stopping) {
          const bool head = std::none_of(now.running.begin(), now.running.end(), [&](LaunchId other) {
            const LaunchView& o = now.launch(other);
            return o.client == l.client && o.stream == l.stream && o.state != LaunchState::stopping &&
                   other.serial < id.serial;
          });
          if (head) decisions.push_back(decide::Preempt{id, decide::Stop::at_block});
        }
    constexpr std::size_t kDepth = 3;
    std::size_t ahead = static_cast<std::size_t>(
        std::count_if(now.running.begin(), now.running.end(), [&](LaunchId id) { return !first(id); }));
    for (LaunchId id : now.pending)
      if (first(id))
        decisions.push_back(decide::Launch{id, -5, {}, 0});
      else if (!urgent && ahead < kDepth)
        ++ahead, decisions.push_back(decide::Launch{id, 0, {}, 0});
  }
};

class Plainly final : public Policy {
 public:
  std::string_view name() const override { return "plainly"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::priority}, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId id : now.pending)
      decisions.push_back(decide::Launch{id, now.launch(id).client.value == 0 ? -5 : 0, {}, 0});
  }
};

/// The urgent client's requests, each of one kernel, in their order.
class Waits final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    if (r.client.value == 0 && r.finished != kNever) calls.push_back(r.ready), ends.push_back(r.finished);
  }
  void record(const RequestRecord& r) override {
    if (r.client.value == 0 && !r.dropped && r.finished != kNever) arrivals.push_back(r.arrival);
  }
  std::vector<Time> arrivals, calls, ends;
};

Kernel kernel_of(const std::string& name, double solo_us) {
  const LibraryKernel& k = *find_kernel(name);
  Kernel kernel;
  kernel.name = name, kernel.grid = k.grid, kernel.block = k.block;
  kernel.solo_time = from_ns(solo_us * 1000);
  return kernel;
}

/// Most launches of `stamp` that are noted.
constexpr std::uint32_t kNoted = 32768;

/// `tick`, which notes when its first and last block began.
Kernel stamp(std::uint32_t sms) {
  Kernel kernel;
  kernel.name = "stamp", kernel.grid = {sms, 1, 1}, kernel.block = {1024, 1, 1};
  kernel.solo_time = from_ns(3000);
  using Buffer = DeviceCode::Buffer;
  Buffer out{Buffer::Type::u32, sms, false, 0, 1, 0}, started{Buffer::Type::u32, 2, true, 0, 1, 1},
      notes{Buffer::Type::u32, 4 * kNoted, true, 0, 1, 1};  // inputs below 1: zeros
  kernel.code = DeviceCode{"", "spin", "stamp", {out, started, notes, kNoted}};
  return kernel;
}

/// Where %globaltimer is on the host's clock, ns: what a kernel sees last and the host sees first bound it.
struct Clocks {
  double at = 0;               // on the host's clock
  double least = 0, most = 0;  // to be added to %globaltimer
};
Clocks compare_clocks(Bench& bench) {
  constexpr std::uint32_t kTries = 2000;
  Driver& driver = bench.driver;
  const HostMemory words = driver.allocate_host(256);
  volatile std::uint32_t* const asked = static_cast<volatile std::uint32_t*>(words.host);
  volatile std::uint32_t* const answered = asked + 16;
  volatile std::uint64_t* const seen = reinterpret_cast<volatile std::uint64_t*>(asked + 32);
  *asked = 0;
  *answered = 0;
  const Stream s = driver.stream(0, {});
  DevicePointer ask = words.device, answer = words.device + 64, at = words.device + 128;
  std::uint32_t tries = kTries;
  void* parameters[] = {&ask, &answer, &at, &tries};
  driver.launch(bench.work.tool("answer"), {1, 1, 1}, {1, 1, 1}, 0, s, parameters);
  Clocks c{0, -1e300, 1e300};
  for (std::uint32_t i = 1; i <= kTries; ++i) {
    const double from = to_ns(driver.now());
    *asked = i;
    while (*answered != i) driver.pause();
    const double to = to_ns(driver.now());
    const auto gpu = static_cast<double>(*seen);
    c.least = std::max(c.least, from - gpu), c.most = std::min(c.most, to - gpu);
    c.at = to;
  }
  driver.synchronize(s);
  driver.destroy(s);
  driver.free(words);
  return c;
}

/// When the first and the last block of each launch of `stamp` since `before` began, ns of %globaltimer.
std::vector<std::pair<double, double>> read_stamps(Bench& bench, Instance& instance, std::uint32_t before) {
  const Stream s = bench.driver.stream(0, {});
  std::uint32_t blocks = 0;
  std::vector<std::uint64_t> words(2 * kNoted);
  bench.driver.copy_to_host(s, &blocks, instance.buffer(1), 4);
  bench.driver.copy_to_host(s, words.data(), instance.buffer(2), 8 * words.size());
  bench.driver.synchronize(s);
  bench.driver.destroy(s);
  std::vector<std::pair<double, double>> all;
  const auto launches = static_cast<std::uint32_t>(blocks / instance.kernel().blocks());
  if (launches > kNoted) throw DriverError("more launches than can be noted: take a smaller --scale");
  for (std::uint32_t i = before; i < launches; ++i)
    all.push_back({static_cast<double>(~words[2 * i]), static_cast<double>(words[2 * i + 1])});
  return all;
}

/// What the rounds of one queue length under one policy measured, us.
struct Latencies {
  std::vector<double> call_to_first, call_to_all, call_to_end, arrival_to_first, arrival_to_end;
  std::array<std::size_t, 3> requests{};  // that ended, whose kernel did, whose kernel noted its beginning
  std::uint64_t decisions = 0, refused = 0, verified = 0;
  double clocks_within = 0;    // the widest of the rounds
  std::vector<double> drifts;  // ppm
  std::vector<std::string> wrong;
};

Trace urgent_beside(std::uint32_t queue, const Gpu& gpu, double seconds) {
  Trace trace;
  trace.name = "stop and go", trace.gpu = "h200";
  trace.kernels = {stamp(gpu.sms), kernel_of("wait10", 414)};
  Program urgent{"urgent", Issue::eager, {{"main"}}, {}, {}},
      long_queue{"queue", Issue::eager, {{"main"}}, {}, {}};
  urgent.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
  for (std::uint32_t i = 0; i < queue; ++i)
    long_queue.ops.push_back(Op{corun::Launch{KernelId{1}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
  trace.programs = {urgent, long_queue};
  Client a, b;
  a.name = a.process = "urgent", a.program = ProgramId{0}, a.streams.resize(1), a.arrivals = Poisson{500, 1},
  a.priority = -5, a.service_class = ServiceClass::real_time;
  b.name = b.process = "queue", b.program = ProgramId{1}, b.streams.resize(1);
  trace.clients = {a, b};
  trace.run.duration = from_ns(1e9 * seconds);
  return trace;
}

void measure_round(Bench& bench, const Gpu& gpu, const Trace& trace, Policy& policy, Latencies& to) {
  Timeline timeline;
  Waits waits;
  timeline.attach(waits);
  CudaBackend backend(trace, gpu, policy.requirements(), timeline, bench.work, {});
  Session session(trace, policy, backend, timeline, {});
  Instance& noted = *bench.work.prepared(bench.work.device_kernel(trace.kernels[0]), 1, {}).instance;
  const auto before = static_cast<std::uint32_t>(read_stamps(bench, noted, 0).size());
  const Clocks first = compare_clocks(bench);
  backend.start();
  const double epoch = to_ns(backend.epoch());
  const SessionOutcome outcome = session.run();
  backend.close();
  const Clocks last = compare_clocks(bench);
  for (const std::string& wrong : backend.verify()) to.wrong.push_back(wrong);
  const auto stamps = read_stamps(bench, noted, before);
  // The clocks drift apart by some ppm; where the bounds leave room, the GPU's times are taken as late.
  const double drift = (last.most - first.most) / (last.at - first.at);
  const auto on_host = [&](double gpu_ns) {
    return (gpu_ns + first.most + drift * (gpu_ns + first.most - first.at) - epoch) / 1000;
  };
  const std::size_t n = std::min({waits.calls.size(), waits.arrivals.size(), stamps.size()});
  for (std::size_t i = 0; i < n; ++i) {
    const double call = to_ns(waits.calls[i]) / 1000, arrival = to_ns(waits.arrivals[i]) / 1000,
                 end = to_ns(waits.ends[i]) / 1000;
    const auto [began, all] = stamps[i];
    to.call_to_first.push_back(on_host(began) - call), to.call_to_all.push_back(on_host(all) - call);
    to.arrival_to_first.push_back(on_host(began) - arrival);
    to.call_to_end.push_back(end - call), to.arrival_to_end.push_back(end - arrival);
  }
  const std::array<std::size_t, 3> counted{waits.arrivals.size(), waits.calls.size(), stamps.size()};
  for (std::size_t i = 0; i < counted.size(); ++i) to.requests[i] += counted[i];
  to.decisions += outcome.decisions, to.refused += outcome.refusals;
  to.verified += backend.kernels_verified();
  to.clocks_within =
      std::max({to.clocks_within, (first.most - first.least) / 1000, (last.most - last.least) / 1000});
  to.drifts.push_back(drift * 1e6);
  bench.work.forget_prepared();
}

}  // namespace

/// In rounds, each of all lengths and policies: the host is slower for a second now and then, and no row
/// shall have more of that than another.
Json measure_backend(Bench& bench) {
  constexpr int kRounds = 4;
  const std::vector<std::uint32_t> queues{1, 3, 10, 30, 100, 300};
  const std::vector<std::string> policies{"stop-and-go", "reef-n", "wait", "plainly"};
  const Gpu gpu = read_gpu("h200");
  std::map<std::pair<std::size_t, std::size_t>, Latencies> all;
  for (int round = 0; round < kRounds; ++round) {
    fmt::print("round {} of {}\n", round + 1, kRounds);
    for (std::size_t q = 0; q < queues.size(); ++q)
      for (std::size_t p = 0; p < policies.size(); ++p) {
        const std::string& name = policies[p];
        const double seconds = (name == "stop-and-go" ? 0.6 : 0.15) * bench.scale;
        const std::unique_ptr<Policy> policy = name == "stop-and-go" ? std::make_unique<StopAndGo>()
                                               : name == "plainly"   ? std::unique_ptr<Policy>(new Plainly)
                                                                     : make_policy(name);
        measure_round(bench, gpu, urgent_beside(queues[q], gpu, seconds), *policy, all[{q, p}]);
      }
  }
  Json rows = Json::array();
  for (const auto& [which, l] : all) {
    const std::uint32_t queue = queues[which.first];
    const std::string& name = policies[which.second];
    const auto [least, most] = std::minmax_element(l.drifts.begin(), l.drifts.end());
    fmt::print(
        "queue of {:>3}, {:<12}: call to first block p50 {:.1f} p99 {:.1f}, to all {:.1f} {:.1f}, to end "
        "{:.1f} "
        "{:.1f}, arrival to first {:.1f} {:.1f} us; {} requests; {} decisions, {} refused; clocks within "
        "{:.2f} us, "
        "{:.2f} to {:.2f} ppm; {} results verified, {} wrong {}\n",
        queue, name, median(l.call_to_first), quantile(l.call_to_first, 0.99), median(l.call_to_all),
        quantile(l.call_to_all, 0.99), median(l.call_to_end), quantile(l.call_to_end, 0.99),
        median(l.arrival_to_first), quantile(l.arrival_to_first, 0.99), l.call_to_first.size(), l.decisions,
        l.refused, l.clocks_within, *least, *most, l.verified, l.wrong.size(),
        l.wrong.empty() ? "" : l.wrong.front());
    rows.push_back({{"queue", queue},
                    {"policy", name},
                    {"call_to_first_block_us", summary(l.call_to_first)},
                    {"call_to_all_blocks_us", summary(l.call_to_all, false)},
                    {"call_to_end_us", summary(l.call_to_end)},
                    {"arrival_to_first_block_us", summary(l.arrival_to_first)},
                    {"arrival_to_end_us", summary(l.arrival_to_end, false)},
                    {"clocks_within_us", l.clocks_within},
                    {"clock_drift_ppm", {*least, *most}},
                    {"requests", l.requests},
                    {"decisions", l.decisions},
                    {"refused", l.refused},
                    {"verified", l.verified},
                    {"wrong", l.wrong}});
  }
  return rows;
}

}  // namespace corun::hw
