// What a launch costs the host, how long it takes to reach the GPU, and the queues on the way.
#pragma once

#include <atomic>
#include <cstdlib>
#include <thread>

#include "support.cuh"

std::string line_of(const char* command) {
  char text[512] = "";
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr || std::fgets(text, sizeof text, pipe) == nullptr) text[0] = '\0';
  if (pipe != nullptr) pclose(pipe);
  std::string line(text);
  line.erase(
      std::remove_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '"' || c == '\\'; }),
      line.end());
  return line;
}

void environment(Report& report) {
  cudaDeviceProp p;
  int driver = 0, runtime = 0, clock_khz = 0, least = 0, greatest = 0;
  CHECK(cudaGetDeviceProperties(&p, 0));
  CHECK(cudaDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  char date[64];
  const time_t seconds = time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&seconds));
  report.note(
      {{"date", date},
       {"gpu", p.name},
       {"sms", p.multiProcessorCount},
       {"compute_capability", std::to_string(p.major) + "." + std::to_string(p.minor)},
       {"driver_cuda", driver},
       {"runtime_cuda", runtime},
       {"driver_and_clocks",
        line_of(
            "nvidia-smi --query-gpu=driver_version,clocks.sm,clocks.mem,compute_mode,pcie.link.gen.current,"
            "pcie.link.width.current --format=csv,noheader")},
       {"rated_sm_mhz", clock_khz / 1e3},
       {"measured_sm_mhz", cycles_per_us},
       {"copy_engines", p.asyncEngineCount},
       {"priority_least", least},
       {"priority_greatest", greatest},
       {"cpu", line_of("grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'")},
       {"cpu_threads", std::thread::hardware_concurrency()},
       {"kernel", line_of("uname -sr")}});
  u64* steps = device_array<u64>(200);
  long long* reads = device_array<long long>(1);
  timer_steps<<<1, 1>>>(steps, 200, reads);
  CHECK(cudaDeviceSynchronize());
  Samples ns, clock;
  for (u64 s : read_back(steps, 200)) ns.push_back(static_cast<double>(s));
  for (int i = 0; i < 1000; ++i) {
    const double t = now_us();
    clock.push_back((now_us() - t) * 1e3);
  }
  report.add({}, "globaltimer_step_ns", ns);
  report.add({}, "globaltimer_read_ns", {read_back(reads, 1)[0] / 100.0 / cycles_per_us * 1e3});
  report.add({}, "host_clock_read_ns", clock);
}

// Times each call; with a batch, waits for the GPU (untimed) after each batch so that no queue fills.
template <class Call>
Samples time_calls(int count, int batch, Call call) {
  Samples us;
  us.reserve(count);
  for (int i = 0; i < count; ++i) {
    if (batch > 0 && i % batch == 0) CHECK(cudaDeviceSynchronize());
    const double start = now_us();
    call(i);
    us.push_back(now_us() - start);
  }
  CHECK(cudaGetLastError());
  return us;
}

void launch_call(Report& report) {
  const std::vector<cudaStream_t> streams = make_streams(32);
  const auto launch_into = [&](cudaStream_t s) { body<<<1, 32, 0, s>>>(nullptr, 0, kNoPdl); };
  for (cudaStream_t s : streams) launch_into(s);
  for (int count : {1, 2, 8, 32})
    for (int batch : {500, 0})
      report.add({{"call", "kernel"}, {"host_threads", 1}, {"streams", count}, {"batch", batch}}, "call_us",
                 time_calls(10000, batch, [&](int i) { launch_into(streams[i % count]); }));
  CHECK(cudaDeviceSynchronize());

  for (int threads : {1, 2, 4, 8, 16, 32})
    for (int batch : {500, 0}) {
      constexpr int kCalls = 4000;
      std::vector<Samples> each(threads);
      std::vector<std::thread> pool;
      std::atomic<int> ready{0};
      std::atomic<bool> go{false};
      for (int t = 0; t < threads; ++t)
        pool.emplace_back([&, t] {
          CHECK(cudaSetDevice(0));
          ++ready;
          while (!go) std::this_thread::yield();
          Samples& us = each[t];
          us.reserve(kCalls);
          for (int i = 0; i < kCalls; ++i) {
            if (batch > 0 && i % batch == 0) CHECK(cudaStreamSynchronize(streams[t]));
            const double start = now_us();
            launch_into(streams[t]);
            us.push_back(now_us() - start);
          }
          CHECK(cudaGetLastError());
        });
      while (ready < threads) std::this_thread::yield();
      const double start = now_us();
      go = true;
      for (std::thread& t : pool) t.join();
      const double wall = now_us() - start;
      CHECK(cudaDeviceSynchronize());
      Samples all;
      for (const Samples& us : each) all.insert(all.end(), us.begin(), us.end());
      report.add({{"call", "kernel"}, {"host_threads", threads}, {"streams", threads}, {"batch", batch}},
                 "call_us", all);
      report.add({{"call", "kernel"}, {"host_threads", threads}, {"streams", threads}, {"batch", batch}},
                 "wall_us_per_launch", {wall / (kCalls * threads)});
    }

  const auto many = [&](auto padding) {
    return time_calls(10000, 500, [&](int) { many_parameters<<<1, 32, 0, streams[0]>>>(padding); });
  };
  report.add({{"call", "kernel, 64 B of parameters"}}, "call_us", many(Padding<64>{}));
  report.add({{"call", "kernel, 4,000 B of parameters"}}, "call_us", many(Padding<4000>{}));

  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  u64* const device = device_array<u64>(1);
  u64* const host = mapped_array<u64>(1);
  const cudaStream_t s = streams[0];
  const auto add = [&](const char* call, const Samples& us) {
    report.add({{"call", call}, {"host_threads", 1}, {"streams", 1}}, "call_us", us);
  };
  add("event record", time_calls(4000, 400, [&](int) { CHECK(cudaEventRecord(event, s)); }));
  add("stream wait event",
      time_calls(4000, 400, [&](int) { CHECK(cudaStreamWaitEvent(streams[1], event, 0)); }));
  add("copy 8 B to host", time_calls(4000, 400, [&](int) {
        CHECK(cudaMemcpyAsync(host, device, 8, cudaMemcpyDeviceToHost, s));
      }));
  add("memset 8 B", time_calls(4000, 400, [&](int) { CHECK(cudaMemsetAsync(device, 0, 8, s)); }));
  for (int nodes : {1, 10, 100, 200}) {
    const cudaGraphExec_t graph = capture(s, [&] {
      for (int i = 0; i < nodes; ++i) launch_into(s);
    });
    report.add({{"call", "graph"}, {"nodes", nodes}}, "call_us",
               time_calls(1000, 5, [&](int) { CHECK(cudaGraphLaunch(graph, s)); }));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphExecDestroy(graph));
  }
}

void launch_latency(Report& report) {
  const cudaStream_t s = make_stream();
  u64* const mapped = mapped_array<u64>(1);
  const volatile u64* const seen = mapped;
  const cudaGraphExec_t graph = capture(s, [&] { hello<<<1, 32, 0, s>>>(mapped); });
  for (const bool use_graph : {false, true})
    for (double idle_us : {0.0, 20.0, 1000.0}) {
      Samples call, first, echoed, synchronized, back, trips, drift;
      for (int round = 0; round < 10; ++round) {
        const Alignment before = align_clocks();
        struct Launch {
          double start, returned, seen, synchronized;
          u64 gpu;
        };
        std::vector<Launch> launches;
        for (int i = 0; i < 40; ++i) {
          pause_us(idle_us);
          const u64 old = *seen;
          Launch l{};
          l.start = now_us();
          if (use_graph)
            CHECK(cudaGraphLaunch(graph, s));
          else
            hello<<<1, 32, 0, s>>>(mapped);
          l.returned = now_us();
          REQUIRE(wait_for([&] { return *seen != old; }, 100e3));
          l.seen = now_us();
          l.gpu = *seen;
          CHECK(cudaStreamSynchronize(s));
          l.synchronized = now_us();
          launches.push_back(l);
        }
        CHECK(cudaGetLastError());
        const Alignment after = align_clocks();
        const double half_trip = (before.round_trip_us + after.round_trip_us) / 4;
        for (const Launch& l : launches) {
          const double started = to_host(l.gpu, before, after);
          call.push_back(l.returned - l.start);
          first.push_back(started - l.start);
          echoed.push_back(l.seen - l.start - half_trip);
          back.push_back(l.seen - started);
          synchronized.push_back(l.synchronized - l.start);
        }
        trips.push_back(before.round_trip_us);
        drift.push_back((after.offset_us - before.offset_us) / (after.host_us - before.host_us) * 1e6);
      }
      const char* how = use_graph ? "graph" : "stream";
      report.add({{"launch", how}, {"idle_us", idle_us}}, "call_us", call);
      report.add({{"launch", how}, {"idle_us", idle_us}}, "first_instruction_us", first);
      report.add({{"launch", how}, {"idle_us", idle_us}}, "first_instruction_by_echo_us", echoed);
      report.add({{"launch", how}, {"idle_us", idle_us}}, "store_to_host_us", back);
      report.add({{"launch", how}, {"idle_us", idle_us}}, "synchronized_us", synchronized);
      report.add({{"launch", how}, {"idle_us", idle_us}}, "alignment_round_trip_us", trips);
      report.add({{"launch", how}, {"idle_us", idle_us}}, "clock_drift_ppm", drift);
    }
  Samples both;
  for (int i = 0; i < 2000; ++i) {
    const double start = now_us();
    body<<<1, 32, 0, s>>>(nullptr, 0, kNoPdl);
    CHECK(cudaStreamSynchronize(s));
    both.push_back(now_us() - start);
  }
  report.add({{"launch", "stream"}}, "empty_kernel_launch_and_synchronize_us", both);
}

// A stream is blocked falsely where its first kernel waits for another stream's: both went into one channel.
void channels(Report& report) {
  constexpr int kStreams = 128;
  const char* const value = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const Field setting("max_connections", value == nullptr ? "unset" : value);
  const std::vector<cudaStream_t> streams = make_streams(kStreams);
  std::vector<cudaStream_t> high(kStreams);
  for (cudaStream_t& s : high) s = make_stream(-5);
  Stamp* const stamps = device_array<Stamp>(2 * kStreams);

  // Two kernels into each stream in turn. A first kernel that starts only when others have ended was delayed,
  // by the stream whose second kernel started last before it.
  const auto depth_first = [&](const char* order, const std::vector<cudaStream_t>& used, int count) {
    for (int i = 0; i < count; ++i) {
      launch_body(used[i], 1, 32, stamps + 2 * i, 2000);
      launch_body(used[i], 1, 32, stamps + 2 * i + 1, 20);
    }
    CHECK(cudaDeviceSynchronize());
    const std::vector<Stamp> all = read_back(stamps, 2 * count);
    u64 first_end = ~0ull;
    for (int i = 0; i < count; ++i) first_end = std::min(first_end, all[2 * i].end);
    std::vector<int> delayed, behind;
    for (int i = 0; i < count; ++i) {
      const u64 start = all[2 * i].start;
      if (start < first_end) continue;
      int nearest = -1;
      for (int k = 0; k < count; ++k)
        if (all[2 * k + 1].start <= start &&
            (nearest < 0 || all[2 * k + 1].start > all[2 * nearest + 1].start))
          nearest = k;
      delayed.push_back(i);
      behind.push_back(nearest);
    }
    report.note({setting,
                 {"streams", count},
                 {"order", order},
                 {"metric", "first_kernels_at_once"},
                 {"value", count - delayed.size()}});
    report.list({setting, {"streams", count}, {"order", order}}, "delayed", delayed);
    report.list({setting, {"streams", count}, {"order", order}}, "behind", behind);
  };
  for (int count : {2, 4, 8, 9, 12, 16, 17, 24, 32, 33, 40, 64, 128})
    depth_first("as created", streams, count);
  std::vector<cudaStream_t> scrambled;
  for (int i = 0; i < 40; ++i) scrambled.push_back(streams[(i * 17 + 5) % 40]);
  depth_first("scrambled", scrambled, 40);
  depth_first("high priority", high, 40);
  std::vector<cudaStream_t> mixed;
  for (int i = 0; i < 20; ++i) mixed.insert(mixed.end(), {streams[i], high[i]});
  depth_first("default and high priority in turn", mixed, 40);

  // Is a channel chosen at each launch into an empty stream, and does the choice avoid a busy one?
  const auto blocked = [&](cudaStream_t s) {
    launch_body(s, 1, 32, nullptr, 1);
    return !ends(s, 100);
  };
  std::vector<Gate> gates(40);
  const auto hold = [&](int i) {
    gates[i].hold(streams[i]);
    launch_body(streams[i], 1, 32, nullptr, 1);
  };
  const auto let_go = [&] {
    for (Gate& g : gates) g.open();
    CHECK(cudaDeviceSynchronize());
  };
  std::vector<int> others, same, with_high;
  hold(0);
  for (int i = 1; i <= 40; ++i) others.push_back(blocked(streams[i]));
  let_go();
  hold(0);
  for (int i = 1; i <= 40; ++i) same.push_back(blocked(streams[1]));
  let_go();
  hold(0);
  for (int i = 1; i <= 40; ++i) with_high.push_back(blocked(high[i]));
  let_go();
  report.list({setting, {"held", "stream 0"}, {"then", "other streams"}}, "blocked", others);
  report.list({setting, {"held", "stream 0"}, {"then", "stream 1 again and again"}}, "blocked", same);
  report.list({setting, {"held", "stream 0"}, {"then", "streams of high priority"}}, "blocked", with_high);
  // As many streams held as there are channels, less one let go: does a new stream find that channel?
  const int count = value == nullptr ? 8 : std::atoi(value);
  std::vector<int> found;
  for (int free = 0; free < count; ++free) {
    for (int i = 0; i < count; ++i) hold(i);
    gates[free].open();
    found.push_back(ends(streams[free], 50e3) ? !blocked(streams[64 + free]) : -1);
    let_go();
  }
  report.list({setting, {"held", "a stream per channel, one let go"}, {"then", "a new stream"}},
              "not_blocked", found);
}

// Launches behind held streams until a call takes over 20 ms: the queue is full.
void queue_depth(Report& report) {
  constexpr int kLimit = 40000;
  const std::vector<cudaStream_t> streams = make_streams(32);
  Gate gate;
  const auto fill = [&](int count, double hold_ms, const std::function<void(cudaStream_t)>& launch,
                        std::atomic<int>* issued) {
    for (int i = 0; i < count; ++i) gate.hold(streams[i], hold_ms);
    int launched = 0;
    double longest = 0;
    for (; launched < kLimit && longest < 20e3; ++launched) {
      const double start = now_us();
      launch(streams[launched % count]);
      longest = now_us() - start;
      if (issued != nullptr) *issued = launched + 1;
    }
    CHECK(cudaGetLastError());
    return longest < 20e3 ? launched : launched - 1;
  };
  const auto plain = [](cudaStream_t s) { body<<<1, 32, 0, s>>>(nullptr, 0, kNoPdl); };
  const auto depth = [&](const char* what, int count, const std::function<void(cudaStream_t)>& launch) {
    Samples all;
    for (int repeat = 0; repeat < (count == 1 ? 3 : 1); ++repeat) {
      all.push_back(fill(count, 400, launch, nullptr));
      gate.open();
      CHECK(cudaDeviceSynchronize());
    }
    report.add({{"queued", what}, {"streams", count}, {"limit", kLimit}}, "launches_before_blocking", all);
  };
  for (int count : {1, 2, 4, 8, 16, 32}) depth("kernel", count, plain);
  depth("kernel, 64 B of parameters", 1, [](cudaStream_t s) { many_parameters<64><<<1, 32, 0, s>>>({}); });
  depth("kernel, 1,024 B of parameters", 1,
        [](cudaStream_t s) { many_parameters<1024><<<1, 32, 0, s>>>({}); });
  depth("kernel, 4,000 B of parameters", 1,
        [](cudaStream_t s) { many_parameters<4000><<<1, 32, 0, s>>>({}); });
  const cudaGraphExec_t graph = capture(streams[0], [&] {
    for (int i = 0; i < 10; ++i) plain(streams[0]);
  });
  depth("graph of 10 kernels", 1, [&](cudaStream_t s) { CHECK(cudaGraphLaunch(graph, s)); });

  // While one thread's launch is held by a full queue, do launches into other streams pass?
  std::atomic<int> issued{0};
  std::thread filler([&] {
    CHECK(cudaSetDevice(0));
    fill(1, 250, plain, &issued);
  });
  int last = -1;
  for (int waits = 0; waits < 1000 && (issued == 0 || issued != last); ++waits) {
    last = issued;
    pause_us(20e3);
  }
  Samples others;
  for (int i = 1; i < 32; ++i) {
    const double start = now_us();
    plain(streams[i]);
    others.push_back(now_us() - start);
  }
  CHECK(cudaGetLastError());
  filler.join();
  gate.open();
  CHECK(cudaDeviceSynchronize());
  report.note({{"metric", "launches_issued_when_blocked"}, {"value", last}});
  report.add({{"queued", "kernel into another stream while one launch is blocked"}}, "call_us", others);
}
