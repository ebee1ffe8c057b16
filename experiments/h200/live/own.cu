// A CUDA program of our own, which knows nothing of corun: a stencil in two streams that wait for each other's events, a sum, a copy back.
//   nvcc -O2 -arch=sm_90 -o own own.cu
//   own hash FOLDER COUNT   like programs.py: its outputs of COUNT requests as a hash, after FOLDER/own.ready and FOLDER/go
//   own turns FOLDER ROUNDS like programs.py: a loop between FOLDER/go.N and stop.N, each request an NVTX range
//   own count FOLDER COUNT  so many requests after FOLDER/go, each an NVTX range
//   own loop SECONDS        requests, one after the other; says how many, or after how long a call failed, and the error
//   own fork                a request; then a child that ends at once, and another request
//   own device N            a request on that device
//   own allocate            all memory that is left and as much again, then a request
//   own fault               a kernel that writes where nothing is
// Prints a line of JSON.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
const double began = now_s();

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("{\"error\": \"%s\", \"after_s\": %.3f, \"at_s\": %.3f}\n", cudaGetErrorName(error), now_s() - began, now_s());
  std::exit(1);
}

constexpr int kSide = 2048, kSteps = 6;

__global__ void begin(float* to) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  to[i] = static_cast<float>((i * 2654435761u >> 8) & 0xffff) / 65536.0f;
}
__global__ void step(const float* from, float* to, float by) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), y = static_cast<int>(blockIdx.y);
  const int l = (x + kSide - 1) % kSide, r = (x + 1) % kSide, u = (y + kSide - 1) % kSide, d = (y + 1) % kSide;
  to[y * kSide + x] = 0.6f * from[y * kSide + x] + by * (from[y * kSide + l] + from[y * kSide + r] + from[u * kSide + x] + from[d * kSide + x]);
}
__global__ void sums(const float* a, const float* b, float* to) {  // of each row, in one order
  float sum = 0;
  for (int x = 0; x < kSide; ++x) sum += a[blockIdx.x * kSide + x] - 0.5f * b[blockIdx.x * kSide + x];
  if (threadIdx.x == 0) to[blockIdx.x] = sum;
}
__global__ void wrong(float* at) { at[threadIdx.x] = 1; }

class Work {
 public:
  Work() {
    for (float*& each : field_) check(cudaMalloc(&each, sizeof(float) * kSide * kSide));
    check(cudaMalloc(&sums_, sizeof(float) * kSide));
    for (int i = 0; i < 2; ++i) {
      check(cudaStreamCreateWithFlags(&stream_[i], cudaStreamNonBlocking));
      check(cudaEventCreateWithFlags(&event_[i], cudaEventDisableTiming));
      begin<<<kSide * kSide / 256, 256, 0, stream_[i]>>>(field_[2 * i]);
    }
  }
  void request(std::vector<float>& result) {
    for (int n = 0; n < kSteps; ++n)
      for (int i = 0; i < 2; ++i) {
        step<<<dim3(kSide / 256, kSide), 256, 0, stream_[i]>>>(field_[2 * i], field_[2 * i + 1], i == 0 ? 0.1f : 0.0999f);
        std::swap(field_[2 * i], field_[2 * i + 1]);
      }
    check(cudaEventRecord(event_[1], stream_[1]));
    check(cudaStreamWaitEvent(stream_[0], event_[1], 0));
    sums<<<kSide, 32, 0, stream_[0]>>>(field_[0], field_[2], sums_);
    check(cudaEventRecord(event_[0], stream_[0]));
    check(cudaStreamWaitEvent(stream_[1], event_[0], 0));
    check(cudaGetLastError());
    result.resize(kSide);
    check(cudaMemcpyAsync(result.data(), sums_, sizeof(float) * kSide, cudaMemcpyDeviceToHost, stream_[0]));
    check(cudaStreamSynchronize(stream_[0]));
  }

 private:
  float *field_[4] = {}, *sums_ = nullptr;
  cudaStream_t stream_[2] = {};
  cudaEvent_t event_[2] = {};
};

class Hash {  // FNV-1a
 public:
  void add(const std::vector<float>& values) {
    for (const float v : values) {
      std::uint32_t bits;
      std::memcpy(&bits, &v, sizeof bits);
      value_ = (value_ ^ bits) * 1099511628211u;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

bool is_there(const std::string& file) {
  struct stat is {};
  return stat(file.c_str(), &is) == 0;
}

void request_in_a_range(Work& work, std::vector<float>& result, Hash& hash) {
  nvtxRangePushA("request");
  work.request(result);
  nvtxRangePop();
  hash.add(result);
}

int turns(Work& work, const std::string& folder, int rounds) {
  std::vector<float> result;
  Hash hash;
  for (int i = 0; i < 30; ++i) work.request(result);
  std::fclose(std::fopen((folder + "/own.ready").c_str(), "w"));
  std::string said;
  for (int round = 0; round < rounds; ++round) {
    while (!is_there(folder + "/go." + std::to_string(round))) usleep(1000);
    const std::string stop = folder + "/stop." + std::to_string(round);
    const double since = now_s();
    int done = 0;
    for (; !is_there(stop); ++done) request_in_a_range(work, result, hash);
    said += (round ? ", " : "") + ("{\"requests\": " + std::to_string(done)) + ", \"per_s\": " + std::to_string(done / (now_s() - since)) + "}";
  }
  std::printf("{\"program\": \"own\", \"rounds\": [%s]}\n", said.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "loop";
  if (what == "device") check(cudaSetDevice(std::atoi(argv[2])));
  if (what == "fault") {
    wrong<<<1, 32>>>(reinterpret_cast<float*>(64));
    check(cudaDeviceSynchronize());
  }
  Work work;
  if (what == "turns") return turns(work, argv[2], std::atoi(argv[3]));
  Hash hash;
  std::vector<float> result;
  const double since = now_s();
  int count = 1;
  if (what == "hash" || what == "count") {
    const std::string folder = argv[2];
    std::fclose(std::fopen((folder + "/own.ready").c_str(), "w"));
    while (!is_there(folder + "/go")) usleep(2000);
    count = std::atoi(argv[3]);
  } else if (what == "loop") {
    count = 1 << 30;
  } else if (what == "fork") {
    work.request(result), hash.add(result);
    const pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 7) return 1;
  } else if (what == "allocate") {
    std::size_t free = 0, all = 0;
    void* most = nullptr;
    check(cudaMemGetInfo(&free, &all));
    if (cudaMalloc(&most, all + (std::size_t{1} << 30)) != cudaErrorMemoryAllocation) return std::puts("{\"error\": \"more than there is was given\"}"), 1;
    (void)cudaGetLastError();
  }
  int done = 0;
  for (; done < count && (what != "loop" || now_s() - since < std::atof(argv[2])); ++done) {
    if (what == "count") {
      request_in_a_range(work, result, hash);
      continue;
    }
    work.request(result);
    if (what != "loop") hash.add(result);
  }
  std::printf("{\"program\": \"own\", \"fnv1a\": \"%016llx\", \"requests\": %d, \"s\": %.3f}\n", static_cast<unsigned long long>(hash.value()), done, now_s() - since);
}
