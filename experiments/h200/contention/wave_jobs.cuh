// Launches of a few waves, alone: how far their blocks have drifted apart when the last ones end.
#pragma once

#include "clients.cuh"

struct Stay {
  u64 start, end;  // ns
  unsigned sm;
};
struct Waves {
  Stay* stays;
  char* data;     // of this launch
  int amount;     // of a thread's work
  unsigned zero;  // 0, which the compiler does not know
};

// What a block does, from its first to its last instruction.
template <class Body>
__global__ void __launch_bounds__(1024) in_waves(Waves w) {
  extern __shared__ __align__(128) char shared[];
  const u64 start = globaltimer();
  const unsigned result = Body::run(w, shared);
  if (result == 0x12345678u) w.data[0] = 1;
  __syncthreads();
  if (threadIdx.x != 0) return;
  w.stays[blockIdx.x] = {start, globaltimer(), sm_id()};
}

// Reads and writes once, as an elementwise kernel.
struct CopyOnce {
  __device__ static unsigned run(const Waves& w, char*) {
    char* const at = w.data + (u64{blockIdx.x} * w.amount * blockDim.x + threadIdx.x) * sizeof(Quad);
    for (int i = 0; i < w.amount; i += 2) {
      const Quad a = load_l2(at + u64(i) * blockDim.x * sizeof(Quad));
      const Quad b = load_l2(at + u64(i + 1) * blockDim.x * sizeof(Quad));
      store(at + u64(i) * blockDim.x * sizeof(Quad), {a.x + 1, a.y, a.z, a.w});
      store(at + u64(i + 1) * blockDim.x * sizeof(Quad), {b.x + 1, b.y, b.z, b.w});
    }
    return 0;
  }
};
// Reads a row, as a sum does.
struct ReadRow {
  __device__ static unsigned run(const Waves& w, char*) {
    const char* const at = w.data + (u64{blockIdx.x} * w.amount * blockDim.x + threadIdx.x) * sizeof(Quad);
    unsigned mix = 0;
    for (int i = 0; i < w.amount; i += 4) {
      Quad q[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) q[k] = load_l2(at + u64(i + k) * blockDim.x * sizeof(Quad));
#pragma unroll
      for (int k = 0; k < 4; ++k) mix += q[k].mix();
    }
    return mix;
  }
};
// Reads single sectors of a GiB.
struct GatherSectors {
  __device__ static unsigned run(const Waves& w, char*) {
    unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1, mix = 0;
    for (int i = 0; i < w.amount; ++i) {
      state = state * 1664525u + 1013904223u;
      mix += *reinterpret_cast<const volatile unsigned*>(w.data + (u64{state >> 7} << 5));
    }
    return mix;
  }
};
// Chains of multiply-adds, two a thread, in single or double precision.
template <class Number>
struct Chains {
  __device__ static unsigned run(const Waves& w, char*) {
    Number a = threadIdx.x, b = blockIdx.x;
    const Number by = Number(1.0001) + w.zero, plus = Number(0.5) + w.zero;
    for (int i = 0; i < w.amount; ++i) {
#pragma unroll
      for (int k = 0; k < 16; ++k) a = a * by + plus, b = b * by + plus;
    }
    return static_cast<unsigned>(a + b);
  }
};
// Fills 16 KiB of shared memory from 16 MiB that stay in L2, meets at a barrier, and computes from it.
struct Tiles {
  __device__ static unsigned run(const Waves& w, char* shared) {
    constexpr unsigned kTile = 16 << 10;
    float sum[8] = {};
    unsigned tile = blockIdx.x * 40503u;
    for (int i = 0; i < w.amount; ++i, tile += 7919) {
      const char* const from = w.data + u64{tile % 1024} * kTile;
      for (unsigned at = threadIdx.x * sizeof(Quad); at < kTile; at += blockDim.x * sizeof(Quad))
        *reinterpret_cast<Quad*>(shared + at) = load_l2(from + at);
      __syncthreads();
      const float* const values = reinterpret_cast<const float*>(shared);
      for (int k = 0; k < 256; ++k) {
        const float x = values[(threadIdx.x % 32 + k * 16) % (kTile / 4)];
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] = sum[j] * x + j;
      }
      __syncthreads();
    }
    float all = 0;
    for (const float s : sum) all += s;
    return __float_as_uint(all);
  }
};

// Of a launch: times of blocks, and how long before its end their places were left, in times of a block.
struct Drift {
  u64 begin, end;
  double length_us, block_us, spread, first, idle_start, idle_end, busy;
};
Drift drift_of(const std::vector<Stay>& stays, int places) {
  std::vector<std::vector<u64>> starts(kMaxSms), ends(kMaxSms);
  u64 begin = ~u64{0}, end = 0;
  double sum = 0, squares = 0, first = 0;
  for (const Stay& s : stays) {
    begin = std::min(begin, s.start), end = std::max(end, s.end);
    starts[s.sm].push_back(s.start), ends[s.sm].push_back(s.end);
    const double us = us_between(s.start, s.end);
    sum += us, squares += us * us;
  }
  const double n = static_cast<double>(stays.size()), mean = sum / n;
  const size_t wave = std::min<size_t>(stays.size(), size_t(places) * kSms);
  for (size_t i = 0; i < wave; ++i) first += us_between(stays[i].start, stays[i].end) / wave;
  double idle_start = 0, idle_end = 0;
  for (int sm = 0; sm < kMaxSms; ++sm) {
    std::sort(starts[sm].begin(), starts[sm].end());
    std::sort(ends[sm].rbegin(), ends[sm].rend());
    for (int i = 0; i < places && sm < kSms; ++i) {
      const bool used = i < static_cast<int>(ends[sm].size());
      idle_start += us_between(begin, used ? starts[sm][i] : end);
      idle_end += used ? us_between(ends[sm][i], end) : 0;
    }
  }
  const double all = double(places) * kSms, length = us_between(begin, end);
  return {begin, end, length, mean, std::sqrt(std::max(0.0, squares / n - mean * mean)) / mean, first / mean,
          idle_start / all / mean, idle_end / all / mean, sum / all / length};
}

void waves() {
  struct Kind {
    const char* name;
    void (*kernel)(Waves);
    int threads, shared, amount;
    u64 bytes;  // that a block moves on by; 0: all launches use the same
  };
  const Kind kinds[] = {{"copy", in_waves<CopyOnce>, 128, 0, 2, 128 * 2 * 16},
                        {"copy", in_waves<CopyOnce>, 128, 20 << 10, 4, 128 * 4 * 16},
                        {"copy", in_waves<CopyOnce>, 512, 0, 8, 512 * 8 * 16},
                        {"read", in_waves<ReadRow>, 512, 0, 32, 512 * 32 * 16},
                        {"read", in_waves<ReadRow>, 1024, 0, 16, 1024 * 16 * 16},
                        {"read", in_waves<ReadRow>, 128, 0, 16, 128 * 16 * 16},
                        {"gather", in_waves<GatherSectors>, 128, 0, 32, 0},
                        {"chains", in_waves<Chains<float>>, 128, 0, 200, 0},
                        {"chains", in_waves<Chains<float>>, 256, 100 << 10, 400, 0},
                        {"doubles", in_waves<Chains<double>>, 128, 0, 40, 0},
                        {"tiles", in_waves<Tiles>, 64, 16 << 10, 16, 0},
                        {"tiles", in_waves<Tiles>, 128, 100 << 10, 32, 0},
                        {"tiles", in_waves<Tiles>, 256, 200 << 10, 32, 0}};
  const double counts[] = {0.97, 1.5, 1.94, 2.97, 3.88, 5.2, 5.8, 7.76, 12, 15.5, 20, 24, 31, 62};
  constexpr int kLaunches = 12, kRepeats = 9;
  constexpr u64 kRegion = 4 * kGiB;
  constexpr int kMostBlocks = kSms * 32 * 64;
  Stay* const stays = device_array<Stay>(2 * kMostBlocks);
  cudaEvent_t from, to;
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  for (const Kind& k : kinds) {
    CHECK(cudaFuncSetAttribute(k.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
    int places = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&places, k.kernel, k.threads, k.shared));
    for (const double count : counts) {
      const int blocks = static_cast<int>(count * places * kSms + 0.5);
      const u64 bytes = k.bytes * blocks;
      if (bytes > kRegion / 2) continue;
      Samples length, period, gap, block, spread, first, idle_start, idle_end, busy;
      u64 at = 0;
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        CHECK(cudaEventRecord(from));
        for (int i = 0; i < kLaunches; ++i) {
          if (at + bytes > kRegion) at = 0;
          k.kernel<<<blocks, k.threads, k.shared>>>({stays + i % 2 * kMostBlocks, buffer(0) + at, k.amount, 0});
          at += bytes;
        }
        CHECK(cudaEventRecord(to));
        CHECK(cudaDeviceSynchronize());
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, from, to));
        if (repeat == 0) continue;
        const Drift d = drift_of(read_back(stays, blocks), places);
        const Drift next = drift_of(read_back(stays + kMostBlocks, blocks), places);
        gap.push_back(us_between(d.end, next.begin));
        period.push_back(1e3 * ms / kLaunches);
        length.push_back(d.length_us), block.push_back(d.block_us), spread.push_back(d.spread);
        first.push_back(d.first), idle_start.push_back(d.idle_start), idle_end.push_back(d.idle_end);
        busy.push_back(d.busy);
      }
      const Case c = {{"kernel", k.name},           {"threads", k.threads},
                      {"shared_bytes", k.shared},   {"places_per_sm", places},
                      {"blocks", blocks},           {"waves", double(blocks) / places / kSms}};
      print_record(c, "length_us", length);
      print_record(c, "period_us", period);
      print_record(c, "last_end_to_next_start_us", gap);
      print_record(c, "block_us", block);
      print_record(c, "spread_of_blocks", spread);
      print_record(c, "first_wave_over_all", first);
      print_record(c, "left_before_the_end_blocks", idle_end);
      print_record(c, "taken_after_the_start_blocks", idle_start);
      print_record(c, "share_of_places_taken", busy);
    }
  }
}

// Stores a row and reads nothing.
struct WriteRow {
  __device__ static unsigned run(const Waves& w, char*) {
    char* const at = w.data + (u64{blockIdx.x} * w.amount * blockDim.x + threadIdx.x) * sizeof(Quad);
    for (int i = 0; i < w.amount; ++i) store(at + u64(i) * blockDim.x * sizeof(Quad), {1, 2, 3, 4});
    return 0;
  }
};

// From the last block's end to the first block of the stream's next kernel, by how much the kernel moved and
// by how many launches are behind it.
void gap_after() {
  struct Kind {
    const char* name;
    void (*kernel)(Waves);
  };
  const Kind kinds[] = {{"read", in_waves<ReadRow>}, {"write", in_waves<WriteRow>}, {"copy", in_waves<CopyOnce>}};
  constexpr int kThreads = 256, kBlocks = 512, kRepeats = 25, kLaunches = 24;
  constexpr u64 kRegion = 4 * kGiB;
  Stay* const stays = device_array<Stay>(kLaunches * kBlocks);
  for (const bool again : {true, false})
    for (const Kind& k : kinds)
      for (const int mib : {16, 32, 64, 128, 256}) {
        const int amount = static_cast<int>(mib * kMiB / (u64{kBlocks} * kThreads * sizeof(Quad)));
        const u64 bytes = mib * kMiB;
        std::vector<Samples> gaps(kLaunches);
        u64 at = 0;
        for (int i = 0; i < kRepeats; ++i) {
          for (int launch = 0; launch < kLaunches; ++launch) {
            if (!again && (at += bytes) + bytes > kRegion) at = 0;
            k.kernel<<<kBlocks, kThreads>>>({stays + launch * kBlocks, buffer(0) + at, amount, 0});
          }
          CHECK(cudaDeviceSynchronize());
          for (int launch = 1; launch < kLaunches; ++launch) {
            const Drift before = drift_of(read_back(stays + (launch - 1) * kBlocks, kBlocks), 1);
            const Drift next = drift_of(read_back(stays + launch * kBlocks, kBlocks), 1);
            if (i > 4) gaps[launch].push_back(us_between(before.end, next.begin));
          }
        }
        for (const int launch : {1, 2, 3, 4, 6, 8, 12, 16, 20, 22, 23})
          print_record({{"kernel", k.name}, {"MiB", mib}, {"the_same_again", int(again)}, {"launch", launch}, {"launches", kLaunches}},
                       "last_end_to_next_start_us", gaps[launch]);
      }
}
