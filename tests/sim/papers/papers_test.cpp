// `sim papers`: are figures read, simulated and judged as they say?  And does the committed scoreboard hold?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "sim/papers/report.h"
#include "sim/papers/scoreboard.h"
#include "tests/support/in_folder.h"
#include "tests/support/sim_file.h"
#include "tests/support/whole.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSmoke = "tests/data/papers/smoke-queue.json";

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

class Papers : public InFolder {
 protected:
  Papers() {
    std::filesystem::copy("tests/data/papers", folder_, std::filesystem::copy_options::recursive);
  }

  /// The smoke figure with one value replaced or added.
  std::filesystem::path with(const std::string& place, const json& value) const {
    json document = json::parse(text_of(kSmoke));
    document[json::json_pointer(place)] = value;
    const auto file = folder_ / "smoke-queue.json";
    std::ofstream(file) << document.dump();
    return file;
  }
  void expect_refused(const std::string& at, const json& value, const std::string& place,
                      const std::string& word) const {
    const auto file = with(at, value);
    try {
      score({read_figure(file)}, {});
      ADD_FAILURE() << "accepted; expected an error about " << word;
    } catch (const InputError& error) {
      EXPECT_EQ(error.file(), file.string()) << error.what();
      EXPECT_EQ(error.place(), place) << error.what();
      EXPECT_THAT(error.problem(), HasSubstr(word)) << error.what();
      EXPECT_NE(error.remedy(), "") << error.what();
    }
  }
};

// --- Reading

TEST_F(Papers, WhatAFigureCannotSayIsRefusedWithItsPlace) {
  expect_refused("/rwos", 1, "/rwos", "did you mean 'rows'?");
  expect_refused("/rows", json::array(), "/rows", "at least 1");
  expect_refused("/fitted", "much", "/fitted", "expected an array");
  expect_refused("/runs/queue/policy", "fcsf", "/runs/queue/policy", "'fcsf'");
  expect_refused("/runs/queue/trace", "traces/none.json", "/runs/queue/trace", "no file");
  expect_refused("/runs/queue/trace", 3, "/runs/queue/trace", "expected");
  expect_refused("/runs/alone/trace/clients/0/program", "shrot", "/runs/alone/trace/clients/0/program",
                 "did you mean 'short'?");
  expect_refused("/runs/alone/trace/gpu", "pascal", "/runs/alone/trace/gpu", "unknown GPU");
  expect_refused("/runs/queue/duration_ns", 0, "/runs/queue/duration_ns", "> 0");
  expect_refused("/rows/1/name", "a number that is wrong", "/rows/2/name", "exists already");
  expect_refused("/rows/1/simulated/run", "agian", "/rows/1/simulated/run", "did you mean 'again'?");
  expect_refused("/rows/2/simulated/add/0/mul/1", {{"run", "x"}, {"at", "/stp"}},
                 "/rows/2/simulated/add/0/mul/1/run", "unknown run 'x'");
  expect_refused("/rows/1/simulated/at", "/clients/9/slowdown", "/rows/1/simulated/at", "has no");
  expect_refused("/rows/1/simulated/at", "/clients/0/name", "/rows/1/simulated/at", "not a number");
  expect_refused("/rows/1/simulated/at", "stp", "/rows/1/simulated/at", "something like");
  expect_refused("/rows/2/simulated", {{"dvi", {1, 2}}}, "/rows/2/simulated/dvi", "did you mean 'div'?");
  expect_refused("/rows/2/simulated", {{"div", json::array()}}, "/rows/2/simulated/div", "at least 1");
  expect_refused("/rows/2/simulated", "1", "/rows/2/simulated", "expected");
  expect_refused("/rows/2/simulated", {{"div", {1, {{"sub", {1, 1}}}}}}, "/rows/2/simulated/div/1", "is 0");
  expect_refused("/order/0/1", "no row", "/order/0/1", "unknown row");
}

TEST_F(Papers, AnOrderMustRiseInThePublishedNumbers) {
  expect_refused("/order/0", {"a number that is wrong", "long kernel's slowdown"}, "/order/0/1", "is below");
}

TEST_F(Papers, AFigureIsFoundByItsFileOrItsSystem) {
  EXPECT_EQ(read_figures(folder_).size(), 1u);
  EXPECT_EQ(read_figures(folder_, {"smoke"}).size(), 1u);
  EXPECT_EQ(read_figures(folder_, {"smoke-queue"}).size(), 1u);
  EXPECT_THROW(read_figures(folder_, {"smoky"}), InputError);
  EXPECT_THROW(read_figures(folder_ / "none"), InputError);
}

// --- Computing

double value(const char* expression) {
  const json summary = {{"stuck", 0}, {"stp", 1.5}, {"clients", {{{"mean_ms", 4}}}}};
  return evaluate(
      json::parse(expression), [&](const std::string&) -> const json& { return summary; }, "f", "/p");
}

TEST(PapersExpression, IsComputedFromSummariesAndNumbers) {
  EXPECT_EQ(value("3"), 3);
  EXPECT_EQ(value(R"({"run": "r", "at": "/clients/0/mean_ms"})"), 4);
  EXPECT_EQ(value(R"({"div": [{"run": "r", "at": "/stp"}, 3, 0.5]})"), 1);
  EXPECT_EQ(value(R"({"sub": [10, 3, 2]})"), 5);
  EXPECT_EQ(value(R"({"mul": [2, 3, 4]})"), 24);
  EXPECT_EQ(value(R"({"add": [2, 3, 4]})"), 9);
  EXPECT_EQ(value(R"({"mean": [2, 3, 7]})"), 4);
  EXPECT_EQ(value(R"({"max": [2, 7, 3]})"), 7);
  EXPECT_EQ(value(R"({"min": [{"max": [5, 6]}, 7]})"), 6);
}

TEST(PapersExpression, OfARunThatCouldNotGoOnOnlyThatCanBeAsked) {
  const json summary = {{"stuck", 1}, {"why_stuck", "a waits for b"}};
  const auto ask = [&](const char* at) {
    return evaluate(
        {{"run", "r"}, {"at", at}}, [&](const std::string&) -> const json& { return summary; }, "f", "/p");
  };
  EXPECT_EQ(ask("/stuck"), 1);
  try {
    ask("/stp");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("a waits for b"));
  }
}

// --- Judging

struct Judged {
  std::vector<FigureRow> rows;
  std::vector<std::vector<std::size_t>> orders;

  void add(double published, double simulated, std::optional<double> baseline = {}) {
    rows.push_back({"", "", "", published, simulated, baseline});
  }
  std::vector<ScoredRow> judge() {
    figure.rows = rows;
    figure.orders = orders;
    std::vector<ScoredRow> scored;
    for (const FigureRow& row : figure.rows) scored.push_back({&figure, &row, row.simulated.get<double>()});
    sim::judge(figure, scored);
    return scored;
  }
  std::vector<bool> directions() {
    std::vector<bool> ok;
    for (const ScoredRow& r : judge()) ok.push_back(r.direction_ok);
    return ok;
  }
  Figure figure;
};

TEST(PapersJudgement, CloseIsWithinTwentyPercentBothWays) {
  Judged j;
  for (const double simulated : {79.9, 80.0, 120.0, 120.1}) j.add(100, simulated);
  EXPECT_THAT(j.directions(), testing::ElementsAre(false, true, true, false));
  const auto scored = j.judge();
  EXPECT_FALSE(scored[0].close());
  EXPECT_TRUE(scored[1].close());
  EXPECT_TRUE(scored[2].close());
  EXPECT_FALSE(scored[3].close());
}

TEST(PapersJudgement, ABaselineWantsTheSameSideHoweverFar) {
  Judged j;
  j.add(1.1, 9, 1);
  j.add(1.1, 1.001, 1);
  j.add(1.1, 1, 1);
  j.add(0.9, 1, 1);
  j.add(0.9, 0.1, 1);
  j.add(1, 1.2, 1);
  j.add(1, 1.21, 1);
  EXPECT_THAT(j.directions(), testing::ElementsAre(true, true, false, false, true, true, false));
}

TEST(PapersJudgement, AnOrderWantsEveryPairThatDiffersInPrintToDifferTheSameWay) {
  Judged j;
  j.add(1, 1);
  j.add(2, 5);
  j.add(2, 4);  // the same in print: either way
  j.add(3, 9);
  j.orders = {{0, 1, 2, 3}};
  EXPECT_THAT(j.directions(), testing::Each(true));
  j.rows[3].simulated = 4;  // no longer above the second, nor the third
  EXPECT_THAT(j.directions(), testing::ElementsAre(true, false, false, false));
}

TEST(PapersJudgement, ZeroIsOnlyReproducedByZero) {
  Judged j;
  j.add(0, 0);
  j.add(0, 0.001);
  EXPECT_THAT(j.directions(), testing::ElementsAre(true, false));
}

// --- Simulating

TEST_F(Papers, RunsThatAreTheSameAreSimulatedOnce) {
  ScoreOptions options;
  std::vector<double> told;
  options.progress = [&](const char*, double done) { told.push_back(done); };
  const std::vector<ScoredRow> rows = score({read_figure(kSmoke)}, options);
  EXPECT_THAT(told, testing::ElementsAre(testing::DoubleEq(1.0 / 3), testing::DoubleEq(2.0 / 3), 1.0));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_GT(rows[0].simulated, 50);
  EXPECT_NEAR(rows[1].simulated, 1, 0.01);
  EXPECT_EQ(rows[2].simulated, 21);
  EXPECT_THAT(std::vector<bool>({rows[0].direction_ok, rows[1].direction_ok, rows[2].direction_ok}),
              testing::ElementsAre(true, true, false));
}

TEST_F(Papers, AChangeOfARunMakesItAnother) {
  const auto count = [&](const std::filesystem::path& file) {
    std::size_t runs = 0;
    ScoreOptions options;
    options.progress = [&](const char*, double) { ++runs; };
    score({read_figure(file)}, options);
    return runs;
  };
  EXPECT_EQ(count(with("/runs/again/gpu", "pascal-5sm")), 4u);
  EXPECT_EQ(count(with("/runs/again/policy", "priority")), 4u);
  EXPECT_EQ(count(with("/runs/again/duration_ns", 1e8)), 4u);
  EXPECT_EQ(count(with("/runs/again/seed", 7)), 4u);
}

TEST_F(Papers, TheReasonStandsWithANumberThatIsOff) {
  const std::vector<Figure> figures{read_figure(kSmoke)};
  const std::vector<ScoredRow> rows = score(figures, {});
  for (const std::string& text : {format_scoreboard(rows), scoreboard_markdown(rows)})
    EXPECT_THAT(text, AllOf(HasSubstr("It is wrong so that"), HasSubstr("solo time is 100 times"),
                            HasSubstr("2 of 3 numbers within 20 % (67 %), 2 in")));
  const auto list = scoreboard_json(rows);
  std::set<std::string> names;
  for (const auto& row : list) {
    names.insert(row["figure"].get<std::string>());
    EXPECT_EQ(row["system"], "smoke");
    EXPECT_EQ(row["fitted"].size(), 1u);
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(list[2]["direction_ok"], false);
  EXPECT_EQ(list[2]["ratio"], 2.1);
}

// --- The committed scoreboard

/// Rows (`figure` of --json) whose direction or order is not the published one, each explained in its `why`.
const std::set<std::string> kKnownGaps = {"Fig. 4.19: two kernels: FT-LM, MPS over CUDA",
                                          "Fig. 4.19: two kernels: LM-BS, MPS over CUDA"};

class Scoreboard : public testing::Test {
 protected:
  /// What the command says of the built-in figures, without REEF's where not all are to be simulated: they take 70 % of the time,
  /// and the tests of `Reef` and `ReefN` are of them.
  static const json& rows() {
    static const json all = [] {
      const std::string out =
          (std::filesystem::temp_directory_path() / fmt::format("corun-{}", getpid())).string();
      const std::string command =
          fmt::format("env -u CORUN_AUDIT {} papers --json{} --markdown {}.md > {}.json", sim_file(),
                      whole() ? "" : " --only flexgpu,libsmctrl,smcompactor,fcfs,greedy,mps,timeslice,smguard", out, out);
      json list = json::array();
      if (std::system(command.c_str()) == 0) {
        list = json::parse(text_of(out + ".json"));
        markdown_ = text_of(out + ".md");
      }
      std::filesystem::remove(out + ".json");
      std::filesystem::remove(out + ".md");
      return list;
    }();
    return all;
  }
  static inline std::string markdown_;
};

TEST_F(Scoreboard, HoldsWhatItPromisesAndIsCommittedAsPrinted) {
  ASSERT_FALSE(rows().empty()) << "`sim papers` failed";
  std::size_t close = 0;
  std::set<std::string> names, gaps;
  for (const json& row : rows()) {
    const std::string name = row["figure"];
    EXPECT_TRUE(names.insert(row["system"].get<std::string>() + name).second)
        << name << " stands there twice";
    const bool within = row["ratio"].is_number() && row["ratio"] >= 0.8 && row["ratio"] <= 1.2;
    close += within;
    if (!row["direction_ok"]) gaps.insert(name);
    if (!within || !row["direction_ok"]) {
      EXPECT_NE(row["why"], "") << name << ": published " << row["published"] << ", simulated "
                                << row["simulated"];
    }
  }
  EXPECT_GE(4 * close, 3 * rows().size()) << close << " of " << rows().size() << " within 20 %";
  EXPECT_EQ(gaps, kKnownGaps) << "a gap that has opened, or one that has closed: correct the list";
  const std::string page = text_of("experiments/papers/README.md"),
                    anew = "run `build/bin/sim papers --markdown experiments/papers/README.md`";
  if (whole()) {
    EXPECT_EQ(markdown_, page) << anew;
    return;
  }
  std::istringstream lines(markdown_);
  std::size_t found = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("| ")) {
      ++found;
      EXPECT_NE(page.find(line + "\n"), std::string::npos) << line << '\n' << anew;
    }
  EXPECT_GE(found, rows().size());
}

}  // namespace
}  // namespace corun::sim
