#include "sim/model/kernel_model.h"

#include <algorithm>
#include <cmath>

namespace corun::sim {
namespace {

/// L2 traffic counts a fill from DRAM and a write-back by half beside the SMs' accesses.
constexpr double kFillsCounted = 0.5;
/// Bytes that a thread reads at once: two 16-byte loads.
constexpr double kBytesInFlight = 32;
/// Threads that read half of that share the DRAM as if they waited half as long: shares go by bytes in flight
/// (experiments/h200/contention, `memory_pairs`).
constexpr double kLeastRounds = 0.5;
/// Shared memory from which a block is taken to stage its reads.
constexpr std::uint32_t kTile = 2048;
/// Share of tensor instructions that makes a tensor kernel.
constexpr double kTensorShare = 0.05;
/// A block moves at least this share of its reads itself.
constexpr double kLeastCompulsory = 0.3;
constexpr double kLeastSurvival = 0.1;
/// What a DRAM byte may cost beside a streamed one.
constexpr double kMostDramCost = 1.8;
/// Warps on an SM at which a kernel without counters is taken to fill the issue slots: half of an H200's 64.
constexpr double kWarpsToFillIssue = 32;

double square(double x) { return x * x; }
/// Distance between two times, symmetric and without a logarithm: (a - b) / sqrt(a b).
double distance(double a, double b) { return (a - b) / std::sqrt(a * b); }

}  // namespace

Time solo_length(std::uint64_t blocks, std::uint64_t places, Time block, Time interval) {
  // The first wave leaves the dispatcher one interval apart; each place is taken again as its block ends.  If
  // blocks are so short that the first places free up before the wave is out, the dispatcher never rests.
  if (blocks <= places || block < interval * static_cast<std::int64_t>(places))
    return interval * static_cast<std::int64_t>(blocks - 1) + block;
  const auto waves = static_cast<std::int64_t>((blocks - 1) / places);
  const auto last = static_cast<std::int64_t>((blocks - 1) % places);
  return std::max(interval * last + block * (waves + 1),
                  interval * static_cast<std::int64_t>(places - 1) + block * waves);
}

Time solo_block_time(const Kernel& kernel, Time solo_time, const Gpu& gpu, std::uint32_t sms) {
  const std::uint64_t n = std::uint64_t{sms} * room(capacity_of(gpu.sm), demand_of(kernel, gpu.sm));
  Time low{1}, high = std::max(solo_time, low);  // solo_length grows with the block time: bisect
  while (low < high) {
    const Time middle = low + (high - low) / 2;
    if (solo_length(kernel.blocks(), n, middle, gpu.dispatch_interval) < solo_time)
      low = middle + Time{1};
    else
      high = middle;
  }
  return low;
}

KernelModel::KernelModel(const Kernel& kernel, Time solo_time, const Gpu& gpu)
    : kernel_(kernel),
      gpu_(gpu),
      limits_(limits_of(gpu)),
      solo_time_(solo_time),
      room_(room(capacity_of(gpu.sm), demand_of(kernel, gpu.sm))) {
  load_.blocks = static_cast<double>(kernel.blocks());
  const Counters& c = kernel.counters;
  if (!c.warp_instructions && !c.issue_active_pct) {
    from_shape();
  } else {
    read_counters();
    std::vector<Point> curve;
    for (const auto& [sms, time] : kernel.solo_time_by_sms)
      curve.push_back({sms, static_cast<double>(time.count())});
    basis_ = curve.size() >= 2 ? "solo times by SMs and counters" : "solo time and counters";
    if (load_.issue <= 0 && load_.l2 <= 0) return;
    if (curve.size() >= 2)
      fit_curve(curve);
    else
      fit_whole({gpu.sms, static_cast<double>(solo_time.count())});
  }
}

std::uint32_t KernelModel::residents(std::uint32_t sms) const {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((kernel_.blocks() + sms - 1) / sms, 1, room_));
}

double KernelModel::waves(std::uint32_t sms) const {
  const double waves = load_.blocks / std::min(load_.blocks, static_cast<double>(room_) * sms);
  return waves < 20 ? std::ceil(waves - 1e-9) : waves + 0.5;  // many waves drift apart
}

double KernelModel::block_time(std::uint32_t sms, double time) const {
  return std::max(time - limits_.launch_cost, 0.2 * time) / waves(sms);
}

bool KernelModel::tiled() const { return kernel_.shared_memory_bytes() >= kTile; }

BlockLoad KernelModel::on(BlockLoad load, std::uint32_t sms) const {
  load.residents = residents(sms);
  load.sms = sms;
  load.places = std::uint64_t{room_} * sms;
  return load;
}

/// Without counters: all of the time is at the issue slots, as far as the warps can fill them.
void KernelModel::from_shape() {
  basis_ = "launch shape and solo time";
  const std::uint32_t n = residents(gpu_.sms);
  const double block = static_cast<double>((kernel_.block_times.size() == 1
                                                ? kernel_.block_times.front()
                                                : solo_block_time(kernel_, solo_time_, gpu_, gpu_.sms))
                                               .count());
  const double use = std::min(1.0, n * double(demand_of(kernel_, gpu_.sm).warps) / kWarpsToFillIssue);
  load_.issue = use * block / n;
  load_.fixed = block - load_.issue;
}

/// What the counters of one launch, taken with cold caches, say of a block.
void KernelModel::read_counters() {
  const Counters& c = kernel_.counters;
  const double blocks = load_.blocks;
  const double slots = gpu_.sm.sub_partitions * gpu_.clock_hz;  // warp instructions a second
  const std::uint32_t n = residents(gpu_.sms);
  const double block = block_time(gpu_.sms, static_cast<double>(solo_time_.count()));
  load_.issue = least_issue_ = c.warp_instructions ? *c.warp_instructions / blocks / slots * 1e12
                                                   : *c.issue_active_pct / 100 * block / n;
  load_.tensor =
      c.warp_instructions && c.tensor_instructions.value_or(0) > kTensorShare * *c.warp_instructions;

  const double read = c.dram_read_bytes.value_or(0);
  const double l2 = c.l2_bytes.value_or(1.5 * (read + c.dram_write_bytes.value_or(0)));
  if (l2 <= 0) return;
  const double counted = c.dram_write_bytes.value_or(0);
  // What it leaves dirty in L2 is written later, and not in its counters.
  const double write =
      std::max(counted, std::min(counted + limits_.l2_dirty_bytes, l2 / (1 + kFillsCounted) - read));
  const double through = std::max(l2 - kFillsCounted * (read + write), read + write);  // between SMs and L2
  const double l2_read = std::max(through - write, read), l2_written = through - l2_read;
  const double sectors = l2 - kFillsCounted * (read + write) - write;  // read
  random_ = sectors < 0.9 * read;
  sectors_ = std::max(0.0, random_ ? sectors : l2_read) / blocks;
  const double l2_time = l2_read / limits_.l2_read_bytes_per_ps + l2_written / limits_.l2_write_bytes_per_ps;
  const double dram_time = read / limits_.read_bytes_per_ps + write / limits_.write_bytes_per_ps;
  const double warm = survival(read + write, limits_.l2_shared_bytes, limits_.l2_bytes);
  l2_bound_ = l2_time > dram_time * (1 - warm);
  scattered_ = !tiled() && l2_bound_ && warm == 0 && read < 0.6 * l2_read &&
               through / static_cast<double>(solo_time_.count()) > 0.45 * limits_.l2_read_bytes_per_ps;

  load_.l2_read = l2_read / blocks;
  l2_written_ = l2_written / blocks;
  load_.l2 = l2_time / blocks;
  load_.read = read / blocks;
  load_.write = write / blocks;
  load_.cold = 1 - warm;
  load_.staged = tiled() && warm >= 0.5;
  if (!tiled() && warm == 0) {
    // Some of the reads were hits that the launch's own traffic spared: with none of it, all re-reads would
    // be.
    const double moved =
        0.4 * (read + write) / blocks * std::min(blocks, static_cast<double>(room_) * gpu_.sms);
    const double survives = survival(moved, limits_.l2_first_loss, limits_.l2_bytes);
    double reread = (l2_read - read) / std::max(survives, kLeastSurvival);
    double compulsory = read - reread * (1 - survives);
    if (compulsory < kLeastCompulsory * read) {
      compulsory = kLeastCompulsory * read;
      reread = (1 - kLeastCompulsory) * read / (1 - survives);
    }
    load_.read = compulsory / blocks;
    load_.reread = reread / blocks;
  }
  const double threads = kernel_.threads_per_block();
  const double rounds = tiled() ? l2_read / blocks / kernel_.shared_memory_bytes()
                                : l2_read / blocks / threads / kBytesInFlight;
  least_wait_ = limits_.l2_wait * std::max(kLeastRounds, rounds);
}

/// Length of the kernel alone on so many SMs, ps.
double KernelModel::length(const BlockLoad& load, std::uint32_t sms) const {
  const BlockLoad l = on(load, sms);
  const double resident = load_.blocks / waves(sms);  // over the whole launch, its thin ends included
  Contender one{&l, resident, resident / l.residents, 0};
  share_memory({&one, 1}, limits_);
  return alone_on_sm(l.issue, l.residents, one.delay) * waves(sms) + limits_.launch_cost;
}

/// Looks for the issue time, the waits and the cost of its bytes with which the solo times come out best.
/// Where they leave it open, waits are not below what the bytes imply, and bytes cost what streamed ones do.
void KernelModel::fit_curve(const std::vector<Point>& curve) {
  const Point& first = curve.front();
  const double n = residents(first.sms), time = block_time(first.sms, first.time);
  double least = least_issue_;
  if (random_) least = std::max(least, sectors_ / limits_.sm_sector_bytes_per_ps);
  least = std::min(least, time / n * 0.98);
  const double most_delay = std::max(time - least / (1 - (n - 1) * least / time), 0.02 * time);
  const double wait_floor = std::min(0.9 * most_delay / limits_.dram_over_l2, least_wait_);

  double best = 1e300, best_delay = 0, best_share = 0, best_cost = 0;
  BlockLoad found;
  const auto attempt = [&](double delay, double share, double cost) {
    BlockLoad l = load_;
    const double r = time - delay;
    l.issue = r / (1 + (n - 1) * r / time);
    (l2_bound_ ? l.l2 : l.dram_cost) *= cost;
    // At the first point, memory is nearly idle; what little it stretches is taken out of the wait.
    l.fixed = (1 - share) * delay;
    l.wait = 1;
    {
      BlockLoad probe = on(l, first.sms);
      probe.fixed = 0;
      const double resident = load_.blocks / waves(first.sms);
      probe.issue = 0;
      probe.wait = 1;
      Contender one{&probe, resident, resident / n, 0};
      // The stretch at the measured rate: let the block take as long as it does.
      probe.fixed = time;
      share_memory({&one, 1}, limits_);
      l.wait = share * delay / std::max(1.0, one.delay - time);
    }
    double error =
        (l2_bound_ ? 0.005 : 0.1) * square(distance(cost, 1)) + 0.0003 * square(distance(most_delay, delay));
    if (l.wait < wait_floor)
      error += 0.03 * square(distance(std::max(l.wait, 0.01 * wait_floor), wait_floor));
    if (l.wait > wait_floor && tiled()) error += 0.003 * square(distance(l.wait, wait_floor));
    for (const Point& p : curve) {
      if (error >= best) return;
      error += square(distance(length(l, p.sms), p.time));
    }
    if (error < best) best = error, best_delay = delay, best_share = share, best_cost = cost, found = l;
  };

  const double most_cost = l2_bound_ ? (load_.tensor ? 1 : limits_.l2_sector_cost) : kMostDramCost;
  std::vector<double> costs;
  for (const double cost : {0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.6, 1.8, limits_.l2_sector_cost})
    if (cost <= most_cost) costs.push_back(cost);
  for (double delay = 1; delay > 0.15; delay -= n > 1 ? 0.1 : 1)
    for (const double share : {0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0})
      for (const double cost : costs) attempt(delay * most_delay, share, cost);
  for (const double step : {0.05, 0.025}) {
    const double delay = best_delay, share = best_share, cost = best_cost;
    for (const double d : {delay * (1 - step), delay, std::min(most_delay, delay * (1 + step))})
      for (const double s : {std::max(0.02, share - step), share, std::min(1.0, share + step)})
        for (const double k : {cost * (1 - step / 2), cost, std::min(most_cost, cost * (1 + step / 2))})
          attempt(d, s, k);
  }
  load_ = found;
}

/// From the solo time on the whole GPU alone: the same parts, each near what the counters imply.
void KernelModel::fit_whole(const Point& whole) {
  const double n = residents(whole.sms), time = block_time(whole.sms, whole.time);
  double issue = std::max(least_issue_, load_.l2_read / limits_.sm_read_bytes_per_ps +
                                            l2_written_ / limits_.sm_write_bytes_per_ps);
  if (random_ || scattered_) issue = std::max(least_issue_, sectors_ / limits_.sm_sector_bytes_per_ps);
  load_.issue = std::min(issue, time / n);
  const double warps = std::ceil(kernel_.threads_per_block() / 32.0);
  // A warp's instructions one after the other, at four cycles each, and the start of a block.
  const double slots = gpu_.sm.sub_partitions;
  const double fixed = std::min(100e3 + 4 * least_issue_ * slots / warps, 0.8 * time);
  const double wait = std::min(least_wait_, 0.25 * time);
  double best = 1e300;
  BlockLoad found = load_;
  for (const double f : {0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.8, 2.2, 3.0, 4.0})
    for (const double w : {0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0})
      for (const double c : {0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.65, limits_.l2_sector_cost}) {
        if (load_.tensor && l2_bound_ && c != 1) continue;
        const double cost = random_ ? 1.65 * c : c;
        if (cost > 2) continue;
        BlockLoad l = load_;
        l.fixed = f * fixed;
        l.wait = w * wait;
        (l2_bound_ ? l.l2 : l.dram_cost) *= cost;
        double error = (l2_bound_ ? 0.02 : 1) * 0.3 * square(distance(c, 1)) + 0.01 * square(distance(w, 1)) +
                       (load_.tensor ? 0.001 : 0.01) * square(distance((f + 0.2) / 1.2, 1));
        if (error >= best) continue;
        error += square(distance(length(l, whole.sms), whole.time));
        if (error < best) best = error, found = l;
      }
  load_ = found;
}

BlockLoad KernelModel::load(std::uint32_t sms) const {
  if (load_.issue <= 0 && load_.l2 <= 0) return {};
  BlockLoad l = on(load_, sms);
  settle_alone(l, limits_);
  return l;
}

Time KernelModel::solo_time(std::uint32_t sms) const {
  const auto found = kernel_.solo_time_by_sms.find(sms);
  if (found != kernel_.solo_time_by_sms.end()) return found->second;
  if (sms == gpu_.sms || load_.issue <= 0) return solo_time_;
  const double ratio = length(load_, sms) / length(load_, gpu_.sms);
  return Time{static_cast<std::int64_t>(static_cast<double>(solo_time_.count()) * ratio)};
}

Time KernelModel::block_alone(std::uint32_t sms) const {
  if (kernel_.block_times.size() == 1) return kernel_.block_times.front();
  if (load_.issue <= 0 || (sms != gpu_.sms && kernel_.solo_time_by_sms.empty() &&
                           !kernel_.counters.l2_bytes && !kernel_.counters.warp_instructions))
    return solo_block_time(kernel_, solo_time_, gpu_, gpu_.sms);
  return solo_block_time(kernel_, solo_time(sms), gpu_, sms);
}

}  // namespace corun::sim
