// Does a program made of a few latencies run as the table says, beside others too?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/in_folder.h"
#include "tests/support/sim_command.h"

namespace corun {
namespace {

using testing::HasSubstr;

class TableCommand : public InFolder {
 protected:
  std::string table() const { return InFolder::write("net.csv", "percentage,latency_ms,dram_pct,kernels,gpu\n100,10,20,20,h200\n50,17,15,20,h200\n25,32,9,20,h200\n").string(); }
  static double mean_ms(const std::string& clients, const std::string& policy) {
    const Ran ran = sim_unaudited("compare --json --duration 400ms --policies " + policy + clients + " 2>/dev/null");
    EXPECT_EQ(ran.code, 0) << ran.out;
    return nlohmann::json::parse(ran.out)["results"][0]["clients"][0]["mean_ms"];
  }
};

TEST_F(TableCommand, AloneItTakesWhatTheTableSaysOnEachShareAndBetweenSharesWhatLiesBetween) {
  const std::string client = " --client a=" + table() + ",closed";
  EXPECT_NEAR(mean_ms(client, "mps"), 10, 0.2);
  EXPECT_NEAR(mean_ms(client, "mps:percentages=50"), 17, 0.3);
  EXPECT_NEAR(mean_ms(client, "mps:percentages=25"), 32, 0.6);
  const double between = mean_ms(client, "mps:percentages=75");
  EXPECT_GT(between, 11.5);
  EXPECT_LT(between, 13.5) << "10 at all and 17 at half go with 1 / SMs: 12.3";
}

TEST_F(TableCommand, TwoOnTheSameSmsTakeTurnsAndWhatLeavesThemIdleIsTheOthers) {
  const std::string busy = InFolder::write("busy.csv", "sms,latency_ms,gpu\n132,10,h200\n66,20,h200\n").string();
  const std::string idle = InFolder::write("idle.csv", "sms,latency_ms,gpu\n132,10,h200\n66,12,h200\n").string();
  EXPECT_NEAR(mean_ms(" --client a=" + busy + ",closed --client b=" + busy + ",closed", "mps"), 20, 1.5);
  EXPECT_LT(mean_ms(" --client a=" + idle + ",closed --client b=" + idle + ",closed", "mps"), 12.5);
}

TEST_F(TableCommand, ImportWritesATraceThatRunsAndSaysThatItIsCoarse) {
  const std::string out = (folder_ / "net.json").string();
  const Ran ran = sim("import table " + table() + " -o " + out);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("note: net is coarse: made of 3 latencies alone"));
  const Ran run = sim("--duration 50ms " + out);
  EXPECT_EQ(run.code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("net is coarse"));
  const Ran refused = sim("import table " + table() + " --counters x.csv");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("it is not of a table"));
}

}  // namespace
}  // namespace corun
