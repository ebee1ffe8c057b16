// What was measured on an H200 (experiments/h200) keeps what is asked of the CUDA backend.  Measurements
// are made again by the commands of those folders; this notices when they get worse.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace corun::hw {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json read(const std::string& file) {
  std::ifstream in("experiments/h200/" + file);
  return json::parse(in);
}

json results(const std::string& file) { return read(file)["results"]; }

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(v.size())));
  return v.at(rank == 0 ? 0 : rank - 1);
}

TEST(Measured, TransformCostsTwoPercentInTheMedianAndFiveAtMost) {
  std::vector<double> stoppable, sized;
  for (const json& row : results("persistent_kernels/overhead.json")) {
    SCOPED_TRACE(row["kernel"].get<std::string>());
    const json& variants = row["variants"];
    const std::string name = row["kernel"];
    for (const json& v : variants)
      if (v.contains("identical")) {
        EXPECT_TRUE(v["identical"].get<bool>()) << v["name"];
      }
    // Those that only pass time are for latencies.
    const bool passes_time = name.rfind("spin", 0) == 0 || name.rfind("wait", 0) == 0;
    const double plain = quantile(variants[0]["us"]["samples"], 0.5);
    ASSERT_EQ(variants[0]["name"], "plain");
    if (passes_time || plain < 100) continue;
    for (const json& v : variants) {
      const double over = quantile(v["us"]["samples"], 0.5) / plain - 1;
      if (v["name"] == "stoppable") stoppable.push_back(over);
      if (v["name"] == "sized") sized.push_back(over);
    }
  }
  ASSERT_GE(stoppable.size(), 16u);
  ASSERT_EQ(sized.size(), stoppable.size());
  for (const auto& over : {stoppable, sized}) {
    EXPECT_LE(quantile(over, 0.5), 0.02);
    EXPECT_LE(quantile(over, 1), 0.05);
  }
}

TEST(Measured, StoppedResizedAndResumedRunsAreBitIdentical) {
  std::size_t kernels = 0, stops = 0;
  for (const json& row : results("persistent_kernels/identity.json")) {
    EXPECT_EQ(row["different"], 0) << row["kernel"];
    EXPECT_GE(row["runs"], 6);
    stops += row["stops"].get<std::size_t>();
    ++kernels;
  }
  EXPECT_GE(kernels, 24u);
  EXPECT_GE(stops, 400u);
}

TEST(Measured, TheNextKernelRunsSoonAfterARequestHoweverLongTheQueueIs) {
  std::set<int> lengths;
  for (const json& row : results("cuda_backend/backend.json")) {
    EXPECT_TRUE(row["wrong"].empty());
    if (row["policy"] != "stop-and-go") continue;
    SCOPED_TRACE("queue of " + row["queue"].dump());
    lengths.insert(row["queue"].get<int>());
    EXPECT_GE(row["call_to_first_block_us"]["n"], 2000);
    // From the client's call, and from when it would have called had the host been idle; to the next kernel's
    // first block, and to its end.
    for (const char* what : {"call_to_first_block_us", "arrival_to_first_block_us", "call_to_end_us"}) {
      EXPECT_LE(quantile(row[what]["samples"], 0.5), 25) << what;
      EXPECT_LE(quantile(row[what]["samples"], 0.99), 40) << what;
    }
    EXPECT_LE(row["call_to_all_blocks_us"]["p99"], 40);
    EXPECT_LE(row["clocks_within_us"], 3);
    EXPECT_EQ(row["requests"][0], row["requests"][2]) << "each request's kernel noted when it began";
  }
  EXPECT_THAT(lengths, testing::ElementsAre(1, 3, 10, 30, 100, 300));
  for (const json& row : results("persistent_kernels/preemption.json"))
    if (row["stop"] == "stream write" && row["queued"] == 0) {
      EXPECT_LE(quantile(row["all_blocks_us"]["samples"], 0.5), 25);
      EXPECT_LE(quantile(row["all_blocks_us"]["samples"], 0.99), 40);
    }
}

TEST(Measured, EveryBlockIsOnAnSmThatItWasToldToUse) {
  const json all = read("persistent_kernels/partitions.json")["results"];
  for (const json& group : all["groups"]) {
    EXPECT_EQ(group.size(), 2u);
    EXPECT_EQ(group[1].get<int>(), group[0].get<int>() + 1);
  }
  std::size_t runs = 0;
  for (const json& mask : all["masks"]) {
    EXPECT_EQ(mask["refused"], "");
    EXPECT_EQ(mask["strayed_blocks"], 0);
    runs += mask["runs"].get<std::size_t>();
  }
  EXPECT_GE(runs, 200u);
  EXPECT_GE(all["quotas"].size(), 100u);
  for (const json& quota : all["quotas"]) {
    EXPECT_EQ(quota["sms_over_quota"], 0);
    EXPECT_EQ(quota["sms_below_quota"], 0);
    EXPECT_EQ(quota["blocks_elsewhere"], 0);
  }
}

TEST(Measured, PaddedKernelsComputeWhatTheyDoAlone) {
  std::size_t identical = 0;
  for (const json& row : results("persistent_kernels/padding.json")) {
    SCOPED_TRACE(row["real_time"].get<std::string>() + " + " + row["best_effort"].get<std::string>());
    if (row.contains("not_compiled")) {
      EXPECT_THAT(row["not_compiled"].get<std::string>(), HasSubstr("too much shared data"));
      continue;
    }
    EXPECT_EQ(row.value("identical", json()), true);
    ++identical;
  }
  EXPECT_GE(identical, 46u);
}

TEST(Measured, MpsPercentagesAndTimeSlicesAreAsTheSimulatorHasThem) {
  const json all = read("processes/results.json");
  EXPECT_GE(all["percentages"].size(), 100u);
  for (const json& row : all["percentages"])
    EXPECT_EQ(row["reported_sms"],
              std::max(8, 2 * static_cast<int>(row["percentage"].get<double>() * 132 / 200)))
        << row["percentage"];
  for (const json& run : all["slices"]) {
    std::vector<double> on, from, to;
    for (const json& client : run["clients"]) {
      const json& turns = client["turns_ns"];
      for (std::size_t i = 0; i < turns.size(); ++i) {
        from.push_back(turns[i][0].get<double>()), to.push_back(turns[i][1].get<double>());
        if (i != 0 && i + 1 != turns.size()) on.push_back(to.back() - from.back());
      }
    }
    if (run["processes"] == 1) continue;
    EXPECT_NEAR(quantile(on, 0.5), 2.09e6, 0.02e6);
    std::sort(from.begin(), from.end()), std::sort(to.begin(), to.end());
    std::vector<double> switches;
    for (std::size_t i = 1; i < from.size(); ++i) switches.push_back(from[i] - to[i - 1]);
    EXPECT_NEAR(quantile(switches, 0.5), 152e3, 5e3);
  }
}

TEST(Measured, AKilledClientTakesNobodyWithItAndNothingIsLeft) {
  std::size_t clients = 0, runs = 0;
  const json all = read("processes/killed.json");
  for (const json& run : all["runs"]) {
    SCOPED_TRACE(run.dump().substr(0, 120));
    ASSERT_FALSE(run.contains("problem"));
    EXPECT_TRUE(run["left"]["processes"].empty());
    EXPECT_EQ(run["left"]["gpu_memory_used"], "0 MiB");
    if (run["to"] == "the run") {
      EXPECT_EQ(run["exit_code"], run["signal"] == 2 ? 130 : -9);
      EXPECT_EQ(run["workers_then"], 3);
      ++runs;
      continue;
    }
    ++clients;
    EXPECT_EQ(run["exit_code"], 0);
    const std::string victim = run["victim"];
    EXPECT_LT(run["last_request_ended_ms"][victim], 1900) << "killed in the middle";
    EXPECT_EQ(run["clients"][victim]["failed"], "its process was killed by signal 9");
    for (const auto& [name, finished] : run["finished_after_the_victims_last"].items()) {
      EXPECT_GE(finished, 100) << name;
      EXPECT_TRUE(run["clients"][name]["failed"].is_null());
      EXPECT_GT(run["last_request_ended_ms"][name], 1990) << "to the end";
    }
    EXPECT_THAT(run["notes"].dump(), HasSubstr("those of the plain kernels, bit by bit"));
  }
  EXPECT_EQ(clients, 2u);
  EXPECT_EQ(runs, 4u);
}

TEST(Measured, TwiceTheMemoryThereIsAndTheFourInstanceDeadlock) {
  const auto failures = [](const std::string& run) {
    std::size_t failed = 0;
    const json summary = read("memory_swap/" + run + "/summary.json");
    for (const json& c : summary["clients"]) failed += c.contains("failed") || c["finished"] == 0;
    return failed;
  };
  EXPECT_EQ(failures("working-set-fcfs"), 2u);
  EXPECT_EQ(failures("working-set-memory-wait"), 0u);
  EXPECT_EQ(failures("deadlock-memory-wait"), 4u);
  for (const char* run : {"working-set-flexgpu", "deadlock-flexgpu"}) {
    EXPECT_EQ(failures(run), 0u);
    const std::string notes = read(std::string("memory_swap/") + run + "/summary.json")["notes"].dump();
    EXPECT_THAT(notes, HasSubstr("buffers came back from the host as they had left, bit by bit"));
    EXPECT_THAT(notes, HasSubstr("those of the plain kernels, bit by bit"));
  }
}

TEST(Measured, DisbHasItsTable) {
  const json all = read("disb/results.json");
  for (const char* backend : {"cuda", "sim"})
    for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
      std::map<std::string, double> latency, best_effort;
      for (const char* policy :
           {"fcfs", "priority", "timeslice", "mps", "wait", "reef-n", "reef-n:padding=on"}) {
        SCOPED_TRACE(std::string(backend) + " " + letter + " " + policy);
        const json& run = all.at(std::string(backend) + " " + letter + " " + policy);
        ASSERT_FALSE(run.contains("failed"));
        double sum = 0, clients = 0;
        for (const auto& [name, c] : run["clients"].items())
          if (name.find("_rt") != std::string::npos) {
            ASSERT_GT(c["finished"], 0);
            sum += c["mean_ms"].get<double>(), ++clients;
          } else {
            best_effort[policy] += c["throughput_per_s"].get<double>();
          }
        latency[policy] = sum / clients;
        if (std::string(backend) == "cuda") {
          EXPECT_THAT(run["notes"].dump(), HasSubstr("those of the plain kernels, bit by bit"));
        }
      }
      if (std::string(backend) == "sim") continue;
      // Whoever stops best-effort launches answers sooner than streams, priorities, MPS and turns, and pays
      // for it.
      for (const char* policy : {"fcfs", "priority", "timeslice", "mps"}) {
        EXPECT_LT(latency["reef-n"], latency[policy]) << backend << letter;
        EXPECT_LT(latency["wait"], latency[policy]) << backend << letter;
      }
      EXPECT_LE(best_effort["reef-n"], best_effort["fcfs"] * 1.01) << backend << letter;
      EXPECT_LT(best_effort["timeslice"], best_effort["mps"]) << backend << letter;
    }
}

}  // namespace
}  // namespace corun::hw
