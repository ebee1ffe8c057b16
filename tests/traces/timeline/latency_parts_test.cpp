// Is each instant of a request given to the furthest that any of its operations has come, and none twice?
#include "traces/timeline/latency_parts.h"

#include <gtest/gtest.h>

namespace corun {
namespace {

Trace clients_a_and_b() {
  Trace trace;
  for (const char* name : {"a", "b"}) {
    Client client;
    client.name = client.process = name;
    trace.clients.push_back(client);
  }
  return trace;
}

KernelRecord kernel(std::uint32_t client, std::int64_t ready, std::int64_t submitted, std::int64_t queued,
                    std::int64_t started, std::int64_t finished) {
  KernelRecord r;
  r.client = ClientId{client};
  r.ready = Time{ready}, r.submitted = Time{submitted}, r.queued = Time{queued};
  r.started = Time{started}, r.finished = Time{finished};
  return r;
}

RequestRecord request(std::uint32_t client, std::int64_t arrival, std::int64_t started, std::int64_t finished) {
  RequestRecord r;
  r.client = ClientId{client};
  r.arrival = Time{arrival}, r.started = Time{started}, r.finished = Time{finished};
  return r;
}

TEST(LatencyParts, AreThoseOfTheLaunchsOwnStations) {
  PartsMeter meter(clients_a_and_b(), false);
  meter.record(kernel(0, 110, 130, 160, 200, 300));
  meter.record(request(0, 80, 100, 310));
  const LatencyParts parts = meter.requests().at(0).parts;
  EXPECT_EQ(parts.queue, Time{20});
  EXPECT_EQ(parts.host, Time{20}) << "10 before the call, 10 until the host learns of the end";
  EXPECT_EQ(parts.held, Time{20});
  EXPECT_EQ(parts.launching, Time{30});
  EXPECT_EQ(parts.waiting, Time{40});
  EXPECT_EQ(parts.running, Time{100});
  EXPECT_EQ(parts.sum(), Time{230});
}

TEST(LatencyParts, GiveAnInstantToWhatHasComeFurthest) {
  PartsMeter meter(clients_a_and_b(), false);
  meter.record(kernel(0, 0, 0, 0, 10, 50));
  CopyRecord copy;
  copy.client = ClientId{0};
  copy.started = Time{40}, copy.finished = Time{70};
  meter.record(copy);
  meter.record(kernel(0, 5, 5, 5, 60, 90));  // it waits while the others run or copy
  meter.record(request(0, 0, 0, 90));
  const LatencyParts parts = meter.requests().at(0).parts;
  EXPECT_EQ(parts.running, Time{70});
  EXPECT_EQ(parts.copying, Time{10});
  EXPECT_EQ(parts.waiting, Time{10});
  EXPECT_EQ(parts.sum(), Time{90});
}

TEST(LatencyParts, AKernelThatWasTakenOffIsCountedApart) {
  PartsMeter meter(clients_a_and_b(), false);
  KernelRecord taken_off = kernel(0, 0, 0, 0, 0, 60);
  taken_off.preemptions = 1;
  meter.record(taken_off);
  meter.record(kernel(0, 50, 50, 50, 50, 100));
  meter.record(request(0, 0, 0, 100));
  const LatencyParts parts = meter.requests().at(0).parts;
  EXPECT_EQ(parts.preempted, Time{50});
  EXPECT_EQ(parts.running, Time{50});
}

TEST(LatencyParts, OutsideTheTurnsOfItsContextARequestIsOffTurn) {
  PartsMeter meter(clients_a_and_b(), true);
  meter.record(kernel(1, 10, 10, 20, 30, 200));
  meter.record(TurnRecord{0, Time{0}, Time{25}});
  meter.record(TurnRecord{1, Time{30}, Time{80}});
  meter.record(TurnRecord{0, Time{85}, Time{140}});
  meter.record(request(1, 10, 10, 200));
  meter.record(TurnRecord{1, Time{150}, Time{210}});
  const LatencyParts parts = meter.requests().at(0).parts;
  EXPECT_EQ(parts.running, Time{50 + 50});
  EXPECT_EQ(parts.off_turn, Time{190 - 100});
  EXPECT_EQ(parts.sum(), Time{190});
}

LossRecord losses(std::uint32_t client, RunningParts parts) {
  LossRecord r;
  r.client = ClientId{client};
  r.parts = parts;
  return r;
}

TEST(LatencyParts, OfRunningKernelsAreAsTheyTellAndAddUpToThePicosecond) {
  PartsMeter meter(clients_a_and_b(), false, true);
  EXPECT_TRUE(meter.wants_losses());
  meter.record(losses(0, {.alone = Time{50}, .dram = Time{50}}));
  meter.record(kernel(0, 0, 0, 0, 0, 100));
  meter.record(losses(0, {.alone = Time{30}, .places = Time{3}, .issue = Time{4}}));
  meter.record(kernel(0, 0, 0, 0, 90, 127));  // ten of it beside the first one
  meter.record(request(0, 0, 0, 127));
  const LatencyParts parts = meter.requests().at(0).parts;
  EXPECT_EQ(parts.running, Time{127});
  const RunningParts& r = parts.of_running;
  EXPECT_EQ(r.sum(), parts.running);
  EXPECT_EQ(r.alone, Time{127 * 80 / 137});
  EXPECT_NEAR(static_cast<double>(r.dram.count()), 127 * 50.0 / 137, 1);
  EXPECT_EQ(r.pipes + r.l2 + r.clock, Time{});
}

TEST(LatencyParts, OfRunningKernelsAreNotToldUnlessAskedFor) {
  PartsMeter meter(clients_a_and_b(), false);
  EXPECT_FALSE(meter.wants_losses());
  meter.record(kernel(0, 0, 0, 0, 0, 100));
  meter.record(request(0, 0, 0, 100));
  EXPECT_EQ(meter.requests().at(0).parts.of_running.sum(), Time{});
}

TEST(LatencyParts, RequestsOfAClientInFlightAtOnceAreApart) {
  PartsMeter meter(clients_a_and_b(), false);
  KernelRecord second = kernel(0, 0, 0, 0, 20, 30);
  second.request = 1;
  meter.record(kernel(0, 0, 0, 0, 0, 20));
  meter.record(second);
  meter.record(request(0, 0, 0, 20));
  RequestRecord later = request(0, 0, 0, 30);
  later.request = 1;
  meter.record(later);
  const auto all = meter.requests();
  EXPECT_EQ(all.at(0).parts.running, Time{20});
  EXPECT_EQ(all.at(1).parts.running, Time{10});
  EXPECT_EQ(all.at(1).parts.waiting, Time{20});
}

}  // namespace
}  // namespace corun
