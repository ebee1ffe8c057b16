// Microbenchmarks in pairs on an H200 (experiments/reference/h200-contention.txt): persistent blocks of 256
// threads, on the same SMs, one launched before the other, and on SMs apart.  What a unit asks for follows
// from what it does and from its rates alone; the pairs are then predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "sim/model/contention.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr std::array kBlocks = {1u, 2u, 3u, 4u, 6u, 8u};  // an SM: the columns of the solo table
constexpr double kWarps = 8;
constexpr double kAllSms = 132;

/// Units per ms alone, by SMs and blocks an SM.
using Rates = std::map<std::pair<unsigned, unsigned>, double>;

struct Client {
  std::string kind;
  unsigned blocks = 0, sms = 0;  // blocks an SM
  auto operator<=>(const Client&) const = default;
};
struct Pair {
  Client first, second;
  bool same_sms;
  double a, b;  // rate over rate alone
};

struct Measured {
  std::map<std::string, Rates> solo;
  std::vector<Pair> pairs;
};

Measured read() {
  Measured m;
  std::ifstream file("experiments/reference/h200-contention.txt");
  enum { nothing, solo, same, split } section = nothing;
  for (std::string line, word; std::getline(file, line);) {
    std::istringstream in(line);
    if (line.starts_with("solo")) {
      section = solo;
    } else if (line.starts_with("same-SM")) {
      section = same;
    } else if (line.starts_with("split-SM")) {
      section = split;
    } else if (section == solo && !line.starts_with("kind")) {
      std::string kind;
      unsigned sms = 0;
      in >> kind >> sms;
      for (const unsigned blocks : kBlocks) in >> m.solo[kind][{sms, blocks}];
    } else if (section == same || section == split) {
      Pair p{{"", 4, 132}, {"", 4, 132}, section == same, 0, 0};
      in >> p.first.kind >> (section == same ? p.first.blocks : p.first.sms);
      in >> p.second.kind >> (section == same ? p.second.blocks : p.second.sms);
      while (in >> word && word != "rel") continue;
      in >> p.a >> p.b;
      m.pairs.push_back(p);
    }
  }
  return m;
}

/// Units per ms.
double rate(const Client& c, double block_time) { return c.blocks * c.sms / block_time * 1e9; }

Contender contender(const BlockLoad& load, const Client& c) {
  return {&load, static_cast<double>(c.blocks * c.sms), static_cast<double>(c.sms), 0, 0};
}

double rate_alone(const BlockLoad& load, const Client& c, const MemoryLimits& limits) {
  Contender one = contender(load, c);
  share_memory({&one, 1}, limits);
  return rate(c, alone_on_sm(one.issue_ps, c.blocks, one.delay_ps));
}

/// What a unit moves, and the issue slots that its memory accesses take at least.
struct Unit {
  double bytes = 0;   // from DRAM
  double rounds = 0;  // of loads by a thread; 0: its instructions bound it, and its rates alone show how many
  bool random = false;
};
const std::map<std::string, Unit> kUnits = {
    {"compute", {}},
    {"stream", {64 * 1024, 64 * 1024 / 256 / 32}},  // two 16-byte loads a round, as in KernelModel
    {"mixed", {16 * 1024, 0}},
    {"latency", {256 * 16 * 64, 16, true}},  // a random sector moves 64 bytes: experiments/h200/contention
};
constexpr double kInstructionsPerRound = 25;  // as in KernelModel

BlockLoad load_of(const Unit& unit, const Rates& solo, const Gpu& gpu, const MemoryLimits& limits) {
  BlockLoad load;
  const double lone = 1e9 / solo.at({1, 1});  // ps of a block that has the GPU to itself
  if (unit.rounds > 0) {
    load.sm.issue_ps = unit.rounds * kWarps * kInstructionsPerRound / (gpu.sm.sub_partitions * gpu.clock_hz) * 1e12;
  } else {  // from one block and from eight on one SM
    double low = 0, high = lone;
    for (int i = 0; i < 50; ++i) {
      load.sm.issue_ps = (low + high) / 2;
      const double time = alone_on_sm(load.sm.issue_ps, 8, lone - load.sm.issue_ps);
      (8 / time * 1e9 > solo.at({1, 8}) ? low : high) = load.sm.issue_ps;
    }
  }
  load.sm.fixed_ps = lone - load.sm.issue_ps;
  if (unit.bytes == 0) return load;

  load.memory.read_bytes = load.memory.l2_read_bytes = unit.bytes;
  load.memory.random = unit.random;
  load.memory.l2_ps = load.memory.l2_read_bytes / limits.l2.read_bytes_per_ps;
  double most = 0;
  for (const auto& [where, units] : solo) most = std::max(most, units);
  load.memory.dram_cost_ratio = std::max(1.0, limits.dram.read_bytes_per_ps / (most / 1e9 * unit.bytes));
  // How much of the rest is waits that others stretch: by the rates on half of the SMs and more.
  double best = 1e300;
  BlockLoad found;
  for (double share = 0; share <= 1; share += 0.02) {
    BlockLoad l = load;
    l.memory.wait_ps = share * load.sm.fixed_ps / limits.dram.over_l2_ratio;
    l.sm.fixed_ps = (1 - share) * load.sm.fixed_ps;
    double error = 0;
    for (const auto& [where, units] : solo)
      if (where.first >= kAllSms / 2)
        error += std::pow(rate_alone(l, {"", where.second, where.first}, limits) / units - 1, 2);
    if (error < best) best = error, found = l;
  }
  return found;
}

class ContentionPairs : public testing::Test {
 protected:
  ContentionPairs() {
    for (const auto& [kind, unit] : kUnits)
      loads_[kind] = load_of(unit, measured_.solo.at(kind), gpu_, limits_);
  }
  /// Rates over rates alone.
  std::pair<double, double> predict(const Pair& p) const {
    const BlockLoad &a = loads_.at(p.first.kind), &b = loads_.at(p.second.kind);
    std::array both = {contender(a, p.first), contender(b, p.second)};
    share_memory(both, limits_);
    std::array<double, 2> time;
    if (p.same_sms) {
      std::array<SmShare, 2> shares = {
          {{both[0].issue_ps, both[0].delay_ps, p.first.blocks}, {both[1].issue_ps, both[1].delay_ps, p.second.blocks}}};
      share_sm(shares, kMostApart, limits_);
      time = {shares[0].time_ps, shares[1].time_ps};
    } else {
      time = {alone_on_sm(both[0].issue_ps, p.first.blocks, both[0].delay_ps),
              alone_on_sm(both[1].issue_ps, p.second.blocks, both[1].delay_ps)};
    }
    return {rate(p.first, time[0]) / rate_alone(a, p.first, limits_),
            rate(p.second, time[1]) / rate_alone(b, p.second, limits_)};
  }

  Gpu gpu_ = read_gpu("h200");
  MemoryLimits limits_ = limits_of(gpu_);
  Measured measured_ = read();
  std::map<std::string, BlockLoad> loads_;
};

TEST_F(ContentionPairs, RelativeRatesAreWithinFiveHundredthsInTheMean) {
  ASSERT_EQ(measured_.pairs.size(), 192u);
  for (const bool same_sms : {true, false}) {
    double sum = 0, n = 0;
    for (const Pair& p : measured_.pairs) {
      if (p.same_sms != same_sms) continue;
      const auto [a, b] = predict(p);
      sum += std::abs(a - p.a) + std::abs(b - p.b), n += 2;
    }
    EXPECT_LE(sum / n, 0.05) << (same_sms ? "on the same SMs" : "on SMs apart");
    RecordProperty(same_sms ? "mean_same_sms" : "mean_apart", std::to_string(sum / n));
  }
}

/// What a client gains by being launched first, where it is more than the repeats differ by.
TEST_F(ContentionPairs, WhoIsLaunchedFirstIsFavouredAsMeasured) {
  constexpr double kNoise = 0.03;
  std::map<std::pair<Client, Client>, std::pair<const Pair*, std::pair<double, double>>> all;
  for (const Pair& p : measured_.pairs)
    if (p.same_sms) all[{p.first, p.second}] = {&p, predict(p)};
  int effects = 0;
  for (const auto& [who, here] : all) {
    const auto& there = all.at({who.second, who.first});
    const double measured = here.first->a - there.first->b;
    const double predicted = here.second.first - there.second.second;
    if (std::abs(measured) <= kNoise) continue;
    ++effects;
    EXPECT_GT(measured * predicted, 0)
        << who.first.kind << ' ' << who.first.blocks << " beside " << who.second.kind << ' '
        << who.second.blocks << ": measured " << measured << ", predicted " << predicted;
  }
  EXPECT_GE(effects, 50);
}

TEST_F(ContentionPairs, RatesAloneFollowFromTheUnits) {
  double sum = 0, n = 0;
  for (const auto& [kind, solo] : measured_.solo)
    for (const auto& [where, units] : solo) {
      // What one SM's way to memory bounds is not in the model of a unit.
      if (where.first < kAllSms / 4 && where.second > 4) continue;
      sum += std::abs(rate_alone(loads_.at(kind), {"", where.second, where.first}, limits_) / units - 1);
      ++n;
    }
  EXPECT_LE(sum / n, 0.03);
}

}  // namespace
}  // namespace corun::sim
