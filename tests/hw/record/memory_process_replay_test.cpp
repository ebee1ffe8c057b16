// What was decided on the H200 about device memory and before processes is decided again from what was told
// there.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hw/record/recording.h"
#include "traces/json/temporary_folder.h"
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
  std::ifstream in(kRuns / "memory_swap/rec-working-set-flexgpu.jsonl");
  const TemporaryFolder own("test");
  const std::string changed = (own.path() / "other-capacity.jsonl").string();
  std::ofstream out(changed);
  std::string head;
  std::getline(in, head);
  const std::string was = "\"memory_bytes\":4000000000";
  ASSERT_NE(head.find(was), std::string::npos);
  out << head.replace(head.find(was), was.size(), "\"memory_bytes\":8000000000") << "\n" << in.rdbuf();
  out.close();
  EXPECT_NE(replay(changed, read_trace((kRuns / "memory_swap/working-set.json").string()), read_gpu("h200"))
                .difference,
            "");
}

TEST(Replay, ProcessesGetTheSameLaunches) {
  for (const char* run : {"a-fcfs", "a-timeslice", "a-mps", "a-mps-parts"})
    expect_same(std::string("processes/rec-") + run + ".jsonl", "cuda_backend/mix-a.json", 0);
  for (const char* run : {"b-timeslice", "b-mps"})
    expect_same(std::string("processes/rec-") + run + ".jsonl", "cuda_backend/mix-b.json", 0);
}

// A client is lost in the middle of each.
TEST(Replay, WhatWasDecidedAroundAKillIsDecidedAgain) {
  for (const char* policy : {"timeslice", "mps"})
    expect_same(std::string("processes/rec-killed-") + policy + ".jsonl.gz", "processes/killed-mix.json", 0);
}

TEST(Replay, NetworksAreSharedAsTheyWere) {
  for (const char* run : {"a.fcfs", "a.priority", "a.timeslice", "a.mps", "a.wait", "a.reef-n",
                          "a.reef-n_padding_on", "c.reef-n", "c.reef-n_padding_on"})
    expect_same(std::string("disb/recordings/") + run + ".jsonl.gz",
                std::string("disb/disb-") + run[0] + ".json", 0);
}

}  // namespace
}  // namespace corun::hw
