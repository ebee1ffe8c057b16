// The policy of CONTRIBUTING.md, built from that page: does it do what the page says, in under 40 lines?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "policies/api/registry.h"
#include "tests/support/run_trace.h"

namespace corun::sim {
namespace {

std::string text_of(const char* file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

TEST(Tutorial, IsOnThePageInUnderFortyLines) {
  const std::string code = text_of(CORUN_TUTORIAL);
  EXPECT_NE(text_of("CONTRIBUTING.md").find("```cpp\n" + code + "```"), std::string::npos);
  EXPECT_LT(std::ranges::count(code, '\n'), 40);
}

TEST(Tutorial, IsRegisteredWithItsParameter) {
  EXPECT_EQ(make_policy("deadline-first:share=0.5")->name(), "deadline-first");
  EXPECT_ANY_THROW(make_policy("deadline-first:share=2"));
}

/// A best-effort kernel that would fill the GPU for long, and two real-time clients that come to it.
struct Scene : TraceBuilder {
  Scene() {
    one_kernel("batch", sim::kernel(2000, 1024, us(10)));
    for (const auto& [name, deadline] : {std::pair{"late", us(900)}, {"soon", us(100)}}) {
      Client& c = one_kernel(name, sim::kernel(8, 1024, us(10)), us(100));
      c.service_class = ServiceClass::real_time;
      c.deadline = deadline;
    }
  }
  Gpu gpu = slow_host_gpu(4);
};

TEST(Tutorial, TheEarlierDeadlineGoesFirst) {
  Scene s;
  const Ran ran = run_trace(s.trace, s.gpu, "deadline-first");
  ASSERT_EQ(ran.outcome.stuck, "");
  EXPECT_LT(ran.only(ClientId{2}).started, ran.only(ClientId{1}).started);
  const Ran fcfs = run_trace(s.trace, s.gpu, "fcfs");
  EXPECT_LT(fcfs.only(ClientId{1}).started, fcfs.only(ClientId{2}).started);
}

TEST(Tutorial, BestEffortGivesWayAtItsNextBlockAndComesBack) {
  Scene s;
  const Ran ran = run_trace(s.trace, s.gpu, "deadline-first", Record::blocks);
  const LaunchId batch = ran.only(ClientId{0}).launch;
  const auto resident = [&](Time at) {
    return std::ranges::count_if(
        ran.blocks, [&](const BlockRecord& b) { return b.launch == batch && b.start <= at && at < b.end; });
  };
  EXPECT_EQ(resident(us(95)), 8);  // four SMs of two blocks
  const KernelRecord &late = ran.only(ClientId{1}), &soon = ran.only(ClientId{2});
  EXPECT_EQ(resident(late.last_block), 1);  // a tenth of eight, at least one
  EXPECT_EQ(resident(late.finished + us(60)), 8);
  // One block of the batch and what telling the GPU costs, not the batch.
  EXPECT_LT(soon.started, us(100) + s.gpu.launch_call + s.gpu.launch_latency + s.gpu.stop_flag + us(25));
}

}  // namespace
}  // namespace corun::sim
