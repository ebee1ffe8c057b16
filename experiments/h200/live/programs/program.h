// Parts of each CUDA program of this folder: checked calls, kernels whose order shows in their outcome, memory that is looked at again at the end.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

inline void check_at(cudaError_t error, const char* what, int line) {
  if (error == cudaSuccess) return;
  std::printf("{\"error\": \"%s: %s\", \"line\": %d}\n", what, cudaGetErrorName(error), line);
  std::fflush(stdout);
  std::_Exit(1);
}
#define CHECK(call) check_at((call), #call, __LINE__)

inline constexpr unsigned kCount = 1u << 20, kThreads = 256, kBlocks = kCount / kThreads;
inline constexpr std::size_t kBytes = kCount * sizeof(unsigned);

/// A launch that is lost, doubled, or out of order leaves another outcome: each value goes on from itself, and from one of another block.
__device__ __forceinline__ unsigned mixed(unsigned own, unsigned other, unsigned salt) { return (own ^ salt) * 1664525u + (other >> 7) + 1013904223u; }

static __global__ void mix(const unsigned* from, unsigned* to, unsigned salt) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = mixed(from[i], from[(i * 40503u + salt) % kCount], salt);
}
static __global__ void fill(unsigned* to, std::size_t count, unsigned seed) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x)
    to[i] = (static_cast<unsigned>(i) ^ seed) * 2654435761u;
}
static __global__ void count_others(const unsigned* of, std::size_t count, unsigned seed, unsigned* others) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x)
    if (of[i] != (static_cast<unsigned>(i) ^ seed) * 2654435761u) atomicAdd(others, 1u);
}

/// Memory that is the same at the end, wherever it was meanwhile.
class Ballast {
 public:
  explicit Ballast(unsigned seed = 17) : seed_(seed) {
    CHECK(cudaMalloc(&at_, kWords * sizeof(unsigned)));
    fill<<<512, kThreads>>>(at_, kWords, seed_);
    CHECK(cudaDeviceSynchronize());
  }
  unsigned others() const {
    unsigned *count = nullptr, result = 0;
    CHECK(cudaMalloc(&count, sizeof *count));
    CHECK(cudaMemset(count, 0, sizeof *count));
    count_others<<<512, kThreads>>>(at_, kWords, seed_, count);
    CHECK(cudaMemcpy(&result, count, sizeof result, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(count));
    return result;
  }

 private:
  static constexpr std::size_t kWords = 64u << 20;
  unsigned seed_, *at_ = nullptr;
};

/// Two arrays, of which each launch reads one and writes the other.
class Arrays {
 public:
  explicit Arrays(unsigned seed) {
    for (unsigned*& each : at_) CHECK(cudaMalloc(&each, kBytes));
    fill<<<64, kThreads>>>(at_[0], kCount, seed);
    mix<<<kBlocks, kThreads>>>(at_[0], at_[1], seed);  // so that it is loaded before anything is captured
    CHECK(cudaDeviceSynchronize());
  }
  void step(cudaStream_t stream, unsigned salt) {
    mix<<<kBlocks, kThreads, 0, stream>>>(at_[now_], at_[1 - now_], salt);
    now_ = 1 - now_;
  }
  unsigned* now() const { return at_[now_]; }
  unsigned* next() const { return at_[1 - now_]; }
  void turn() { now_ = 1 - now_; }
  std::vector<unsigned> back() const {
    std::vector<unsigned> values(kCount);
    CHECK(cudaMemcpy(values.data(), at_[now_], kBytes, cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  unsigned* at_[2] = {};
  int now_ = 0;
};

class Hash {  // FNV-1a
 public:
  void add(unsigned value) { value_ = (value_ ^ value) * 1099511628211u; }
  void add(const std::vector<unsigned>& values) {
    for (const unsigned v : values) add(v);
  }
  std::string text() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
    return text;
  }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

inline int ends(const Hash& hash, const Ballast& ballast) {
  const unsigned others = ballast.others();
  std::printf("{\"hash\": \"%s\", \"lost_words\": %u}\n", hash.text().c_str(), others);
  return others == 0 ? 0 : 1;
}
inline int rounds(int argc, char** argv, int usual) { return argc > 1 ? std::atoi(argv[1]) : usual; }
