// Blocks that follow each other on an SM.
#pragma once

#include "clients.cuh"

struct Visit {
  long long first, all, end;  // cycles of the SM: first warp starts, last warp starts, before the exit
  u64 start_ns, end_ns;
  unsigned sm, kernel;
};

// Each block stays for a random 1.5 to 4.5 us, so that blocks of an SM do not leave together.
template <int registers>
__global__ void __launch_bounds__(1024) visitor(Visit* visits) {
  __shared__ long long starts[32];
  const long long mine = cycle_count();
  Visit v{};
  v.start_ns = globaltimer();
  if (threadIdx.x % 32 == 0) starts[threadIdx.x / 32] = mine;
  float kept[registers - 24];  // values loaded here and used at the end take that many registers
#pragma unroll
  for (int i = 0; i < registers - 24; ++i)
    asm volatile("ld.global.cg.f32 %0, [%1];"
                 : "=f"(kept[i])
                 : "l"(reinterpret_cast<const float*>(visits) + i));
  // One thread spins: more would keep the warps of the next block from the issue slots.
  const unsigned jitter =
      ((blockIdx.x + 1) * 2654435761u ^ blockIdx.x << 7) * 2246822519u >> 20;  // 0 to 4,095
  if (threadIdx.x == 0) spin(3000 + jitter * 3 / 2 - (cycle_count() - mine));
  float sum = 0;
#pragma unroll
  for (int i = 0; i < registers - 24; ++i) sum = sum * kept[i] + i;
  if (sum == 0.5f) visits[0].kernel = 1;
  __syncthreads();
  if (threadIdx.x != 0) return;
  v.first = v.all = mine;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
    v.first = min(v.first, starts[warp]);
    v.all = max(v.all, starts[warp]);
  }
  v.sm = sm_id();
  v.end = cycle_count();
  v.end_ns = globaltimer();
  visits[blockIdx.x] = v;
}

// On an SM with r places the k-th block to start after the first r takes the place of the k-th to end.
Samples turnover_gaps(std::vector<Visit> visits, int places) {
  std::vector<std::vector<Visit>> by_sm(kMaxSms);
  for (const Visit& v : visits) by_sm[v.sm].push_back(v);
  Samples gaps;
  for (auto& v : by_sm) {
    std::vector<long long> starts, ends;
    for (const Visit& x : v) starts.push_back(x.first), ends.push_back(x.end);
    std::sort(starts.begin(), starts.end());
    std::sort(ends.begin(), ends.end());
    for (size_t i = places; i < starts.size(); ++i)
      gaps.push_back(static_cast<double>(starts[i] - ends[i - places]));
  }
  return gaps;
}

void turnover() {
  struct Shape {
    int threads, shared, registers;
  };
  const Shape shapes[] = {{32, 0, 32},           {32, 6 << 10, 32},     {32, 100 << 10, 32},
                          {32, 200 << 10, 32},   {128, 0, 32},          {128, 50 << 10, 32},
                          {128, 200 << 10, 32},  {256, 0, 32},          {256, 100 << 10, 32},
                          {256, 200 << 10, 32},  {512, 200 << 10, 32},  {1024, 0, 32},
                          {1024, 100 << 10, 32}, {1024, 200 << 10, 32}, {1024, 0, 64},
                          {256, 0, 64},          {1024, 200 << 10, 64}};
  Visit* const visits = device_array<Visit>(kSms * 32 * 12);
  for (const Shape& s : shapes) {
    void (*kernel)(Visit*) = s.registers == 64 ? visitor<64> : visitor<32>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, s.shared));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    int places = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&places, kernel, s.threads, s.shared));
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, kernel));
    const int blocks = kSms * places * 12;
    for (int warm = 0; warm < 2; ++warm) kernel<<<blocks, s.threads, s.shared>>>(visits);
    CHECK(cudaDeviceSynchronize());
    const std::vector<Visit> seen = read_back(visits, blocks);
    const Case c = {{"threads", s.threads},
                    {"shared_bytes", s.shared},
                    {"registers", attributes.numRegs},
                    {"places_per_sm", places}};
    print_record(c, "end_to_next_first_instruction_cycles", turnover_gaps(seen, places));
    Samples skew, launch, starts_of_one, ends_of_one, busy;
    for (unsigned sm = 0; sm < kSms; ++sm) {
      double stays = 0;
      long long from = 0, to = 0;
      for (const Visit& v : seen) {
        if (v.sm != sm) continue;
        stays += v.end - v.first;
        from = from == 0 ? v.first : std::min(from, v.first);
        to = std::max(to, v.end);
      }
      busy.push_back(stays / (to - from) / places);
      for (const Visit& v : seen)
        if (v.sm == sm && sm == 2)
          starts_of_one.push_back(v.first - from), ends_of_one.push_back(v.end - from);
    }
    print_record(c, "share_of_places_taken", busy);
    if (places <= 2) {
      print_record(c, "starts_on_one_sm_cycles", starts_of_one);
      print_record(c, "ends_on_one_sm_cycles", ends_of_one);
    }
    u64 begin = ~u64{0};
    for (const Visit& v : seen) begin = std::min(begin, v.start_ns);
    for (int i = 0; i < blocks; ++i) {
      skew.push_back(static_cast<double>(seen[i].all - seen[i].first));
      if (i < places * kSms) launch.push_back(us_between(begin, seen[i].start_ns));
    }
    print_record(c, "first_to_last_warp_start_cycles", skew);
    print_record(c, "first_wave_starts_us", launch);
  }
}

// Empty blocks: how fast places turn over when nothing else limits.
__global__ void nothing() {}
void empty_blocks() {
  cudaEvent_t from, to;
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
  for (int threads : {32, 256, 1024})
    for (int places : {1, 2, 4, 8, 16, 32}) {
      const int shared = (233472 / places - 1024) / 128 * 128;
      int most = 0;
      CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, nothing, threads,
                                                          std::min(shared, 220 << 10)));
      if (most < places) continue;
      Samples per_us;
      for (int i = 0; i < 7; ++i) {
        const int blocks = kSms * places * 400;
        CHECK(cudaEventRecord(from));
        nothing<<<blocks, threads, std::min(shared, 220 << 10)>>>();
        CHECK(cudaEventRecord(to));
        CHECK(cudaDeviceSynchronize());
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, from, to));
        if (i > 1) per_us.push_back(blocks / (1e3 * ms));
      }
      const Case c = {{"threads", threads}, {"places_per_sm", most}};
      print_record(c, "blocks_per_us", per_us);
      for (double& v : per_us) v = 1e3 * most * kSms / v;
      print_record(c, "time_of_a_place_per_block_ns", per_us);
    }
}

// Stores at the very end of a kernel: how much later does the next kernel of the stream start?
__global__ void writes_last(Visit* visits, Quad* out, int quads) {
  Visit v{};
  v.start_ns = globaltimer();
  spin(10'000);
  const u64 at = (u64{blockIdx.x} * quads) * blockDim.x + threadIdx.x;
  for (int i = 0; i < quads; ++i) store(out + at + u64{static_cast<unsigned>(i)} * blockDim.x, {1, 2, 3, 4});
  if (threadIdx.x != 0) return;
  v.end_ns = globaltimer();
  visits[blockIdx.x] = v;
}
void drain() {
  constexpr int kBlocks = 8 * kSms;
  const cudaStream_t s = make_stream();
  Visit* const visits = device_array<Visit>(2 * kBlocks);
  Quad* const out = reinterpret_cast<Quad*>(buffer(0));
  for (int blocks : {kSms, kBlocks})
    for (int quads : {0, 1, 4, 16, 64}) {
      Samples gaps, storing;
      for (int i = 0; i < 30; ++i) {
        writes_last<<<blocks, 256, 0, s>>>(visits, out, quads);
        writes_last<<<blocks, 256, 0, s>>>(visits + blocks, out, 0);
        CHECK(cudaStreamSynchronize(s));
        const std::vector<Visit> seen = read_back(visits, 2 * blocks);
        u64 begin = ~u64{0}, end = 0, next = ~u64{0};
        for (int k = 0; k < blocks; ++k) {
          begin = std::min(begin, seen[k].start_ns);
          end = std::max(end, seen[k].end_ns);
          next = std::min(next, seen[blocks + k].start_ns);
        }
        if (i < 3) continue;
        gaps.push_back(us_between(end, next));
        storing.push_back(us_between(begin, end));
      }
      const Case c = {{"blocks", blocks}, {"KiB_stored_by_a_block", 4 * quads}};
      print_record(c, "last_instruction_to_next_kernel_us", gaps);
      print_record(c, "first_to_last_instruction_us", storing);
    }
}

// A body whose threads all stay until its end.
__global__ void stay(Stamp* stamps, long long cycles) {
  Stamp s{};
  s.sm = sm_id();
  s.start = globaltimer();
  s.start_cycle = cycle_count();
  if (threadIdx.x == 0) spin(cycles);
  __syncthreads();
  if (threadIdx.x != 0) return;
  s.end_cycle = cycle_count();
  s.end = globaltimer();
  stamps[blockIdx.x] = s;
}

// Blocks of unequal length.
__global__ void stay_for_a_while(Stamp* stamps, long long least, long long range) {
  Stamp s{};
  s.sm = sm_id();
  s.start = globaltimer();
  const unsigned random = ((blockIdx.x + 1) * 2654435761u ^ blockIdx.x << 7) * 2246822519u >> 20;
  if (threadIdx.x == 0) spin(least + range * random / 4096);
  __syncthreads();
  if (threadIdx.x != 0) return;
  s.end = globaltimer();
  stamps[blockIdx.x] = s;
}

// Blocks on an SM at once, where all threads stay and where all but one leave at once.
void early_exit() {
  constexpr int kBlocks = 32 * kSms;
  Stamp* const stamps = device_array<Stamp>(kBlocks);
  for (int threads : {64, 256, 1024})
    for (bool leave : {false, true})
      for (double us : {50, 300}) {
        if (leave)
          launch_body(nullptr, kBlocks, threads, stamps, us);
        else
          stay<<<kBlocks, threads>>>(stamps, cycles_of(us));
        CHECK(cudaDeviceSynchronize());
        const std::vector<Stamp> all = read_back(stamps, kBlocks);
        Samples most;
        for (unsigned sm = 0; sm < kSms; ++sm) {
          int best = 0;
          for (const Stamp& a : all) {
            if (a.sm != sm) continue;
            int at_once = 0;
            for (const Stamp& b : all)
              at_once += b.sm == sm && b.start_cycle <= a.start_cycle && a.start_cycle < b.end_cycle;
            best = std::max(best, at_once);
          }
          most.push_back(best);
        }
        print_record({{"threads", threads}, {"other_threads", leave ? "leave" : "stay"}, {"us", us}},
                     "blocks_on_an_sm_at_once", most);
      }
}

// A kernel's use of shared memory, and the part of an SM's that it prefers, in percent of the most; -1: none.
struct Divided {
  int kib, carveout;
};

// How many blocks of a second kernel start on SMs that each hold one of a first, before these end.
void place_beside(Divided first, Divided second, const Case& c) {
  static const cudaStream_t s1 = make_stream(), s2 = make_stream();
  static Stamp* const stamps = device_array<Stamp>(2 * kSms);
  CHECK(cudaFuncSetAttribute(stay, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
  Samples together, waited;
  for (int repeat = 0; repeat < 3; ++repeat) {
    CHECK(cudaFuncSetAttribute(stay, cudaFuncAttributePreferredSharedMemoryCarveout, first.carveout));
    stay<<<kSms, 256, first.kib << 10, s1>>>(stamps, cycles_of(200));
    pause_us(60);
    CHECK(cudaFuncSetAttribute(stay, cudaFuncAttributePreferredSharedMemoryCarveout, second.carveout));
    stay<<<kSms, 256, second.kib << 10, s2>>>(stamps + kSms, cycles_of(20));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const std::vector<Stamp> all = read_back(stamps, 2 * kSms);
    u64 begin = ~u64{0}, end = 0, next = ~u64{0};
    int beside = 0;
    for (int i = 0; i < kSms; ++i) {
      begin = std::min(begin, all[i].start);
      end = std::max(end, all[i].end);
      next = std::min(next, all[kSms + i].start);
    }
    for (int i = 0; i < kSms; ++i) beside += all[kSms + i].start < end;
    together.push_back(beside);
    waited.push_back(us_between(begin, next));
  }
  print_record(c, "blocks_of_second_beside_first", together);
  print_record(c, "first_start_of_second_us", waited);
}

// Can a block start on an SM whose resident block needs another division of L1 and shared memory?
void carveouts() {
  for (int carveout : {-1, 100})
    for (int first_kib : {0, 4, 24, 48, 100, 200})
      for (int second_kib : {0, 4, 12, 24, 48, 80, 100, 120, 160, 200})
        if (first_kib + second_kib + 2 <= 228)
          place_beside(
              {first_kib, carveout}, {second_kib, carveout},
              {{"first_KiB", first_kib}, {"second_KiB", second_kib}, {"preferred_carveout", carveout}});
}

// The same where each kernel prefers a division of its own, whatever it needs.
void preferred_divisions() {
  const auto percent = [](int kib) { return kib < 0 ? -1 : (kib * 100 + 227) / 228; };
  for (int first_kib : {0, 4})
    for (int second_kib : {0, 4, 24})
      for (int first : {-1, 0, 8, 16, 32, 64, 100, 132, 164, 196, 228})
        for (int second : {-1, 0, 8, 16, 32, 64, 100, 132, 164, 196, 228})
          place_beside({first_kib, percent(first)}, {second_kib, percent(second)},
                       {{"first_KiB", first_kib},
                        {"second_KiB", second_kib},
                        {"first_prefers_KiB", first},
                        {"second_prefers_KiB", second}});
}

// A kernel of many blocks without shared memory runs; one that needs another division of it comes.
void carveout_wait() {
  constexpr int kBlocks = 8 * kSms * 40;
  const cudaStream_t plain = make_stream(), other = make_stream(), urgent = make_stream(-5);
  CHECK(cudaFuncSetAttribute(stay, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
  Stamp* const stamps = device_array<Stamp>(kBlocks + kSms);
  for (bool high : {false, true})
    for (int kib : {0, 200}) {
      Samples first, last, between, a_end;
      for (int repeat = 0; repeat < 5; ++repeat) {
        CHECK(cudaMemset(stamps, 0, (kBlocks + kSms) * sizeof(Stamp)));
        stay_for_a_while<<<kBlocks, 224, 0, plain>>>(stamps, cycles_of(10), cycles_of(20));
        pause_us(100);
        stay<<<kSms, 256, kib << 10, high ? urgent : other>>>(stamps + kBlocks, cycles_of(20));
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        const std::vector<Stamp> all = read_back(stamps, kBlocks + kSms);
        u64 begin = ~u64{0}, end = 0, b_first = ~u64{0}, b_last = 0;
        for (int i = 0; i < kBlocks; ++i)
          begin = std::min(begin, all[i].start), end = std::max(end, all[i].end);
        for (int i = kBlocks; i < kBlocks + kSms; ++i) {
          b_first = std::min(b_first, all[i].start);
          b_last = std::max(b_last, all[i].start);
        }
        int started = 0;
        for (int i = 0; i < kBlocks; ++i)
          started += us_between(begin, all[i].start) > 115 && all[i].start < b_last;
        first.push_back(us_between(begin, b_first));
        last.push_back(us_between(begin, b_last));
        between.push_back(started);
        a_end.push_back(us_between(begin, end));
      }
      const Case c = {
          {"second", high ? "urgent" : "default"}, {"second_KiB", kib}, {"second_launched_us", 100}};
      print_record(c, "first_start_of_second_us", first);
      print_record(c, "last_start_of_second_us", last);
      print_record(c, "blocks_of_first_started_from_115_us_to_last_start_of_second", between);
      print_record(c, "end_of_first_us", a_end);
    }
}
