// Does a policy that is shown whole graphs get the run of one that is shown their kernels, and is a policy held to its requirements?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "policies/api/registry.h"
#include "sim/backend/sim_backend.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// A registered policy, shown kernels or whole graphs as chosen, with counts of both.
class KindChosen final : public Policy {
 public:
  KindChosen(const std::string& of, bool kernels) : of_(make_policy(of)), kernels_(kernels) {}
  std::string_view name() const override { return of_->name(); }
  Requirements requirements() const override {
    Requirements needed = of_->requirements();
    needed.kernels = kernels_;
    return needed;
  }
  void start(const Topology& topology, std::span<const ClientView> clients) override { of_->start(topology, clients); }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const Notice& notice : now.notices)
      if (const auto* ready = std::get_if<LaunchReady>(&notice)) {
        const LaunchView& l = now.launch(ready->launch);
        ++shown;
        nodes += l.nodes;
      }
    of_->decide(now, decisions);
  }
  std::uint32_t shown = 0, nodes = 0;

 private:
  std::unique_ptr<Policy> of_;
  bool kernels_;
};

Ran run_with(const Trace& trace, const Gpu& gpu, Policy& policy) {
  Ran ran;
  Timeline timeline;
  timeline.attach(ran);
  SimBackend backend(trace, gpu, policy.requirements(), timeline, {true, true});
  Session session(trace, policy, backend, timeline, {});
  session.audit(true);
  ran.outcome = session.run();
  backend.close();
  timeline.flush();
  return ran;
}

/// A slot is given again when all of a graph has ended, or each of its kernels.
std::vector<std::string> without_slots(std::vector<KernelRecord> kernels) {
  for (KernelRecord& k : kernels) k.launch.slot = 0;
  return lines(std::move(kernels));
}

bool copies(const Trace& trace) {
  const auto is_copy = [](const Op& op) { return std::holds_alternative<Copy>(op.what); };
  return std::ranges::any_of(trace.programs, [&](const Program& p) { return std::ranges::any_of(p.ops, is_copy); });
}

/// Traces with copies are left out: a session hands a copy over when its turn comes, and a whole graph's copies with the graph.
TEST(WholeGraphs, RunAsKernelByKernel) {
  std::uint32_t graphs = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Scenario s = random_scenario(seed, seed % 2 == 0 ? Requests::one : Requests::repeated);
    s.gpu.channel_depth = 1000;
    if (copies(s.trace)) continue;
    for (const std::string policy : {"fcfs", "priority"}) {
      KindChosen whole(policy, false), apart(policy, true);
      const Ran a = run_with(s.trace, s.gpu, whole), b = run_with(s.trace, s.gpu, apart);
      ASSERT_EQ(without_slots(a.kernels), without_slots(b.kernels)) << "seed " << seed << ", " << policy;
      ASSERT_EQ(lines(a.requests), lines(b.requests)) << "seed " << seed << ", " << policy;
      EXPECT_EQ(apart.nodes, 0u);
      graphs += whole.nodes;
    }
  }
  EXPECT_GE(graphs, 500u);
}

TEST(WholeGraphs, AreOneLaunchToAPolicy) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 128, us(5)));
  b.client("a", b.program({launch(k), launch(k), launch(k)}, Issue::graph));
  KindChosen whole("fcfs", false), apart("fcfs", true);
  EXPECT_EQ(run_with(b.trace, small_gpu(1), whole).kernels.size(), 3u);
  EXPECT_EQ(whole.shown, 1u);
  EXPECT_EQ(whole.nodes, 3u);
  EXPECT_EQ(run_with(b.trace, small_gpu(1), apart).kernels.size(), 3u);
  EXPECT_EQ(apart.shown, 3u);
  EXPECT_EQ(apart.nodes, 0u);
}

/// Makes one decision for each pending launch, and launches it.
class DecidesOnce final : public Policy {
 public:
  using Make = std::function<Decision(LaunchId)>;
  DecidesOnce(CapabilitySet capabilities, Make make) : capabilities_(capabilities), make_(std::move(make)) {}
  std::string_view name() const override { return "decides"; }
  Requirements requirements() const override { return {.capabilities = capabilities_, .kernels = true}; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const LaunchId id : now.pending) {
      decisions.push_back(make_(id));
      if (!std::holds_alternative<decide::Launch>(decisions.back())) decisions.push_back(decide::Launch{id});
    }
  }

 private:
  CapabilitySet capabilities_;
  Make make_;
};

TEST(Session, HoldsAPolicyToTheCapabilitiesThatItRequires) {
  using Make = DecidesOnce::Make;
  const std::vector<std::pair<Capability, Make>> uses{
      {Capability::priority, [](LaunchId id) { return decide::Launch{id, -1}; }},
      {Capability::tpc_mask, [](LaunchId id) { return decide::Launch{id, 0, TpcMask::range(0, 1)}; }},
      {Capability::cta_quota, [](LaunchId id) { return decide::Launch{id, 0, {}, 1}; }},
      {Capability::sm_quota, [](LaunchId id) { return decide::Launch{id, 0, {}, 0, {1}}; }},
      {Capability::cta_quota, [](LaunchId id) { return decide::Resize{id, 1}; }},
      {Capability::sm_quota, [](LaunchId id) { return decide::Resize{id, 0, {1}}; }},
      {Capability::progress, [](LaunchId id) { return decide::Query{id}; }},
      {Capability::preempt_at_block, [](LaunchId id) { return decide::Preempt{id}; }},
      {Capability::preempt_reset, [](LaunchId id) { return decide::Preempt{id, decide::Stop::reset}; }},
      {Capability::padding, [](LaunchId id) { return decide::LaunchPadded{id, 0, 1, id}; }},
      {Capability::memory_swap, [](LaunchId) { return decide::Checkpoint{BufferId{0}}; }},
      {Capability::memory_swap, [](LaunchId) { return decide::Restore{BufferId{0}}; }}};
  TraceBuilder b;
  b.one_kernel("a", kernel(4, 128, us(5)));
  for (const auto& [capability, make] : uses) {
    DecidesOnce without({Capability::order}, make), with({Capability::order, capability}, make);
    EXPECT_NO_THROW(run_with(b.trace, small_gpu(2), with)) << to_string(capability);
    try {
      run_with(b.trace, small_gpu(2), without);
      ADD_FAILURE() << to_string(capability);
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(to_string(capability)));
    }
  }
}

}  // namespace
}  // namespace corun::sim
