// Work beside running work: persistent workers, reading progress, stopping, copying, contexts that take turns.
#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "hw/calibrate/jobs.h"

namespace corun::hw {

/// A task of a persistent worker beside a block of a plain grid with as many resident.
void measure_workers(Calibrating& c) {
  Bench& bench = c.bench;
  const Stream s = bench.stream(0);
  const DeviceArray next(bench.driver(), 4);
  const std::uint32_t sms = bench.facts().sms, most = bench.blocks_of_256();
  constexpr std::uint32_t rounds = 50;
  const auto overhead_ns = [&](std::uint32_t per_sm, double us, bool persistent) {
    // Shared memory keeps the plain grid to as many blocks per SM.
    const std::uint32_t shared = std::min((bench.facts().sm.shared_bytes / per_sm - 2048) / 1024 * 1024,
                                          bench.facts().sm.block_shared_bytes - 1024);
    double time[2];
    for (std::uint32_t k = 0; k < 2; ++k) {
      const std::uint32_t tasks = sms * per_sm * rounds * (k + 1);
      bench.fill(next.at(), 0, 4);
      time[k] = bench.held_us(s, [&] {
        if (persistent)
          bench.launch("persistent_worker", sms * per_sm, 256, shared, s, next.at(), tasks, bench.cycles(us));
        else
          bench.launch("plain_worker", tasks, 256, shared, s, bench.cycles(us));
      });
    }
    return 1e3 * ((time[1] - time[0]) / rounds - us);
  };
  Samples more, lives;
  for (int repeat = -1; repeat < 5; ++repeat) {
    bench.check_interrupt();
    double sum = 0;
    for (const std::uint32_t per_sm : {1u, most / 2, most})
      for (const double us : {1.0, 5.0, 20.0})
        sum += overhead_ns(per_sm, us, true) - overhead_ns(per_sm, us, false);
    // As long as a place on an SM takes for an empty block, with one place on each.
    const std::uint32_t blocks = 400 * sms, shared = bench.facts().sm.block_shared_bytes - 1024;
    const auto time = [&](std::uint32_t n) {
      return bench.held_us(s, [&] { bench.launch("nothing", n, 32, shared, s); });
    };
    const double life = 1e3 * sms * (time(2 * blocks) - time(blocks)) / blocks;
    if (repeat < 0) continue;
    more.push_back(sum / 9);
    lives.push_back(life);
  }
  const double task = c.found.add("latencies", "persistent_task_ns", more,
                                  "a task of a persistent worker less a block of a plain grid, bodies of 1 to 20 us");
  for (double& ns : lives) ns += task;
  c.found.add("latencies", "retreat_ns", lives,
              "an empty block of 32 threads, one at a time on an SM, and persistent_task_ns");
}

void measure_progress(Calibrating& c) {
  Bench& bench = c.bench;
  Driver& driver = bench.driver();
  const DeviceArray in_device(driver, 8);
  const HostMemory copied = driver.allocate_host(64);
  Samples medians;
  for (int repeat = 0; repeat < 5; ++repeat) {
    bench.check_interrupt();
    bench.body(bench.stream(1), 1, 32, 0, 20e3);
    bench.wait_us(500);
    Samples us;
    for (int i = 0; i < 500; ++i) {
      const double start = bench.now_us();
      driver.copy_to_host(bench.stream(2), copied.host, in_device.at(), 8);
      driver.synchronize(bench.stream(2));
      us.push_back(bench.now_us() - start);
      bench.wait_us(10);
    }
    bench.synchronize_all();
    medians.push_back(1e3 * median(us));
  }
  driver.free(copied);
  c.found.add("latencies", "progress_read_ns", medians, "8-byte copy on another stream and synchronize, p50");
}

/// From the host's store or copy until the stream of the blocks that wait for it is empty.
void measure_stop_flags(Calibrating& c) {
  Bench& bench = c.bench;
  Driver& driver = bench.driver();
  const Stream s = bench.stream(1), side = bench.stream(2);
  const HostMemory page = driver.allocate_host(256);
  volatile std::uint32_t& flag = *static_cast<volatile std::uint32_t*>(page.host);
  auto* const one = static_cast<std::uint32_t*>(page.host) + 32;
  *one = 1;
  const DeviceArray device_flag(driver, 4);
  const std::uint32_t on_each = bench.blocks_of_256(), many = on_each * bench.facts().sms;
  enum class Place { host, relay, copied };
  const auto measure = [&](Place place, std::uint32_t blocks) {
    Samples medians;
    for (int repeat = 0; repeat < 5; ++repeat) {
      bench.check_interrupt();
      Samples us;
      for (int i = 0; i < 20; ++i) {
        flag = 0;
        bench.fill(device_flag.at(), 0, 4);
        const DevicePointer first = place == Place::copied ? device_flag.at() : page.device,
                            passed_on = place == Place::relay ? device_flag.at() : 0;
        bench.launch("wait_for_flag", blocks, 256, 0, s, first, passed_on, std::uint64_t{50'000'000});
        bench.wait_us(200);
        const double start = bench.now_us();
        if (place == Place::copied)
          driver.copy_to_device(side, device_flag.at(), one, 4);
        else
          flag = 1;
        driver.synchronize(s);
        us.push_back(bench.now_us() - start);
      }
      driver.synchronize(side);
      medians.push_back(1e3 * median(us));
    }
    return medians;
  };
  c.found.add("latencies", "stop_flag_ns", measure(Place::relay, many),
              fmt::format("one relay block polls host memory, {} blocks on each SM poll the device flag that it writes", on_each));
  const double one_block = c.found.add("preemption", "stop_flag_host_ns", measure(Place::host, 1),
                                       "one block polls mapped host memory");
  Samples further;
  for (const double ns : measure(Place::host, many)) further.push_back((ns - one_block) / (many - 1));
  c.found.add("preemption", "stop_flag_host_block_ns", further,
              fmt::format("{} blocks on each SM poll mapped host memory, for each after the first", on_each));
  c.found.add("preemption", "stop_flag_copied_ns", measure(Place::copied, many),
              fmt::format("{} blocks on each SM poll a device flag that a copy sets", on_each));
  driver.free(page);
}

void measure_copies(Calibrating& c) {
  Bench& bench = c.bench;
  Driver& driver = bench.driver();
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const HostMemory pinned = driver.allocate_host(kBytes);
  const DevicePointer at = bench.buffer();
  const Stream s = bench.stream(0);
  Samples rates;
  for (int repeat = -1; repeat < 5; ++repeat) {
    bench.check_interrupt();
    double slower = 1e30;
    for (const bool to_device : {true, false}) {
      const double us = bench.held_us(s, [&] {
        for (int i = 0; i < 4; ++i)
          to_device ? driver.copy_to_device(s, at, pinned.host, kBytes)
                    : driver.copy_to_host(s, pinned.host, at, kBytes);
      });
      slower = std::min(slower, 4e6 * static_cast<double>(kBytes) / us);
    }
    if (repeat >= 0) rates.push_back(slower);
  }
  driver.free(pinned);
  c.found.add("memory", "copy_bytes_per_second", rates, "pinned memory, the slower way");
}

/// Two contexts, each with a kernel that never ends and notes when it is away.
void measure_turns(Calibrating& c) {
  Bench& bench = c.bench;
  if (!c.further_context)
    return c.found.missing("latencies", "time_slice_ns", "no second context was asked for");
  constexpr double kMilliseconds = 250;
  std::promise<void> ready;
  std::future<void> is_ready = ready.get_future();
  std::atomic<bool> go{false}, give_up{false};
  auto rival = std::async(std::launch::async, [&] {
    try {
      const std::unique_ptr<Driver> driver = c.further_context();
      const Stream s = driver->stream(0, {});
      const Function f = bench.function_in(*driver, "watch");
      const DevicePointer at = driver->allocate(16 * 1024 + 8);
      std::uint64_t pauses = at, count = at + 16 * 1024, limit = static_cast<std::uint64_t>(kMilliseconds * 1e6);
      std::int32_t most = 1024;
      void* const parameters[] = {&pauses, &most, &count, &limit};
      ready.set_value();
      while (!go && !give_up) driver->pause();
      if (give_up) return;
      driver->launch(f, {1, 1, 1}, {1, 1, 1}, 0, s, parameters);
      driver->synchronize(s);
      driver->destroy(s);
    } catch (...) {
      if (!go && !give_up) ready.set_exception(std::current_exception());
    }
  });
  const bool there = is_ready.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  if (!there) give_up = true;
  try {
    if (there) is_ready.get();
  } catch (const DriverError& e) {
    return c.found.missing("latencies", "time_slice_ns", std::string("no second context: ") + e.what());
  }
  if (!there) return c.found.missing("latencies", "time_slice_ns", "a second context does not open");
  go = true;
  const std::vector<Pause> pauses = bench.pauses(kMilliseconds * 1e3);
  rival.wait();
  Samples on, off;
  for (std::size_t i = 1; i + 1 < pauses.size(); ++i) {  // the first and the last may be cut short
    off.push_back(static_cast<double>(pauses[i].to - pauses[i].from));
    on.push_back(static_cast<double>(pauses[i].from - pauses[i - 1].to));
  }
  if (on.size() < 10)
    return c.found.missing("latencies", "time_slice_ns", "two contexts of this process do not take turns");
  const auto tenths = [](Samples v) {  // without what came between once
    std::sort(v.begin(), v.end());
    return Samples(v.begin() + static_cast<long>(v.size() / 10), v.end() - static_cast<long>(v.size() / 10));
  };
  on = tenths(on), off = tenths(off);
  const double slice = c.found.add("latencies", "time_slice_ns", on, "two contexts of one process, without MPS");
  Samples switches;
  for (const double ns : off) switches.push_back((ns - slice) / 2);
  c.found.add("latencies", "context_switch_ns", switches,
              "two contexts of one process: half of what a kernel is away beyond the other's turn");
}

}  // namespace corun::hw
