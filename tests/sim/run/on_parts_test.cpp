// Which recording does a client run that has a part of the GPU?
#include "sim/run/on_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/api/registry.h"
#include "sim/run/run.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Of a kernel of 1 ms on the whole GPU, and of another that takes 3 ms on 32 SMs and one that takes 2 ms on 66.
Trace two_clients() {
  Trace trace;
  trace.gpu = "h200";
  const auto add = [&](const char* name, double ms, std::uint32_t sms) {
    Kernel k;
    k.name = name, k.grid = {1320, 1, 1}, k.block = {128, 1, 1}, k.registers_per_thread = 32;
    k.solo_time = from_ns(ms * 1e6), k.solo_time_sms = sms;
    Program p;
    p.name = name, p.streams = {{"main"}};
    p.ops.push_back({Launch{KernelId{static_cast<std::uint32_t>(trace.kernels.size())}, {}, {}}, {}, {}, {}, {}});
    trace.kernels.push_back(k), trace.programs.push_back(p);
  };
  add("all", 1, 0), add("on 32", 3, 32), add("on 66", 2, 66);
  trace.programs.front().on_sms = {{32, ProgramId{1}}, {66, ProgramId{2}}};
  for (const char* name : {"a", "b"}) {
    Client c;
    c.name = c.process = name, c.program = ProgramId{0}, c.streams.resize(1);
    trace.clients.push_back(c);
  }
  trace.run.duration = from_ns(50e6);
  return trace;
}

std::vector<std::uint32_t> programs_under(const std::string& policy, const Trace& trace = two_clients()) {
  const auto there = on_parts(trace, read_gpu("h200"), make_policy(policy)->requirements());
  std::vector<std::uint32_t> all;
  for (const Client& c : (there ? *there : trace).clients) all.push_back(c.program.value);
  return all;
}

TEST(OnParts, AClientRunsWhatWasRecordedOnAsManySmsOrSomewhatFewer) {
  EXPECT_THAT(programs_under("mps"), ElementsAre(0, 0));
  EXPECT_THAT(programs_under("mps:percentages=25/50"), ElementsAre(1, 2));
  EXPECT_THAT(programs_under("mps:percentages=50"), ElementsAre(2, 2));
  EXPECT_THAT(programs_under("mps:percentages=24/90"), ElementsAre(0, 0)) << "30 SMs are fewer than any was recorded on";
  EXPECT_THAT(programs_under("mps:percentages=49/50"), ElementsAre(1, 2)) << "64 SMs and 66";
  EXPECT_THAT(programs_under("mps:percentages=70/72"), ElementsAre(2, 0)) << "92 SMs and 94, of 66 and 132";
}

TEST(OnParts, SoItIsInInstancesAndNotWithMasks) {
  EXPECT_THAT(programs_under("mig:profile=1g.18gb/4g.71gb"), ElementsAre(0, 1));
  EXPECT_THAT(programs_under("tpc-mask:split=even"), ElementsAre(0, 0));
  EXPECT_THAT(programs_under("timeslice"), ElementsAre(0, 0));
}

TEST(OnParts, WithoutSuchRecordingsNothingChanges) {
  Trace trace = two_clients();
  trace.programs.front().on_sms.clear();
  EXPECT_FALSE(on_parts(trace, read_gpu("h200"), make_policy("mps:percentages=25")->requirements()));
  EXPECT_FALSE(on_parts(two_clients(), read_gpu("h200"), make_policy("mps")->requirements()));
}

TEST(OnParts, AServersStepsAreThoseOfThePart) {
  Trace trace = two_clients();
  Serving serving;
  serving.steps = {{ProgramId{0}, 0, 0, 512}, {ProgramId{0}, 8, 1024, 0}};
  serving.sequences = {{Time{}, 100, 4}};
  trace.clients.front().serving = serving;
  const auto there = on_parts(trace, read_gpu("h200"), make_policy("mps:percentages=25/100")->requirements());
  ASSERT_TRUE(there);
  const Program& program = there->programs[there->clients.front().program.value];
  ASSERT_EQ(program.parts.size(), 2u);
  for (const Op& op : program.ops) EXPECT_EQ(std::get<Launch>(op.what).kernel, KernelId{1});
}

TEST(OnParts, ARunTakesThemTogetherAndTheWholeAlone) {
  RunOptions options;
  options.policy = "mps:percentages=25/25";
  const RunResult result = run(two_clients(), read_gpu("h200"), options);
  ASSERT_EQ(result.clients.size(), 2u);
  for (const ClientResult& c : result.clients) {
    EXPECT_NEAR(c.mean_ms, 3, 0.3) << "as recorded on 32 SMs";
    EXPECT_NEAR(c.alone_mean_ms, 1, 0.1);
  }
  EXPECT_THAT(texts_of(result), testing::Contains(HasSubstr("clients run what was recorded on one: a 'on 32', b 'on 32'")));
}

}  // namespace
}  // namespace corun::sim
