#include <gmock/gmock.h>

#include "hw/backend/cuda_backend.h"
#include "hw/transform/padding.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "tests/support/backend_notices.h"
#include "tests/support/fake_driver.h"
#include "tests/support/nvrtc.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::HasSubstr;

class Latencies final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override {
    if (r.finished == kNever) return;
    (r.client.value == 0 ? real_time : best_effort).push_back(to_ns(r.finished - r.arrival) / 1000);
  }
  std::vector<double> real_time, best_effort;
};

/// A real-time client with one launch every 2 ms, and a best-effort one with eight of spin10 (42,240 blocks
/// of 10 us, 1,056 at a time), over and over.
struct PaddingRig {
  PaddingRig(const std::string& real_time, const Requirements& needed) {
    trace.name = "rig", trace.gpu = "h200";
    for (const auto& [name, solo_us] :
         {std::pair(real_time, 100.0), std::pair(std::string("spin10"), 400.0)}) {
      Kernel k;
      k.name = name, k.grid = find_kernel(name)->grid, k.block = find_kernel(name)->block;
      k.registers_per_thread = 16, k.solo_time = from_ns(solo_us * 1000);
      trace.kernels.push_back(k);
    }
    for (std::uint32_t c = 0; c < 2; ++c) {
      Program program{"p" + std::to_string(c), Issue::eager, {{"main"}}, {}, {}};
      for (std::uint32_t i = 0; i < (c == 0 ? 1u : 8u); ++i)
        program.ops.push_back(Op{corun::Launch{KernelId{c}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
      trace.programs.push_back(program);
      Client client;
      client.name = client.process = "c" + std::to_string(c), client.program = ProgramId{c};
      client.streams.resize(1);
      client.service_class = c == 0 ? ServiceClass::real_time : ServiceClass::best_effort;
      if (c == 0) client.arrivals = Periodic{from_ns(2e6), from_ns(1e6)};
      trace.clients.push_back(client);
    }
    trace.run.duration = from_ns(15e6);
    timeline.attach(latencies);
    work = std::make_unique<Workbench>(driver, compiler);
    backend = std::make_unique<CudaBackend>(trace, read_gpu("h200"), needed, timeline, *work, CudaOptions{});
    backend->start();
  }
  LaunchView view(std::uint32_t client, std::uint32_t n, std::uint64_t done = 0) const {
    LaunchView l;
    l.id = {n, n}, l.client = ClientId{client}, l.kernel_id = KernelId{client}, l.op = OpId{0};
    l.kernel = &trace.kernels[client], l.operation = &trace.programs[client].ops[0];
    l.blocks_done = done;
    return l;
  }
  Outcome pad(std::uint64_t blocks, std::uint64_t done = 0) {
    return backend->pad(decide::LaunchPadded{{0, 0}, 0, 64, {1, 1}, blocks}, view(0, 0), view(1, 1, done),
                        {});
  }

  Trace trace;
  Timeline timeline;
  Latencies latencies;
  FakeDriver driver;
  FakeCompiler compiler;
  std::unique_ptr<Workbench> work;
  std::unique_ptr<CudaBackend> backend;
};

const Requirements kPadding{
    {Capability::order, Capability::preempt_at_block, Capability::padding}, Contexts::one, false};
constexpr std::uint64_t kSpinBlocks = 132 * 8 * 40;

TEST(PaddedLaunch, ThePaddingIsToldOfWithWhatIsDoneOfIt) {
  PaddingRig rig("spin100_few", kPadding);
  // 68 SMs of eight workers for 100 us of blocks of 10 us.
  ASSERT_TRUE(std::holds_alternative<Applied>(rig.pad(3000)));
  const std::vector<Notice> told = told_within(*rig.backend, from_ns(130e3));
  EXPECT_EQ(only<KernelFinished>(told).size(), 1u);
  auto off = only<Preempted>(told);
  ASSERT_EQ(off.size(), 1u);
  EXPECT_EQ(off[0].blocks_done, 3000u);
  // Of more blocks than that, those that have begun when the first kernel is done are the last.
  ASSERT_TRUE(std::holds_alternative<Applied>(rig.backend->pad(
      decide::LaunchPadded{{2, 2}, 0, 64, {3, 3}, 30000}, rig.view(0, 2), rig.view(1, 3, 3000), {})));
  off = only<Preempted>(told_within(*rig.backend, from_ns(130e3)));
  ASSERT_EQ(off.size(), 1u);
  EXPECT_GE(off[0].blocks_done, 3000u + 9 * 68 * 8);
  EXPECT_LE(off[0].blocks_done, 3000u + 12 * 68 * 8);
  // It goes on by itself, and nothing is lost.
  ASSERT_TRUE(std::holds_alternative<Applied>(
      rig.backend->apply(decide::Launch{{4, 4}, 0, {}, 0}, rig.view(1, 4, off[0].blocks_done), {})));
  EXPECT_EQ(only<KernelFinished>(told_within(*rig.backend, from_ns(500e3))).size(), 1u);
  rig.backend->close();
  EXPECT_EQ(rig.backend->blocks_run(), kSpinBlocks + 2 * 64);
  EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
  EXPECT_EQ(rig.backend->kernels_verified(), 2u);
}

TEST(PaddedLaunch, APaddingWithoutBlocksLeftHasEnded) {
  PaddingRig rig("spin100_few", kPadding);
  ASSERT_TRUE(std::holds_alternative<Applied>(rig.pad(5000, kSpinBlocks - 1000)));
  const std::vector<Notice> told = told_within(*rig.backend, from_ns(130e3));
  EXPECT_EQ(only<KernelFinished>(told).size(), 2u);
  EXPECT_THAT(only<Preempted>(told), testing::IsEmpty());
}

TEST(PaddedLaunch, WhatCannotBePaddedIsRefused) {
  PaddingRig rig("spin100_few", kPadding);
  EXPECT_TRUE(std::holds_alternative<Refused>(
      rig.backend->pad(decide::LaunchPadded{{1, 1}, 0, 64, {0, 0}, 10}, rig.view(1, 1), rig.view(0, 0), {})));
  for (const std::uint32_t sms : {0u, 132u})
    EXPECT_TRUE(std::holds_alternative<Refused>(rig.backend->pad(
        decide::LaunchPadded{{0, 0}, 0, sms, {1, 1}, 10}, rig.view(0, 0), rig.view(1, 1), {})));
  // A kernel of 1,024 threads leaves room for two of the eight that the first has alone.
  PaddingRig wide("spin10", kPadding);
  EXPECT_TRUE(std::holds_alternative<Applied>(wide.pad(10)));
}

TEST(ReefN, ARealTimeRequestWaitsForRunningBlocksOnly) {
  for (const char* spec : {"reef-n", "reef-n:depth=0", "wait", "reef-n:padding=on"}) {
    const std::unique_ptr<Policy> policy = make_policy(spec);
    PaddingRig rig("spin100_few", policy->requirements());
    Session session(rig.trace, *policy, *rig.backend, rig.timeline, {});
    const SessionOutcome outcome = session.run();
    rig.backend->close();
    EXPECT_EQ(outcome.stuck, "") << spec;
    EXPECT_THAT(rig.backend->verify(), testing::IsEmpty()) << spec;
    ASSERT_EQ(rig.latencies.real_time.size(), 7u) << spec;
    for (double us : rig.latencies.real_time) EXPECT_LE(us, 100 + 35) << spec;
    EXPECT_GE(rig.latencies.best_effort.size(), 3u) << spec;
  }
}

TEST(ReefN, PaddingGivesBestEffortTheSmsThatRealTimeLeaves) {
  std::vector<double> best_effort;
  for (const char* spec : {"reef-n:padding=off", "reef-n:padding=on"}) {
    const std::unique_ptr<Policy> policy = make_policy(spec);
    PaddingRig rig("spin100_few", policy->requirements());
    rig.trace.clients[0].arrivals = Periodic{from_ns(2e5), Time{}};
    Session session(rig.trace, *policy, *rig.backend, rig.timeline, {});
    session.run();
    rig.backend->close();
    EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
    best_effort.push_back(static_cast<double>(rig.backend->blocks_run()));
  }
  EXPECT_GT(best_effort[1], 1.2 * best_effort[0]);
}

TEST(Sequential, ARealTimeRequestIsTheNextOne) {
  const std::unique_ptr<Policy> policy = make_policy("sequential");
  PaddingRig rig("spin100_few", policy->requirements());
  Session session(rig.trace, *policy, *rig.backend, rig.timeline, {});
  session.run();
  rig.backend->close();
  EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
  ASSERT_FALSE(rig.latencies.real_time.empty());
  for (double us : rig.latencies.real_time) EXPECT_LE(us, 8 * 420 + 120);
}

TEST(PaddedText, EachKernelHasItsOwnNamesThreadsAndMacros) {
  const std::string source =
      "#include <x.h>\n#define N 4\nstatic __device__ int f() { return blockDim.x + threadIdx.x; }\n"
      "__global__ void other(int* a) { a[blockIdx.x] = 1; }\n"
      "extern \"C\" __global__ void k(int* a, float b) { a[blockIdx.x * N + threadIdx.y] = f(); }\n";
  const std::string all = make_padded({source, "k.cu", "k", {8, 4, 1}}, {source, "k.cu", "k", {32, 1, 1}});
  const std::string text = all.substr(all.find("namespace corun_first"));
  EXPECT_LT(all.find("#include <x.h>"), all.find("namespace corun_first"));
  EXPECT_THAT(text, HasSubstr("make_uint3(t % 8u, t / 8u, 0)"));
  EXPECT_THAT(text, HasSubstr("return corun_block_size().x + corun_thread_of().x; }"));
  EXPECT_THAT(text, HasSubstr("a[corun_block.x * N + corun_thread.y] = f(); }"));
  EXPECT_THAT(text, HasSubstr("struct CorunValues {\n  int* a;\n"));
  EXPECT_THAT(text, HasSubstr("k__body(corun_values.a, corun_values.b, at, grid"));
  EXPECT_THAT(text, HasSubstr("if (threadIdx.x >= 32u) return;"));
  EXPECT_THAT(text, testing::Not(HasSubstr("other")));
  EXPECT_LT(text.find("#undef N"), text.find("namespace corun_second"));
}

TEST(PaddedText, ArrayParametersAreRefused) {
  const std::string source = "__global__ void k(int a[]) {}";
  EXPECT_THROW(make_padded({source, "k.cu", "k", {}}, {source, "k.cu", "k", {}}), InputError);
}

TEST(PaddedText, KernelsWithEveryTrapCompileAsOne) {
  const auto [compiler, why_not] = nvrtc_if_there();
  if (!compiler) GTEST_SKIP() << why_not;
  for (const auto& [first, second] :
       {std::pair("traps", "hgemm"), std::pair("conv3x3", "traps"), std::pair("softmax", "layernorm"),
        std::pair("spin10", "spin10_full")}) {
    const LibraryKernel &a = *find_kernel(first), &b = *find_kernel(second);
    EXPECT_FALSE(
        compiler
            ->compile(
                make_padded({a.code(), a.file(), a.entry, a.block}, {b.code(), b.file(), b.entry, b.block}),
                "padded.cu",
                {"-DCORUN_THREADS=" + std::to_string(std::max(a.threads(), b.threads())),
                 "-DCORUN_RESIDENT=1",
                 std::string("-DCORUN_FIRST_ONCE=") + (std::string(first) == "traps" ? "0" : "1")})
            .empty());
  }
}

}  // namespace
}  // namespace corun::hw
