// What CUPTI costs a launch, part by part: functions that a Python process calls (cost.py).  It attaches CUPTI, hears calls, records kernels and takes
// CUPTI out of the process again (cuptiFinalize), as often as asked.
//
//   g++ -O2 -shared -fPIC -I/usr/local/cuda/include cost.cpp -o cost.so -ldl
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

extern "C" int cost_records(int on);

namespace {

void* cupti = nullptr;
void* driver = nullptr;
template <typename F>
F of(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}
#define CUPTI(name) of<decltype(&::name)>(cupti, #name)
#define CU(name) of<decltype(&::name)>(driver, #name)
#define CUV(name, version) of<decltype(&::name)>(driver, #name version)

CUpti_SubscriberHandle subscriber = nullptr;
bool subscribed = false;
int mode = 0;
decltype(&::cuptiGetTimestamp) timestamp = nullptr;
std::uint64_t ring[4096];
std::uint32_t at = 0;
std::size_t records = 0;

std::uint64_t host_clock() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (mode == 4) {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && (id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch || id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz) &&
        static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER)
      cost_records(0);
    return;
  }
  if (mode == 1) return;
  std::uint64_t t = 0;
  if (mode == 2) timestamp(&t);
  else t = host_clock();
  ring[at++ & 4095] = t;
}
void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = std::size_t{4} << 20, *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
}
void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* r = nullptr;
  const auto next = CUPTI(cuptiActivityGetNextRecord);
  while (next(buffer, valid, &r) == CUPTI_SUCCESS)
    if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++records;
  std::free(buffer);
}

const char* kPtx =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n.visible .entry given(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n";
CUfunction nothing = nullptr, given_some = nullptr;
CUstream stream = nullptr;
std::vector<CUgraphExec> graphs;

}  // namespace

extern "C" {

/// 0: all is there.
int cost_load(const char* cupti_path) {
  cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  if (cupti == nullptr) cupti = dlopen(cupti_path, RTLD_NOW);
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (cupti != nullptr) timestamp = CUPTI(cuptiGetTimestamp);
  return cupti == nullptr ? 1 : driver == nullptr ? 2 : 0;
}
int cost_context() {
  CUcontext context = nullptr;
  CU(cuInit)(0);
  if (int e = CU(cuDevicePrimaryCtxRetain)(&context, 0)) return e;
  return CU(cuCtxSetCurrent)(context);
}
int cost_kernel() {
  CUmodule module = nullptr;
  if (int e = CU(cuModuleLoadData)(&module, kPtx)) return e;
  if (int e = CU(cuModuleGetFunction)(&nothing, module, "nothing")) return e;
  if (int e = CU(cuModuleGetFunction)(&given_some, module, "given")) return e;
  return CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
}
/// ns a launch of `n`, with a wait after each 100, which does not count; below 0: an error.
double cost_loop(int n) {
  const auto launch = CU(cuLaunchKernel);
  const auto wait = CU(cuStreamSynchronize);
  std::uint64_t all = 0;
  for (int i = 0; i < n / 100; ++i) {
    const std::uint64_t begin = host_clock();
    for (int j = 0; j < 100; ++j)
      if (int e = launch(nothing, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr)) return -e;
    all += host_clock() - begin;
    if (int e = wait(stream)) return -e;
  }
  return static_cast<double>(all) / (n / 100 * 100);
}
int cost_graph(int nodes) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  if (int e = CUV(cuStreamBeginCapture, "_v2")(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) return e;
  for (int i = 0; i < nodes; ++i) CU(cuLaunchKernel)(nothing, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  if (int e = CU(cuStreamEndCapture)(stream, &graph)) return e;
  if (int e = CU(cuGraphInstantiateWithFlags)(&exec, graph, 0)) return e;
  graphs.push_back(exec);
  return 0;
}
/// us of each launch with its wait, the median of `n`; below 0: an error.  Of the graph made last.
double cost_launch_graph(int n) {
  std::vector<double> times;
  const auto launch = CU(cuGraphLaunch);
  const auto wait = CU(cuStreamSynchronize);
  for (int i = 0; i < n; ++i) {
    const std::uint64_t begin = host_clock();
    if (int e = launch(graphs.back(), stream)) return -e;
    if (int e = wait(stream)) return -e;
    times.push_back(1e-3 * static_cast<double>(host_clock() - begin));
  }
  for (std::size_t i = 1; i < times.size(); ++i)
    for (std::size_t j = i; j > 0 && times[j] < times[j - 1]; --j) std::swap(times[j], times[j - 1]);
  return times[times.size() / 2];
}

/// us of each call of a graph's launch as XLA makes it, medians of `n`: a node's parameters set, an event recorded, a stream made to wait for it, the graph's launch,
/// a function that the GPU calls; of all, and with the wait for the GPU.  changes: the parameters do, so that the driver has something to set; cold: the host does other work
/// before each, through 4 MiB.  0: done.
int cost_updated_graph(int nodes, int n, int changes, int cold, double us[7]) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  static CUevent event = nullptr;
  std::vector<CUgraphNode> all(static_cast<std::size_t>(nodes));
  if (int e = CUV(cuStreamBeginCapture, "_v2")(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) return e;
  std::uint64_t a = 0, b = 0, c = 0;
  void* parameters[] = {&a, &b, &c};
  for (int i = 0; i < nodes; ++i) CU(cuLaunchKernel)(given_some, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  if (int e = CU(cuStreamEndCapture)(stream, &graph)) return e;
  if (int e = CU(cuGraphInstantiateWithFlags)(&exec, graph, 0)) return e;
  std::size_t count = all.size();
  if (int e = CU(cuGraphGetNodes)(graph, all.data(), &count)) return e;
  if (event == nullptr && CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != 0) return -1;
  CUDA_KERNEL_NODE_PARAMS given{};
  given.func = given_some, given.kernelParams = parameters, given.gridDimX = given.gridDimY = given.gridDimZ = given.blockDimY = given.blockDimZ = 1, given.blockDimX = 32;
  const auto set = CUV(cuGraphExecKernelNodeSetParams, "_v2");
  const auto launch = CU(cuGraphLaunch);
  const auto wait = CU(cuStreamSynchronize);
  const auto record = CU(cuEventRecord);
  const auto wait_for = CU(cuStreamWaitEvent);
  const auto host = CU(cuLaunchHostFunc);
  std::vector<std::vector<double>> times(7);
  for (int i = 0; i < n; ++i) {
    if (changes) a += 256, b += 512, c += 1024;
    static std::vector<std::uint64_t> other(std::size_t{4} << 17);
    if (cold)
      for (std::size_t k = 0; k < other.size(); k += 8) other[k] += other[(k * 5 + 3) % other.size()];
    std::uint64_t at[6] = {host_clock()};
    for (CUgraphNode node : all)
      if (int e = set(exec, node, &given)) return e;
    at[1] = host_clock();
    if (int e = record(event, stream)) return e;
    at[2] = host_clock();
    if (int e = wait_for(stream, event, 0)) return e;
    at[3] = host_clock();
    if (int e = launch(exec, stream)) return e;
    at[4] = host_clock();
    if (int e = host(stream, [](void*) {}, nullptr)) return e;
    at[5] = host_clock();
    if (int e = wait(stream)) return e;
    for (int k = 0; k < 5; ++k) times[k].push_back(1e-3 * static_cast<double>(at[k + 1] - at[k]) / (k == 0 ? nodes : 1));
    times[5].push_back(1e-3 * static_cast<double>(at[5] - at[0]));
    times[6].push_back(1e-3 * static_cast<double>(host_clock() - at[0]));
  }
  for (int k = 0; k < 7; ++k) {
    std::sort(times[k].begin(), times[k].end());
    us[k] = times[k][times[k].size() / 2];
  }
  CU(cuGraphExecDestroy)(exec);
  CU(cuGraphDestroy)(graph);
  return 0;
}

int cost_subscribe() {
  const int e = CUPTI(cuptiSubscribe)(&subscriber, called, nullptr);
  subscribed = e == 0;
  return e;
}
int cost_unsubscribe() {
  subscribed = false;
  return CUPTI(cuptiUnsubscribe)(subscriber);
}
/// Of calls that launch, copy or wait, as a capture hears them, of the driver and the runtime.  m 1: the callback does nothing, 2: it reads CUPTI's clock, 3: the host's.
int cost_callbacks(int m, int runtime) {
  mode = m;
  const auto enable = CUPTI(cuptiEnableCallback);
  const auto name_of = CUPTI(cuptiGetCallbackName);
  int heard = 0;
  for (int domain : {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API})
    for (CUpti_CallbackId id = 1; id < 900; ++id) {
      const char* text = nullptr;
      if (name_of(static_cast<CUpti_CallbackDomain>(domain), id, &text) != CUPTI_SUCCESS || text == nullptr) continue;
      const std::string name = text;
      const bool launches = name.find("LaunchKernel") != name.npos || name.find("GraphLaunch") != name.npos;
      const bool others = name.find("Memcpy") != name.npos || name.find("Memset") != name.npos || name.find("Synchronize") != name.npos ||
                          name.find("EventRecord") != name.npos || name.find("WaitEvent") != name.npos;
      const bool wanted = domain == CUPTI_CB_DOMAIN_DRIVER_API ? launches || others : others || (launches && runtime == 2);
      if (!wanted || (domain == CUPTI_CB_DOMAIN_RUNTIME_API && runtime == 0 && m != 0)) continue;
      enable(m != 0, subscriber, static_cast<CUpti_CallbackDomain>(domain), id), ++heard;
    }
  return heard;
}
int cost_register() { return CUPTI(cuptiActivityRegisterCallbacks)(requested, completed); }
int cost_records(int on) {
  int result = 0;
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET}) {
    const int e = on ? CUPTI(cuptiActivityEnable)(kind) : CUPTI(cuptiActivityDisable)(kind);
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) result = e;
  }
  return result;
}
int cost_memory(int on) { return on ? CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_MEMORY2) : CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_MEMORY2); }
int cost_flush_period(int ms) { return CUPTI(cuptiActivityFlushPeriod)(static_cast<std::uint32_t>(ms)); }
int cost_flush() { return CUPTI(cuptiActivityFlushAll)(1); }
int cost_finalize() { return CUPTI(cuptiFinalize)(); }
int cost_recorded() {
  const int n = static_cast<int>(records);
  return records = 0, n;
}
/// ns by which CUPTI's clock is ahead of the host's, less than the reading takes.
double cost_offset() {
  double best = 1e18, offset = 0;
  for (int i = 0; i < 1000; ++i) {
    timespec a{}, b{};
    std::uint64_t t = 0;
    clock_gettime(CLOCK_REALTIME, &a);
    timestamp(&t);
    clock_gettime(CLOCK_REALTIME, &b);
    const std::uint64_t before = a.tv_sec * 1'000'000'000ULL + a.tv_nsec, after = b.tv_sec * 1'000'000'000ULL + b.tv_nsec;
    if (static_cast<double>(after - before) < best)
      best = static_cast<double>(after - before), offset = static_cast<double>(static_cast<std::int64_t>(t - before)) - best / 2;
  }
  return offset;
}
/// ns that a reading of each clock takes: CUPTI's, the host's.
double cost_clock(int which) {
  const std::uint64_t begin = host_clock();
  std::uint64_t t = 0;
  for (int i = 0; i < 100000; ++i) {
    if (which == 0) timestamp(&t);
    else t += host_clock();
  }
  ring[0] = t;
  return static_cast<double>(host_clock() - begin) / 100000;
}
}
