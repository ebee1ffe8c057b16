// The backend as policies use it: a real-time client that stops a best-effort one with a long queue.
#include <fmt/format.h>

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

/// So many launches of `stamp` are noted.
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

}  // namespace

Json measure_backend(Bench& bench) {
  Json rows = Json::array();
  const Gpu gpu = read_gpu("h200");
  for (const std::uint32_t queue : {1u, 3u, 10u, 30u, 100u, 300u})
    for (const std::string name : {"stop-and-go", "reef-n", "wait", "plainly"}) {
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
      a.name = a.process = "urgent", a.program = ProgramId{0}, a.streams.resize(1),
      a.arrivals = Poisson{500, 1}, a.priority = -5, a.service_class = ServiceClass::real_time;
      b.name = b.process = "queue", b.program = ProgramId{1}, b.streams.resize(1);
      trace.clients = {a, b};
      trace.run.duration = from_ns((name == "stop-and-go" ? 2.4e9 : 6e8) * bench.scale);
      const std::unique_ptr<Policy> policy = name == "stop-and-go" ? std::make_unique<StopAndGo>()
                                             : name == "plainly"   ? std::unique_ptr<Policy>(new Plainly)
                                                                   : make_policy(name);
      Timeline timeline;
      Waits waits;
      timeline.attach(waits);
      CudaBackend backend(trace, gpu, policy->requirements(), timeline, bench.work, {});
      Session session(trace, *policy, backend, timeline, {});
      Instance& noted = *bench.work.prepared(bench.work.device_kernel(trace.kernels[0]), 1, {}).instance;
      const auto before = static_cast<std::uint32_t>(read_stamps(bench, noted, 0).size());
      const Clocks first = compare_clocks(bench);
      backend.start();
      const double epoch = to_ns(backend.epoch());
      const SessionOutcome outcome = session.run();
      backend.close();
      const Clocks last = compare_clocks(bench);
      const std::vector<std::string> wrong = backend.verify();
      const auto stamps = read_stamps(bench, noted, before);
      // The clocks drift apart by some ppm; where the bounds leave room, the GPU's times are taken as late.
      const auto on_host = [&](double gpu_ns) {
        const double share = (gpu_ns + first.most - first.at) / (last.at - first.at);
        return (gpu_ns + first.most + share * (last.most - first.most) - epoch) / 1000;
      };
      const std::size_t n = std::min({waits.calls.size(), waits.arrivals.size(), stamps.size()});
      std::vector<double> call_to_first, call_to_all, call_to_end, arrival_to_first, arrival_to_end;
      for (std::size_t i = 0; i < n; ++i) {
        const double call = to_ns(waits.calls[i]) / 1000, arrival = to_ns(waits.arrivals[i]) / 1000,
                     end = to_ns(waits.ends[i]) / 1000;
        const auto [began, all] = stamps[i];
        call_to_first.push_back(on_host(began) - call), call_to_all.push_back(on_host(all) - call);
        arrival_to_first.push_back(on_host(began) - arrival);
        call_to_end.push_back(end - call), arrival_to_end.push_back(end - arrival);
      }
      const double window = std::max(first.most - first.least, last.most - last.least) / 1000,
                   drift = (last.most - first.most) / (last.at - first.at) * 1e6;
      fmt::print(
          "queue of {:>3}, {:<12}: call to first block p50 {:.1f} p99 {:.1f}, to all {:.1f} {:.1f}, to end "
          "{:.1f} "
          "{:.1f}, arrival to first {:.1f} {:.1f} us; {} requests; {} decisions, {} refused; clocks within "
          "{:.2f} us, {:.2f} ppm; {} results verified, {} wrong {}\n",
          queue, name, median(call_to_first), quantile(call_to_first, 0.99), median(call_to_all),
          quantile(call_to_all, 0.99), median(call_to_end), quantile(call_to_end, 0.99),
          median(arrival_to_first), quantile(arrival_to_first, 0.99), n, outcome.decisions, outcome.refusals,
          window, drift, backend.kernels_verified(), wrong.size(), wrong.empty() ? "" : wrong.front());
      rows.push_back({{"queue", queue},
                      {"policy", name},
                      {"call_to_first_block_us", summary(call_to_first)},
                      {"call_to_all_blocks_us", summary(call_to_all, false)},
                      {"call_to_end_us", summary(call_to_end)},
                      {"arrival_to_first_block_us", summary(arrival_to_first)},
                      {"arrival_to_end_us", summary(arrival_to_end, false)},
                      {"clocks_within_us", window},
                      {"clock_drift_ppm", drift},
                      {"requests", {waits.arrivals.size(), waits.calls.size(), stamps.size()}},
                      {"decisions", outcome.decisions},
                      {"refused", outcome.refusals},
                      {"verified", backend.kernels_verified()},
                      {"wrong", wrong}});
      bench.work.forget_prepared();
    }
  return rows;
}

}  // namespace corun::hw
