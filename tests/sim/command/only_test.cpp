// Does --only run what is named and nothing else?
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/sim_command.h"

namespace corun {
namespace {

using Words = std::set<std::string>;
const std::string kExample = " traces/h200/examples/realtime-resnet50-beside-resnet152.json --duration=3ms";
const std::string kRuns = "experiments/h200/policies", kNetworks = "experiments/h200/networks";

nlohmann::json result_of(const std::string& arguments) {
  const Ran ran = sim(arguments);
  EXPECT_EQ(ran.code, 0) << ran.out;
  return nlohmann::json::parse(ran.out, nullptr, false);
}

Words each(const nlohmann::json& rows, const std::string& key) {
  Words all;
  for (const auto& row : rows) all.insert(row[key].get<std::string>());
  return all;
}

void expect_meant(const std::string& arguments, const std::string& guess) {
  const Ran ran = sim(arguments);
  EXPECT_EQ(ran.code, 2) << arguments << ran.out;
  EXPECT_NE(ran.out.find("did you mean '" + guess + "'"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("--only"), std::string::npos) << ran.out;
}

TEST(Only, OfPoliciesToCompare) {
  EXPECT_EQ(each(result_of("compare --json --policies=all --only fcfs,greedy" + kExample)["results"], "policy"),
            (Words{"fcfs", "greedy"}));
  expect_meant("compare --only timeslic" + kExample, "timeslice");
  EXPECT_EQ(sim("compare --only priority" + kExample).code, 2) << "not of those that are compared";
}

TEST(Only, APolicyIsNamedWithItsParametersOrWithout) {
  const std::string both = "compare --json --policies=tpc-mask:split=even,fcfs --only ";
  for (const std::string name : {"tpc-mask", "tpc-mask:split=even"})
    EXPECT_EQ(result_of(both + name + kExample)["results"].size(), 1u) << name;
}

TEST(Only, OfRecordedRunsBothTheMixAndThePolicyThatAreNamed) {
  const auto runs = result_of("validate --json --only four,fcfs,timeslice " + kRuns)["runs"];
  EXPECT_EQ(each(runs, "mix"), Words{"four"});
  EXPECT_EQ(each(runs, "policy"), (Words{"fcfs", "timeslice"}));
  expect_meant("validate --only fuor " + kRuns, "four");
  EXPECT_EQ(sim("validate --only four --mixes four " + kRuns).code, 2);
}

TEST(Validate, RecordedRunsAndNetworksAreSimulatedOnTheGpuThatIsNamed) {
  for (const std::string& what : {"four,timeslice " + kRuns, "two-rt-resnet152,streams --duration 20ms " + kNetworks}) {
    const auto of = [&](const std::string& gpu) { return result_of("validate --json --only " + what + gpu).dump(); };
    EXPECT_EQ(of(" --gpu h200"), of(""));
    EXPECT_NE(of(" --gpu h100-sxm"), of(""));
  }
  EXPECT_EQ(sim("validate --gpu h300 --only four,fcfs " + kRuns).code, 2);
}

TEST(Only, OfNetworksAndPairsAMisspeltNameIsToldBeforeAnythingRuns) {
  expect_meant("validate --only streasm " + kNetworks, "streams");
}

TEST(Only, OfPublishedFigures) {
  const Ran ran = sim("papers --only nothing-like-it");
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.out.find("--only"), std::string::npos) << ran.out;
}


TEST(Only, SweepsRunThePoliciesThatAreNamed) {
  const Ran ran = sim("sweep --policies fcfs,timeslice,mps --only mps --trace" + kExample);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1);
  expect_meant("sweep --policies fcfs,timeslice --only fcsf --trace" + kExample, "fcfs");
}

}  // namespace
}  // namespace corun
