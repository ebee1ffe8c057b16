// Do an import's notes on its replay tell the request's length, its period, and a command that works?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/sim/command/command_files.h"
#include "tests/support/sim_command.h"

namespace corun {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Steps 10 ms apart whose kernel of `gpu_ms` starts 9.6 ms into each.
std::string steps(double gpu_ms, const char* card = "NVIDIA H200", int sms = 132) {
  std::string events;
  for (int n = 0; n < 6; ++n) {
    const double t = 1e6 + 1e4 * n;
    events += fmt::format(R"({}{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": 1, "tid": 1, "ts": {}, "dur": 9990}},)", n == 0 ? "" : ",", n, t);
    events += fmt::format(R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {}, "dur": 10, "args": {{"correlation": {}}}}},)", t + 9600, n + 1);
    events += fmt::format(R"({{"ph": "X", "cat": "kernel", "name": "work", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"device": 0, "context": 1, "stream": 7,
        "correlation": {}, "registers per thread": 32, "shared memory": 0, "grid": [1000, 1, 1], "block": [256, 1, 1]}}}})",
                          t + 9615, 1e3 * gpu_ms, n + 1);
  }
  return fmt::format(R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "{}", "numSms": {}}}], "traceEvents": [{}]}})", card, sms, events);
}

TEST(Replayed, ThePeriodStandsBesideTheRequest) {
  const Folder folder;
  const Ran ran = sim("import kineto " + folder.write("p.json", steps(7)) + " -o " + folder.path("t.json"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("A request every 10 ms, replayed every 10 ms (1.00)"));
  EXPECT_THAT(ran.out, HasSubstr("2 requests are in flight"));
  EXPECT_THAT(ran.out, Not(HasSubstr("warning")));
  EXPECT_THAT(sim("--duration=1s " + folder.path("t.json")).out, HasSubstr("99 "));
}

TEST(Replayed, TheLastLinesCommandWorksAlsoForACardWithoutADescription) {
  const Folder folder;
  for (const auto& [card, sms] : {std::pair{"NVIDIA H800", 132}, std::pair{"NVIDIA GeForce RTX 2080 Ti", 68}, std::pair{"", 0}}) {
    const Ran ran = sim("import kineto " + folder.write("p.json", steps(3, card, sms)) + " -o " + folder.path("t.json"));
    ASSERT_EQ(ran.code, 0) << ran.out;
    const std::size_t begin = ran.out.find("run it with `sim ");
    ASSERT_NE(begin, std::string::npos) << ran.out;
    const std::string command = ran.out.substr(begin + 17, ran.out.find('`', begin + 17) - begin - 17);
    const Ran again = sim(command);
    EXPECT_EQ(again.code, 0) << command << "\n" << again.out;
  }
}

}  // namespace
}  // namespace corun
