// Are programs on an H100 simulated as they ran there, in turns, under MPS and under `sim serve`?  What they got done together
// (experiments/h100/live, stp-1.json.gz), of programs captured alone on the same kind of card.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/sim_command.h"
#include "traces/json/input_file.h"

namespace corun {
namespace {

using Programs = std::set<std::string>;

struct Measured {
  std::vector<std::string> programs;  // the first is real-time under `sim serve`
  std::map<std::string, std::map<Programs, double>> stp;  // by mode
};

Measured read_measured() {
  const auto in = open_input("experiments/h100/live/stp-1.json.gz");
  const auto file = nlohmann::json::parse(*in);
  Measured all{file["programs"].get<std::vector<std::string>>(), {}};
  std::map<std::string, double> alone;
  for (const auto& run : file["runs"])
    for (const auto& row : run["sets"])
      if (row.size() == 1)
        for (const auto& [name, said] : row.items()) alone[name] = std::max(alone[name], said["per_s"].get<double>());
  for (const auto& run : file["runs"])
    for (const auto& row : run["sets"]) {
      if (row.size() == 1) continue;
      Programs programs;
      double stp = 0;
      for (const auto& [name, said] : row.items()) programs.insert(name), stp += said["per_s"].get<double>() / alone.at(name);
      all.stp[run["mode"]][programs] = stp;
    }
  return all;
}

/// Error of STP of each set of programs, simulated with these options.  Of an even split: TPCs in the driver's groups of four.
std::map<Programs, double> errors(const std::string& mode, const std::string& options) {
  const Measured measured = read_measured();
  std::map<Programs, double> all;
  for (const auto& [programs, stp] : measured.stp.at(mode)) {
    std::string arguments = "--gpu=h100-sxm --duration=500ms --json " + options;
    for (std::size_t i = 0; i < measured.programs.size(); ++i) {
      const std::string& name = measured.programs[i];
      if (!programs.contains(name)) continue;
      const bool real_time = i == 0 && options.find("--as-served") != std::string::npos;
      const std::size_t tpcs = 66 / 4 / measured.programs.size() * 4;
      arguments += fmt::format(" --client {0}=experiments/h100/live/traces/{0}.json.gz,closed,process={1},{2}{3}", name, i,
                               real_time ? "rt,priority=-5" : "be",
                               mode.starts_with("tpc-mask") ? fmt::format(",tpcs={}-{}", i * tpcs, (i + 1) * tpcs - 1) : "");
    }
    const Ran ran = shell(fmt::format("env -u CORUN_AUDIT {} {}", std::getenv("CORUN_SIM"), arguments));  // audited it takes minutes
    if (ran.code != 0) throw std::runtime_error(ran.out);
    double simulated = 0;
    const auto said = nlohmann::json::parse(ran.out);
    for (const auto& client : said["clients"]) simulated += client["progress"].get<double>();
    all[programs] = simulated / stp - 1;
  }
  return all;
}

constexpr double kWanted = 0.06;

TEST(LiveAccuracy, InTurnsOneSetOfFourIsFurtherOffThanSixPercent) {
  for (const auto& [programs, error] : errors("turns", "--policy=timeslice"))
    if (programs == Programs{"prefill", "vision-graph"}) {
      EXPECT_NEAR(error, 0.065, 0.01);
      EXPECT_GT(error, 0.055) << "a known gap has closed: a prefill gets 0.55 of its throughput alone, measured 0.50";
    } else {
      EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
    }
}

TEST(LiveAccuracy, UnderMpsAllSetsAreWithinSixPercent) {
  for (const auto& [programs, error] : errors("mps", "--policy=fcfs"))
    EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
}

TEST(LiveAccuracy, UnderLookaheadAllSetsAreWithinSixPercent) {
  for (const auto& [programs, error] : errors("lookahead", "--policy=lookahead --as-served=8 --look-us=1150"))
    EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
}

TEST(LiveAccuracy, TrainingOnAThirdOfTheTpcsIsFasterThanSimulated) {
  const auto of = errors("tpc-mask:split=even", "--policy=tpc-mask --as-served=8");
  const double known[] = {of.at({"train", "vision-graph"}), of.at({"prefill", "train"})};
  EXPECT_NEAR(known[0], -0.133, 0.015);
  EXPECT_NEAR(known[1], -0.198, 0.015);
  for (const double error : known) EXPECT_LT(error, -0.1) << "a known gap has closed";
  EXPECT_LE(std::abs(of.at({"prefill", "vision-graph"})), kWanted);
  EXPECT_LE(std::abs(of.at({"prefill", "train", "vision-graph"})), kWanted);
}

}  // namespace
}  // namespace corun
