#include "sim/model/kernel_prior.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "sim/model/kernel_features.h"
#include "sim/model/kernel_prior_table.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

/// `pattern`'s parts between the stars stand in `name` one after the other; after `^` it begins so.
bool holds(std::string_view name, std::string_view pattern) {
  if (pattern.starts_with('^')) return name.starts_with(pattern.substr(1));
  while (true) {
    const std::size_t star = pattern.find('*');
    const std::string_view part = pattern.substr(0, star);
    const std::size_t at = name.find(part);
    if (at == std::string_view::npos) return false;
    if (star == std::string_view::npos) return true;
    name.remove_prefix(at + part.size());
    pattern.remove_prefix(star + 1);
  }
}

bool holds_one_of(std::string_view name, std::string_view patterns) {
  while (!patterns.empty()) {
    const std::size_t blank = std::min(patterns.find(' '), patterns.size());
    if (holds(name, patterns.substr(0, blank))) return true;
    patterns.remove_prefix(std::min(blank + 1, patterns.size()));
  }
  return false;
}

std::string in_lower_case(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

namespace {
/// Of what such a kernel moves, the share that it reads: between a map of one array and one of two.
constexpr double kReadShare = 0.6;
}  // namespace

bool Prior::multiplies() const { return fills_tiles() || name == "decode_attention" || name == "gemv" || name == "thin_gemm"; }

bool Prior::fills_tiles() const {
  return name == "attention" || name == "wgmma" || name == "mma" || name == "simt" || name == "depthwise";
}

bool is_named_as(std::string_view name, std::string_view prior) {
  return std::any_of(std::begin(kPriors), std::end(kPriors), [&](const Prior& p) {
    return p.name == prior && holds_one_of(in_lower_case(name), p.patterns);
  });
}

const Prior* prior_of(std::string_view name) {
  const std::string lower = in_lower_case(name);
  const auto* const found = std::find_if(std::begin(kPriors), std::end(kPriors),
                                         [&](const Prior& p) { return holds_one_of(lower, p.patterns); });
  return found == std::end(kPriors) ? nullptr : found;
}

const Prior* prior_for(const Kernel& kernel) {
  const Counters& c = kernel.counters;
  if (c.warp_instructions || c.issue_active_pct || !kernel.block_times.empty()) return nullptr;
  return prior_of(kernel.name);
}

Counters usual_counters(const Prior& prior, const Kernel& kernel, Time solo_time, const Gpu& gpu) {
  const double blocks = static_cast<double>(kernel.blocks());
  const double warps = std::ceil(kernel.threads_per_block() / 32.0);
  const double whole = static_cast<double>(solo_time.count());
  const double launch_cost = static_cast<double>(gpu.contention.launch_cost.count());
  const double time = std::max(whole - launch_cost, 0.2 * whole);  // ps
  const double busy = std::min<double>(gpu.sms, blocks);
  const double resident = std::min(std::ceil(blocks / gpu.sms), static_cast<double>(max_active_blocks(capacity_of(gpu.sm), demand_of(kernel, gpu.sm))));
  const double sm_time = time * busy * (prior.multiplies() ? 1 : std::min(1.0, resident * warps / kWarpsToFill));

  // Of an SM, in a ps.
  const double slots = gpu.sm.sub_partitions * gpu.clock_hz / 1e12;
  const double l2 = gpu.contention.l2_read_bytes_per_second / 1e12 / gpu.sms;

  Counters c;
  c.warp_instructions = std::max(blocks * warps, prior.instructions * slots * sm_time);
  c.tensor_instructions = prior.tensor_share * *c.warp_instructions;
  c.l2_bytes = prior.l2 * l2 * sm_time;
  c.l1_bytes = prior.l1_share * *c.l2_bytes;
  c.dram_read_bytes = prior.dram_read_share * *c.l2_bytes;
  c.dram_write_bytes = prior.dram_write_share * *c.l2_bytes;
  if (prior.multiplies()) return c;
  // What uses each byte once, and more bytes than L2 holds, moves the rest from and to DRAM.  The class was learnt
  // from networks, whose data fit.
  const double through = *c.l2_bytes / (1 + kFillsCounted) - static_cast<double>(gpu.contention.l2_own_bytes);
  const double known = *c.dram_read_bytes + *c.dram_write_bytes;
  if (through > known) {
    *c.dram_read_bytes += kReadShare * (through - known);
    *c.dram_write_bytes += (1 - kReadShare) * (through - known);
  }
  return c;
}

}  // namespace corun::sim
