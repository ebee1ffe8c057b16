// Static partitions of MPS: which SMs a client has, who cannot start, and what a result says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "policies/api/registry.h"
#include "sim/run/run.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Trace clients(std::uint32_t n) {
  TraceBuilder b;
  for (std::uint32_t i = 0; i < n; ++i) {
    b.one_kernel("client" + std::to_string(i), whole_sm_kernel(96, us(3)));
    b.trace.clients.back().origin = {"t.json", "/clients/" + std::to_string(i)};
  }
  return b.trace;
}

/// 20 SMs: two chunks of 8 and 4 SMs that no chunk has, from compute capability 9.0.
Gpu gpu_of(std::uint32_t major, std::uint32_t sms = 20) {
  Gpu gpu = small_gpu(sms);
  gpu.sms_per_tpc = 2;
  gpu.compute_capability_major = major;
  return gpu;
}

/// By client, the first SM and the one behind the last on which its blocks ran, all those between used.
std::vector<std::pair<std::uint32_t, std::uint32_t>> sms_granted(const Trace& trace, const Gpu& gpu,
                                                                 const std::string& policy) {
  std::vector<std::set<std::uint32_t>> used(trace.clients.size());
  for (const BlockRecord& b : run_trace(trace, gpu, policy, Record::blocks).blocks)
    used[b.client.value].insert(b.sm.value);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
  for (const auto& sms : used) {
    ranges.emplace_back(*sms.begin(), *sms.rbegin() + 1);
    EXPECT_EQ(sms.size(), ranges.back().second - ranges.back().first);
  }
  return ranges;
}

using Sms = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

std::string problem_of(const Trace& trace, const Gpu& gpu, const std::string& policy) {
  try {
    run_trace(trace, gpu, policy);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MpsStatic, AClientRunsOnItsChunksAndNowhereElse) {
  EXPECT_EQ(sms_granted(clients(2), gpu_of(9), "mps-static:chunks=1/1"), (Sms{{0, 8}, {8, 16}}));
  EXPECT_EQ(sms_granted(clients(2), gpu_of(9, 132), "mps-static:chunks=5/3"), (Sms{{0, 40}, {40, 64}}));
  EXPECT_EQ(sms_granted(clients(1), gpu_of(9), "mps-static:chunks=2"), (Sms{{0, 16}}));
}

TEST(MpsStatic, AChunkHasEightSmsFromHopperOnAndATpcBefore) {
  EXPECT_EQ(sms_granted(clients(1), gpu_of(9), "mps-static:chunks=1"), (Sms{{0, 8}}));
  EXPECT_EQ(sms_granted(clients(1), gpu_of(8), "mps-static:chunks=1"), (Sms{{0, 2}}));
  EXPECT_EQ(sms_granted(clients(1), gpu_of(8), "mps-static:chunks=1,chunk_sms=4"), (Sms{{0, 4}}));
  EXPECT_EQ(sms_granted(clients(1), gpu_of(9, 6), "mps-static"), (Sms{{0, 6}}));
}

TEST(MpsStatic, WithoutANumberOfChunksTheSharesAreEqual) {
  EXPECT_EQ(sms_granted(clients(2), gpu_of(9, 132), "mps-static"), (Sms{{0, 64}, {64, 128}}));
  EXPECT_EQ(sms_granted(clients(3), gpu_of(9, 132), "mps-static"), (Sms{{0, 40}, {40, 80}, {80, 128}}));
  EXPECT_EQ(sms_granted(clients(3), gpu_of(9), "mps-static"), (Sms{{0, 8}, {8, 16}, {0, 8}}));
}

TEST(MpsStatic, IdleSmsOfAPartitionHelpNoOther) {
  Trace one = clients(2);
  one.clients[1].arrivals = Once{ms(1)};
  const Ran beside = run_trace(clients(2), gpu_of(9), "mps-static:chunks=1/1");
  const Ran alone = run_trace(one, gpu_of(9), "mps-static:chunks=1/1");
  EXPECT_GE(alone.of(ClientId{0}).front().finished, us(3 * 96 / 8));
  EXPECT_NEAR(to_ns(beside.of(ClientId{0}).front().finished), to_ns(alone.of(ClientId{0}).front().finished),
              500);
}

TEST(MpsStatic, AClientWithoutAPartitionCannotStart) {
  for (const char* chunks : {"1", "1/0"})
    EXPECT_THAT(problem_of(clients(2), gpu_of(9), std::string("mps-static:chunks=") + chunks),
                AllOf(HasSubstr("t.json"), HasSubstr("/clients/1"), HasSubstr("client1 has no partition"),
                      HasSubstr("at least one chunk")));
}

TEST(MpsStatic, PartitionsHoldAsManyChunksAsThereAreAndNoMore) {
  EXPECT_EQ(problem_of(clients(2), gpu_of(9, 132), "mps-static:chunks=10/6"), "");
  EXPECT_THAT(problem_of(clients(2), gpu_of(9, 132), "mps-static:chunks=10/7"),
              HasSubstr("adds up to 17, and small has 16 of 8 SMs"));
  EXPECT_THAT(problem_of(clients(1), gpu_of(9), "mps-static:chunks=1/1"),
              HasSubstr("2 partitions for 1 clients"));
  for (const char* wrong : {"1/", "-1", "1.5", "385"})
    EXPECT_THAT(problem_of(clients(1), gpu_of(9), std::string("mps-static:chunks=") + wrong),
                HasSubstr("is not a list of numbers of chunks"))
        << wrong;
}

TEST(MpsStatic, AChunkIsWholeTpcsOfTheGpu) {
  EXPECT_EQ(problem_of(clients(1), gpu_of(8), "mps-static:chunk_sms=20"), "");
  EXPECT_THAT(problem_of(clients(1), gpu_of(8), "mps-static:chunk_sms=22"), HasSubstr("cuts no chunk"));
  EXPECT_THAT(problem_of(clients(1), gpu_of(8), "mps-static:chunk_sms=3"), HasSubstr("cuts no chunk"));
  EXPECT_THAT(problem_of(clients(1), gpu_of(8), "mps-static:chunk_sms=-2"), HasSubstr("chunk_sms=-2"));
}

TEST(MpsStatic, GpusBeforeAmpereAndWithoutMpsHaveNone) {
  EXPECT_EQ(problem_of(clients(1), gpu_of(8), "mps-static"), "");
  EXPECT_THAT(problem_of(clients(1), gpu_of(7), "mps-static"), HasSubstr("no static partitions"));
  Gpu gpu = gpu_of(9);
  gpu.mps_client_channels.reset();
  EXPECT_THAT(problem_of(clients(1), gpu, "mps-static"), HasSubstr("no MPS"));
}

TEST(UnverifiedPolicies, SayInTheResultThatNoGpuWasComparedWithThem) {
  const Trace trace = clients(2);
  const auto notes = [&](const std::string& policy) {
    return texts_of(run(trace, read_gpu("h200"), {{.policy = policy}}));
  };
  EXPECT_THAT(notes("mps-static"), testing::Contains("mps-static is unverified: no driver here has it"));
  EXPECT_THAT(notes("mig:profile=3g.71gb/4g.71gb:inside=static-partitioning"),
              testing::Contains("mps-static is unverified: no driver here has it"));
  EXPECT_THAT(notes("hami"), testing::Contains(HasSubstr("token-bucket is unverified")));
  EXPECT_THAT(notes("mps"), testing::Each(testing::Not(HasSubstr("unverified"))));
}

}  // namespace
}  // namespace corun::sim
