// Who shares a context, who its channels, and what do turns of contexts cost?
#include "sim/backend/contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/build.h"
#include "tests/support/collect.h"

namespace corun::sim {
namespace {

Requirements contexts_for(Contexts contexts, std::vector<double> percentages = {}) {
  Requirements needed;
  needed.contexts = contexts;
  needed.thread_percentages = std::move(percentages);
  return needed;
}

/// Made of the trace as far as it was built; at 10 us a switch.
struct InContexts : TraceBuilder {
  Gpu gpu = slow_host_gpu(4);
  KernelId any = kernel(whole_sm_kernel(8, us(1000)));
  Timeline timeline;
  Collector collected;
  std::optional<GpuContexts> contexts;

  InContexts() { timeline.attach(collected); }
  GpuContexts& make(const Requirements& needed = contexts_for(Contexts::per_process)) {
    return contexts.emplace(trace, gpu, needed, timeline, EngineOptions{true, true});
  }
  /// Two processes of a stream each.
  GpuContexts& make_two() {
    for (const char* name : {"a", "b"}) client(name, program({launch(any)}));
    return make();
  }
  /// It reaches the GPU at `at`, in the first stream of the context.
  void submit(std::uint32_t context, Time at, bool graph = false) {
    Submission s;
    s.launch = {context, context};
    s.reaches_gpu = at;
    s.graph = s.ahead = graph;
    (*contexts)[context].host->accept(std::move(s));
  }
  /// What was submitted has run and ended.
  void pass(std::uint32_t context, Time at) {
    Host& host = *(*contexts)[context].host;
    host.take(0), host.drop(0), host.ended(0, at, {});
  }
  /// On its SMs from now on.
  void run_blocks(std::uint32_t context, std::uint32_t blocks) {
    ComputeEngine& engine = *(*contexts)[context].engine;
    Work work;
    work.block_alone = us(1000);
    work.record.launch = {context, context};
    work.record.blocks = blocks;
    engine.accept(std::move(work), 0, engine.all_sms(), demand_of(trace.kernels[0], gpu.sm));
    std::vector<EngineNotice> notices;
    engine.advance(us(1), notices);
  }
  /// From `now` on, when the next context has the SMs.
  std::optional<Time> switch_takes(Time now) {
    contexts->switch_if_due(now);
    if (contexts->active()) return std::nullopt;
    return contexts->next_time(now) - now;
  }
};

TEST(GpuContexts, ClientsShareOneOrThoseOfEachProcessDo) {
  InContexts c;
  for (const char* process : {"a", "b", "a"}) c.client(process, c.program({launch(c.any), launch(c.any, 1)}));
  const auto places = [](const GpuContexts& contexts) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> all;
    for (std::uint32_t client = 0; client < 3; ++client)
      for (std::uint32_t s = 0; s < contexts.streams_of(client); ++s)
        all.emplace_back(contexts.place(ClientId{client}, StreamId{s}).context,
                         contexts.place(ClientId{client}, StreamId{s}).stream);
    return all;
  };
  using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(c.make(contexts_for(Contexts::one)).size(), 1u);
  EXPECT_EQ(places(*c.contexts), (Places{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}}));
  EXPECT_EQ(c.make().size(), 2u);
  EXPECT_EQ(places(*c.contexts), (Places{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}}));
}

TEST(GpuContexts, ClientsOfMpsAndBranchesOfGraphsHaveChannelsOfTheirOwn) {
  InContexts c;
  const auto channels = [&](std::vector<double> percentages) {
    return c.make(contexts_for(Contexts::one, std::move(percentages)))[0].host->channels();
  };
  c.client("a", c.program({launch(c.any), launch(c.any, 1)}));
  c.client("b", c.program({launch(c.any)}));
  EXPECT_EQ(channels({}), 8u);
  EXPECT_EQ(channels({100}), 2 * 2u);
  for (const char* graph : {"c", "d"})
    c.client(graph, c.program({launch(c.any), launch(c.any, 1), launch(c.any, 2)}, Issue::graph));
  EXPECT_EQ(channels({}), 3 * 8u) << "the branches of a graph share theirs";
  const auto group_of = [&](std::uint32_t client, std::uint32_t stream) {
    Submission s;
    s.stream = c.contexts->place(ClientId{client}, StreamId{stream}).stream;
    return (*c.contexts)[0].host->accept(std::move(s)) / 8;
  };
  EXPECT_EQ(group_of(2, 0), 0u) << "what a graph begins with is no branch";
  EXPECT_EQ(group_of(2, 1), 1u);
  EXPECT_EQ(group_of(3, 2), 2u);
  EXPECT_EQ(channels({100}), 6 * 2u);
  c.gpu.mps_client_channels = 0;
  EXPECT_EQ(channels({100}), 3 * 8u) << "before Volta";
}

TEST(GpuContexts, OnlyAGraphWithoutCopiesIsReadAhead) {
  InContexts c;
  const Op copied = copy(CopyDirection::host_to_device, 100);
  c.client("eager", c.program({launch(c.any)}));
  c.client("graph", c.program({launch(c.any)}, Issue::graph));
  c.client("graph that copies", c.program({launch(c.any), copied}, Issue::graph));
  c.make();
  std::vector<bool> ahead;
  for (std::uint32_t client = 0; client < 3; ++client)
    ahead.push_back(c.contexts->place(ClientId{client}, StreamId{0}).ahead);
  EXPECT_THAT(ahead, testing::ElementsAre(false, true, false));
}

TEST(GpuContexts, ATurnGoesToWhoHasWorkOnceItReachesTheGpuAndIsWrittenDown) {
  InContexts c;
  GpuContexts& contexts = c.make_two();
  c.submit(1, us(20));
  EXPECT_EQ(c.switch_takes(us(20) - ps(1)), std::nullopt);
  EXPECT_EQ(c.switch_takes(us(20)), us(10));
  EXPECT_FALSE(contexts.begin_turn_if_due(us(30) - ps(1)));
  EXPECT_TRUE(contexts.begin_turn_if_due(us(30)));
  EXPECT_EQ(contexts.active(), 1u);
  contexts.close(us(45));
  c.timeline.flush();
  ASSERT_EQ(c.collected.turns.size(), 2u);
  const auto turn = [&](std::size_t i) {
    const TurnRecord& t = c.collected.turns[i];
    return std::tuple(t.context, t.start, t.end);
  };
  EXPECT_EQ(turn(0), std::tuple(0u, us(0), us(20)));
  EXPECT_EQ(turn(1), std::tuple(1u, us(30), us(45)));
}

TEST(GpuContexts, ASwitchTakesByWhatItInterruptsAndWhatItGoesBackTo) {
  const auto takes = [](bool of_graph, std::uint32_t interrupted, bool back) {
    InContexts c;
    c.gpu.switch_sm = us(2), c.gpu.idle_switch = us(6), c.gpu.idle_switch_to_interrupted = us(13);
    c.make_two();
    c.submit(0, us(0), of_graph);
    c.pass(0, us(0));
    if (interrupted > 0) c.run_blocks(0, interrupted);
    c.contexts->switch_if_due(us(0));  // its slice begins
    if (back) c.run_blocks(1, 1);
    c.submit(1, us(1));
    return c.switch_takes(us(100)).value();
  };
  EXPECT_EQ(takes(false, 0, false), us(10));
  EXPECT_EQ(takes(true, 0, false), us(6)) << "what ended last was of a graph";
  EXPECT_EQ(takes(true, 0, true), us(13));
  EXPECT_EQ(takes(false, 1, false), us(12));
  EXPECT_EQ(takes(true, 3, false), us(16)) << "each SM";
}

TEST(GpuContexts, AContextThatHasReadAllReadsOnOnceNobodyElseWaits) {
  InContexts c;
  c.gpu.read_ahead_launches = 10;
  GpuContexts& contexts = c.make_two();
  c.submit(0, us(0), true);
  EXPECT_FALSE(contexts.reads_on(us(1)));
  EXPECT_FALSE(contexts[0].host->closed()) << "nobody waits";
  c.submit(1, us(2));
  EXPECT_FALSE(contexts.reads_on(us(2) - ps(1)));
  EXPECT_FALSE(contexts[0].host->closed());
  EXPECT_FALSE(contexts.reads_on(us(2)));
  EXPECT_TRUE(contexts[0].host->closed());
  EXPECT_FALSE(contexts.reads_on(us(3))) << "it still waits";
  c.pass(1, us(4));
  EXPECT_TRUE(contexts.reads_on(us(4)));
  EXPECT_FALSE(contexts[0].host->closed());
}

}  // namespace
}  // namespace corun::sim
