// GPU descriptions made of another one: what is taken over, what it counts as, what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/in_folder.h"
#include "traces/json/gpu_document.h"
#include "traces/json/trace_json.h"
#include "traces/json/write_gpu.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GpuExtends : public InFolder {
 protected:
  static json leaf(const json& value, const char* basis = "published") {
    return {{"value", value}, {"source", "made up for this test"}, {"basis", basis}};
  }
  static json extending(const std::string& parent) {
    return {{"corun_gpu", 1}, {"name", "mine"}, {"extends", parent}};
  }
  std::string write(const json& document, const std::string& name = "mine.json") const {
    return InFolder::write(name, document.dump()).string();
  }
  static std::string problem_of(const std::string& file) {
    try {
      (void)read_gpu(file);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(GpuExtends, WhatIsNotGivenIsTheParents) {
  const Gpu h200 = read_gpu("h200"), mine = read_gpu(write(extending("h200")));
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.product, "mine") << "it is no H200";
  EXPECT_EQ(mine.architecture, "hopper");
  EXPECT_EQ(mine.sms, h200.sms);
  EXPECT_EQ(mine.placement_order, h200.placement_order);
  EXPECT_EQ(mine.time_slice, h200.time_slice);
  EXPECT_EQ(mine.contention.l2_own_bytes, h200.contention.l2_own_bytes);
}

TEST_F(GpuExtends, InheritedValuesAreAssumedOfTheParentUnlessPublishedOfTheArchitecture) {
  const json whole = gpu_document(write(extending("h200")), {}).json;
  EXPECT_EQ(whole["sm"]["warp_size"]["basis"], "published");
  EXPECT_EQ(whole["latencies"]["stream_gap_ns"]["basis"], "assumed") << "measured, but on an H200";
  EXPECT_EQ(whole["latencies"]["stream_gap_ns"]["of"], "h200");
  EXPECT_THAT(whole["latencies"]["stream_gap_ns"]["source"].get<std::string>(),
              StartsWith("inherited from h200: "));
  EXPECT_EQ(whole["preemption"]["padding_cost_ratio"]["of"], "mi50") << "the card that it was of before";
  EXPECT_EQ(read_gpu(write(extending("h200"))).basis.calibrated, 0u);

  json other = extending("h200");
  other["chip"]["compute_capability_major"] = leaf(10);
  EXPECT_EQ(gpu_document(write(other), {}).json["sm"]["warp_size"]["basis"], "assumed")
      << "another architecture";
}

TEST_F(GpuExtends, BandwidthsAndCachesAreCarriedOverByTheRatioOfTheCards) {
  json half = extending("h200");
  half["chip"]["sms"] = leaf(66);
  half["chip"]["clock_hz"] = leaf(990'000'000);
  half["memory"]["l2_bytes"] = leaf(31'457'280);
  half["memory"]["dram_bytes_per_second"] = leaf(2'320'000'000'000);
  const Gpu h200 = read_gpu("h200"), gpu = read_gpu(write(half));
  const Contention &all = h200.contention, &c = gpu.contention;
  EXPECT_NEAR(c.sm_read_bytes_per_second / all.sm_read_bytes_per_second, 0.5, 1e-3) << "by the clock";
  EXPECT_NEAR(c.l2_read_bytes_per_second / all.l2_read_bytes_per_second, 0.25, 1e-3) << "by SMs and clock";
  EXPECT_NEAR(c.dram_read_bytes_per_second / all.dram_read_bytes_per_second, 0.5, 1e-3) << "by the bandwidth";
  EXPECT_NEAR(double(c.l2_own_bytes) / double(all.l2_own_bytes), 0.5, 1e-3) << "by the cache";
  EXPECT_NEAR(to_ns(gpu.dispatch_interval) / to_ns(h200.dispatch_interval), 2, 1e-2) << "against the clock";
  EXPECT_EQ(gpu.stream_gap, h200.stream_gap) << "the host's, whatever the card";
  EXPECT_EQ(gpu.placement_order.size(), 66u) << "the parent's order is of 132 SMs";
}

TEST_F(GpuExtends, APathStartsAtTheFilesFolder) {
  write(extending("v100"), "parent.json");
  json child = extending("parent.json");
  child["chip"]["sms"] = leaf(40);
  EXPECT_EQ(read_gpu(write(child)).sms, 40u);
  EXPECT_EQ(read_gpu("mine.json", folder_).sms, 40u);
}

TEST_F(GpuExtends, ACircleIsRefused) {
  write(extending("b.json"), "a.json");
  write(extending("a.json"), "b.json");
  EXPECT_THAT(problem_of((folder_ / "a.json").string()),
              HasSubstr("at /extends: the description extends itself"));
}

TEST_F(GpuExtends, AnUnknownParentIsRefusedWithTheOneMeant) {
  EXPECT_THAT(problem_of(write(extending("h20"))),
              HasSubstr("mine.json: at /extends: no such file, and no GPU is called 'h20'; did you mean "));
}

TEST_F(GpuExtends, FifteenLinesAreEnoughForAnRtx4090) {
  std::ofstream(folder_ / "mine.json") << R"({
  "corun_gpu": 1, "name": "my-4090", "extends": "turing-68sm", "product": "NVIDIA GeForce RTX 4090",
  "architecture": "ada",
  "chip": {
    "compute_capability_minor": {"value": 9, "source": "NVIDIA, CUDA GPUs", "basis": "published"},
    "compute_capability_major": {"value": 8, "source": "NVIDIA, CUDA GPUs", "basis": "published"},
    "sms": {"value": 128, "source": "Ada whitepaper", "basis": "published"},
    "clock_hz": {"value": 2520000000, "source": "Ada whitepaper", "basis": "published"}
  },
  "memory": {
    "l2_bytes": {"value": 75497472, "source": "Ada whitepaper", "basis": "published"},
    "dram_bytes_per_second": {"value": 1008000000000, "source": "Ada whitepaper", "basis": "published"}
  }
})";
  const Gpu gpu = read_gpu((folder_ / "mine.json").string());
  EXPECT_EQ(gpu.sms, 128u);
  EXPECT_EQ(gpu.basis.published, 6u);
  EXPECT_GT(gpu.contention.l2_own_bytes, 60'000'000u);
  EXPECT_LT(gpu.contention.dram_read_bytes_per_second, 1.0081e12);
}

TEST_F(GpuExtends, AllErrorsAreToldAtOnce) {
  json document = extending("h200");
  document["chip"]["sms"] = leaf(0);
  document["chip"]["clck_hz"] = leaf(1);
  document["memory"]["l2_bytes"] = {{"value", 50'000'000}, {"source", "?"}, {"basis", "guess"}};
  document["sm"]["threads_per_block"] = leaf(4096);
  document["contention"]["l2_shared_bytes"] = leaf(60'000'000);
  document["contention"]["l2_own_bytes"] = leaf(40'000'000);
  const std::string told = problem_of(write(document));
  for (const char* each :
       {"at /chip/clck_hz: unknown key 'clck_hz'; did you mean 'clock_hz'?",
        "/chip/sms/value: expected an integer >= 1", "/memory/l2_bytes/basis: expected one of",
        "/memory/l2_bytes/source: expected a text of 10 characters",
        "/sm/threads_per_block/value: expected at most",
        "/contention/l2_shared_bytes/value: expected less than"})
    EXPECT_THAT(told, HasSubstr(each));
}

TEST_F(GpuExtends, AWrongUnitIsToldWhereItWasWrittenAndNotWhereItWasCarriedTo) {
  const auto only = [&](const char* group, const char* key, double value, const std::string& said) {
    json document = extending("h200");
    document[group][key] = leaf(static_cast<std::int64_t>(value));
    const std::string told = problem_of(write(document));
    EXPECT_THAT(told, HasSubstr(fmt::format("/{}/{}/value: expected ", group, key)));
    EXPECT_THAT(told, HasSubstr(said));
    EXPECT_THAT(told, ::testing::Not(HasSubstr("and at"))) << "one mistake, one error";
  };
  only("chip", "clock_hz", 2040, "got 2040 Hz");
  only("memory", "memory_bytes", 24, "got 24 bytes");
  only("memory", "l2_bytes", 48, "got 48 bytes");
  only("memory", "dram_bytes_per_second", 300, "got 300 bytes a second");
  only("latencies", "dispatch_interval_ns", 1e13, "got 10000000000000 ns");
  only("latencies", "persistent_task_ns", 8e15, "got 8000000000000000 ns");
}

TEST_F(GpuExtends, MpsLeavesAClientNoMoreSmsThanThereAre) {
  for (const char* key : {"mps_least_sms", "mps_kept_back_sms"}) {
    json document = extending("h200");
    document["scheduling"][key] = leaf(132);
    EXPECT_EQ(problem_of(write(document)), "");
    document["scheduling"][key] = leaf(134);
    EXPECT_THAT(problem_of(write(document)), HasSubstr("expected at most 132 (chip/sms), got 134"));
  }
}

TEST_F(GpuExtends, ListsThatTheExtendedCardLacksAreCheckedBesideOtherErrors) {
  json document = extending("h200");
  document["chip"]["clock_hz"] = leaf(1);
  document["chip"]["gpc_of_tpc"] = leaf(0);
  document["chip"]["gpc_of_tpc"]["value"] = {0, 0, 1};
  document["chip"]["placement_order"] = leaf(0);
  document["chip"]["placement_order"]["value"] = {0, 1, 1};
  const std::string told = problem_of(write(document));
  EXPECT_THAT(told, HasSubstr("expected one GPC for each of 66 TPCs, got 3"));
  EXPECT_THAT(told, HasSubstr("SM 1 stands there twice"));
}

TEST_F(GpuExtends, ACycleIsFoundHoweverItsPathIsWritten) {
  json document = extending("./mine.json");
  document["extends"] = "../" + folder_.filename().string() + "/./mine.json";
  EXPECT_THAT(problem_of(write(document)), HasSubstr("extends itself"));
}

TEST_F(GpuExtends, BothBoardsOfAnA100AreFoundAsNvidiaSmiCallsThem) {
  EXPECT_EQ(find_gpu("NVIDIA A100 80GB PCIe"), "a100-80gb");
  EXPECT_EQ(find_gpu("NVIDIA A100-PCIE-40GB"), "a100");
}

TEST_F(GpuExtends, MoreErrorsThanAreToldAreStillErrors) {
  json document = gpu_document("h200", {}).json;
  std::size_t wrong = 0;
  for (auto& [group, leaves] : document.items())
    if (leaves.is_object())
      for (auto& [key, each] : leaves.items()) {
        each["basis"] = "guess", ++wrong;
        if (wrong < 10) each["source"] = "?", ++wrong;
      }
  document["sm"]["warp_size"] = {{"size", 32}};
  ASSERT_GT(wrong, 100u);
  EXPECT_THAT(problem_of(write(document)), HasSubstr(" more"));
}

TEST_F(GpuExtends, AMisspeltKeyIsNotAMissingOneAsWell) {
  json document = gpu_document("titan-v", {}).json;
  document["sm"]["max_wraps"] = document["sm"]["max_warps"];
  document["sm"].erase("max_warps");
  const std::string told = problem_of(write(document));
  EXPECT_THAT(told, HasSubstr("did you mean 'max_warps'?"));
  EXPECT_THAT(told, ::testing::Not(HasSubstr("missing key 'max_warps'")));
  document["memory"].erase("l2_bytes");
  EXPECT_THAT(problem_of(write(document)), HasSubstr("at /memory: missing key 'l2_bytes'"));
}

TEST_F(GpuExtends, ABrokenParentIsToldByItsFile) {
  json parent = extending("h200");
  parent["chip"]["sms"] = leaf(131);
  write(parent, "parent.json");
  EXPECT_THAT(problem_of(write(extending("parent.json"))),
              HasSubstr("parent.json: at /chip/sms_per_tpc/value"));
}

TEST_F(GpuExtends, ACalibratedDescriptionSaysWhatItRestsOn) {
  std::stringstream text;
  const MeasuredValue sms{"chip", "sms", {132}, false, "counted"};
  write_gpu({"mine", "NVIDIA H200", "hopper", "", "h200", "measured today", {sms}}, text);
  const json document = json::parse(text);
  EXPECT_EQ(document["chip"]["sms"]["basis"], "calibrated");
  EXPECT_EQ(document["chip"]["sms"]["source"], "measured today: counted");
  EXPECT_EQ(document["sm"]["warp_size"]["basis"], "published");
  EXPECT_EQ(document["latencies"]["stream_gap_ns"]["of"], "h200");
  const Gpu gpu = read_gpu(write(document));
  EXPECT_EQ(gpu.basis.calibrated, 1u);
}

TEST(GpuNames, ACardIsFoundByWhatNvidiaSmiPrints) {
  EXPECT_EQ(find_gpu("NVIDIA H200"), "h200");
  EXPECT_EQ(find_gpu("Tesla V100-PCIE-16GB"), "v100");
  EXPECT_EQ(find_gpu("nvidia a100 sxm4 40gb"), "a100");
  EXPECT_EQ(find_gpu("titan-xp"), "titan-xp");
  EXPECT_EQ(find_gpu("NVIDIA GeForce GTX 1060"), "") << "the one of 6 GB has another SM";
  EXPECT_EQ(find_gpu("NVIDIA"), "");
  EXPECT_EQ(read_gpu("NVIDIA TITAN V").name, "titan-v");
}

TEST(GpuNames, ACommandLinesPathStartsAtTheWorkingDirectory) {
  EXPECT_EQ(locate_gpu("h200"), "h200");
  EXPECT_EQ(locate_gpu("traces/gpus/h200.json"), std::filesystem::absolute("traces/gpus/h200.json"));
  EXPECT_THROW(locate_gpu("gpus/h200.json"), InputError);
}

TEST(GpuNames, TheCardsThatPeopleLookForAreFound) {
  const std::map<std::string, std::string> cards{
      {"NVIDIA H100 80GB HBM3", "h100-sxm"},
      {"NVIDIA H100 PCIe", "h100-pcie"},
      {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
      {"NVIDIA A30", "a30"},
      {"NVIDIA A10", "a10"},
      {"NVIDIA L4", "l4"},
      {"NVIDIA L40S", "l40s"},
      {"Tesla T4", "t4"},
      {"NVIDIA GeForce RTX 3090", "rtx-3090"},
      {"NVIDIA GeForce RTX 4090", "rtx-4090"},
      {"NVIDIA B200", "b200"},
      {"Tesla V100-SXM2-16GB", "v100-sxm2"},
      {"AMD Instinct MI250X", "mi250x"},
      {"AMD Instinct MI300X", "mi300x"}};
  for (const auto& [printed, name] : cards) EXPECT_EQ(find_gpu(printed), name);
  EXPECT_EQ(find_gpu("NVIDIA A10G"), "") << "another card, with 80 SMs";
  EXPECT_EQ(find_gpu("NVIDIA GeForce RTX 3090 Ti"), "");
}

TEST(GpuCards, AnSmHoldsWhatItsComputeCapabilityAllows) {
  struct Limits {
    std::uint32_t threads, blocks, shared_kib;
  };
  const std::map<std::pair<std::uint32_t, std::uint32_t>, Limits> by_capability{
      {{7, 0}, {2048, 32, 96}},  {{7, 5}, {1024, 16, 64}},  {{8, 0}, {2048, 32, 164}},
      {{8, 6}, {1536, 16, 100}}, {{8, 9}, {1536, 24, 100}}, {{9, 0}, {2048, 32, 228}},
      {{10, 0}, {2048, 32, 228}}};
  std::set<std::pair<std::uint32_t, std::uint32_t>> met;
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = read_gpu(name);
    const auto limits = by_capability.find({gpu.compute_capability_major, gpu.compute_capability_minor});
    if (limits == by_capability.end()) continue;
    met.insert(limits->first);
    EXPECT_EQ(gpu.sm.max_threads, limits->second.threads) << name;
    EXPECT_EQ(gpu.sm.max_warps * 32, limits->second.threads) << name;
    EXPECT_EQ(gpu.sm.max_blocks, limits->second.blocks) << name;
    EXPECT_EQ(gpu.sm.shared_memory_bytes, limits->second.shared_kib * 1024) << name;
    EXPECT_EQ(gpu.sm.shared_memory_reserved_bytes, gpu.compute_capability_major >= 8 ? 1024u : 0u) << name;
    EXPECT_EQ(gpu.sm.registers, 65536u) << name;
  }
  EXPECT_EQ(met.size(), by_capability.size()) << "each has a card";
}

TEST(GpuCards, AmdsHaveWavesOf64AndAssumedQueues) {
  for (const char* name : {"mi250x", "mi300x", "mi300x-xcd"}) {
    EXPECT_EQ(read_gpu(name).sm.warp_size, 64u);
    EXPECT_EQ(gpu_document(name, {}).json["scheduling"]["task_slots"]["basis"], "assumed");
    EXPECT_EQ(read_gpu(name).basis.calibrated, 0u);
  }
}

TEST(GpuBasis, IsToldInOneLine) {
  EXPECT_EQ(in_words({31, 12, 40, {{"h200", 38}, {"mi50", 2}}}),
            "31 values published, 12 calibrated, 40 assumed (38 of h200, 2 of mi50)");
  EXPECT_EQ(in_words({1, 0, 0, {}}), "1 values published, 0 calibrated, 0 assumed");
  const Basis h200 = read_gpu("h200").basis;
  EXPECT_GT(h200.calibrated, 60u);
  EXPECT_FALSE(h200.assumed_of.contains("h200")) << "its own judgements are of no other card";
}

}  // namespace
}  // namespace corun
