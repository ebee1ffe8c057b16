// Work beside running work: reading its progress, a full table of running grids, two processes.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "support.cuh"

void progress_read(Report& report) {
  const cudaStream_t work = make_stream(), side = make_stream();
  u64* const in_device = device_array<u64>(1);
  u64* const in_host = mapped_array<u64>(1);
  u64* const copied = mapped_array<u64>(1);
  const size_t count = size_t{1} << 26;
  float4* const data = device_array<float4>(count);
  float* const sink = device_array<float>(1);
  for (const std::string load : {"1 block", "1056 blocks spin", "1056 blocks read memory"}) {
    const Alignment before = align_clocks();
    progress<<<load == "1 block" ? 1 : 1056, 256, 0, work>>>(
        in_device, in_host, load == "1056 blocks read memory" ? data : nullptr, count, sink, 400'000'000);
    CHECK(cudaGetLastError());
    pause_us(2000);
    struct Reading {
      double start, end;
      u64 value;
    };
    std::vector<Reading> copies, loads;
    for (int i = 0; i < 2000; ++i) {
      const double start = now_us();
      CHECK(cudaMemcpyAsync(copied, in_device, sizeof *copied, cudaMemcpyDeviceToHost, side));
      CHECK(cudaStreamSynchronize(side));
      copies.push_back({start, now_us(), *const_cast<volatile u64*>(copied)});
      pause_us(10);
    }
    for (int i = 0; i < 2000; ++i) {
      const double start = now_us();
      const u64 value = *const_cast<volatile u64*>(in_host);
      loads.push_back({start, now_us(), value});
      pause_us(10);
    }
    const bool running = cudaStreamQuery(work) == cudaErrorNotReady;
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    const Alignment after = align_clocks();
    Samples copy_time, copy_age, load_time, load_age;
    for (const Reading& r : copies) {
      copy_time.push_back(r.end - r.start);
      copy_age.push_back(r.end - to_host(r.value, before, after));
    }
    for (const Reading& r : loads) {
      load_time.push_back(r.end - r.start);
      load_age.push_back(r.end - to_host(r.value, before, after));
    }
    report.add({{"load", load}, {"read", "copy and synchronize"}, {"kernel_still_ran", running}}, "call_us",
               copy_time);
    report.add({{"load", load}, {"read", "copy and synchronize"}, {"kernel_still_ran", running}}, "age_us",
               copy_age);
    report.add({{"load", load}, {"read", "mapped host memory"}, {"kernel_still_ran", running}}, "call_us",
               load_time);
    report.add({{"load", load}, {"read", "mapped host memory"}, {"kernel_still_ran", running}}, "age_us",
               load_age);
  }
}

// One-block grids fill the table of running grids. Large grids leave blocks pending for want of shared
// memory, which the probe does not need: only the table or the order of dispatch can hold the probe up.
void task_slots(Report& report) {
  constexpr int kMaxGrids = 140, kLargeBlocks = 528 * 8, kSharedBytes = 50 << 10, kRepeats = 5;
  const std::vector<cudaStream_t> low = make_streams(kMaxGrids);
  const cudaStream_t probes[2] = {make_stream(-5), make_stream(0)};
  Stamp* const stamps = device_array<Stamp>(static_cast<size_t>(kMaxGrids) * kLargeBlocks);
  Stamp* const probe_stamp = device_array<Stamp>(1);
  CHECK(cudaFuncSetAttribute(body, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  for (const std::string grids :
       {"one block", "one block, ends scrambled", "large", "last large", "first large"})
    for (int count : {1, 127, 128, 129, 140})
      for (int probe : {0, 1}) {
        if (count == 1 && grids != "one block" && grids != "large") continue;
        const auto is_large = [&](int i) {
          return grids == "large" || (grids == "last large" && i == count - 1) ||
                 (grids == "first large" && i == 0);
        };
        Samples delay, first_end, last_end, running, queued_before;
        std::vector<int> ended_last;
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          CHECK(cudaMemset(stamps, 0, sizeof(Stamp) * count * kLargeBlocks));
          CHECK(cudaDeviceSynchronize());
          const Alignment before = align_clocks();
          for (int i = 0; i < count; ++i) {
            Stamp* const own = stamps + static_cast<size_t>(i) * kLargeBlocks;
            const int place = grids == "one block, ends scrambled" ? (i * 37 + repeat * 29) % 128 : 100;
            if (is_large(i))
              launch_body(low[i], kLargeBlocks, 256, own, 150, kNoPdl, kSharedBytes);
            else
              launch_body(low[i], 1, 32, own, 3000 + 20.0 * place);
          }
          pause_us(600);
          const double launched = now_us();
          launch_body(probes[probe], 1, 32, probe_stamp, 1);
          CHECK(cudaDeviceSynchronize());
          const Alignment after = align_clocks();
          const u64 probe_start = read_back(probe_stamp, 1)[0].start;
          u64 last_before = 0;
          int last_grid = -1;
          double first = 1e12, last = 0, ran = 0, waited = 0;
          for (int i = 0; i < count; ++i) {
            const std::vector<Stamp> all =
                read_back(stamps + static_cast<size_t>(i) * kLargeBlocks, is_large(i) ? kLargeBlocks : 1);
            u64 start = ~0ull, end = 0;
            for (const Stamp& s : all) start = std::min(start, s.start), end = std::max(end, s.end);
            first = std::min(first, to_host(end, before, after) - launched);
            last = std::max(last, to_host(end, before, after) - launched);
            ran += start < probe_start && end > probe_start;
            waited += i >= 128 && start < probe_start;
            if (end < probe_start && end > last_before) last_before = end, last_grid = i;
          }
          delay.push_back(to_host(probe_start, before, after) - launched);
          first_end.push_back(first);
          last_end.push_back(last);
          running.push_back(ran);
          queued_before.push_back(waited);
          ended_last.push_back(last_grid);
        }
        const Fields fields = {
            {"grids", grids}, {"count", count}, {"probe", probe == 0 ? "high" : "default"}};
        report.add(fields, "probe_start_us", delay);
        report.add(fields, "first_grid_end_us", first_end);
        report.add(fields, "last_grid_end_us", last_end);
        report.add(fields, "grids_running_at_probe_start", running);
        report.add(fields, "grids_after_the_128th_started_before_probe", queued_before);
        report.list(fields, "last_grid_ended_before_probe", ended_last);
      }
}

constexpr int kMaxPauses = 1024, kMaxLatencies = 400;
struct SharedState {
  std::atomic<int> ready, stop;
  int pauses[4];
  u64 pause_at[4][2 * kMaxPauses];
  int latencies;
  double latency[kMaxLatencies], elapsed[kMaxLatencies];
  double rival_us, rival_kernels;
};

// Runs each role in a process of its own; each opens the GPU and waits for the others before it begins.
void run_roles(SharedState& state, const std::vector<std::function<void()>>& roles) {
  std::memset(static_cast<void*>(&state), 0, sizeof state);
  std::vector<pid_t> children;
  for (const auto& role : roles) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      open_gpu();
      ++state.ready;
      REQUIRE(wait_for([&] { return state.ready == static_cast<int>(roles.size()); }, 20e6));
      role();
      _exit(0);
    }
    children.push_back(child);
  }
  bool fine = true;
  for (pid_t child : children) {
    int status = 0;
    fine &= wait_for(
                [&] {
                  usleep(2000);
                  return waitpid(child, &status, WNOHANG) == child;
                },
                30e6) &&
            status == 0;
    if (!fine) {
      for (pid_t c : children) kill(c, SIGKILL);
      break;
    }
  }
  REQUIRE(fine);
}

void time_slicing(Report& report) {
  SharedState& state = *static_cast<SharedState*>(
      mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(&state != MAP_FAILED);
  for (int processes : {1, 2, 3}) {
    std::vector<std::function<void()>> roles;
    for (int p = 0; p < processes; ++p)
      roles.push_back([&state, p] {
        u64* const pauses = device_array<u64>(2 * kMaxPauses);
        int* const count = device_array<int>(1);
        watch<<<1, 1>>>(pauses, kMaxPauses, count, 400'000'000);
        CHECK(cudaDeviceSynchronize());
        state.pauses[p] = read_back(count, 1)[0];
        const std::vector<u64> all = read_back(pauses, 2 * kMaxPauses);
        std::copy(all.begin(), all.end(), state.pause_at[p]);
      });
    run_roles(state, roles);
    Samples on, off, between;
    for (int p = 0; p < processes; ++p)
      for (int i = 0; i < state.pauses[p]; ++i) {
        const u64 stopped = state.pause_at[p][2 * i], resumed = state.pause_at[p][2 * i + 1];
        off.push_back((resumed - stopped) * 1e-3);
        if (i > 0) on.push_back((stopped - state.pause_at[p][2 * i - 1]) * 1e-3);
        double next = 1e12;
        for (int other = 0; other < processes; ++other)
          for (int k = 0; k < state.pauses[other]; ++k)
            if (state.pause_at[other][2 * k + 1] > stopped)
              next = std::min(next, (state.pause_at[other][2 * k + 1] - stopped) * 1e-3);
        if (processes > 1 && next < 1e12) between.push_back(next);
      }
    report.add({{"processes", processes}}, "turn_on_us", on);
    report.add({{"processes", processes}}, "turn_off_us", off);
    report.add({{"processes", processes}}, "from_one_turn_to_the_next_us", between);
  }

  struct Rival {
    const char* name;
    int blocks;
    double kernel_us, random_wait_us;
  };
  const Rival rivals[] = {{"none", 0, 0, 0},
                          {"idle context", 0, 1, 0},
                          {"1 block, 100 us", 1, 100, 0},
                          {"1056 blocks, 100 us", 1056, 100, 0},
                          {"1056 blocks, 100 us", 1056, 100, 10e3},
                          {"1056 blocks, 20 ms", 1056, 20000, 0}};
  for (const Rival& rival : rivals) {
    std::vector<std::function<void()>> roles;
    roles.push_back([&state, &rival] {
      const cudaStream_t s = make_stream();
      Stamp* const stamp = device_array<Stamp>(1);
      launch_body(s, 1, 32, stamp, 50);
      CHECK(cudaStreamSynchronize(s));
      pause_us(50e3);
      double next = now_us();
      const double last = next + 2.5e6;
      while (state.latencies < kMaxLatencies && next < last) {
        REQUIRE(wait_for([&] { return now_us() >= next; }, 1e6));
        const double start = now_us();
        launch_body(s, 1, 32, stamp, 50);
        CHECK(cudaStreamSynchronize(s));
        state.latency[state.latencies] = now_us() - start;
        const Stamp seen = read_back(stamp, 1)[0];
        state.elapsed[state.latencies++] = (seen.end - seen.start) * 1e-3;
        if (rival.random_wait_us > 0) next = now_us() + rival.random_wait_us * std::rand() / RAND_MAX;
        while (next <= now_us()) next += 1000;
      }
      state.stop = 1;
    });
    if (rival.kernel_us > 0)
      roles.push_back([&state, &rival] {
        const cudaStream_t s = make_stream();
        cudaEvent_t done[2];
        for (cudaEvent_t& e : done) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        const double begin = now_us();
        for (int i = 0; state.stop == 0 && now_us() < begin + 20e6; ++i) {
          if (rival.blocks == 0) {
            pause_us(1000);
            continue;
          }
          CHECK(cudaEventSynchronize(done[i % 2]));
          for (int k = 0; k < 4; ++k) launch_body(s, rival.blocks, 256, nullptr, rival.kernel_us);
          CHECK(cudaEventRecord(done[i % 2], s));
          state.rival_kernels += 4;
        }
        CHECK(cudaStreamSynchronize(s));
        state.rival_us = now_us() - begin;
      });
    run_roles(state, roles);
    report.add({{"rival", rival.name}, {"random_wait_us", rival.random_wait_us}}, "launch_to_synchronized_us",
               Samples(state.latency, state.latency + state.latencies));
    report.add({{"rival", rival.name}, {"random_wait_us", rival.random_wait_us}}, "kernel_start_to_end_us",
               Samples(state.elapsed, state.elapsed + state.latencies));
    if (rival.blocks > 0)
      report.add({{"rival", rival.name}, {"random_wait_us", rival.random_wait_us}}, "rival_share_of_the_time",
                 {state.rival_kernels * rival.kernel_us / state.rival_us});
  }
}
