// A CUPTI without a GPU: its activity interface, and what a program "does" (fake_cupti.h).  Records have the layout of the
// headers; a buffer is handed over when it is full, or at a flush.  It leaves a process as CUPTI does: a graph that was launched while
// kernels were recorded fails from then on.  Who asks it for something while it is away ends the program.
#include "tests/hw/capture/fake_cupti.h"

#include <cupti.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <set>

namespace {

CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
std::set<int> enabled;
CUpti_CallbackFunc subscriber;
std::set<std::pair<int, std::uint32_t>> heard;  // calls, by domain
std::uint8_t* buffer;
std::size_t size, used;
std::atomic<std::uint64_t> clock_ns = 1'700'000'000'000'000'000;
std::uint32_t correlation = 0;
bool here = false, graph_recorded = false, graph_broken = false;

void must_be_here() {
  if (!here) _exit(17);
}
std::map<std::uint32_t, std::uint64_t> stream_free;

/// Kernels take as much longer as the part of the GPU is smaller.
std::uint64_t percentage() {
  const char* text = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  return text != nullptr ? std::strtoul(text, nullptr, 10) : 100;
}

void hand_over() {
  if (buffer == nullptr) return;
  complete(nullptr, 0, buffer, size, used);
  buffer = nullptr;
}

template <typename T>
T& record(CUpti_ActivityKind kind) {
  static T ignored;
  if (!enabled.contains(kind)) return ignored;
  if (buffer != nullptr && used + sizeof(T) > size) hand_over();
  if (buffer == nullptr) {
    std::size_t most = 0;
    request(&buffer, &size, &most);
    used = 0;
  }
  T* made = reinterpret_cast<T*>(buffer + used);
  std::memset(static_cast<void*>(made), 0, sizeof(T));
  made->kind = kind;
  used += sizeof(T);
  return *made;
}

/// While `body` passes its time.
template <typename F>
void call(CUpti_CallbackDomain domain, std::uint32_t id, const void* parameters, F body) {
  std::uint64_t kept = 0;
  CUpti_CallbackData data{};
  data.correlationId = correlation, data.correlationData = &kept, data.functionParams = parameters, data.contextUid = 1;
  const auto tell = [&](CUpti_ApiCallbackSite site) {
    data.callbackSite = site;
    if (heard.contains({domain, id})) subscriber(nullptr, domain, id, &data);
  };
  tell(CUPTI_API_ENTER);
  body();
  tell(CUPTI_API_EXIT);
}

/// The outer call takes 1 us, the inner one 0.6 of it.
void calls(std::uint32_t runtime, const void* parameters, std::uint32_t driver = 0, const void* of_driver = nullptr) {
  ++correlation;
  call(CUPTI_CB_DOMAIN_RUNTIME_API, runtime, parameters, [&] {
    clock_ns += 300;
    if (driver != 0) call(CUPTI_CB_DOMAIN_DRIVER_API, driver, of_driver, [] { clock_ns += 600; });
    else clock_ns += 600;
    clock_ns += 100;
  });
}

template <typename T>
T handle(std::uint32_t number) {
  return reinterpret_cast<T>(std::uintptr_t{number} << 8);
}

/// What CUPTI does to a launch while it is in the process, and while it also records its kernel.
constexpr std::uint64_t kHereNs = 1200, kRecordNs = 900;

/// And to each node of a graph while it records kernels, and while it does not.
constexpr std::uint64_t kRecordedNodeNs = 1200, kNodeNs = 290;

std::uint64_t begins(std::uint32_t stream) { return std::max(clock_ns.load() + 2000, stream_free[stream]); }

void work(const FakeKernel& kernel, std::uint64_t start, std::uint32_t graph) {
  auto& k = record<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  k.name = kernel.name, k.start = start, k.end = stream_free[kernel.stream] = start + kernel.ns * 100 / percentage();
  k.contextId = 1, k.streamId = kernel.stream, k.correlationId = correlation, k.graphId = graph;
  k.gridX = kernel.grid, k.gridY = k.gridZ = 1, k.blockX = kernel.block, k.blockY = k.blockZ = 1;
  k.registersPerThread = 40, k.staticSharedMemory = 1024, k.dynamicSharedMemory = 2048;
  k.clusterX = k.clusterY = k.clusterZ = 0;
}

template <typename T>
T next_of(std::uint8_t* from, std::size_t bytes, CUpti_Activity* before, std::size_t (*length)(const CUpti_Activity&)) {
  auto* at = before == nullptr ? from : reinterpret_cast<std::uint8_t*>(before) + length(*before);
  return at < from + bytes ? reinterpret_cast<T>(at) : nullptr;
}

std::size_t length(const CUpti_Activity& r) {
  switch (r.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMORY2: return sizeof(CUpti_ActivityMemory4);
    default: return sizeof(CUpti_Activity);
  }
}

}  // namespace

extern "C" {

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
  request = r, complete = c, here = true;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) { return enabled.insert(kind), CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  return here = true, subscriber = callback, CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle) { return must_be_here(), heard.clear(), CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiFinalize() {
  must_be_here();
  if (graph_recorded) graph_broken = true;
  here = false, correlation = 0, enabled.clear(), heard.clear();
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiEnableCallback(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (on)
    heard.insert({domain, id});
  else
    heard.erase({domain, id});
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) { return must_be_here(), enabled.erase(kind), CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* from, std::size_t bytes, CUpti_Activity** r) {
  *r = next_of<CUpti_Activity*>(from, bytes, *r, length);
  return *r == nullptr ? CUPTI_ERROR_MAX_LIMIT_REACHED : CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t) { return must_be_here(), hand_over(), CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiActivityFlushPeriod(std::uint32_t) { return CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  return *dropped = 0, CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id, const char** name) {
  static const std::map<std::pair<int, std::uint32_t>, const char*> names = {
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 1}, "cudaLaunchKernel_v7000"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 2}, "cudaMemcpyAsync_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 3}, "cudaEventRecord_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 4}, "cudaStreamWaitEvent_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 5}, "cudaStreamSynchronize_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 7}, "cudaGetDevice_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 8}, "cudaGraphLaunch_v10000"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 9}, "cudaStreamBeginCapture_v10000"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 10}, "cudaStreamEndCapture_v10000"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 11}, "cudaLaunchHostFunc_v10000"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc}, "cuLaunchHostFunc"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel}, "cuLaunchKernel"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch}, "cuGraphLaunch"}};
  const auto known = names.find({domain, id});
  if (known == names.end()) return CUPTI_ERROR_INVALID_PARAMETER;
  return *name = known->second, CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext, CUstream stream, std::uint8_t, std::uint32_t* id) {
  return *id = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(stream) >> 8), CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetTimestamp(std::uint64_t* time) { return must_be_here(), *time = clock_ns, CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult, const char** words) { return *words = "?", CUPTI_SUCCESS; }

void fake_launch(const FakeKernel* kernel) {
  for (int i = 0; i < 9; ++i) {  // as PyTorch does
    ++correlation;
    call(CUPTI_CB_DOMAIN_RUNTIME_API, 7, nullptr, [] {});
  }
  cuLaunchKernel_params parameters{};
  parameters.f = reinterpret_cast<CUfunction>(const_cast<char*>(kernel->name)), parameters.gridDimX = static_cast<unsigned>(kernel->grid);
  const std::uint64_t start = begins(kernel->stream);
  calls(1, nullptr, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &parameters);
  if (enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) clock_ns += kRecordNs;
  if (here) clock_ns += kHereNs;
  work(*kernel, start, 0);
}
void fake_launch_graph(const FakeKernel* kernels, std::uint32_t count) {
  cuGraphLaunch_params parameters{};
  parameters.hGraph = handle<CUgraphExec>(1);
  if (graph_broken) _exit(19);
  std::uint64_t start = begins(kernels->stream);
  calls(8, nullptr, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, &parameters);
  graph_recorded |= enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);  // unless records ended at the call's beginning
  for (std::uint32_t i = 0; i < count; ++i) {
    work(kernels[i], start, 1);
    start = stream_free[kernels->stream] += enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ? kRecordedNodeNs : here ? kNodeNs : 0;
  }
}
void fake_capture_begins() { calls(9, nullptr); }
void fake_capture_ends() { calls(10, nullptr); }
void fake_copy_to_device(std::uint32_t stream, std::uint64_t bytes, std::uint64_t ns) {
  const std::uint64_t start = begins(stream);
  calls(2, nullptr);
  auto& c = record<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, c.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  c.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, c.bytes = bytes, c.start = start, c.end = stream_free[stream] = start + ns;
  c.contextId = 1, c.streamId = stream, c.correlationId = correlation;
}
void fake_launch_host_function() { calls(11, nullptr, CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc); }
void fake_record_event(std::uint32_t stream, std::uint32_t event) {
  const cuEventRecord_params parameters{handle<CUevent>(event), handle<CUstream>(stream)};
  calls(3, &parameters);
}
void fake_wait_event(std::uint32_t stream, std::uint32_t event) {
  const cuStreamWaitEvent_params parameters{handle<CUstream>(stream), handle<CUevent>(event), 0};
  calls(4, &parameters);
  for (const auto& [other, free] : stream_free) stream_free[stream] = std::max(stream_free[stream], free);
}
void fake_synchronize(std::uint32_t) {
  ++correlation;
  std::uint64_t last = clock_ns;
  for (const auto& [other, free] : stream_free) last = std::max(last, free);
  call(CUPTI_CB_DOMAIN_RUNTIME_API, 5, nullptr, [&] { clock_ns = last + 3000; });
}
void fake_allocate(std::uint64_t bytes, std::uint64_t address) {
  auto& m = record<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  m.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, m.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  m.bytes = bytes, m.address = address, m.timestamp = ++clock_ns;
}
void fake_free(std::uint64_t bytes, std::uint64_t address) {
  auto& m = record<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  m.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, m.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  m.bytes = bytes, m.address = address, m.timestamp = ++clock_ns;
}
void fake_host_works(std::uint64_t ns) { clock_ns += ns; }
void fake_flush() { hand_over(); }

/// The host's clock is CUPTI's.
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_REALTIME) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  time->tv_sec = static_cast<time_t>(clock_ns / 1'000'000'000), time->tv_nsec = static_cast<long>(clock_ns % 1'000'000'000);
  return 0;
}
}
