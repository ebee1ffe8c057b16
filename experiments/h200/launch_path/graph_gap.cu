// What a graph takes longer than its kernels: their periods in it, beside each one's own again and again, and
// beside what CUPTI records of them. Prints JSON.
//
//   nvcc -O2 -std=c++17 -arch=sm_90 graph_gap.cu -lcupti -o graph_gap
//   ./graph_gap > graph_gap.json      # 3 s
#include <cupti.h>

#include <map>

#include "../../../hw/calibrate/client_kernel.cuh"
#include "support.cuh"

// As networks' kernels: what one writes the next reads.
__global__ void activation(const float4* in, float4* out, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float4 v = in[i];
    v.x = v.x / (1 + __expf(-v.x)), v.y = v.y / (1 + __expf(-v.y));
    v.z = v.z / (1 + __expf(-v.z)), v.w = v.w / (1 + __expf(-v.w));
    out[i] = v;
  }
}
__global__ void normalise(const float* in, float* out, int columns) {
  __shared__ float sums[32];
  const float* row = in + static_cast<size_t>(blockIdx.x) * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i] * row[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) sum += sums[i];
  const float scale = rsqrtf(sum / columns + 1e-5f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[static_cast<size_t>(blockIdx.x) * columns + i] = row[i] * scale;
}
template <int tile>
__global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float left[tile][tile + 1], right[tile][tile + 1];
  const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < tile; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

struct Kind {
  std::string name, function;
  std::function<void(cudaStream_t)> launch;
  double period = 0;
};

double period_of(Gate& gate, cudaStream_t s, const std::function<void(int)>& launch) {
  constexpr int kStep = 120;
  cudaGraphExec_t graphs[2];
  for (int g = 0; g < 2; ++g)
    graphs[g] = capture(s, [&] {
      for (int i = 0; i < (g + 1) * kStep; ++i) launch(i);
    });
  cudaEvent_t from, to;
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  Samples periods;
  for (int repeat = -3; repeat < 25; ++repeat) {
    float ms[2];
    for (int g = 0; g < 2; ++g) {
      gate.hold(s);
      CHECK(cudaEventRecord(from, s));
      CHECK(cudaGraphLaunch(graphs[g], s));
      CHECK(cudaEventRecord(to, s));
      pause_us(50);
      gate.open();
      CHECK(cudaStreamSynchronize(s));
      CHECK(cudaEventElapsedTime(&ms[g], from, to));
    }
    if (repeat >= 0) periods.push_back(1e3 * (ms[1] - ms[0]) / kStep);
  }
  for (cudaGraphExec_t g : graphs) CHECK(cudaGraphExecDestroy(g));
  std::sort(periods.begin(), periods.end());
  return periods[periods.size() / 2];
}

// What CUPTI records.
struct Recorded {
  u64 start, end;
  std::string name;
};
std::vector<Recorded> recorded;
void CUPTIAPI requested(uint8_t** buffer, size_t* size, size_t* most) {
  *size = 8 << 20, *most = 0;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *size));
}
void CUPTIAPI completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
      const auto* k = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      recorded.push_back({k->start, k->end, k->name});
    }
  free(buffer);
}
// Mean duration by function, us, of what `action` runs.
std::vector<Recorded> profiled(const std::function<void()>& action) {
  recorded.clear();
  action();
  CHECK(cudaDeviceSynchronize());
  cuptiActivityFlushAll(1);
  std::sort(recorded.begin(), recorded.end(),
            [](const Recorded& a, const Recorded& b) { return a.start < b.start; });
  return recorded;
}
double mean_us(const std::vector<Recorded>& all) {
  double sum = 0;
  int count = 0;
  for (const Recorded& r : all)
    if (r.name.find("gate") == std::string::npos) sum += 1e-3 * (r.end - r.start), ++count;
  return count > 0 ? sum / count : 0;
}

int main() {
  open_gpu();
  const cudaStream_t s = make_stream();
  Gate gate;
  constexpr size_t kFloats = 64 << 20;
  float* const x = device_array<float>(kFloats);
  float* const y = device_array<float>(kFloats);
  u64* const units = device_array<u64>(2);
  int sms = 0;
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  const auto work = [&](size_t bytes) {
    Work w{};
    w.leave = ~0ull, w.data = reinterpret_cast<char*>(x), w.bytes = bytes;
    w.warps = 8 * sms, w.block_units = 1, w.per_sm = 1, w.units = units;
    return w;
  };
  const auto of = [&](auto kernel) {
    return [=](cudaStream_t to) { kernel<<<sms, 256, 4096, to>>>(work(64 << 20)); };
  };
  const long long us = cycles_of(1);
  const auto activations = [=](int count) {
    return [=](cudaStream_t to) {
      activation<<<std::min(count / 256, 8 * sms), 256, 0, to>>>(reinterpret_cast<float4*>(x),
                                                                 reinterpret_cast<float4*>(y), count);
    };
  };
  std::vector<std::vector<Kind>> mixes{
      {{"body, one block", "body", [=](cudaStream_t to) { body<<<1, 256, 0, to>>>(nullptr, us, 0); }},
       {"body", "body", [=](cudaStream_t to) { body<<<sms, 256, 0, to>>>(nullptr, us, 0); }},
       {"plain_worker", "plain_worker", [=](cudaStream_t to) { plain_worker<<<4 * sms, 256, 0, to>>>(us); }},
       {"writing_body", "writing_body", [=](cudaStream_t to) { writing_body<<<sms, 256, 0, to>>>(y, us); }},
       {"fma", "Fma", of(client<Fma4>)},
       {"read", "Stream", of(client<Read>)},
       {"mma", "Mma", of(client<Mma>)},
       {"copy", "Stream", of(client<Copy>)},
       {"gather", "Gather", of(client<Gather>)},
       {"write", "Stream", of(client<Write>)}},
      {{"activation 0.25 MB", "activation", activations(1 << 14)},
       {"activation 4 MB", "activation", activations(1 << 18)},
       {"activation 16 MB", "activation", activations(1 << 20)},
       {"normalise 2 MB", "normalise", [=](cudaStream_t to) { normalise<<<512, 256, 0, to>>>(y, x, 1024); }},
       {"normalise 16 MB", "normalise",
        [=](cudaStream_t to) { normalise<<<1024, 256, 0, to>>>(y, x, 4096); }},
       {"product 32", "product",
        [=](cudaStream_t to) { product<32><<<dim3(8, 8), dim3(32, 32), 0, to>>>(x, y, x + (8 << 20), 256); }},
       {"product 16", "product",
        [=](cudaStream_t to) {
          product<16><<<dim3(16, 16), dim3(16, 16), 0, to>>>(x, y, x + (9 << 20), 256);
        }},
       {"product 512", "product", [=](cudaStream_t to) {
          product<32><<<dim3(16, 16), dim3(32, 32), 0, to>>>(x, y, x + (10 << 20), 512);
        }}}};
  std::vector<double> mixed;
  for (std::vector<Kind>& kinds : mixes) {
    for (Kind& k : kinds) k.period = period_of(gate, s, [&](int) { k.launch(s); });
    mixed.push_back(period_of(gate, s, [&](int i) { kinds[i % kinds.size()].launch(s); }));
  }
  // Only now: what runs after a profiler has been there is slower.
  cuptiActivityRegisterCallbacks(requested, completed);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::printf("[");
  for (size_t m = 0; m < mixes.size(); ++m) {
    std::vector<Kind>& kinds = mixes[m];
    constexpr int kRounds = 30;
    double own = 0, own_recorded = 0;
    for (Kind& k : kinds) {
      const cudaGraphExec_t graph = capture(s, [&] {
        for (int i = 0; i < 100; ++i) k.launch(s);
      });
      const double in_graph = mean_us(profiled([&] { CHECK(cudaGraphLaunch(graph, s)); }));
      const double in_stream = mean_us(profiled([&] {
        gate.hold(s);
        for (int i = 0; i < 100; ++i) k.launch(s);
        gate.open();
      }));
      own += k.period / kinds.size(), own_recorded += in_stream / kinds.size();
      std::printf(
          "%s\n  {\"mix\": %zu, \"kernel\": \"%s\", \"period_us\": %.4f, \"recorded_in_graph_us\": %.4f, "
          "\"recorded_in_stream_us\": %.4f}",
          m == 0 && &k == &kinds[0] ? "" : ",", m, k.name.c_str(), k.period, in_graph, in_stream);
      CHECK(cudaGraphExecDestroy(graph));
    }
    const int count = kRounds * static_cast<int>(kinds.size());
    const auto all = [&] {
      for (int i = 0; i < count; ++i) kinds[i % kinds.size()].launch(s);
    };
    const cudaGraphExec_t graph = capture(s, all);
    const std::vector<Recorded> in_graph = profiled([&] { CHECK(cudaGraphLaunch(graph, s)); });
    const double graph_us = mean_us(in_graph);
    const double stream_us = mean_us(profiled([&] {
      gate.hold(s);
      all();
      gate.open();
    }));
    const double apart_us = mean_us(profiled([&] {
      for (int i = 0; i < count; ++i) {
        kinds[i % kinds.size()].launch(s);
        CHECK(cudaStreamSynchronize(s));
      }
    }));
    const double after = period_of(gate, s, [&](int i) { kinds[i % kinds.size()].launch(s); });
    std::printf(
        ",\n  {\"mix\": %zu, \"in_turn_us\": %.4f, \"own_periods_us\": %.4f, \"recorded_own_us\": %.4f, "
        "\"recorded_in_graph_us\": %.4f, \"recorded_in_stream_us\": %.4f, \"recorded_apart_us\": %.4f, "
        "\"in_turn_profiled_us\": %.4f}",
        m, mixed[m], own, own_recorded, graph_us, stream_us, apart_us, after);
  }
  std::printf("\n]\n");
  return 0;
}
