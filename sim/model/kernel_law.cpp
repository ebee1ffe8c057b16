#include "sim/model/kernel_law.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/model/kernel_prior.h"
#include "traces/model/expects.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

// Usual values and spreads, the latter as standard deviations of logarithms.  They were chosen by the errors of solo
// times on parts of ordinary kernels (experiments/reference, h200/corun_heldout, h200/networks, h200/parts), with those
// set aside out of view.  No measurement gives them: they are judged.

/// How much longer a block keeps its SM than counters say.
constexpr double kServiceSpread = 0.15;
/// The same of a tile, and how far the share of its time in which it keeps its SM busy is off what the card's tiles
/// have: shared memory and the tensor pipe are in no counter.
constexpr double kTileSpread = 1, kTileUseSpread = 0.3;
/// Waits for memory, over what the bytes in flight imply.
constexpr double kWaitSpread = 0.8;
/// Of a block's time: small tiles of shared memory are not what it waits for.
constexpr double kMostUsualWait = 0.25;
/// Cost of a byte beside a streamed one; of single sectors, of which DRAM moves two and opens a row for each.
constexpr double kCost = 1.08, kCostSpread = 0.09, kSectorCost = 2, kSectorCostSpread = 0.4;
/// The same at L2, where reads may be of sectors.
constexpr double kL2CostSpread = 0.3;
/// From a block's place to its first work, and what a warp's instruction takes beyond its slot, cycles.
constexpr double kUsualStart = 250e3, kInstructionCycles = 2;
/// Of the latency that these two give; of tensor code, whose latency they do not tell.
constexpr double kLatencySpread = 0.35, kTensorLatencySpread = 2;
/// Of its class's counters, where a kernel has none, and of the latency that they give.
constexpr double kClassSpread = 0.4;
/// A launch takes this once beside its launch cost, ps: the times of 41 short ordinary kernels of experiments/h200/parts on
/// 8 and 16 SMs leave 1.7 us on infinitely many (medians by kind 1.5 to 1.9).
constexpr double kOnce = 700e3;
/// Of solo times, repeated.
constexpr double kMeasured = 0.02;

constexpr double kLeastLatency = 1e4, kMostCost = 6;
constexpr int kSolvingSteps = 9;
/// Of a candidate's cost over the best's, up to which it counts.
constexpr double kStillLikely = 9;

double unlikely(double value, double usual, double spread) { return square(distance(value, usual) / spread); }
/// The likelihood of something so unlikely, beside 1: near exp(-unlikely / 2), by four terms.
double weight_of(double unlikely) {
  const double x = unlikely / 2;
  return 1 / (1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4))));
}

/// Its blocks hand out the work among themselves: one or two of them fill an SM, and one wave the GPU.
bool shares_out(const KernelFeatures& f) {
  return f.max_active_blocks <= 2 && f.tiled() &&
         f.load.extent.blocks == static_cast<double>(f.max_active_blocks) * f.gpu.sms;
}

/// x in [low, high] at which the growing function reaches `target`: Illinois' regula falsi.
template <typename F>
double solve(F&& at, double low, double at_low, double high, double at_high, double target) {
  double x = high;
  int side = 0;
  for (int i = 0; i < kSolvingSteps; ++i) {
    const double a = at_low - target, b = at_high - target;
    x = b - a > 0 ? (low * b - high * a) / (b - a) : (low + high) / 2;
    const double value = at(x);
    if (std::abs(value - target) < 1e-4 * target) break;
    if (value < target) {
      low = x, at_low = value;
      if (side < 0) at_high = target + b / 2;
      side = -1;
    } else {
      high = x, at_high = value;
      if (side > 0) at_low = target + a / 2;
      side = 1;
    }
  }
  return x;
}

/// Usual values of a kernel, by its counters or its class.
struct Usual {
  Usual(const KernelFeatures& f, const SoloPoint& whole);

  bool multiplies = false;  // tiles of matrices
  bool tile = false;        // of whose use of its SM counters tell little
  bool sectors = false;     // DRAM bounds it by accesses of single sectors
  double tile_use = 0;
  double block = 0;                                   // ps, on average
  double service = 0, most_service = 0;               // ps that a block keeps its SM, as counted and at most
  double wait = 0, latency = 0;                       // ps
  double cost = 1;                                    // of its bytes
  double life = 0, resident = 0;  // of a block, ps, and blocks, where the dispatcher bounds the launch
};

Usual::Usual(const KernelFeatures& f, const SoloPoint& whole) {
  const double warps = std::ceil(f.kernel.threads_per_block() / 32.0);
  const double serial = f.least_issue * f.gpu.sm.sub_partitions / warps;  // a warp's instructions, a cycle each
  const Prior* const known = prior_of(f.kernel.name);
  multiplies = f.tiled() && known != nullptr && known->fills_tiles();
  const Contention& c = f.gpu.contention;
  tile = multiplies && f.tensor <= 0 && c.tile_use > 0;
  const double registers = demand_of(f.kernel, f.gpu.sm).registers / static_cast<double>(f.gpu.sm.registers);
  tile_use = std::min(c.tile_use, c.tile_use_per_registers * registers);
  const double n = f.residents(whole.sms);
  block = f.block_time(whole.sms, whole.time);
  service = std::min(std::max({f.least_issue / kSlotsReached, f.port(), f.busiest()}), 0.98 * block / n);
  most_service = std::max(service, block / n);
  wait = std::min(std::max(f.fill_wait, f.limits.l2.wait_ps), kMostUsualWait * block);
  latency = kUsualStart + std::max(kInstructionCycles * serial, f.tensor);
  sectors = (f.random || f.dram.sectors) && !f.l2_bound;
  cost = sectors ? kSectorCost : 1;
  // Where the dispatcher bounds the launch, its length says little of a block, but the warps active do.
  const double interval = static_cast<double>(f.gpu.dispatch_interval.count());
  if (f.kernel.counters.warps_active_pct && interval * f.load.extent.blocks > kDispatchBound * whole.time) {
    life = *f.kernel.counters.warps_active_pct / 100 * f.gpu.sm.max_warps / warps * whole.sms * interval + kTurnover;
    resident = std::min({life / interval, f.load.extent.blocks, static_cast<double>(f.max_active_blocks) * whole.sms});
  }
}

class Search {
 public:
  Search(const KernelFeatures& f, const SoloPoint& whole, std::span<const SoloPoint> parts)
      : f_(f), whole_(whole), parts_(parts), usual_(f, whole), found_(f.load) {}

  BlockLoad run() {
    // Else its SM serves it alone either way.
    const bool open = usual_.most_service > usual_.service && (usual_.tile || f_.max_active_blocks > 1);
    if (f_.prior != nullptr) {
      of_class();
    } else {
      const double spread = 1 + 1.5 * latency_spread();
      for (const double service : {0.0, 0.05, 0.12, 0.25, 0.45, 0.7, 0.85, 1.0}) {
        if (service > 0 && !open) break;
        for (const double wait : {0.37, 0.61, 1.0, 1.65, 2.7, 5.5}) {
          for (const double cost : {0.98, 1.04, 1.08, 1.14, 1.25, 1.45}) attempt({service, wait, cost, std::nullopt});
          for (const double latency : {1 / spread, 1.0, spread}) attempt({service, wait, 0, latency});
        }
      }
      for (const double step : {1.0, 0.5, 0.25}) refine(step, open);
    }
    return parts_.empty() ? middle() : found_;
  }

 private:
  struct Point {
    double service = 0;  // 0: as counted; 1: all of its time; of a class: times the usual one
    double wait = 1;     // over the usual one
    double cost = 1;     // of its bytes; the latency is solved for,
    std::optional<double> latency;  // unless this is given, over the usual one: then the cost is
  };

  /// A class is too rough to tell waits by; what its blocks ask for is as likely a few times more as less.
  void of_class() {
    static constexpr std::array kTimes{0.4, 0.63, 1.0, 1.6, 2.5};
    for (const double service : kTimes) {
      if (service * usual_.service > usual_.most_service) break;
      for (const double times : kTimes) {
        attempt({service, 1, times, std::nullopt});
        attempt({service, 1, 0, times});
      }
    }
  }

  void refine(double step, bool open) {
    const Point at = best_;
    const auto times = [step](double most, double way) { return way < 0 ? 1 / (1 + most * step) : 1 + most * step * way; };
    for (const double service : {-0.06, 0.0, 0.06})
      for (const double wait : {-1.0, 0.0, 1.0})
        for (const double other : {-1.0, 0.0, 1.0}) {
          Point near = at;
          if (open) near.service = std::clamp(at.service + step * service, 0.0, 1.0);
          near.wait *= times(0.35, wait);
          near.latency ? *near.latency *= times(0.7 * latency_spread(), other) : near.cost *= times(0.05, other);
          attempt(near);
        }
  }

  double limit() const { return best_cost_ + kStillLikely; }
  double latency_spread() const {
    return usual_.multiplies ? kTensorLatencySpread : f_.prior != nullptr ? kClassSpread : kLatencySpread;
  }
  double late(double latency) const {
    // A shorter one is no wonder: instructions overlap.
    return unlikely(std::max(latency, kLeastLatency), usual_.latency, latency_spread()) * (latency < usual_.latency ? 0.25 : 1);
  }
  double dear(double cost) const {
    if (f_.prior != nullptr) return unlikely(cost, 1, kClassSpread);
    if (f_.l2_bound) return unlikely(cost, 1, kL2CostSpread);
    return usual_.sectors ? unlikely(cost, 1, kSectorCostSpread) : unlikely(cost, kCost, kCostSpread);
  }
  double own(const BlockLoad& l) const {
    return usual_.life > 0 ? block_among(f_, l, whole_.sms, usual_.resident) : KernelLaw::length(f_, l, whole_.sms);
  }

  void attempt(const Point& p) {
    BlockLoad l = f_.load;
    if (f_.prior != nullptr && l.memory.reread_bytes > 0) {  // which reads its own traffic spares, a class does not tell
      l.memory.read_bytes = *f_.kernel.counters.dram_read_bytes / l.extent.blocks;
      l.memory.reread_bytes = 0;
    }
    l.sm.issue_ps = f_.prior != nullptr ? usual_.service * p.service
                                        : usual_.service + p.service * (usual_.most_service - usual_.service);
    l.memory.wait_ps = std::min(usual_.wait * p.wait, f_.most_wait);
    double prior = unlikely(p.wait, 1, kWaitSpread);
    prior += unlikely(l.sm.issue_ps, usual_.service, usual_.tile ? kTileSpread : f_.prior != nullptr ? kClassSpread : kServiceSpread);
    if (prior >= limit()) return;
    double& unit = f_.l2_bound ? l.memory.l2_ps : l.memory.dram_cost_ratio;
    const double usual_unit = unit * usual_.cost, target = usual_.life > 0 ? usual_.life : whole_.time;
    if (p.latency) {
      l.sm.fixed_ps = usual_.latency * *p.latency;
      prior += late(l.sm.fixed_ps);
      const auto at = [&](double cost) {
        unit = usual_unit * cost;
        return own(l);
      };
      const double least_cost = f_.prior != nullptr ? 1 / kMostCost : 0.9;
      const double least = at(least_cost), most = at(kMostCost);
      if (least > target || most < target) return;
      const double cost = solve(at, least_cost, least, kMostCost, most, target);
      prior += dear(cost);
    } else {
      unit = usual_unit * p.cost;
      prior += dear(p.cost);
      if (prior >= limit()) return;
      const auto at = [&](double latency) {
        l.sm.fixed_ps = latency;
        return own(l);
      };
      const double least = at(0);
      if (least < target) {
        double high = usual_.block;
        double most = at(high);
        while (most < target) most = at(high *= 2);
        prior += late(solve(at, 0, least, high, most, target));
      } else if (f_.prior == nullptr) {
        prior += late(kLeastLatency);
      } else {
        return;
      }
    }
    judge(l, prior, p);
  }

  void judge(const BlockLoad& l, double prior, const Point& p) {
    double cost = prior;
    if (usual_.tile) cost += unlikely(l.sm.issue_ps / (l.sm.issue_ps + l.sm.fixed_ps + l.memory.wait_ps), usual_.tile_use, kTileUseSpread);
    cost += unlikely(own(l), usual_.life > 0 ? usual_.life : whole_.time, kMeasured);
    for (const SoloPoint& part : parts_) {
      if (cost >= limit()) return;
      cost += unlikely(KernelLaw::length(f_, l, part.sms), part.time, kMeasured);
    }
    if (cost >= limit()) return;
    seen_.push_back({cost, l});
    if (cost >= best_cost_) return;
    best_cost_ = cost, best_ = p, found_ = l;
  }

  /// The candidate in the middle of all, each by how likely it is, in the order of what they say of a quarter of the GPU.
  BlockLoad middle() {
    struct Ranked {
      double length, weight;
      std::size_t at;
    };
    std::vector<Ranked> ranked;
    double sum = 0;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const double weight = weight_of(seen_[i].cost - best_cost_);
      if (weight < 0.01) continue;
      ranked.push_back({KernelLaw::length(f_, seen_[i].load, std::max(1u, whole_.sms / 4)), weight, i});
      sum += weight;
    }
    std::ranges::stable_sort(ranked, {}, &Ranked::length);
    double below = 0;
    for (const Ranked& r : ranked)
      if ((below += r.weight) >= sum / 2) return seen_[r.at].load;
    return found_;
  }

  const KernelFeatures& f_;
  const SoloPoint whole_;
  const std::span<const SoloPoint> parts_;
  const Usual usual_;
  double best_cost_ = 1e300;
  Point best_;
  BlockLoad found_;
  struct Candidate {
    double cost;
    BlockLoad load;
  };
  std::vector<Candidate> seen_;
};

}  // namespace

double KernelLaw::length(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms) {
  CORUN_EXPECTS(sms != 0);
  const double places = std::min(load.extent.blocks, static_cast<double>(f.max_active_blocks) * sms);
  double sum = 0;
  if (shares_out(f)) {
    sum = load.extent.blocks / places * block_among(f, load, sms, places);
  } else {
    const double full = std::floor(load.extent.blocks / places + 1e-9), rest = load.extent.blocks - full * places;
    sum = block_among(f, load, sms, places) * (full < kDrifting ? full : f.waves(sms));
    if (full < kDrifting && rest >= 1) sum += block_among(f, load, sms, rest);
  }
  return std::max(sum, static_cast<double>(f.gpu.dispatch_interval.count()) * load.extent.blocks) +
         f.limits.sm.launch_cost_ps + kOnce;
}

KernelLaw::KernelLaw(const KernelFeatures& f, const SoloPoint& whole, std::span<const SoloPoint> parts) {
  CORUN_EXPECTS(whole.sms != 0 && whole.time > 0);
  CORUN_EXPECTS(std::ranges::all_of(parts, [](const SoloPoint& p) { return p.sms != 0 && p.time > 0; }));
  load_ = Search(f, whole, parts).run();
}

}  // namespace corun::sim
