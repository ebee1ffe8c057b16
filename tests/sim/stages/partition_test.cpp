// Which SMs a client gets: MPS percentages, TPC masks by share, packed and distributed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string problem_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

/// TPCs on which each client's blocks ran.
std::vector<std::set<std::uint32_t>> tpcs_of(const Ran& ran, std::size_t clients, std::uint32_t sms_per_tpc) {
  std::vector<std::set<std::uint32_t>> tpcs(clients);
  for (const BlockRecord& block : ran.blocks) tpcs[block.client.value].insert(block.sm.value / sms_per_tpc);
  return tpcs;
}

/// Every client has more blocks than fit the GPU at once.
Trace wide_clients(std::uint32_t clients) {
  TraceBuilder b;
  for (std::uint32_t i = 0; i < clients; ++i)
    b.one_kernel("client" + std::to_string(i), whole_sm_kernel(100, us(3)));
  return b.trace;
}

// ---- MPS --------------------------------------------------------------------------------------------------

TEST(Mps, APercentageOfAnH200BecomesPairsOfSmsAndAtLeastEight) {
  const Gpu h200 = read_gpu("h200");
  const std::vector<std::pair<double, std::uint32_t>> table{{100, 132}, {99.9, 130}, {99, 130}, {51, 66},
                                                            {50, 66},   {49, 64},    {25, 32},  {10, 12},
                                                            {8, 10},    {7, 8},      {5, 8},    {0.1, 8}};
  for (const auto& [percentage, sms] : table) EXPECT_EQ(h200.mps_sms(percentage), sms) << percentage << " %";
}

TEST(Mps, CapsAClientAndReservesNothing) {
  TraceBuilder b;
  b.one_kernel("capped", whole_sm_kernel(8, us(3)));
  b.one_kernel("free", whole_sm_kernel(100, us(3)));
  const auto used =
      tpcs_of(run_trace(b.trace, small_gpu(10), "mps:percentages=40/100", Record::blocks), 2, 1);
  EXPECT_EQ(used[0].size(), 4u);
  EXPECT_EQ(used[1].size(), 10u) << "it uses the capped client's SMs too";
}

TEST(Mps, ClientsMeetOnlyWherePercentagesAddUpToMoreThanTheGpu) {
  const Gpu gpu = small_gpu(10);
  for (const std::uint32_t percentage : {50u, 60u}) {
    const auto used = tpcs_of(
        run_trace(wide_clients(2), gpu, "mps:percentages=" + std::to_string(percentage), Record::blocks), 2,
        1);
    std::vector<std::uint32_t> both;
    std::set_intersection(used[0].begin(), used[0].end(), used[1].begin(), used[1].end(),
                          std::back_inserter(both));
    EXPECT_EQ(used[0].size(), percentage / 10);
    EXPECT_EQ(used[1].size(), percentage / 10);
    EXPECT_EQ(both.size(), percentage == 50 ? 0u : 2u);
  }
}

TEST(Mps, AThirdClientMeetsEachOfTheOthersNoMoreThanASecondWould) {
  // 4 and 6 TPCs do not meet, two times 6 meet on 2, whoever came before: a percentage is no place.
  TraceBuilder b;
  b.one_kernel("small", whole_sm_kernel(100, us(3)));
  b.one_kernel("idle", whole_sm_kernel(1, us(1)), ms(5));
  b.one_kernel("third", whole_sm_kernel(100, us(3)), us(1));
  const auto used =
      tpcs_of(run_trace(b.trace, small_gpu(10), "mps:percentages=40/60/60", Record::blocks), 3, 1);
  std::vector<std::uint32_t> both;
  std::set_intersection(used[0].begin(), used[0].end(), used[2].begin(), used[2].end(),
                        std::back_inserter(both));
  EXPECT_EQ(used[2].size(), 6u);
  EXPECT_EQ(both.size(), 0u);
}

TEST(Mps, ThreeClientsThatHaveRoomBesideEachOtherDoNotMeet) {
  const auto used =
      tpcs_of(run_trace(wide_clients(3), small_gpu(10), "mps:percentages=40/30/30", Record::blocks), 3, 1);
  std::set<std::uint32_t> all;
  for (const auto& of_client : used) all.insert(of_client.begin(), of_client.end());
  EXPECT_EQ(all.size(), 10u);
}

TEST(Mps, ClientsWithPercentagesMeetOnTheSmsThatAreKeptBack) {
  Gpu gpu = small_gpu(10);
  gpu.mps_kept_back_sms = 2;
  const auto used = tpcs_of(run_trace(wide_clients(2), gpu, "mps:percentages=50", Record::blocks), 2, 1);
  std::vector<std::uint32_t> both;
  std::set_intersection(used[0].begin(), used[0].end(), used[1].begin(), used[1].end(),
                        std::back_inserter(both));
  EXPECT_EQ(both.size(), 2u);
}

TEST(Mps, EachClientHasTwoChannelsOfItsOwn) {
  // Three streams in two channels: the third's launch waits behind one that waits for its stream.
  for (const std::uint32_t streams : {2u, 3u}) {
    TraceBuilder b;
    const KernelId k = b.kernel(kernel(1, 256, us(50)));
    std::vector<Op> ops;
    for (std::uint32_t s = 0; s + 1 < streams; ++s) ops.insert(ops.end(), {launch(k, s), launch(k, s)});
    if (streams == 2) ops.insert(ops.end(), {launch(k, 0)});
    ops.push_back(launch(k, streams - 1));
    b.client("many streams", b.program(ops));
    b.one_kernel("other", kernel(1, 256, us(50)));
    Gpu gpu = small_gpu(4);
    gpu.host_channels = 1;
    const Ran ran = run_trace(b.trace, gpu, "mps");
    const Time last = ran.of(ClientId{0}).back().started;
    if (streams == 2)
      EXPECT_LT(last, us(1));
    else
      EXPECT_GE(last, us(50));
    EXPECT_LT(ran.only(ClientId{1}).started, us(1)) << "another client's channels hold it up";
    EXPECT_GE(run_trace(b.trace, gpu, "fcfs").only(ClientId{1}).started, us(50)) << "one channel for all";
  }
}

TEST(Mps, IsRefusedWhereTheGpuHasNone) {
  TraceBuilder b;
  b.one_kernel("a", kernel(10, 256, us(3)));
  b.one_kernel("b", kernel(10, 256, us(3)));
  const auto with = [&](const char* gpu, const char* policy) {
    return problem_of([&] { run_trace(b.trace, read_gpu(gpu), policy); });
  };
  EXPECT_THAT(with("mi50", "mps"), HasSubstr("has no MPS"));
  EXPECT_THAT(with("titan-xp", "mps:percentages=50/50"), HasSubstr("MPS without thread percentages"));
  EXPECT_EQ(with("titan-xp", "mps"), "no InputError");
}

TEST(Mps, PercentagesAreOneForAllOrOneForEachAboveZeroUpToAHundred) {
  const auto with = [](const char* percentages) {
    return problem_of(
        [&] { run_trace(wide_clients(2), small_gpu(4), std::string("mps:percentages=") + percentages); });
  };
  for (const char* good : {"100", "0.1", "50/30", "100/100"}) EXPECT_EQ(with(good), "no InputError") << good;
  for (const char* bad : {"0", "100.1", "", "50/", "/50", "a", "50;30", "-5"})
    EXPECT_THAT(with(bad), HasSubstr("is not a list of percentages")) << bad;
  EXPECT_THAT(with("50/30/20"), HasSubstr("has 3 percentages for 2 clients"));
}

// ---- tpc-mask ---------------------------------------------------------------------------------------------

/// GPC 0 has TPCs 0, 2 and 5; GPC 1 has 1, 3, 4 and 6.
Gpu two_gpcs() {
  Gpu gpu = small_gpu(14);
  gpu.sms_per_tpc = 2;
  gpu.gpc_of_tpc = {0, 1, 0, 1, 1, 0, 1};
  return gpu;
}

std::vector<std::set<std::uint32_t>> shares(const std::string& parameters, std::uint32_t clients) {
  return tpcs_of(run_trace(wide_clients(clients), two_gpcs(), "tpc-mask:" + parameters, Record::blocks),
                 clients, 2);
}

using Tpcs = std::set<std::uint32_t>;

TEST(TpcShares, PackedTakesGpcAfterGpc) {
  EXPECT_THAT(shares("split=packed,tpcs=3/4", 2), ElementsAre(Tpcs{0, 2, 5}, Tpcs{1, 3, 4, 6}));
  EXPECT_THAT(shares("split=packed,tpcs=4/2", 2), ElementsAre(Tpcs{0, 1, 2, 5}, Tpcs{3, 4}));
}

TEST(TpcShares, DistributedTakesATpcOfEachGpcInTurn) {
  EXPECT_THAT(shares("split=distributed,tpcs=2/3", 2), ElementsAre(Tpcs{0, 1}, Tpcs{2, 3, 5}));
  EXPECT_THAT(shares("split=distributed,tpcs=6/1", 2), ElementsAre(Tpcs{0, 1, 2, 3, 4, 5}, Tpcs{6}));
}

TEST(TpcShares, EvenGoesByNumber) {
  EXPECT_THAT(shares("split=even,tpcs=3/4", 2), ElementsAre(Tpcs{0, 1, 2}, Tpcs{3, 4, 5, 6}));
}

TEST(TpcShares, WithoutCountsTheyAreEqual) {
  EXPECT_THAT(shares("split=packed", 2), ElementsAre(Tpcs{0, 2, 5}, Tpcs{1, 3, 4, 6}));
  EXPECT_THAT(shares("split=distributed", 3), ElementsAre(Tpcs{0, 1}, Tpcs{2, 3}, Tpcs{4, 5, 6}));
}

TEST(TpcShares, AreRefusedWhereTheyDoNotFit) {
  const auto with = [](const char* parameters) { return problem_of([&] { shares(parameters, 2); }); };
  EXPECT_EQ(with("split=packed,tpcs=3/4"), "no InputError");
  EXPECT_THAT(with("split=packed,tpcs=4/4"), HasSubstr("adds up to 8"));
  EXPECT_THAT(with("split=packed,tpcs=4"), HasSubstr("1 numbers for 2 clients"));
  EXPECT_THAT(with("tpcs=4/3"), HasSubstr("the masks are the trace's"));
  for (const char* bad : {"split=even,tpcs=0/4", "split=even,tpcs=4/", "split=even,tpcs=a"})
    EXPECT_THAT(with(bad), HasSubstr("is not a list of numbers of TPCs")) << bad;
  Gpu unknown = two_gpcs();
  unknown.gpc_of_tpc.clear();
  EXPECT_THAT(problem_of([&] { run_trace(wide_clients(2), unknown, "tpc-mask:split=packed"); }),
              HasSubstr("the GPC of each TPC is unknown"));
  EXPECT_EQ(problem_of([&] { run_trace(wide_clients(2), unknown, "tpc-mask:split=even"); }), "no InputError");
}

}  // namespace
}  // namespace corun::sim
