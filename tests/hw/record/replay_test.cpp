#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "hw/record/recording.h"
#include "tests/support/replaced.h"
#include "traces/json/temporary_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

const std::filesystem::path kMixes = "experiments/h200/cuda_backend";

Replayed replay_of(const std::string& mix, const std::string& policy, const std::string& file = {}) {
  const Trace trace = read_trace((kMixes / ("mix-" + mix + ".json")).string());
  return replay(file.empty() ? (kMixes / ("rec-" + mix + "-" + policy + ".jsonl")).string() : file, trace,
                read_gpu("h200"));
}

// What was decided on the H200 is decided again from what was told there.
TEST(Replay, EveryRecordedRunHasTheSameDecisions) {
  for (const char* mix : {"a", "b"})
    for (const char* policy : {"fcfs", "greedy", "priority", "tpc-mask"}) {
      SCOPED_TRACE(std::string(mix) + " " + policy);
      const Replayed r = replay_of(mix, policy);
      EXPECT_EQ(r.difference, "");
      EXPECT_GT(r.waits, 100u);
      EXPECT_GT(r.decisions, 50u);
    }
}

TEST(Replay, AnotherDecisionIsNoticed) {
  std::ifstream in(kMixes / "rec-a-fcfs.jsonl");
  const TemporaryFolder own("test");
  const std::string changed = (own.path() / "changed.jsonl").string();
  std::ofstream out(changed);
  for (std::string line; std::getline(in, line);)  // as if fcfs had used a higher priority
    out << replaced(line, R"(priority\":0)", R"(priority\":-1)") << "\n";
  out.close();
  EXPECT_NE(replay_of("a", "fcfs", changed).difference, "");
}

TEST(Replay, ARecordingOfAnotherTraceIsRefused) {
  EXPECT_THROW(replay_of("a", "", (kMixes / "rec-b-fcfs.jsonl").string()), InputError);
  EXPECT_THROW(replay_of("a", "", (kMixes / "mix-a.json").string()), InputError);
}

}  // namespace
}  // namespace corun::hw
