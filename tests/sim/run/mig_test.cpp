// Does each client of a divided GPU run as if its instance were a GPU of its own?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/api/registry.h"
#include "policies/session/instances.h"
#include "sim/run/run.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::Each;
using testing::HasSubstr;

Kernel streaming(const char* name) {
  Kernel k = kernel(1320, 256, us(10));
  k.name = name;
  k.solo_time = us(100);
  k.counters.dram_read_bytes = 4e8;  // nearly all that an H200 reads in that time
  k.counters.dram_write_bytes = 0;
  k.counters.l2_bytes = 4e8;
  k.counters.warp_instructions = 1e6;
  k.block_times.clear();
  return k;
}

class MigRun : public testing::Test {
 protected:
  void add(const std::string& name) {
    const KernelId k = b_.kernel(streaming(name.c_str()));
    b_.client(name, b_.program({launch(k), sync()}), ClosedLoop{});
    b_.trace.run.duration = ms(20);
  }
  RunResult result(const std::string& policy, std::vector<Sink*> sinks = {}) const {
    RunOptions options;
    options.policy = policy, options.sinks = std::move(sinks);
    options.engine.audit = true;
    return run(b_.trace, gpu_, options);
  }
  std::string refusal(const std::string& policy) const {
    try {
      result(policy);
    } catch (const InputError& e) {
      return e.problem();
    }
    return "";
  }
  TraceBuilder b_;
  const Gpu gpu_ = read_gpu("h200");
};

TEST_F(MigRun, ADivisionThatNamesNoClientIsSaid) {
  const auto notes = [&](const std::string& policy) {
    std::vector<std::string> all;
    for (const auto& note : result(policy).notes) all.push_back(note.text);
    return all;
  };
  const auto kFor = HasSubstr("is for each of the 2 clients: at most 66 of 132 SMs"), kNothing = HasSubstr("mig without profile= divides nothing");
  add("cam");
  EXPECT_THAT(notes("mps:percentages=50"), Each(testing::Not(HasSubstr("for each of the")))) << "there is one";
  add("llm");
  EXPECT_THAT(notes("mps:percentages=50"), testing::Contains(kFor));
  EXPECT_THAT(notes("priority:percentages=50"), testing::Contains(kFor));
  EXPECT_THAT(notes("mps:percentages=50/50"), Each(testing::Not(HasSubstr("for each of the"))));
  EXPECT_THAT(notes("mps"), Each(testing::Not(HasSubstr("for each of the"))));
  EXPECT_THAT(notes("mig"), testing::Contains(kNothing));
  EXPECT_THAT(notes("mig:profile=3g.71gb/4g.71gb"), Each(testing::Not(kNothing)));
}

TEST_F(MigRun, AClientRunsAsFastBesideAnotherAsWithTheOtherInstanceEmpty) {
  add("cam");
  const double alone = result("mig:profile=3g.71gb").clients[0].mean_ms;
  add("llm");
  const RunResult both = result("mig:profile=3g.71gb/4g.71gb");
  EXPECT_EQ(both.clients[0].mean_ms, alone);
  EXPECT_GT(result("fcfs").clients[0].mean_ms, both.clients[1].mean_ms * 0.5);
}

TEST_F(MigRun, WhatDramBoundsTakesAsLongAsItsBytesDoInTheInstance) {
  add("cam");
  for (const auto& [profile, share] : {std::pair{"4g.71gb", 0.5}, {"2g.35gb", 0.25}}) {
    const double least = 1e3 * 4e8 / (share * gpu_.contention.dram_read_bytes_per_second);
    const double took = result(std::string("mig:profile=") + profile).clients[0].mean_ms;
    EXPECT_GT(took, least) << profile;
    EXPECT_LT(took, 1.25 * least) << profile;
  }
}

TEST_F(MigRun, TheWholeGpuAsOneInstanceIsNearlyTheGpu) {
  add("cam"), add("llm");
  EXPECT_NEAR(result("mig:profile=7g.141gb").stp, result("fcfs").stp, 0.01);
}

TEST_F(MigRun, EachInstanceRunsThePolicyInside) {
  add("cam"), add("llm"), add("third");
  const RunResult turns = result("mig:profile=3g.71gb/4g.71gb,clients=cam+llm/third:inside=timeslice");
  const RunResult together = result("mig:profile=3g.71gb/4g.71gb,clients=cam+llm/third");
  EXPECT_NE(turns.clients[0].mean_ms, together.clients[0].mean_ms);
  EXPECT_EQ(turns.clients[2].progress, together.clients[2].progress);
}

TEST_F(MigRun, ClientsThatNobodyNamesGoToTheInstancesInTurn) {
  add("cam"), add("llm"), add("third");
  const RunResult unnamed = result("mig:profile=3g.71gb/4g.71gb");
  const RunResult named = result("mig:profile=3g.71gb/4g.71gb,clients=cam+third/llm");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(unnamed.clients[i].mean_ms, named.clients[i].mean_ms);
}

TEST_F(MigRun, BlocksOfEachClientAreOnTheSmsOfItsInstance) {
  add("cam"), add("llm");
  b_.trace.run.duration = ms(1);
  struct Blocks final : Sink {
    using Sink::record;
    void record(std::span<const BlockRecord> blocks) override {
      for (const BlockRecord& b : blocks) sms[b.client.value].insert(b.sm.value);
    }
    bool wants_blocks() const override { return true; }
    std::set<std::uint32_t> sms[2];
  } blocks;
  result("mig:profile=3g.71gb/4g.71gb", {&blocks});
  EXPECT_EQ(*blocks.sms[0].begin(), 0u);
  EXPECT_EQ(*blocks.sms[0].rbegin(), 59u);
  EXPECT_EQ(*blocks.sms[1].begin(), 60u);
  EXPECT_EQ(*blocks.sms[1].rbegin(), 123u);
}

TEST_F(MigRun, OfATraceWithoutAnEndAllGoOnUntilTheLastIsDone) {
  add("cam"), add("llm");
  b_.trace.clients[0].arrivals = b_.trace.clients[1].arrivals = Once{};
  b_.trace.run.duration.reset();
  const RunResult r = result("mig:profile=2g.35gb/4g.71gb");
  EXPECT_EQ(r.clients[0].finished, 1u);
  EXPECT_EQ(r.clients[1].finished, 1u);
  EXPECT_EQ(r.blocks, 2u * 1320u);  // a first run that finds the end does not count
}

TEST_F(MigRun, AGeometryThatCannotBeIsRefused) {
  add("cam"), add("llm");
  EXPECT_THAT(refusal("mig:profile=4g.71gb/4g.71gb"), HasSubstr("cannot be divided into 4g.71gb and 4g.71gb"));
  EXPECT_THAT(refusal("mig:profile=4g.70gb/3g.71gb"), HasSubstr("no MIG profile '4g.70gb'"));
  EXPECT_THAT(refusal("mig:inside=mps:percentages=30"), HasSubstr("profile= names none"));
  EXPECT_THAT(refusal("mig:profile=4g.71gb:clients=a/b"), HasSubstr("a colon stands before clients="));
  EXPECT_THAT(refusal("mig:profile=4g.71gb,profile=3g.71gb"), HasSubstr("given profile= twice"));
  EXPECT_THAT(refusal("mig:profile=1g.18gb+me/1g.18gb+me"), HasSubstr("gives media engines to 2 instances"));
  EXPECT_EQ(make_policy("mig:profile=1g.18gb+me")->requirements().instances.front().profile, "1g.18gb");
  EXPECT_THAT(refusal("mig:profile=3g.71gb/4g.71gb,clients=cam/cat"), HasSubstr("no client 'cat'"));
  EXPECT_THAT(refusal("mig:profile=3g.71gb/4g.71gb,clients=cam/cam+llm"), HasSubstr("in two instances"));
  EXPECT_THAT(refusal("mig:profile=3g.71gb/4g.71gb,clients=cam/"), HasSubstr("'llm' is in no instance"));
  EXPECT_THAT(refusal("mig:profile=3g.71gb/4g.71gb,clients=cam+llm"), HasSubstr("for 1 instances"));
  EXPECT_THAT(refusal("mig:profile=3g.71gb:inside=mig:profile=3g.71gb"), HasSubstr("divides an instance again"));
  EXPECT_EQ(refusal("mig:profile=3g.71gb/4g.71gb"), "");
}

TEST_F(MigRun, TheResultSaysWhatTheInstancesAreAndWhatTheyWereComparedWith) {
  add("cam"), add("llm");
  const RunResult r = result("mig:profile=3g.71gb/4g.71gb");
  ASSERT_GE(r.notes.size(), 2u);
  EXPECT_THAT(r.notes[r.notes.size() - 2].text, HasSubstr("3g.71gb (60 SMs, 70 GiB, 2.3 TB/s) under fcfs"));
  EXPECT_THAT(r.notes.back().text, HasSubstr("no GPU could be divided here"));
}

TEST(MigDivisions, AreThoseOfWhichNoInstanceCouldBeLarger) {
  EXPECT_THAT(divisions(read_gpu("h200"), 1), testing::ElementsAre("7g.141gb"));
  EXPECT_THAT(divisions(read_gpu("h200"), 2), testing::ElementsAre("3g.71gb/4g.71gb", "4g.71gb/3g.71gb"));
  EXPECT_THAT(divisions(read_gpu("h200"), 7), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(divisions(read_gpu("h200"), 8), testing::IsEmpty());
  EXPECT_THAT(divisions(read_gpu("v100"), 2), testing::IsEmpty());
}

}  // namespace
}  // namespace corun::sim
