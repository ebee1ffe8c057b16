// What it costs to let the GPU wait for a grant: microseconds a kernel with a wait for a word of host memory before it, a write
// to one behind it, or both; from the host's write of the word to the known end of an empty kernel; and whether streams that
// wait hold up others of their program and of another.
//   nvcc -O2 -std=c++17 -arch=native -o gate gate.cu -lcuda && ./gate          (a program beside: ./gate hold SECONDS)
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

__global__ void nothing() {}
__global__ void spin(long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < ns);
}
__global__ void sms(unsigned* seen) {
  unsigned sm;
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  if (threadIdx.x == 0) atomicAdd(seen + sm, 1);
}

static double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void check(int result, const char* what) {
  if (result == 0) return;
  std::printf("{\"what\": \"%s\", \"error\": %d}\n", what, result);
  std::exit(1);
}
static void print(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))]; };
  std::printf("{\"what\": \"%s\", \"p10_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f}\n", what, at(0.1), at(0.5), at(0.99));
  std::fflush(stdout);
}

struct Words {
  std::atomic<unsigned>* host;
  CUdeviceptr device;
  CUdeviceptr at(int i) const { return device + static_cast<CUdeviceptr>(4 * i); }
};

enum class Mark { none, write, batch, event, side };  // side: written by another stream, which waits for an event

/// One chain of kernels, each of `ns`: microseconds each on the GPU's clock, and of the host's calls.
static void chain(const Words& w, CUstream s, const char* what, long long ns, bool wait, Mark mark) {
  std::vector<double> each, calls;
  constexpr int kKernels = 200;  // with their waits and events fewer than a channel has entries
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  CUevent done[8];
  for (CUevent& e : done) cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
  CUstream side;
  cuStreamCreate(&side, CU_STREAM_NON_BLOCKING);
  for (int turn = 0; turn < 12; ++turn) {
    w.host[0] = 0xFFFFFFu;  // granted
    w.host[1] = w.host[2] = 0;
    cuStreamWaitValue32(s, w.at(2), 1, CU_STREAM_WAIT_VALUE_GEQ);  // so that the host's calls are no part of it
    cudaEventRecord(begin, s);
    const double first = now_us();
    for (int i = 1; i <= kKernels; ++i) {
      const auto n = static_cast<unsigned>(i);
      if (mark == Mark::batch) {
        CUstreamBatchMemOpParams p[2] = {};
        p[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, p[0].writeValue.address = w.at(1), p[0].writeValue.value = n;
        p[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, p[1].waitValue.address = w.at(0), p[1].waitValue.value = n;
        p[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
        check(cuStreamBatchMemOp(s, 2, p, 0), "batch");
      } else if (wait) {
        check(cuStreamWaitValue32(s, w.at(0), n, CU_STREAM_WAIT_VALUE_GEQ), "wait");
      }
      spin<<<132, 128, 0, s>>>(ns);
      if (mark == Mark::write) check(cuStreamWriteValue32(s, w.at(1), n, 0), "write");
      if (mark == Mark::event || mark == Mark::side) check(cuEventRecord(done[i % 8], s), "event");
      if (mark == Mark::side) {
        check(cuStreamWaitEvent(side, done[i % 8], 0), "wait for the event");
        check(cuStreamWriteValue32(side, w.at(1), n, 0), "write beside");
      }
    }
    calls.push_back((now_us() - first) / kKernels);
    cudaEventRecord(end, s);
    w.host[2] = 1;
    cudaDeviceSynchronize();
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (turn >= 2) each.push_back(1e3 * ms / kKernels);
    if ((mark == Mark::side || mark == Mark::write) && w.host[1] != kKernels) std::printf("{\"what\": \"marks are missing\"}\n");
  }
  char text[120];
  std::snprintf(text, sizeof text, "%s, kernels of %lld ns, each", what, ns);
  print(text, each);
  std::snprintf(text, sizeof text, "%s, calls", what);
  print(text, calls);
}

static void green(const char* where) {
  CUdevice device;
  check(cuDeviceGet(&device, 0), "device");
  CUdevResource all{}, rest{};
  check(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "resource");
  unsigned groups = 0;
  check(cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr, 0, 8), "count of groups");
  std::vector<CUdevResource> parts(groups);
  check(cuDevSmResourceSplitByCount(parts.data(), &groups, &all, &rest, 0, 8), "split");
  std::printf("{\"what\": \"SMs %s\", \"all\": %u, \"groups\": %u, \"of\": %u, \"rest\": %u}\n", where, all.sm.smCount, groups, parts[0].sm.smCount, rest.sm.smCount);
  CUdevResourceDesc description{};
  check(cuDevResourceGenerateDesc(&description, parts.data(), 4), "description");
  CUgreenCtx context = nullptr;
  check(cuGreenCtxCreate(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "green context");
  CUstream s = nullptr;
  check(cuGreenCtxStreamCreate(&s, context, CU_STREAM_NON_BLOCKING, 0), "stream");
  unsigned* seen = nullptr;
  cudaMalloc(&seen, 4 * 256);
  cudaMemset(seen, 0, 4 * 256);
  sms<<<2000, 128, 0, s>>>(seen);
  check(cudaStreamSynchronize(s), "kernel in the green stream");
  unsigned counts[256];
  cudaMemcpy(counts, seen, sizeof counts, cudaMemcpyDeviceToHost);
  int used = 0;
  for (unsigned c : counts) used += c != 0;
  // A graph that is launched there.
  cudaStream_t plain;
  cudaStreamCreateWithFlags(&plain, cudaStreamNonBlocking);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  int in_graph[2] = {};
  for (int way = 0; way < 2; ++way) {
    cudaStreamBeginCapture(way == 0 ? plain : s, cudaStreamCaptureModeRelaxed);
    sms<<<2000, 128, 0, way == 0 ? plain : s>>>(seen);
    cudaStreamEndCapture(way == 0 ? plain : s, &graph);
    check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    cudaMemset(seen, 0, 4 * 256);
    check(cudaGraphLaunch(exec, s), "graph in the green stream");
    cudaStreamSynchronize(s);
    cudaMemcpy(counts, seen, sizeof counts, cudaMemcpyDeviceToHost);
    for (unsigned c : counts) in_graph[way] += c != 0;
  }
  std::printf("{\"what\": \"green context of four groups\", \"sms_of_a_kernel\": %d, \"of_a_graph_captured_elsewhere\": %d, \"of_a_graph_captured_there\": %d}\n", used, in_graph[0], in_graph[1]);
  // What it costs to go there and back.
  CUevent before, after;
  cuEventCreate(&before, CU_EVENT_DISABLE_TIMING), cuEventCreate(&after, CU_EVENT_DISABLE_TIMING);
  for (int way = 0; way < 2; ++way) {
    std::vector<double> each;
    for (int turn = 0; turn < 12; ++turn) {
      const double begin = now_us();
      for (int i = 0; i < 400; ++i) {
        if (way == 1) cuEventRecord(before, plain), cuStreamWaitEvent(s, before, 0);
        spin<<<32, 128, 0, way == 1 ? s : plain>>>(10000);
        if (way == 1) cuEventRecord(after, s), cuStreamWaitEvent(plain, after, 0);
      }
      cudaStreamSynchronize(plain);
      if (turn >= 2) each.push_back((now_us() - begin) / 400);
    }
    print(way == 0 ? "kernels of 10 us in their own stream" : "kernels of 10 us, each there and back", each);
  }
}

int main(int count, char** words) {
  cudaSetDevice(0);
  cudaFree(nullptr);
  Words w{};
  void* memory = nullptr;
  cudaHostAlloc(&memory, 4096, cudaHostAllocMapped | cudaHostAllocPortable);
  std::memset(memory, 0, 4096);
  w.host = static_cast<std::atomic<unsigned>*>(memory);
  cuMemHostGetDevicePointer(&w.device, memory, 0);
  CUstream s;
  cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
  if (count > 2 && std::strcmp(words[1], "hold") == 0) {
    cuStreamWaitValue32(s, w.at(0), 1, CU_STREAM_WAIT_VALUE_GEQ);
    spin<<<132, 128, 0, s>>>(1000);
    std::printf("{\"what\": \"holds\"}\n");
    std::fflush(stdout);
    usleep(static_cast<unsigned>(1e6 * std::atof(words[2])));
    w.host[0] = 1;
    check(cudaStreamSynchronize(s), "held");
    return 0;
  }
  if (count > 1 && std::strcmp(words[1], "green") == 0) return green("here"), 0;
  const auto empty = [&](const char* what) {
    std::vector<double> each;
    for (int i = 0; i < 3000; ++i) {
      const double begin = now_us();
      nothing<<<1, 32, 0, s>>>();
      cudaStreamSynchronize(s);
      if (i >= 500) each.push_back(now_us() - begin);
    }
    print(what, each);
  };
  empty("empty kernel, call to known end");
  if (count > 1 && std::strcmp(words[1], "empty") == 0) return 0;
  for (const bool beside : {false, true}) {
    std::vector<double> each;
    CUstream side;
    CUevent done;
    cuStreamCreate(&side, CU_STREAM_NON_BLOCKING), cuEventCreate(&done, CU_EVENT_DISABLE_TIMING);
    for (unsigned i = 1; i <= 3000; ++i) {
      cuStreamWaitValue32(s, w.at(0), i, CU_STREAM_WAIT_VALUE_GEQ);
      nothing<<<1, 32, 0, s>>>();
      if (beside) cuEventRecord(done, s), cuStreamWaitEvent(side, done, 0);
      cuStreamWriteValue32(beside ? side : s, w.at(1), i, 0);
      for (const double begin = now_us(); now_us() - begin < (i % 3) * 40 + 20;) {
      }
      const double begin = now_us();
      w.host[0] = i;
      while (w.host[1].load() != i) {
      }
      if (i > 500) each.push_back(now_us() - begin);
    }
    print(beside ? "grant to the end of an empty kernel, written beside" : "grant to the end of an empty kernel, written", each);
    w.host[0] = 0, w.host[1] = 0;
  }
  for (long long ns : {2000, 15000}) {
    chain(w, s, "plain", ns, false, Mark::none);
    chain(w, s, "write", ns, false, Mark::write);
    chain(w, s, "event", ns, false, Mark::event);
    chain(w, s, "write beside", ns, false, Mark::side);
    chain(w, s, "wait", ns, true, Mark::none);
    chain(w, s, "wait and write", ns, true, Mark::write);
    chain(w, s, "wait and write in one", ns, true, Mark::batch);
    chain(w, s, "wait, and write beside", ns, true, Mark::side);
  }
  for (const Mark mark : {Mark::none, Mark::side}) {
    const bool wait = mark == Mark::side;
    chain(w, nullptr, wait ? "in the default stream: wait, and write beside" : "in the default stream: plain", 2000, wait, mark);
  }
  {  // streams that wait, and another
    std::vector<CUstream> waiting;
    w.host[0] = 0;
    for (int n = 1; n <= 64; n *= 2) {
      while (static_cast<int>(waiting.size()) < n) {
        CUstream other;
        cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
        cuStreamWaitValue32(other, w.at(0), 1, CU_STREAM_WAIT_VALUE_GEQ);
        nothing<<<1, 32, 0, other>>>();
        waiting.push_back(other);
      }
      nothing<<<1, 32, 0, s>>>();
      cuStreamWriteValue32(s, w.at(3), static_cast<unsigned>(n), 0);
      const double begin = now_us();
      while (w.host[3].load() != static_cast<unsigned>(n) && now_us() - begin < 50000) {
      }
      const bool went = w.host[3].load() == static_cast<unsigned>(n);
      std::printf("{\"what\": \"a kernel beside %d streams that wait\", \"went\": %s, \"us\": %.1f}\n", n, went ? "true" : "false", now_us() - begin);
      if (!went) break;
    }
    w.host[0] = 1;
    cudaDeviceSynchronize();
  }
}
