#include "tests/support/random_trace.h"

#include <algorithm>

#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

Gpu random_gpu(Dice& dice) {
  const std::uint32_t sms_per_tpc = dice.one_in(3) ? 2 : 1;
  const std::uint32_t sms = sms_per_tpc * dice.any(1, 6 / sms_per_tpc);
  Gpu gpu = dice.one_in(2) ? slow_host_gpu(sms) : small_gpu(sms);
  gpu.sms_per_tpc = sms_per_tpc;
  std::reverse(gpu.placement_order.begin(), gpu.placement_order.begin() + dice.any(1, gpu.sms));
  gpu.dispatch_interval = dice.one_in(8) ? ps(0) : ps(dice.any(1, 2000));
  gpu.task_slots = dice.any(1, 6);
  gpu.host_channels = dice.any(1, 4);
  if (dice.one_in(4)) gpu.channel_depth = dice.any(1, 4);
  gpu.copy_engines = dice.any(1, 3);
  gpu.time_slice = us(dice.any(5, 60));
  gpu.context_switch = ns(dice.any(0, 3000));
  gpu.idle_switch = gpu.idle_switch_to_interrupted = gpu.context_switch;
  gpu.read_ahead_launches = static_cast<std::uint32_t>(dice.any(0, 4));
  gpu.persistent_task = ns(dice.any(0, 600));
  return gpu;
}

Kernel random_kernel(Dice& dice) {
  const std::uint32_t blocks = dice.one_in(3)   ? dice.any(1, 6)
                               : dice.one_in(2) ? dice.any(1, 60)
                                                : dice.any(60, 600);
  // Not as arguments of one call: compilers evaluate these in different orders.
  const Time block = ps(dice.any(1, dice.one_in(4) ? 5'000 : 9'000'000));
  const std::uint32_t threads = dice.one_in(4) ? 1024 : 32 * dice.any(1, 32);
  Kernel k = kernel(blocks, threads, block);
  if (dice.one_in(3)) k.registers_per_thread = dice.any(16, 64);
  if (dice.one_in(3)) k.static_shared_memory_bytes = 1024 * dice.any(1, 64);
  switch (dice.any(0, 3)) {
    case 0:  // only the solo time is known
      k.solo_time = k.block_times.front() * dice.any(1, 4);
      k.block_times.clear();
      break;
    case 1:
      if (blocks > 100) break;
      for (std::uint32_t i = 1; i < blocks; ++i) k.block_times.push_back(ps(dice.any(1, 5'000'000)));
      if (dice.one_in(2)) std::fill_n(k.block_times.begin(), blocks / 2, k.block_times.back());
      break;
    default:
      break;
  }
  if (dice.one_in(2)) k.counters.issue_active_pct.reset();  // as its warps suggest
  if (dice.one_in(4)) k.counters.issue_active_pct = dice.any(1, 100);
  if (dice.one_in(3)) k.counters.dram_read_bytes = dice.any(1, 1000) * to_ns(*k.solo_time);  // up to the peak
  return k;
}

std::optional<TpcMask> random_mask(Dice& dice, const Gpu& gpu) {
  if (!dice.one_in(2)) return std::nullopt;
  const std::uint32_t first = dice.any(0, gpu.tpcs() - 1);
  return TpcMask::range(first, dice.any(first + 1, gpu.tpcs()));
}

Op random_op(Dice& dice, const TraceBuilder& b, const Gpu& gpu, std::uint32_t index, std::uint32_t streams) {
  const std::uint32_t stream = dice.any(0, streams - 1);
  Op op = launch(KernelId{dice.any(0, static_cast<std::uint32_t>(b.trace.kernels.size()) - 1)}, stream);
  if (index != 0 && dice.one_in(8)) return sync();  // a request must do something
  if (dice.one_in(6)) {
    const std::uint64_t bytes = dice.any(1, 200'000);
    op = copy(static_cast<CopyDirection>(dice.any(0, 2)), bytes, stream);
  } else {
    auto& what = std::get<corun::Launch>(op.what);
    if (dice.one_in(4)) what.solo_time = us(dice.any(1, 20));
    if (dice.one_in(4)) what.tpc_mask = random_mask(dice, gpu);
  }
  if (dice.one_in(3)) op.host_gap = ns(dice.any(0, 9000));
  if (index > 0 && dice.one_in(3)) op.after.push_back(OpId{dice.any(0, index - 1)});
  return op;
}

Arrivals random_arrivals(Dice& dice, Requests requests) {
  if (requests == Requests::one) return Once{us(dice.any(0, 50))};
  switch (dice.any(0, 4)) {
    case 0:
      return Periodic{us(dice.any(10, 200)), us(dice.any(0, 50))};
    case 1:
      return Poisson{static_cast<double>(dice.any(5'000, 50'000)), dice.any(0, 9)};
    case 2:
      return ExplicitTimes{{us(3), us(dice.any(3, 100)), us(dice.any(100, 200))}};
    default:
      return ClosedLoop{dice.one_in(2) ? Time{} : us(dice.any(1, 30))};
  }
}

}  // namespace

Scenario random_scenario(std::uint64_t seed, Requests requests) {
  Dice dice(seed);
  Scenario s;
  s.gpu = random_gpu(dice);
  TraceBuilder b;
  b.trace.name = "random scenario " + std::to_string(seed);
  for (std::uint32_t i = dice.any(1, 5); i > 0; --i) {
    Kernel k = random_kernel(dice);
    while (!misfit(k, s.gpu.sm).empty()) k = random_kernel(dice);
    b.kernel(k);
  }
  for (std::uint32_t i = dice.any(1, 3); i > 0; --i) {
    const std::uint32_t streams = dice.any(1, 3);
    std::vector<Op> ops;
    for (std::uint32_t n = dice.any(1, 6), o = 0; o < n; ++o)
      ops.push_back(random_op(dice, b, s.gpu, o, streams));
    if (std::holds_alternative<Sync>(ops.back().what))
      ops.push_back(launch(KernelId{0}));  // a request does something
    for (Op& op : ops)                     // nothing waits for an event of a sync
      std::erase_if(op.after,
                    [&](OpId other) { return std::holds_alternative<Sync>(ops[other.value].what); });
    b.program(ops, dice.one_in(3) ? Issue::graph : Issue::eager);
  }
  for (std::uint32_t n = dice.any(1, 4), i = 0; i < n; ++i) {
    const Arrivals arrivals = random_arrivals(dice, requests);
    const ProgramId program{dice.any(0, static_cast<std::uint32_t>(b.trace.programs.size()) - 1)};
    Client& c = b.client("client" + std::to_string(i), program, arrivals);
    if (dice.one_in(3)) c.process = "shared";
    c.priority = -static_cast<std::int32_t>(dice.any(0, s.gpu.priority_levels - 1));
    c.tpc_mask = random_mask(dice, s.gpu);
    c.stale = dice.one_in(2) ? Stale::queue : Stale::keep_newest;
    for (ClientStream& stream : c.streams) {
      if (dice.one_in(4))
        stream.priority = -static_cast<std::int32_t>(dice.any(0, s.gpu.priority_levels - 1));
      if (dice.one_in(4)) stream.tpc_mask = random_mask(dice, s.gpu);
    }
  }
  b.trace.run.seed = seed;
  if (requests == Requests::repeated) b.trace.run.duration = us(dice.any(100, 400));
  // From dice of their own, so that what is above stays as it is.
  Dice more(seed ^ 0x5eed);
  for (Client& c : b.trace.clients)
    if (more.one_in(3)) c.service_class = ServiceClass::real_time;
  for (Kernel& k : b.trace.kernels) k.idempotent = !more.one_in(4);
  PreemptionCosts& costs = s.gpu.preemption;
  costs.flag_place = static_cast<PreemptionCosts::FlagPlace>(more.any(0, 2));
  costs.flag_host = ns(more.any(0, 4000)), costs.flag_host_block = ns(more.any(0, 500));
  costs.flag_copied = ns(more.any(0, 7000)), costs.host_queue_reset = ns(more.any(0, 7000));
  costs.evicted_launch = ns(more.any(0, 9000)), costs.evicted_launch_interval = ns(more.any(0, 2000));
  costs.kill = ns(more.any(0, 6000)), costs.padding_cost_ratio = 1 + 0.01 * more.any(0, 3);
  s.trace = std::move(b.trace);
  return s;
}

}  // namespace corun::sim
