// What a part of the GPU gets: bandwidth by where its SMs lie, where percentages lie, atomics, and a launch's cold start.
//
//   nvcc -O2 -std=c++17 -gencode arch=compute_90a,code=sm_90a mechanisms.cu -o mechanisms -lcuda
//   mechanisms green|atomics|cold        a record a line, JSON
//   mechanisms client LABEL SECONDS      beside others under MPS: which SMs its blocks are on
//   mechanisms rates LABEL               under MPS: the rates of `green` with the SMs that the process has
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#define OK(call)                                                                             \
  do {                                                                                       \
    const int e = static_cast<int>(call);                                                    \
    if (e != 0) { std::printf("{\"error\": \"%s:%d: %d\"}\n", __FILE__, __LINE__, e); std::fflush(stdout); std::exit(1); } \
  } while (0)

__device__ unsigned sm_id() { unsigned id; asm volatile("mov.u32 %0, %%smid;" : "=r"(id)); return id; }

__global__ void where(unsigned* seen, long long cycles) {
  if (threadIdx.x == 0) atomicAdd(seen + sm_id(), 1);
  const long long start = clock64();
  while (clock64() - start < cycles) {}
}

/// Each block reads its share of `n` vectors `rounds` times.
__global__ void read(const float4* from, size_t n, int rounds, float* sink) {
  float4 sum = {0, 0, 0, 0};
  const size_t stride = size_t(gridDim.x) * blockDim.x, me = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    size_t i = me;
    for (; i + 3 * stride < n; i += 4 * stride) {
      float4 v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = __ldcg(from + i + k * stride);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum.x += v[k].x, sum.y += v[k].y, sum.z += v[k].z, sum.w += v[k].w;
    }
    for (; i < n; i += stride) sum.x += __ldcg(from + i).x;
  }
  if (sum.x + sum.y + sum.z + sum.w == 0.123f) *sink = sum.x;
}

__global__ void write(float4* to, size_t n, int rounds) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (int r = 0; r < rounds; ++r)
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) __stcg(to + i, make_float4(r, 1, 2, 3));
}

/// Atomic additions without a result, to `targets` floats, `stride` apart: each thread its own sequence.
__global__ void atomics(float* to, unsigned targets, unsigned stride, int count, bool spread) {
  unsigned x = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 12345;
  for (int i = 0; i < count; ++i) {
    x = x * 1664525u + 1013904223u;
    const unsigned at = spread ? (x >> 8) % targets : (threadIdx.x + i) % targets;
    atomicAdd(to + size_t(at) * stride, 1.0f);
  }
}

/// Straight code of kLength multiply-adds, which no instruction cache of an SM holds.
template <int kLength, int kWhich>
__global__ void straight(float* sink, float a, float b) {
  float x = a, y = b, z = a + b, w = a - b;
#pragma unroll
  for (int i = 0; i < kLength / 4; ++i) {
    x = x * a + float(i + kWhich), y = y * b + float(i * 2 + kWhich), z = z * a + float(i * 3 + kWhich), w = w * b + float(i * 5 + kWhich);
  }
  if (x + y + z + w == 0.123f) *sink = x;
}

struct Timer {
  cudaEvent_t a, b;
  Timer() { OK(cudaEventCreate(&a)); OK(cudaEventCreate(&b)); }
  template <typename F>
  double ms(cudaStream_t stream, F&& f) {
    std::vector<float> all;
    for (int i = 0; i < 4; ++i) {
      OK(cudaEventRecord(a, stream));
      f();
      OK(cudaEventRecord(b, stream));
      OK(cudaEventSynchronize(b));
      float ms;
      OK(cudaEventElapsedTime(&ms, a, b));
      if (i > 0) all.push_back(ms);
    }
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }
};

struct Buffers {
  static constexpr size_t kBig = size_t{2} << 30, kSmall = size_t{16} << 20;
  float4 *big, *other;
  float* sink;
  unsigned* seen;
  Buffers() {
    OK(cudaMalloc(&big, kBig)); OK(cudaMalloc(&other, kBig)); OK(cudaMalloc(&sink, 64)); OK(cudaMalloc(&seen, 4 * 256));
    OK(cudaMemset(big, 1, kBig)); OK(cudaMemset(other, 1, kBig));
  }
};

void print_sms(Buffers& m, cudaStream_t stream, int blocks) {
  std::vector<unsigned> seen(256);
  OK(cudaMemsetAsync(m.seen, 0, 4 * 256, stream));
  where<<<blocks, 1024, 0, stream>>>(m.seen, 200000);
  OK(cudaMemcpyAsync(seen.data(), m.seen, 4 * 256, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  std::printf("\"sms\": [");
  bool first = true;
  for (unsigned i = 0; i < 256; ++i)
    if (seen[i] != 0) std::printf("%s%u", first ? "" : ", ", i), first = false;
  std::printf("]");
}

void rates(Buffers& m, cudaStream_t stream, int sms) {
  Timer t;
  print_sms(m, stream, 8 * sms);
  for (const int each : {2, 8}) {
    const int blocks = each * sms;
    const size_t big = Buffers::kBig / 16 / (sms < 32 ? 4 : 1), small = Buffers::kSmall / 16;
    const int rounds = std::max(1, 40 * sms / 132);
    const double dram = t.ms(stream, [&] { read<<<blocks, 256, 0, stream>>>(m.big, big, 1, m.sink); });
    const double l2 = t.ms(stream, [&] { read<<<blocks, 256, 0, stream>>>(m.big, small, rounds, m.sink); });
    const double wr = t.ms(stream, [&] { write<<<blocks, 256, 0, stream>>>(m.other, big, 1); });
    const double wl2 = t.ms(stream, [&] { write<<<blocks, 256, 0, stream>>>(m.other, small, rounds); });
    std::printf(", \"blocks_%d\": {\"dram_read_gb\": %.1f, \"l2_read_gb\": %.1f, \"dram_write_gb\": %.1f, \"l2_write_gb\": %.1f}", each,
                big * 16 / dram / 1e6, small * 16.0 * rounds / l2 / 1e6, big * 16 / wr / 1e6, small * 16.0 * rounds / wl2 / 1e6);
  }
}

void green() {
  Buffers m;
  CUdevice device;
  OK(cuDeviceGet(&device, 0));
  CUdevResource all;
  OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  for (const unsigned ignore : {0u, 1u}) {
    const unsigned least = ignore ? 2 : 8;
    unsigned count = all.sm.smCount / least;
    std::vector<CUdevResource> groups(count);
    CUdevResource rest;
    OK(cuDevSmResourceSplitByCount(groups.data(), &count, &all, &rest, ignore ? CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING : 0, least));
    for (const unsigned sms : {8u, 16u, 24u, 32u, 48u, 64u, 66u, 96u, 120u, 132u}) {
      const unsigned n = sms / least;
      if (n == 0 || n > count || sms % least != 0) continue;
      CUdevResourceDesc desc;
      OK(cuDevResourceGenerateDesc(&desc, groups.data(), n));
      CUgreenCtx context;
      OK(cuGreenCtxCreate(&context, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
      CUstream stream;
      OK(cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING, 0));
      std::printf("{\"job\": \"green\", \"ignore_coscheduling\": %u, \"asked\": %u, ", ignore, sms);
      rates(m, stream, int(sms));
      std::printf("}\n");
      std::fflush(stdout);
    }
  }
}

/// Atomics alone, and beside readers of L2 and DRAM on the other half of the SMs.
void atomic_rates() {
  Buffers m;
  Timer t;
  CUdevice device;
  OK(cuDeviceGet(&device, 0));
  CUdevResource all;
  OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  unsigned count = all.sm.smCount / 2;
  std::vector<CUdevResource> groups(count);
  CUdevResource rest;
  OK(cuDevSmResourceSplitByCount(groups.data(), &count, &all, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2));
  const auto part = [&](unsigned from, unsigned to) {
    CUdevResourceDesc desc;
    OK(cuDevResourceGenerateDesc(&desc, groups.data() + from, to - from));
    CUgreenCtx context;
    OK(cuGreenCtxCreate(&context, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CUstream stream;
    OK(cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING, 0));
    return stream;
  };
  const CUstream whole = part(0, count), first = part(0, count / 2), second = part(count / 2, count), eighth = part(0, count / 8);
  float* to = reinterpret_cast<float*>(m.other);
  for (const unsigned targets : {1u, 32u, 1024u, 32768u, 1u << 20, 1u << 24, 1u << 28})
    for (const bool spread : {false, true}) {
      const int n = targets <= 32 ? 200 : 1000;
      const auto alone = [&](CUstream s, int sms) {
        return double(sms) * 8 * 256 * n / t.ms(s, [&] { atomics<<<sms * 8, 256, 0, s>>>(to, targets, 1, n, spread); }) / 1e6;
      };
      const double g132 = alone(whole, 132), g66 = alone(first, 66), g16 = alone(eighth, 16);
      double beside[2], reader[2], reader_alone[2];
      for (const int dram : {0, 1}) {
        const size_t bytes = dram ? Buffers::kBig : Buffers::kSmall;
        const int rounds = dram ? 3 : 400;
        Timer r;
        const auto go = [&] { read<<<66 * 8, 256, 0, second>>>(m.big, bytes / 16, rounds, m.sink); };
        reader_alone[dram] = double(bytes) * rounds / r.ms(second, go) / 1e6;
        // The atomics go on for longer than the reader, launch after launch.
        OK(cudaDeviceSynchronize());
        const double one = 66.0 * 8 * 256 * n / g66 / 1e6;
        const int launches = int(std::clamp(30 / std::max(one, 1e-3), 4.0, 3000.0));
        cudaEvent_t a, b, c, d;
        OK(cudaEventCreate(&a)); OK(cudaEventCreate(&b)); OK(cudaEventCreate(&c)); OK(cudaEventCreate(&d));
        OK(cudaEventRecord(a, first));
        for (int i = 0; i < launches; ++i) atomics<<<66 * 8, 256, 0, first>>>(to, targets, 1, n, spread);
        OK(cudaEventRecord(b, first));
        go();
        OK(cudaEventRecord(c, second));
        go();
        OK(cudaEventRecord(d, second));
        OK(cudaDeviceSynchronize());
        float ab, cd;
        OK(cudaEventElapsedTime(&ab, a, b)); OK(cudaEventElapsedTime(&cd, c, d));
        beside[dram] = 66.0 * 8 * 256 * n * launches / ab / 1e6, reader[dram] = double(bytes) * rounds / cd / 1e6;
      }
      std::printf("{\"job\": \"atomics\", \"targets\": %u, \"spread\": %d, \"g_per_s\": {\"132\": %.2f, \"66\": %.2f, \"16\": %.2f}, "
                  "\"beside_l2\": %.2f, \"beside_dram\": %.2f, \"l2_gb\": [%.0f, %.0f], \"dram_gb\": [%.0f, %.0f]}\n",
                  targets, int(spread), g132, g66, g16, beside[0], beside[1], reader_alone[0], reader[0], reader_alone[1], reader[1]);
      std::fflush(stdout);
    }
}

template <int kLength>
void cold_of(Buffers& m) {
  cudaStream_t s;
  OK(cudaStreamCreate(&s));
  Timer t;
  const auto run = [&](int which, int blocks) {
    which == 0 ? straight<kLength, 0><<<blocks, 128, 0, s>>>(m.sink, 1, 2) : straight<kLength, 1><<<blocks, 128, 0, s>>>(m.sink, 1, 2);
  };
  for (const int blocks : {132, 528}) {
    const double same = t.ms(s, [&] { for (int i = 0; i < 200; ++i) run(0, blocks); }) / 200;
    const double turns = t.ms(s, [&] { for (int i = 0; i < 200; ++i) run(i % 2, blocks); }) / 200;
    const double flushed = t.ms(s, [&] { for (int i = 0; i < 50; ++i) run(0, blocks), read<<<1056, 256, 0, s>>>(m.big, (size_t{128} << 20) / 16, 1, m.sink); }) / 50;
    const double flush = t.ms(s, [&] { for (int i = 0; i < 50; ++i) read<<<1056, 256, 0, s>>>(m.big, (size_t{128} << 20) / 16, 1, m.sink); }) / 50;
    std::printf("{\"job\": \"cold\", \"instructions\": %d, \"blocks\": %d, \"same_us\": %.3f, \"in_turn_us\": %.3f, \"after_128MB_us\": %.3f}\n", kLength,
                blocks, 1e3 * same, 1e3 * turns, 1e3 * (flushed - flush));
    std::fflush(stdout);
  }
}

void client(const char* label, double seconds) {
  Buffers m;
  const auto now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  std::vector<unsigned> seen(256), all(256);
  int attribute = 0;
  OK(cudaDeviceGetAttribute(&attribute, cudaDevAttrMultiProcessorCount, 0));
  const double end = now() + seconds;
  while (now() < end) {
    OK(cudaMemset(m.seen, 0, 4 * 256));
    where<<<attribute * 4, 512>>>(m.seen, 2000000);
    OK(cudaMemcpy(seen.data(), m.seen, 4 * 256, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; ++i) all[i] += seen[i];
  }
  std::printf("{\"job\": \"client\", \"label\": \"%s\", \"sms_told\": %d, \"blocks_by_sm\": {", label, attribute);
  bool first = true;
  for (int i = 0; i < 256; ++i)
    if (all[i] != 0) std::printf("%s\"%d\": %u", first ? "" : ", ", i, all[i]), first = false;
  std::printf("}}\n");
}

int main(int argc, char** argv) {
  const std::string job = argc > 1 ? argv[1] : "";
  OK(cudaFree(nullptr));
  if (job == "green") {
    green();
  } else if (job == "atomics") {
    atomic_rates();
  } else if (job == "cold") {
    Buffers m;
    cold_of<1024>(m), cold_of<4096>(m), cold_of<16384>(m);
  } else if (job == "client" && argc > 3) {
    client(argv[2], std::atof(argv[3]));
  } else if (job == "rates" && argc > 2) {
    Buffers m;
    int sms = 0;
    OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    std::printf("{\"job\": \"rates\", \"label\": \"%s\", \"sms_told\": %d, ", argv[2], sms);
    rates(m, nullptr, sms);
    std::printf("}\n");
  } else {
    std::fprintf(stderr, "mechanisms green|atomics|cold|client LABEL SECONDS|rates LABEL\n");
    return 2;
  }
  return 0;
}
