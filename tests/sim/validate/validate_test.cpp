// `sim validate`: is a reference measurement read, replayed and scored as it was made?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "sim/validate/replay.h"
#include "sim/validate/report.h"
#include "sim/validate/score.h"
#include "tests/support/sim_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kValid = R"({
  "gpu": "NVIDIA H200, somewhere", "of the future": [1],
  "kernels": {
    "long": {"name": "void long<4>", "grid": [8, 33, 1], "block": [32, 4, 1], "registers_per_thread": 40,
             "shared_memory_bytes": 24, "launches": 6, "solo_ms": 0.12, "solo_ms_by_sms": {"8": 1.2, "132": 0.12},
             "ncu": {"dram_read_bytes": 1000, "issue_active_pct": 12.5, "ncu_duration_ns": 19000, "other": 1}},
    "short": {"grid": [64, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32, "launches": 2, "solo_ms": 0.01}},
  "rows": []
})";

json valid() {
  json document = json::parse(kValid);
  for (Mode mode : kModes)
    for (const auto& [a, b] : {std::pair{"long", "short"}, {"long", "long"}})
      document["rows"].push_back({{"a", a}, {"b", b}, {"mode", to_string(mode)}, {"t_a", 0.2}, {"t_b", 0.1}});
  return document;
}

class Validate : public ::testing::Test {
 protected:
  Validate()
      : file_(std::filesystem::temp_directory_path() /
              fmt::format("corun_validate{}.json", std::random_device{}())) {}
  ~Validate() override {
    std::error_code error;
    std::filesystem::remove(file_, error);
  }

  std::string write(const json& document) const {
    std::ofstream(file_) << document.dump();
    return file_.string();
  }
  Reference read(const json& document, Inputs inputs = Inputs::curve) const {
    return read_reference(write(document), h200_, inputs);
  }
  void expect_refused(const json& document, const std::string& place, const std::string& word) const {
    try {
      read(document);
      ADD_FAILURE() << "accepted; expected an error about " << word;
    } catch (const InputError& error) {
      EXPECT_EQ(error.file(), file_.string()) << error.what();
      EXPECT_EQ(error.place(), place) << error.what();
      EXPECT_THAT(error.problem(), HasSubstr(word)) << error.what();
      EXPECT_NE(error.remedy(), "") << error.what();
    }
  }
  /// The valid document with one value replaced or added.
  static json with(const std::string& place, const json& value) {
    json document = valid();
    document[json::json_pointer(place)] = value;
    return document;
  }
  static json without(const std::string& place) {
    return valid().patch({{{"op", "remove"}, {"path", place}}});
  }

  const std::filesystem::path file_;
  const Gpu h200_ = read_gpu("h200");
};

// --- Scores

TEST(Score, PercentilesAreLinearBetweenRanks) {
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0.95), 3.85);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(percentile({7}, 0.95), 7);
  EXPECT_TRUE(std::isnan(percentile({}, 0.5)));
}

TEST(Score, StpWithinThePrecisionOfAMeasurementAreTies) {
  const std::vector<double> x{1, 1.0099, 1.5}, y{1.0099, 1, 1.5};
  EXPECT_DOUBLE_EQ(kendall_tau(x, y, 0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(kendall_tau(x, y, 0.01), 1);
  EXPECT_DOUBLE_EQ(kendall_tau(x, y, 0.0097), 1.0 / 3);
}

TEST(Score, KendallTauCountsTiesOnEitherSide) {
  const std::vector<double> up{1, 2, 3}, down{3, 2, 1}, tied{1, 2, 2}, flat{1, 1, 1};
  EXPECT_DOUBLE_EQ(kendall_tau(up, up, 0), 1);
  EXPECT_DOUBLE_EQ(kendall_tau(up, down, 0), -1);
  EXPECT_DOUBLE_EQ(kendall_tau(up, tied, 0), 2 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(kendall_tau(tied, up, 0), 2 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(kendall_tau(tied, tied, 0), 1);
  EXPECT_TRUE(std::isnan(kendall_tau(up, flat, 0)));
  EXPECT_DOUBLE_EQ(kendall_tau(std::vector<double>{1, 2, 3, 4}, std::vector<double>{1, 3, 2, 4}, 0), 4.0 / 6);
}

TEST(Score, APickMayBeTwoPercentBelowTheBestButNoMore) {
  const std::vector<double> simulated{1.0, 1.3, 1.2};
  EXPECT_TRUE(picks_best(std::vector<double>{1.0, 0.98, 0.5}, simulated));
  EXPECT_FALSE(picks_best(std::vector<double>{1.0, 0.9799, 0.5}, simulated));
  EXPECT_TRUE(picks_best(std::vector<double>{0.7, 1.5, 0.5}, simulated));
}

ComparedRow row(const char* pair, Mode mode, Slowdowns measured, Slowdowns simulated) {
  return {pair, mode, measured, simulated, 1, ""};
}

TEST(Score, ErrorsAreOfBothClientsSlowdownsAndOfTheRowsStp) {
  const std::vector<ComparedRow> rows{row("a+b", Mode::half, {2, 1}, {2.2, 0.5}),
                                      row("a+b", Mode::quarter, {4, 2}, {4, 1.4})};
  const Errors e = errors_of(rows);
  EXPECT_EQ(e.rows, 2u);
  EXPECT_NEAR(e.slowdown_mean, (0.1 + 0.5 + 0 + 0.3) / 4, 1e-12);
  EXPECT_NEAR(e.slowdown_median, 0.2, 1e-12);
  EXPECT_NEAR(e.slowdown_p95, 0.3 + 0.85 * 0.2, 1e-12);
  EXPECT_NEAR(e.slowdown_worst, 0.5, 1e-12);
  EXPECT_NEAR(e.stp_mean, (std::abs((1 / 2.2 + 2) / 1.5 - 1) + std::abs((0.25 + 1 / 1.4) / 0.75 - 1)) / 2,
              1e-12);
  EXPECT_TRUE(std::isnan(errors_of({}).slowdown_mean));
}

TEST_F(Validate, MeasuredTimesAreScoredByMeasuredSoloTimesAndSimulatedByTheSimulators) {
  const Reference reference = read(valid());  // the rows: each mode with long+short, long+long
  Replay replayed;
  replayed.solo_ms = {0.24, 0.02};  // twice as slow throughout
  replayed.solo_ms_by_sms = {{{8, 1.2}, {132, 0.15}}, {}};
  for (const ReferenceRow& r : reference.rows) replayed.rows.push_back({2 * r.t_a, 2 * r.t_b, "dram"});
  // long+short: as simulated, half is clearly best, though it was measured like the others.
  replayed.rows[8].t_a /= 2;
  const Comparison c = compare(reference, replayed);
  EXPECT_EQ(c.rows[0].pair, "long+short");
  EXPECT_DOUBLE_EQ(c.rows[0].measured.a, 0.2 / 0.12);
  EXPECT_DOUBLE_EQ(c.rows[0].measured.b, 0.1 / 0.01);
  EXPECT_DOUBLE_EQ(c.rows[0].simulated.b, 0.1 / 0.01);
  EXPECT_EQ(c.rows[0].why, "dram");
  EXPECT_NEAR(c.modes.at(Mode::streams).slowdown_worst, 0, 1e-12);
  EXPECT_NEAR(c.modes.at(Mode::half).slowdown_worst, 0.5, 1e-12);
  EXPECT_NEAR(c.all.slowdown_mean, 0.5 / 24, 1e-12);
  EXPECT_EQ(c.pairs, 2u);
  EXPECT_TRUE(std::isnan(c.kendall_tau));  // all measured alike: no order
  EXPECT_DOUBLE_EQ(c.best_mode_picked, 1);
  EXPECT_NEAR(c.solo.at(8).worst, 0, 1e-12);
  EXPECT_NEAR(c.solo.at(132).mean, 0.25, 1e-12);
  EXPECT_EQ(c.solo_all.times, 2u);
  EXPECT_EQ(worst_rows(c, 3).front(), &c.rows[8]);
}

TEST_F(Validate, OnlyPairsWithSeveralModesHaveAnOrder) {
  json document = valid();
  document["rows"] = {{{"a", "long"}, {"b", "long"}, {"mode", "half"}, {"t_a", 1}, {"t_b", 1}},
                      {{"a", "long"}, {"b", "short"}, {"mode", "half"}, {"t_a", 1}, {"t_b", 1}},
                      {{"a", "long"}, {"b", "short"}, {"mode", "streams"}, {"t_a", 2}, {"t_b", 2}}};
  const Reference reference = read(document);
  Replay replayed;
  replayed.solo_ms = {0.12, 0.01};
  replayed.solo_ms_by_sms = {{{8, 1.2}, {132, 0.12}}, {}};
  replayed.rows = {{1, 1, ""}, {2, 2, ""}, {1, 1, ""}};
  const Comparison c = compare(reference, replayed);
  EXPECT_EQ(c.pairs, 1u);
  EXPECT_DOUBLE_EQ(c.kendall_tau, -1);
  EXPECT_DOUBLE_EQ(c.best_mode_picked, 0);
}

// --- Files

TEST_F(Validate, WhatALaunchCostsBesideItsBlocksLiesBetweenLaunches) {
  const Gpu of = of_periods(h200_);
  EXPECT_EQ(of.stream_gap + of.contention.launch_cost, h200_.stream_gap + h200_.contention.launch_cost);
  EXPECT_EQ(of.contention.launch_cost, from_ns(460));
  Gpu quick = h200_;
  quick.contention.launch_cost = from_ns(459);
  EXPECT_EQ(of_periods(quick).stream_gap, quick.stream_gap);
  EXPECT_EQ(of_periods(quick).contention.launch_cost, from_ns(459));
}

TEST_F(Validate, AReferenceIsReadWithTheKernelsAloneOfOneLaunch) {
  const Reference reference = read(valid());
  ASSERT_THAT(reference.kernels, SizeIs(2));
  EXPECT_THAT(reference.rows, SizeIs(12));
  EXPECT_EQ(reference.pair(reference.rows[0]), "long+short");
  const ReferenceKernel& k = reference.kernels[0];
  EXPECT_EQ(k.kernel.name, "long");
  EXPECT_EQ(k.kernel.origin.place, "/kernels/long");
  EXPECT_EQ(k.kernel.grid, (Dim3{8, 33, 1}));
  EXPECT_EQ(k.kernel.block, (Dim3{32, 4, 1}));
  EXPECT_EQ(k.kernel.registers_per_thread, 40u);
  EXPECT_EQ(k.kernel.dynamic_shared_memory_bytes, 24u);
  EXPECT_EQ(k.launches, 6u);
  EXPECT_EQ(k.kernel.solo_time, from_ns(20'000 - 1440));
  EXPECT_EQ(k.kernel.solo_time_by_sms.at(8), from_ns(200'000 - 1440));
  EXPECT_EQ(k.kernel.counters.dram_read_bytes, 1000);
  EXPECT_EQ(k.kernel.counters.issue_active_pct, 12.5);
  EXPECT_EQ(k.kernel.counters.duration_ns, 19000);
  EXPECT_EQ(k.kernel.counters.l2_bytes, std::nullopt);
  EXPECT_EQ(k.inputs, "launch shape, solo time, solo times on 2 SM counts, 3 counters");
  EXPECT_EQ(reference.kernels[1].inputs, "launch shape, solo time");
}

TEST_F(Validate, CountersAsInputsLeaveTheCurveOnlyForComparison) {
  const Reference reference = read(valid(), Inputs::counters);
  EXPECT_THAT(reference.kernels[0].kernel.solo_time_by_sms, IsEmpty());
  EXPECT_THAT(reference.kernels[0].solo_ms_by_sms, SizeIs(2));
  EXPECT_TRUE(reference.kernels[0].kernel.solo_time);
}

TEST_F(Validate, TheCommittedMeasurementsAreRead) {
  for (const char* file : {"h200-corun.json.gz", "h200-corun-2.json.gz"}) {
    const Reference reference = read_reference(std::filesystem::path("experiments/reference") / file, h200_);
    EXPECT_THAT(reference.kernels, SizeIs(14));
    EXPECT_THAT(reference.rows, SizeIs(630));
  }
}

TEST_F(Validate, BadReferencesAreRefusedWithPlaceAndRemedy) {
  expect_refused(without("/kernels"), "", "missing key 'kernels'");
  expect_refused(without("/kernels/long/grid"), "/kernels/long", "missing key 'grid'");
  expect_refused(with("/kernels/long/grid", {8, 33}), "/kernels/long/grid", "array of 3");
  expect_refused(with("/kernels/long/grid", {2147483647, 3, 1}), "/kernels/long/grid", "2^32 - 1 blocks");
  expect_refused(with("/kernels/long/launches", 0), "/kernels/long/launches", ">= 1");
  expect_refused(with("/kernels/long/solo_ms", 0), "/kernels/long/solo_ms", "> 0");
  expect_refused(with("/kernels/long/solo_ms", 1e-5), "/kernels/long/solo_ms", "leaves nothing");
  expect_refused(with("/kernels/long/block", {1024, 2, 1}), "/kernels/long", "fits no SM of h200");
  expect_refused(with("/kernels/long/shared_memory_bytes", 300'000), "/kernels/long", "shared memory");
  expect_refused(with("/kernels/long/ncu/l2_bytes", -1), "/kernels/long/ncu/l2_bytes", ">= 0");
  expect_refused(with("/kernels/long/solo_ms_by_sms/eight", 1), "/kernels/long/solo_ms_by_sms/eight",
                 "unknown key");
  expect_refused(with("/rows/3/a", "lnog"), "/rows/3/a", "unknown kernel 'lnog'; did you mean 'long'?");
  expect_refused(with("/rows/3/b", "x"), "/rows/3/b", "unknown kernel 'x'");
  expect_refused(with("/rows/3/t_a", -1), "/rows/3/t_a", "> 0");
  expect_refused(with("/rows/3/t_b", 0), "/rows/3/t_b", "> 0");
  expect_refused(with("/rows/3/mode", "thirds"), "/rows/3/mode", "'streams'");
  expect_refused(with("/rows/2/mode", "streams"), "/rows/2", "stands there twice");
  expect_refused(without("/rows/0/mode"), "/rows/0", "missing key 'mode'");
}

TEST_F(Validate, ACurveMayGoUpToTheWholeGpuInWholeTpcs) {
  EXPECT_NO_THROW(read(with("/kernels/short/solo_ms_by_sms", {{"132", 1}, {"2", 1}})));
  expect_refused(with("/kernels/short/solo_ms_by_sms", {{"134", 1}}), "/kernels/short/solo_ms_by_sms/134",
                 "of the 132 SMs");
  expect_refused(with("/kernels/short/solo_ms_by_sms", {{"3", 1}}), "/kernels/short/solo_ms_by_sms/3",
                 "whole TPCs");
}

TEST_F(Validate, ModesThatTheGpuCannotDoAreRefused) {
  Gpu gpu = h200_;
  gpu.priority_levels = 1;
  EXPECT_THROW(read_reference(write(valid()), gpu), InputError);
  gpu.priority_levels = 2;
  EXPECT_NO_THROW(read_reference(write(valid()), gpu));
}

TEST_F(Validate, SelectingKeepsTheRowsOfModesAndPairsAndTheKernelsTheyNeed) {
  Reference some = read(valid());
  select(some, {"half", "streams"}, {"short+long"});
  ASSERT_THAT(some.rows, SizeIs(2));
  EXPECT_EQ(some.pair(some.rows[0]), "long+short");
  EXPECT_EQ(some.rows[1].mode, Mode::half);
  some = read(valid());
  select(some, {}, {"long+long"});
  EXPECT_THAT(some.rows, SizeIs(6));
  EXPECT_THAT(some.kernels, SizeIs(1));
  some = read(valid());
  select(some, {}, {});
  EXPECT_THAT(some.rows, SizeIs(12));
  EXPECT_THROW(select(some, {"halves"}, {}), InputError);
  EXPECT_THROW(select(some, {}, {"short+short"}), InputError);
}

// --- Traces

struct Side {
  std::string name;
  std::int32_t priority;
  std::optional<TpcMask> mask;
  bool operator==(const Side&) const = default;
};

TEST_F(Validate, SixModesAreSixTraces) {
  const Reference reference = read(valid());
  const auto sides = [&](Mode mode) {
    ReferenceRow r{0, 1, mode};
    std::vector<Side> found;
    for (const Client& c : together(reference, r, h200_).clients)
      found.push_back({c.name, c.priority, c.tpc_mask});
    return found;
  };
  const auto tpcs = TpcMask::range;
  EXPECT_THAT(sides(Mode::streams), ElementsAre(Side{"a", 0, {}}, Side{"b", 0, {}}));
  EXPECT_THAT(sides(Mode::streams_ba), ElementsAre(Side{"b", 0, {}}, Side{"a", 0, {}}));
  EXPECT_THAT(sides(Mode::prio_a), ElementsAre(Side{"a", -5, {}}, Side{"b", 0, {}}));
  EXPECT_THAT(sides(Mode::prio_b), ElementsAre(Side{"a", 0, {}}, Side{"b", -5, {}}));
  EXPECT_THAT(sides(Mode::half), ElementsAre(Side{"a", 0, tpcs(0, 33)}, Side{"b", 0, tpcs(33, 66)}));
  EXPECT_THAT(sides(Mode::quarter), ElementsAre(Side{"a", 0, tpcs(0, 16)}, Side{"b", 0, tpcs(16, 66)}));
  EXPECT_STREQ(policy_of(Mode::streams_ba), "fcfs");
  EXPECT_STREQ(policy_of(Mode::prio_b), "priority");
  EXPECT_STREQ(policy_of(Mode::quarter), "tpc-mask");
}

TEST_F(Validate, ClientsOfARowShareAContextButNoKernel) {
  const Reference reference = read(valid());
  const Trace trace = together(reference, {0, 0, Mode::streams}, h200_);
  ASSERT_THAT(trace.clients, SizeIs(2));
  EXPECT_EQ(trace.clients[0].process, trace.clients[1].process);
  EXPECT_THAT(trace.kernels, SizeIs(2));
  for (std::uint32_t i : {0u, 1u}) {
    const Program& program = trace.programs[trace.clients[i].program.value];
    EXPECT_THAT(program.ops, SizeIs(6));
    EXPECT_THAT(program.streams, SizeIs(1));
    EXPECT_EQ(std::get<Launch>(program.ops[5].what).kernel, KernelId{i});
    EXPECT_EQ(std::get<Once>(trace.clients[i].arrivals).at, Time{});
  }
}

// --- Runs

constexpr EngineOptions kAudited{true, true};

TEST_F(Validate, LaunchesAloneTakeWhatWasMeasured) {
  json document = valid();
  document["kernels"]["short"]["grid"] = {1, 1, 1};
  Reference reference = read(document);
  reference.rows.clear();
  const Replay replayed = replay(reference, h200_, {kAudited, 1, {}});
  EXPECT_NEAR(replayed.solo_ms[1], 0.01, 1e-6);
}

TEST_F(Validate, AStaysAWhoeverIsIssuedFirst) {
  Reference reference = read(valid());
  select(reference, {"streams", "streams_ba"}, {"long+short"});
  for (const Replay::Row& r : replay(reference, h200_, {kAudited, 1, {}}).rows) EXPECT_GT(r.t_a, r.t_b);
}

TEST_F(Validate, AnyNumberOfThreadsGivesTheSame) {
  const Reference reference = read(valid());
  std::vector<std::string> results;
  for (unsigned threads : {1u, 2u, 5u}) {
    double last = 0;
    std::size_t told = 0;
    const Replay replayed = replay(reference, h200_, {kAudited, threads, [&](const char*, double done) {
                                                        EXPECT_GT(done, last);
                                                        last = done;
                                                        ++told;
                                                      }});
    EXPECT_EQ(told, 2u + 2u + 12u);
    EXPECT_EQ(last, 1);
    const Comparison comparison = compare(reference, replayed);
    const Validation validation{reference, h200_, Inputs::curve, comparison};
    std::ostringstream out;
    out << validation_json(validation) << format_validation(validation);
    write_rows_csv(comparison, out);
    write_solo_csv(reference, replayed, out);
    results.push_back(out.str());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(Validate, TheFirstErrorOfParallelRunsIsTold) {
  Reference reference = read(valid());
  for (ReferenceKernel& k : reference.kernels) k.kernel.block = {1024, 2, 1};
  for (unsigned threads : {1u, 3u}) try {
      replay(reference, h200_, {kAudited, threads, {}});
      ADD_FAILURE();
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), "/kernels/long");
    }
}

// --- Results

TEST_F(Validate, ResultsHaveTheKeysAndNamesThatReadersRelyOn) {
  const Reference reference = read(valid());
  const Replay replayed = replay(reference, h200_, {kAudited, 1, {}});
  const Comparison comparison = compare(reference, replayed);
  const auto document = validation_json({reference, h200_, Inputs::counters, comparison});
  ASSERT_THAT(document.at("modes"), SizeIs(6));
  std::vector<nlohmann::ordered_json> all{document.at("all")};
  for (const auto& mode : document["modes"]) all.push_back(mode);
  for (const auto& errors : all)
    for (const char* key : {"slowdown_error_mean", "slowdown_error_median", "slowdown_error_p95",
                            "slowdown_error_worst", "stp_error_mean"})
      EXPECT_TRUE(errors.at(key).is_number()) << key;
  EXPECT_TRUE(document.contains("kendall_tau"));
  EXPECT_TRUE(document.at("best_mode_picked").is_number());
  EXPECT_TRUE(document.at("solo").at("8").at("error_worst").is_number());
  EXPECT_EQ(document.at("inputs"), "counters");
  EXPECT_EQ(document.at("comparison"), "pairs");
  ASSERT_THAT(document.at("rows"), SizeIs(comparison.rows.size()));
  EXPECT_EQ(document["rows"][0].at("pair"), "long+short");
  EXPECT_NEAR(document["rows"][0].at("measured").at("a").get<double>(), 1.66667, 1e-5);

  std::ostringstream rows, solo;
  write_rows_csv(comparison, rows);
  EXPECT_THAT(rows.str(), AllOf(HasSubstr("name,measured,simulated,ratio\nlong+short/streams/a,1.66667,"),
                                HasSubstr("\nlong+long/quarter/stp,")));
  write_solo_csv(reference, replayed, solo);
  EXPECT_THAT(solo.str(), HasSubstr("\nlong/8,1.2,"));
}

TEST_F(Validate, TheCommandEndsWithCode2OnBadInputAndWritesItsFilesOtherwise) {
  const auto code = [](const std::string& arguments) {
    const int status = std::system(
        fmt::format("{} validate {} >/dev/null 2>&1", sim_file(), arguments).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::string good = "--reference " + write(valid());
  const std::filesystem::path folder = file_.string() + ".out";
  EXPECT_EQ(code(fmt::format("{} --threads 2 --inputs counters --out {}", good, folder.string())), 0);
  for (const char* name : {"rows.csv", "solo.csv"})
    EXPECT_GT(std::filesystem::file_size(folder / name), 0u) << name;
  std::filesystem::remove_all(folder);
  EXPECT_EQ(code(good + " --solo --json"), 0);
  EXPECT_EQ(code(good + " --modes half,quarter --pairs long+short"), 0);
  EXPECT_EQ(code(good + " --modes halves"), 2);
  EXPECT_EQ(code(good + " --pairs x+y"), 2);
  EXPECT_EQ(code(good + " --inputs guesses"), 2);
  EXPECT_EQ(code(good + " --threads 0"), 2);
  EXPECT_EQ(code(good + " --out /proc/nowhere"), 2);
  EXPECT_EQ(code(good + " --gpu h300"), 2);
  EXPECT_EQ(code(""), 2);
  EXPECT_EQ(code("--reference /nowhere.json"), 2);
  EXPECT_EQ(code("--reference " + write(with("/rows/0/a", "none"))), 2);
  json empty = valid();
  empty["rows"] = json::array();
  empty["kernels"].erase("long");
  EXPECT_EQ(code("--reference " + write(empty)), 2);
}

}  // namespace
}  // namespace corun::sim
