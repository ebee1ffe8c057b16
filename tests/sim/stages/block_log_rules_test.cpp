// Do block logs obey the scheduling rules that UNC published for NVIDIA's GPUs?  tests/block_log_rules.py
// checks those of random runs, and refuses logs that were falsified.
//
// CORUN_BLOCK_LOGS=FOLDER keeps the logs there, for other checkers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"
#include "traces/model/occupancy.h"
#include "traces/timeline/block_log.h"

namespace corun::sim {
namespace {

using nlohmann::json;
using testing::HasSubstr;

enum class Kind {
  plain,         // kernels in streams, latencies as measured
  same_latency,  // the same, and what a stream holds back reaches the queue as late as a call does
  graphs_copies_and_events,
};

constexpr std::uint64_t kTraces = 12;
constexpr std::uint32_t kStreams = 8;  // a channel each

/// One to a thousand blocks, with and without contention, with all of an SM's resources to a part of one.
Kernel random_kernel(Dice& dice, std::uint32_t number, const Gpu& gpu) {
  const std::uint32_t blocks = dice.one_in(3)   ? dice.any(1, 8)
                               : dice.one_in(3) ? dice.any(200, 1500)
                                                : dice.any(9, 200);
  const Time block = ns(dice.any(3'000, 200'000));
  Kernel k = kernel(blocks, 32 * dice.any(1, 32), block);
  k.name = "kernel " + std::to_string(number);
  k.registers_per_thread = dice.any(16, 64);
  if (dice.one_in(3)) k.static_shared_memory_bytes = 1024 * dice.any(1, 40);
  if (dice.one_in(2)) {  // it contends
    k.block_times.clear();
    k.counters.issue_active_pct = dice.any(5, 90);
    if (dice.one_in(2)) k.counters.dram_read_bytes = dice.any(1, 1000) * 1e-3 * to_ns(*k.solo_time);
  } else if (dice.one_in(3)) {
    for (std::uint32_t i = 1; i < blocks; ++i) k.block_times.push_back(ns(dice.any(2'000, 90'000)));
  }
  return misfit(k, gpu.sm).empty() ? k : random_kernel(dice, number, gpu);
}

std::vector<Op> random_ops(Dice& dice, std::uint32_t kernels, std::uint32_t streams, Kind kind) {
  std::vector<Op> ops;
  for (std::uint32_t i = 0, n = dice.any(2, 7); i < n; ++i) {
    const std::uint32_t stream = i < streams ? i : dice.any(0, streams - 1);
    Op op = launch(KernelId{dice.any(0, kernels - 1)}, stream);
    if (kind == Kind::graphs_copies_and_events && i != 0) {
      if (dice.one_in(4)) {
        const std::uint64_t bytes = dice.any(1, 2'000'000);
        op = copy(static_cast<CopyDirection>(dice.any(0, 1)), bytes, stream);
      }
      if (dice.one_in(3)) op = after(op, {0});
    }
    if (dice.one_in(2)) op.host_gap = ns(dice.any(0, 30'000));
    ops.push_back(op);
    if (dice.one_in(3)) ops.push_back(sync());
  }
  return ops;
}

Arrivals random_arrivals(Dice& dice) {
  switch (dice.any(0, 3)) {
    case 0:
      return Periodic{us(dice.any(200, 900)), us(dice.any(0, 100))};
    case 1:
      return Poisson{static_cast<double>(dice.any(1'000, 5'000)), dice.any(0, 9)};
    default:
      return ClosedLoop{dice.one_in(2) ? Time{} : us(dice.any(1, 200))};
  }
}

/// UNC's validator takes no time from a call to its queue, nor from a kernel's end to the next of its stream:
/// it is right where both take equally long.
void make_latencies_equal(Gpu& gpu) {
  gpu.launch_latency = gpu.stream_gap = us(1);
  gpu.contention.launch_beside_others = Time{};
  gpu.contention.launch_memory_accesses = 0;
  gpu.contention.graph_launch_after_others = Time{};
  gpu.contention.graph_launch_memory_accesses = 0;
}

/// Two to four clients of one process with up to three streams each, for 3 ms.
Scenario random_run(std::uint64_t seed, Kind kind) {
  Dice dice(seed);
  Scenario s;
  s.gpu = dice.one_in(3)
              ? slow_host_gpu(dice.any(1, 12))
              : read_gpu(dice.one_of<std::string>({"h200", "titan-v", "titan-xp", "gtx-1060-3gb"}));
  if (kind == Kind::same_latency) make_latencies_equal(s.gpu);
  TraceBuilder b;
  b.trace.name = fmt::format("random run {}", seed);
  const std::uint32_t kernels = dice.any(3, 6);
  for (std::uint32_t i = 0; i < kernels; ++i) b.kernel(random_kernel(dice, i, s.gpu));
  std::uint32_t left = kStreams;
  for (std::uint32_t n = dice.any(2, 4), i = 0; i < n; ++i) {
    const std::uint32_t streams = dice.any(1, std::min(3u, left - (n - 1 - i)));
    left -= streams;
    const bool graph = kind == Kind::graphs_copies_and_events && dice.one_in(3);
    const ProgramId program =
        b.program(random_ops(dice, kernels, streams, kind), graph ? Issue::graph : Issue::eager);
    b.client(fmt::format("client {}", i), program, random_arrivals(dice)).process = "one";
  }
  b.trace.run.seed = seed;
  b.trace.run.duration = ms(3);
  s.trace = std::move(b.trace);
  return s;
}

struct Answer {
  int status = 0;
  std::string text;
};

class BlockLogFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import json' >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs python3";
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    const char* kept = std::getenv("CORUN_BLOCK_LOGS");
    keep_ = kept != nullptr;
    folder_ = std::filesystem::path(keep_ ? kept : testing::TempDir()) / ("block_log_rules_" + name);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!keep_) std::filesystem::remove_all(folder_);
  }

  void write(const Scenario& s) {
    const Ran ran = run_trace(s.trace, s.gpu, "fcfs", Record::blocks);
    BlockLogSink sink(s.trace, s.gpu, (folder_ / "run").string());
    sink.record(std::span(ran.blocks));
    for (const KernelRecord& k : ran.kernels) sink.record(k);
    paths_ = sink.finish();
  }
  Answer check(const Gpu& gpu) const {
    std::string command = fmt::format(
        "python3 tests/block_log_rules.py --warps {} --blocks {} --shared {} --interval-ps {}",
        gpu.sm.max_warps, gpu.sm.max_blocks, gpu.sm.shared_memory_bytes, gpu.dispatch_interval.count());
    for (const auto& path : paths_) command += " '" + path.string() + "'";
    const std::filesystem::path answer = folder_ / "answer";
    Answer result;
    result.status = std::system((command + " >'" + answer.string() + "' 2>&1").c_str());
    std::ostringstream text;
    text << std::ifstream(answer).rdbuf();
    result.text = text.str();
    return result;
  }

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> paths_;

 private:
  bool keep_ = false;
};

// ---- random runs ----

class BlockLogRules : public BlockLogFiles, public testing::WithParamInterface<std::uint64_t> {
 protected:
  void expect_kept(Kind kind);
};

void BlockLogRules::expect_kept(Kind kind) {
  const Scenario s = random_run(GetParam(), kind);
  write(s);
  const Answer answer = check(s.gpu);
  EXPECT_EQ(answer.status, 0) << answer.text;
  EXPECT_GE(paths_.size(), 2u);
}

TEST_P(BlockLogRules, AreKeptByRandomRuns) { expect_kept(Kind::plain); }
TEST_P(BlockLogRules, AreKeptWhereAllLaunchesTakeAsLong) { expect_kept(Kind::same_latency); }
TEST_P(BlockLogRules, AreKeptBesideGraphsCopiesAndEvents) { expect_kept(Kind::graphs_copies_and_events); }

INSTANTIATE_TEST_SUITE_P(Seeds, BlockLogRules, testing::Range<std::uint64_t>(1, kTraces + 1));

TEST_F(BlockLogFiles, TellTheEndsThatTheHostWaitsForAndZeroForOthers) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 32, us(20)));
  b.client("client", b.program({launch(k), launch(k), sync(), launch(k), launch(k, 1)}), Once{});
  write({slow_host_gpu(1), b.trace});
  const auto learnt = [&](std::size_t file, std::size_t kernel) {
    std::ifstream in(paths_[file]);
    const json entry = json::parse(in)["times"][kernel + 1];
    const double at = entry["cuda_launch_times"][2], end = entry["block_times"][1];
    return at == 0 ? 0 : at - end;
  };
  EXPECT_EQ(learnt(0, 1), 0);
  EXPECT_NEAR(learnt(0, 2), 700e-9, 1e-12);  // a sync
  EXPECT_NEAR(learnt(0, 3), 700e-9, 1e-12);  // the end of the request
  EXPECT_NEAR(learnt(1, 1), 700e-9, 1e-12);
}

// ---- falsified logs ----

/// Two streams on two SMs, each with two kernels of four blocks that fill an SM each; the second stream's
/// come later.
class FalsifiedBlockLog : public BlockLogFiles {
 protected:
  void SetUp() override {
    BlockLogFiles::SetUp();
    if (IsSkipped()) return;
    TraceBuilder b;
    const KernelId k = b.kernel(whole_sm_kernel(4, us(20)));
    const ProgramId program = b.program({launch(k), launch(k)});
    b.client("first", program, Once{}).process = "one";
    b.client("second", program, Once{us(1)}).process = "one";
    scenario_ = {slow_host_gpu(2), b.trace};
    write(scenario_);
    ASSERT_EQ(check(scenario_.gpu).status, 0);
  }
  void expect_refused(const std::string& why) const {
    const Answer answer = check(scenario_.gpu);
    EXPECT_NE(answer.status, 0);
    EXPECT_THAT(answer.text, HasSubstr(why));
  }
  json& first(std::size_t kernel) { return logs_[0]["times"][kernel + 1]; }
  json& second(std::size_t kernel) { return logs_[1]["times"][kernel + 1]; }
  void falsify(const std::function<void()>& change) {
    for (std::size_t i = 0; i < 2; ++i) {
      std::ifstream in(paths_[i]);
      logs_[i] = json::parse(in);
    }
    change();
    for (std::size_t i = 0; i < 2; ++i) std::ofstream(paths_[i]) << logs_[i];
  }

 private:
  Scenario scenario_;
  std::array<json, 2> logs_;
};

TEST_F(FalsifiedBlockLog, WithTheStartsOfTwoBlocksSwappedIsRefused) {
  falsify([&] { std::swap(first(1)["block_times"][6], second(1)["block_times"][0]); });
  expect_refused("X1: kernel0 (second, kernel 1) starts a block while kernel0 (first, kernel 1) is the head");
}

TEST_F(FalsifiedBlockLog, WithQueueTimesSwappedIsRefused) {
  falsify([&] { std::swap(first(1)["ee_queue_time"], second(1)["ee_queue_time"]); });
  expect_refused("G2: kernel0 (first, kernel 1) starts a block before it is queued");
}

TEST_F(FalsifiedBlockLog, WithAKernelThatOvertakesIsRefused) {
  falsify([&] { second(1)["ee_queue_time"] = 4e-6, second(1)["cuda_launch_times"] = {1e-6, 4e-6, 0}; });
  expect_refused("X1: kernel0 (first, kernel 1) starts a block while kernel0 (second, kernel 1) is the head");
}

TEST_F(FalsifiedBlockLog, WithAKernelQueuedBeforeItsStreamHasEndedIsRefused) {
  falsify([&] { first(2)["ee_queue_time"] = first(1)["block_times"][5]; });
  expect_refused("G2: kernel0 (first, kernel 2) is queued while kernel0 (first, kernel 1) runs");
}

TEST_F(FalsifiedBlockLog, WithAKernelKnownToHaveEndedTooEarlyIsRefused) {
  falsify([&] { first(2)["cuda_launch_times"][2] = first(2)["block_times"][5]; });
  expect_refused("G4: kernel0 (first, kernel 2) is known to have ended before it has");
}

TEST_F(FalsifiedBlockLog, WithABlockOnAFullSmIsRefused) {
  falsify([&] { first(1)["block_smids"][1] = first(1)["block_smids"][0]; });
  expect_refused("has not the shared for a block of kernel0 (first, kernel 1)");
}

TEST_F(FalsifiedBlockLog, WithABlockOnNoSmIsRefused) {
  falsify([&] { first(1)["block_smids"][1] = 2; });
  expect_refused("starts a block on SM 2, which is not there");
}

TEST_F(FalsifiedBlockLog, WithTwoBlocksThatStartTogetherIsRefused) {
  falsify([&] { first(1)["block_times"][2] = first(1)["block_times"][0]; });
  expect_refused("X1: kernel0 (first, kernel 1) starts a block too soon after the one before");
}

}  // namespace
}  // namespace corun::sim
