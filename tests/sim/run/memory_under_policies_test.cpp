// Device memory under every policy: is it ever oversubscribed, and does each client end or say why not?
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "policies/api/registry.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"

namespace corun::sim {
namespace {

/// Programs get allocations, frees and uses; the GPU is small enough that some do not fit.
Scenario with_memory(std::uint64_t seed, Requests requests) {
  Scenario s = random_scenario(seed, requests);
  Dice dice(seed + 77);
  s.gpu.memory_bytes = dice.any(300, 3000);
  for (Program& p : s.trace.programs) {
    std::vector<Op> ops;
    std::vector<std::uint32_t> held, place(p.ops.size());
    for (std::size_t i = 0; i < p.ops.size(); ++i) {
      if (dice.one_in(2)) {
        const auto buffer = static_cast<std::uint32_t>(p.buffers.size());
        p.buffers.push_back("b" + std::to_string(buffer));
        held.push_back(buffer);
        ops.push_back(alloc(buffer, dice.any(1, 900)));
      }
      if (!held.empty() && dice.one_in(4)) {
        ops.push_back(free_of(held.back()));
        held.pop_back();
      }
      Op op = p.ops[i];
      for (OpId& other : op.after) other.value = place[other.value];
      if (dice.one_in(2) && !is_host_call(op))
        op.uses =
            dice.one_in(3) || held.empty() ? std::vector<std::uint32_t>{} : std::vector{dice.one_of(held)};
      place[i] = static_cast<std::uint32_t>(ops.size());
      ops.push_back(op);
    }
    p.ops = ops;
  }
  for (Client& c : s.trace.clients)
    if (dice.one_in(3)) c.memory_bytes = dice.any(1, 600);
  return s;
}

class MemoryUnder : public testing::TestWithParam<std::string> {};

TEST_P(MemoryUnder, IsNeverOversubscribedAndEveryClientEndsOrSaysWhyNot) {
  std::size_t failed = 0, deadlocks = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto [gpu, trace] = with_memory(seed, Requests::one);
    const Ran ran = run_trace(trace, gpu, GetParam());  // audited: throws where the books are wrong
    ASSERT_EQ(ran.outcome.stuck, "");
    ASSERT_LE(ran.outcome.memory_peak, gpu.memory_bytes);
    deadlocks += !ran.outcome.deadlock.empty();
    for (const RequestRecord& r : ran.requests) {
      const std::string& why = ran.outcome.failed[r.client.value];
      ASSERT_EQ(r.finished == kNever, !why.empty()) << trace.clients[r.client.value].name << ": " << why;
      failed += !why.empty();
    }
  }
  if (GetParam() == "flexgpu") {
    EXPECT_EQ(deadlocks, 0u);
  } else {
    EXPECT_GT(failed, 0u) << "the workloads are too small to mean anything";
  }
  EXPECT_EQ(deadlocks > 0, GetParam().starts_with("memory-wait"));
}

TEST_P(MemoryUnder, IsNeverOversubscribedWhileRequestsKeepComing) {
  for (std::uint64_t seed = 1001; seed <= 1020; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto [gpu, trace] = with_memory(seed, Requests::repeated);
    const Ran first = run_trace(trace, gpu, GetParam()), second = run_trace(trace, gpu, GetParam());
    ASSERT_EQ(first.outcome.stuck, "");
    ASSERT_LE(first.outcome.memory_peak, gpu.memory_bytes);
    ASSERT_EQ(lines(first.kernels), lines(second.kernels));
  }
}

std::vector<std::string> every_policy() {
  std::vector<std::string> names{"memory-wait:order=fifo"};
  for (const PolicyInfo& p : policies()) names.push_back(p.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registered, MemoryUnder, testing::ValuesIn(every_policy()), [](const auto& test) {
  std::string name = test.param;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

}  // namespace
}  // namespace corun::sim
