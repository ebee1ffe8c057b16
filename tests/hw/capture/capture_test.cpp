// Does `sim capture` turn a program that runs into the trace of its requests, and keep what there is when the program
// ends in another way?  The GPU and CUPTI are fakes; the library, NVTX's header and the processes are not.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/shell.h"
#include "tests/support/sim_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/trace.h"

namespace corun {
namespace {

class Capture : public testing::Test {
 protected:
  Capture() {
    std::string name = (std::filesystem::temp_directory_path() / "corun-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Capture() override { std::filesystem::remove_all(folder_); }

  /// Exit code; what was said is in `said_`.
  int capture(const std::string& program, const std::string& options = {}) {
    return sim(fmt::format("capture -o {} --gpu h200 {} -- {}", file(), options, program));
  }
  int sim(const std::string& arguments) {
    const std::string command = fmt::format("PATH={}:$PATH CORUN_CUPTI={} CORUN_FAKE_CUDA={} {} {} 2>&1 </dev/null", folder_.string(),
                                            CORUN_FAKE_CUPTI, driver_, sim_file(), arguments);
    said_.clear();
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) said_.append(buffer.data(), n);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string file(const std::string& name = "trace.json") const { return (folder_ / name).string(); }
  bool said(const std::string& words) const { return said_.find(words) != std::string::npos; }
  static std::string program(const std::string& what) { return fmt::format("{} {}", CORUN_CAPTURED_PROGRAM, what); }

  /// An MPS server that notes what it was told.
  void have_mps(int exit_code = 0) {
    std::ofstream(file("nvidia-cuda-mps-control"))
        << "#!/bin/sh\n[ -d \"$CUDA_MPS_PIPE_DIRECTORY\" ] || exit 1\n"
        << "if [ \"$1\" = -f ]; then echo \"$@\" >> " << file("told") << "; [ " << exit_code << " = 0 ] || exit " << exit_code << "; echo $$ > " << file("daemon")
        << "; : > $CUDA_MPS_PIPE_DIRECTORY/control; exec sleep 60; fi\n"
        << "cat >> " << file("told") << "\nkill $(cat " << file("daemon") << ")\n";
    std::filesystem::permissions(file("nvidia-cuda-mps-control"), std::filesystem::perms::owner_all);
    driver_ = CORUN_FAKE_CUDA;
  }

  std::filesystem::path folder_;
  std::string said_, driver_;
};

/// Of one request of the program: two streams, a copy, four launches, an event between the streams, a wait at the end.
void expect_request(const Trace& trace, const Program& program, std::size_t waits_of_host = 1) {
  std::vector<std::string> launched;
  std::size_t copies = 0, waits = 0, syncs = 0;
  for (const Op& op : program.ops) {
    if (const auto* launch = std::get_if<Launch>(&op.what)) launched.push_back(trace.kernels[launch->kernel.value].name);
    copies += std::holds_alternative<Copy>(op.what);
    waits += op.after.size();
    syncs += std::holds_alternative<Sync>(op.what);
  }
  EXPECT_EQ(launched, (std::vector<std::string>{"gemm(float*, int)", "bias(float*, float*)", "gemm(float*, int) #2", "bias(float*, float*)"}));
  EXPECT_EQ(program.streams.size(), 2u);
  EXPECT_EQ(copies, 1u);
  EXPECT_EQ(waits, 1u) << "the event";
  EXPECT_EQ(syncs, waits_of_host);
}

TEST_F(Capture, TheProgramsRangesAreRequests) {
  ASSERT_EQ(capture(program("serve")), 0) << said_;
  EXPECT_TRUE(said("request (20): 'request' is taken as the request; --range takes another")) << said_;
  const Trace trace = read_trace(file());
  ASSERT_EQ(trace.programs.size(), 1u);
  expect_request(trace, trace.programs.front(), 2);
  EXPECT_EQ(trace.programs.front().ops.back().host_gap, Time{std::chrono::nanoseconds{4700}}) << "after its last wait, and what that took beyond the end of the work";
  EXPECT_EQ(std::get<ClosedLoop>(trace.clients.front().arrivals).think_time, Time{std::chrono::microseconds{16}});
}

TEST_F(Capture, WithoutRangesWhatRepeatsIsARequest) {
  ASSERT_EQ(capture(program("unmarked")), 0) << said_;
  EXPECT_TRUE(said("a request is what repeats, 5 launches of the host, 20 times")) << said_;
  EXPECT_TRUE(said("the host took 0.020 ms (lower quartile), taken as its work for the next")) << said_;
  const Trace trace = read_trace(file());
  ASSERT_EQ(trace.programs.size(), 1u);
  expect_request(trace, trace.programs.front());
  const Kernel& gemm = trace.kernels.front();
  EXPECT_EQ(gemm.grid.x, 264u);
  EXPECT_EQ(gemm.block.x, 128u);
  EXPECT_EQ(gemm.registers_per_thread, 40u);
  EXPECT_EQ(gemm.static_shared_memory_bytes, 1024u);
  EXPECT_EQ(gemm.dynamic_shared_memory_bytes, 2048u);
  EXPECT_EQ(trace.clients.front().memory_bytes, (std::uint64_t{1} << 30) + (1 << 20)) << "the most that it held at once";
}

TEST_F(Capture, AReplayTakesWhatTheRequestTook) {
  ASSERT_EQ(capture(program("unmarked")), 0) << said_;
  EXPECT_TRUE(said("(1.00)") || said("(0.99)") || said("(1.01)")) << said_;
}

TEST_F(Capture, ARangeOfNvtxIsARequestWhereItIsAskedFor) {
  ASSERT_EQ(capture(program("once"), "--range request"), 0) << said_;
  EXPECT_TRUE(said("The request is request")) << said_;
  const Trace trace = read_trace(file());
  expect_request(trace, trace.programs.front(), 2);
}

TEST_F(Capture, WithoutRepetitionAllIsOneRequest) {
  ASSERT_EQ(capture(program("once")), 0) << said_;
  EXPECT_TRUE(said("the whole recording is one request")) << said_;
}

TEST_F(Capture, OnlyCallsThatIssueWorkOrWaitForItAreRecorded) {
  ASSERT_EQ(capture(program("serve"), "--keep " + file("kept")), 0) << said_;
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(file("kept"))) {
    std::ifstream in(entry.path());
    all.assign(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_NE(all.find("cuLaunchKernel"), std::string::npos);
  EXPECT_EQ(all.find("cudaLaunchKernel"), std::string::npos) << "a launch is one call";
  EXPECT_EQ(all.find("cudaGetDevice"), std::string::npos);
}

/// Lines of each kind of record.
std::map<char, std::size_t> lines_of(const std::string& folder) {
  std::map<char, std::size_t> lines;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) ++lines[line.at(2)];
  }
  return lines;
}

TEST_F(Capture, KernelsAreRecordedInSegmentsAndRangesAlways) {
  ASSERT_EQ(capture(program("long"), "--keep " + file("kept")), 0) << said_;
  const auto lines = lines_of(file("kept"));
  EXPECT_GE(lines.at('k'), 4 * 1000u) << "all of the first second";
  EXPECT_LT(lines.at('k'), 4 * 2500u) << "of four";
  EXPECT_EQ(lines.at('r'), 4000u);
  EXPECT_LT(lines.at('a'), 9 * (lines.at('k') / 4 + 200)) << "CUPTI leaves";
  EXPECT_EQ((lines.at('k') - 1) % 4, 0u) << "whole requests";
  EXPECT_TRUE(said(fmt::format("the median of {} steps", (lines.at('k') - 1) / 4))) << said_ << "all of them count";
  EXPECT_TRUE(said("ranges while CUPTI was not in the process")) << said_;
  expect_request(read_trace(file()), read_trace(file()).programs.front(), 2);
}

TEST_F(Capture, BetweenSegmentsWhatRepeatsTellsWhatARequestTakes) {
  ASSERT_EQ(capture(program("long-unmarked"), "--keep " + file("kept")), 0) << said_;
  EXPECT_GE(lines_of(file("kept")).at('a'), 4 * 8000u) << "CUPTI stays";
  EXPECT_TRUE(said("requests without records of kernels a tenth took less than")) << said_;
  EXPECT_TRUE(said("its segments in which no kernels were recorded")) << said_;
  expect_request(read_trace(file()), read_trace(file()).programs.front());
}

TEST_F(Capture, TheHostsGapsShrinkToWhatARequestTakesBetweenSegments) {
  ASSERT_EQ(capture(program("long-hosted")), 0) << said_;
  EXPECT_TRUE(said("The request is request (0.458 ms)")) << said_;  // CUPTI and a record take the host 2.1 us at the first launch
  EXPECT_TRUE(said("The recording says that a request takes 0.456 ms without")) << said_;
  EXPECT_TRUE(said("so a request takes 0.4559 ms instead of 0.4608")) << said_;
}

TEST_F(Capture, AReplayHasThePaceOfTheRequestsWithoutTracingAndNotOfThoseThatWereRecorded) {
  ASSERT_EQ(capture(program("slows")), 0) << said_;
  EXPECT_TRUE(said("The request is request (0.458 ms)")) << said_;
  EXPECT_TRUE(said("Host gaps are 1.787 of the recorded ones: so a request takes 0.776 ms instead of 0.4608; without the profiler it takes 0.776")) << said_;
  EXPECT_TRUE(said("It replays in 0.776 ms; every second request without tracing was kept back for that, and takes 0.776 ms (median): +0.0 %")) << said_;
  ASSERT_EQ(capture(program("hastens")), 0) << said_;
  EXPECT_TRUE(said("The request is request (0.778 ms)")) << said_;
  EXPECT_TRUE(said("so a request takes 0.4559 ms instead of 0.7808; without the profiler it takes 0.456")) << said_;
  EXPECT_TRUE(said("their pace changed, and the trace has what half of them took")) << said_;
}

/// What was kept in each segment: 1 kernels, 0 calls, 2 ranges.
std::string kept_in_segments(const std::string& folder) {
  std::string what = "1";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);)
      if (line.at(2) == 'o') what += line.at(line.size() - 2);
  }
  return what;
}

TEST_F(Capture, CuptiLeavesUntilAGraphIsRecorded) {
  ASSERT_EQ(capture(program("staged"), "--keep " + file("kept")), 0) << said_;
  const std::string kept = kept_in_segments(file("kept"));
  EXPECT_EQ(kept.substr(0, 7), "1021021") << "away twice";
  EXPECT_EQ(kept.find("1021010", 4), kept.rfind('2') - 2) << kept << ", away once more before the first graph is recorded, and then never: it would fail";
  ASSERT_EQ(sim("import capture " + file("kept") + " --gpu h200 --range graph -o " + file()), 0) << said_;
  EXPECT_TRUE(said("so a request takes")) << said_;
}

TEST_F(Capture, CuptiStaysWhereSeveralThreadsCall) {
  ASSERT_EQ(capture(program("threads"), "--keep " + file("kept")), 0) << said_;
  EXPECT_EQ(kept_in_segments(file("kept")).substr(0, 6), "101010");
}

TEST_F(Capture, CuptiComesBackToAProgramThatWorksAndClosesNoRange) {
  ASSERT_EQ(capture(program("wanders"), "--range request --keep " + file("kept")), 0) << said_;
  const std::string what = kept_in_segments(file("kept"));
  EXPECT_EQ(what.substr(0, 4), "1021");
  EXPECT_EQ(what.substr(what.size() - 2), "21") << what;
}

TEST_F(Capture, AllIsRecordedWhereItIsAskedFor) {
  ASSERT_EQ(capture(program("long"), "--all --keep " + file("kept")), 0) << said_;
  EXPECT_EQ(lines_of(file("kept")).at('k'), 1 + 4 * 4000u);
  EXPECT_FALSE(said("without the profiler")) << said_;
}

TEST_F(Capture, ALoopThatBeginsBetweenSegmentsIsRecorded) {
  ASSERT_EQ(capture(program("late"), "--range late"), 0) << said_;
  EXPECT_TRUE(said("The request is late")) << said_;
  EXPECT_EQ(read_trace(file()).kernels.front().name, "small(float*, int)");
}

TEST_F(Capture, ALoopThatBeginsBetweenSegmentsAndNeverWaitsIsRecorded) {
  ASSERT_EQ(capture(program("unwaiting-unmarked"), "--keep " + file("kept")), 0) << said_;
  const std::size_t recorded = lines_of(file("kept")).at('k');
  ASSERT_EQ(capture(program("unwaiting-unmarked"), "--all --keep " + file("all")), 0) << said_;
  EXPECT_GE(recorded, 400 - 1u) << "but for the launch that is new";
  EXPECT_LT(recorded, lines_of(file("all")).at('k') - 400u) << "between segments";
}

/// Seconds with launches of each segment: with records, without, and so on.
std::vector<double> segments_of(const std::string& folder) {
  std::vector<std::uint64_t> launches, changes;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record[0] == "o") changes.push_back(record[1]);
      if (record[0] == "a") launches.push_back(record[2]);
    }
  }
  std::vector<double> seconds(changes.size() + 1);
  for (std::size_t i = 1, segment = 0; i < launches.size(); ++i) {
    while (segment < changes.size() && launches[i] >= changes[segment]) ++segment;
    seconds[segment] += 1e-9 * double(std::min<std::uint64_t>(launches[i] - launches[i - 1], 100'000'000));
  }
  return seconds;
}
/// A segment ends at the latest 20 ms, and where there are pauses 20 ms for each, after it may.
void expect_segments(const std::vector<double>& seconds, const std::vector<double>& expected, double more = 0) {
  ASSERT_GE(seconds.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_GE(seconds[i], expected[i] - 0.01) << i;
    EXPECT_LE(seconds[i], expected[i] * (1 + more) + 0.025) << i;
  }
}

TEST_F(Capture, OfAProgramThatIsSeenToWaitForNothingCallsAloneAreKeptToo) {
  ASSERT_EQ(capture(program("polling-unmarked"), "--keep " + file("kept")), 0) << said_;
  expect_segments(segments_of(file("kept")), {1, 1, 2, 4, 0.5});
  EXPECT_TRUE(said("a request takes 0.5022 ms without the profiler")) << said_;
}

TEST_F(Capture, AProgramThatWaitsOnceASecondWaits) {
  ASSERT_EQ(capture(program("often-unmarked"), "--keep " + file("often")), 0) << said_;
  EXPECT_EQ(segments_of(file("often")).size(), 1u) << "nine waits of the 32 that a segment has";
  ASSERT_EQ(capture(program("seldom-unmarked"), "--keep " + file("seldom")), 0) << said_;
  expect_segments(segments_of(file("seldom")), {1});
  EXPECT_GT(segments_of(file("seldom")).size(), 1u);
}

TEST_F(Capture, NoSegmentPassesWhileTheProgramDoesNothing) {
  ASSERT_EQ(capture(program("bursting-unmarked"), "--keep " + file("kept")), 0) << said_;
  expect_segments(segments_of(file("kept")), {1, 1, 2, 4}, 0.05);
}

TEST_F(Capture, WhereTheGpuCallsFunctionsOfTheProgramsSegmentsAreThoseOfOneThatWaits) {
  ASSERT_EQ(capture(program("noticed-unmarked"), "--keep " + file("kept")), 0) << said_;
  expect_segments(segments_of(file("kept")), {1, 1, 0.1, 0.2, 0.1, 0.3, 0.1, 0.4, 0.1, 0.5, 0.1, 0.6, 0.1, 0.7, 0.1, 0.8, 0.1, 0.9, 0.1, 0.9});
  EXPECT_TRUE(said("without the profiler")) << said_;
}

TEST_F(Capture, RangesThatXlaMakesForEachNodeAreHeardOnlyWhereAllIs) {
  ASSERT_EQ(capture(program("xla"), "--keep " + file("kept")), 0) << said_;
  EXPECT_EQ(lines_of(file("kept")).at('r'), 20u) << "the program's own";
  ASSERT_EQ(capture(program("xla"), "--all --keep " + file("all")), 0) << said_;
  EXPECT_EQ(lines_of(file("all")).at('r'), 40u);
  ASSERT_EQ(capture(program("nccl"), "--keep " + file("other")), 0) << said_;
  EXPECT_EQ(lines_of(file("other")).at('r'), 40u);
}

TEST_F(Capture, NoSegmentBeginsWhileAGraphIsCaptured) {
  ASSERT_EQ(capture(program("capturing-unmarked"), "--keep " + file("kept")), 0) << said_;
  const std::size_t captured = lines_of(file("kept")).at('o');
  ASSERT_EQ(capture(program("unwaiting-unmarked"), "--keep " + file("other")), 0) << said_;
  EXPECT_EQ(captured + 1, lines_of(file("other")).at('o'));
}

/// Microseconds of the first kernel.
double first_kernel(const std::string& file) {
  const Trace trace = read_trace(file);
  return to_ns(*trace.kernels.front().solo_time) / 1e3;
}

TEST_F(Capture, WhatTracingAddsToAGraphsNodesIsTakenOff) {
  ASSERT_EQ(capture(program("graph"), "--all"), 0) << said_;
  EXPECT_FALSE(said("taken off each kernel")) << said_;
  EXPECT_EQ(first_kernel(file()), 50);
  ASSERT_EQ(capture(program("graph")), 0) << said_;
  EXPECT_TRUE(said("taken off each kernel")) << said_;
  EXPECT_LT(first_kernel(file()), 50);
  EXPECT_GT(first_kernel(file()), 48);
}

/// Milliseconds that the host takes between calls.
double host_gaps(const std::string& file) {
  const Trace trace = read_trace(file);
  Time gaps{};
  for (const Op& op : trace.programs.front().ops) gaps += op.host_gap;
  return to_ms(gaps);
}

TEST_F(Capture, TheHostsGapsShrinkUntilARequestTakesItsTimeWithoutTheProfiler) {
  ASSERT_EQ(capture(program("hosted"), "--request-time 0.3ms"), 0) << said_;
  EXPECT_TRUE(said("so a request takes 0.2999 ms instead of 0.4608; without the profiler it takes 0.3")) << said_;
  EXPECT_FALSE(said("warning: the replay is")) << said_;
  const double fitted = host_gaps(file());
  ASSERT_EQ(capture(program("hosted"), "--request-time 10ms"), 0) << said_;
  EXPECT_TRUE(said("host gaps are as recorded")) << said_;
  EXPECT_LT(fitted, host_gaps(file()));
}

TEST_F(Capture, AProgramThatLooksForTheEndOfItsGraphTakesItsTimeUntilItHasSeenIt) {
  for (const char* by : {"", "--request-time 0.9ms"}) {
    ASSERT_EQ(capture(program("looks"), by), 0) << said_;
    EXPECT_TRUE(said("waits for the GPU by no call")) << by << '\n' << said_;
    EXPECT_TRUE(said(*by == '\0' ? "a request takes 0.7" : "")) << said_;
  }
  EXPECT_TRUE(said("a request takes 0.9 ms")) << said_;
  ASSERT_EQ(capture(program("graph"), "--request-time 0.9ms"), 0) << said_;
  EXPECT_TRUE(said("host gaps are as recorded")) << "its wait says when it saw the end\n" << said_;
}

TEST_F(Capture, WhereTheGpuTakesLongerTheHostKeepsWhatHidesBehindIt) {
  ASSERT_EQ(capture(program("serve"), "--request-time 0.1ms"), 0) << said_;
  EXPECT_TRUE(said("less than its work on the GPU as recorded")) << said_;
}

TEST_F(Capture, TwiceTakesTheTimeOfTheRangesWithoutTracing) {
  ASSERT_EQ(capture(program("hosted"), "--twice"), 0) << said_;
  const std::string before = "without the profiler it takes ";
  ASSERT_TRUE(said(before)) << said_;
  const double ms = std::stod(said_.substr(said_.find(before) + before.size()));
  EXPECT_GT(ms, 0);
  EXPECT_LT(ms, 100) << "0.4 ms on a quiet machine";
  EXPECT_EQ(capture(program("unmarked"), "--twice"), 2);
  EXPECT_TRUE(said("the request is no NVTX range")) << said_;
}

TEST_F(Capture, BySmsGivesTheTimesOnPartsOfTheGpu) {
  have_mps();
  ASSERT_EQ(capture(program("serve"), "--by-sms 25,50"), 0) << said_;
  EXPECT_TRUE(said("again, on 25 % of the GPU") && said("again, on 50 % of the GPU")) << said_;
  EXPECT_TRUE(said("On 66 of 132 SMs 4 of 4 launches are the same, and tell their kernels' times there.\n")) << said_;
  std::stringstream told;
  told << std::ifstream(file("told")).rdbuf();
  EXPECT_EQ(told.str(), "-f\nquit -t 1\n");
  const Trace trace = read_trace(file());
  const Time less = read_gpu("h200").mps_kernel;  // what MPS adds to a kernel is taken off
  ASSERT_EQ(trace.kernels.front().name, "gemm(float*, int)");
  const auto& times = trace.kernels.front().solo_time_by_sms;
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times.at(132), Time{std::chrono::microseconds{400}});
  EXPECT_NEAR(to_ns(times.at(66)), 800e3 - to_ns(less), 1);
  EXPECT_NEAR(to_ns(times.at(32)), 1600e3 - to_ns(less), 1);
}

TEST_F(Capture, BySmsKnowsTheGpuByItsNameThoughAPartHasFewerSms) {
  have_mps();
  ASSERT_EQ(sim(fmt::format("capture -o {} --by-sms 50 -- {}", file(), program("serve"))), 0) << said_;
  EXPECT_EQ(read_trace(file()).kernels.front().solo_time_by_sms.size(), 2u) << said_;
  EXPECT_EQ(read_trace(file()).gpu, "h200");
}

TEST_F(Capture, BySmsAsAWordOfItsOwnLeavesTheProgramItsOptions) {
  have_mps();
  ASSERT_EQ(sim(fmt::format("capture -o {} --by-sms 25,50 -- sh -c 'exec {}'", file(), program("serve"))), 0) << said_;
  EXPECT_EQ(read_trace(file()).kernels.front().solo_time_by_sms.size(), 3u) << said_;
}

TEST_F(Capture, BySmsTellsLaunchesThatAreOthersThere) {
  have_mps();
  ASSERT_EQ(capture(program("chooses"), "--by-sms 50"), 0) << said_;
  EXPECT_TRUE(said("On 66 of 132 SMs 3 of 4 launches are the same, and tell their kernels' times there. 1 there is another, in the place "
                   "of gemm(float*, int) (1): both requests are kept, and these take 2.00 times as long."))
      << said_;
  const Trace trace = read_trace(file());
  EXPECT_NEAR(to_ns(trace.kernels.front().solo_time_by_sms.at(66)), 800e3, 1e3) << "as long as what does its work there";
  EXPECT_NEAR(to_ns(trace.kernels.back().solo_time_by_sms.at(132)), 400e3, 1e3);
  EXPECT_EQ(trace.kernels[1].solo_time_by_sms.size(), 2u) << trace.kernels[1].name;
  ASSERT_EQ(trace.programs.size(), 2u);
  ASSERT_TRUE(trace.programs.front().on_sms.contains(66));
  const Program& there = trace.programs[trace.programs.front().on_sms.at(66).value];
  EXPECT_EQ(there.name, "trace on 66 SMs");
  std::vector<std::string> launched;
  for (const Op& op : there.ops)
    if (const auto* launch = std::get_if<Launch>(&op.what)) launched.push_back(trace.kernels[launch->kernel.value].name);
  EXPECT_EQ(launched, (std::vector<std::string>{"small(float*, int)", "bias(float*, float*)", "gemm(float*, int) #2", "bias(float*, float*)"}));
  EXPECT_EQ(trace.kernels.back().solo_time_sms, 66u) << "known there alone";
}

TEST_F(Capture, AClientThatHasThePartRunsWhatWasRecordedThere) {
  have_mps();
  ASSERT_EQ(capture(program("chooses")), 0) << said_;
  const auto kernels = [&](const std::string& policy) {
    EXPECT_EQ(sim(fmt::format("--policy={} --duration 5ms --out {} {}", policy, file("out"), file())), 0) << said_;
    std::stringstream text;
    text << std::ifstream(file("out/kernels.csv")).rdbuf();
    return text.str();
  };
  EXPECT_NE(kernels("mps:percentages=25").find("small(float*, int)"), std::string::npos) << said_;
  EXPECT_TRUE(said("on their parts of the GPU clients run what was recorded on one: main 'trace on 32 SMs'")) << said_;
  EXPECT_EQ(kernels("mps").find("small(float*, int)"), std::string::npos) << said_;
  EXPECT_FALSE(said("on their parts")) << said_;
}

TEST_F(Capture, ByDefaultTheProgramRunsAgainOnAQuarterOfTheGpu) {
  have_mps();
  ASSERT_EQ(capture(program("serve"), "--keep " + file("kept")), 0) << said_;
  EXPECT_TRUE(said("again, on 25 % of the GPU")) << said_;
  EXPECT_TRUE(said("On 32 of 132 SMs 4 of 4 launches are the same")) << said_;
  EXPECT_FALSE(said("Not run on a part")) << said_;
  const Trace trace = read_trace(file());
  EXPECT_EQ(trace.kernels.front().solo_time_by_sms.size(), 2u);
  EXPECT_EQ(trace.programs.size(), 1u) << "the same launches: one request";
  const auto times = trace.kernels.front().solo_time_by_sms;
  ASSERT_EQ(sim(fmt::format("import capture {} --gpu h200 -o {}", file("kept"), file("again.json"))), 0) << said_;
  EXPECT_EQ(read_trace(file("again.json")).kernels.front().solo_time_by_sms, times) << "what is kept has both runs";
}

/// The program ran once, well, and the only line about it says why.
#define EXPECT_NO_PART(why)                                                                            \
  EXPECT_TRUE(said(fmt::format("note: Not run on a part of the GPU ({}): times there tell", why))) << said_; \
  EXPECT_TRUE(read_trace(file()).kernels.front().solo_time_by_sms.empty())

TEST_F(Capture, OnceIsOneRunAndSaysWhatIsLost) {
  have_mps();
  ASSERT_EQ(capture(program("serve"), "--once"), 0) << said_;
  EXPECT_FALSE(said("again")) << said_;
  EXPECT_NO_PART("--once");
  EXPECT_FALSE(std::filesystem::exists(file("told"))) << "no MPS server";
  EXPECT_EQ(capture(program("serve"), "--once --by-sms 50"), 2);
  EXPECT_TRUE(said("excludes")) << said_;
}

TEST_F(Capture, WhereItIsKilledItsMpsServerEndsToo) {
  have_mps();
  capture(fmt::format("sh -c '{}; [ -z \"$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE\" ] || kill -9 $PPID'", program("serve")), "--by-sms 50 --keep " + file("kept"));
  const auto told = [&] {
    std::stringstream all;
    all << std::ifstream(file("told")).rdbuf();
    return all.str();
  };
  for (int i = 0; i < 1000 && told() != "-f\nquit\n"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(told(), "-f\nquit\n") << said_;
}

TEST_F(Capture, WithoutAnMpsServerThereIsOneRun) {
  have_mps(1);
  ASSERT_EQ(capture(program("serve")), 0) << said_;
  EXPECT_NO_PART("nvidia-cuda-mps-control cannot be started");
}

TEST_F(Capture, AProgramThatSeesTheWholeGpuThereHasNoPart) {
  have_mps();
  driver_.clear();  // no SMs are told
  ASSERT_EQ(capture(program("serve")), 0) << said_;
  EXPECT_NO_PART("the program saw as many SMs as without a percentage");
}

TEST_F(Capture, AProgramThatDidNotEndWellOrWasInterruptedIsNotRunAgain) {
  have_mps();
  ASSERT_EQ(capture(program("fails")), 0) << said_;
  EXPECT_NO_PART("the program did not end well");
  ASSERT_EQ(capture(fmt::format("sh -c '{}; kill -INT $PPID'", program("serve"))), 0) << said_;
  EXPECT_NO_PART("the program was interrupted");
  ASSERT_EQ(capture(program("serve"), "--sms 66"), 0) << said_;
  EXPECT_NO_PART("the program had a part already");
  EXPECT_FALSE(said("again, on")) << said_;
}

TEST_F(Capture, ASecondRunThatFailsOrDoesNotEndIsLeftOut) {
  have_mps();
  ASSERT_EQ(capture(program("fails-there"), "--keep " + file("kept")), 0) << said_;
  EXPECT_NO_PART("there it ended with exit code 5");
  EXPECT_FALSE(std::filesystem::exists(file("kept/percent-25")));
  ASSERT_EQ(capture(fmt::format("sh -c '{} && echo $$ > {}'", program("waits-there"), file("ended"))), 0) << said_;
  EXPECT_NO_PART("there it had not ended after 8 times as long");
}

TEST_F(Capture, BySmsWithoutAnMpsServerIsRefusedAndSoIsAPartThatIsTheWhole) {
  have_mps(1);
  EXPECT_EQ(capture(program("serve"), "--by-sms 50"), 2);
  EXPECT_TRUE(said("nvidia-cuda-mps-control cannot be started")) << said_;
  have_mps();
  driver_.clear();  // no SMs are told
  EXPECT_EQ(capture(program("serve"), "--by-sms 50"), 2);
  EXPECT_TRUE(said("the program saw as many SMs as without a percentage")) << said_;
  EXPECT_EQ(capture(program("serve"), "--by-sms 100"), 2);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(Capture, ProcessesBecomeClients) {
  ASSERT_EQ(capture(fmt::format("sh -c '{0} & {0}; wait'", program("serve"))), 0) << said_;
  EXPECT_EQ(read_trace(file()).clients.size(), 2u);
}

TEST_F(Capture, OfSeveralProcessesOneMayHaveWaitedForAnothersWorkAndNoHostIsTakenToBeSlower) {
  ASSERT_EQ(capture(fmt::format("sh -c '{0} & {0}; wait'", program("slows"))), 0) << said_;
  EXPECT_TRUE(said("no longer than the 0.776 ms that it takes without the profiler: host gaps are as recorded")) << said_;
}

TEST_F(Capture, OfSeveralProcessesEachIsFittedToItsOwnTimeWithoutRecords) {
  ASSERT_EQ(capture(fmt::format("sh -c '{} & {}; wait'", program("long"), program("graph"))), 0) << said_;
  EXPECT_TRUE(said(": The recording says that a request takes 0.528 ms")) << said_;
  EXPECT_TRUE(said(": The recording says that a request takes 0.555 ms")) << said_;
  EXPECT_EQ(read_trace(file()).clients.size(), 2u);
}

TEST_F(Capture, WhatAKilledProgramDidIsKept) {
  ASSERT_EQ(capture(program("killed")), 0) << said_;
  EXPECT_TRUE(said("the program ended with signal 9")) << said_;
  EXPECT_TRUE(said("did not end by itself")) << said_;
  EXPECT_TRUE(said("request (20)")) << said_;
}

TEST_F(Capture, TheExitCodeOfTheProgramIsSaid) {
  ASSERT_EQ(capture(program("fails")), 0) << said_;
  EXPECT_TRUE(said("the program ended with exit code 3")) << said_;
}

TEST_F(Capture, AKeptRecordingGivesTheSameTraceAgain) {
  ASSERT_EQ(capture(program("serve"), "--name p --keep " + file("kept")), 0) << said_;
  ASSERT_EQ(sim(fmt::format("import capture {} --gpu h200 --name p -o {}", file("kept"), file("again.json"))), 0) << said_;
  const Trace one = read_trace(file()), two = read_trace(file("again.json"));
  std::ostringstream a, b;
  write_trace(one, a), write_trace(two, b);
  EXPECT_EQ(a.str(), b.str());
  EXPECT_EQ(capture(program("serve"), "--keep " + file("kept")), 2) << "a folder with another recording";
  EXPECT_TRUE(said("is not empty")) << said_;
}

TEST_F(Capture, WhereNothingIsCapturedThereIsAnErrorAndNoFile) {
  EXPECT_EQ(capture(program("idle")), 2);
  EXPECT_TRUE(said("no process launched a kernel") || said("no process used CUDA")) << said_;
  EXPECT_EQ(capture("/no/such/program"), 2);
  EXPECT_TRUE(said("cannot be started")) << said_;
  EXPECT_EQ(capture(program("serve"), "--range reqest"), 2);
  EXPECT_TRUE(said("there is no range 'reqest'")) << said_;
  EXPECT_FALSE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace corun
