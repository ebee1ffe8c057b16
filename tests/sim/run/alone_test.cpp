// Does a client alone that repeats its requests fare as one that is simulated whole?
#include "sim/run/alone.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "policies/api/registry.h"
#include "policies/session/run.h"
#include "sim/backend/sim_backend.h"
#include "tests/support/build.h"
#include "tests/support/random_trace.h"
#include "traces/json/trace_json.h"
#include "traces/timeline/latency_parts.h"

namespace corun::sim {
namespace {

using Records = std::vector<RequestRecord>;

Records simulated_whole(const Trace& trace, const Gpu& gpu, Shapes& shapes) {
  Timeline timeline;
  PartsMeter requests(trace, false);
  timeline.attach(requests);
  const std::unique_ptr<Policy> fcfs = make_policy("fcfs");
  SimBackend backend(trace, gpu, fcfs->requirements(), timeline, {}, &shapes);
  play(trace, *fcfs, backend, timeline, {});
  return requests.requests();
}

void expect_same(const Records& a, const Records& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const LatencyParts &p = a[i].parts, &q = b[i].parts;
    const bool same = a[i].request == b[i].request && a[i].arrival == b[i].arrival && a[i].started == b[i].started &&
                      a[i].finished == b[i].finished && a[i].dropped == b[i].dropped &&
                      a[i].work_done == b[i].work_done;
    const bool parts = p.queue == q.queue && p.host == q.host && p.held == q.held && p.launching == q.launching &&
                       p.waiting == q.waiting && p.off_turn == q.off_turn && p.copying == q.copying &&
                       p.preempted == q.preempted && p.running == q.running;
    ASSERT_TRUE(same && parts) << what << ", request " << a[i].request;
  }
}

Arrivals any_arrivals(Dice& dice) {
  switch (dice.any(0, 3)) {
    case 0: return ClosedLoop{};
    case 1: return ClosedLoop{us(dice.any(0, 50))};
    case 2: return Periodic{us(dice.any(20, 300)), us(dice.any(0, 40))};
    default: return Poisson{static_cast<double>(dice.any(2'000, 40'000)), dice.any(1, 1'000)};
  }
}

TEST(RepeatedAlone, GoesAsSimulatedWholeToThePicosecond) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Dice dice(seed);
    const Gpu gpu = slow_host_gpu(dice.any(1, 6));
    TraceBuilder b;
    std::vector<Op> ops;
    for (std::uint32_t i = dice.any(1, 6); i > 0; --i) {
      const Time block = ns(dice.any(200, 20'000));
      const std::uint32_t threads = 32 * dice.any(1, 32);
      const KernelId id = b.kernel(kernel(dice.any(1, 200), threads, block));
      ops.push_back(host_gap(launch(id), ns(dice.one_in(3) ? dice.any(0, 9'000) : 0)));
      if (dice.one_in(4)) ops.push_back(sync());
    }
    Client& client = b.client("alone", b.program(ops, dice.one_in(2) ? Issue::graph : Issue::eager), any_arrivals(dice));
    client.stale = dice.one_in(2) ? Stale::queue : Stale::keep_newest;
    b.trace.run.duration = us(dice.any(20'000, 100'000));
    const auto shapes = std::make_shared<Shapes>(gpu);
    const auto repeated = repeat_alone(b.trace, gpu, *shapes, {});
    ASSERT_TRUE(repeated) << "seed " << seed;
    expect_same(*repeated, simulated_whole(b.trace, gpu, *shapes), "seed " + std::to_string(seed));
  }
}

/// A network that contends for the memory, on an H200.
Trace network(const std::string& file, Arrivals arrivals, Stale stale) {
  Trace trace = read_trace("traces/h200/" + file);
  Client client;
  client.name = "alone";
  client.process = "one";
  client.issue = Issue::graph;
  client.streams.resize(trace.programs.front().streams.size());
  client.arrivals = arrivals;
  client.stale = stale;
  trace.clients = {client};
  trace.run.duration = ms(60);
  return trace;
}

TEST(RepeatedAlone, NetworksGoAsSimulatedWhole) {
  const Gpu gpu = read_gpu("h200");
  const auto shapes = std::make_shared<Shapes>(gpu);
  for (const char* file : {"resnet50_b1.json", "resnet152_b8.json", "distilbert_b1s128.json"})
    for (const Arrivals& arrivals :
         {Arrivals{ClosedLoop{}}, Arrivals{Periodic{us(2'345), us(100)}}, Arrivals{Poisson{700, 3}}})
      for (const Stale stale : {Stale::keep_newest, Stale::queue}) {
        const Trace trace = network(file, arrivals, stale);
        const auto repeated = repeat_alone(trace, gpu, *shapes, {});
        ASSERT_TRUE(repeated) << file;
        expect_same(*repeated, simulated_whole(trace, gpu, *shapes), file);
      }
}

TEST(RepeatedAlone, IsSimulatedWholeWhereTheClockMayFall) {
  Gpu gpu = read_gpu("h200");
  const Trace trace = network("resnet152_b8.json", ClosedLoop{}, Stale::queue);
  EXPECT_TRUE(repeat_alone(trace, gpu, *std::make_shared<Shapes>(gpu), {}));
  gpu.power.limit_w = gpu.power.idle_w + 50;
  EXPECT_FALSE(repeat_alone(trace, gpu, *std::make_shared<Shapes>(gpu), {}));
}

TEST(RepeatedAlone, IsSimulatedWholeWhereRequestsMayMeet) {
  const Gpu gpu = slow_host_gpu(4);
  const auto asks = [&](const std::vector<Op>& ops, const auto& change) {
    TraceBuilder b;
    b.kernel(kernel(10, 128, us(3)));
    Client& client = b.client("alone", b.program(ops), ClosedLoop{});
    b.trace.run.duration = ms(5);
    Gpu changed = gpu;
    change(b.trace, client, changed);
    return repeat_alone(b.trace, changed, *std::make_shared<Shapes>(changed), {}).has_value();
  };
  const auto nothing = [](Trace&, Client&, Gpu&) {};
  EXPECT_TRUE(asks({launch(KernelId{0})}, nothing));
  EXPECT_FALSE(asks({launch(KernelId{0}), launch(KernelId{0}, 1)}, nothing)) << "streams";
  EXPECT_FALSE(asks({launch(KernelId{0}), copy(CopyDirection::device_to_host, 100)}, nothing)) << "copies";
  EXPECT_FALSE(asks({launch(KernelId{0})}, [](Trace&, Client& c, Gpu&) { c.arrivals = ClosedLoop{{}, 2}; }));
  EXPECT_FALSE(asks({launch(KernelId{0})}, [](Trace&, Client& c, Gpu&) { c.memory_bytes = 100; }));
  EXPECT_FALSE(asks({launch(KernelId{0})}, [](Trace&, Client&, Gpu& g) { g.stream_gap = ms(1); }));
}

TEST(RepeatedAlone, MayBeEndedByWhoWatches) {
  const Gpu gpu = slow_host_gpu(2);
  TraceBuilder b;
  const KernelId id = b.kernel(kernel(10, 128, us(1)));
  b.client("alone", b.program({launch(id)}), ClosedLoop{});
  b.trace.run.duration = ms(400);
  Time last{};
  const auto watch = [&](Time now) {
    if (now > ms(200)) throw std::runtime_error("ended");
    last = now;
  };
  EXPECT_THROW(repeat_alone(b.trace, gpu, *std::make_shared<Shapes>(gpu), watch), std::runtime_error);
  EXPECT_GT(last, Time{});
}

}  // namespace
}  // namespace corun::sim
