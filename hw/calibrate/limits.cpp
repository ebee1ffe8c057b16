// What the GPU holds, where it puts blocks and how fast, and its queues.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hw/calibrate/jobs.h"

namespace corun::hw {
namespace {

constexpr const char* kAttribute = "device attribute";

/// When blocks of one-block kernels ran, one kernel in each of `count` streams.
std::vector<Stamp> stamps_of(Bench& bench, DevicePointer at, std::size_t count) {
  bench.synchronize_all();
  return bench.read<Stamp>(at, count);
}

}  // namespace

void measure_limits(Calibrating& c) {
  const DeviceFacts& f = c.bench.facts();
  const auto set = [&](const char* group, const char* key, double value) {
    c.found.set(group, key, value, kAttribute);
  };
  set("chip", "compute_capability_major", f.capability_major);
  set("chip", "compute_capability_minor", f.capability_minor);
  set("chip", "sms", f.sms);
  set("chip", "clock_hz", 1e3 * f.sm_clock_khz);
  set("sm", "max_threads", f.sm.threads);
  set("sm", "max_warps", f.sm.threads / 32.0);
  set("sm", "max_blocks", f.sm.blocks);
  set("sm", "registers", f.sm.registers);
  set("sm", "registers_per_block", f.sm.block_registers);
  set("sm", "threads_per_block", f.sm.block_threads);
  set("sm", "shared_memory_bytes", f.sm.shared_bytes);
  set("sm", "shared_memory_per_block_bytes", f.sm.block_shared_bytes);
  set("sm", "shared_memory_reserved_bytes", f.sm.reserved_shared_bytes);
  set("scheduling", "priority_levels", 1.0 - f.highest_priority);
  set("scheduling", "copy_engines", f.copy_engines);
  set("memory", "memory_bytes", static_cast<double>(f.memory_bytes));
  set("memory", "l2_bytes", static_cast<double>(f.l2_bytes));
}

/// The order in which SMs get their first block.
void measure_placement(Calibrating& c) {
  Bench& bench = c.bench;
  const std::uint32_t sms = bench.facts().sms, blocks = 8 * sms;
  const DeviceArray at(bench.driver(), std::size_t{blocks} * sizeof(Stamp));
  std::vector<std::vector<double>> orders;
  for (int repeat = 0; repeat < 5; ++repeat) {
    bench.body(bench.stream(0), blocks, 32, at.at(), 50);  // none ends before all have begun
    std::vector<double> order;
    for (const Stamp& s : stamps_of(bench, at.at(), blocks))
      if (std::find(order.begin(), order.end(), s.sm) == order.end()) order.push_back(s.sm);
    orders.push_back(order);
  }
  const auto same = std::count(orders.begin(), orders.end(), orders.back());
  if (orders.back().size() != sms || same < 3)
    return c.found.missing("chip", "placement_order",
                           fmt::format("{} SMs of {} got blocks, in the same order {} times of 5",
                                       orders.back().size(), sms, same));
  c.found.list(
      "chip", "placement_order", orders.back(),
      fmt::format("SMs of the first blocks of 32 threads on an idle GPU, alike {} times of 5", same));
}

void measure_dispatch(Calibrating& c) {
  Bench& bench = c.bench;
  const std::uint32_t blocks = 400 * 16 * bench.facts().sms;
  Samples ns;
  for (int repeat = -1; repeat < 7; ++repeat) {
    const auto time = [&](std::uint32_t n) {
      return bench.held_us(bench.stream(0), [&] { bench.launch("nothing", n, 128, 0, bench.stream(0)); });
    };
    const double us = time(2 * blocks) - time(blocks);
    if (repeat >= 0) ns.push_back(1e3 * us / blocks);
  }
  c.found.add("latencies", "dispatch_interval_ns", ns, "empty blocks of 128 threads over the whole GPU");
}

/// Kernels of one block in streams of their own that run at once.
void measure_task_slots(Calibrating& c) {
  Bench& bench = c.bench;
  constexpr std::uint32_t kKernels = 320;
  const DeviceArray at(bench.driver(), kKernels * sizeof(Stamp));
  Samples slots;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::uint32_t i = 0; i < kKernels; ++i) bench.stream(i);  // made before
    for (std::uint32_t i = 0; i < kKernels; ++i)
      bench.body(bench.stream(i), 1, 32, at.at() + i * sizeof(Stamp), 6000);
    const auto all = stamps_of(bench, at.at(), kKernels);
    const auto first_end = std::min_element(all.begin(), all.end(), [](const Stamp& a, const Stamp& b) {
                             return a.end < b.end;
                           })->end;
    slots.push_back(static_cast<double>(
        std::count_if(all.begin(), all.end(), [&](const Stamp& s) { return s.start < first_end; })));
  }
  if (median(slots) >= kKernels)
    return c.found.missing("scheduling", "task_slots", fmt::format("all {} kernels ran at once", kKernels));
  c.found.add("scheduling", "task_slots", slots,
              fmt::format("of {} kernels of one block those that run at once", kKernels));
}

/// Channels: streams before one's first kernel waits for another's.  Depth: launches behind a held stream
/// until a call waits.
void measure_channels(Calibrating& c) {
  Bench& bench = c.bench;
  constexpr std::uint32_t kStreams = 64, kMostLaunches = 20'000;
  const DeviceArray at(bench.driver(), 2 * kStreams * sizeof(Stamp));
  Samples channels, depth;
  for (int repeat = 0; repeat < 3; ++repeat) {
    bench.check_interrupt();
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      bench.body(bench.stream(i), 1, 32, at.at() + 2 * i * sizeof(Stamp), 2000);
      bench.body(bench.stream(i), 1, 32, at.at() + (2 * i + 1) * sizeof(Stamp), 20);
    }
    const auto all = stamps_of(bench, at.at(), 2 * kStreams);
    std::uint64_t first_end = ~std::uint64_t{0};
    double concurrent = 0;
    for (std::uint32_t i = 0; i < kStreams; ++i) first_end = std::min(first_end, all[2 * i].end);
    for (std::uint32_t i = 0; i < kStreams; ++i) concurrent += all[2 * i].start < first_end;
    channels.push_back(concurrent);

    bench.hold(bench.stream(0), 60e3);
    std::uint32_t launched = 0;
    for (double longest = 0; launched < kMostLaunches && longest < 10e3; ++launched) {
      const double start = bench.now_us();
      bench.body(bench.stream(0), 1, 32, 0, 0);
      longest = bench.now_us() - start;
    }
    bench.open_gate();
    bench.synchronize_all();
    depth.push_back(launched - 1.0);
  }
  if (median(channels) >= kStreams)
    c.found.missing("scheduling", "host_channels",
                    fmt::format("{} streams do not hinder each other", kStreams));
  else
    c.found.add("scheduling", "host_channels", channels,
                "streams before false dependencies appear, CUDA_DEVICE_MAX_CONNECTIONS unset");
  if (median(depth) + 1 >= kMostLaunches)
    c.found.missing("scheduling", "channel_depth", fmt::format("{} launches fit", kMostLaunches));
  else
    c.found.add("scheduling", "channel_depth", depth, "launches behind a held stream before a call waits");
}

}  // namespace corun::hw
