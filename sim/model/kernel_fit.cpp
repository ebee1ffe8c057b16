#include "sim/model/kernel_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/model/kernel_prior.h"
#include "traces/model/expects.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

/// What a DRAM byte may cost beside a streamed one.
constexpr double kMostDramCost = 1.8;
/// The same where nothing but the time on the whole GPU says so, and reads are not of single sectors.
constexpr double kMostStreamCost = 1.1;
/// How unlikely it is that a launch without counters whose data fit into L2 finds none of them there, as the
/// weights of a network's next layer: as unlikely as a wait twice as long as usual.
constexpr double kOthersData = 0.01;
/// From a block's place to its first work.
constexpr double kBlockStart = 100e3;
/// Cycles of an instruction of a warp that waits for no memory beyond its SM, on average of a kernel: a
/// result of arithmetic is there after 4 to 8, a read from L1 or shared memory after 25 to 40.
constexpr double kMostCycles = 12;
/// Steps in which the latency of a block's own is found that makes its kernel's solo time.
constexpr int kFixedBisections = 24;
/// Steps in which the issue time of a kernel is found that does not come to the slots at random.
constexpr int kIssueBisections = 20;


}  // namespace

double block_among(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms, double blocks) {
  const BlockLoad l = f.on(load, sms);
  const double residents = std::ceil(blocks / sms - 1e-9);
  Contender one{&l, blocks, blocks / residents, 0};
  share_memory({&one, 1}, f.limits);
  return alone_on_sm(l.sm.issue_ps, residents, one.delay_ps, l.sm.arrival_randomness);
}

double length(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms) {
  CORUN_EXPECTS(sms != 0);
  const double places = std::min(load.extent.blocks, static_cast<double>(f.max_active_blocks) * sms);
  const double full = std::floor(load.extent.blocks / places + 1e-9), rest = load.extent.blocks - full * places;
  const double block = block_among(f, load, sms, places);
  double sum = block * (full < kDrifting ? full : f.waves(sms));
  if (full < kDrifting && rest >= 1) sum += block_among(f, load, sms, rest);
  return std::max(sum, static_cast<double>(f.gpu.dispatch_interval.count()) * load.extent.blocks) +
         f.limits.sm.launch_cost_ps;
}

namespace {

/// The same at the average residency of all waves: smoother in the shape, which a fit to several points
/// needs.
double average_length(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms) {
  const BlockLoad l = f.on(load, sms);
  const double resident = f.load.extent.blocks / f.waves(sms);
  Contender one{&l, resident, resident / l.extent.residents, 0};
  share_memory({&one, 1}, f.limits);
  const double block = alone_on_sm(one.issue_ps, l.extent.residents, one.delay_ps, l.sm.arrival_randomness);
  return block * f.waves(sms) + f.limits.sm.launch_cost_ps;
}

/// The same as a persistent kernel with `each` workers on each SM of the whole GPU, but for what taking a
/// block costs.
double length_of_workers(const KernelFeatures& f, const BlockLoad& load, std::uint32_t each) {
  const double workers = std::min(f.load.extent.blocks, static_cast<double>(each) * f.gpu.sms);
  const double rounds = f.load.extent.blocks / workers;
  return block_among(f, load, f.gpu.sms, workers) *
             (rounds < kDrifting ? std::ceil(rounds - 1e-9) : rounds + 0.5) +
         f.limits.sm.launch_cost_ps;
}

/// How far off the share of a block's time is that others of its kernel stretch: as measured by the kernel's
/// length with fewer workers over that with the most.
double workers_error(const KernelFeatures& f, const BlockLoad& load) {
  if (f.kernel.persistent_time_by_ctas.size() < 2) return 0;
  const auto& [most, shortest] = *f.kernel.persistent_time_by_ctas.rbegin();
  const double all = length_of_workers(f, load, most);
  double error = 0;
  for (const auto& [each, time] : f.kernel.persistent_time_by_ctas)
    if (each != most)
      error += square(distance(length_of_workers(f, load, each) / all,
                               static_cast<double>(time.count()) / static_cast<double>(shortest.count())));
  return error;
}

}  // namespace

BlockLoad fit_curve(const KernelFeatures& f, std::span<const SoloPoint> curve) {
  CORUN_EXPECTS(curve.size() >= 2);
  CORUN_EXPECTS(std::ranges::all_of(curve, [](const SoloPoint& p) { return p.sms != 0 && p.time > 0; }));
  const SoloPoint& first = curve.front();
  const double n = f.residents(first.sms), time = f.block_time(first.sms, first.time);
  double least = f.busiest();
  if (f.random) least = std::max(least, f.sectors / f.limits.sm.sector_bytes_per_ps);
  least = std::min(least, time / n * 0.98);
  const double most_delay = std::max(time - least / (1 - (n - 1) * least / time), 0.02 * time);
  const double most_fixed = f.tiled() ? 1e300 : kBlockStart + f.warp_time(kMostCycles);
  const double wait_floor = std::min(0.9 * most_delay / f.limits.dram.over_l2_ratio, f.fill_wait);

  double best = 1e300, best_delay = 0, best_share = 0, best_cost = 0, best_randomness = 1;
  BlockLoad found = f.load;
  const auto attempt = [&](double delay, double share, double cost, double arrival_randomness) {
    BlockLoad l = f.load;
    const double r = time - delay;
    l.sm.issue_ps = r / (1 + (n - 1) * r / time);
    if (arrival_randomness < 1) {  // more, as it waits less for the same time in all
      double low = l.sm.issue_ps, high = time / n;
      for (int i = 0; i < kIssueBisections; ++i) {
        const double middle = (low + high) / 2;
        (alone_on_sm(middle, n, delay, arrival_randomness) < time ? low : high) = middle;
      }
      l.sm.issue_ps = high;
      l.sm.arrival_randomness = arrival_randomness;
    }
    (f.l2_bound ? l.memory.l2_ps : l.memory.dram_cost_ratio) *= cost;
    // At the first point, memory is nearly idle; what little it stretches is taken out of the wait.
    l.sm.fixed_ps = (1 - share) * delay;
    l.memory.wait_ps = 1;
    {
      BlockLoad probe = f.on(l, first.sms);
      probe.sm.fixed_ps = 0;
      const double resident = f.load.extent.blocks / f.waves(first.sms);
      probe.sm.issue_ps = 0;
      probe.memory.wait_ps = 1;
      Contender one{&probe, resident, resident / n, 0};
      // The stretch at the measured rate: let the block take as long as it does.
      probe.sm.fixed_ps = time;
      share_memory({&one, 1}, f.limits);
      const double inflation = std::max(1.0, one.delay_ps - time), asked = share * delay / inflation;
      l.memory.wait_ps = std::min(asked, f.most_wait);  // no more than its loads can, one after the other
      l.sm.fixed_ps += (asked - l.memory.wait_ps) * inflation;
    }
    double error =
        (f.l2_bound ? 0.005 : 0.1) * square(distance(cost, 1)) + 0.0003 * square(distance(most_delay, delay));
    if (l.sm.fixed_ps > most_fixed) error += 0.03 * square(distance(l.sm.fixed_ps, most_fixed));
    if (l.memory.wait_ps < wait_floor)
      error += 0.03 * square(distance(std::max(l.memory.wait_ps, 0.01 * wait_floor), wait_floor));
    if (l.memory.wait_ps > wait_floor && wait_floor > 0 && f.tiled())
      error += 0.003 * square(distance(l.memory.wait_ps, wait_floor));
    if (error < best) error += workers_error(f, l);
    for (const SoloPoint& p : curve) {
      if (error >= best) return;
      error += square(distance(average_length(f, l, p.sms), p.time));
    }
    if (error < best)
      best = error, best_delay = delay, best_share = share, best_cost = cost,
      best_randomness = arrival_randomness, found = l;
  };

  const double most_cost = f.l2_bound ? (f.load.sm.tensor ? 1 : f.limits.l2.sector_cost_ratio) : kMostDramCost;
  std::vector<double> costs;
  for (const double cost : {0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.6, 1.8, f.limits.l2.sector_cost_ratio})
    if (cost <= most_cost) costs.push_back(cost);
  for (double delay = 1; delay > 0.15; delay -= n > 1 ? 0.1 : 1)
    for (const double share : {0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0})
      for (const double cost : costs) attempt(delay * most_delay, share, cost, 1);
  if (f.kernel.persistent_time_by_ctas.size() > 1)  // which can tell a block that hardly waits
    for (const double arrival_randomness : {1.0, 0.5, 0.2, 0.0})
      for (const double delay : {0.15, 0.1, 0.07, 0.05, 0.03, 0.02})
        for (const double share : {0.02, 0.1, 0.3, 0.5, 0.7, 1.0})
          for (const double cost : costs) attempt(delay * most_delay, share, cost, arrival_randomness);
  if (n > 1)
    for (const double arrival_randomness : {0.5, 0.2, 0.0})
      for (double delay = 1; delay > 0.15; delay -= 0.1)
        for (const double share : {0.02, 0.1, 0.3, 0.6, 1.0})
          attempt(delay * most_delay, share, std::min(1.0, most_cost), arrival_randomness);
  for (const double step : {0.05, 0.025}) {
    const double delay = best_delay, share = best_share, cost = best_cost,
                 arrival_randomness = best_randomness;
    for (const double d : {delay * (1 - step), delay, std::min(most_delay, delay * (1 + step))})
      for (const double s : {std::max(0.02, share - step), share, std::min(1.0, share + step)})
        for (const double k : {cost * (1 - step / 2), cost, std::min(most_cost, cost * (1 + step / 2))})
          attempt(d, s, k, arrival_randomness);
  }
  return found;
}

BlockLoad fit_whole(const KernelFeatures& f, const SoloPoint& whole) {
  CORUN_EXPECTS(whole.sms != 0 && whole.time > 0);
  BlockLoad base = f.load;
  const double n = f.residents(whole.sms), time = f.block_time(whole.sms, whole.time);
  const double warps = std::ceil(f.kernel.threads_per_block() / 32.0);
  const double slots = f.gpu.sm.sub_partitions;
  const double instructions = f.least_issue / kSlotsReached,
               stores = f.l2_written / f.limits.sm.write_bytes_per_ps;
  double issue = std::max({instructions, f.port(), f.busiest()});
  // A warp's instructions one after the other, at four cycles each.
  double serial = 4 * f.least_issue * slots / warps;
  if (f.tensor > 0) {  // reads, instructions and the tensor pipe go on side by side; the stores come last
    issue = instructions + stores;
    serial = std::max(0.0, f.tensor - instructions);
  }
  const Prior* const known = prior_of(f.kernel.name);
  const bool multiplies = known == nullptr || known->multiplies();
  if (f.tiled() && multiplies && f.tensor <= 0 && !f.dram.bounds && f.gpu.contention.tile_use > 0) {
    const double registers =
        demand_of(f.kernel, f.gpu.sm).registers / static_cast<double>(f.gpu.sm.registers);
    const Contention& c = f.gpu.contention;
    const double use = std::min(c.tile_use, c.tile_use_per_registers * registers);
    const double alone = time / alone_on_sm(use, n, 1 - use);
    if (use * alone > issue) {
      issue = use * alone;
      serial = std::min(serial, (1 - use) * alone);
    }
    base.sm.processor_sharing = true;
  }
  base.sm.issue_ps = std::min(issue, time / n);
  const double fixed = std::min(kBlockStart + serial, 0.8 * time);
  const double wait = std::min(std::max(f.least_wait, f.limits.l2.wait_ps), 0.25 * time);

  // Where the dispatcher bounds the launch, its length says little of a block, but the warps active do.
  const double interval = static_cast<double>(f.gpu.dispatch_interval.count());
  double resident = 0, life = 0;
  if (f.kernel.counters.warps_active_pct && interval * base.extent.blocks > kDispatchBound * whole.time) {
    life = *f.kernel.counters.warps_active_pct / 100 * f.gpu.sm.max_warps / warps * whole.sms * interval +
           kTurnover;
    resident = std::min({life / interval, base.extent.blocks, static_cast<double>(f.max_active_blocks) * whole.sms});
  }
  const double fixed_weight = f.tensor > 0 ? 0.1 : base.sm.tensor ? 0.001 : 0.01;
  double best = 1e300;
  BlockLoad found = base;
  static constexpr double kOne[] = {1};
  static constexpr double kWaits[] = {0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0};
  const double costs[] = {0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.65, f.limits.l2.sector_cost_ratio};
  // What a class usually does is too rough to tell waits and costs of bytes by: 0.2 ms instead of 20.
  const std::span<const double> few(kOne);
  const auto search = [&](const BlockLoad& from, bool l2_bound, double unlikely) {
    const double most_cost = l2_bound   ? (from.sm.tensor ? 1 : f.limits.l2.sector_cost_ratio)
                             : f.random ? 2
                                        : kMostStreamCost;
    for (const double x : {0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.8, 2.2, 3.0, 4.0})
      for (const double w : f.prior != nullptr ? few : std::span<const double>(kWaits))
        for (const double c : f.prior != nullptr ? few : std::span<const double>(costs)) {
          if (from.sm.tensor && l2_bound && c != 1) continue;
          const double cost = f.random ? 1.65 * c : c;
          if (cost > most_cost) continue;
          BlockLoad l = from;
          l.sm.fixed_ps = x * fixed;
          l.memory.wait_ps = w * wait;
          (l2_bound ? l.memory.l2_ps : l.memory.dram_cost_ratio) *= cost;
          double error = unlikely + (l2_bound ? 0.02 : 1) * 0.3 * square(distance(c, 1)) +
                         0.02 * square(distance(w, 1)) + fixed_weight * square(distance((x + 0.2) / 1.2, 1));
          if (error >= best) continue;
          error += life > 0 ? square(distance(block_among(f, l, whole.sms, resident), life))
                            : square(distance(length(f, l, whole.sms), whole.time));
          if (error < best) best = error, found = l;
        }
  };
  search(base, f.l2_bound, 0);
  if (f.prior != nullptr && base.memory.uncached_share < 1) {  // does its time say that its data come from DRAM all the same?
    BlockLoad others_data = base;
    others_data.memory.uncached_share = 1;
    others_data.memory.staged = false;
    search(others_data, false, kOthersData);
  }
  base = found;
  if (!base.sm.processor_sharing || life > 0) return base;
  // A tile's use of its SM is known; what the priors leave of the solo time is latency of its own.
  double low = 0, high = time;
  for (int i = 0; i < kFixedBisections; ++i) {
    base.sm.fixed_ps = (low + high) / 2;
    (length(f, base, whole.sms) < whole.time ? low : high) = base.sm.fixed_ps;
  }
  return base;
}

}  // namespace corun::sim
