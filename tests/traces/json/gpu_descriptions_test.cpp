// The GPU descriptions: complete, consistent and as measured or published.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/traces/json/trace_format.h"
#include "traces/json/gpu_document.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

using nlohmann::json;
using std::filesystem::path;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class GpuDescription : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuDescription, IsValidAndConsistent) {
  const Gpu gpu = read_gpu(GetParam());
  EXPECT_EQ(gpu.name, GetParam()) << "the name is that of the file";
  EXPECT_EQ(gpu.placement_order.size(), gpu.sms);
  EXPECT_GT(gpu.dispatch_interval, Time{});
  EXPECT_GT(gpu.launch_call, Time{});
  EXPECT_GT(gpu.stream_gap, Time{});
  EXPECT_GT(gpu.time_slice, gpu.context_switch);
  EXPECT_GT(gpu.memory_bytes, gpu.l2_bytes);
  EXPECT_GT(gpu.dram_bytes_per_second, gpu.copy_bytes_per_second);
  const Contention& c = gpu.contention;
  EXPECT_LE(c.dram_read_bytes_per_second, gpu.dram_bytes_per_second);
  EXPECT_GT(c.l2_read_bytes_per_second, c.dram_read_bytes_per_second);
  EXPECT_GT(c.l2_write_bytes_per_second, c.dram_write_bytes_per_second);
  EXPECT_LT(c.sm_read_bytes_per_second, c.l2_read_bytes_per_second);
  EXPECT_GT(c.l2_shared_bytes, 0u);
  EXPECT_LT(c.l2_shared_bytes, c.l2_own_bytes);
  EXPECT_LE(c.l2_own_bytes, gpu.l2_bytes);
  EXPECT_GT(c.launch_cost, Time{});
}

TEST_P(GpuDescription, EveryValueNamesItsSource) {
  const json document = gpu_document(GetParam(), {}).json;
  std::size_t values = 0;
  for (const auto& [group, members] : document.items()) {
    if (!members.is_object()) continue;
    for (const auto& [key, leaf] : members.items()) {
      ASSERT_TRUE(leaf.is_object() && leaf.contains("value")) << group << "/" << key;
      EXPECT_GE(leaf.at("source").get<std::string>().size(), 10u) << group << "/" << key;
      EXPECT_TRUE(leaf.at("basis") == "assumed" || !leaf.contains("of")) << group << "/" << key;
      ++values;
    }
  }
  EXPECT_GE(values, 59u);
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, GpuDescription, ::testing::ValuesIn(gpu_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(GpuDescriptions, AllAreBuiltIn) {
  EXPECT_THAT(gpu_names(), IsSupersetOf({"a100", "gtx-1060-3gb", "h200", "mi50", "pascal-5sm", "titan-v",
                                         "titan-xp", "turing-68sm", "v100"}));
  const auto names = gpu_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(GpuDescriptions, H200IsAsMeasured) {
  const Gpu gpu = read_gpu("h200");
  EXPECT_EQ(gpu.product, "NVIDIA H200");
  EXPECT_EQ(gpu.sms, 132u);
  EXPECT_EQ(gpu.tpcs(), 66u);
  EXPECT_EQ(gpu.compute_capability_major, 9u);
  EXPECT_EQ(gpu.sm.max_threads, 2048u);
  EXPECT_EQ(gpu.sm.max_warps, 64u);
  EXPECT_EQ(gpu.sm.max_blocks, 32u);
  EXPECT_EQ(gpu.sm.registers, 65536u);
  EXPECT_EQ(gpu.sm.shared_memory_bytes, 233472u);
  EXPECT_EQ(gpu.sm.shared_memory_per_block_bytes, 232448u);
  EXPECT_EQ(gpu.sm.shared_memory_allocation_unit, 128u);
  EXPECT_EQ(gpu.sm.shared_memory_reserved_bytes, 1024u);
  EXPECT_EQ(gpu.task_slots, 128u);
  EXPECT_EQ(gpu.priority_levels, 6u);
  EXPECT_EQ(gpu.host_channels, 8u);
  EXPECT_EQ(gpu.copy_engines, 3u);
  // The file has the exact numbers; these are the ranges that several measurements gave.
  const auto within = [](Time value, double least_us, double most_us) {
    EXPECT_GE(value, from_ns(least_us * 1e3));
    EXPECT_LE(value, from_ns(most_us * 1e3));
  };
  within(gpu.dispatch_interval, 0.0006, 0.00061);
  within(gpu.launch_call, 2.5, 3.5);
  within(gpu.launch_latency, 4.5, 6);
  within(gpu.stream_gap, 0.8, 1.1);
  within(gpu.time_slice, 2000, 2200);
  within(gpu.context_switch, 150, 200);
  within(gpu.stop_flag, 4, 7);
  EXPECT_NEAR(gpu.copy_bytes_per_second, 55e9, 2e9);
}

TEST(GpuDescriptions, H200ContendsAsMeasured) {
  const Contention c = read_gpu("h200").contention;
  const auto within = [](auto value, decltype(value) least, decltype(value) most) {
    EXPECT_GE(value, least);
    EXPECT_LE(value, most);
  };
  // Ranges of experiments/h200/contention, or of what its numbers imply; the description says which.
  within(c.dram_read_bytes_per_second, 4.58e12, 4.70e12);
  within(c.dram_write_bytes_per_second, 3.54e12, 4.43e12);
  within(c.dram_latency, from_ns(336), from_ns(355));
  within(c.dram_over_l2_latency_ratio, 2.1, 2.5);
  within(c.dram_read_queueing_factor, 0.1, 0.14);
  within(c.dram_read_queueing_factor + c.dram_write_queueing_factor, 0.57, 0.61);
  within(c.dram_queue_full_use, 0.93, 0.98);
  within(c.dram_backlog_factor, 0.001, 0.1);
  within(c.l2_read_bytes_per_second, 9e12, 14.2e12);
  within(c.l2_write_bytes_per_second, 4.6e12, 5e12);
  within(c.l2_queueing_factor, 0.05, 0.5);
  within(c.l2_sector_cost_ratio, 1.8, 2);
  within(c.l2_wait, from_ns(143), from_ns(276));
  within(c.l2_own_bytes, std::uint64_t{56'000'000}, std::uint64_t{62'914'560});
  within(c.l2_shared_bytes, std::uint64_t{28'000'000}, std::uint64_t{45'000'000});
  within(c.l2_first_loss_bytes, std::uint64_t{10'000'000}, std::uint64_t{30'000'000});
  within(c.l2_dirty_bytes, std::uint64_t{15'000'000}, std::uint64_t{25'000'000});
  within(c.sm_read_bytes_per_second, 239e9, 244e9);
  within(c.sm_write_bytes_per_second, 63.3e9, 63.8e9);
  within(c.sm_sector_bytes_per_second, 62.9e9, 64.1e9);
  within(c.issue_by_age_share, 0.0, 1.0);
  within(c.tensor_clock_ratio, 1.08, 1.32);
  within(c.launch_cost, from_ns(620), from_ns(1270));
  within(c.launch_beside_others, from_ns(200), from_ns(400));
  within(c.launch_memory_accesses, 4, 18);
  within(c.graph_launch_after_others, from_ns(780), from_ns(1180));
  within(c.graph_launch_memory_accesses, 1, 4);
}

TEST(GpuDescriptions, H200PlacementOrderIsThatOfTheRecordedWalk) {
  std::istringstream lines(text_of("experiments/reference/h200-placement.txt"));
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("placement small blocks")) {
  }
  std::istringstream walk(line.substr(line.find(": ") + 2));
  std::vector<SmId> order;
  for (std::uint32_t sm = 0; walk >> sm;)
    if (std::find(order.begin(), order.end(), SmId{sm}) == order.end()) order.push_back(SmId{sm});
  EXPECT_EQ(read_gpu("h200").placement_order, order);
}

TEST(GpuDescriptions, CardsOfThePapersHaveTheirLimits) {
  const Gpu titan_xp = read_gpu("titan-xp"), gtx = read_gpu("gtx-1060-3gb"), v100 = read_gpu("v100"),
            mi50 = read_gpu("mi50");
  EXPECT_EQ(titan_xp.sms, 30u);
  EXPECT_EQ(titan_xp.sm.shared_memory_bytes, 98304u);
  EXPECT_EQ(titan_xp.sm.shared_memory_per_block_bytes, 49152u);
  EXPECT_EQ(titan_xp.sm.shared_memory_reserved_bytes, 0u);
  EXPECT_EQ(gtx.sms, 9u);
  EXPECT_EQ(gtx.tpcs(), 9u);
  EXPECT_EQ(gtx.task_slots, 32u);
  EXPECT_EQ(v100.sms, 80u);
  EXPECT_EQ(v100.task_slots, 128u);
  EXPECT_EQ(read_gpu("a100").sms, 108u);
  EXPECT_EQ(mi50.sms, 60u);
  EXPECT_EQ(mi50.sm.warp_size, 64u);
  EXPECT_EQ(mi50.sm.max_warps, 40u);
}

TEST(GpuDescriptions, CardsOfThePlacementExperimentsHaveTheirOrder) {
  const Gpu pascal = read_gpu("pascal-5sm"), turing = read_gpu("turing-68sm");
  EXPECT_THAT(pascal.placement_order, ElementsAre(SmId{0}, SmId{1}, SmId{2}, SmId{3}, SmId{4}));
  EXPECT_EQ(pascal.sm.max_blocks, 32u);
  EXPECT_EQ(pascal.sm.max_threads, 2048u);
  EXPECT_EQ(turing.sm.max_threads, 1024u);
  EXPECT_EQ(turing.sm.max_blocks, 16u);
  EXPECT_EQ(turing.sm.max_warps, 32u);
  EXPECT_EQ(turing.placement_order[1], SmId{2});
  EXPECT_EQ(turing.placement_order[33], SmId{66});
  EXPECT_EQ(turing.placement_order[34], SmId{1});
  EXPECT_EQ(turing.placement_order[67], SmId{67});
}

TEST_F(TraceFormat, GpuMayBeAFileBesideTheTrace) {
  write("mine.json", text_of("traces/gpus/titan-v.json"));
  EXPECT_EQ(read_gpu("mine.json", folder_).sms, 80u);
  EXPECT_EQ(read_gpu((folder_ / "mine.json").string(), "elsewhere").sms, 80u);
  EXPECT_EQ(read(R"({"corun_trace": 1, "gpu": "mine.json"})").gpu, "mine.json");
}

TEST_F(TraceFormat, GpuWithoutAPlacementOrderTakesSmsInTurn) {
  json document = json::parse(text_of("traces/gpus/pascal-5sm.json"));
  document["chip"].erase("placement_order");
  const path file = write("plain.json", document.dump());
  EXPECT_THAT(read_gpu(file.string()).placement_order,
              ElementsAre(SmId{0}, SmId{1}, SmId{2}, SmId{3}, SmId{4}));
  EXPECT_THAT(read_gpu(file.string()).gpc_of_tpc, IsEmpty());
}

}  // namespace
}  // namespace corun
