// A run on a GPU from trace to result, on the fake driver.
#include "hw/run/run.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "hw/record/recording.h"
#include "tests/support/fake_driver.h"
#include "traces/json/temporary_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// One client in a closed loop with requests of two launches, and a real-time one.
Trace two_clients() {
  Trace trace;
  trace.name = "two", trace.gpu = "h200";
  Kernel kernel;
  kernel.name = "spin10", kernel.grid = find_kernel("spin10")->grid;
  kernel.block = find_kernel("spin10")->block, kernel.solo_time = from_ns(4e5);
  trace.kernels = {kernel};
  for (std::uint32_t i = 0; i < 2; ++i) {
    Program program{i == 0 ? "pair" : "one", Issue::eager, {{"main"}}, {}, {}};
    for (std::uint32_t n = 0; n < 2 - i; ++n)
      program.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
    trace.programs.push_back(std::move(program));
    Client client;
    client.name = client.process = i == 0 ? "batch" : "urgent";
    client.program = ProgramId{i}, client.streams.resize(1);
    if (i == 1) {  // leaves the GPU to the other most of the time
      client.service_class = ServiceClass::real_time;
      client.arrivals = Periodic{from_ns(2e6)};
    }
    trace.clients.push_back(std::move(client));
  }
  trace.run.duration = from_ns(8e6);
  return trace;
}

struct Machine {
  Machine() {
    auto owned = std::make_unique<FakeDriver>();
    driver = owned.get();
    runner = std::make_unique<Runner>(std::move(owned), std::make_unique<FakeCompiler>());
  }
  RunResult run(const Trace& trace, const RunOptions& options) {
    return runner->run(trace, read_gpu("h200"), options);
  }
  FakeDriver* driver;
  std::unique_ptr<Runner> runner;
};

TEST(RunOnGpu, HasTheNumbersOfItsClientsTogetherAndAlone) {
  for (const char* policy : {"fcfs", "priority", "wait"}) {
    Machine machine;
    Trace trace = two_clients();
    trace.clients[1].arrivals = Periodic{from_ns(2e6), {}};  // so that those who wait for it get on
    const RunResult result = machine.run(trace, {{policy}, {}, {}, true});
    EXPECT_EQ(result.policy, policy);
    EXPECT_EQ(result.gpu, "h200");
    EXPECT_GT(result.stp, 0.9) << policy;
    for (const ClientResult& client : result.clients) {
      EXPECT_GT(client.finished, 0u) << policy << " " << client.name;
      EXPECT_GE(client.slowdown, 0.99) << policy << " " << client.name;
    }
    EXPECT_THAT(result.notes.front().text, StartsWith("measured on "));
    EXPECT_THAT(texts_of(result),
                Contains(HasSubstr("results of clients' kernels are those of the plain kernels")));
    EXPECT_THAT(result.alone, HasSubstr("under fcfs, with the same arrivals and seed"));
    EXPECT_TRUE(std::isnan(result.sm_busy));
    EXPECT_GT(result.blocks, 0u);
    EXPECT_EQ(machine.runner->requests().empty(), false);
  }
}

TEST(RunOnGpu, EachClientIsAloneOncePerTraceAndLength) {
  Machine machine;
  const auto time_of = [&](const char* policy) {
    const Time before = machine.driver->now();
    machine.run(two_clients(), {{policy}});
    return machine.driver->now() - before;
  };
  const Time first = time_of("fcfs"), second = time_of("priority");
  EXPECT_LT(2 * second, first);
  machine.runner->forget();
  EXPECT_LT(2 * second, time_of("priority"));
}

TEST(RunOnGpu, WithoutRunsAloneThereIsNoSlowdown) {
  Machine machine;
  RunOptions options{{"fcfs"}};
  options.alone = false;
  const RunResult result = machine.run(two_clients(), options);
  EXPECT_TRUE(std::isnan(result.clients[0].slowdown));
  EXPECT_GT(result.clients[0].finished, 0u);
}

TEST(RunOnGpu, ItsRecordingIsOfTheRunThatCountsAndIsDecidedAgain) {
  const TemporaryFolder own("test");
  const std::string file = (own.path() / "run_on_gpu.jsonl").string();
  Machine machine;
  machine.run(two_clients(), {{"wait"}, {}, file});
  const Replayed again = replay(file, two_clients(), read_gpu("h200"));
  EXPECT_EQ(again.difference, "");
  EXPECT_GT(again.decisions, 10u);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace corun::hw
