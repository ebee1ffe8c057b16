// A GPU description that lacks a value or its source, or contradicts itself, is refused where it does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/traces/json/bad_input.h"

namespace corun {
namespace {

using nlohmann::json;
using std::filesystem::path;

class BadGpu : public BadInput {
 protected:
  static json valid() {
    std::ifstream file("traces/gpus/pascal-5sm.json");
    return json::parse(file);
  }
  void expect_gpu_refused(const json& document, const std::string& place, const std::string& word) const {
    const path file = write("gpu.json", document.dump());
    expect_error([&] { read_gpu(file.string()); }, file.string(), place, word);
  }
};

TEST_F(BadGpu, UnknownNameIsRefusedWithTheOneMeant) {
  expect_error([] { read_gpu("h20"); }, "h20", "", "no GPU is called 'h20'; did you mean 'h200'?");
  expect_error([&] { read_gpu("none.json", folder_); }, (folder_ / "none.json").string(), "", "no such file");
}

TEST_F(BadGpu, ValueWithoutASourceIsRefused) {
  json document = valid();
  document["sm"]["max_warps"].erase("source");
  expect_gpu_refused(document, "/sm/max_warps", "missing key 'source'");
  document["sm"]["max_warps"] = 64;
  expect_gpu_refused(document, "/sm/max_warps", "expected an object, got 64");
  document["sm"]["max_warps"] = {{"value", 64}, {"source", "?"}, {"basis", "assumed"}};
  expect_gpu_refused(document, "/sm/max_warps/source", "10 characters or more");
  document = valid();
  document["sm"]["max_warps"].erase("basis");
  expect_gpu_refused(document, "/sm/max_warps", "missing key 'basis'");
  document["sm"]["max_warps"]["basis"] = "guessed";
  expect_gpu_refused(document, "/sm/max_warps/basis", "expected one of 'calibrated', 'published', 'assumed'");
}

TEST_F(BadGpu, MissingOrUnknownValueIsRefused) {
  json document = valid();
  document["sm"].erase("registers");
  expect_gpu_refused(document, "/sm", "missing key 'registers'");
  document = valid();
  document["latencies"]["launch_call_us"] = document["latencies"]["launch_call_ns"];
  expect_gpu_refused(document, "/latencies/launch_call_us", "did you mean 'launch_call_ns'?");
  document = valid();
  document.erase("contention");
  expect_gpu_refused(document, "", "missing key 'contention'");
  document = valid();
  document["contention"].erase("l2_own_bytes");
  expect_gpu_refused(document, "/contention", "missing key 'l2_own_bytes'");
  document = valid();
  document["memory"].erase("l2_bytes");
  expect_gpu_refused(document, "/memory", "missing key 'l2_bytes'");
}

TEST_F(BadGpu, InconsistentValuesAreRefused) {
  const auto with_value = [](const char* group, const char* key, const json& value) {
    json document = valid();
    document[group][key] = {{"value", value}, {"source", "made up for this test"}, {"basis", "assumed"}};
    return document;
  };
  expect_gpu_refused(with_value("chip", "placement_order", {0, 1, 2, 3}), "/chip/placement_order/value",
                     "expected all 5 SMs, got 4");
  expect_gpu_refused(with_value("chip", "placement_order", {0, 1, 2, 3, 3}), "/chip/placement_order/value",
                     "SM 3 stands there twice");
  expect_gpu_refused(with_value("chip", "placement_order", {0, 1, 2, 3, 5}), "/chip/placement_order/value",
                     "SM 5 does not exist");
  expect_gpu_refused(with_value("chip", "sms_per_tpc", 2), "/chip/sms_per_tpc/value", "whole TPCs");
  expect_gpu_refused(with_value("chip", "gpc_of_tpc", {0, 0}), "/chip/gpc_of_tpc/value",
                     "expected one GPC for each of 5 TPCs, got 2");
  expect_gpu_refused(with_value("chip", "sms", 0), "/chip/sms/value", "expected an integer >= 1");
  // Of whole TPCs, but more SMs than the engine's masks hold.
  json wide = with_value("chip", "sms", 386);
  wide["chip"]["sms_per_tpc"]["value"] = 2;
  wide["chip"]["placement_order"]["value"] = json::array();
  for (int sm = 0; sm < 386; ++sm) wide["chip"]["placement_order"]["value"].push_back(sm);
  expect_gpu_refused(wide, "/chip/sms/value", "and <= 384, got 386");
  expect_gpu_refused(with_value("sm", "registers_per_block", 70000), "/sm/registers_per_block/value",
                     "at most 65536");
  expect_gpu_refused(with_value("sm", "max_threads", 2080), "/sm/max_threads/value", "at most 2048");
  expect_gpu_refused(with_value("latencies", "dispatch_interval_ns", 0),
                     "/latencies/dispatch_interval_ns/value", "expected a number >= 0.001");
}

TEST_F(BadGpu, AClockSetMoreOftenThanEachMillisecondIsRefused) {
  std::ifstream file("traces/gpus/h200.json");
  json document = json::parse(file);
  document["power"]["interval_ns"]["value"] = 999'999;
  expect_gpu_refused(document, "/power/interval_ns/value", "expected a number >= 1000000");
}

TEST_F(BadGpu, AbsurdContentionIsRefused) {
  const auto expect_refused_value = [&](const char* key, const json& value, const std::string& word) {
    json document = valid();
    document["contention"][key]["value"] = value;
    expect_gpu_refused(document, fmt::format("/contention/{}/value", key), word);
  };
  const json pascal = valid();
  const auto own = pascal["contention"]["l2_own_bytes"]["value"].get<std::uint64_t>();
  const auto l2 = pascal["memory"]["l2_bytes"]["value"].get<std::uint64_t>();
  const auto dram = pascal["memory"]["dram_bytes_per_second"]["value"].get<std::uint64_t>();
  expect_refused_value("l2_own_bytes", l2 + 1, fmt::format("expected at most {} (memory/l2_bytes)", l2));
  expect_refused_value("l2_own_bytes", 0, "expected an integer >= 1");
  expect_refused_value("l2_shared_bytes", own, fmt::format("expected less than {} (l2_own_bytes)", own));
  expect_refused_value("l2_first_loss_bytes", own, "expected less than");
  expect_refused_value("dram_read_bytes_per_second", dram + 1, "(memory/dram_bytes_per_second)");
  expect_refused_value("dram_read_bytes_per_second", 4.64, "expected a number >= 1000000000");
  expect_refused_value("dram_write_bytes_per_second", 0, "expected a number >= 1000000000");
  expect_refused_value("l2_read_bytes_per_second", 2e15, "and <= 1000000000000000");
  expect_refused_value("dram_latency_ns", 0, "expected a number >= 1");
  expect_refused_value("dram_over_l2_latency_ratio", 0.9, "expected a number >= 1");
  expect_refused_value("dram_queue_full_use", 1, "expected a number");
  expect_refused_value("dram_backlog_factor", -0.01, "expected a number >= 0");
  expect_refused_value("issue_by_age_share", 1.1, "expected a number");
  expect_refused_value("launch_memory_accesses", "6.2", "expected a number");
}

TEST_F(BadGpu, BrokenFileIsRefused) {
  expect_error([&] { read_gpu(folder_.string()); }, folder_.string(), "", "is a directory");
  const path file = write("gpu.json", "{");
  expect_error([&] { read_gpu(file.string()); }, file.string(), "line 1, column 1", "not valid JSON");
}

}  // namespace
}  // namespace corun
