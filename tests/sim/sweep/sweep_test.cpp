// Is a grid's order that of its lists, does a hash change when and only when a result may, and do lines not depend
// on workers?
#include "sim/sweep/sweep.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/input/client_settings.h"
#include "tests/support/in_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

const std::string kTrace = R"({"corun_trace": 1, "name": "t", "gpu": "h200",
  "kernels": [{"name": "k", "grid": [264, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32, "solo_time_ns": 50000}],
  "programs": [{"name": "p", "ops": [{"launch": "k"}]}],
  "clients": [{"name": "cam", "program": "p", "class": "real_time", "arrivals": {"type": "poisson", "rate_per_s": 2000}},
              {"name": "llm", "program": "p"}],
  "run": {"duration_ns": 5000000}})";

class Sweeps : public InFolder {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    return InFolder::write(name, text).string();
  }
  static Trace read(const std::string& file) { return read_trace(file); }
  std::string hash(const std::string& text, Point point = {}) const {
    point.trace = write("h.json", text);
    if (point.policy.empty()) point.policy = "fcfs";
    return Prepared(point, read).hash(point.policy);
  }
  static std::string with(std::string text, const std::string& old, const std::string& now) {
    text.replace(text.find(old), old.size(), now);
    return text;
  }
};

TEST_F(Sweeps, PointsAreInTheOrderOfTheGridThePoliciesFastest) {
  Grid grid{{"a", "b"}, {"h200"}, {"fcfs", "mps"}, {{"cam.rate", {"1", "2"}}, {"llm.quota", {"0.5"}}}, {1, 2}, "5ms"};
  const std::vector<Point> points = points_of(grid);
  ASSERT_EQ(points.size(), 16u);
  EXPECT_EQ(points[0].policy, "fcfs");
  EXPECT_EQ(points[1].policy, "mps");
  EXPECT_EQ(points[2].seed, 2u);
  EXPECT_EQ(points[3].changes[0].second, "1");
  EXPECT_EQ(points[4].changes[0].second, "2");
  EXPECT_EQ(points[4].changes[1], (std::pair<std::string, std::string>{"llm.quota", "0.5"}));
  EXPECT_EQ(points[8].trace, "b");
  EXPECT_THROW(points_of({{}, {}, {"fcfs"}, {}, {}, ""}), InputError);
  EXPECT_THROW(points_of({{"a"}, {}, {}, {}, {}, ""}), InputError);
}

TEST_F(Sweeps, AHashChangesWithWhatDecidesTheResultAndWithNothingElse) {
  const std::string same = hash(kTrace);
  EXPECT_EQ(same.size(), 32u);
  EXPECT_EQ(hash(with(kTrace, "\"name\": \"t\"", "\"name\": \"u\", \"about\": \"x\"")), same) << "names of files";
  EXPECT_EQ(hash(with(kTrace, ", \"registers", ",   \"registers")), same) << "blanks";
  EXPECT_EQ(hash(kTrace, {.gpu = "h200"}), same) << "the GPU that the trace names";
  EXPECT_EQ(hash(kTrace, {.duration = "5ms"}), same);
  std::vector<std::string> others = {hash(with(kTrace, "50000", "50001")),
                                     hash(with(kTrace, "2000}", "2001}")),
                                     hash(kTrace, {.gpu = "h100-sxm"}),
                                     hash(kTrace, {.changes = {{"cam.rate", "2001"}}}),
                                     hash(kTrace, {.changes = {{"llm.priority", "-1"}}}),
                                     hash(kTrace, {.seed = 2}),
                                     hash(kTrace, {.duration = "6ms"}),
                                     hash(kTrace, {.policy = "mps"}),
                                     hash(kTrace, {.policy = "mps:percentages=50"})};
  EXPECT_EQ(others[1], others[3]) << "a rate may be in the file or be set";
  others.erase(others.begin() + 3);
  others.push_back(same);
  std::sort(others.begin(), others.end());
  EXPECT_EQ(std::adjacent_find(others.begin(), others.end()), others.end());
}

TEST_F(Sweeps, AHashIsTheSameOnEveryMachine) {
  // As Python's uuid.uuid5 has it, which knows nothing of corun.
  EXPECT_EQ(hash_of_request({"a", "", {}, {}, "", "fcfs"}), "4f6a1f9400715b95a8e6abad5ca21a77");
}

TEST_F(Sweeps, LinesDoNotDependOnTheNumberOfThreads) {
  const std::string file = write("t.json", kTrace);
  const std::vector<Point> points =
      points_of({{file}, {}, {"fcfs", "timeslice", "priority"}, {{"cam.rate", {"1000", "3000"}}}, {1, 2, 3}, ""});
  std::map<unsigned, std::vector<std::string>> lines;
  for (const unsigned threads : {1u, 3u}) {
    lines[threads].resize(points.size());
    sweep(points, read, {threads, {}, [&](std::size_t i, const std::string& line, bool) { lines[threads][i] = line; }, {}});
  }
  EXPECT_EQ(lines[1], lines[3]);
  EXPECT_NE(lines[1][0], lines[1][1]);
}

TEST_F(Sweeps, WhatIsKnownIsNotRunAgain) {
  const std::string file = write("t.json", kTrace), moved = write("u.json", kTrace);
  std::map<std::string, std::string> known;
  std::size_t fresh = 0;
  const auto options = [&] {
    SweepOptions o;
    o.known = [&](const std::string& h) {
      return known.contains(h) ? std::optional(known[h]) : std::nullopt;
    };
    o.done = [&](std::size_t, const std::string& line, bool is_new) {
      fresh += is_new;
      known[nlohmann::json::parse(line)["hash"]] = line;
    };
    return o;
  };
  sweep(points_of({{file}, {}, {"fcfs", "mps"}, {}, {}, ""}), read, options());
  EXPECT_EQ(fresh, 2u);
  sweep(points_of({{moved}, {}, {"fcfs", "mps", "timeslice"}, {}, {}, ""}), read, options());
  EXPECT_EQ(fresh, 3u) << "the same content under another name is known";
  for (const auto& [h, line] : known) EXPECT_EQ(nlohmann::json::parse(line)["trace"], moved) << "under today's name";
}

TEST_F(Sweeps, APointThatFailsIsALineWithItsError) {
  const std::string file = write("t.json", kTrace);
  std::vector<std::string> lines(3);
  sweep(points_of({{file}, {}, {"mig:profile=9g", "fcfs"}, {}, {}, ""}), read,
        {1, {}, [&](std::size_t i, const std::string& line, bool) { lines[i] = line; }, {}});
  EXPECT_TRUE(nlohmann::json::parse(lines[0])["error"].contains("remedy")) << lines[0];
  EXPECT_TRUE(nlohmann::json::parse(lines[1]).contains("result"));
  sweep(points_of({{file}, {}, {"fcfs"}, {{"can.rate", {"5"}}}, {}, ""}), read,
        {1, {}, [&](std::size_t i, const std::string& line, bool) { lines[i] = line; }, {}});
  EXPECT_NE(lines[0].find("did you mean 'cam'"), std::string::npos) << lines[0];
}

TEST_F(Sweeps, AGridFileSaysWhatOptionsSay) {
  const std::string file = write(
      "grid.json",
      R"({"corun_sweep": 1, "traces": ["t.json"], "policies": ["fcfs"], "set": {"cam.rate": [50, "60"]}, "seeds": [1, 2]})");
  const Grid grid = read_grid(file);
  EXPECT_EQ(points_of(grid).size(), 4u);
  EXPECT_EQ(grid.changes[0].second, (std::vector<std::string>{"50", "60"}));
  EXPECT_TRUE(std::filesystem::path(grid.traces[0]).has_parent_path()) << "relative to the file";
  EXPECT_THROW(read_grid(write("bad.json", R"({"corun_sweep": 1, "traces": ["t.json"]})")), InputError);
  const std::string list = R"({"corun_sweep": 1, "traces": ["t.json"], "policies": ["fcfs"], "set": {"cam.rate": [[]]}})";
  EXPECT_THROW(read_grid(write("list.json", list)), InputError) << "expected a string or number";
}

TEST_F(Sweeps, SeedsAndChangesAreReadAsWritten) {
  EXPECT_EQ(parse_seeds("1..3,9"), (std::vector<std::uint64_t>{1, 2, 3, 9}));
  for (const char* bad : {"x", "3..1", "1..", "-1"}) EXPECT_THROW(parse_seeds(bad), InputError) << bad;
  EXPECT_EQ(parse_change("cam.rate=5,6").second.size(), 2u);
  for (const char* bad : {"cam.rate", "cam.rate=", "rate=5", ".rate=5", "cam.=5"})
    EXPECT_THROW(parse_change(bad), InputError) << bad;
}

TEST_F(Sweeps, ARateKeepsTheKindOfArrivals) {
  Client client;
  std::vector<std::string> notes;
  const auto set = [&](Arrivals arrivals) {
    client.arrivals = std::move(arrivals);
    apply_client_settings(client, {{"rate", "100", true}}, "", notes);
    return client.arrivals;
  };
  EXPECT_EQ(std::get<Poisson>(set(Poisson{5, 7})).rate_per_s, 100);
  EXPECT_EQ(std::get<Poisson>(client.arrivals).seed, 7u);
  EXPECT_EQ(std::get<Periodic>(set(Periodic{from_ns(1), from_ns(3)})).period, from_ns(1e7));
  EXPECT_EQ(std::get<Periodic>(client.arrivals).offset, from_ns(3));
  EXPECT_EQ(std::get<Periodic>(set(ClosedLoop{})).period, from_ns(1e7));
  EXPECT_EQ(std::get<ExplicitTimes>(set(ExplicitTimes{{from_ns(0), from_ns(1e9), from_ns(4e9)}})).times.back(), from_ns(2e7));
}

}  // namespace
}  // namespace corun::sim
