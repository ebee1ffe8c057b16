// Are programs on an H100 simulated as they ran there, in turns, under MPS and under `sim serve`?  What they got done together
// (experiments/h100/live, stp-1.json.gz to stp-3.json.gz), of programs captured alone on the same kind of card.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/sim_command.h"
#include "tests/support/whole.h"
#include "traces/json/input_file.h"

namespace corun {
namespace {

using Programs = std::set<std::string>;

using Shares = std::map<std::string, double>;  // of what a program does alone

struct Measured {
  std::vector<std::string> programs;  // the first is real-time under `sim serve`
  std::map<std::string, std::map<Programs, Shares>> runs;  // by mode
};

double stp(const Shares& shares) {
  double sum = 0;
  for (const auto& [name, share] : shares) sum += share;
  return sum;
}

Measured read_measured(const std::string& name) {
  const auto in = open_input("experiments/h100/live/" + name + ".json.gz");
  const auto file = nlohmann::json::parse(*in);
  Measured all{file["programs"].get<std::vector<std::string>>(), {}};
  std::map<std::string, double> alone;
  for (const auto& run : file["runs"])
    for (const auto& row : run["sets"])
      if (row.size() == 1)
        for (const auto& [program, said] : row.items()) alone[program] = std::max(alone[program], said["per_s"].get<double>());
  for (const auto& run : file["runs"])
    for (const auto& row : run["sets"]) {
      if (row.size() == 1) continue;
      Programs programs;
      Shares shares;
      for (const auto& [program, said] : row.items())
        programs.insert(program), shares[program] = said["per_s"].get<double>() / alone.at(program);
      all.runs[run["mode"]][programs] = shares;
    }
  return all;
}

/// TPCs of an even split among three, as the driver's groups of four, and of six at the end, fall to them (hw/live/groups.h).
constexpr std::array kOfThree{"0-23", "24-43", "44-65"};

/// Each set of programs, measured and simulated with these options.  `make test` simulates every second set, and the one with a known
/// gap.
std::map<Programs, std::pair<Shares, Shares>> compared(const std::string& name, const std::string& mode, const std::string& options,
                                                       const Programs& gap = {}) {
  const Measured measured = read_measured(name);
  std::map<Programs, std::pair<Shares, Shares>> all;
  std::size_t sets = 0;
  for (const auto& [programs, shares] : measured.runs.at(mode)) {
    if (sets++ % 2 == 1 && programs != gap && !whole()) continue;
    std::string arguments = "--gpu=h100-sxm --duration=500ms --json " + options;
    for (std::size_t i = 0; i < measured.programs.size(); ++i) {
      const std::string& program = measured.programs[i];
      if (!programs.contains(program)) continue;
      const bool real_time = i == 0 && options.find("--as-served") != std::string::npos;
      arguments += fmt::format(" --client {0}=experiments/h100/live/traces/{0}.json.gz,closed,process={1},{2}{3}", program, i,
                               real_time ? "rt,priority=-5" : "be",
                               mode.starts_with("tpc-mask") ? fmt::format(",tpcs={}", kOfThree.at(i)) : "");
    }
    const Ran ran = sim_unaudited(arguments);
    if (ran.code != 0) throw std::runtime_error(ran.out);
    Shares simulated;
    const auto said = nlohmann::json::parse(ran.out);
    for (const auto& client : said["clients"]) simulated[client["name"]] = client["progress"].get<double>();
    all[programs] = {shares, simulated};
  }
  return all;
}

/// Error of STP.
std::map<Programs, double> errors(const std::string& name, const std::string& mode, const std::string& options, const Programs& gap = {}) {
  std::map<Programs, double> all;
  for (const auto& [programs, both] : compared(name, mode, options, gap)) all[programs] = stp(both.second) / stp(both.first) - 1;
  return all;
}

constexpr double kWanted = 0.06;

TEST(LiveAccuracy, InTurnsAllSetsAreWithinSixPercentButOneAtItsEdge) {
  const Programs edge{"prefill", "vision-graph"};
  const std::map<std::string, double> known{{"stp-1", 0.06}, {"stp-2", 0}, {"stp-3", 0.054}};
  for (const auto& [name, of_edge] : known)
    for (const auto& [programs, error] : errors(name, "turns", "--policy=timeslice", edge))
      if (programs == edge)
        EXPECT_NEAR(error, of_edge, 0.01) << "a prefill gets 0.55 of its throughput alone, measured 0.50 and 0.51";
      else
        EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
}

TEST(LiveAccuracy, UnderMpsAllSetsAreWithinSixPercent) {
  for (const char* name : {"stp-1", "stp-3"})
    for (const auto& [programs, error] : errors(name, "mps", "--policy=fcfs"))
      EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
}

TEST(LiveAccuracy, UnderLookaheadAllSetsAreWithinSixPercent) {
  for (const auto& [programs, error] : errors("stp-1", "lookahead", "--policy=lookahead --as-served=8 --look-us=1150"))
    EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
}

/// All sets within what is wanted, but one that is as far off as is known.
void expect_one_gap(const std::string& name, const std::string& mode, const std::string& options, const Programs& gap, double known) {
  const std::map<Programs, double> all = errors(name, mode, options, gap);
  EXPECT_TRUE(all.contains(gap));
  for (const auto& [programs, error] : all)
    if (programs == gap) {
      EXPECT_NEAR(error, known, 0.015);
      EXPECT_GT(std::abs(error), 0.055) << "a known gap has closed";
    } else {
      EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
    }
}

/// Of stp-1 these are not simulated: in its library each kernel of a graph depended on all before it (hw/DECISIONS.md, 380).
/// Known gaps: sets with the prefill, whose products on 44 SMs are simulated too fast (experiments/h200/tiles), and the
/// vision network's share beside it and beside training.
TEST(LiveAccuracy, OnAThirdOfTheTpcsEachSetsWithoutThePrefillAreWithinSixPercent) {
  const Programs three{"prefill", "train", "vision-graph"};
  const std::map<Programs, double> too_fast{{{"prefill", "train"}, 0.089}, {{"prefill", "vision-graph"}, 0.106}, {three, 0.124}, {{"train", "vision-graph"}, 0.081}};
  const std::map<Programs, double> too_much{{{"prefill", "vision-graph"}, 0.05}, {three, 0.068}, {{"train", "vision-graph"}, 0.041}};
  for (const auto& [programs, both] : compared("stp-3", "tpc-mask:split=even", "--policy=tpc-mask --as-served=8", three)) {
    const auto& [measured, simulated] = both;
    const double error = stp(simulated) / stp(measured) - 1;
    if (const auto gap = too_fast.find(programs); gap != too_fast.end())
      EXPECT_NEAR(error, gap->second, 0.015) << "a gap that is another now, or none";
    else
      EXPECT_LE(std::abs(error), kWanted) << *programs.begin() << " and " << *programs.rbegin();
    if (programs != three) {
      for (const auto& [program, share] : measured) EXPECT_NEAR(simulated.at(program), share, 0.055) << program;
    }
    if (!programs.contains("vision-graph")) continue;
    const double more = simulated.at("vision-graph") - measured.at("vision-graph");
    if (const auto gap = too_much.find(programs); gap != too_much.end())
      EXPECT_NEAR(more, gap->second, 0.01) << *programs.begin() << " and " << *programs.rbegin();
    else
      EXPECT_LE(std::abs(more), 0.03) << *programs.begin() << " and " << *programs.rbegin();
  }
}

TEST(LiveAccuracy, UnderReefNAPrefillBesideAGraphOrTrainingIsFurtherOffThanSixPercent) {
  expect_one_gap("stp-1", "reef-n", "--policy=reef-n --as-served=8", {"prefill", "vision-graph"}, 0.067);
  expect_one_gap("stp-3", "reef-n", "--policy=reef-n --as-served=8", {"prefill", "train"}, 0.088);
}

TEST(LiveAccuracy, BesideADecodeAllSetsUnderMpsFcfsAndSmguardAreWithinSixPercent) {
  const Programs three{"decode-graph", "train", "vision-graph"};
  for (const auto& [mode, options] : {std::pair{"mps", "--policy=fcfs"}, {"fcfs", "--policy=fcfs --as-served=8"},
                                      {"smguard --persistent --gpu=h100-sxm", "--policy=smguard --as-served=8"}}) {
    const auto all = errors("stp-2", mode, options, three);
    EXPECT_TRUE(all.contains(three));
    for (const auto& [programs, error] : all)
      EXPECT_LE(std::abs(error), kWanted) << mode << ": " << *programs.begin() << " and " << *programs.rbegin();
  }
}

/// A known gap: the decode gets 0.82 beside training, simulated 0.89; all other shares are within 0.04.
TEST(LiveAccuracy, UnderWaitEachProgramGetsWhatItGotBesideADecodeThatNothingStops) {
  for (const auto& [programs, both] : compared("stp-2", "wait", "--policy=wait --as-served=8")) {
    const auto& [measured, simulated] = both;
    EXPECT_NEAR(stp(simulated) / stp(measured), 1, kWanted);
    if (!programs.contains("decode-graph")) continue;
    for (const auto& [name, share] : measured)
      if (name == "decode-graph" && programs == Programs{"decode-graph", "train"})
        EXPECT_NEAR(simulated.at(name) - share, 0.073, 0.01) << "a known gap";
      else
        EXPECT_NEAR(simulated.at(name), share, 0.04) << name << " of " << programs.size() << ": its graph is one launch";
  }
}

}  // namespace
}  // namespace corun
