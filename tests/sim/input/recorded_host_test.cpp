// Does a replay keep the host of a recording: the length of its launch calls, the period of its steps, the copies that hold it?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/input/load.h"
#include "sim/run/run.h"
#include "tests/support/collect.h"
#include "tests/support/in_folder.h"
#include "traces/import/kineto.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

/// A Kineto file of an H200; times in microseconds.
class RecordedHost : public InFolder {
 public:
  RecordedHost& call(const char* name, double ts, double dur, int correlation) {
    return event("cuda_runtime", name, ts, dur, fmt::format(R"("correlation": {})", correlation));
  }
  RecordedHost& kernel(double ts, double dur, int correlation, int blocks = 264) {
    return event("kernel", "work(float*)", ts, dur,
                 fmt::format(R"("device": 0, "context": 1, "stream": 7, "correlation": {}, "registers per thread": 32, "shared memory": 0,
                                "grid": [{}, 1, 1], "block": [256, 1, 1])",
                             correlation, blocks));
  }
  RecordedHost& copy(const char* name, double ts, double dur, int correlation, std::uint64_t bytes) {
    return event("gpu_memcpy", name, ts, dur, fmt::format(R"("device": 0, "context": 1, "stream": 7, "correlation": {}, "bytes": {})", correlation, bytes));
  }
  RecordedHost& step(int number, double ts, double dur) { return event("user_annotation", fmt::format("ProfilerStep#{}", number), ts, dur, ""); }

  Trace import(RecordedTimes* times = nullptr) {
    const std::string text = fmt::format(R"({{"schemaVersion": 1, {}"deviceProperties": [{{"id": 0, "name": "NVIDIA H200", "numSms": 132}}], "traceEvents": [{}]}})", head_, events_);
    return import_kineto(write("recording.json", text), ImportOptions{}, times);
  }

 private:
  RecordedHost& event(const char* cat, const std::string& name, double ts, double dur, const std::string& args) {
    events_ += fmt::format(R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}, "args": {{{}}}}})", events_.empty() ? "" : ",", cat,
                           name, ts, dur, args);
    return *this;
  }
  std::string events_;

 protected:
  std::string head_;
};

RunOptions watched(Sink& sink) {
  RunOptions options;
  options.policy = "fcfs";
  options.alone = false;
  options.sinks = {&sink};
  return options;
}

/// From a request's arrival to its end.
Time one_request(Trace trace) {
  trace.clients.front().arrivals = Once{};
  Collector seen;
  run(trace, read_gpu(trace.gpu), watched(seen));
  return seen.requests.front().finished - seen.requests.front().arrival;
}

/// Settings of the client as it was imported.
std::size_t requests_in(Trace trace, Time duration) {
  trace.run.duration = duration;
  Collector seen;
  run(trace, read_gpu(trace.gpu), watched(seen));
  return static_cast<std::size_t>(std::ranges::count_if(seen.requests, [](const RequestRecord& r) { return r.finished != kNever; }));
}

void expect_within(double share, Time is, double us) { EXPECT_NEAR(to_ns(is), 1e3 * us, share * 1e3 * us); }

TEST_F(RecordedHost, LaunchCallsKeepTheirCost) {
  for (int i = 0; i < 300; ++i) call("cudaLaunchKernel", 1000 + 40 * i, 18, i + 1).kernel(1020 + 40 * i, 8, i + 1);
  RecordedTimes recorded;
  const Trace trace = import(&recorded);
  expect_within(0.001, recorded.span, 11988);
  expect_within(0.02, one_request(trace), 11988);
  EXPECT_THAT(trace.notes, Contains(AllOf(HasSubstr("a launch call was recorded with 18.0 us"), HasSubstr("is in the gaps too"))));
}

TEST_F(RecordedHost, ALongCallThatIsWaitedForIsOnTheWayToItsKernel) {
  for (int i = 0; i < 100; ++i)
    call("cudaLaunchKernel", 1000 + 40 * i, 15, 2 * i + 1).kernel(1017 + 40 * i, 8, 2 * i + 1).call("cudaStreamSynchronize", 1016 + 40 * i, 12, 2 * i + 2);
  expect_within(0.02, one_request(import()), 100 * 40 - 12);
}

TEST_F(RecordedHost, AKernelThatStartsWithinItsCallIsNotLate) {
  // The call goes on for 30 us behind the launch, as where the profiler writes it down.
  call("cudaLaunchKernel", 1000, 40, 1).kernel(1010, 100, 1).call("cudaDeviceSynchronize", 1040, 72, 2);
  call("cudaLaunchKernel", 1120, 40, 3).kernel(1130, 100, 3).call("cudaDeviceSynchronize", 1160, 72, 4);
  Trace trace = import();
  trace.clients.front().arrivals = Once{};
  Collector seen;
  run(trace, read_gpu("h200"), watched(seen));
  ASSERT_EQ(seen.kernels.size(), 2u);
  expect_within(0.02, seen.kernels[0].started, 10);
  expect_within(0.02, seen.kernels[1].started, 130);
}

TEST_F(RecordedHost, CallsThatOverlapOnSeveralThreadsDoNotAddUp) {
  // Each of 18 us, one every 10: of two threads.
  for (int i = 0; i < 200; ++i) call("cudaLaunchKernel", 1000 + 10 * i, 18, i + 1).kernel(1020 + 10 * i, 5, i + 1);
  expect_within(0.02, one_request(import()), 10 * 199 + 25);
}

/// Steps of 10 ms whose GPU work of 7 ms runs into the next step.
class Overlapping : public RecordedHost, public testing::WithParamInterface<bool> {};

TEST_P(Overlapping, StepsFollowEachOtherAsRecorded) {
  int c = 0;
  for (int n = 0; n < 6; ++n) {
    const double t = 1e6 + 1e4 * n;
    step(n, t, 9990);
    if (GetParam()) {
      ++c;
      call("cudaMemcpyAsync", t + 9000, 500, c).copy("Memcpy HtoD (Pageable -> Device)", t + 9100, 380, c, 4'000'000);
      call("cudaStreamSynchronize", t + 9510, 20, ++c);
    }
    ++c;
    call("cudaLaunchKernel", t + 9600, 10, c).kernel(t + 9615, 7000, c, 1000);
  }
  call("cudaDeviceSynchronize", 1e6 + 6e4, 6620, ++c);
  RecordedTimes recorded;
  const Trace trace = import(&recorded);
  EXPECT_EQ(std::get<ClosedLoop>(trace.clients.front().arrivals).in_flight, 2u);
  EXPECT_NEAR(static_cast<double>(requests_in(trace, std::chrono::seconds{1})), 100, 1);
  expect_within(0.03, one_request(trace), 16620);
  EXPECT_EQ(recorded.period, Time{std::chrono::milliseconds{10}});
}
INSTANTIATE_TEST_SUITE_P(WithACopyAndWithout, Overlapping, testing::Bool());

TEST_F(RecordedHost, ThreeStepsInFlightAreBoundByTheGpu) {
  // The host takes 1 ms a step and runs ahead of a GPU that takes 4, until one step waits behind the one under way.
  for (int n = 0; n < 12; ++n) {
    const double t = 1e6 + 4e3 * n;
    step(n, t, 3990);
    call("cudaLaunchKernel", t + 900, 10, n + 1).kernel(t + 8e3, 3950, n + 1, 1000);
  }
  const Trace trace = import();
  EXPECT_EQ(std::get<ClosedLoop>(trace.clients.front().arrivals).in_flight, 3u);
  EXPECT_NEAR(static_cast<double>(requests_in(trace, std::chrono::seconds{1})), 250, 4);
}

TEST_F(RecordedHost, WhatTheHostDoesBehindAStepsEndIsBetweenRequests) {
  for (int n = 0; n < 5; ++n) {
    const double t = 1e6 + 1e4 * n;
    step(n, t, 9990);
    call("cudaLaunchKernel", t + 1000, 10, 2 * n + 1).kernel(t + 1015, 6000, 2 * n + 1, 1000);
    call("cudaDeviceSynchronize", t + 1020, 6000, 2 * n + 2);
  }
  const Trace trace = import();
  const auto& loop = std::get<ClosedLoop>(trace.clients.front().arrivals);
  EXPECT_EQ(loop.in_flight, 1u);
  EXPECT_NEAR(static_cast<double>(requests_in(trace, std::chrono::seconds{1})), 100, 1);
  expect_within(0.01, one_request(trace), 7015);
}

TEST_F(RecordedHost, WhereTheTimeWithoutTheProfilerIsKnownThePauseBetweenStepsIsNot) {
  head_ = R"("corun_request_time_us": 3000, )";
  for (int n = 0; n < 5; ++n) {
    const double t = 1e6 + 1e4 * n;
    step(n, t, 9990);
    call("cudaLaunchKernel", t + 5000, 10, 2 * n + 1).kernel(t + 5015, 1000, 2 * n + 1, 1000);
    call("cudaDeviceSynchronize", t + 5020, 1000, 2 * n + 2);
  }
  EXPECT_NE(std::get<ClosedLoop>(import().clients.front().arrivals).think_time, Time{});
  const Trace trace = read_input((folder_ / "recording.json").string(), "");
  EXPECT_EQ(std::get<ClosedLoop>(trace.clients.front().arrivals).think_time, Time{});
  expect_within(0.01, one_request(trace), 3000);
}

TEST_F(RecordedHost, AGraphsLaunchIsNotMadeLongerByTracing) {
  call("cudaGraphLaunch", 1000, 600, 1).kernel(1590, 100, 1).call("cudaDeviceSynchronize", 1610, 85, 2);
  call("cudaLaunchKernel", 1700, 10, 3).kernel(1715, 100, 3);
  Trace trace = import();
  trace.clients.front().arrivals = Once{};
  Collector seen;
  run(trace, read_gpu("h200"), watched(seen));
  EXPECT_LT(seen.kernels.front().started, Time{std::chrono::microseconds{10}});
}

TEST_F(RecordedHost, APageableCopyKeepsItsRateAndHoldsTheHost) {
  // 200 MB at 4.9 GB/s; the call returns a little before the copy's end.
  for (int i = 0; i < 4; ++i) {
    const double t = 1000 + 43000 * i;
    call("cudaMemcpyAsync", t, 41000, 3 * i + 1).copy("Memcpy HtoD (Pageable -> Device)", t + 240, 40900, 3 * i + 1, 200'000'000);
    call("cudaLaunchKernel", t + 41010, 10, 3 * i + 2).kernel(t + 41150, 1000, 3 * i + 2);
    call("cudaDeviceSynchronize", t + 41030, 1130, 3 * i + 3);
  }
  Trace trace = import();
  trace.clients.front().arrivals = Once{};
  Collector seen;
  run(trace, read_gpu("h200"), watched(seen));
  ASSERT_EQ(seen.copies.size(), 4u);
  for (const CopyRecord& c : seen.copies) expect_within(0.01, c.finished - c.started, 40900);
  for (std::size_t i = 0; i < 4; ++i) {
    expect_within(0.01, seen.kernels[i].ready - seen.kernels[0].ready + Time{std::chrono::milliseconds{41}}, 41000 + 43000 * static_cast<double>(i));
    EXPECT_GE(seen.kernels[i].ready, seen.copies[i].finished) << "the thread is in the copy's call";
  }
}

TEST_F(RecordedHost, ASlowHostLeavesTheCopyEngineToOthers) {
  call("cudaMemcpyAsync", 1000, 41000, 1).copy("Memcpy HtoD (Pageable -> Device)", 1240, 40900, 1, 200'000'000);
  call("cudaLaunchKernel", 42010, 10, 2).kernel(42150, 1000, 2);
  Trace trace = import();
  Program other = trace.programs.front();
  other.ops.resize(1);
  std::get<Copy>(other.ops.front().what).host_bytes_per_second = 0;
  trace.programs.push_back(other);
  trace.clients.push_back(trace.clients.front());
  trace.clients[1].name = trace.clients[1].process = "other", trace.clients[1].program = ProgramId{1};
  for (Client& client : trace.clients) client.arrivals = Once{};
  trace.clients[1].arrivals = Once{std::chrono::milliseconds{1}};
  Collector seen;
  RunOptions options = watched(seen);
  options.policy = "mps";
  run(trace, read_gpu("h200"), options);
  for (const CopyRecord& c : seen.copies) {
    if (c.client.value == 1) {
      EXPECT_LT(c.finished, Time{std::chrono::milliseconds{9}}) << "3.6 ms behind 3.6 ms of the other's bytes";
    }
  }
}

}  // namespace
}  // namespace corun::sim
