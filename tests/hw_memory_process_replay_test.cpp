// What was decided on the H200 about device memory and before processes is decided again from what was told
// there.
#include <gtest/gtest.h>

#include <filesystem>

#include "hw/record/recording.h"
#include "traces/json/trace_json.h"

namespace corun::hw {
namespace {

const std::filesystem::path kRuns = "experiments/h200";

void expect_same(const std::string& recording, const std::string& trace, std::uint64_t memory_bytes) {
  SCOPED_TRACE(recording);
  Gpu gpu = read_gpu("h200");
  if (memory_bytes != 0) gpu.memory_bytes = memory_bytes;  // as given by --memory
  const Replayed r = replay((kRuns / recording).string(), read_trace((kRuns / trace).string()), gpu);
  EXPECT_EQ(r.difference, "");
  EXPECT_GT(r.decisions, 10u);
}

TEST(Replay, MemoryIsMovedAsItWas) {
  for (const char* policy : {"fcfs", "memory-wait", "flexgpu"})
    expect_same(std::string("memory_swap/rec-working-set-") + policy + ".jsonl",
                "memory_swap/working-set.json", 4'000'000'000);
  for (const char* policy : {"memory-wait", "flexgpu"})
    expect_same(std::string("memory_swap/rec-deadlock-") + policy + ".jsonl", "memory_swap/deadlock.json",
                12'000'000'000);
}

TEST(Replay, AnotherCapacityLeadsToOtherDecisions) {
  Gpu gpu = read_gpu("h200");
  gpu.memory_bytes = 8'000'000'000;
  EXPECT_NE(replay((kRuns / "memory_swap/rec-working-set-flexgpu.jsonl").string(),
                   read_trace((kRuns / "memory_swap/working-set.json").string()), gpu)
                .difference,
            "");
}

TEST(Replay, ProcessesGetTheSameLaunches) {
  for (const char* run : {"a-fcfs", "a-timeslice", "a-mps", "a-mps-parts"})
    expect_same(std::string("processes/rec-") + run + ".jsonl", "cuda_backend/mix-a.json", 0);
  expect_same("processes/rec-b-timeslice.jsonl", "cuda_backend/mix-b.json", 0);
}

}  // namespace
}  // namespace corun::hw
