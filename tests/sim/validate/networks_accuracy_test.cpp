// Do whole networks that share an H200 come out as measured (experiments/h200/networks)?  Of the mixes without a
// network that is set aside; runs of 200 ms, so that a commit can wait for them.  The bounds are of the 26 mixes of
// the first two sets, and of these with the eight of the third, which held networks set aside until their scores were
// spent.  `make test` simulates half of the mixes, `make test-all` all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/validate/networks_score.h"
#include "tests/support/sustained.h"
#include "tests/support/whole.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"

namespace corun::sim {
namespace {

constexpr const char* kNetworks = "experiments/h200/networks";
const std::set<std::string> kSecondSet{"gpt2_b2s256", "convnext_b8", "swin_b4", "mobilenet_b32"};

/// What `make test` simulates: each network at least once, and the cheaper mixes.
const std::vector<std::string> kPart{
    "decode-prefill",   "decode-vgg19",        "densenet201-prefill", "vit-bert16",     "distilbert-train",       "dlrm-prefill2k",
    "inception3-vit16", "prefill2k-resnet152", "resnet50-train",      "decode2k-train", "whisper-unet",           "decode-bert",
    "swin-resnet152",   "mobilenet-unet",      "decode-gpt2",         "convnext-dlrm",  "efficientnet-resnet152",
};

/// Simulated once for all tests here, which ctest runs in one process.
const MeasuredNetworks& simulated() {
  static const MeasuredNetworks all = [] {
    NetworksOptions options{{}, {}, std::chrono::milliseconds(200), 0, {}};
    for (const NetworkMix& mix : read_networks(find_networks(kNetworks), {}).mixes)
      if (!mix.set_aside && (whole() || std::ranges::find(kPart, mix.name) != kPart.end()))
        options.mixes.push_back(mix.name);
    MeasuredNetworks networks = read_networks(find_networks(kNetworks), options);
    simulate_networks(networks, options);
    return networks;
  }();
  return all;
}

/// Of these mixes and modes alone.
NetworksScore scored(std::set<std::string> mixes, const std::set<std::string>& modes) {
  MeasuredNetworks networks = simulated();
  std::erase_if(mixes, [&](const std::string& mix) {
    return std::ranges::find(networks.mixes, mix, &NetworkMix::name) == networks.mixes.end();
  });
  std::erase_if(networks.runs, [&](const MeasuredRun& run) {
    return !mixes.contains(networks.mixes[run.mix].name) || !modes.contains(run.mode);
  });
  EXPECT_EQ(networks.runs.size(), mixes.size() * modes.size());
  return score_networks(networks);
}

/// Without the mixes of the second set.
MeasuredNetworks first_mixes() {
  MeasuredNetworks networks = simulated();
  std::erase_if(networks.runs, [&](const MeasuredRun& run) {
    return std::ranges::any_of(networks.mixes[run.mix].networks,
                               [&](std::size_t n) { return kSecondSet.contains(networks.networks[n].name); });
  });
  return networks;
}

TEST(NetworksAccuracy, OfEachAloneAsAGraphIsWithinThreePercent) {
  const MeasuredNetworks& networks = simulated();
  ASSERT_EQ(networks.networks.size(), 27u);
  const std::map<std::string, double> sustained = sustained_ms(kNetworks);
  for (const Network& n : networks.networks)
    if (!n.set_aside) {
      const double there = sustained.contains(n.name) ? sustained.at(n.name) : n.measured_ms;
      EXPECT_NEAR(n.simulated_ms / there, 1, 0.03) << n.name;
    }
  EXPECT_TRUE(sustained.contains("prefill_4k"));
}

/// What a request takes without the profiler, launched one by one: in one half of the batches, to which its recording is
/// fitted, in the other half, in turns with them, and the median ratio of a batch to its neighbour.
struct Eagerly {
  double told = 0, other = 0, side_by_side = 0;
};

std::map<std::string, Eagerly> eagerly_ms() {
  const auto mean = [](const std::vector<double>& ms) {
    return std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(ms.size());
  };
  const std::string file = std::string(kNetworks) + "/eager.json.gz";
  const nlohmann::json measured = parse_json(*open_input(file), file);
  std::map<std::string, Eagerly> found;
  for (const auto& [name, row] : measured["networks"].items()) {
    const std::vector<double> told = row["told_ms"], other = row["eager_ms"];
    std::vector<double> ratios;
    for (std::size_t i = 0; i < told.size(); ++i) ratios.push_back(told[i] / other.at(i));
    std::ranges::sort(ratios);
    const std::size_t half = ratios.size() / 2;
    found[name] = {mean(told), mean(other), ratios.size() % 2 == 1 ? ratios[half] : (ratios[half - 1] + ratios[half]) / 2};
  }
  return found;
}

TEST(NetworksAccuracy, OfEachAloneLaunchedOneByOneIsWhatItsRecordingIsFittedTo) {
  const auto measured = eagerly_ms();
  for (const Network& n : simulated().networks) {
    if (n.set_aside) continue;
    EXPECT_NEAR(n.simulated_eager_ms / measured.at(n.name).told, 1, 0.02) << n.name;
  }
}

/// Wanted is 3 %.  The median of ratios of neighbours is reached by neither the host's drift nor its spikes, as means are.
TEST(NetworksAccuracy, OfEachAloneLaunchedOneByOneIsWithinThreePercentOfItsNeighbourWhereTwoBatchesAre) {
  const auto measured = eagerly_ms();
  std::set<std::string> not_repeated;
  std::size_t networks = 0;
  for (const Network& n : simulated().networks) {
    if (n.set_aside) continue;
    ++networks;
    const Eagerly& m = measured.at(n.name);
    if (std::abs(m.side_by_side - 1) > 0.03)
      not_repeated.insert(n.name);
    else
      EXPECT_NEAR(n.simulated_eager_ms / m.told * m.side_by_side, 1, 0.03) << n.name;
  }
  EXPECT_EQ(networks, 23u);
  EXPECT_EQ(not_repeated, (std::set<std::string>{"decode_4k", "distilbert_b1s128"})) << "at most a tenth may be left out";
}

/// By means of all batches.  Those of five of 23 networks are further than that from the told ones.
TEST(NetworksAccuracy, OfEachAloneLaunchedOneByOneIsWithinThreePercentWhereItsMeasurementRepeats) {
  const auto measured = eagerly_ms();
  RatioErrors errors;
  std::set<std::string> not_repeated;
  for (const Network& n : simulated().networks) {
    if (n.set_aside) continue;
    const auto [told, other, side_by_side] = measured.at(n.name);
    errors.add(n.measured_eager_ms, n.simulated_eager_ms);
    if (std::abs(told / other - 1) > 0.03)
      not_repeated.insert(n.name);
    else
      EXPECT_NEAR(n.simulated_eager_ms / other, 1, 0.03) << n.name;
  }
  ASSERT_EQ(errors.values.size(), 23u);
  EXPECT_EQ(not_repeated, (std::set<std::string>{"decode_4k", "distilbert_b1s128", "inception3_b1", "unet", "vgg19_b1"}));
  EXPECT_LE(errors.mean(), 0.02);
  EXPECT_LE(errors.median(), 0.015);
  EXPECT_NEAR(static_cast<double>(std::ranges::count_if(errors.values, [](double e) { return e <= 0.03; })), 18, 1)
      << "a known gap: all 23 within 3 % are wanted";
}

/// Half of `bert_b8_bf16`'s time has no counters, and `vit_b4` beside it is 6 to 10 % too fast since the classes were learnt from long
/// kernels too: latency 6.0 before, 6.4 since, STP 1.0 before, 1.3 since.
TEST(NetworksAccuracy, UnderStreamsAndPrioritiesIsWithinItsBounds) {
  const NetworksScore s = scored({"resnet50-resnet152", "decode-vgg19", "resnet50-distilbert", "distilbert-train",
                                  "vgg19-unet", "dlrm-prefill2k", "prefill2k-resnet152", "resnet50-train",
                                  "two-rt-resnet152", "vit-bert16", "decode-prefill"},
                                 {"streams", "priority"});
  EXPECT_LE(s.others.all.mean_latency.mean(), 0.065);
  EXPECT_LE(s.others.all.mean_latency.median(), 0.05);
  EXPECT_LE(s.others.all.throughput.mean(), 0.03);
  EXPECT_LE(s.others.all.stp.mean(), 0.0135);
}

/// Over 400 ms, as `sim validate` simulates them, throughput is 2.75 % off and STP 1.72; here 2.75 and 1.71.  p99 is 8.09 %
/// off here: 7.998 before, 8.002 since kernels without counters may find nothing in L2 (sim/model/DECISIONS.md, 392), 8.087
/// since a switch between graphs takes what was measured (sim/stages/DECISIONS.md, 398), of all 34 mixes 7.4 instead of 7.5.
TEST(NetworksAccuracy, OfAllMixesAndModesIsWithinItsBounds) {
  const MeasuredNetworks first = first_mixes();
  ASSERT_EQ(first.runs.size(), (whole() ? 26u : 13u) * 6u);
  const NetworksScore s = score_networks(first);
  EXPECT_LE(static_cast<double>(s.left_out), 0.1 * static_cast<double>(s.client_rows));
  EXPECT_LE(s.others.all.mean_latency.mean(), 0.07);
  EXPECT_LE(s.others.all.mean_latency.median(), 0.05);
  EXPECT_LE(s.others.all.p99.mean(), 0.0815);
  EXPECT_LE(s.others.all.stp.mean(), 0.021);
  for (const auto& [mode, errors] : s.others.by_mode) EXPECT_LE(errors.mean_latency.mean(), 0.09) << mode;
  EXPECT_GE(s.others.by_slowdown.simulated.right(), whole() ? 24u : 12u);
  EXPECT_GE(s.others.by_p99.simulated.right(), whole() ? 22u : 11u);
  EXPECT_LE(s.others.all.throughput.mean(), 0.03);
}

/// With the second set.  Over 400 ms latency is 6.5 % off in the mean and 4.2 in the median, throughput 2.93; here 6.6,
/// 4.3 and 2.97.
TEST(NetworksAccuracy, WithTheSecondSetIsWithinItsBounds) {
  ASSERT_EQ(simulated().mixes.size(), whole() ? 34u : 17u);
  const NetworksScore s = score_networks(simulated());
  EXPECT_LE(s.others.all.mean_latency.mean(), 0.08);
  EXPECT_LE(s.others.all.mean_latency.median(), 0.05);
  EXPECT_LE(s.others.all.p99.mean(), 0.12);
  EXPECT_LE(s.others.all.stp.mean(), 0.025);
  for (const auto& [mode, errors] : s.others.by_mode) EXPECT_LE(errors.mean_latency.mean(), 0.12) << mode;
  EXPECT_LE(s.others.all.throughput.mean(), 0.03);
  EXPECT_GE(s.others.by_slowdown.simulated.right(), whole() ? 31u : 16u);
  EXPECT_GE(s.others.by_p99.simulated.right(), whole() ? 29u : 15u);
}

/// What people need to be told: beside a prefill a decode is fastest in turns of processes.
TEST(NetworksAccuracy, TheModeThatIsBestForADecodeBesideAPrefillIsTimeSlicing) {
  const NetworksScore s = scored({"decode-prefill"}, {"streams", "priority", "timeslice"});
  std::map<std::string, double> measured, simulated;
  for (const MixRow& row : s.rows) {
    measured[row.mode] = row.clients.front().measured.mean_us;
    simulated[row.mode] = row.clients.front().simulated.mean_us;
  }
  for (const auto& of : {measured, simulated}) {
    EXPECT_LT(of.at("timeslice"), of.at("priority"));
    EXPECT_LT(of.at("timeslice"), of.at("streams"));
  }
}

}  // namespace
}  // namespace corun::sim
