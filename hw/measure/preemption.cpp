#include <fmt/format.h>

#include <algorithm>

#include "hw/measure/jobs.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

enum class How { write, copy, priority_only };
const char* to_string(How how) {
  return how == How::write  ? "stream write"
         : how == How::copy ? "copy engine"
                            : "no stop, higher priority only";
}

}  // namespace

Json measure_preemption(Bench& bench) {
  const DeviceFacts gpu = bench.driver.facts();
  const LibraryKernel& k = *find_kernel("wait10");
  Instance instance(bench.driver, k);
  const Stream low = bench.driver.stream(0, {}), high = bench.driver.stream(gpu.highest_priority, {}),
               control = bench.driver.stream(gpu.highest_priority, {});
  bench.work.prepare(instance, 1, low);
  const Persistent& how_persistent = bench.work.persistent(k, {});
  const Function mark = bench.work.tool("mark");
  const HostMemory seen = bench.driver.allocate_host(4 * gpu.sms);
  volatile std::uint32_t* const words = static_cast<volatile std::uint32_t*>(seen.host);
  constexpr std::uint32_t kMostQueued = 128;
  Controls controls(bench.driver, kMostQueued + 1);
  std::uint32_t stamp = 0, random = 1;
  Json rows = Json::array();
  const auto now_us = [&] { return to_ns(bench.driver.now()) / 1000; };

  // The next kernel on an idle GPU: what a launch costs anyway.
  const auto one = [&](std::uint32_t blocks, double& first, double& all, const auto& request) {
    ++stamp;
    DevicePointer to = seen.device;
    std::uint32_t value = stamp;
    void* parameters[] = {&to, &value};
    const double begin = now_us();
    request();
    bench.driver.launch(mark, {blocks, 1, 1}, {1024, 1, 1}, 0, high, parameters);
    first = all = 0;
    for (;;) {
      std::uint32_t running = 0;
      for (std::uint32_t i = 0; i < blocks; ++i) running += words[i] == stamp;
      const double now = now_us() - begin;
      if (running > 0 && first == 0) first = now;
      if (running == blocks) return all = now, void();
      if (now > 2e6) throw DriverError("the next kernel did not start within 2 s of the request");
    }
  };
  {
    std::vector<double> first, all;
    for (std::uint32_t i = 0; i < 200 * bench.scale; ++i) {
      double f = 0, a = 0;
      one(gpu.sms, f, a, [] {});
      bench.driver.synchronize(high);
      if (i >= 20) first.push_back(f), all.push_back(a);
    }
    fmt::print("idle GPU: first block {:.1f}, all blocks {:.1f} us (p50)\n", median(first), median(all));
    rows.push_back({{"resident", 0},
                    {"queued", 0},
                    {"stop", "none"},
                    {"first_block_us", summary(first)},
                    {"all_blocks_us", summary(all)}});
  }
  for (const How how : {How::write, How::copy, How::priority_only})
    for (const std::uint32_t resident : {gpu.sms, gpu.sms * 8})
      for (const std::uint32_t queued : {0u, 8u, 32u, kMostQueued}) {
        if (how != How::write && queued != 0) continue;
        std::vector<double> first, all, drained, stopping_call;
        std::uint32_t not_running = 0, inexact = 0;
        const std::uint32_t repeats = (queued > 32 ? 100 : 300) * bench.scale;
        for (std::uint32_t i = 0; i < repeats + 10; ++i) {
          const Taking taking{};
          LaunchParameters p = launch_parameters(0, static_cast<std::uint32_t>(k.blocks()), taking, resident);
          controls.clear(low);
          bench.driver.synchronize(low);
          for (std::uint32_t q = 0; q <= queued; ++q) controls.progress_word(q) = 0;
          for (std::uint32_t q = 0; q <= queued; ++q) {
            p.control = controls.at(q), p.progress = controls.progress(q);
            bench.work.launch(instance, how_persistent, resident, p, low);
          }
          while (controls.progress_word(0) == 0) bench.driver.pause();
          random = random * 1664525 + 1013904223;
          const double until = now_us() + 30 + (random >> 16) % 64;
          while (now_us() < until) bench.driver.pause();
          double f = 0, a = 0, call = 0;
          const double begin = now_us();
          one(gpu.sms, f, a, [&] {
            if (how == How::write) {
              std::vector<std::pair<DevicePointer, std::uint32_t>> stops;
              for (std::uint32_t q = 0; q <= queued; ++q)
                stops.push_back({controls.at(q) + offsetof(Control, command), kStop});
              if (stops.size() == 1)
                bench.driver.write(control, stops[0].first, kStop);
              else
                bench.driver.write(control, stops);
            } else if (how == How::copy) {
              static const std::uint32_t stop = kStop;
              bench.driver.copy_to_device(control, controls.at(0) + offsetof(Control, command), &stop, 4);
            }
            call = now_us() - begin;
          });
          if (how != How::priority_only) {
            bench.driver.synchronize(low);
            const double end = now_us() - begin;
            if (i >= 10) drained.push_back(end);
            const Control c = controls.read(0, low);
            const std::uint32_t done = chunks_done(c, p.chunks);
            not_running += done == p.chunks;  // it had ended by itself
            inexact += done == 0;
            for (std::uint32_t q = 1; q <= queued; ++q)
              if (q < 3 || q == queued) inexact += chunks_done(controls.read(q, low), p.chunks) != 0;
          } else {
            bench.driver.write(control, controls.at(0) + offsetof(Control, command), kStop);
            bench.driver.synchronize(low);
          }
          if (i >= 10) first.push_back(f), all.push_back(a), stopping_call.push_back(call);
        }
        fmt::print(
            "{:<30} {:>4} resident {:>3} queued: first block p50 {:.1f} p99 {:.1f}; all blocks p50 {:.1f} "
            "p99 {:.1f} max {:.1f}; drained p50 {:.1f}; call {:.1f}; {} ended before, {} inexact\n",
            to_string(how), resident, queued, median(first), quantile(first, 0.99), median(all),
            quantile(all, 0.99), quantile(all, 1), median(drained), median(stopping_call), not_running,
            inexact);
        rows.push_back({{"resident", resident},
                        {"queued", queued},
                        {"stop", to_string(how)},
                        {"first_block_us", summary(first)},
                        {"all_blocks_us", summary(all)},
                        {"drained_us", summary(drained)},
                        {"request_call_us", summary(stopping_call)},
                        {"ended_before", not_running},
                        {"inexact", inexact}});
      }
  bench.driver.free(seen);
  for (const Stream s : {low, high, control}) bench.driver.destroy(s);
  return rows;
}

}  // namespace corun::hw
