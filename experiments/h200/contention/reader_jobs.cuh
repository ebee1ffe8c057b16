// Readers at random beside a stencil and streams, on the same SMs and on others: what of an SM they share.
// The stencil and the sparse product are those of ../user_kernels, a unit being a block of theirs; the variants
// leave out one unit of the SM at a time.
#pragma once

#include <cuda_profiler_api.h>

#include "memory_jobs.cuh"

template <bool cached>
__device__ float load_float(const float* p) {
  float v;
  if (cached)
    asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(v) : "l"(p));
  else
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}
template <bool cached>
__device__ float4 load_float4(const float* p) {
  float4 v;
  if (cached)
    asm volatile("ld.global.ca.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
  else
    asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
  return v;
}

// 16 entries a row in ELL form; `columns` floats of x are read at random, none if 0.
template <unsigned columns, bool cached>
struct SparseRows {
  static constexpr double kAmount = 1.0 / 8;  // blocks, of eight warps
  static constexpr bool kWholeBlock = true;
  static constexpr unsigned kRows = 1'000'192, kWidth = 16;
  const float *value, *x;
  const unsigned* column;
  float* y;
  unsigned block, blocks, step;
  __device__ SparseRows(const Work& w, unsigned rank, char*) {
    value = reinterpret_cast<const float*>(w.data);
    column = reinterpret_cast<const unsigned*>(value + kRows * kWidth);
    x = reinterpret_cast<const float*>(column + kRows * kWidth);
    y = const_cast<float*>(x) + (2u << 20);
    blocks = kRows / 256, block = rank / 8 % blocks, step = w.warps / 8;
  }
  __device__ void run() {
    const unsigned row = block * 256 + threadIdx.x;
    float sum = 0;
#pragma unroll 4
    for (unsigned k = 0; k < kWidth; ++k) {
      const unsigned at = k * kRows + row;
      const float a = load_float<true>(value + at);
      const unsigned c = __float_as_uint(load_float<true>(reinterpret_cast<const float*>(column + at)));
      sum = __fmaf_rn(a, columns > 0 ? load_float<cached>(x + c % columns) : __uint_as_float(c), sum);
    }
    y[row] = sum;
    block = (block + step) % blocks;
  }
  __device__ unsigned result() { return 0; }
};

// Seven points of 512 x 512 x 256, 16 planes a block.
template <bool cached>
struct Heat {
  static constexpr double kAmount = 1.0 / 8;
  static constexpr bool kWholeBlock = true;
  static constexpr int kX = 512, kY = 512, kZ = 256, kDepth = 16, kPlane = kX * kY;
  const float* in;
  float* out;
  unsigned block, step;
  __device__ Heat(const Work& w, unsigned rank, char*) {
    in = reinterpret_cast<const float*>(w.data);
    out = const_cast<float*>(in) + kPlane * kZ;
    block = rank / 8 % 4096, step = w.warps / 8;
  }
  __device__ void run() {
    const int x = (block % 4 * 32 + threadIdx.x % 32) * 4, y = block / 4 % 64 * 8 + threadIdx.x / 32;
    const int first = block / 256 * kDepth;
    const int back = y > 0 ? -kX : 0, front = y + 1 < kY ? kX : 0;
    int at = (first * kY + y) * kX + x;
    float4 below = load_float4<cached>(in + (first > 0 ? at - kPlane : at)), here = load_float4<cached>(in + at);
    for (int z = first; z < first + kDepth; ++z, at += kPlane) {
      const float4 above = load_float4<cached>(in + (z + 1 < kZ ? at + kPlane : at));
      const float4 a = load_float4<cached>(in + at + back), b = load_float4<cached>(in + at + front);
      const float left = x > 0 ? load_float<cached>(in + at - 1) : here.x;
      const float right = x + 4 < kX ? load_float<cached>(in + at + 4) : here.w;
      const auto point = [](float c, float a, float b, float d, float u, float l, float r) {
        return __fmaf_rn(0.125f, __fmaf_rn(-6, c, a + b + d + u + l + r), c);
      };
      store(out + at, {__float_as_uint(point(here.x, a.x, b.x, below.x, above.x, left, here.y)),
                       __float_as_uint(point(here.y, a.y, b.y, below.y, above.y, here.x, here.z)),
                       __float_as_uint(point(here.z, a.z, b.z, below.z, above.z, here.y, here.w)),
                       __float_as_uint(point(here.w, a.w, b.w, below.w, above.w, here.z, right))});
      below = here, here = above;
    }
    block = (block + step) % 4096;
  }
  __device__ unsigned result() { return 0; }
};

__global__ void random_columns(unsigned* columns, unsigned count, unsigned below) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    unsigned state = i * 2654435761u + 12345u;
    state = (state ^ state >> 15) * 2246822519u;
    state = (state ^ state >> 13) * 3266489917u;
    columns[i] = __umulhi(state ^ state >> 16, below);
  }
}

constexpr unsigned kTable = 2u << 20, kSmallTable = 2048;  // floats
Client reader(const char* name, int per_sm, int which = 0) {
  const std::string wanted = name;
  const auto of = [&](Client c) { return c.in(buffer(which), kGiB); };
  if (wanted == "sparse") return of(client_of<SparseRows<kTable, true>>(name, per_sm, 256));
  if (wanted == "sparse, x past L1") return of(client_of<SparseRows<kTable, false>>(name, per_sm, 256));
  if (wanted == "sparse, x in L1") return of(client_of<SparseRows<kSmallTable, true>>(name, per_sm, 256));
  if (wanted == "sparse, no x") return of(client_of<SparseRows<0, true>>(name, per_sm, 256));
  if (wanted == "L2 gather") return memory<Gather>(name, per_sm, 8 * kMiB, which);
  if (wanted == "heat") return of(client_of<Heat<true>>(name, per_sm, 256));
  if (wanted == "heat past L1") return of(client_of<Heat<false>>(name, per_sm, 256));
  if (wanted == "read") return memory<Read>(name, per_sm, 4 * kGiB, which);
  if (wanted == "copy") return memory<Copy>(name, per_sm, 4 * kGiB, which);
  REQUIRE(wanted == "L2 read");
  return memory<Read>(name, per_sm, 8 * kMiB, which);
}
void fill_columns() {
  for (int which : {0, 1}) {
    CHECK(cudaMemset(buffer(which), 0, 4 * kGiB));
    random_columns<<<1056, 256>>>(reinterpret_cast<unsigned*>(buffer(which)) + 1'000'192 * 16, 1'000'192 * 16, kTable);
    CHECK(cudaDeviceSynchronize());
  }
}

const char* const kReaders[] = {"sparse", "sparse, x past L1", "sparse, x in L1", "sparse, no x", "L2 gather"};
const char* const kOthers[] = {"heat", "heat past L1", "read", "copy", "L2 read"};

// Rates over alone, of readers that come first and second, on the same 96 SMs, or on 66 each.
void readers() {
  fill_columns();
  for (int readers_each : {2, 6})
    for (int others_each : {1, 2})
      for (bool apart : {false, true}) {
        const auto first = apart ? spread_sms(66) : sm_range(0, 96);
        const auto second = apart ? [] {
          std::vector<int> v;
          for (int sm = 1; sm < kSms; sm += 2) v.push_back(sm);
          return v;
        }()
                                  : first;
        const auto alone = [&](const Client& c) { return median(rates({c}, 600).per_us[0]); };
        std::vector<double> other_alone;
        for (const char* name : kOthers) {
          const Client c = reader(name, others_each, 1).on(second);
          other_alone.push_back(alone(c));
          print_record({{"access", name}, {"per_sm", others_each}, {"sms", apart ? "66" : "96"}}, "alone_per_us",
                       {other_alone.back()});
        }
        for (const char* name : kReaders) {
          const Client r = reader(name, readers_each).on(first);
          const double reader_alone = alone(r);
          print_record({{"access", name}, {"per_sm", readers_each}, {"sms", apart ? "66" : "96"}}, "alone_per_us",
                       {reader_alone});
          for (size_t k = 0; k < std::size(kOthers); ++k)
            for (bool reader_first : {true, false}) {
              if (apart && !reader_first) continue;
              const Client o = reader(kOthers[k], others_each, 1).on(second);
              const Rates both = reader_first ? rates({r, o}, 1000, 600) : rates({o, r}, 1000, 600);
              const Case c = {{"reader", name},
                              {"other", kOthers[k]},
                              {"readers", readers_each},
                              {"others", others_each},
                              {"sms", apart ? "66 each" : "the same 96"},
                              {"first", reader_first ? "reader" : "other"},
                              {"places", both.last[0].places + both.last[1].places}};
              print_record(c, "reader_over_alone", scaled(both.per_us[reader_first ? 0 : 1], 1 / reader_alone));
              print_record(c, "other_over_alone", scaled(both.per_us[reader_first ? 1 : 0], 1 / other_alone[k]));
            }
        }
      }
}

// For Nsight Compute (--replay-mode app-range): a range for each case, the work done in the record.
void readers_counted() {
  fill_columns();
  const auto all = sm_range(0, 96);
  const auto range = [&](const std::vector<Client>& clients) {
    CHECK(cudaProfilerStart());
    const std::vector<Outcome> o = run_together(clients, 10000, 0);
    CHECK(cudaProfilerStop());
    const bool two = clients.size() > 1;
    print_record({{"first", clients[0].name},
                  {"second", two ? clients[1].name : ""},
                  {"first_per_us", o[0].per_us},
                  {"second_per_us", two ? o[1].per_us : 0},
                  {"window_us", 10000}},
                 "counters", {});
  };
  const Client sparse = reader("sparse", 6).on(all), gather = reader("L2 gather", 6).on(all);
  const Client heat = reader("heat", 1, 1).on(all), read = reader("read", 1, 1).on(all);
  for (const std::vector<Client>& clients : std::vector<std::vector<Client>>{
           {sparse}, {gather}, {heat}, {read}, {sparse, heat}, {sparse, read}, {gather, heat}, {gather, read}})
    range(clients);
}
