// libcuda, NVML, NVRTC and the system's clock for a process that calibrates the card of fake_card.h.  It is loaded before the
// program's own libraries, for the clock, and found under all three names.  At its end a process writes into the file that
// CORUN_FAKE_REPORT names what it left on the GPU, and for how long it had it.
#include <cuda.h>
#include <nvrtc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>

#include "fake_gpu.h"

namespace {

using corun::fake::FakeCard;
using corun::fake::Gpu;
using corun::fake::Ns;

constexpr Ns kLook = 100, kCall = 500;        // what a reading of the clock takes, and a call that only asks
constexpr std::size_t kMoved = 1 << 20;  // of more than that no job reads the contents: it is timed, and not moved

struct Function {
  std::string entry, parameters;
};
struct Graph {
  std::vector<Gpu::Work> works;
};
struct Event {
  Ns at = 0;
};

struct Fake {
  FakeCard card;
  Gpu gpu{card};
  std::recursive_mutex mutex;  // a second thread asks for a context
  std::size_t contexts = 0, events = 0, graphs = 0;
  bool opened = false, interrupted = false;
  std::map<std::uint64_t, std::size_t> device, host;
  std::map<std::string, Function> functions;
  std::uint64_t capturing = 0;
  std::vector<Gpu::Work> captured;
  Ns real_start = 0, opened_at = 0;

  Fake() {
    timespec real{};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &real);
    real_start = real.tv_sec * 1'000'000'000 + real.tv_nsec;
    gpu.is_host = [this](std::uint64_t at) {
      const auto after = host.upper_bound(at);
      return after != host.begin() && at < std::prev(after)->first + std::prev(after)->second;
    };
  }
  void pass(Ns ns) {
    gpu.pass(ns);
    if (card.interrupt_at > 0 && is_past(card.interrupt_at)) interrupt();
  }
  void interrupt() {
    if (!std::exchange(interrupted, true)) raise(SIGINT);
  }
  bool is_past(double ms) const { return opened && ms >= 0 && static_cast<double>(gpu.now() - opened_at) >= ms * 1e6; }
};
Fake& fake() {
  static auto* const f = new Fake;
  return *f;
}

/// Takes the lock, and the time of a call.
class Call {
 public:
  explicit Call(Ns ns = kCall) : lock_(fake().mutex) { fake().pass(ns); }

 private:
  std::scoped_lock<std::recursive_mutex> lock_;
};

[[gnu::destructor]] void report() {
  const char* file = std::getenv("CORUN_FAKE_REPORT");
  const Fake& f = fake();
  if (file == nullptr || !f.opened) return;
  if (std::FILE* out = std::fopen(file, "w")) {
    std::fprintf(out, "%zu left, %.0f ms\n", f.contexts + f.events + f.graphs + f.device.size() + f.host.size() + f.gpu.streams(),
                 static_cast<double>(f.gpu.now() - f.opened_at) / 1e6);
    std::fclose(out);
  }
}

std::uint64_t of(CUstream s) { return reinterpret_cast<std::uint64_t>(s); }
std::uint64_t pages(std::size_t bytes, std::map<std::uint64_t, std::size_t>& all) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  all[reinterpret_cast<std::uint64_t>(at)] = bytes;
  return reinterpret_cast<std::uint64_t>(at);
}
CUresult give_back(std::uint64_t at, std::map<std::uint64_t, std::size_t>& all) {
  const auto found = all.find(at);
  if (found == all.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(at), found->second);
  all.erase(found);
  return CUDA_SUCCESS;
}
CUresult queue(CUstream s, Gpu::Work work) {
  if (fake().capturing == of(s) && of(s) != 0)
    fake().captured.push_back(std::move(work));
  else
    fake().gpu.add(of(s), std::move(work));
  return CUDA_SUCCESS;
}
CUresult lasting(CUstream s, Ns ns, std::function<void()> what) {
  return queue(s, {[ns, what = std::move(what)](Ns begun) {
                 fake().gpu.at(begun + ns, what);
                 return std::optional(begun + ns);
               }});
}
CUresult copied(CUstream s, void* to, const void* from, std::size_t bytes) {
  const auto ns = static_cast<Ns>(fake().card.copy + 1e9 * static_cast<double>(bytes) / fake().card.copies);
  return lasting(s, ns, [=] {
    std::copy_n(static_cast<const char*>(from), std::min(bytes, kMoved), static_cast<char*>(to));
  });
}

}  // namespace

extern "C" {

// The clock: what is read through the C++ library's steady clock.
int clock_gettime(clockid_t clock, timespec* at) {
  if (clock != CLOCK_MONOTONIC) return static_cast<int>(syscall(SYS_clock_gettime, clock, at));
  const Call call(kLook);
  const Ns now = fake().real_start + fake().gpu.now();
  at->tv_sec = now / 1'000'000'000, at->tv_nsec = now % 1'000'000'000;
  return 0;
}

CUresult CUDAAPI cuInit(unsigned) {
  if (fake().card.interrupt_at == 0) fake().interrupt();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int) { return *device = 0, CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice) {
  return std::strncpy(name, fake().card.name.c_str(), static_cast<std::size_t>(length)), CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice) { return std::memset(uuid->bytes, 0xab, 16), CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  return *bytes = static_cast<std::size_t>(fake().card.memory_gib * (1 << 30)), CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute a, CUdevice) {
  const FakeCard& c = fake().card;
  const auto is = [&](double v) { return *value = static_cast<int>(v), CUDA_SUCCESS; };
  switch (a) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return is(c.sms);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return is(c.major);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return is(c.minor);
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return is(1000 * c.clock_mhz);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return is(1'000'000);
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return is(c.l2_mib * (1 << 20));
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return is(3);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return is(c.threads);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return is(c.blocks);
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return is(65536);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return is(1024 * c.shared_kib);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return is(1024);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return is(1024 * c.shared_kib - c.reserved_shared);
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return is(c.reserved_shared);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  const Call call;
  *context = reinterpret_cast<CUcontext>(1);
  ++fake().contexts;
  fake().opened = true, fake().opened_at = fake().gpu.now();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice) { return --fake().contexts, CUDA_SUCCESS; }
// The card is in exclusive mode: a process has one context.
#if CUDA_VERSION < 13000
CUresult CUDAAPI cuCtxCreate(CUcontext*, unsigned, CUdevice) { return CUDA_ERROR_DEVICE_UNAVAILABLE; }
#else
CUresult CUDAAPI cuCtxCreate(CUcontext*, CUctxCreateParams*, unsigned, CUdevice) { return CUDA_ERROR_DEVICE_UNAVAILABLE; }
#endif
CUresult CUDAAPI cuCtxDestroy(CUcontext) { return CUDA_ERROR_INVALID_CONTEXT; }
CUresult CUDAAPI cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, CUDA_SUCCESS; }

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void*) { return *module = reinterpret_cast<CUmodule>(1), CUDA_SUCCESS; }
CUresult CUDAAPI cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuModuleGetFunction(CUfunction* f, CUmodule, const char* entry) {
  const auto parameters = Gpu::parameters_of(entry, fake().card);
  if (!parameters) return CUDA_ERROR_NOT_FOUND;
  *f = reinterpret_cast<CUfunction>(&(fake().functions[entry] = {entry, *parameters}));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) { return *value = 32, CUDA_SUCCESS; }
CUresult CUDAAPI cuFuncSetAttribute(CUfunction, CUfunction_attribute, int value) {
  return value <= 1024 * fake().card.shared_kib - fake().card.reserved_shared ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, std::size_t shared) {
  *blocks = static_cast<int>(fake().gpu.resident(static_cast<std::uint32_t>(threads), static_cast<std::uint32_t>(shared)));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned x, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                                unsigned shared, CUstream s, void** parameters, void**) {
  const std::scoped_lock lock(fake().mutex);
  if (fake().is_past(fake().card.fails_at)) return CUDA_ERROR_LAUNCH_FAILED;
  if (fake().gpu.resident(threads, shared) == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto& f = *reinterpret_cast<const Function*>(function);
  Gpu::Launch launch{f.entry, x, threads, shared, {}};
  for (std::size_t i = 0; i < f.parameters.size(); ++i) {
    if (f.parameters[i] == 'w') {
      std::memcpy(&launch.client, parameters[i], sizeof launch.client);
    } else {
      std::uint64_t word = 0;
      std::memcpy(&word, parameters[i], f.parameters[i] == '8' ? 8 : 4);
      launch.words.push_back(word);
    }
  }
  queue(s, fake().gpu.kernel(launch));
  fake().pass(static_cast<Ns>(fake().card.launch_call));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* s, unsigned, int) {
  const Call call;
  return *s = reinterpret_cast<CUstream>(fake().gpu.stream()), CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamQuery(CUstream s) {
  const Call call;
  return fake().gpu.idle(of(s)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult CUDAAPI cuStreamDestroy(CUstream s) {
  const Call call;
  while (!fake().gpu.idle(of(s))) fake().pass(kCall);
  return fake().gpu.destroy(of(s)), CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamBeginCapture(CUstream s, CUstreamCaptureMode) { return fake().capturing = of(s), CUDA_SUCCESS; }
CUresult CUDAAPI cuStreamEndCapture(CUstream, CUgraph* graph) {
  fake().capturing = 0;
  *graph = reinterpret_cast<CUgraph>(new Graph{std::exchange(fake().captured, {})});
  return ++fake().graphs, CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* ready, CUgraph graph, unsigned long long) {
  return *ready = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph))), ++fake().graphs, CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuGraphLaunch(CUgraphExec graph, CUstream s) {
  const std::scoped_lock lock(fake().mutex);
  Gpu::Work whole;
  whole.is_kernel = true, whole.delay = static_cast<Ns>(fake().card.graph_latency);
  whole.begin = [works = reinterpret_cast<Graph*>(graph)->works](Ns begun) {
    for (const Gpu::Work& each : works) begun = each.begin(begun).value();
    return std::optional(begun);
  };
  queue(s, std::move(whole));
  fake().pass(static_cast<Ns>(fake().card.graph_call));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphDestroy(CUgraph graph) { return delete reinterpret_cast<Graph*>(graph), --fake().graphs, CUDA_SUCCESS; }
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec graph) {
  return delete reinterpret_cast<Graph*>(graph), --fake().graphs, CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream s) {
  const Call call;
  return copied(s, reinterpret_cast<void*>(to), from, bytes);
}
CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream s) {
  const Call call;
  return copied(s, to, reinterpret_cast<const void*>(from), bytes);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr at, unsigned char value, std::size_t bytes, CUstream s) {
  const Call call;
  const auto ns = static_cast<Ns>(fake().card.launch_cost + 1e9 * static_cast<double>(bytes) / fake().card.dram_write);
  return lasting(s, ns, [=] { std::memset(reinterpret_cast<void*>(at), value, std::min(bytes, kMoved)); });
}

CUresult CUDAAPI cuEventCreate(CUevent* e, unsigned) {
  return *e = reinterpret_cast<CUevent>(new Event), ++fake().events, CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventDestroy(CUevent e) { return delete reinterpret_cast<Event*>(e), --fake().events, CUDA_SUCCESS; }
CUresult CUDAAPI cuEventRecord(CUevent e, CUstream s) {
  const Call call;
  return queue(s, {[e](Ns begun) { return reinterpret_cast<Event*>(e)->at = begun, std::optional(begun); }});
}
CUresult CUDAAPI cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  return *ms = static_cast<float>(static_cast<double>(reinterpret_cast<Event*>(to)->at - reinterpret_cast<Event*>(from)->at) / 1e6), CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* at, std::size_t bytes) {
  const Call call;
  return (*at = pages(bytes, fake().device)) != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult CUDAAPI cuMemFree(CUdeviceptr at) {
  const Call call;
  return give_back(at, fake().device);
}
CUresult CUDAAPI cuMemHostAlloc(void** at, std::size_t bytes, unsigned) {
  const Call call;
  *at = reinterpret_cast<void*>(pages(bytes, fake().host));
  return *at != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult CUDAAPI cuMemFreeHost(void* at) {
  const Call call;
  return give_back(reinterpret_cast<std::uint64_t>(at), fake().host);
}
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* at, void* host, unsigned) {
  return *at = reinterpret_cast<std::uint64_t>(host), CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemGetInfo(std::size_t* free, std::size_t* all) {
  cuDeviceTotalMem(all, 0);
  return *free = *all, CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorName(CUresult r, const char** name) {
  *name = r == CUDA_ERROR_LAUNCH_FAILED         ? "CUDA_ERROR_LAUNCH_FAILED"
          : r == CUDA_ERROR_DEVICE_UNAVAILABLE ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
                                               : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorString(CUresult, const char** text) { return *text = "of the fake driver", CUDA_SUCCESS; }

// NVML and NVRTC
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByUUID(const char*, void** device) { return *device = &fake(), 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned) { return std::strcpy(text, "580.1"), 0; }
int nvmlDeviceGetUUID(void*, char* text, unsigned) { return std::strcpy(text, "GPU-fake"), 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  const Fake& f = fake();
  *count = static_cast<unsigned>(f.card.processes) + (f.contexts > 0) + f.is_past(f.card.comes_at);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, void* use) { return *static_cast<unsigned*>(use) = static_cast<unsigned>(fake().card.busy_percent), 0; }

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char*, const char*, int, const char* const*, const char* const*) {
  return *program = reinterpret_cast<nvrtcProgram>(1), NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_SUCCESS; }
/// For the fake card alone.
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int count, const char* const* options) {
  const std::string wanted = "-arch=sm_" + std::to_string(static_cast<int>(10 * fake().card.major + fake().card.minor));
  return std::any_of(options, options + count, [&](const char* o) { return o == wanted; }) ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
constexpr char kCode[] = "machine code";
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, std::size_t* bytes) { return *bytes = sizeof kCode, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* text) { return std::memcpy(text, "another arch", sizeof kCode), NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, std::size_t* bytes) { return *bytes = sizeof kCode, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char* code) { return std::memcpy(code, kCode, sizeof kCode), NVRTC_SUCCESS; }
}
