// Python policies under the tests that every C++ policy passes: an interpreter in the test, the policies of
// python/examples registered by name, and what tests/policies has for every policy linked in.  And what Python sees of a
// Snapshot and says in Decisions, field by field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pybind11/embed.h>

#include "policies/api/registry.h"
#include "python/native/policy.h"
#include "tests/support/build.h"

extern "C" PyObject* PyInit__native();

namespace corun::python {
namespace {

using sim::us;

std::unique_ptr<Policy> made(const char* module, const char* type) {
  return std::make_unique<PythonPolicy>(py::module_::import(module).attr(type)());
}

const Registered fcfs{{"python-fcfs", "python/examples/fcfs.py", "", {}},
                      [](const Parameters&) -> std::unique_ptr<Policy> { return made("fcfs", "Fcfs"); }};
const Registered shortest_first{
    {"python-shortest-first", "python/examples/shortest_first.py", "", {}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return made("shortest_first", "ShortestFirst"); }};
const Registered equal_shares{
    {"python-equal-shares", "python/examples/equal_shares.py", "", {}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return made("equal_shares", "EqualShares"); }};

/// Two clients, two launches (the second is running), a buffer, a profile, and every kind of notice.
struct Everything : sim::TraceBuilder {
  std::vector<ClientView> clients;
  std::vector<LaunchView> launches;
  std::vector<Notice> notices;
  std::vector<BufferView> buffers;
  std::vector<Profile> profiles{{{4, us(9), 4, 1}}, {}};
  std::vector<LaunchId> pending{{0, 7}}, running{{1, 8}}, allocating{{0, 7}};

  Everything() {
    one_kernel("first", sim::kernel(40, 256, us(3)));
    Client& second = one_kernel("second", sim::kernel(30, 64, us(5)));
    second.service_class = ServiceClass::real_time;
    second.priority = -2;
    second.deadline = us(70);
    second.tpc_mask = TpcMask::range(1, 3);
    second.memory_bytes = 123;
    for (std::uint32_t i = 0; i < 2; ++i) clients.push_back({ClientId{i}, &trace.clients[i], i + 3, i == 1});
    for (std::uint32_t i = 0; i < 2; ++i) {
      LaunchView l;
      l.id = {i, 7 + i};
      l.client = ClientId{i};
      l.kernel_id = KernelId{i};
      l.kernel = &trace.kernels[i];
      l.operation = &trace.programs[i].ops[0];
      l.request = 5 + i;
      l.solo_time = us(11);
      l.state = i == 0 ? LaunchState::pending : LaunchState::draining;
      l.waits_for = 1 - i;
      l.ready_at = us(1);
      l.submitted_at = us(2);
      l.ctas = 6 * i;
      l.blocks_done = 17;
      l.reported_at = us(4);
      launches.push_back(l);
    }
    const LaunchId id{1, 8};
    notices = {RequestArrived{ClientId{1}, 6},
               LaunchReady{id},
               LastBlockStarted{id},
               KernelFinished{id},
               Preempted{id, 9},
               CopyFinished{id},
               ProgressReported{id, 4, us(3)},
               AllocationReady{id},
               BufferMoved{BufferId{2}},
               BufferWanted{BufferId{3}},
               ClientLost{ClientId{1}},
               RequestFinished{ClientId{0}, 5},
               WokeUp{}};
    buffers.push_back({BufferId{0}, ClientId{1}, 4096, BufferView::Place::host, false, 2, 0, 33, us(12)});
  }
  Snapshot snapshot() const {
    return {us(20), notices, clients, launches, pending, running, profiles, allocating, buffers, 4096};
  }
};

/// What decide(), with this body, gives for Everything.
std::vector<Decision> decided(const char* body) {
  py::dict scope;
  py::exec(
      "import corun\nclass Body(corun.Policy):\n  name = 'body'\n"
      "  requirements = corun.Requirements(set())\n  def decide(self, s):\n    d = []\n" +
          std::string(body) + "\n    return d\n",
      scope, scope);
  PythonPolicy policy(scope["Body"]());
  const Everything all;
  std::vector<Decision> decisions;
  policy.decide(all.snapshot(), decisions);
  return decisions;
}

TEST(PythonViews, ASnapshotReadsAsInCpp) {
  decided(R"(
    p, r = s.pending[0], s.running[0]
    assert s.now_ps == 20_000_000 and s.memory_used_bytes == 4096
    assert (p.id, r.id) == (corun.LaunchId(0, 7), corun.LaunchId(1, 8)) and p.id != r.id
    assert [l.id for l in s.allocating] == [p.id] and s.launch(r).id == s.launch(r.id).id == r.id
    assert (r.client, r.stream, r.op, r.kernel_id, r.request) == (1, 0, 0, 1, 6)
    assert (r.kernel.name, r.kernel.blocks, r.kernel.threads_per_block) == (s.launch(r).kernel.name, 30, 64)
    assert (p.state, r.state) == (corun.LaunchState.pending, corun.LaunchState.draining)
    assert (p.waits_for, r.waits_for, p.ctas, r.ctas, r.blocks_done) == (1, 0, 0, 6, 17)
    assert (r.solo_time_ps, r.ready_at_ps, r.submitted_at_ps, r.reported_at_ps) == (
        11_000_000, 1_000_000, 2_000_000, 4_000_000)
    assert r.tpc_mask is None and r.bytes == 0
    a, b = s.clients
    assert (a.id, a.client.name, a.requests_waiting, a.busy) == (0, "first", 3, False)
    assert (b.id, b.client.name, b.requests_waiting, b.busy) == (1, "second", 4, True)
    assert b.client.service_class is corun.ServiceClass.real_time and b.client.priority == -2
    assert b.client.deadline_ps == 70_000_000 and a.client.deadline_ps is None
    assert b.client.tpc_mask == {1, 2} and a.client.tpc_mask is None and b.client.memory_bytes == 123
    assert b.client.streams[0].priority is None
    (m,) = s.buffers
    assert (m.id, m.client, m.bytes, m.place, m.free) == (0, 1, 4096, corun.Place.host, False)
    assert (m.in_use, m.uses, m.last_used_ps) == (2, 33, 12_000_000)
    (q,) = s.profile(0)
    assert (q.ctas, q.time_ps, q.sms, q.ctas_per_sm) == (4, 9_000_000, 4, 1) and s.profile(1) == []
)");
}

TEST(PythonViews, EveryNoticeReadsAsInCpp) {
  decided(R"(
    id = corun.LaunchId(1, 8)
    arrived, ready, last, ended, preempted, copied, progress, asked, moved, wanted, lost, done, woke = s.notices
    assert isinstance(arrived, corun.RequestArrived) and (arrived.client, arrived.request) == (1, 6)
    assert isinstance(ready, corun.LaunchReady) and ready.launch == id
    assert isinstance(last, corun.LastBlockStarted) and last.launch == id
    assert isinstance(ended, corun.KernelFinished) and ended.launch == id
    assert isinstance(preempted, corun.Preempted) and (preempted.launch, preempted.blocks_done) == (id, 9)
    assert isinstance(copied, corun.CopyFinished) and copied.launch == id
    assert isinstance(progress, corun.ProgressReported) and progress.launch == id
    assert (progress.blocks_done, progress.as_of_ps) == (4, 3_000_000)
    assert isinstance(asked, corun.AllocationReady) and asked.allocation == id
    assert isinstance(moved, corun.BufferMoved) and moved.buffer == 2
    assert isinstance(wanted, corun.BufferWanted) and wanted.buffer == 3
    assert isinstance(lost, corun.ClientLost) and lost.client == 1
    assert isinstance(done, corun.RequestFinished) and (done.client, done.request) == (0, 5)
    assert isinstance(woke, corun.WokeUp)
)");
}

TEST(PythonDecisions, EveryKindArrivesWithItsFields) {
  const auto d = decided(R"(
    p, r = s.pending[0], s.running[0]
    d = [corun.Launch(p, priority=-3, tpc_mask={2, 4}, ctas=5), corun.Launch(p.id, ctas_per_sm=[1, 0, 2]),
         corun.Resize(r, 9), corun.Query(r), corun.WakeAt(s.now_ps + 1),
         corun.LaunchPadded(p, sms=3, padding=r, padding_blocks=77, priority=-1),
         corun.Preempt(r), corun.Preempt(r.id, corun.Stop.reset), corun.Allocate(p),
         corun.Checkpoint(s.buffers[0].id), corun.Restore(1)]
)");
  const LaunchId p{0, 7}, r{1, 8};
  ASSERT_EQ(d.size(), 11u);
  const auto& plain = std::get<decide::Launch>(d[0]);
  EXPECT_EQ(plain.launch, p);
  EXPECT_EQ(plain.priority, -3);
  TpcMask mask;
  mask.enable(TpcId{2}), mask.enable(TpcId{4});
  EXPECT_EQ(plain.tpc_mask, mask);
  EXPECT_EQ(plain.ctas, 5u);
  const auto& spread = std::get<decide::Launch>(d[1]);
  EXPECT_EQ(spread.tpc_mask, std::nullopt);
  EXPECT_EQ(spread.ctas, 3u);
  EXPECT_THAT(spread.ctas_per_sm, testing::ElementsAre(1, 0, 2));
  EXPECT_EQ(std::get<decide::Resize>(d[2]).launch, r);
  EXPECT_EQ(std::get<decide::Resize>(d[2]).ctas, 9u);
  EXPECT_EQ(std::get<decide::Query>(d[3]).launch, r);
  EXPECT_EQ(std::get<decide::WakeAt>(d[4]).at, us(20) + sim::ps(1));
  const auto& padded = std::get<decide::LaunchPadded>(d[5]);
  EXPECT_EQ(std::tuple(padded.launch, padded.priority, padded.sms, padded.padding, padded.padding_blocks),
            std::tuple(p, -1, 3u, r, std::uint64_t{77}));
  EXPECT_EQ(std::get<decide::Preempt>(d[6]).how, decide::Stop::at_block);
  EXPECT_EQ(std::get<decide::Preempt>(d[7]).how, decide::Stop::reset);
  EXPECT_EQ(std::get<decide::Preempt>(d[7]).launch, r);
  EXPECT_EQ(std::get<decide::Allocate>(d[8]).allocation, p);
  EXPECT_EQ(std::get<decide::Checkpoint>(d[9]).buffer, BufferId{0});
  EXPECT_EQ(std::get<decide::Restore>(d[10]).buffer, BufferId{1});
}

TEST(PythonRequirements, ArriveWithTheirFields) {
  py::dict scope;
  py::exec(R"(
import corun
class Needs(corun.Policy):
    name = "needs"
    requirements = corun.Requirements({corun.Capability.sm_quota, corun.Capability.padding},
                                      corun.Contexts.per_process, profiles=True, memory=True,
                                      thread_percentages=[30, 70.5])
    def decide(self, snapshot):
        return []
)",
           scope, scope);
  const Requirements needs = PythonPolicy(scope["Needs"]()).requirements();
  for (std::uint32_t i = 0; i < kCapabilities; ++i) {
    const auto c = static_cast<Capability>(i);
    EXPECT_EQ(needs.capabilities.has(c), c == Capability::sm_quota || c == Capability::padding);
  }
  EXPECT_EQ(needs.contexts, Contexts::per_process);
  EXPECT_TRUE(needs.profiles && needs.memory);
  EXPECT_THAT(needs.thread_percentages, testing::ElementsAre(30, 70.5));
}

}  // namespace
}  // namespace corun::python

int main(int argc, char** argv) {
  PyImport_AppendInittab("_native", &PyInit__native);
  const pybind11::scoped_interpreter interpreter;
  pybind11::module_::import("sys").attr("modules")["corun._native"] = pybind11::module_::import("_native");
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
