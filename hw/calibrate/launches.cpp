// What a launch costs the host, how long it takes to the GPU, and what lies between two kernels.
#include <fmt/format.h>

#include <algorithm>

#include "hw/calibrate/jobs.h"

namespace corun::hw {
namespace {

constexpr int kRepeats = 7;

}  // namespace

void measure_launches(Calibrating& c) {
  Bench& bench = c.bench;
  Driver& driver = bench.driver();
  const Stream s = bench.stream(0);
  const HostMemory seen = driver.allocate_host(64);
  volatile std::uint64_t& told = *static_cast<volatile std::uint64_t*>(seen.host);
  const auto kernel = [&] { bench.launch("hello", 1, 32, 0, s, seen.device); };
  kernel();
  driver.synchronize(s);
  const Graph graph = driver.capture(s, kernel);

  Samples half_trips;
  const auto medians = [&](const std::function<void()>& launch, Samples& calls, Samples& first,
                           Samples& notices) {
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      bench.check_interrupt();
      Samples trips = bench.round_trips(300);
      std::sort(trips.begin(), trips.end());
      const double half_trip = trips[trips.size() / 20] / 2;
      half_trips.push_back(half_trip);
      Samples call, reached, known;
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t old = told;
        const double start = bench.now_us();
        launch();
        if (!bench.wait_for([&] { return told != old; }, 100e3)) throw DriverError("a kernel does not start");
        reached.push_back(bench.now_us() - start - half_trip);
        driver.synchronize(s);
        known.push_back(bench.now_us() - start);
      }
      first.push_back(1e3 * median(reached));
      notices.push_back(1e3 * (median(known) - median(reached)));
      for (int batch = 0; batch < 10; ++batch) {
        for (int i = 0; i < 200; ++i) {
          const double start = bench.now_us();
          launch();
          call.push_back(bench.now_us() - start);
        }
        driver.synchronize(s);
      }
      calls.push_back(1e3 * median(call));
    }
  };
  Samples calls, first, notices, graph_calls, graph_first, graph_notices;
  medians(kernel, calls, first, notices);
  medians([&] { driver.launch(graph, s); }, graph_calls, graph_first, graph_notices);
  driver.destroy(graph);
  driver.free(seen);
  c.found.add("latencies", "launch_call_ns", calls, "one host thread, one stream");
  c.found.add("latencies", "launch_latency_ns", first,
              "from the call's start to the first instruction, seen by the host, less half a round trip");
  c.found.add("latencies", "graph_launch_call_ns", graph_calls, "a graph of one kernel");
  c.found.add("latencies", "graph_launch_latency_ns", graph_first,
              "from the call's start to the first instruction of a graph's first kernel");
  // A kernel alone holds about what one in a graph lasts beside its work.
  const double empty_us = 0.65;
  for (double& ns : notices) ns = std::max(0.0, ns - 1e3 * empty_us);
  c.found.add("latencies", "completion_notice_ns", notices,
              "launch and synchronize, less the launch latency and 0.65 us of kernel");
}

namespace {

/// Chains of launches that wait for each other.
class Chains {
 public:
  explicit Chains(Calibrating& c) : bench_(c.bench) {}

  /// ns a launch: the time of 200 less that of 100, so that what comes once per chain drops out.
  Samples period(bool as_graph, const std::function<void()>& launch) {
    Driver& driver = bench_.driver();
    const Stream s = stream();
    const auto launches = [&](std::uint32_t n) {
      return [&launch, n] {
        for (std::uint32_t i = 0; i < n; ++i) launch();
      };
    };
    Graph graphs[2];
    if (as_graph)
      for (std::uint32_t g = 0; g < 2; ++g) graphs[g] = driver.capture(s, launches((g + 1) * kStep));
    Samples periods;
    for (int repeat = -2; repeat < 2 * kRepeats; ++repeat) {
      bench_.check_interrupt();
      double time[2];
      for (std::uint32_t g = 0; g < 2; ++g)
        time[g] = bench_.held_us(s, [&] {
          if (as_graph)
            driver.launch(graphs[g], s);
          else
            launches((g + 1) * kStep)();
        });
      if (repeat >= 0) periods.push_back(1e3 * (time[1] - time[0]) / kStep);
    }
    if (as_graph)
      for (const Graph g : graphs) driver.destroy(g);
    return periods;
  }
  Samples bodies(bool as_graph, std::uint32_t blocks, double us) {
    Samples periods = period(as_graph, [&] { bench_.body(stream(), blocks, 256, 0, us); });
    for (double& ns : periods) ns -= 1e3 * us;
    return periods;
  }
  Stream stream() { return bench_.stream(0); }

 private:
  static constexpr std::uint32_t kStep = 100;
  Bench& bench_;
};

Samples less(Samples samples, double ns) {
  for (double& s : samples) s -= ns;
  return samples;
}

}  // namespace

void measure_gaps(Calibrating& c) {
  Bench& bench = c.bench;
  Chains chains(c);
  const std::uint32_t sms = bench.facts().sms, most = bench.blocks_of_256();
  const Samples in_graph = chains.bodies(true, sms, 1), filled = chains.bodies(true, most * sms, 1),
                longer = chains.bodies(true, sms, 5);
  Samples costs;
  for (std::size_t i = 0; i < in_graph.size(); ++i) costs.push_back((in_graph[i] + filled[i]) / 2);
  c.found.add("latencies", "stream_gap_ns", less(chains.bodies(false, sms, 5), median(longer)),
              "period of dependent kernels of 5 us in a stream less that in a graph, a block on each SM");
  c.found.add("contention", "launch_cost_ns", costs,
              fmt::format("a kernel's period in a graph less its body of 1 us: mean of one block on each SM, "
                          "{:.0f} ns, and of {}, {:.0f} ns",
                          median(in_graph), most, median(filled)));
}

/// A queue whose blocks leave at once, as those of launches that are taken back.
void measure_evicted(Calibrating& c) {
  Bench& bench = c.bench;
  Chains chains(c);
  const std::uint32_t sms = bench.facts().sms;
  const double dispatch_ns = c.found.value("latencies", "dispatch_interval_ns");
  if (dispatch_ns <= 0)
    return c.found.missing("preemption", "evicted_launch_ns", "the dispatch interval was not found");
  const DeviceArray flag(bench.driver(), 4);
  bench.fill(flag.at(), 1, 4);
  const Samples periods = chains.period(false, [&] {
    bench.launch("wait_for_flag", sms, 256, 0, chains.stream(), flag.at(), DevicePointer{0},
                 std::uint64_t{1'000'000});
  });
  for (const char* key : {"evicted_launch_ns", "evicted_launch_interval_ns"})
    c.found.add("preemption", key, less(periods, sms * dispatch_ns),
                "period of a stream's launches whose blocks find a flag set and leave, less their dispatch");
}

}  // namespace corun::hw
