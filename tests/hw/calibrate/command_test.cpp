// What does `sim calibrate` write of a card, and what where it must not?  The driver, NVML, NVRTC and the clock are fakes
// (fake_card.h); the command and its files are not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/in_folder.h"
#include "tests/support/sim_command.h"
#include "tests/support/sim_file.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

class Calibrate : public InFolder {
 protected:
  const std::filesystem::path file_ = folder_ / "my-gpu.json", samples_ = folder_ / "samples.json", report_ = folder_ / "report";

  /// No program is found but those of the test's folder, so that no MPS of this machine is asked.
  Ran calibrate(const std::string& card) const {
    return shell(fmt::format("PATH={} CORUN_FAKE_CARD='{}' CORUN_FAKE_REPORT={} ASAN_OPTIONS=verify_asan_link_order=0:$ASAN_OPTIONS "
                             "LD_PRELOAD={}/libcuda.so.1 LD_LIBRARY_PATH={} {} calibrate -o {} --samples {}",
                             folder_.string(), card, report_.string(), CORUN_FAKE_CARD_FOLDER, CORUN_FAKE_CARD_FOLDER,
                             sim_file(), file_.string(), samples_.string()));
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) names.insert(each.path().filename());
    names.erase(report_.filename());
    return names;
  }
  /// Where there was no file there is none afterwards, and where there was one it stays.
  void expect_no_file(const std::string& card, int code, const std::vector<std::string>& said) const {
    const std::set<std::string> before = files();
    for (const bool again : {false, true}) {
      if (again) write("my-gpu.json", "what was there"), write("samples.json", "these too");
      const Ran ran = calibrate(card);
      EXPECT_EQ(ran.code, code) << card << "\n" << ran.out;
      for (const std::string& words : said) EXPECT_NE(ran.out.find(words), std::string::npos) << words << " not in:\n" << ran.out;
      EXPECT_EQ(ran.out.find("wrote"), std::string::npos) << ran.out;
      std::set<std::string> wanted = before;
      if (again) wanted.insert({file_.filename(), samples_.filename()});
      EXPECT_EQ(files(), wanted) << card;
    }
    EXPECT_TRUE(text_of(file_) == "what was there") << card;
    EXPECT_TRUE(text_of(samples_) == "these too") << card;
  }
  std::string left() const {
    const std::string report = text_of(report_);
    return report.substr(0, report.find(','));
  }
  double virtual_ms() const {
    const std::string report = text_of(report_);
    return std::stod(report.substr(report.find(", ") + 2));
  }
};

const std::string kT4 =
    "name=Tesla T4;major=7;minor=5;sms=40;clock_mhz=1590;threads=1024;blocks=16;shared_kib=64;reserved_shared=0;memory_gib=15;"
    "l2_mib=4;dispatch=3.2;dram_read=2.7e11;dram_write=2.6e11;l2_read=1.2e12;l2_write=8e11;sectors=6e11;fp64_units=2";
const std::string kA100 =
    "name=NVIDIA A100-SXM4-40GB;major=8;minor=0;sms=108;clock_mhz=1410;shared_kib=164;memory_gib=40;l2_mib=40;dispatch=0.8;"
    "dram_read=1.4e12;dram_write=1.3e12;l2_read=4e12;l2_write=2.5e12;sectors=2e12;fp64_units=32";
const std::string kL4 =
    "name=NVIDIA L4;major=8;minor=9;sms=58;clock_mhz=2040;threads=1536;blocks=24;shared_kib=100;memory_gib=22;l2_mib=48;"
    "dispatch=1.5;dram_read=2.6e11;dram_write=2.4e11;l2_read=2e12;l2_write=1.5e12;sectors=1e12;fp64_units=2";

// A card in use

TEST_F(Calibrate, OfACardThatAProcessHoldsSaysSoAndLeavesNoFile) {
  expect_no_file("processes=1", 2, {"the GPU is in use, so nothing is written: 1 process holds it", "remedy: end what runs on it"});
  expect_no_file("processes=2", 2, {"2 processes hold it"});
}
TEST_F(Calibrate, OfABusyCardSaysSoAndLeavesNoFile) {
  expect_no_file("busy_percent=6", 2, {"the GPU is in use, so nothing is written: it is busy for 6 % of the time"});
}
TEST_F(Calibrate, WhoseKernelsAreInterruptedByAnotherContextSaysSoAndLeavesNoFile) {
  for (const char* since : {"computes_at=0", "computes_at=1500"})
    expect_no_file(since, 2, {"the GPU is in use, so nothing is written: a kernel was interrupted 3 times in 30 ms"});
  EXPECT_EQ(left(), "0 left");
}
TEST_F(Calibrate, BesideAProcessThatComesMeanwhileSaysSoAndLeavesNoFile) {
  expect_no_file("comes_at=100", 2, {"the GPU is in use, so nothing is written: another process has come meanwhile"});
}
TEST_F(Calibrate, OfACardWithLessFreeMemoryThanItNeedsSaysSoAndLeavesNoFile) {
  expect_no_file("memory_gib=0.249", 2, {"the GPU is in use, so nothing is written: 254 MiB of its memory are free, and 256 are needed"});
}
TEST_F(Calibrate, OfACardWithAsMuchFreeMemoryAsItNeedsBegins) {
  EXPECT_EQ(calibrate("memory_gib=0.25;interrupt_at=1").code, 130);
}
/// A tenth is the most; the median is of the slower ones here.
TEST_F(Calibrate, OfRatesThatVaryByMoreThanATenthSaysSoAndLeavesNoFile) {
  expect_no_file("unsteady=0.113", 2, {"the GPU is in use, so nothing is written: dispatch_interval_ns varies by 10 %"});
}
TEST_F(Calibrate, OfALittleBusyCardWhoseRatesVaryByATenthWritesItsDescription) {
  const Ran ran = calibrate("busy_percent=5;unsteady=0.11");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(files(), (std::set<std::string>{"my-gpu.json", "samples.json"}));
}

// Ctrl-C

TEST_F(Calibrate, InterruptedAtAnyTimeSaysSoAndLeavesNoFileAndNothingOnTheGpu) {
  for (const int ms : {0, 1, 1000, 3000}) {
    std::filesystem::remove(file_), std::filesystem::remove(samples_), std::filesystem::remove(report_);
    expect_no_file(fmt::format("interrupt_at={}", ms), 130, {"sim: interrupted; nothing is left on the GPU"});
    EXPECT_EQ(left(), "0 left") << ms;
  }
}
/// MPS is asked last, and its server's end hides that Ctrl-C was what ended it.
TEST_F(Calibrate, InterruptedInItsLastJobLeavesNoFile) {
  write("nvidia-cuda-mps-control", "#!/bin/sh\n[ \"$1\" = -f ] && kill -INT $PPID\nexit 1\n");
  std::filesystem::permissions(folder_ / "nvidia-cuda-mps-control", std::filesystem::perms::owner_all);
  expect_no_file("", 130, {"sim: interrupted; nothing is left on the GPU"});
}

// A driver that fails

TEST_F(Calibrate, OfACardThatFailsLeavesNoDescriptionAndKeepsTheSamples) {
  const Ran ran = calibrate("fails_at=1500");
  EXPECT_EQ(ran.code, 3) << ran.out;
  EXPECT_NE(ran.out.find("sim: the GPU run failed: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED"), std::string::npos) << ran.out;
  EXPECT_EQ(files(), std::set<std::string>{"samples.json"});
  const auto samples = nlohmann::json::parse(text_of(samples_));
  EXPECT_NE(samples.at("about").get<std::string>().find("It failed: cuLaunchKernel"), std::string::npos);
  EXPECT_EQ(samples.at("constants").at("latencies/dispatch_interval_ns").size(), 7u);
}

// Cards of other compute capabilities

TEST_F(Calibrate, OfACardBefore75IsRefused) {
  expect_no_file("name=Tesla V100;major=7;minor=0", 2,
                 {"Tesla V100 has compute capability 7.0; 7.5 is the least", "remedy: `sim gpus` lists described GPUs that are older"});
  expect_no_file("major=7;minor=4", 2, {"has compute capability 7.4; 7.5 is the least"});
}

/// A card as it is stated, and what the description must say of it.
struct Card {
  std::string name, stated, architecture, like;
  std::uint32_t sms, major, minor;
  double dispatch_ns, dram_read, l2_read;
  std::uint32_t fp64_units;
};
void PrintTo(const Card& card, std::ostream* out) { *out << card.name; }

class CalibrateCard : public Calibrate, public testing::WithParamInterface<Card> {
 protected:
  nlohmann::json written_;
  double value(const char* group, const char* key) const {
    const auto& leaf = written_.at(group).at(key);
    EXPECT_EQ(leaf.at("basis"), "calibrated") << key;
    return leaf.at("value").get<double>();
  }
};

TEST_P(CalibrateCard, IsDescribedAsTheCardThatItIs) {
  const Card& card = GetParam();
  const Ran ran = calibrate(card.stated);
  ASSERT_EQ(ran.code, 0) << ran.out;
  written_ = nlohmann::json::parse(text_of(file_));
  EXPECT_EQ(written_.at("product"), card.name);
  EXPECT_EQ(written_.at("architecture"), card.architecture);
  EXPECT_EQ(value("chip", "sms"), card.sms);
  EXPECT_EQ(value("chip", "compute_capability_major"), card.major);
  EXPECT_EQ(value("chip", "compute_capability_minor"), card.minor);
  EXPECT_EQ(value("sm", "fp64_units"), card.fp64_units);
  // What kernels take there, by FakeCard.
  EXPECT_NEAR(value("latencies", "dispatch_interval_ns"), card.dispatch_ns, 0.01 * card.dispatch_ns);
  EXPECT_NEAR(value("latencies", "launch_latency_ns"), 5000, 100);
  EXPECT_NEAR(value("latencies", "stream_gap_ns"), 800, 10);
  EXPECT_NEAR(value("contention", "launch_cost_ns"), 900, 10);
  EXPECT_NEAR(value("latencies", "persistent_task_ns"), 400, 10);
  EXPECT_NEAR(value("latencies", "stop_flag_ns"), 3000, 1000);
  EXPECT_NEAR(value("preemption", "stop_flag_host_block_ns"), 50, 5);
  EXPECT_NEAR(value("contention", "dram_read_bytes_per_second"), card.dram_read, 0.01 * card.dram_read);
  EXPECT_NEAR(value("contention", "l2_read_bytes_per_second"), card.l2_read, 0.01 * card.l2_read);
  EXPECT_NEAR(value("contention", "dram_queue_full_use"), 0.92, 0.02);
  EXPECT_EQ(value("scheduling", "task_slots"), 128);
  EXPECT_EQ(value("scheduling", "host_channels"), 8);

  const std::size_t at = ran.out.find("\ninherited from " + card.like + ": ");
  ASSERT_NE(at, std::string::npos) << ran.out;
  const std::string inherited = ran.out.substr(at + 1, ran.out.find('\n', at + 1) - at - 1);
  EXPECT_NE(inherited.find("latencies/time_slice_ns"), std::string::npos) << "the fake has no second context: " << inherited;
  EXPECT_NE(written_.at("latencies").at("time_slice_ns").at("basis"), "calibrated");
  EXPECT_EQ(inherited.find("launch_cost_ns"), std::string::npos) << inherited;
  // Clusters, which tell GPCs, begin with 9.0.
  EXPECT_EQ(written_.at("chip").contains("gpc_of_tpc"), card.major >= 9);
  EXPECT_EQ(ran.out.find("not measured: chip/gpc_of_tpc: clusters begin with compute capability 9.0") != std::string::npos, card.major < 9)
      << ran.out;

  const Gpu gpu = read_gpu(file_.string());
  EXPECT_EQ(gpu.sms, card.sms);
  EXPECT_EQ(gpu.placement_order.front(), SmId{card.sms - 1}) << "the fake begins with its last SM";
  EXPECT_EQ(left(), "0 left");
}
INSTANTIATE_TEST_SUITE_P(
    Of, CalibrateCard,
    testing::Values(Card{"Tesla T4", kT4, "turing", "t4", 40, 7, 5, 3.2, 2.7e11, 1.2e12, 2},
                    Card{"NVIDIA A100-SXM4-40GB", kA100, "ampere", "a100", 108, 8, 0, 0.8, 1.4e12, 4e12, 32},
                    Card{"NVIDIA L4", kL4, "ada", "l4", 58, 8, 9, 1.5, 2.6e11, 2e12, 2},
                    Card{"NVIDIA H200 NVL", "name=NVIDIA H200 NVL;sms=114", "hopper", "h100-pcie", 114, 9, 0, 0.6, 4.6e12, 9.8e12, 64}),
    [](const auto& card) { return fmt::format("Capability{}_{}With{}Sms", card.param.major, card.param.minor, card.param.sms); });

/// By the virtual clock, of a host and a card that are several times slower than an H200's.
TEST_F(Calibrate, TakesUnderThreeMinutesOnASlowCard) {
  const Ran ran = calibrate(
      "name=a small card;major=7;minor=5;sms=14;clock_mhz=1485;threads=1024;blocks=16;shared_kib=64;reserved_shared=0;memory_gib=4;"
      "l2_mib=1;launch_call=20000;dispatch=20;dram_read=1.2e11;dram_write=1.1e11;l2_read=5e11;l2_write=3e11;sectors=2e11;fp64_units=2");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_LT(virtual_ms(), 180e3);
  EXPECT_GT(virtual_ms(), 1e3);
}

}  // namespace
}  // namespace corun
