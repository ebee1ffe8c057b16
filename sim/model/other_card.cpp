#include "sim/model/other_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "sim/model/carried_kernel.h"
#include "sim/model/kernel_prior.h"
#include "sim/model/peer_kernels.h"
#include "traces/model/tpc_mask.h"

namespace corun::sim {
namespace {

Time times(Time time, double ratio) {
  return Time{static_cast<Time::rep>(std::llround(static_cast<double>(time.count()) * ratio))};
}

enum class Known : std::uint8_t { by_counters, by_class, by_clock };

/// Of one kernel.
class Carry {
 public:
  /// `alone`: of a launch that is usual.
  Carry(const Kernel& kernel, Time alone, const Gpu& from, const Gpu& to)
      : kernel_(kernel), from_(from), to_(to), ratios_(ratios_of(from, to)), prior_(prior_for(kernel)), for_peers_(waits_for_peers(kernel.name)) {
    if (for_peers_ || known() == Known::by_clock || alone <= Time{} || !kernel.block_times.empty()) return;
    model_.emplace(kernel, alone, times(alone, ratio(alone)), from, to);
    if (!model_->known()) model_.reset();
  }

  Known known() const {
    const Counters& c = kernel_.counters;
    if (c.dram_read_bytes || c.dram_write_bytes) return Known::by_counters;
    return prior_ != nullptr ? Known::by_class : Known::by_clock;
  }

  /// Of a launch that takes `time` here, on the SMs that it had.
  double ratio(Time time) const {
    const std::uint32_t had = kernel_.solo_time_sms == 0 ? from_.sms : kernel_.solo_time_sms;
    const std::uint32_t has = kernel_.solo_time_sms == 0 ? to_.sms : std::min(had, to_.sms);
    return ratio(time, had, has, ratios_.dram);
  }
  const Counters& counters() const { return model_ ? model_->counters() : kernel_.counters; }
  /// Of one that is confined to `sms` SMs on both.
  double on_sms(Time time, std::uint32_t sms) const { return ratio(time, sms, sms, ratios_.dram); }
  /// Of a block at full residency: each SM has its part of DRAM.
  double of_a_block(Time time) const {
    if (for_peers_) return 1;
    const double part = static_cast<double>(to_.sms) / static_cast<double>(from_.sms);
    const auto turns = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kernel_.blocks() / from_.sms));
    const double share = dram_share(kernel_.solo_time.value_or(time * turns));
    return std::max(share * ratios_.dram * part + (1 - share) * ratios_.clock, fp64() * ratios_.clock);
  }

 private:
  double ratio(Time time, std::uint32_t had, std::uint32_t has, double dram) const {
    if (time <= Time{} || for_peers_) return 1;
    const double launch = std::min(1.0, ratio_of(from_.contention.launch_cost, time));
    const auto filled = [&](std::uint32_t sms) {
      return static_cast<double>(std::min<std::uint64_t>(kernel_.blocks(), sms));
    };
    if (model_) return launch + (1 - launch) * model_->ratio(had, has);
    const double rest = ratios_.clock * filled(had) / filled(has), share = dram_share(time);
    return launch + (1 - launch) * std::max(share * dram + (1 - share) * rest, fp64() * rest);
  }

  /// The FP64 pipe's cycles there, in cycles of the kernel here.
  double fp64() const { return kernel_.counters.fp64_active_pct.value_or(0) / 100 * ratios_.fp64; }
  static double ratio_of(Time part, Time whole) {
    return static_cast<double>(part.count()) / static_cast<double>(whole.count());
  }

  /// Of the bandwidth of DRAM here.
  double dram_share(Time time) const {
    if (known() == Known::by_clock) return 0;
    const Counters c =
        known() == Known::by_counters ? kernel_.counters : usual_counters(*prior_, kernel_, time, from_);
    const double seconds = to_ns(std::max(time - from_.contention.launch_cost, Time{1})) * 1e-9;
    const double busy = c.dram_read_bytes.value_or(0) / from_.contention.dram_read_bytes_per_second +
                        c.dram_write_bytes.value_or(0) / from_.contention.dram_write_bytes_per_second;
    return std::clamp(busy / seconds, 0.0, 1.0);
  }

  const Kernel& kernel_;
  const Gpu &from_, &to_;
  CardRatios ratios_;
  const Prior* prior_;
  bool for_peers_;  // it waits for them: its time stays
  std::optional<CarriedKernel> model_;
};

/// Shares of what the SMs can do: the same work, in another time, on others.
void carry_counters(Counters& c, double longer, const CardRatios& ratios) {
  const auto carry = [&](double& percent, double cycles = 1) {
    percent = std::min(100.0, percent / longer * ratios.sms * cycles);
  };
  if (c.issue_active_pct) carry(*c.issue_active_pct);
  if (c.fp64_active_pct) carry(*c.fp64_active_pct, ratios.fp64);
  for (auto& [pipe, percent] : c.pipes_pct) carry(percent, pipe == "fp64" ? ratios.fp64 : 1);
  if (c.duration_ns) *c.duration_ns *= longer;
}

void carry_kernel(Kernel& kernel, const Carry& carry, Time time, const CardRatios& ratios,
                  std::uint32_t sms) {
  const double longer = carry.ratio(time);
  if (kernel.solo_time) kernel.solo_time = times(*kernel.solo_time, longer);
  std::map<std::uint32_t, Time> by_sms;
  for (const auto& [n, t] : kernel.solo_time_by_sms)
    if (n <= sms) by_sms[n] = times(t, carry.on_sms(t, n));
  kernel.solo_time_by_sms = std::move(by_sms);
  for (auto& [ctas, t] : kernel.persistent_time_by_ctas) t = times(t, longer);
  if (kernel.stoppable) kernel.stoppable->time = times(kernel.stoppable->time, longer);
  for (Time& t : kernel.block_times) t = times(t, carry.of_a_block(t));
  kernel.solo_time_sms = std::min(kernel.solo_time_sms, sms);
  kernel.counters = carry.counters();
  carry_counters(kernel.counters, longer, ratios);
}

/// By when the last block is handed out: 0 where the blocks' own times count.
Time handed_out(const Kernel& kernel, const Gpu& gpu) {
  return kernel.block_times.empty() ? gpu.dispatch_interval * static_cast<std::int64_t>(kernel.blocks()) : Time{};
}

}  // namespace

CardRatios ratios_of(const Gpu& from, const Gpu& to) {
  CardRatios r;
  r.dram = from.contention.dram_read_bytes_per_second / to.contention.dram_read_bytes_per_second;
  r.clock = from.clock_hz / to.clock_hz;
  r.sms = r.clock * from.sms / to.sms;
  if (from.sm.fp64_units != 0 && to.sm.fp64_units != 0) r.fp64 = double(from.sm.fp64_units) / to.sm.fp64_units;
  return r;
}

ArchitectureRates rates_of(const Gpu& gpu) {
  switch (10 * gpu.compute_capability_major + gpu.compute_capability_minor) {
    case 60: return {0, 64};
    case 61: return {0, 128};
    case 70: return {512, 64};
    case 75: return {512, 64};
    case 80: return {1024, 64};
    case 86: return {512, 128};
    case 89: return {512, 128};
    case 90: return {2048, 128};
    case 100: return {4096, 128};
    default: return {};
  }
}

std::string not_carried(const CarriedOver& carried, const Gpu& from, const Gpu& to) {
  constexpr double kWorthSaying = 1.05;
  const ArchitectureRates here = rates_of(from), there = rates_of(to);
  std::string text;
  if (carried.tensor_short > kWorthSaying)
    text = fmt::format("tensor throughput of an SM is not carried, so a kernel bound by it may be up to {:.1f} times too fast",
                       carried.tensor_short);
  if (there.fp32 > 0 && here.fp32 > kWorthSaying * there.fp32)
    text += fmt::format("{}FP32 throughput of an SM is not carried, so a kernel bound by it may be up to {:.1f} times too fast",
                        text.empty() ? "" : "; ", here.fp32 / there.fp32);
  return text;
}

std::vector<std::string> card_notes(const Trace& trace, const Gpu& gpu) {
  constexpr std::uint32_t kFirstWithClusters = 9;
  std::vector<std::string> notes;
  if (gpu.product.starts_with("AMD"))
    notes.push_back(fmt::format("{} is an AMD card: its queues and all waits are assumed, and none has been measured",
                                gpu.name));
  const auto clusters =
      std::ranges::count_if(trace.kernels, [](const Kernel& k) { return k.cluster.count() > 1; });
  if (clusters != 0 && gpu.compute_capability_major < kFirstWithClusters)
    notes.push_back(fmt::format("{} of {} kernels launch clusters of blocks, which {} does not have: they are simulated as "
                                "if it had",
                                clusters, trace.kernels.size(), gpu.name));
  if (const std::size_t peers = count_peer_kernels(trace); peers != 0)
    notes.push_back(fmt::format("{} of {} kernels wait for peers on other GPUs (told by name, as NCCL's): their times hold those waits, stay the same "
                                "on another card, and grow with no wait of the others; bytes over links are not simulated",
                                peers, trace.kernels.size()));
  const TpcMask there = TpcMask::range(0, gpu.tpcs());
  for (const Client& client : trace.clients)
    if (client.tpc_mask && client.tpc_mask->count() < kMaxTpcs && !((*client.tpc_mask & there) == *client.tpc_mask))
      notes.push_back(fmt::format("tpc_mask of client {}, where a policy keeps to it, names TPCs that {} lacks: of its {} those count that exist",
                                  client.name, gpu.name, gpu.tpcs()));
  return notes;
}

namespace {

/// Of a kernel's instructions, from which on it is taken to use tensor cores.
constexpr double kTensorUse = 0.01;

/// Tiles of matrices, not by FP32 units.
bool uses_tensor_cores(const Kernel& kernel) {
  const Counters& c = kernel.counters;
  if (c.tensor_instructions) return *c.tensor_instructions > kTensorUse * c.warp_instructions.value_or(0);
  const Prior* prior = prior_of(kernel.name);
  return prior != nullptr && prior->multiplies() && prior->tensor_share > kTensorUse;
}

/// What an SM there would not give a block: the number of kernels that asked for more.
std::uint32_t trim(std::vector<Kernel>& kernels, std::uint32_t most) {
  std::uint32_t trimmed = 0;
  for (Kernel& kernel : kernels)
    if (kernel.shared_memory_bytes() > most && kernel.static_shared_memory_bytes <= most) {
      kernel.dynamic_shared_memory_bytes = most - kernel.static_shared_memory_bytes;
      ++trimmed;
    }
  return trimmed;
}

/// Those that exist there stay.  Else the trace's levels are spread evenly, in their order, over those that there are;
/// of more levels than those some coincide.
std::map<std::int32_t, std::int32_t> carry_priorities(std::vector<Client>& clients, std::uint32_t levels) {
  std::map<std::int32_t, std::int32_t> became;
  for (const Client& client : clients) {
    became[client.priority] = 0;
    for (const ClientStream& stream : client.streams)
      if (stream.priority) became[*stream.priority] = 0;
  }
  const std::int32_t highest = 1 - static_cast<std::int32_t>(levels);
  if (became.empty() || became.begin()->first >= highest) return {};
  const auto last = static_cast<std::int32_t>(became.size()) - 1;
  std::int32_t rank = last;  // of CUDA's numbers the highest priority is the least
  for (auto& [was, is] : became) is = last == 0 ? highest : highest * rank-- / last;
  for (Client& client : clients) {
    client.priority = became.at(client.priority);
    for (ClientStream& stream : client.streams)
      if (stream.priority) stream.priority = became.at(*stream.priority);
  }
  return became;
}

}  // namespace

CarriedOver carried_over(const Trace& trace, const Gpu& from, const Gpu& to) {
  CarriedOver carried;
  carried.trace = trace;
  carried.priorities = carry_priorities(carried.trace.clients, to.priority_levels);
  const CardRatios ratios = ratios_of(from, to);
  carried.trimmed = trim(carried.trace.kernels, to.sm.shared_memory_per_block_bytes);
  const std::vector<Kernel> kernels = carried.trace.kernels;
  std::vector<Time> longest(kernels.size());  // of a kernel whose launches alone have times
  for (const Program& program : trace.programs)
    for (const Op& op : program.ops)
      if (const Launch* launch = std::get_if<Launch>(&op.what)) {
        Time& time = longest[launch->kernel.value];
        time = std::max(time, launch->solo_time.value_or(Time{}));
      }
  std::vector<Carry> carry;
  carry.reserve(kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    carry.emplace_back(kernels[k], kernels[k].solo_time.value_or(longest[k]), from, to);
    const Known known = carry[k].known();
    ++(known == Known::by_counters ? carried.by_counters
       : known == Known::by_class  ? carried.by_class
                                   : carried.by_clock);
  }
  const double rate_there = rates_of(to).tensor_fp16;
  const double tensor = rate_there > 0 ? rates_of(from).tensor_fp16 / rate_there : 0;
  std::vector<double> longer;
  for (Program& program : carried.trace.programs)
    for (Op& op : program.ops) {
      Launch* launch = std::get_if<Launch>(&op.what);
      if (launch == nullptr) continue;
      const std::size_t k = launch->kernel.value;
      const Time time = launch->solo_time.value_or(kernels[k].solo_time.value_or(Time{}));
      const double ratio = carry[k].ratio(time);
      if (launch->solo_time) launch->solo_time = std::max(times(time, ratio), handed_out(kernels[k], to));
      if (time > Time{}) longer.push_back(ratio);
      if (time > Time{} && tensor > 0 && uses_tensor_cores(kernels[k])) {
        const double bound = tensor * (kernels[k].blocks() < to.sms ? ratios.clock : ratios.sms);
        carried.tensor_short = std::max(carried.tensor_short, bound / ratio);
      }
    }
  for (std::size_t k = 0; k < kernels.size(); ++k)
    carry_kernel(carried.trace.kernels[k], carry[k], kernels[k].solo_time.value_or(longest[k]), ratios, to.sms);
  for (Kernel& kernel : carried.trace.kernels)
    if (kernel.solo_time && *kernel.solo_time > Time{}) kernel.solo_time = std::max(*kernel.solo_time, handed_out(kernel, to));
  carried.trace.gpu = to.name;
  if (longer.empty()) return carried;
  std::ranges::sort(longer);
  carried.least = longer.front(), carried.median = longer[longer.size() / 2], carried.most = longer.back();
  return carried;
}

}  // namespace corun::sim
