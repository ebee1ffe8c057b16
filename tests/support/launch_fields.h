// What a launch asks of the engine, field by field, so that each can be changed by itself.  With one field more
// this does not compile until it is named here.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "sim/stages/task.h"
#include "tests/support/build.h"

namespace corun::sim {

struct Launched {
  Work work;
  std::uint32_t level = 0;
  SmMask allowed;
  SmResources demand;
};

/// f(name, field) for each.
template <class F>
void each_field(SmLoad& load, F&& f) {
  auto& [issue_ps, fixed_ps, arrival_randomness, processor_sharing, tensor, wgmma_sms, wgmma_share, clock_ratio, energy_pj,
         oldest_served, uses, accounted] = load;
  f("issue_ps", issue_ps), f("fixed_ps", fixed_ps), f("arrival_randomness", arrival_randomness);
  f("processor_sharing", processor_sharing), f("tensor", tensor), f("wgmma_sms", wgmma_sms), f("wgmma_share", wgmma_share);
  f("clock_ratio", clock_ratio), f("energy_pj", energy_pj), f("oldest_served", oldest_served);
  for (double& share : uses) f("uses", share);
  for (double& share : accounted) f("accounted", share);
}
template <class F>
void each_field(MemoryLoad& load, F&& f) {
  auto& [wait_ps, read_bytes, reread_bytes, write_bytes, l2_read_bytes, l2_ps, dram_cost_ratio, uncached_share, staged, random] =
      load;
  f("wait_ps", wait_ps), f("read_bytes", read_bytes), f("reread_bytes", reread_bytes), f("write_bytes", write_bytes);
  f("l2_read_bytes", l2_read_bytes), f("l2_ps", l2_ps), f("dram_cost_ratio", dram_cost_ratio);
  f("uncached_share", uncached_share), f("staged", staged), f("random", random);
}
template <class F>
void each_field(LaunchExtent& extent, F&& f) {
  auto& [residents, sms, blocks, places] = extent;
  f("residents", residents), f("sms", sms), f("extent.blocks", blocks), f("places", places);
}
template <class F>
void each_field(BlockLoad& load, F&& f) {
  auto& [sm, memory, extent, delay_alone_ps, alone_ps] = load;
  each_field(sm, f), each_field(memory, f), each_field(extent, f);
  f("delay_alone_ps", delay_alone_ps), f("alone_ps", alone_ps);
}
template <class F>
void each_field(SmResources& demand, F&& f) {
  auto& [blocks, warps, threads, registers, shared_memory] = demand;
  static_cast<void>(blocks);  // always one
  f("warps", warps), f("threads", threads), f("registers", registers), f("shared_memory", shared_memory);
}
template <class F>
void each_field(KernelRecord& record, F&& f) {
  auto& [launch, client, stream, op, kernel, request, priority, ctas, ready, submitted, queued, slotted, started, last_block,
         finished, blocks, evictions, preemptions, redone_blocks, solo] = record;
  // Its numbers and times tell whose it is and what happened.
  f("client", client.value), f("kernel", kernel.value), f("request", request), f("blocks", blocks);
}
template <class F>
void each_field(Launched& launched, F&& f) {
  auto& [work, level, allowed, demand] = launched;
  auto& [record, block_alone, block_times, load, times_alone, per_task, first, last, next, done, ctas, workers, instances,
         resident, spread, tells_last, resumed, reset, partner] = work;
  each_field(record, f);
  f("block_alone", block_alone), f("per_task", per_task), f("ctas", ctas), f("tells_last", tells_last);
  f("block_times", block_times), f("first", first), f("last", last), f("quota", spread.quota);
  f("level", level), f("allowed", allowed);
  each_field(demand, f);
  each_field(load, f);
}

/// Changes the field of that number; returns its name, or nothing where there are not so many.
template <class Change>
std::string change_field(Launched& launched, std::size_t number, Change&& change) {
  std::string changed;
  std::size_t at = 0;
  each_field(launched, [&](const char* name, auto& field) {
    if (at++ != number) return;
    changed = name;
    change(changed, field);
  });
  return changed;
}

/// For `change_field`: a value near the one that a launch has, on four SMs.
struct AnotherValue {
  const Launched& launched;
  std::deque<std::vector<Time>>& block_times;
  void operator()(const std::string& name, double& x) const {
    if (name == "alone_ps" && x == 0) return;  // of what does not contend nothing else is known
    x = x == 0 ? 0.5 : 0.75 * x;
  }
  void operator()(const std::string&, bool& x) const { x = !x; }
  void operator()(const std::string&, Time& x) const { x += ns(137); }
  void operator()(const std::string& name, std::uint32_t& x) const {
    const bool room = name == "warps" || name == "threads" || name == "registers" || name == "shared_memory";
    x = name == "level" ? 2 : room ? x * 13 / 10 : x + 1;
  }
  void operator()(const std::string& name, std::uint64_t& x) const { x = name == "last" ? 61 : x + 1; }
  void operator()(const std::string&, SmMask& x) const { x = x.first(x.count() - 1); }
  void operator()(const std::string&, const std::vector<Time>*& x) const {
    std::vector<Time>& times = block_times.emplace_back(launched.work.record.blocks, launched.work.block_alone);
    times.back() += ns(500);
    x = &times;
  }
  void operator()(const std::string&, std::vector<std::uint16_t>& quota) const {
    quota = {1, 2, 0, 1};
  }
};

}  // namespace corun::sim
