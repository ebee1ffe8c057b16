// Kernels that follow each other, and who is next.
#pragma once

#include "block_jobs.cuh"

void launch_stay(cudaStream_t s, int blocks, Stamp* stamps, double us) {
  stay<<<blocks, 256, 0, s>>>(stamps, cycles_of(us));
  CHECK(cudaGetLastError());
}

// The gap in a chain of one-block kernels beside other work.
void gap_beside() {
  constexpr int kChain = 120;
  constexpr double kBody = 5;
  const cudaStream_t plain = make_stream(), urgent = make_stream(-5);
  Stamp* const stamps = device_array<Stamp>(kChain);
  struct Load {
    const char* name;
    std::vector<Client> clients;
  };
  std::vector<Load> loads = {{"none", {client_of<Fma<1>>("nothing", 1, 32).on({131})}}};
  loads[0].clients[0].leaves_early = true;
  loads.push_back({"fma on one SM", {client_of<Fma<1>>("fma", 1, 32).on({131})}});
  loads.push_back({"fma on all SMs", {client_of<Fma<4>>("fma", 1, 256)}});
  for (int per_sm : {1, 2, 4, 6}) {
    loads.push_back({"DRAM read", {client_of<Read>("read", per_sm, 256).in(buffer(0), 4 * kGiB)}});
    loads.push_back({"DRAM write", {client_of<Write>("write", per_sm, 256).in(buffer(0), 4 * kGiB)}});
    loads.push_back({"DRAM copy", {client_of<Copy>("copy", per_sm, 256).in(buffer(0), 4 * kGiB)}});
    loads.push_back({"L2 read", {client_of<Read>("L2 read", per_sm, 256).in(buffer(0), 8 * kMiB)}});
  }
  for (int idle_cycles : {1500, 4000, 10000}) {
    Client c = client_of<Read>("read", 1, 256).in(buffer(0), 4 * kGiB);
    c.idle_cycles = idle_cycles;
    loads.push_back({"DRAM read", {c}});
  }
  for (const Load& load : loads)
    for (bool high : {false, true}) {
      Samples gaps;
      double rate = 0;
      for (int repeat = 0; repeat < 3; ++repeat) {
        // The last kernels of the chain may see the load gone: only those of the window count.
        const Outcome o = run_together(load.clients, 3000, 400, [&] {
          for (int i = 0; i < kChain; ++i)
            stay<<<1, 32, 0, high ? urgent : plain>>>(stamps + i, cycles_of(kBody));
          CHECK(cudaGetLastError());
        })[0];
        const std::vector<Stamp> all = read_back(stamps, kChain);
        for (int i = 20; i < 100; ++i) gaps.push_back(us_between(all[i - 1].end, all[i].start));
        rate = o.per_us * 1e-3;
      }
      const bool bytes = load.clients[0].data != nullptr;
      print_record({{"load", load.name},
                    {"per_sm", load.clients[0].per_sm},
                    {"idle_cycles", load.clients[0].idle_cycles},
                    {"chain", high ? "urgent" : "default"},
                    {"load_GB_per_s", bytes ? rate : 0.0}},
                   "gap_us", gaps);
    }
}

double first_start(const std::vector<Stamp>& stamps, u64 zero) {
  u64 start = ~u64{0};
  for (const Stamp& s : stamps) start = std::min(start, s.start);
  return us_between(zero, start);
}

void handover() {
  constexpr int kFull = 8 * kSms, kBlocks = 2 * kFull + kFull / 2;
  const cudaStream_t s1 = make_stream(), s2 = make_stream();
  Stamp* const stamps = device_array<Stamp>(2 * kBlocks);
  for (const bool same_stream : {false, true}) {
    Samples head, tail, same, other, overlap;
    for (int repeat = 0; repeat < 10; ++repeat) {
      launch_stay(s1, kBlocks, stamps, 50);
      launch_stay(same_stream ? s1 : s2, kBlocks, stamps + kBlocks, 50);
      CHECK(cudaDeviceSynchronize());
      const std::vector<Stamp> all = read_back(stamps, 2 * kBlocks);
      const std::vector<Stamp> a(all.begin(), all.begin() + kBlocks), b(all.begin() + kBlocks, all.end());
      u64 a_last_start = 0, a_end = 0, b_first = ~u64{0}, zero = ~u64{0};
      for (const Stamp& s : a) {
        zero = std::min(zero, s.start);
        a_last_start = std::max(a_last_start, s.start);
        a_end = std::max(a_end, s.end);
      }
      int before_end = 0;
      for (const Stamp& s : b) {
        b_first = std::min(b_first, s.start);
        before_end += s.start < a_end;
      }
      if (repeat == 0) continue;
      head.push_back(us_between(a_last_start, b_first));
      tail.push_back(us_between(a_end, b_first));
      overlap.push_back(before_end);
      // Places turn over as in turnover_gaps.
      for (int sm = 0; sm < kSms; ++sm) {
        std::vector<std::pair<long long, int>> starts;
        std::vector<long long> ends;
        for (size_t i = 0; i < all.size(); ++i)
          if (all[i].sm == static_cast<unsigned>(sm)) {
            starts.push_back({all[i].start_cycle, i < static_cast<size_t>(kBlocks) ? 0 : 1});
            ends.push_back(all[i].end_cycle);
          }
        std::sort(starts.begin(), starts.end());
        std::sort(ends.begin(), ends.end());
        bool seen_b = false;
        for (size_t i = 8; i < starts.size(); ++i) {
          const double gap = static_cast<double>(starts[i].first - ends[i - 8]);
          if (starts[i].second == 0)
            same.push_back(gap);
          else if (!seen_b)
            other.push_back(gap);
          seen_b |= starts[i].second == 1;
        }
      }
    }
    const Case c = {{"second_kernel", same_stream ? "same stream" : "other stream"}};
    print_record(c, "last_start_of_first_to_first_start_of_second_us", head);
    print_record(c, "end_of_first_to_first_start_of_second_us", tail);
    print_record(c, "blocks_of_second_started_before_end_of_first", overlap);
    print_record(c, "place_empty_between_blocks_of_first_cycles", same);
    print_record(c, "place_empty_before_first_block_of_second_on_an_sm_cycles", other);
  }
}

// Stream 1: A1, A2. Stream 2: B, three waves. Stream 3: C. When B's last block has started, A2 has been ready
// since A1's end and C since its launch: which is next?
void next_kernel() {
  constexpr int kFull = 8 * kSms;
  constexpr double kBody = 300;
  Stamp* const stamps = device_array<Stamp>(8 * kFull);
  struct Trial {
    const char* name;
    double c_launched_us;
    bool c_stream_first, c_urgent, a2_late;
  };
  // A1 ends at about 300, B's last wave starts at about 900.
  const Trial trials[] = {{"C launched before A1 ends", 100, false, false, false},
                          {"C launched before A1 ends, C's stream made first", 100, true, false, false},
                          {"C launched after A1 ended", 600, false, false, false},
                          {"C launched after A1 ended, C's stream made first", 600, true, false, false},
                          {"C launched after A1 ended, A2 launched after that", 500, false, false, true}};
  for (const Trial& t : trials) {
    Samples a2, c, b_first, b_last, a1_end;
    for (int repeat = 0; repeat < 8; ++repeat) {
      std::vector<cudaStream_t> s = make_streams(3);
      if (t.c_stream_first) std::swap(s[0], s[2]);
      CHECK(cudaDeviceSynchronize());
      const double zero_host = now_us();
      const auto wait_until = [&](double us) {
        while (now_us() < zero_host + us) {
        }
      };
      launch_stay(s[0], kFull, stamps, kBody);
      launch_stay(s[1], 3 * kFull, stamps + kFull, kBody);
      if (!t.a2_late) launch_stay(s[0], kFull, stamps + 4 * kFull, kBody);
      wait_until(t.c_launched_us);
      launch_stay(s[2], kFull, stamps + 5 * kFull, kBody);
      if (t.a2_late) {
        wait_until(700);
        launch_stay(s[0], kFull, stamps + 4 * kFull, kBody);
      }
      CHECK(cudaDeviceSynchronize());
      const std::vector<Stamp> all = read_back(stamps, 6 * kFull);
      const auto part = [&](int from, int to) {
        return std::vector<Stamp>(all.begin() + from * kFull, all.begin() + to * kFull);
      };
      u64 zero = ~u64{0}, last = 0, end = 0;
      for (const Stamp& x : part(0, 1)) zero = std::min(zero, x.start), end = std::max(end, x.end);
      for (const Stamp& x : part(1, 4)) last = std::max(last, x.start);
      a1_end.push_back(us_between(zero, end));
      b_last.push_back(us_between(zero, last));
      b_first.push_back(first_start(part(1, 4), zero));
      a2.push_back(first_start(part(4, 5), zero));
      c.push_back(first_start(part(5, 6), zero));
      for (cudaStream_t x : s) CHECK(cudaStreamDestroy(x));
    }
    const Case fields = {{"trial", t.name}};
    print_record(fields, "a1_end_us", a1_end);
    print_record(fields, "b_first_block_start_us", b_first);
    print_record(fields, "b_last_block_start_us", b_last);
    print_record(fields, "a2_start_us", a2);
    print_record(fields, "c_start_us", c);
  }
}

// Two streams of kernels that each have two blocks an SM, so that all fit: fixed work, held behind a gate.
void bursts() {
  struct Side {
    int block_units, launches;
  };
  const auto solo_launches = [](int u) { return std::max(12, std::min(200, 2000 / u)); };
  constexpr int kBlocks = 2 * kSms, kWarps = 8 * kBlocks, kMost = 200;
  WarpLog* const logs[2] = {device_array<WarpLog>(kMost * kWarps), device_array<WarpLog>(kMost * kWarps)};
  u64* const units = device_array<u64>(2);
  const cudaStream_t gated = make_stream(), streams[2] = {make_stream(), make_stream()};
  cudaEvent_t opened;
  CHECK(cudaEventCreateWithFlags(&opened, cudaEventDisableTiming));
  Gate gate;
  struct Span {
    double start, end;
  };
  const auto run = [&](const std::vector<Side>& sides) {
    gate.hold(gated);
    CHECK(cudaEventRecord(opened, gated));
    for (size_t s = 0; s < sides.size(); ++s) CHECK(cudaStreamWaitEvent(streams[s], opened));
    for (int i = 0; i < kMost; ++i)
      for (size_t s = 0; s < sides.size(); ++s) {
        if (i >= sides[s].launches) continue;
        Work w{};
        w.end = w.leave = ~u64{0};
        w.per_sm = 2;
        w.warps = kWarps;
        w.block_units = sides[s].block_units;
        w.units = units;
        w.logs = logs[s] + i * kWarps;
        client<Fma4><<<kBlocks, 256, 4096, streams[s]>>>(w);
      }
    CHECK(cudaGetLastError());
    gate.open();
    CHECK(cudaDeviceSynchronize());
    std::vector<std::vector<Span>> spans(sides.size());
    u64 zero = ~u64{0};
    std::vector<std::vector<WarpLog>> read;
    for (size_t s = 0; s < sides.size(); ++s) {
      read.push_back(read_back(logs[s], sides[s].launches * kWarps));
      for (const WarpLog& l : read[s]) zero = std::min(zero, l.start);
    }
    for (size_t s = 0; s < sides.size(); ++s)
      for (int i = 0; i < sides[s].launches; ++i) {
        u64 start = ~u64{0}, end = 0;
        for (int k = 0; k < kWarps; ++k) {
          start = std::min(start, read[s][i * kWarps + k].start);
          end = std::max(end, read[s][i * kWarps + k].last);
        }
        spans[s].push_back({us_between(zero, start), us_between(zero, end)});
      }
    return spans;
  };
  const auto lengths = [](const std::vector<Span>& spans) {
    Samples v;
    for (const Span& s : spans) v.push_back(s.end - s.start);
    return v;
  };
  const int pairs[][2] = {{2, 2}, {10, 10}, {48, 48}, {48, 2}, {2, 48}, {240, 2}, {2, 240}, {240, 10}};
  for (const auto& p : pairs) {
    const std::vector<Side> both = {{p[0], solo_launches(p[0])}, {p[1], solo_launches(p[1])}};
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto a = run({both[0]}), b = run({both[1]}), ab = run(both);
      const Case c = {{"units_a", p[0]},
                      {"units_b", p[1]},
                      {"launches_a", both[0].launches},
                      {"launches_b", both[1].launches},
                      {"repeat", repeat}};
      print_record(c, "a_alone_us", {a[0].back().end});
      print_record(c, "b_alone_us", {b[0].back().end});
      print_record(c, "a_end_us", {ab[0].back().end});
      print_record(c, "b_end_us", {ab[1].back().end});
      if (repeat > 0) continue;
      print_record(c, "a_alone_kernel_us", lengths(a[0]));
      print_record(c, "b_alone_kernel_us", lengths(b[0]));
      print_record(c, "a_kernel_us", lengths(ab[0]));
      print_record(c, "b_kernel_us", lengths(ab[1]));
      for (int s = 0; s < 2; ++s) {
        Samples starts, ends;
        for (size_t i = 0; i < ab[s].size() && i < 40; ++i) {
          starts.push_back(ab[s][i].start);
          ends.push_back(ab[s][i].end);
        }
        print_record(c, s == 0 ? "a_first_starts_us" : "b_first_starts_us", starts);
        print_record(c, s == 0 ? "a_first_ends_us" : "b_first_ends_us", ends);
      }
    }
  }
}
