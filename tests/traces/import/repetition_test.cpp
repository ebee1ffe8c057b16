// Which launches are one request, where nothing in the recording says so?
#include "traces/import/repetition.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "traces/import/kineto.h"
#include "traces/json/input_file.h"

namespace corun {
namespace {

using kineto::Nanoseconds;

/// Launches of kernels by number, each a call of 1 us; before one with `pause` the host idles, 50 us.
class Loop {
 public:
  void launch(std::uint32_t shape, bool pause = false, Nanoseconds on_gpu = Nanoseconds{100}) {
    now_ += pause ? between : Nanoseconds{500};
    const kineto::Call call = called(kineto::Call::Kind::launch, Nanoseconds{1000});
    kineto::GpuOp op;
    op.shape = shape, op.correlation = call.correlation, op.start = call.start + Nanoseconds{3000}, op.duration = on_gpu;
    records.ops.push_back(op);
  }
  void wait(Nanoseconds duration = Nanoseconds{10'000}) { called(kineto::Call::Kind::synchronize, duration); }
  void elapse(Nanoseconds time) { now_ += time; }
  void round(const std::vector<std::uint32_t>& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i) launch(shapes[i], i == 0);
  }
  kineto::Records records;
  Nanoseconds between{50'000};

 private:
  kineto::Call called(kineto::Call::Kind kind, Nanoseconds duration) {
    kineto::Call call;
    call.kind = kind, call.correlation = ++correlation_, call.start = now_, call.duration = duration;
    records.calls.push_back(call);
    now_ += duration;
    return call;
  }
  Nanoseconds now_{1'000'000};
  std::uint64_t correlation_ = 0;
};

TEST(Repetition, ARoundHasAllThatIsLaunchedBetweenPausesOfTheHost) {
  Loop loop;
  loop.round({90, 91, 92, 93, 94});  // what comes before the loop
  for (int i = 0; i < 10; ++i) loop.round({1, 2, 3, 4});
  loop.round({95, 96});
  const Repetition found = find_repetition(loop.records);
  EXPECT_EQ(found.launches, 4u);
  ASSERT_EQ(found.steps.size(), 10u);
  EXPECT_EQ(found.steps.front().start, loop.records.calls[5].start);
  EXPECT_EQ(found.steps[1].start, loop.records.calls[9].start);
}

TEST(Repetition, WhereTheHostWaitsARoundEnds) {
  Loop loop;
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 6; ++k) loop.launch(1, k == 3);  // the longest pause is within
    loop.wait();
  }
  const Repetition found = find_repetition(loop.records);
  EXPECT_EQ(found.launches, 6u);
  EXPECT_GE(found.steps.size(), 19u);
  for (const auto& step : found.steps) {
    std::size_t launches = 0;
    for (const auto& op : loop.records.ops) {
      const auto& call = loop.records.calls[*op.correlation - 1];
      launches += step.start <= call.start && call.start < step.start + step.duration;
    }
    EXPECT_EQ(launches, 6u);
  }
}

TEST(Repetition, WaitsThatComeAtAnyTimeDoNotHideWhatRepeats) {
  Loop loop;
  for (int i = 0; i < 40; ++i) {
    for (std::uint32_t k = 1; k <= 3; ++k) {
      loop.launch(k, k == 1);
      if ((static_cast<std::uint32_t>(i) * 2654435761U >> 16) % 3 == k % 3) loop.wait();  // of another thread
    }
  }
  const Repetition found = find_repetition(loop.records);
  EXPECT_EQ(found.launches, 3u);
  EXPECT_GE(found.steps.size(), 39u);
}

TEST(Repetition, OfTwoLoopsTheOneThatTheGpuWorksForCounts) {
  Loop loop;
  std::vector<std::uint32_t> warm_up;
  for (std::uint32_t k = 0; k < 100; ++k) warm_up.push_back(k);
  for (int i = 0; i < 4; ++i) loop.round(warm_up);
  for (int i = 0; i < 50; ++i) {
    loop.launch(200, true, Nanoseconds{20'000});
    loop.wait();
  }
  const Repetition found = find_repetition(loop.records);
  EXPECT_EQ(found.launches, 1u);
  EXPECT_GE(found.steps.size(), 49u);
}

/// A round of one launch and a wait takes 11.5 us.
Repetition with_pauses(Nanoseconds between) {
  Loop loop;
  loop.between = between;
  for (int i = 0; i < 10; ++i) {
    loop.launch(1, true);
    loop.elapse(Nanoseconds{500});
    loop.wait();
  }
  return find_repetition(loop.records);
}

TEST(Repetition, BetweenRoundsTheHostWorksIfItTakesNoLongerThanARound) {
  const Repetition works = with_pauses(Nanoseconds{11'500});
  EXPECT_TRUE(works.between_is_work);
  EXPECT_EQ(works.between, Nanoseconds{11'500});
  EXPECT_EQ(works.steps[5].duration.count(), 23'000);
  EXPECT_EQ(works.steps[6].start, works.steps[5].start + works.steps[5].duration);
  const Repetition waits = with_pauses(Nanoseconds{11'501});
  EXPECT_FALSE(waits.between_is_work);
  EXPECT_EQ(waits.steps[5].duration.count(), 11'501) << "a nanosecond after the wait";
}

TEST(Repetition, EqualLayersOfANetworkAreNotARequest) {
  Loop loop;
  for (int i = 0; i < 8; ++i) {
    std::vector<std::uint32_t> network = {1};
    for (int layer = 0; layer < 12; ++layer) network.insert(network.end(), {2, 3, 4});
    network.push_back(5);
    loop.round(network);
  }
  const Repetition found = find_repetition(loop.records);
  EXPECT_EQ(found.launches, 38u);
  EXPECT_EQ(found.steps.size(), 8u);
}

TEST(Repetition, ARoundThatDiffersEndsTheSegment) {
  Loop loop;
  for (int i = 0; i < 3; ++i) loop.round({1, 2, 3});
  loop.round({1, 7, 3});
  for (int i = 0; i < 6; ++i) loop.round({1, 2, 3});
  const Repetition found = find_repetition(loop.records);
  EXPECT_EQ(found.launches, 3u);
  EXPECT_GE(found.steps.size(), 6u);
  EXPECT_GE(found.steps.front().start, loop.records.calls[11].start - Nanoseconds{100'000});
}

TEST(Repetition, ThreeTimesIsARepetitionTwiceIsNot) {
  Loop twice, thrice;
  for (int i = 0; i < 2; ++i) twice.round({1, 2, 3, 4, 5});
  for (int i = 0; i < 3; ++i) thrice.round({1, 2, 3, 4, 5});
  EXPECT_TRUE(find_repetition(twice.records).steps.empty());
  EXPECT_EQ(find_repetition(thrice.records).steps.size(), 3u);
  EXPECT_TRUE(find_repetition({}).steps.empty());
}

TEST(Repetition, WhatAGraphLaunchesIsOneLaunch) {
  Loop loop;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    kineto::Call call;
    call.kind = kineto::Call::Kind::graph_launch;
    call.correlation = i, call.start = Nanoseconds{static_cast<std::int64_t>(i) * 100'000}, call.duration = Nanoseconds{5000};
    loop.records.calls.push_back(call);
    for (std::uint32_t shape = 0; shape < 20; ++shape) {
      kineto::GpuOp op;
      op.shape = shape, op.correlation = i, op.start = call.start + Nanoseconds{10'000 + 100 * shape}, op.duration = Nanoseconds{90};
      loop.records.ops.push_back(op);
    }
  }
  const Repetition found = find_repetition(loop.records);
  EXPECT_EQ(found.launches, 1u);
  EXPECT_EQ(found.steps.size(), 5u);
}

/// Six requests of a network, issued eagerly in a row, recorded on an H200 with ProfilerStep marks.
TEST(Repetition, InARecordingItIsTheStepThatTheProfilerMarked) {
  for (const std::string name : {"resnet50_b1", "bert_b8_bf16", "dlrm_b2048", "whisper"}) {
    const std::string file = "experiments/h200/networks/recordings/" + name + ".eager.json.gz";
    nlohmann::json unmarked = nlohmann::json::parse(*open_input(file));
    std::erase_if(unmarked["traceEvents"].get_ref<nlohmann::json::array_t&>(),
                  [](const nlohmann::json& event) { return event.value("cat", "") == "user_annotation"; });
    const auto copy = std::filesystem::temp_directory_path() / ("corun-unmarked-" + name + ".json");
    std::ofstream(copy) << unmarked;
    ImportOptions options;
    options.gpu = "h200";
    const Trace marked = import_kineto(file, options);
    options.repeats = true;
    const Trace found = import_kineto(copy, options);
    std::filesystem::remove(copy);
    EXPECT_EQ(found.programs.front().ops.size(), marked.programs.front().ops.size()) << name;
  }
}

}  // namespace
}  // namespace corun
