// Error checks, the report, and the host side of clocks, streams and gates.
#pragma once

#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "../../../hw/calibrate/launch_kernels.cuh"

using Samples = std::vector<double>;

[[noreturn]] void die(const char* what, const char* why, int line) {
  std::fprintf(stderr, "launch_path.cu:%d: %s: %s\n", line, what, why);
  std::fflush(nullptr);
  _exit(1);
}
#define CHECK(call)                                                                \
  do {                                                                             \
    const cudaError_t status_ = (call);                                            \
    if (status_ != cudaSuccess) die(#call, cudaGetErrorString(status_), __LINE__); \
  } while (0)
#define REQUIRE(condition)                                        \
  do {                                                            \
    if (!(condition)) die(#condition, "does not hold", __LINE__); \
  } while (0)

struct Field {
  std::string text;
  Field(const char* key, const std::string& value)
      : text(std::string("\"") + key + "\": \"" + value + "\"") {}
  Field(const char* key, const char* value) : Field(key, std::string(value)) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Field(const char* key, T value) {
    char number[64];
    std::snprintf(number, sizeof number, "%.12g", static_cast<double>(value));
    text = std::string("\"") + key + "\": " + number;
  }
};
using Fields = std::initializer_list<Field>;

// A job prints an array of flat records; a record holds the statistics of all samples and up to 200 of them.
class Report {
 public:
  void add(Fields fields, const char* metric, Samples samples) {
    std::string record = open(fields);
    record += std::string(record.empty() ? "" : ", ") + "\"metric\": \"" + metric +
              "\", \"n\": " + std::to_string(samples.size());
    const size_t step = std::max<size_t>(1, (samples.size() + 199) / 200);
    std::string raw;
    for (size_t i = 0; i < samples.size(); i += step) raw += (i ? ", " : "") + number(samples[i]);
    if (!samples.empty()) {
      double sum = 0;
      for (double s : samples) sum += s;
      std::sort(samples.begin(), samples.end());
      const auto at = [&](double p) { return number(samples[std::lround(p * (samples.size() - 1))]); };
      record += ", \"min\": " + at(0) + ", \"p10\": " + at(.1) + ", \"p50\": " + at(.5) +
                ", \"p90\": " + at(.9) + ", \"p99\": " + at(.99) + ", \"max\": " + at(1) +
                ", \"mean\": " + number(sum / samples.size());
    }
    close(record + ", \"samples\": [" + raw + "]");
  }
  void list(Fields fields, const char* metric, const std::vector<int>& values) {
    std::string record = open(fields) + ", \"metric\": \"" + metric + "\", \"values\": [";
    for (size_t i = 0; i < values.size(); ++i) record += (i ? ", " : "") + std::to_string(values[i]);
    close(record + "]");
  }
  void note(Fields fields) { close(open(fields)); }
  void print() const { std::printf("[%s\n  ]", text_.c_str()); }

 private:
  static std::string number(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.3f", value);
    return text;
  }
  static std::string open(Fields fields) {
    std::string record;
    for (const Field& f : fields) record += (record.empty() ? "" : ", ") + f.text;
    return record;
  }
  void close(const std::string& record) { text_ += (text_.empty() ? "" : ",") + ("\n    {" + record + "}"); }

  std::string text_;
};

double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}
void pause_us(double us) {
  for (const double end = now_us() + us; now_us() < end;) {
  }
}
// False where the condition did not come true in time.
template <class Condition>
bool wait_for(Condition condition, double limit_us) {
  for (const double end = now_us() + limit_us; !condition();)
    if (now_us() > end) return false;
  return true;
}

template <class T>
T* device_array(size_t count) {
  T* p = nullptr;
  CHECK(cudaMalloc(&p, count * sizeof(T)));
  CHECK(cudaMemset(p, 0, count * sizeof(T)));
  return p;
}
template <class T>
T* mapped_array(size_t count) {
  T* p = nullptr;
  CHECK(cudaHostAlloc(&p, count * sizeof(T), cudaHostAllocMapped));
  std::memset(p, 0, count * sizeof(T));
  return p;
}
template <class T>
std::vector<T> read_back(const T* device, size_t count) {
  std::vector<T> v(count);
  CHECK(cudaMemcpy(v.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return v;
}
cudaStream_t make_stream(int priority = 0) {
  cudaStream_t s;
  CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, priority));
  return s;
}
std::vector<cudaStream_t> make_streams(int count) {
  std::vector<cudaStream_t> v(count);
  for (cudaStream_t& s : v) s = make_stream();
  return v;
}
cudaGraphExec_t capture(cudaStream_t s, const std::function<void()>& launches) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  launches();
  CHECK(cudaStreamEndCapture(s, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphUpload(exec, s));
  CHECK(cudaStreamSynchronize(s));
  return exec;
}

// Whether what is in the stream ends in time.
bool ends(cudaStream_t s, double limit_us) {
  const bool done = wait_for([&] { return cudaStreamQuery(s) == cudaSuccess; }, limit_us);
  cudaGetLastError();
  return done;
}

double cycles_per_us = 0;
long long cycles_of(double us) { return std::llround(us * cycles_per_us); }

double measure_clock() {
  static u64* ns = device_array<u64>(1);
  static long long* cycles = device_array<long long>(1);
  clock_rate<<<1, 1>>>(ns, cycles);
  CHECK(cudaDeviceSynchronize());
  return 1e3 * read_back(cycles, 1)[0] / read_back(ns, 1)[0];
}
// An idle GPU runs at a low clock, so the clock is raised before it is measured.
void open_gpu() {
  CHECK(cudaSetDevice(0));
  body<<<1056, 256>>>(nullptr, 200'000'000, kNoPdl);
  CHECK(cudaDeviceSynchronize());
  cycles_per_us = measure_clock();
}

class Gate {
 public:
  Gate() : open_(mapped_array<unsigned>(1)) {}
  void hold(cudaStream_t s, double limit_ms = 500) {
    *const_cast<volatile unsigned*>(open_) = 0;
    gate<<<1, 1, 0, s>>>(open_, static_cast<u64>(limit_ms * 1e6));
    CHECK(cudaGetLastError());
  }
  void open() { *const_cast<volatile unsigned*>(open_) = 1; }

 private:
  unsigned* open_;
};

void launch_body(cudaStream_t s, int blocks, int threads, Stamp* stamps, double us, Pdl pdl = kNoPdl,
                 int shared_bytes = 0) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = s;
  config.attrs = &attribute;
  config.numAttrs = pdl == kNoPdl ? 0 : 1;
  CHECK(cudaLaunchKernelEx(&config, body, stamps, cycles_of(us), static_cast<int>(pdl)));
}

// The GPU's timer counts nanoseconds since 1970, too many for a double: differences are taken in integers.
double us_between(u64 from_ns, u64 to_ns) {
  return static_cast<double>(static_cast<long long>(to_ns - from_ns)) * 1e-3;
}

// How far the GPU's timer was ahead of the host clock at a host time, read over a short round trip whose
// middle is taken for the moment of the reading. Half of the round trip bounds the error.
struct Alignment {
  double host_us, offset_us, round_trip_us;
  u64 epoch_ns;
};
Alignment align_clocks() {
  constexpr unsigned kRounds = 300, kBest = 30;
  static unsigned* ping = mapped_array<unsigned>(1);
  static u64* pong = mapped_array<u64>(1);
  static cudaStream_t s = make_stream();
  static u64 epoch = 0;
  volatile unsigned* const send = ping;
  volatile u64* const answer = pong;
  *send = 0;
  echo<<<1, 1, 0, s>>>(ping, pong, kRounds, 200'000'000);
  CHECK(cudaGetLastError());
  std::vector<Alignment> rounds;
  for (unsigned round = 1; round <= kRounds; ++round) {
    const u64 old = *answer;
    const double sent = now_us();
    *send = round;
    REQUIRE(wait_for([&] { return *answer != old; }, 100e3));
    const double back = now_us();
    if (epoch == 0) epoch = *answer;
    rounds.push_back({(sent + back) / 2, us_between(epoch, *answer) - (sent + back) / 2, back - sent, epoch});
  }
  CHECK(cudaStreamSynchronize(s));
  std::sort(rounds.begin(), rounds.end(),
            [](const Alignment& a, const Alignment& b) { return a.round_trip_us < b.round_trip_us; });
  Alignment mean{0, 0, 0, epoch};
  for (unsigned i = 0; i < kBest; ++i) {
    mean.host_us += rounds[i].host_us / kBest;
    mean.offset_us += rounds[i].offset_us / kBest;
    mean.round_trip_us += rounds[i].round_trip_us / kBest;
  }
  return mean;
}
// The two clocks drift, so a time is interpolated between the alignments before and after it.
double to_host(u64 gpu_ns, const Alignment& before, const Alignment& after) {
  const double gpu_us = us_between(before.epoch_ns, gpu_ns);
  const double share = (gpu_us - before.offset_us - before.host_us) / (after.host_us - before.host_us);
  return gpu_us - (before.offset_us + share * (after.offset_us - before.offset_us));
}
