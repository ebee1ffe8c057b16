// Do the parts of a latency add up to it in every run?
#include <gtest/gtest.h>

#include "policies/api/registry.h"
#include "policies/session/run.h"
#include "sim/run/run.h"
#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

TEST(LatencyParts, AddUpToTheLatencyUnderEveryPolicyOnRandomTraces) {
  std::size_t ran = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Scenario s = random_scenario(seed, Requests::repeated);
    const std::vector<PolicyInfo>& all = policies();
    const std::string policy = all[seed % all.size()].name;
    for (const std::string& name : {policy, std::string("fcfs"), std::string("timeslice")}) {
      RunResult result;
      try {
        result = run(s.trace, s.gpu, {{.policy = name}, {true, true}, 1});
      } catch (const InputError&) {
        continue;  // the policy cannot run this trace
      }
      ++ran;
      for (const ClientResult& c : result.clients)
        for (const auto& [mean, p] : {std::pair{c.mean_ms, c.parts}, std::pair{c.alone_mean_ms, c.alone_parts}}) {
          if (std::isnan(mean)) continue;
          EXPECT_NEAR(p.queue + p.host + p.held + p.launching + p.waiting + p.off_turn + p.copying + p.preempted +
                          p.running,
                      mean, 1e-9 * mean)
              << name << ", seed " << seed << ", " << c.name;
          for (const double part : {p.queue, p.host, p.held, p.launching, p.waiting, p.off_turn, p.copying,
                                    p.preempted, p.running})
            EXPECT_GE(part, 0) << name << ", seed " << seed << ", " << c.name;
        }
    }
  }
  EXPECT_GT(ran, 60u);
}

}  // namespace
}  // namespace corun::sim
