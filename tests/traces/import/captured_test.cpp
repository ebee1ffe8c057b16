// Is a recording of `sim capture` read line by line, and a wrong line told by file and number?
#include "traces/import/captured.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "traces/model/error.h"

namespace corun {
namespace {

class Captured : public testing::Test {
 protected:
  Captured() {
    std::string name = (std::filesystem::temp_directory_path() / "corun-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Captured() override { std::filesystem::remove_all(folder_); }

  Trace import(const std::string& lines) {
    std::ofstream(folder_ / "7.jsonl") << lines;
    recorded_ = {};
    ImportOptions options;
    options.gpu = "h200";
    return import_captured(folder_, options, {}, &recorded_);
  }
  void expect_refused(const std::string& lines, const std::string& place, const std::string& problem) {
    try {
      import(lines);
      FAIL() << "not refused: " << lines;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("7.jsonl"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
    }
  }

  std::filesystem::path folder_;
  RecordedTimes recorded_;
};

const std::string kHead = "[\"p\",1,7,\"serve\"]\n[\"d\",0,\"NVIDIA H200\",132]\n[\"n\",0,\"k\"]\n[\"n\",1,\"cudaLaunchKernel_v7000\"]\n";
std::string kernel(int start, int end, int correlation = 5) {
  return fmt::format("[\"k\",0,{},{},0,1,7,{},64,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", start, end, correlation);
}
const std::string kCall = "[\"a\",1,1000,2000,11,5]\n";

TEST_F(Captured, AKernelHasItsShapeAndTime) {
  const Trace trace = import(kHead + kCall + kernel(4000, 9000) + "[\"z\",0]\n");
  ASSERT_EQ(trace.kernels.size(), 1u);
  EXPECT_EQ(trace.kernels.front().grid.x, 64u);
  EXPECT_EQ(trace.kernels.front().solo_time, from_ns(5000));
  EXPECT_EQ(trace.gpu, "h200");
}

/// A launch and a wait each 10 us, the wait returns 8 us after the launch began, or that of `late`; ranges "r" around.
std::string rounds(int from, int to, bool recorded, int late = 8000) {
  std::string lines;
  for (int i = from; i < to; ++i) {
    const int at = 10'000 * i;
    lines += fmt::format("[\"a\",1,{},{},11,{}]\n[\"a\",2,{},{},11,{}]\n", at, at + 1000, 2 * i + 1, at + 2000, at + late, 2 * i + 2);
    lines += fmt::format("[\"r\",\"r\",{},{},11,0]\n", at - 500, at + late + 500);
    if (recorded) lines += kernel(at + 3000, at + 7000, 2 * i + 1);
  }
  return lines;
}
const std::string kWait = "[\"n\",2,\"cudaStreamSynchronize_v3020\"]\n";
std::string without_ranges(std::string lines) {
  for (std::size_t at = lines.find("[\"r\""); at != lines.npos; at = lines.find("[\"r\"")) lines.erase(at, lines.find('\n', at) + 1 - at);
  return lines;
}

TEST_F(Captured, WhatARequestTakesIsThatOfTheSegmentsWithoutRecords) {
  const std::string lines = kHead + kWait + rounds(1, 20, true) + "[\"o\",195000,0]\n" + rounds(20, 40, false, 7000) + "[\"o\",395000,1]\n" +
                            rounds(40, 60, true);
  import(lines);
  ASSERT_EQ(recorded_.without_profiler.size(), 1u);
  EXPECT_EQ(recorded_.without_profiler.front()->request, from_ns(8000)) << "of the range";
  EXPECT_EQ(recorded_.without_profiler.front()->calls, from_ns(1200)) << "of one launch";
  EXPECT_EQ(recorded_.without_profiler.front()->nodes, Time{});
  import(without_ranges(lines));
  ASSERT_EQ(recorded_.without_profiler.size(), 1u);
  EXPECT_EQ(recorded_.without_profiler.front()->request, from_ns(7000 + 3000)) << "with the host's work between";
  EXPECT_EQ(recorded_.without_profiler.front()->tenth, from_ns(7000 + 3000));
  EXPECT_EQ(recorded_.without_profiler.front()->requests, 20u);
  import(kHead + kWait + rounds(1, 20, true));
  EXPECT_TRUE(recorded_.without_profiler.empty());
}

/// Ranges alone.
std::string away(int from, int to, int lasts) {
  std::string lines;
  for (int i = from; i < to; ++i) lines += fmt::format("[\"r\",\"r\",{},{},11,0]\n", 10'000 * i - 500, 10'000 * i - 500 + lasts);
  return lines;
}

TEST_F(Captured, WhatARequestTakesIsThatOfRangesWithoutCuptiWhereThereAreEight) {
  const auto told = [&](int ranges) {
    const std::string calls = rounds(20, 40, false, 7000) + "[\"o\",395000,2]\n";
    import(kHead + kWait + rounds(1, 20, true) + "[\"o\",195000,0]\n" + calls + away(40, 40 + ranges, 6500) + "[\"o\",595000,1]\n" + rounds(60, 70, true));
    return *recorded_.without_profiler.front();
  };
  EXPECT_EQ(told(7).request, from_ns(8000)) << "with calls alone";
  EXPECT_EQ(told(7).calls, from_ns(1200));
  EXPECT_EQ(told(8).request, from_ns(6500));
  EXPECT_EQ(told(8).calls, Time{}) << "CUPTI adds nothing while it is away";
  const std::string across = "[\"r\",\"r\",594000,596000,11,0]\n[\"r\",\"r\",194000,196000,11,0]\n";
  import(kHead + kWait + rounds(1, 20, true) + "[\"o\",195000,2]\n" + away(20, 28, 6500) + across + across + across + "[\"o\",595000,1]\n");
  EXPECT_EQ(recorded_.without_profiler.front()->request, from_ns(6500)) << "those of two segments do not count";
}

TEST_F(Captured, OfNeighboursWithoutCuptiOneTellsWhatARequestTakesAndOneIsKeptBack) {
  // The host has a slow pace at first, and every second request takes 100 ns more.
  const auto told = [&](int slow, int fast) {
    std::string ranges;
    for (int i = 0; i < slow + fast; ++i) ranges += away(20 + i, 21 + i, (i < slow ? 9000 : 5000) + 100 * (i % 2));
    import(kHead + kWait + rounds(1, 20, true) + "[\"o\",195000,2]\n" + ranges + "[\"o\",595000,1]\n" + rounds(60, 70, true));
    return *recorded_.without_profiler.front();
  };
  EXPECT_EQ(told(7, 8).kept_back, std::nullopt) << "of a few all tell";
  EXPECT_EQ(told(7, 8).request, from_ns(5100));
  EXPECT_EQ(told(8, 8).kept_back, from_ns(5100)) << "the lower median of eight, four of them slow";
  EXPECT_EQ(told(8, 8).request, from_ns(5000));
  const WithoutProfiler slow = told(22, 10);
  EXPECT_EQ(slow.request, from_ns(9000));
  EXPECT_EQ(slow.kept_back, from_ns(9100));
  EXPECT_TRUE(slow.tool_away);
  EXPECT_EQ(slow.requests, 32u);
  EXPECT_EQ(slow.tenth, from_ns(5000));
  EXPECT_EQ(slow.nine_tenths, from_ns(9100));
}

TEST_F(Captured, WithCallsAloneNoRequestIsKeptBack) {
  import(kHead + kWait + rounds(1, 20, true) + "[\"o\",195000,0]\n" + rounds(20, 40, false, 7000) + "[\"o\",395000,1]\n" + rounds(40, 60, true));
  const WithoutProfiler& told = *recorded_.without_profiler.front();
  EXPECT_EQ(told.requests, 19u) << "but for one of two segments";
  EXPECT_EQ(told.tenth, from_ns(8000));
  EXPECT_FALSE(told.tool_away);
  EXPECT_EQ(told.kept_back, std::nullopt) << "they have what calls cost";
}

TEST_F(Captured, ARequestOfAHostThatIsSeenToWaitForNothingLastsUntilTheNext) {
  const auto unwaited = [](int from, int to, int each, bool recorded) {
    std::string lines;
    for (int i = from; i < to; ++i) {
      const int at = 10'000 * from + each * (i - from);
      lines += fmt::format("[\"a\",1,{},{},11,{}]\n", at, at + 1000, 2 * i + 1) +
               (recorded ? kernel(at + 3000, at + 7000, 2 * i + 1) : "");
    }
    return lines;
  };
  const auto request = [&](int each, int without) {
    import(kHead + kWait + unwaited(1, 20, each, true) + "[\"o\",199900,0]\n" +
           unwaited(20, 40, without, false) + "[\"o\",399900,1]\n" + unwaited(40, 60, each, true));
    return recorded_.without_profiler.empty() ? Time{} : recorded_.without_profiler.front()->request;
  };
  EXPECT_EQ(request(9000, 8600), from_ns(8600));
  EXPECT_EQ(request(6900, 6500), Time{}) << "it begins before the GPU has ended the one before";
}

TEST_F(Captured, SegmentsWithoutRecordsDoNotCountAsPartsOfARequest) {
  const std::string lines = kHead + kWait + rounds(1, 5, true) + "[\"o\",45000,0]\n" + rounds(5, 40, false) + "[\"o\",395000,1]\n" + rounds(40, 44, true);
  for (const std::string& all : {lines, without_ranges(lines)}) {
    const Trace trace = import(all);
    EXPECT_EQ(trace.programs.front().ops.size(), 2u);
    EXPECT_EQ(trace.kernels.front().solo_time, from_ns(4000));
  }
}

TEST_F(Captured, ARequestWhoseWorkEndsInAnotherSegmentIsLeftOut) {
  const auto notes = [&](int end) {
    const std::string last = rounds(19, 20, false) + kernel(193'000, end, 2 * 19 + 1);
    const Trace trace = import(kHead + kWait + rounds(1, 19, true) + last + "[\"o\",199000,0]\n" + rounds(20, 40, false) + "[\"o\",395000,1]\n");
    EXPECT_EQ(trace.kernels.front().solo_time, from_ns(4000));
    return fmt::format("{}", fmt::join(trace.notes, " "));
  };
  const std::string left_out = "no times of 1 kernels", steps_with = "the median of 19 steps", steps_without = "the median of 18 steps";
  EXPECT_EQ(notes(198'999).find(left_out), std::string::npos);
  EXPECT_NE(notes(198'999).find(steps_with), std::string::npos) << notes(198'999);
  EXPECT_NE(notes(199'000).find(left_out), std::string::npos) << notes(199'000);
  EXPECT_NE(notes(199'000).find(steps_without), std::string::npos);
  EXPECT_NE(notes(396'000).find(steps_without), std::string::npos) << "in a segment with records, a later one";
}

TEST_F(Captured, SegmentsWithoutARequestAreRefused) {
  const std::string lines = kHead + kCall + kernel(4000, 9000) + "[\"o\",9500,0]\n[\"a\",1,10000,11000,11,7]\n";
  try {
    import(lines);
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("kernels were recorded in segments of the run only"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(import(kHead + kCall + kernel(4000, 9000) + "[\"a\",1,10000,11000,11,7]\n"));
  EXPECT_THROW(import(kHead + kCall + kernel(4000, 9000) + "[\"o\",9500,2]\n"), InputError) << "nor what was not seen";
}

/// A request: a launch, a graph of two nodes, a wait.
std::string mixed(int from, int to, bool recorded) {
  std::string lines;
  for (int i = from; i < to; ++i) {
    const int at = 20'000 * i;
    lines += fmt::format("[\"a\",1,{},{},11,{}]\n[\"a\",3,{},{},11,{}]\n", at, at + 1000, 3 * i + 1, at + 2000, at + 3000, 3 * i + 2);
    lines += fmt::format("[\"a\",2,{},{},11,{}]\n[\"r\",\"r\",{},{},11,0]\n", at + 4000, at + 16000, 3 * i + 3, at - 500, at + 16500);
    if (recorded) lines += kernel(at + 3000, at + 7000, 3 * i + 1) + kernel(at + 8000, at + 11000, 3 * i + 2) + kernel(at + 12000, at + 15000, 3 * i + 2);
  }
  return lines;
}

TEST_F(Captured, AFewRangesWithoutCuptiCountWhereAllTheirWorkIsOfGraphs) {
  const auto told = [&](const std::string& call, int longest) {
    std::string all = kHead + kWait + "[\"n\",3,\"" + call + "\"]\n", with, few;
    for (int i = 1; i < 100; ++i) {
      const int at = 20'000 * i;
      with = fmt::format("[\"a\",3,{},{},11,{}]\n[\"a\",2,{},{},11,{}]\n", at, at + 1000, 2 * i + 1, at + 2000, at + 8000, 2 * i + 2);
      with += fmt::format("[\"r\",\"r\",{},{},11,0]\n", at - 500, at + 8500);
      if (i < 20) with += kernel(at + 3000, at + 7000, 2 * i + 1);
      all += with;
    }
    for (int i = 0; i < 8; ++i) few += fmt::format("[\"r\",\"r\",{},{},11,0]\n", 2'000'000 + 20'000 * i, 2'000'000 + 20'000 * i + (i < 5 ? 7000 : longest));
    import(all + "[\"o\",390000,0]\n[\"o\",1990000,2]\n" + few + "[\"o\",2990000,1]\n");
    return recorded_.without_profiler.front()->request;
  };
  EXPECT_EQ(told("cuGraphLaunch", 7350), from_ns(7000));
  EXPECT_EQ(told("cuGraphLaunch", 7351), from_ns(9000)) << "over a twentieth from quartile to quartile";
  EXPECT_EQ(told("cuLaunchKernel", 7350), from_ns(9000)) << "the host's pace changes";
}

TEST_F(Captured, AGraphMayStandAmongOtherCalls) {
  const Trace trace = import(kHead + kWait + "[\"n\",3,\"cuGraphLaunch\"]\n" + mixed(1, 10, true) + "[\"o\",195000,0]\n" + mixed(10, 20, false));
  const Program& program = trace.programs.front();
  ASSERT_EQ(program.ops.size(), 4u);
  EXPECT_EQ(program.issue, Issue::eager);
  EXPECT_EQ(program.ops[0].graph, 0u);
  EXPECT_EQ(program.ops[1].graph, 1u);
  EXPECT_EQ(program.ops[2].graph, 1u);
  ASSERT_EQ(recorded_.without_profiler.size(), 1u);
  EXPECT_EQ(recorded_.without_profiler.front()->calls, from_ns(2 * 1200)) << "a graph is one call";
  EXPECT_EQ(recorded_.without_profiler.front()->nodes, from_ns(2 * 290));
}

/// Ranges "r" every 4 ms from 4 ms on: launch calls of 0.1 ms each 0.1 ms behind the one before, then a wait until 3 ms after the
/// beginning.  `longer`: by how many us the host takes longer before the second launch, of a round.
struct Rounds {
  int from = 1, to = 21, launches = 3, thread = 11;
  const char* name = "r";
  std::map<int, int> longer{};

  std::string text() const {
    std::string lines;
    for (int i = from; i < to; ++i) {
      const int begins = 4'000'000 * i, wait = begins + 3'000'000 + 1000 * more(i);
      int at = begins + 50'000;
      for (int k = 0; k < launches; ++k, at += 200'000) {
        if (k == 1) at += 1000 * more(i);
        const int number = 100 * i + 10 * (thread - 11) + k;
        lines += fmt::format("[\"a\",1,{},{},{},{}]\n", at, at + 100'000, thread, number) + kernel(at + 110'000, at + 150'000, number);
      }
      lines += fmt::format("[\"a\",2,{},{},{},{}]\n[\"r\",\"{}\",{},{},{},0]\n", at, wait, thread, 100 * i + 99 - (thread - 11), name, begins, wait + 100'000, thread);
    }
    return lines;
  }
  int more(int i) const { return longer.contains(i) ? longer.at(i) : 0; }
};

using Stalls = std::vector<HostStalls::Stall>;
constexpr Time us_of(std::int64_t us) { return std::chrono::microseconds(us); }

class HostOfACapture : public Captured {
 protected:
  /// Of the client; none: it never stood still.
  std::optional<HostStalls> stalls(const std::string& lines) {
    trace_ = import(kHead + kWait + lines);
    return trace_.clients.front().host_stalls;
  }
  bool said() const {
    return std::ranges::any_of(trace_.notes, [](const std::string& n) { return n.find("it stood still for") != n.npos; });
  }
  Trace trace_;
};
// The host takes 0.75 ms of a round: 0.05 and 0.1 before launches, 0.1 in each, 0.1 behind the last and behind the wait.
constexpr int kWork = 750;

TEST_F(HostOfACapture, ARequestOfWhichTheHostTakesOneAndAHalfTimesTheUsualShowsThatItStood) {
  EXPECT_FALSE(stalls(Rounds{.longer = {{7, kWork / 2 - 1}}}.text()));
  EXPECT_FALSE(said());
  const auto found = stalls(Rounds{.longer = {{7, kWork / 2}}}.text());
  ASSERT_TRUE(found);
  EXPECT_TRUE(said()) << fmt::format("{}", fmt::join(trace_.notes, "\n"));
  // Twenty rounds of 3.1 ms, the seventh longer, 0.9 ms between them.
  EXPECT_EQ(found->observed, us_of(20 * 3100 + kWork / 2 + 19 * 900 - kWork / 2));
  ASSERT_EQ(found->stalls.size(), 1u);
  EXPECT_EQ(found->stalls[0].lasting, us_of(kWork / 2));
  EXPECT_EQ(found->stalls[0].at + found->stalls[0].lasting, us_of(6 * 4000 + 3100 + kWork / 2)) << "less than a grain: at the end of its request";
}

TEST_F(HostOfACapture, ALongStallIsWhereItWas) {
  const auto found = stalls(Rounds{.longer = {{7, 800}, {8, 700}}}.text());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->stalls.size(), 2u);
  EXPECT_EQ(found->stalls[0], (HostStalls::Stall{us_of(6 * 4000 + 250), us_of(800)})) << "before the second launch";
  EXPECT_EQ(found->stalls[1].lasting, us_of(700));
}

TEST_F(HostOfACapture, TheFirstOfANameMayCompileItsCode) {
  const auto first = [](int longer) { return Rounds{.to = 2, .longer = {{1, longer}}}.text() + Rounds{.from = 20, .to = 40}.text(); };
  EXPECT_TRUE(stalls(first(27'900))) << "ten times the usual";
  EXPECT_FALSE(stalls(first(27'901)));
  EXPECT_TRUE(stalls(Rounds{.to = 3, .longer = {{2, 27'901}}}.text() + Rounds{.from = 20, .to = 40}.text())) << "not the first";
}

TEST_F(HostOfACapture, OfAFewRequestsNothingIsKnown) {
  EXPECT_TRUE(stalls(Rounds{.to = 9, .longer = {{3, 800}}}.text())) << "eight";
  EXPECT_FALSE(stalls(Rounds{.to = 8, .longer = {{3, 800}}}.text())) << "seven";
}

TEST_F(HostOfACapture, ARequestOfOtherCallsIsALongerRequestAndNoStall) {
  const std::string longer = Rounds{.from = 30, .to = 31, .launches = 9}.text();
  EXPECT_FALSE(stalls(Rounds{}.text() + longer));
}

TEST_F(HostOfACapture, AWaitForTheGpuIsNoStall) {
  std::string lines = Rounds{}.text();
  const std::string wait = "[\"a\",2,28650000,31000000,", range = "[\"r\",\"r\",28000000,31100000,";
  ASSERT_NE(lines.find(wait), lines.npos);
  lines.replace(lines.find(wait), wait.size(), "[\"a\",2,28650000,31800000,");
  ASSERT_NE(lines.find(range), lines.npos);
  lines.replace(lines.find(range), range.size(), "[\"r\",\"r\",28000000,31900000,");
  EXPECT_FALSE(stalls(lines));
}

TEST_F(HostOfACapture, WhatTheToolDoesBetweenSegmentsIsNoStall) {
  const std::string lines = Rounds{.longer = {{11, 900}, {16, 900}}}.text();
  ASSERT_TRUE(stalls(lines + "[\"o\",1,1]\n"));
  EXPECT_EQ(stalls(lines + "[\"o\",1,1]\n")->stalls.size(), 2u);
  // The eleventh round is from 44 to 48 ms: without records from within it on, or from before it, and then all are of few.
  for (const int change : {44'500'000, 43'500'000}) {
    const auto found = stalls(Rounds{.to = 31, .longer = {{11, 900}, {26, 900}}}.text() + fmt::format("[\"o\",{},0]\n", change));
    ASSERT_TRUE(found) << change;
    EXPECT_EQ(found->stalls.size(), 1u) << change;
  }
  EXPECT_EQ(stalls(Rounds{.to = 31, .longer = {{11, 900}, {26, 900}}}.text() + "[\"o\",39500000,0]\n")->stalls.size(), 2u)
      << "the round before the eleventh was the first after it";
}

TEST_F(HostOfACapture, WhileCuptiIsAwayARangeThatTakesOneAndAHalfTimesTheUsualShowsThatItStood) {
  const auto with = [](int longest) {
    std::string lines = Rounds{}.text() + "[\"o\",83500000,2]\n";
    for (int i = 0; i < 20; ++i) lines += fmt::format("[\"r\",\"r\",{},{},11,0]\n", 84'000'000 + 8'000'000 * i, 84'000'000 + 8'000'000 * i + (i == 9 ? longest : 3'100'000));
    return lines;
  };
  EXPECT_FALSE(stalls(with(4'649'999)));
  const auto found = stalls(with(4'650'000));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->stalls.size(), 1u);
  EXPECT_EQ(found->stalls[0].lasting, us_of(1550));
  EXPECT_GT(found->observed, us_of(39 * 3100)) << "both are watched, but for the first range after the change";
}

TEST_F(HostOfACapture, RangesWithinARequestAndOfOtherThreadsDoNotCount) {
  std::string within;
  for (int i = 1; i < 21; ++i) within += fmt::format("[\"r\",\"inner\",{},{},11,0]\n", 4'000'000 * i + 40'000, 4'000'000 * i + 200'000 + (i == 9 ? 400'000 : 0));
  EXPECT_EQ(stalls(Rounds{.longer = {{7, 800}}}.text() + within)->stalls.size(), 1u);
  const std::string other = Rounds{.to = 10, .thread = 12, .longer = {{5, 900}}}.text();
  EXPECT_FALSE(stalls(Rounds{}.text() + other)) << "another thread has fewer requests";
}

TEST_F(HostOfACapture, TimeInWhichNothingWasRequestedIsNotObserved) {
  std::string lines = Rounds{.longer = {{7, 800}}}.text() + Rounds{.from = 400, .to = 420}.text();
  const auto found = stalls(lines);
  ASSERT_TRUE(found);
  // Between the two, 1.5 s, as much as the request before it took.
  EXPECT_EQ(found->observed, us_of(40 * 3100 + 800 + 38 * 900 - 800 + 3100));
}

TEST_F(HostOfACapture, WhatATraceCannotSayIsLeftOut) {
  const auto nothing = [](std::int64_t from, int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += fmt::format("[\"r\",\"nothing\",{0},{0},11,0]\n", from + i);
    return lines;
  };
  const std::string one = "[\"r\",\"nothing\",200000000,201000000,11,0]\n";
  EXPECT_FALSE(stalls(Rounds{.to = 2}.text() + nothing(100'000'000, 9) + one)) << "all that was watched is one stall";
  constexpr std::int64_t kDay = 86'400'000'000'000;
  const std::string stalled = Rounds{.longer = {{7, 800}}}.text();  // from 4 ms on
  EXPECT_TRUE(stalls(stalled + fmt::format("[\"r\",\"r\",{},{},11,0]\n", kDay, kDay + 4'000'000)));
  EXPECT_FALSE(stalls(stalled + fmt::format("[\"r\",\"r\",{},{},11,0]\n", kDay, kDay + 4'000'001)));
  EXPECT_THROW(stalls(stalled + "[\"r\",\"r\",4611686018427387903,4611686018427387904,11,0]\n"), InputError) << "no recording is so long";
}

TEST_F(HostOfACapture, TheyCanBeLeftOut) {
  std::ofstream(folder_ / "7.jsonl") << kHead + kWait + Rounds{.longer = {{7, 800}}}.text();
  ImportOptions options;
  options.gpu = "h200", options.host_stalls = false;
  const Trace trace = import_captured(folder_, options);
  EXPECT_FALSE(trace.clients.front().host_stalls);
}

TEST_F(Captured, AKernelThatEndsBeforeItBeginsIsLeftOut) {
  const Trace trace = import(kHead + kCall + kernel(4000, 9000) + kernel(9000, 4000, 6));
  EXPECT_EQ(trace.programs.front().ops.size(), 1u);
  EXPECT_NE(std::find_if(trace.notes.begin(), trace.notes.end(), [](const auto& n) { return n.find("an end before the beginning") != n.npos; }),
            trace.notes.end());
}

TEST_F(Captured, ALineThatIsCutOffAtTheEndIsLeftOut) {
  const Trace trace = import(kHead + kCall + kernel(4000, 9000) + "[\"k\",0,95");
  EXPECT_EQ(trace.kernels.size(), 1u);
  bool said = false;
  for (const std::string& note : trace.notes) said |= note.find("did not end by itself") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST_F(Captured, AWrongLineIsToldByNumber) {
  expect_refused(kHead + "[\"a\",1,2000,1000,11,5]\n", "line 5", "field 3 is 1000");
  expect_refused(kHead + "nonsense\n" + kCall, "line 5", "is no record of a capture");
  expect_refused(kHead + "[\"k\",9,1,2,0,1,7,5,64,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", "line 5", "a name that was not given before");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,0,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", "line 5", "field 8 is 0");
  expect_refused(kHead + "[\"k\",0,1,18446744073709551615,0,1,7,5,1,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", "line 5", "too large");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,1,1,1,128,9,1,32,0,0,0,0,0,0,0]\n", "line 5", "1152 in all");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,1,1,1,8,1,65,32,0,0,0,0,0,0,0]\n", "line 5", "field 13 is 65");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,3,1,1,128,1,1,32,0,0,2,1,1,0,0]\n", "line 5", "do not fill the grid");
  expect_refused(kHead + "[\"c\",9007199254740992,1,2,0,1,7,5,1,1,1]\n", "line 5", "field 1 is 9007199254740992");
  expect_refused(kHead + "[\"o\",5,3]\n", "line 5", "field 2 is 3");
  expect_refused(kHead + "[\"k\",0]\n", "line 5", "is no integer");
  expect_refused(kHead + "[\"q\",0]\n", "line 5", "unknown kind");
  expect_refused("[\"p\",2,7,\"serve\"]\n", "line 1", "version 2");
}

TEST_F(Captured, WhyNothingWasRecordedIsSaid) {
  expect_refused("[\"p\",1,7,\"serve\"]\n[\"!\",\"libcupti was not found\"]\n", "", "libcupti was not found");
  EXPECT_THROW(import(kHead + kCall), InputError);
}

}  // namespace
}  // namespace corun
