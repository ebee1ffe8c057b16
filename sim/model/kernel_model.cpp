#include "sim/model/kernel_model.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "sim/model/kernel_energy.h"
#include "sim/model/kernel_prior.h"
#include "sim/model/mended_counters.h"

namespace corun::sim {
namespace {

/// L2 traffic counts a fill from DRAM and a write-back by half beside the SMs' accesses.
constexpr double kFillsCounted = 0.5;
/// Bytes that a thread reads at once: two 16-byte loads.
constexpr double kBytesInFlight = 32;
/// Bytes that a warp's smallest load of neighbours moves.
constexpr double kWarpLoad = 128;
/// Threads that read half of that share the DRAM as if they waited half as long: shares go by bytes in flight
/// (experiments/h200/contention, `memory_pairs`).
constexpr double kLeastRounds = 0.5;
/// Shared memory from which a block is taken to stage its reads.
constexpr std::uint32_t kTile = 2048;
/// Of the issue slots, what code that never waits reaches: 3.81 of 4 (experiments/h200/contention).
constexpr double kSlotsReached = 0.95;
/// A place is empty so long between two blocks (the same, `turnover`).
constexpr double kTurnover = 190e3;
/// A round of reads takes at least so many instructions of a warp: addresses, loads, use.
constexpr double kInstructionsPerRound = 25;
/// Of a warp's share of a tensor instruction that reads shared memory (wgmma), for each of its columns: 256
/// multiply-adds of the SM's 2,048 per cycle.
constexpr double kWgmmaColumnCycles = 1.0 / 8;
/// Share of its bytes that a kernel may move through L1 and still be taken to fetch by bulk copies.
constexpr double kBulkThroughL1 = 0.01;
/// Share of a launch's time that the dispatcher must need for it to be what bounds the launch.
constexpr double kDispatchBound = 0.9;
/// Share of tensor instructions that makes a tensor kernel.
constexpr double kTensorShare = 0.05;
/// A block moves at least this share of its reads itself.
constexpr double kLeastCompulsory = 0.3;
constexpr double kLeastSurvival = 0.1;
/// What a DRAM byte may cost beside a streamed one.
constexpr double kMostDramCost = 1.8;
/// The same where nothing but the time on the whole GPU says so, and reads are not of single sectors.
constexpr double kMostStreamCost = 1.1;
/// From a block's place to its first work.
constexpr double kBlockStart = 100e3;
/// Warps on an SM at which a kernel without counters is taken to fill the issue slots: half of an H200's 64.
constexpr double kWarpsToFillIssue = 32;

/// So many waves have drifted apart.
constexpr double kDrifting = 20;

/// Steps in which the latency of a block's own is found that makes its kernel's solo time.
constexpr int kFixedBisections = 24;
/// Steps in which the issue time of a kernel is found that does not come to the slots at random.
constexpr int kIssueBisections = 20;

/// Of a launch's time, the share in which DRAM at its full rate moves its bytes, from which on its blocks
/// wait for them instead of filling their SM: an attention over the keys of 4,096 tokens, 0.9, takes 37 us
/// where an SM has two of its blocks and 35 where it has one (experiments/h200/networks, parts-half.json.gz).
constexpr double kDramBound = 0.7;
/// Of an SM's blocks, the share that must run at once for all to be taken to end together.
constexpr double kTogether = 0.95;

double square(double x) { return x * x; }
/// Distance between two times, symmetric and without a logarithm: (a - b) / sqrt(a b).
double distance(double a, double b) { return (a - b) / std::sqrt(a * b); }

constexpr double kLongest = 1e12;  // ns: a launch of a quarter of an hour

/// Where no solo time is given: what the blocks' times come to, or what a profiler saw.
Time length_known(const Kernel& kernel, const Gpu& gpu) {
  if (kernel.block_times.empty())
    return std::max(Time{1}, from_ns(std::min(kLongest, kernel.counters.duration_ns.value_or(0))));
  Time sum{};
  for (const Time block : kernel.block_times) sum += block;
  return solo_length(
      kernel.blocks(), std::uint64_t{gpu.sms} * room(capacity_of(gpu.sm), demand_of(kernel, gpu.sm)),
      std::max(Time{1}, sum / static_cast<std::int64_t>(kernel.block_times.size())), gpu.dispatch_interval);
}

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
      solo_time_(solo_time > Time{} ? solo_time : length_known(kernel, gpu)),
      measured_sms_(kernel.solo_time_sms == 0 ? gpu.sms : std::min(kernel.solo_time_sms, gpu.sms)),
      room_(room(capacity_of(gpu.sm), demand_of(kernel, gpu.sm))) {
  load_.blocks = static_cast<double>(kernel.blocks());
  kernel_.counters = mend_counters(kernel, solo_time_, gpu).counters;
  const Prior* prior = prior_for(kernel_);
  usual_ = prior != nullptr;
  if (usual_) fill_counters(*prior);
  const Counters& c = kernel_.counters;
  load_.energy = energy_of(kernel_, c, gpu) / load_.blocks;
  if (!c.warp_instructions && !c.issue_active_pct) {
    from_shape();
  } else {
    read_counters();
    std::vector<Point> curve;
    for (const auto& [sms, time] : kernel.solo_time_by_sms)
      curve.push_back({sms, static_cast<double>(time.count())});
    // What the FP64 pipe takes of a block's time shows in the curve only with the workers' times beside it.
    const bool fits = curve.size() >= 2 && (load_.fp64 <= 0 || kernel.persistent_time_by_ctas.size() > 1);
    const std::string times = fits ? "solo times by SMs" : "solo time";
    basis_ = prior != nullptr
                 ? "launch shape, " + times + " and what " + std::string(prior->plural) + " usually do"
                 : times + " and counters";
    if (load_.issue <= 0 && load_.l2 <= 0) return;
    if (fits)
      fit_curve(curve);
    else
      fit_whole({measured_sms_, static_cast<double>(solo_time_.count())});
  }
}

std::uint32_t KernelModel::residents(std::uint32_t sms) const {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((kernel_.blocks() + sms - 1) / sms, 1, room_));
}

double KernelModel::waves(std::uint32_t sms) const {
  const double waves = load_.blocks / std::min(load_.blocks, static_cast<double>(room_) * sms);
  return waves < kDrifting ? std::ceil(waves - 1e-9) : waves + 0.5;
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

/// What the trace does not say, as kernels of its class usually have it.
void KernelModel::fill_counters(const Prior& prior) {
  Counters& c = kernel_.counters;
  const Counters usual = usual_counters(prior, kernel_, solo_time_, gpu_);
  const auto fill = [](std::optional<double>& value, const std::optional<double>& usual_value) {
    if (!value) value = usual_value;
  };
  fill(c.warp_instructions, usual.warp_instructions);
  fill(c.tensor_instructions, usual.tensor_instructions);
  fill(c.l2_bytes, usual.l2_bytes);
  fill(c.l1_bytes, usual.l1_bytes);
  fill(c.dram_read_bytes, usual.dram_read_bytes);
  fill(c.dram_write_bytes, usual.dram_write_bytes);
  c = mend_counters(kernel_, solo_time_, gpu_).counters;
}

/// Without counters and class: all of the time is at the issue slots, as far as the warps can fill them.
void KernelModel::from_shape() {
  basis_ = "launch shape and solo time";
  const std::uint32_t n = residents(measured_sms_);
  const double block = static_cast<double>((kernel_.block_times.size() == 1
                                                ? kernel_.block_times.front()
                                                : solo_block_time(kernel_, solo_time_, gpu_, measured_sms_))
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
  const std::uint32_t n = residents(measured_sms_);
  const double block = block_time(measured_sms_, static_cast<double>(solo_time_.count()));
  load_.issue = least_issue_ = c.warp_instructions ? *c.warp_instructions / blocks / slots * 1e12
                                                   : *c.issue_active_pct / 100 * block / n;
  load_.tensor =
      c.warp_instructions && c.tensor_instructions.value_or(0) > kTensorShare * *c.warp_instructions;

  if (c.fp64_active_pct) {  // of the launch's time, on the SMs that have blocks
    const double busy = std::max(static_cast<double>(solo_time_.count()) - limits_.launch_cost,
                                 0.2 * static_cast<double>(solo_time_.count()));
    load_.fp64 = *c.fp64_active_pct / 100 * busy * std::min<double>(measured_sms_, blocks) / blocks;
  }

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
  load_.random = random_ = sectors < 0.9 * read;
  sectors_ = std::max(0.0, random_ ? sectors : l2_read) / blocks;
  const double l2_time = l2_read / limits_.l2_read_bytes_per_ps + l2_written / limits_.l2_write_bytes_per_ps;
  const double dram_time = read / limits_.read_bytes_per_ps + write / limits_.write_bytes_per_ps;
  const double warm = survival(read + write, limits_.l2_shared_bytes, limits_.l2_bytes);
  l2_bound_ = l2_time > dram_time * (1 - warm);
  dram_bound_ = dram_time > kDramBound * static_cast<double>(solo_time_.count());
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
        0.4 * (read + write) / blocks * std::min(blocks, static_cast<double>(room_) * measured_sms_);
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
  double most_rounds = rounds;
  if (c.warp_instructions)
    most_rounds = *c.warp_instructions / blocks / std::ceil(threads / 32) / kInstructionsPerRound;
  least_wait_ = limits_.l2_wait * std::max(kLeastRounds, std::min(rounds, most_rounds));
  if (!tiled())
    most_wait_ = least_wait_ + l2_read / blocks / std::ceil(threads / 32) / kWarpLoad * limits_.dram_latency;
  if (load_.tensor && c.l1_bytes && *c.l1_bytes < kBulkThroughL1 * l2)
    tensor_ = *c.tensor_instructions / blocks * wgmma_columns(kernel_.name) * kWgmmaColumnCycles /
              gpu_.clock_hz * 1e12;
}

/// What a block takes with so many of the launch on so many SMs, alone, ps.
double KernelModel::block_among(const BlockLoad& load, std::uint32_t sms, double blocks) const {
  const BlockLoad l = on(load, sms);
  const double residents = std::ceil(blocks / sms - 1e-9);
  Contender one{&l, blocks, blocks / residents, 0};
  share_memory({&one, 1}, limits_);
  return alone_on_sm(l.issue, residents, one.delay, l.fp64, l.chance);
}

/// Length of the kernel alone on so many SMs, ps: full waves, then what is left of the blocks, which has the
/// memory to itself.  Not below what the dispatcher needs.
double KernelModel::length(const BlockLoad& load, std::uint32_t sms) const {
  const double places = std::min(load.blocks, static_cast<double>(room_) * sms);
  const double full = std::floor(load.blocks / places + 1e-9), rest = load.blocks - full * places;
  const double block = block_among(load, sms, places);
  double sum = block * (full < kDrifting ? full : waves(sms));
  if (full < kDrifting && rest >= 1) sum += block_among(load, sms, rest);
  return std::max(sum, static_cast<double>(gpu_.dispatch_interval.count()) * load.blocks) +
         limits_.launch_cost;
}

/// The same at the average residency of all waves: smoother in the shape, which a fit to several points
/// needs.
double KernelModel::average_length(const BlockLoad& load, std::uint32_t sms) const {
  const BlockLoad l = on(load, sms);
  const double resident = load_.blocks / waves(sms);
  Contender one{&l, resident, resident / l.residents, 0};
  share_memory({&one, 1}, limits_);
  return alone_on_sm(one.issue, l.residents, one.delay, l.fp64, l.chance) * waves(sms) + limits_.launch_cost;
}

/// The same as a persistent kernel with so many workers on each SM of the whole GPU, but for what taking a
/// block costs.
double KernelModel::length_of_workers(const BlockLoad& load, std::uint32_t each) const {
  const double workers = std::min(load_.blocks, static_cast<double>(each) * gpu_.sms);
  const double rounds = load_.blocks / workers;
  return block_among(load, gpu_.sms, workers) *
             (rounds < kDrifting ? std::ceil(rounds - 1e-9) : rounds + 0.5) +
         limits_.launch_cost;
}

/// How far off the share of a block's time is that others of its kernel stretch: as measured by the kernel's
/// length with fewer workers over that with the most.
double KernelModel::workers_error(const BlockLoad& load) const {
  if (kernel_.persistent_time_by_ctas.size() < 2) return 0;
  const auto& [most, shortest] = *kernel_.persistent_time_by_ctas.rbegin();
  const double all = length_of_workers(load, most);
  double error = 0;
  for (const auto& [each, time] : kernel_.persistent_time_by_ctas)
    if (each != most)
      error += square(distance(length_of_workers(load, each) / all,
                               static_cast<double>(time.count()) / static_cast<double>(shortest.count())));
  return error;
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

  double best = 1e300, best_delay = 0, best_share = 0, best_cost = 0, best_chance = 1;
  BlockLoad found = load_;
  const auto attempt = [&](double delay, double share, double cost, double chance) {
    BlockLoad l = load_;
    const double r = time - delay;
    l.issue = r / (1 + (n - 1) * r / time);
    if (chance < 1) {  // more, as it waits less for the same time in all
      double low = l.issue, high = time / n;
      for (int i = 0; i < kIssueBisections; ++i) {
        const double middle = (low + high) / 2;
        (alone_on_sm(middle, n, delay, 0, chance) < time ? low : high) = middle;
      }
      l.issue = high;
      l.chance = chance;
    }
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
      const double stretch = std::max(1.0, one.delay - time), asked = share * delay / stretch;
      l.wait = std::min(asked, most_wait_);  // no more than its loads can, one after the other
      l.fixed += (asked - l.wait) * stretch;
    }
    double error =
        (l2_bound_ ? 0.005 : 0.1) * square(distance(cost, 1)) + 0.0003 * square(distance(most_delay, delay));
    if (l.wait < wait_floor)
      error += 0.03 * square(distance(std::max(l.wait, 0.01 * wait_floor), wait_floor));
    if (l.wait > wait_floor && wait_floor > 0 && tiled())
      error += 0.003 * square(distance(l.wait, wait_floor));
    if (error < best) error += workers_error(l);
    for (const Point& p : curve) {
      if (error >= best) return;
      error += square(distance(average_length(l, p.sms), p.time));
    }
    if (error < best)
      best = error, best_delay = delay, best_share = share, best_cost = cost, best_chance = chance, found = l;
  };

  const double most_cost = l2_bound_ ? (load_.tensor ? 1 : limits_.l2_sector_cost) : kMostDramCost;
  std::vector<double> costs;
  for (const double cost : {0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.6, 1.8, limits_.l2_sector_cost})
    if (cost <= most_cost) costs.push_back(cost);
  for (double delay = 1; delay > 0.15; delay -= n > 1 ? 0.1 : 1)
    for (const double share : {0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0})
      for (const double cost : costs) attempt(delay * most_delay, share, cost, 1);
  if (kernel_.persistent_time_by_ctas.size() > 1)  // which can tell a block that hardly waits
    for (const double delay : {0.15, 0.1, 0.07, 0.05, 0.03, 0.02})
      for (const double share : {0.02, 0.1, 0.3, 0.5, 0.7, 1.0})
        for (const double cost : costs) attempt(delay * most_delay, share, cost, 1);
  if (n > 1)
    for (const double chance : {0.5, 0.2, 0.0})
      for (double delay = 1; delay > 0.15; delay -= 0.1)
        for (const double share : {0.02, 0.1, 0.3, 0.6, 1.0})
          attempt(delay * most_delay, share, std::min(1.0, most_cost), chance);
  for (const double step : {0.05, 0.025}) {
    const double delay = best_delay, share = best_share, cost = best_cost, chance = best_chance;
    for (const double d : {delay * (1 - step), delay, std::min(most_delay, delay * (1 + step))})
      for (const double s : {std::max(0.02, share - step), share, std::min(1.0, share + step)})
        for (const double k : {cost * (1 - step / 2), cost, std::min(most_cost, cost * (1 + step / 2))})
          attempt(d, s, k, chance);
  }
  load_ = found;
}

/// From the solo time on the whole GPU alone: the same parts, each near what the counters imply.
void KernelModel::fit_whole(const Point& whole) {
  const double n = residents(whole.sms), time = block_time(whole.sms, whole.time);
  const double warps = std::ceil(kernel_.threads_per_block() / 32.0);
  const double slots = gpu_.sm.sub_partitions;
  const double instructions = least_issue_ / kSlotsReached,
               stores = l2_written_ / limits_.sm_write_bytes_per_ps;
  double port = load_.l2_read / limits_.sm_read_bytes_per_ps + stores;
  if (random_ || scattered_) port = sectors_ / limits_.sm_sector_bytes_per_ps;
  double issue = std::max(instructions, port);
  // A warp's instructions one after the other, at four cycles each.
  double serial = 4 * least_issue_ * slots / warps;
  if (tensor_ > 0) {  // reads, instructions and the tensor pipe go on side by side; the stores come last
    issue = instructions + stores;
    serial = std::max(0.0, tensor_ - instructions);
  }
  const Prior* const known = prior_of(kernel_.name);
  const bool multiplies = known == nullptr || known->multiplies();
  if (tiled() && multiplies && tensor_ <= 0 && !dram_bound_ && gpu_.contention.tile_use > 0) {
    const double registers = demand_of(kernel_, gpu_.sm).registers / static_cast<double>(gpu_.sm.registers);
    const double use = std::min(gpu_.contention.tile_use, gpu_.contention.tile_use_per_registers * registers);
    const double alone = time / alone_on_sm(use, n, 1 - use);
    if (use * alone > issue) {
      issue = use * alone;
      serial = std::min(serial, (1 - use) * alone);
    }
    load_.even = true;
  }
  load_.issue = std::min(issue, time / n);
  const double fixed = std::min(kBlockStart + serial, 0.8 * time);
  const double wait = std::min(std::max(least_wait_, limits_.l2_wait), 0.25 * time);

  // Where the dispatcher bounds the launch, its length says little of a block, but the warps active do.
  const double interval = static_cast<double>(gpu_.dispatch_interval.count());
  double resident = 0, life = 0;
  if (kernel_.counters.warps_active_pct && interval * load_.blocks > kDispatchBound * whole.time) {
    life = *kernel_.counters.warps_active_pct / 100 * gpu_.sm.max_warps / warps * whole.sms * interval +
           kTurnover;
    resident = std::min({life / interval, load_.blocks, static_cast<double>(room_) * whole.sms});
  }
  const double fixed_weight = tensor_ > 0 ? 0.1 : load_.tensor ? 0.001 : 0.01;
  const double most_cost = l2_bound_ ? (load_.tensor ? 1 : limits_.l2_sector_cost)
                           : random_ ? 2
                                     : kMostStreamCost;
  double best = 1e300;
  BlockLoad found = load_;
  static constexpr double kOne[] = {1};
  static constexpr double kWaits[] = {0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0};
  const double costs[] = {0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.65, limits_.l2_sector_cost};
  // What a class usually does is too rough to tell waits and costs of bytes by: 0.2 ms instead of 20.
  const std::span<const double> few(kOne);
  for (const double f : {0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.8, 2.2, 3.0, 4.0})
    for (const double w : usual_ ? few : std::span<const double>(kWaits))
      for (const double c : usual_ ? few : std::span<const double>(costs)) {
        if (load_.tensor && l2_bound_ && c != 1) continue;
        const double cost = random_ ? 1.65 * c : c;
        if (cost > most_cost) continue;
        BlockLoad l = load_;
        l.fixed = f * fixed;
        l.wait = w * wait;
        (l2_bound_ ? l.l2 : l.dram_cost) *= cost;
        double error = (l2_bound_ ? 0.02 : 1) * 0.3 * square(distance(c, 1)) + 0.02 * square(distance(w, 1)) +
                       fixed_weight * square(distance((f + 0.2) / 1.2, 1));
        if (error >= best) continue;
        error += life > 0 ? square(distance(block_among(l, whole.sms, resident), life))
                          : square(distance(length(l, whole.sms), whole.time));
        if (error < best) best = error, found = l;
      }
  load_ = found;
  if (!load_.even || life > 0) return;
  // A tile's use of its SM is known; what the priors leave of the solo time is latency of its own.
  double low = 0, high = time;
  for (int i = 0; i < kFixedBisections; ++i) {
    load_.fixed = (low + high) / 2;
    (length(load_, whole.sms) < whole.time ? low : high) = load_.fixed;
  }
}

BlockLoad KernelModel::load(std::uint32_t sms) const {
  if (load_.issue <= 0 && load_.l2 <= 0) return {};
  BlockLoad l = on(load_, sms);
  settle_alone(l, limits_);
  // How the time depends on the number of workers tells what an SM's slots can do, apart from the memory.
  const double at_once = l.residents * alone_on_sm(l.issue, 1, l.delay_alone, l.fp64, l.chance) / l.alone;
  if (!kernel_.persistent_time_by_ctas.empty() && at_once < kTogether * l.residents) l.at_once = at_once;
  return l;
}

Time KernelModel::persistent_task() const {
  if (kernel_.persistent_time_by_ctas.empty()) return gpu_.persistent_task;
  return longer_by_block(kernel_.persistent_time_by_ctas.rbegin()->second);
}

Time KernelModel::stoppable_task() const {
  return kernel_.stoppable ? longer_by_block(kernel_.stoppable->time) : Time{};
}

/// What each block takes longer if all take `time` on the whole GPU.
Time KernelModel::longer_by_block(Time time) const {
  const double longer = static_cast<double>(time.count()) - static_cast<double>(solo_time_.count());
  return Time{static_cast<std::int64_t>(longer / waves(measured_sms_))};
}

Time KernelModel::solo_time(std::uint32_t sms) const {
  const auto found = kernel_.solo_time_by_sms.find(sms);
  if (found != kernel_.solo_time_by_sms.end()) return found->second;
  if (sms == measured_sms_ || load_.issue <= 0) return solo_time_;
  const double ratio = length(load_, sms) / length(load_, measured_sms_);
  return Time{static_cast<std::int64_t>(static_cast<double>(solo_time_.count()) * ratio)};
}

Time KernelModel::block_alone(std::uint32_t sms) const {
  if (kernel_.block_times.size() == 1) return kernel_.block_times.front();
  if (load_.issue <= 0 || (sms != measured_sms_ && kernel_.solo_time_by_sms.empty() &&
                           !kernel_.counters.l2_bytes && !kernel_.counters.warp_instructions))
    return solo_block_time(kernel_, solo_time_, gpu_, measured_sms_);
  return solo_block_time(kernel_, solo_time(sms), gpu_, sms);
}

}  // namespace corun::sim
