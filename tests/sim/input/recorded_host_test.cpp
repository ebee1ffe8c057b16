// Does a replay keep the host of a recording: the length of its launch calls, the period of its steps, the copies that hold it?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

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
  RecordedHost& call(const char* name, double ts, double dur, int correlation, int thread = 1) {
    return event("cuda_runtime", name, ts, dur, fmt::format(R"("correlation": {})", correlation), thread);
  }
  RecordedHost& kernel(double ts, double dur, int correlation, int blocks = 264, int stream = 7) {
    return event("kernel", "work(float*)", ts, dur,
                 fmt::format(R"("device": 0, "context": 1, "stream": {}, "correlation": {}, "registers per thread": 32, "shared memory": 0,
                                "grid": [{}, 1, 1], "block": [256, 1, 1])",
                             stream, correlation, blocks));
  }
  RecordedHost& copy(const char* name, double ts, double dur, int correlation, std::uint64_t bytes, int stream = 7) {
    return event("gpu_memcpy", name, ts, dur, fmt::format(R"("device": 0, "context": 1, "stream": {}, "correlation": {}, "bytes": {})", stream, correlation, bytes));
  }
  RecordedHost& memset(double ts, double dur, int correlation, std::uint64_t bytes) {
    return event("gpu_memset", "Memset (Device)", ts, dur, fmt::format(R"("device": 0, "context": 1, "stream": 7, "correlation": {}, "bytes": {})", correlation, bytes));
  }
  RecordedHost& step(int number, double ts, double dur) { return event("user_annotation", fmt::format("ProfilerStep#{}", number), ts, dur, ""); }

  Trace import(RecordedTimes* times = nullptr) {
    const std::string text = fmt::format(R"({{"schemaVersion": 1, {}"deviceProperties": [{{"id": 0, "name": "NVIDIA H200", "numSms": 132}}], "traceEvents": [{}]}})", head_, events_);
    return import_kineto(write("recording.json", text), ImportOptions{}, times);
  }

 private:
  RecordedHost& event(const char* cat, const std::string& name, double ts, double dur, const std::string& args, int thread = 1) {
    events_ += fmt::format(R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})", events_.empty() ? "" : ",", cat,
                           name, thread, ts, dur, args);
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

/// Hosts that decide how long it takes, in other ways; `took`: us from the first call to the last end.
struct Paced {
  const char* name;
  void (*record)(RecordedHost& r);
  double took;
};
class PacedByTheHost : public RecordedHost, public testing::WithParamInterface<Paced> {};
TEST_P(PacedByTheHost, TakesAsLongAsRecorded) {
  GetParam().record(*this);
  RecordedTimes recorded;
  const Trace trace = import(&recorded);
  expect_within(0.001, recorded.span, GetParam().took);
  expect_within(0.02, one_request(trace), GetParam().took);
}
const Paced kPaced[] = {
        Paced{"CopiesAndMemsets",
              [](RecordedHost& r) {
                for (int i = 0; i < 200; ++i) {
                  const double t = 1000 + 60 * i;
                  r.call("cudaMemcpyAsync", t, 25, 3 * i + 1).copy("Memcpy HtoD (Pinned -> Device)", t + 27, 2, 3 * i + 1, 4096);
                  r.call("cudaMemsetAsync", t + 26, 12, 3 * i + 2).memset(t + 40, 1.5, 3 * i + 2, 4096);
                  r.call("cudaLaunchKernel", t + 39, 20, 3 * i + 3).kernel(t + 61, 5, 3 * i + 3);
                }
              },
              199 * 60 + 66},
        Paced{"TwoThreadsThatWaitForTheDriversLock",
              [](RecordedHost& r) {
                for (int i = 0; i < 150; ++i) {
                  const double t = 1000 + 40 * i;
                  r.call("cudaLaunchKernel", t, 38, 2 * i + 1, 1).kernel(t + 40, 10, 2 * i + 1, 60, 7);
                  r.call("cudaLaunchKernel", t + 1, 39, 2 * i + 2, 2).kernel(t + 42, 10, 2 * i + 2, 60, 9);
                }
              },
              149 * 40 + 52},
        Paced{"CallsThatRunAhead",  // the GPU decides: no call's cost is seen
              [](RecordedHost& r) {
                for (int i = 0; i < 500; ++i) r.call("cudaLaunchKernel", 1000 + 5 * i, 4.5, i + 1).kernel(1010 + 20 * i, 19.2, i + 1);
                r.call("cudaDeviceSynchronize", 3500, 7530, 501);
              },
              10 + 499 * 20 + 19.2},
        Paced{"AFullChannel",  // each call from the 1,022nd on waits for a kernel of 100 us
              [](RecordedHost& r) {
                for (int i = 0; i < 2000; ++i) {
                  const bool held = i >= 1021;
                  r.call("cudaLaunchKernel", held ? 1011 + 100 * (i - 1021) : 1000 + 4 * i, held ? 99 : 3, i + 1).kernel(1010 + 100 * i, 99, i + 1);
                }
              },
              10 + 1999 * 100 + 99},
        Paced{"AnEagerLoopOfItems",  // two thirds of each are the host's
              [](RecordedHost& r) {
                for (int i = 0; i < 100; ++i) {
                  const double t = 1000 + 200 * i;
                  r.call("cudaLaunchKernel", t, 15, 3 * i + 1).kernel(t + 17, 60, 3 * i + 1);
                  r.call("cudaMemcpyAsync", t + 20, 70, 3 * i + 2).copy("Memcpy DtoH (Device -> Pageable)", t + 78, 1.2, 3 * i + 2, 4).call("cudaStreamSynchronize", t + 91, 3, 3 * i + 3);
                }
              },
              99 * 200 + 79.2},
        Paced{"ACopyOfAnotherThreadBesideKernels",  // 41 ms from pageable memory, which hold that thread and not this one
              [](RecordedHost& r) {
                r.call("cudaMemcpyAsync", 1000, 41000, 1, 2).copy("Memcpy HtoD (Pageable -> Device)", 1240, 40760, 1, 200'000'000, 14);
                for (int i = 0; i < 40; ++i) r.call("cudaLaunchKernel", 1001 + 1000 * i, 8, i + 2).kernel(1011 + 1000 * i, 900, i + 2);
                r.call("cudaDeviceSynchronize", 41001, 1010, 99);
              },
              41000},
        Paced{"AWaitOfAnotherThread",  // for its own stream
              [](RecordedHost& r) {
                r.call("cudaLaunchKernel", 1000, 8, 1, 2).kernel(1010, 6000, 1, 61, 14).call("cudaStreamSynchronize", 1010, 6010, 2, 2);
                for (int i = 0; i < 40; ++i) r.call("cudaLaunchKernel", 1020 + 250 * i, 8, i + 3).kernel(1032 + 250 * i, 200, i + 3, 60);
              },
              32 + 39 * 250 + 200}};
INSTANTIATE_TEST_SUITE_P(Each, PacedByTheHost, testing::ValuesIn(kPaced), [](const auto& each) { return std::string(each.param.name); });

TEST_F(RecordedHost, AWaitOfTheThreadThatIssuesMostHolds) {
  for (int i = 0; i < 20; ++i) {
    const double t = 1000 + 1000 * i;
    call("cudaLaunchKernel", t, 8, 3 * i + 1).kernel(t + 10, 500, 3 * i + 1).call("cudaDeviceSynchronize", t + 10, 510, 3 * i + 2);
    call("cudaLaunchKernel", t + 530, 8, 3 * i + 60 + 1).kernel(t + 542, 100, 3 * i + 60 + 1);
    if (i == 7) call("cudaMemcpyAsync", t + 100, 8, 999, 2).copy("Memcpy HtoD (Pinned -> Device)", t + 110, 10, 999, 500'000, 14);
  }
  const Trace trace = import();
  EXPECT_EQ(std::ranges::count_if(trace.programs[0].ops, [](const Op& op) { return std::holds_alternative<Sync>(op.what); }), 20) << "each, also around another's copy";
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

/// Loops whose GPU work runs into the next step, in other ways.
struct Loop {
  const char* name;
  void (*record)(RecordedHost& r);
  double period, latency;  // us; from when its host takes a request on to its end on the GPU
  std::uint32_t in_flight;
};
class OverlappingLoops : public RecordedHost, public testing::WithParamInterface<Loop> {};

TEST_P(OverlappingLoops, KeepTheirPeriodAndTheirLatency) {
  const Loop& loop = GetParam();
  loop.record(*this);
  RecordedTimes recorded;
  Trace trace = import(&recorded);
  EXPECT_EQ(std::get<ClosedLoop>(trace.clients.front().arrivals).in_flight, loop.in_flight);
  EXPECT_NEAR(static_cast<double>(requests_in(trace, std::chrono::seconds{1})) * loop.period, 1e6, 0.02 * 1e6);
  trace.run.duration = Time{std::chrono::seconds{1}};
  Collector seen;
  run(trace, read_gpu(trace.gpu), watched(seen));
  std::vector<Time> took;
  for (const RequestRecord& r : seen.requests)
    if (r.request >= 8 && r.finished != kNever) took.push_back(r.finished - r.arrival);
  ASSERT_GT(took.size(), 20u);
  std::ranges::sort(took);
  expect_within(0.03, took[took.size() / 2], loop.latency);
}

const Loop kLoops[] = {
        Loop{"InputsOfAnotherThread",  // a pinned copy on its own stream, 3 ms
             [](RecordedHost& r) {
               for (int n = 0; n < 6; ++n) {
                 const double t = 1e6 + 1e4 * n;
                 r.step(n, t, 9990).call("cudaMemcpyAsync", t + 200, 8, 2 * n + 1, 2).copy("Memcpy HtoD (Pinned -> Device)", t + 215, 3000, 2 * n + 1, 150'000'000, 20);
                 r.call("cudaLaunchKernel", t + 9600, 10, 2 * n + 2).kernel(t + 9615, 7000, 2 * n + 2, 1000);
               }
             },
             1e4, 390 + 16615, 2},
        Loop{"AGraph",
             [](RecordedHost& r) {
               for (int n = 0; n < 6; ++n) {
                 const double t = 1e6 + 1e4 * n;
                 r.step(n, t, 9990).call("cudaGraphLaunch", t + 9600, 30, n + 1);
                 for (int i = 0; i < 7; ++i) r.kernel(t + 9640 + 1000 * i, 998, n + 1, 1000);
               }
             },
             1e4, 370 + 16638, 2},
        Loop{"UnevenSteps",
             [](RecordedHost& r) {
               double t = 1e6;
               for (int n = 0; n < 11; ++n) {
                 const double lasts = std::array{10000., 10400., 9700., 10100., 9900.}[static_cast<std::size_t>(n % 5)];
                 r.step(n, t, lasts - 10).call("cudaLaunchKernel", t + lasts - 400, 10, n + 1).kernel(t + lasts - 385, 7000, n + 1, 1000);
                 t += lasts;
               }
             },
             1e4, 390 + 16615, 2},
        Loop{"FourAheadOfABusyGpu",
             [](RecordedHost& r) {
               for (int n = 0; n < 12; ++n) {
                 const double t = 1e6 + 4e3 * n;
                 r.step(n, t, 3990);
                 for (int i = 0; i < 4; ++i) r.call("cudaLaunchKernel", t + 200 * i + 100, 10, 4 * n + i + 1).kernel(t + 16000 + 1000 * i, 995, 4 * n + i + 1, 1000);
               }
             },
             4e3, 2e4, 5},
        Loop{"TwoStreams",
             [](RecordedHost& r) {
               for (int n = 0; n < 6; ++n) {
                 const double t = 1e6 + 1e4 * n;
                 r.step(n, t, 9990).call("cudaLaunchKernel", t + 9600, 10, 2 * n + 1).kernel(t + 9615, 7000, 2 * n + 1, 60);
                 r.call("cudaLaunchKernel", t + 9615, 10, 2 * n + 2).kernel(t + 9630, 6000, 2 * n + 2, 61, 21);
               }
             },
             1e4, 375 + 16615, 2},
        Loop{"AResultThatIsReadAStepLater",  // 4 bytes to pageable memory, behind the kernel of the step before
             [](RecordedHost& r) {
               for (int n = 0; n < 8; ++n) {
                 const double t = 1e6 + 5e3 * n;
                 r.step(n, t, 4990);
                 if (n > 0)
                   r.call("cudaMemcpyAsync", t + 10, 4, 3 * n + 1).copy("Memcpy DtoH (Device -> Pageable)", t + 3505, 1.5, 3 * n + 1, 4).call(
                       "cudaStreamSynchronize", t + 16, 3495, 3 * n + 2);
                 r.call("cudaLaunchKernel", t + 4000, 10, 3 * n + 3).kernel(t + 4015, 4485, 3 * n + 3, 1000);
               }
             },
             5e3, 990 + 8500, 2}};
INSTANTIATE_TEST_SUITE_P(Each, OverlappingLoops, testing::ValuesIn(kLoops), [](const auto& each) { return std::string(each.param.name); });

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

/// Names that tools give copies of 200 MB which hold their host for 41 ms.
struct NamedCopy {
  const char *call, *name;
  CopyDirection direction;
};
class CopiesOfOtherTools : public RecordedHost, public testing::WithParamInterface<NamedCopy> {};
TEST_P(CopiesOfOtherTools, KeepTheirDirectionTheirRateAndTheirHost) {
  const auto& [name_of_call, name, direction] = GetParam();
  for (int i = 0; i < 3; ++i) {
    const double t = 1000 + 43000 * i;
    call(name_of_call, t, 41000, 3 * i + 1).copy(name, t + 240, 40700, 3 * i + 1, 200'000'000);
    call("cudaLaunchKernel", t + 41010, 10, 3 * i + 2).kernel(t + 41150, 1000, 3 * i + 2).call("cudaDeviceSynchronize", t + 41030, 1130, 3 * i + 3);
  }
  const Trace trace = import();
  const auto& copied = std::get<Copy>(trace.programs[0].ops[0].what);
  EXPECT_EQ(copied.direction, direction);
  EXPECT_EQ(copied.host_bytes_per_second, 4'914'004'914u) << "200 MB in 40.7 ms";
  EXPECT_TRUE(std::holds_alternative<Sync>(trace.programs[0].ops[1].what));
  expect_within(0.01, one_request(trace), 2 * 43000 + 42150);
}
INSTANTIATE_TEST_SUITE_P(Each, CopiesOfOtherTools,
                         testing::Values(NamedCopy{"hipMemcpy", "CopyHostToDevice", CopyDirection::host_to_device},
                                         NamedCopy{"hipMemcpyWithStream", "CopyDeviceToHost", CopyDirection::device_to_host},
                                         NamedCopy{"hipMemcpyAsync", "Memcpy HtoD (Host -> Device)", CopyDirection::host_to_device},
                                         NamedCopy{"cudaMemcpyAsync", "Memcpy HtoD (Managed -> Device)", CopyDirection::host_to_device},
                                         NamedCopy{"cudaMemcpyAsync", "Memcpy DtoH (Device -> Managed)", CopyDirection::device_to_host},
                                         NamedCopy{"cudaMemcpyAsync", "Memcpy HtoD (Unknown -> Device)", CopyDirection::host_to_device},
                                         NamedCopy{"cudaMemcpy2DAsync", "Memcpy DtoH (Device -> Pageable)", CopyDirection::device_to_host}));

TEST_F(RecordedHost, ACopyOfUnknownMemoryWhoseCallReturnsAtOnceIsTheGpus) {
  call("hipMemcpyAsync", 1000, 8, 1).copy("CopyHostToDevice", 1015, 4000, 1, 200'000'000);
  call("cudaLaunchKernel", 1010, 8, 2).kernel(5020, 1000, 2);
  const Trace trace = import();
  EXPECT_EQ(std::get<Copy>(trace.programs[0].ops[0].what).host_bytes_per_second, 0u);
  EXPECT_TRUE(std::holds_alternative<Launch>(trace.programs[0].ops[1].what));
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
