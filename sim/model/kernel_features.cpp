#include "sim/model/kernel_features.h"

#include <algorithm>
#include <cmath>

#include "sim/model/kernel_energy.h"
#include "sim/model/kernel_prior.h"
#include "sim/model/mended_counters.h"
#include "sim/model/solo_length.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

/// Bytes that a thread reads at once: two 16-byte loads.
constexpr double kBytesInFlight = 32;
/// Bytes that a warp's smallest load of neighbours moves.
constexpr double kWarpLoad = 128;
/// Threads that read half of that share the DRAM as if they waited half as long: shares go by bytes in flight
/// (experiments/h200/contention, `memory_pairs`).
constexpr double kLeastRounds = 0.5;
/// Shared memory from which a block is taken to stage its reads.
constexpr std::uint32_t kTile = 2048;
/// Least instructions of a warp for a round of reads: addresses, loads, use.
constexpr double kInstructionsPerRound = 25;
/// Of a warp's share of a tensor instruction that reads shared memory (wgmma), for each of its columns: 256
/// multiply-adds of the SM's 2,048 per cycle.
constexpr double kWgmmaColumnCycles = 1.0 / 8;
/// Share of its bytes that a kernel may move through L1 and still be taken to fetch by bulk copies.
constexpr double kBulkThroughL1 = 0.01;
/// Share of tensor instructions that makes a tensor kernel.
constexpr double kTensorShare = 0.05;
/// A block moves at least this share of its reads itself.
constexpr double kLeastCompulsory = 0.3;
constexpr double kLeastSurvival = 0.1;
/// Share of what a block needs most, by its solo times, that a pipe's counter must account for to tell that
/// it is that pipe: counters are off by up to a tenth.
constexpr double kTold = 0.9;
/// Of a launch's time, the share in which DRAM at its full rate moves its bytes, from which on its blocks
/// wait for them instead of filling their SM: an attention over the keys of 4,096 tokens, 0.9, takes 37 us
/// where an SM has two of its blocks and 35 where it has one (experiments/h200/networks, parts-half.json.gz).
constexpr double kDramBound = 0.7;
constexpr double kLongest = 1e12;  // ns: a launch of a quarter of an hour

/// Where no solo time is given: what the blocks' times come to, or what a profiler saw.
Time length_known(const Kernel& kernel, const Gpu& gpu) {
  if (kernel.block_times.empty())
    return std::max(Time{1}, from_ns(std::min(kLongest, kernel.counters.duration_ns.value_or(0))));
  Time sum{};
  for (const Time block : kernel.block_times) sum += block;
  return solo_length(
      kernel.blocks(),
      std::uint64_t{gpu.sms} * max_active_blocks(capacity_of(gpu.sm), demand_of(kernel, gpu.sm)),
      std::max(Time{1}, sum / static_cast<std::int64_t>(kernel.block_times.size())), gpu.dispatch_interval);
}

}  // namespace

KernelFeatures::KernelFeatures(const Kernel& of, Time alone, const Gpu& on_gpu)
    : kernel(of),
      gpu(on_gpu),
      limits(limits_of(gpu)),
      solo_time(alone > Time{} ? alone : length_known(of, gpu)),
      measured_sms(of.solo_time_sms == 0 ? gpu.sms : std::min(of.solo_time_sms, gpu.sms)),
      max_active_blocks(corun::max_active_blocks(capacity_of(gpu.sm), demand_of(of, gpu.sm))) {
  load.extent.blocks = static_cast<double>(kernel.blocks());
  dram.sectors = of.counters.l2_bytes.value_or(1e300) <
                   of.counters.dram_read_bytes.value_or(0) + of.counters.dram_write_bytes.value_or(0);
  kernel.counters = mend_counters(of, solo_time, gpu).counters;
  prior = prior_for(kernel);
  if (prior != nullptr) fill_counters();
  load.sm.energy_pj = energy_of(kernel, kernel.counters, gpu) / load.extent.blocks;
  if (counted())
    read_counters();
  else
    from_shape();
}

bool KernelFeatures::counted() const {
  return kernel.counters.warp_instructions || kernel.counters.issue_active_pct;
}

std::uint32_t KernelFeatures::residents(std::uint32_t sms) const {
  const std::uint64_t each = (kernel.blocks() + sms - 1) / sms;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(each, 1, std::max(1u, max_active_blocks)));
}

double KernelFeatures::waves(std::uint32_t sms) const {
  const double waves = load.extent.blocks / std::min(load.extent.blocks, static_cast<double>(max_active_blocks) * sms);
  return waves < kDrifting ? std::ceil(waves - 1e-9) : waves + 0.5;
}

double KernelFeatures::block_time(std::uint32_t sms, double time) const {
  return std::max(time - limits.sm.launch_cost_ps, 0.2 * time) / waves(sms);
}

BlockLoad KernelFeatures::on(BlockLoad other, std::uint32_t sms) const {
  other.extent.residents = residents(sms);
  other.extent.sms = sms;
  other.extent.places = std::uint64_t{max_active_blocks} * sms;
  return other;
}

double KernelFeatures::spared(double moved, std::uint32_t sms, const MemoryLimits& l2) const {
  const double places = static_cast<double>(max_active_blocks) * sms;
  const double resident = kOwnTurnover * moved / load.extent.blocks * std::min(load.extent.blocks, places);
  return survival(resident, l2.l2.first_loss_bytes, l2.l2.own_bytes);
}

/// What the trace does not say, as kernels of its class usually have it.
void KernelFeatures::fill_counters() {
  Counters& c = kernel.counters;
  const Counters usual = usual_counters(*prior, kernel, solo_time, gpu);
  const auto fill = [](std::optional<double>& value, const std::optional<double>& usual_value) {
    if (!value) value = usual_value;
  };
  fill(c.warp_instructions, usual.warp_instructions);
  fill(c.tensor_instructions, usual.tensor_instructions);
  fill(c.l2_bytes, usual.l2_bytes);
  fill(c.l1_bytes, usual.l1_bytes);
  fill(c.dram_read_bytes, usual.dram_read_bytes);
  fill(c.dram_write_bytes, usual.dram_write_bytes);
  c = mend_counters(kernel, solo_time, gpu).counters;
}

/// Without counters and class: all of the time is at the issue slots, as far as the warps can fill them.
void KernelFeatures::from_shape() {
  const std::uint32_t n = residents(measured_sms);
  const double block = static_cast<double>((kernel.block_times.size() == 1
                                                ? kernel.block_times.front()
                                                : solo_block_time(kernel, solo_time, gpu, measured_sms))
                                               .count());
  const double use = std::min(1.0, n * double(demand_of(kernel, gpu.sm).warps) / kWarpsToFill);
  load.sm.issue_ps = use * block / n;
  load.sm.fixed_ps = block - load.sm.issue_ps;
}

/// What the counters of one launch, taken with cold caches, say of a block.
void KernelFeatures::read_counters() {
  const Counters& c = kernel.counters;
  const double blocks = load.extent.blocks;
  const double slots = gpu.sm.sub_partitions * gpu.clock_hz;  // warp instructions a second
  const std::uint32_t n = residents(measured_sms);
  const double block = block_time(measured_sms, static_cast<double>(solo_time.count()));
  load.sm.issue_ps = least_issue = c.warp_instructions ? *c.warp_instructions / blocks / slots * 1e12
                                                 : *c.issue_active_pct / 100 * block / n;
  load.sm.tensor =
      c.warp_instructions && c.tensor_instructions.value_or(0) > kTensorShare * *c.warp_instructions;

  read_pipes();
  const double read = c.dram_read_bytes.value_or(0);
  const double l2 = c.l2_bytes.value_or(1.5 * (read + c.dram_write_bytes.value_or(0)));
  if (l2 <= 0) return;
  const double seen = c.dram_write_bytes.value_or(0);
  // What it leaves dirty in L2 is written later, and not in its counters.
  const double write =
      std::max(seen, std::min(seen + limits.l2.dirty_bytes, l2 / (1 + kFillsCounted) - read));
  const double through = std::max(l2 - kFillsCounted * (read + write), read + write);  // between SMs and L2
  const double l2_read = std::max(through - write, read), written = through - l2_read;
  const double by_sectors = l2 - kFillsCounted * (read + write) - write;  // read
  load.memory.random = random = by_sectors < 0.9 * read;
  sectors = std::max(0.0, random ? by_sectors : l2_read) / blocks;
  const double l2_time = l2_read / limits.l2.read_bytes_per_ps + written / limits.l2.write_bytes_per_ps;
  const double dram_time = read / limits.dram.read_bytes_per_ps + write / limits.dram.write_bytes_per_ps;
  const double warm = survival(read + write, limits.l2.shared_bytes, limits.l2.own_bytes);
  l2_bound = l2_time > dram_time * (1 - warm);
  dram.bounds = dram_time > kDramBound * static_cast<double>(solo_time.count());
  scattered = !tiled() && l2_bound && warm == 0 && read < 0.6 * l2_read &&
              through / static_cast<double>(solo_time.count()) > 0.45 * limits.l2.read_bytes_per_ps;

  load.memory.l2_read_bytes = l2_read / blocks;
  l2_written = written / blocks;
  load.memory.l2_ps = l2_time / blocks;
  load.memory.read_bytes = read / blocks;
  load.memory.write_bytes = write / blocks;
  load.memory.uncached_share = 1 - warm;
  load.memory.staged = tiled() && warm >= 0.5;
  if (!tiled() && warm == 0) {
    // Some of the reads were hits that the launch's own traffic spared: with none of it, all re-reads would
    // be.
    const double survives = spared(read + write, measured_sms, limits);
    double reread = (l2_read - read) / std::max(survives, kLeastSurvival);
    double compulsory = read - reread * (1 - survives);
    if (compulsory < kLeastCompulsory * read) {
      compulsory = kLeastCompulsory * read;
      reread = (1 - kLeastCompulsory) * read / (1 - survives);
    }
    load.memory.read_bytes = compulsory / blocks;
    load.memory.reread_bytes = reread / blocks;
  }
  const double threads = kernel.threads_per_block();
  const double tile = tiled() ? kernel.shared_memory_bytes() : threads * kBytesInFlight;  // bytes in flight
  const double rounds = l2_read / blocks / tile;
  double most_rounds = rounds;
  if (c.warp_instructions)
    most_rounds = *c.warp_instructions / blocks / std::ceil(threads / 32) / kInstructionsPerRound;
  const auto wait = [&](double times) {
    return limits.l2.wait_ps * std::max(kLeastRounds, std::min(times, most_rounds));
  };
  least_wait = wait(rounds);
  // What fills tiles comes through L1, unless bulk copies bring it.
  const double filled = c.l1_bytes.value_or(0) - written;
  fill_wait = tiled() ? wait(std::max(rounds, filled / blocks / tile)) : least_wait;
  if (!tiled())
    most_wait = least_wait + l2_read / blocks / std::ceil(threads / 32) / kWarpLoad * limits.dram.latency_ps;
  if (load.sm.tensor && c.l1_bytes && *c.l1_bytes < kBulkThroughL1 * l2)
    tensor = *c.tensor_instructions / blocks * wgmma_columns(kernel.name) * kWgmmaColumnCycles /
             gpu.clock_hz * 1e12;
  if (tensor <= 0) return;
  load.sm.wgmma_share = std::min(1.0, tensor * n / block);
  load.sm.wgmma_sms = on(load, measured_sms).extent.sms_alone();
}

void KernelFeatures::read_pipes() {
  const Counters& c = kernel.counters;
  const double blocks = load.extent.blocks;
  pipes[kSlots] = least_issue;
  if (c.fp64_active_pct) {  // of the launch's time, on the SMs that have blocks
    const double whole = static_cast<double>(solo_time.count());
    const double time = std::max(whole - limits.sm.launch_cost_ps, 0.2 * whole);
    pipes[kFp64] = *c.fp64_active_pct / 100 * time * std::min<double>(measured_sms, blocks) / blocks;
  }
  const auto busy = [&](const char* pipe) {
    const auto found = c.pipes_pct.find(pipe);
    return found == c.pipes_pct.end() ? 0 : found->second;
  };
  // Of the time and the SMs as the profiler saw them; the others of the time in which an SM had warps, as the
  // issue slots.
  if (c.duration_ns) pipes[kL1] = busy("l1_data") / 100 * *c.duration_ns * 1e3 * gpu.sms / blocks;
  if (c.issue_active_pct.value_or(0) <= 0) return;
  const double per_percent = least_issue / *c.issue_active_pct;
  pipes[kAlu] = busy("alu") * per_percent;
  pipes[kFma] = std::max(busy("fma"), busy("fmaheavy")) * per_percent;
  pipes[kXu] = busy("xu") * per_percent;
}

PipeUse KernelFeatures::uses(double issue) const {
  const double most = busiest();
  if (issue <= 0 || most <= 0) return kSlotsAlone;
  PipeUse uses{};
  for (std::size_t i = 0; i < kPipes; ++i) uses[i] = pipes[i] == most ? 1 : std::min(1.0, pipes[i] / issue);
  if (most < kTold * issue) uses[kSlots] = 1;  // it is at either
  return uses;
}

PipeUse KernelFeatures::accounted(double issue) const {
  const PipeUse used = uses(issue);
  PipeUse accounted = kAllOfIt;
  if (used == kSlotsAlone) return accounted;
  PipeUse told = pipes;
  told[kL1] = std::max(told[kL1], port());
  for (std::size_t i = 0; i < kPipes; ++i)
    if (used[i] > 0) accounted[i] = std::min(1.0, told[i] / (used[i] * issue));
  return accounted;
}

double KernelFeatures::warp_time(double cycles) const {
  if (!kernel.counters.warp_instructions) return 1e300;
  const double warps = std::ceil(kernel.threads_per_block() / 32.0);
  return *kernel.counters.warp_instructions / load.extent.blocks / warps * cycles / gpu.clock_hz * 1e12;
}

double KernelFeatures::port() const {
  if (random || scattered) return sectors / limits.sm.sector_bytes_per_ps;
  return load.memory.l2_read_bytes / limits.sm.read_bytes_per_ps + l2_written / limits.sm.write_bytes_per_ps;
}

bool KernelFeatures::tiled() const { return kernel.shared_memory_bytes() >= kTile; }

}  // namespace corun::sim
