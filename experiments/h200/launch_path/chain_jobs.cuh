// The time between a kernel and the next one, and between a task and the next one.
#pragma once

#include "support.cuh"

void stream_gap(Report& report) {
  constexpr int kKernels = 32, kRepeats = 15;
  const cudaStream_t s[2] = {make_stream(), make_stream()};
  cudaEvent_t events[kKernels];
  for (cudaEvent_t& e : events) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  Stamp* const stamps = device_array<Stamp>(kKernels * 132);
  Gate gate;
  for (int blocks : {1, 132})
    for (double us : {5.0, 50.0}) {
      const auto kernel = [&](int i, cudaStream_t stream, Pdl pdl = kNoPdl) {
        launch_body(stream, blocks, 256, stamps + i * blocks, us, pdl);
      };
      std::vector<cudaGraphExec_t> graphs;
      const auto add_graph = [&](int from, int to) {
        graphs.push_back(capture(s[0], [&] {
          for (int i = from; i < to; ++i) kernel(i, s[0]);
        }));
      };
      for (const std::string mode :
           {"stream", "graph", "graph to graph", "event", "pdl wait", "pdl trigger"}) {
        if (mode == "graph") add_graph(0, kKernels);
        if (mode == "graph to graph")
          for (int i = 0; i < kKernels; i += 2) add_graph(i, i + 2);
        Samples gaps, same_sm, spans;
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          gate.hold(s[0]);
          if (mode.substr(0, 5) == "graph")
            for (cudaGraphExec_t g : graphs) CHECK(cudaGraphLaunch(g, s[0]));
          for (int i = 0; i < kKernels; ++i) {
            if (mode == "stream") kernel(i, s[0]);
            if (mode == "pdl wait") kernel(i, s[0], kPdlWait);
            if (mode == "pdl trigger") kernel(i, s[0], kPdlTrigger);
            if (mode == "event") {
              if (i > 0) CHECK(cudaStreamWaitEvent(s[i % 2], events[i - 1], 0));
              kernel(i, s[i % 2]);
              CHECK(cudaEventRecord(events[i], s[i % 2]));
            }
          }
          pause_us(200);
          gate.open();
          CHECK(cudaDeviceSynchronize());
          const std::vector<Stamp> all = read_back(stamps, kKernels * blocks);
          for (int i = 0; i < kKernels; ++i) {
            const auto first = all.begin() + i * blocks;
            u64 start = first->start, end = 0, previous_end = 0;
            for (int b = 0; b < blocks; ++b) {
              start = std::min(start, first[b].start);
              end = std::max(end, first[b].end);
              if (i > 0) previous_end = std::max(previous_end, first[b - blocks].end);
            }
            spans.push_back((end - start) * 1e-3);
            if (i == 0 || (mode == "graph to graph" && i % 2 == 1)) continue;
            gaps.push_back(us_between(previous_end, start));
            for (int b = 0; b < blocks; ++b)
              for (int p = 0; p < blocks; ++p)
                if (first[b].sm == first[p - blocks].sm)
                  same_sm.push_back((first[b].start_cycle - first[p - blocks].end_cycle) / cycles_per_us);
          }
        }
        for (cudaGraphExec_t g : graphs) CHECK(cudaGraphExecDestroy(g));
        graphs.clear();
        report.add({{"chain", mode}, {"blocks", blocks}, {"body_us", us}}, "gap_us", gaps);
        report.add({{"chain", mode}, {"blocks", blocks}, {"body_us", us}}, "first_start_to_last_end_us",
                   spans);
        report.add({{"chain", mode}, {"blocks", blocks}, {"body_us", us}}, "gap_on_one_sm_us", same_sm);
      }
    }
}

// The time of a chain of 200 kernels less that of 100, over 100: what comes once per chain drops out.
void kernel_period(Report& report) {
  constexpr int kStep = 100, kRepeats = 15;
  constexpr int kSharedBytes = 25 << 10;
  static constexpr auto functions = distinct_bodies(std::make_integer_sequence<int, 32>());
  const cudaStream_t s = make_stream();
  float* const out = device_array<float>(1056 * 256);
  CHECK(cudaFuncSetAttribute(body, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  Gate gate;
  for (const std::string chain : {"graph", "stream", "graph pdl wait", "graph writes", "graph 32 functions",
                                  "graph shared memory 0 and 25 KiB in turn"})
    for (int blocks : {1, 132, 1056})
      for (double us : {0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0}) {
        if (us > 10 && chain != "graph" && chain != "stream") continue;
        const auto launches = [&](int count) {
          for (int i = 0; i < count; ++i) {
            if (chain == "graph writes")
              writing_body<<<blocks, 256, 0, s>>>(out, cycles_of(us));
            else if (chain == "graph 32 functions")
              functions[i % 32]<<<blocks, 256, 0, s>>>(cycles_of(us));
            else
              launch_body(s, blocks, 256, nullptr, us, chain == "graph pdl wait" && i > 0 ? kPdlWait : kNoPdl,
                          chain.find("shared") != chain.npos && i % 2 ? kSharedBytes : 0);
          }
          CHECK(cudaGetLastError());
        };
        cudaGraphExec_t graphs[2] = {};
        if (chain != "stream")
          for (int g = 0; g < 2; ++g) graphs[g] = capture(s, [&] { launches((g + 1) * kStep); });
        Samples period, once;
        for (int repeat = -2; repeat < kRepeats; ++repeat) {
          float ms[2];
          for (int g = 0; g < 2; ++g) {
            gate.hold(s);
            CHECK(cudaEventRecord(begin, s));
            if (chain == "stream")
              launches((g + 1) * kStep);
            else
              CHECK(cudaGraphLaunch(graphs[g], s));
            CHECK(cudaEventRecord(end, s));
            pause_us(50);
            gate.open();
            CHECK(cudaStreamSynchronize(s));
            CHECK(cudaEventElapsedTime(&ms[g], begin, end));
          }
          if (repeat < 0) continue;
          period.push_back((ms[1] - ms[0]) * 1e3 / kStep);
          once.push_back((2 * ms[0] - ms[1]) * 1e3);
        }
        if (chain != "stream")
          for (cudaGraphExec_t g : graphs) CHECK(cudaGraphExecDestroy(g));
        report.add({{"chain", chain}, {"blocks", blocks}, {"body_us", us}}, "period_us", period);
        report.add({{"chain", chain}, {"blocks", blocks}, {"body_us", us}}, "once_per_chain_us", once);
      }
}

void persistent_worker_cost(Report& report) {
  constexpr int kRepeats = 9, kMaxShared = 200 << 10;
  const cudaStream_t s = make_stream();
  unsigned* const next = device_array<unsigned>(1);
  CHECK(cudaFuncSetAttribute(persistent_worker, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared));
  CHECK(cudaFuncSetAttribute(plain_worker, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int per_sm : {1, 4, 8})
    for (double us : {0.0, 1.0, 5.0, 20.0})
      for (const bool persistent : {true, false}) {
        // Shared memory keeps the plain grid to as many blocks per SM.
        const int shared_bytes = per_sm == 8 ? 0 : per_sm == 4 ? 50 << 10 : 200 << 10;
        const int workers = 132 * per_sm, rounds = us == 0 ? 400 : 50;
        Samples period;
        for (int repeat = -1; repeat < kRepeats; ++repeat) {
          float ms[2];
          for (int k = 0; k < 2; ++k) {
            const unsigned tasks = workers * rounds * (k + 1);
            CHECK(cudaMemsetAsync(next, 0, sizeof *next, s));
            CHECK(cudaEventRecord(begin, s));
            if (persistent)
              persistent_worker<<<workers, 256, shared_bytes, s>>>(next, tasks, cycles_of(us));
            else
              plain_worker<<<tasks, 256, shared_bytes, s>>>(cycles_of(us));
            CHECK(cudaGetLastError());
            CHECK(cudaEventRecord(end, s));
            CHECK(cudaStreamSynchronize(s));
            CHECK(cudaEventElapsedTime(&ms[k], begin, end));
          }
          if (repeat >= 0) period.push_back((ms[1] - ms[0]) * 1e3 / rounds - us);
        }
        report.add(
            {{"grid", persistent ? "persistent" : "plain"}, {"blocks_per_sm", per_sm}, {"body_us", us}},
            "overhead_per_task_us", period);
      }
}
