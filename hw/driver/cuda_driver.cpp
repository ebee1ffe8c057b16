#include "hw/driver/cuda_driver.h"

#include "traces/model/error.h"

#ifdef CORUN_WITH_CUDA

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#if CUDA_VERSION < 12050  // whose driver may well have it
extern "C" CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);
#endif

namespace corun::hw {
namespace {

constexpr unsigned kTpcsApart = 1;  // CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, which has no name before CUDA 12.5

#define CORUN_TEXT_OF(x) #x
#define CORUN_TEXT(x) CORUN_TEXT_OF(x)  // after cuda.h's macros, which give functions their versions

#define CORUN_CUDA_CALLS(X)                                                                                \
  X(cuInit)                                                                                                \
  X(cuDriverGetVersion)                                                                                    \
  X(cuDeviceGet)                                                                                           \
  X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem)                       \
      X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent)                          \
          X(cuCtxGetStreamPriorityRange) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction)      \
              X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuOccupancyMaxActiveBlocksPerMultiprocessor)   \
                  X(cuDeviceGetDevResource) X(cuDevSmResourceSplitByCount) X(cuDevResourceGenerateDesc)    \
                      X(cuGreenCtxCreate) X(cuGreenCtxDestroy) X(cuGreenCtxStreamCreate)                   \
                          X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuLaunchKernel)               \
                              X(cuStreamWriteValue32) X(cuStreamBatchMemOp) X(cuMemcpyHtoDAsync)           \
                                  X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async)             \
                                      X(cuStreamQuery) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) \
                                          X(cuStreamWaitEvent) X(cuEventElapsedTime) X(cuMemAlloc)         \
                                              X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost)              \
                                                  X(cuMemHostGetDevicePointer) X(cuGetErrorName)           \
                                                      X(cuGetErrorString) X(cuMemGetInfo)                  \
                                                          X(cuMemAddressReserve) X(cuMemAddressFree)       \
                                                              X(cuMemCreate) X(cuMemRelease) X(cuMemMap)   \
                                                                  X(cuMemUnmap) X(cuMemSetAccess)          \
                                                                      X(cuMemGetAllocationGranularity)         \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphInstantiate) X(cuGraphUpload) X(cuGraphLaunch)    \
      X(cuGraphDestroy) X(cuGraphExecDestroy) X(cuCtxCreate) X(cuCtxDestroy)

struct Calls {
#define CORUN_DECLARE(name) decltype(&::name) name##_;
  CORUN_CUDA_CALLS(CORUN_DECLARE)
#undef CORUN_DECLARE
};

class CudaDriver final : public Driver {
 public:
  CudaDriver(int index, OpenAs as) : owns_context_(as == OpenAs::further_context) {
    // Before the driver starts: a stream whose channel is held up by another's would make us wait for
    // nothing.
    if (as == OpenAs::usual) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr)
      throw InputError("", "--backend=cuda", "there is no NVIDIA driver here (libcuda.so.1)",
                       "run this on a machine with an NVIDIA GPU");
#define CORUN_LOAD(name)                                                                          \
  calls_.name##_ = reinterpret_cast<decltype(calls_.name##_)>(dlsym(library_, CORUN_TEXT(name))); \
  if (calls_.name##_ == nullptr) too_old(CORUN_TEXT(name));
    CORUN_CUDA_CALLS(CORUN_LOAD)
#undef CORUN_LOAD
    check(calls_.cuInit_(0), "cuInit");
    int count = 0;
    check(calls_.cuDeviceGetCount_(&count), "cuDeviceGetCount");
    if (index >= count)
      throw InputError("", "--backend=cuda", fmt::format("there is no GPU {}; there are {}", index, count),
                       "choose another device");
    check(calls_.cuDeviceGet_(&device_, index), "cuDeviceGet");
    if (owns_context_)
#if CUDA_VERSION < 13000
      check(calls_.cuCtxCreate_(&context_, 0, device_), "cuCtxCreate");
#else
      check(calls_.cuCtxCreate_(&context_, nullptr, 0, device_), "cuCtxCreate");
#endif
    else
      check(calls_.cuDevicePrimaryCtxRetain_(&context_, device_), "cuDevicePrimaryCtxRetain");
    check(calls_.cuCtxSetCurrent_(context_), "cuCtxSetCurrent");
    read_facts();
  }
  ~CudaDriver() override {
    for (const auto& [code, module] : modules_) calls_.cuModuleUnload_(module);
    if (owns_context_)
      calls_.cuCtxDestroy_(context_);
    else
      calls_.cuDevicePrimaryCtxRelease_(device_);
  }

  DeviceFacts facts() const override { return facts_; }
  Time now() override {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
  }
  void pause() override {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  Function load(std::string_view code, const std::string& entry) override {
    CUmodule& module = modules_[std::string(code)];
    if (module == nullptr) check(calls_.cuModuleLoadData_(&module, code.data()), "cuModuleLoadData");
    CUfunction f = nullptr;
    check(calls_.cuModuleGetFunction_(&f, module, entry.c_str()), "cuModuleGetFunction");
    return {reinterpret_cast<std::uint64_t>(f)};
  }
  FunctionFacts facts(Function f) override {
    const auto get = [&](CUfunction_attribute a) {
      int value = 0;
      check(calls_.cuFuncGetAttribute_(&value, a, of(f)), "cuFuncGetAttribute");
      return static_cast<std::uint32_t>(value);
    };
    return {get(CU_FUNC_ATTRIBUTE_NUM_REGS), get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
            get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)};
  }
  void allow_shared_memory(Function f, std::uint32_t dynamic_bytes) override {
    check(calls_.cuFuncSetAttribute_(of(f), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     static_cast<int>(dynamic_bytes)),
          "cuFuncSetAttribute");
  }
  std::uint32_t blocks_per_sm(Function f, std::uint32_t threads, std::uint32_t dynamic_bytes) override {
    int blocks = 0;
    check(calls_.cuOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, of(f), static_cast<int>(threads),
                                                              dynamic_bytes),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return static_cast<std::uint32_t>(blocks);
  }

  std::uint32_t sm_groups() override {
    split();
    return static_cast<std::uint32_t>(groups_.size());
  }
  Partition partition(std::span<const std::uint32_t> groups) override {
    split();
    std::vector<CUdevResource> wanted;
    for (std::uint32_t g : groups) wanted.push_back(groups_.at(g));
    CUdevResourceDesc description{};
    check(
        calls_.cuDevResourceGenerateDesc_(&description, wanted.data(), static_cast<unsigned>(wanted.size())),
        "cuDevResourceGenerateDesc");
    CUgreenCtx context = nullptr;
    check(calls_.cuGreenCtxCreate_(&context, description, device_, CU_GREEN_CTX_DEFAULT_STREAM),
          "cuGreenCtxCreate");
    return {reinterpret_cast<std::uint64_t>(context)};
  }
  void destroy(Partition p) override {
    check(calls_.cuGreenCtxDestroy_(reinterpret_cast<CUgreenCtx>(p.value)), "cuGreenCtxDestroy");
  }
  Stream stream(std::int32_t priority, Partition p) override {
    CUstream s = nullptr;
    if (p)
      check(calls_.cuGreenCtxStreamCreate_(&s, reinterpret_cast<CUgreenCtx>(p.value), CU_STREAM_NON_BLOCKING,
                                           priority),
            "cuGreenCtxStreamCreate");
    else
      check(calls_.cuStreamCreateWithPriority_(&s, CU_STREAM_NON_BLOCKING, priority),
            "cuStreamCreateWithPriority");
    return {reinterpret_cast<std::uint64_t>(s)};
  }
  void destroy(Stream s) override { check(calls_.cuStreamDestroy_(of(s)), "cuStreamDestroy"); }

  void launch(Function f, Dim3 grid, Dim3 block, std::uint32_t dynamic_bytes, Stream s,
              std::span<void* const> parameters) override {
    check(calls_.cuLaunchKernel_(of(f), grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic_bytes,
                                 of(s), const_cast<void**>(parameters.data()), nullptr),
          "cuLaunchKernel");
  }
  void write(Stream s, DevicePointer at, std::uint32_t value) override {
    check(calls_.cuStreamWriteValue32_(of(s), at, value, 0), "cuStreamWriteValue32");
  }
  void write(Stream s, std::span<const std::pair<DevicePointer, std::uint32_t>> all) override {
    constexpr std::size_t kMost = 256;
    std::vector<CUstreamBatchMemOpParams> operations;
    for (std::size_t i = 0; i < all.size(); ++i) {
      CUstreamBatchMemOpParams p{};
      p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      p.writeValue.address = all[i].first;
      p.writeValue.value = all[i].second;
      operations.push_back(p);
      if (operations.size() == kMost || i + 1 == all.size()) {
        check(
            calls_.cuStreamBatchMemOp_(of(s), static_cast<unsigned>(operations.size()), operations.data(), 0),
            "cuStreamBatchMemOp");
        operations.clear();
      }
    }
  }
  void copy_to_device(Stream s, DevicePointer to, const void* from, std::size_t bytes) override {
    check(calls_.cuMemcpyHtoDAsync_(to, from, bytes, of(s)), "cuMemcpyHtoDAsync");
  }
  void copy_to_host(Stream s, void* to, DevicePointer from, std::size_t bytes) override {
    check(calls_.cuMemcpyDtoHAsync_(to, from, bytes, of(s)), "cuMemcpyDtoHAsync");
  }
  void copy_on_device(Stream s, DevicePointer to, DevicePointer from, std::size_t bytes) override {
    check(calls_.cuMemcpyDtoDAsync_(to, from, bytes, of(s)), "cuMemcpyDtoDAsync");
  }
  void fill(Stream s, DevicePointer at, std::uint8_t value, std::size_t bytes) override {
    check(calls_.cuMemsetD8Async_(at, value, bytes, of(s)), "cuMemsetD8Async");
  }
  Graph capture(Stream s, const std::function<void()>& calls) override {
    CUgraph graph = nullptr;
    CUgraphExec ready = nullptr;
    check(calls_.cuStreamBeginCapture_(of(s), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    calls();
    check(calls_.cuStreamEndCapture_(of(s), &graph), "cuStreamEndCapture");
    const CUresult made = calls_.cuGraphInstantiate_(&ready, graph, 0);
    check(calls_.cuGraphDestroy_(graph), "cuGraphDestroy");
    check(made, "cuGraphInstantiate");
    check(calls_.cuGraphUpload_(ready, of(s)), "cuGraphUpload");
    synchronize(s);
    return {reinterpret_cast<std::uint64_t>(ready)};
  }
  void launch(Graph g, Stream s) override {
    check(calls_.cuGraphLaunch_(reinterpret_cast<CUgraphExec>(g.value), of(s)), "cuGraphLaunch");
  }
  void destroy(Graph g) override {
    check(calls_.cuGraphExecDestroy_(reinterpret_cast<CUgraphExec>(g.value)), "cuGraphExecDestroy");
  }
  void synchronize(Stream s) override {
    // Not cuStreamSynchronize, which would wait for ever for a kernel that hangs.
    constexpr Time kPatience = std::chrono::seconds(30);
    for (const Time begin = now(); !idle(s); pause())
      if (now() - begin > kPatience) throw DriverError("a stream's work has not ended within 30 s");
  }
  bool idle(Stream s) override {
    const CUresult r = calls_.cuStreamQuery_(of(s));
    if (r == CUDA_ERROR_NOT_READY) return false;
    check(r, "cuStreamQuery");
    return true;
  }

  Event event() override {
    CUevent e = nullptr;
    check(calls_.cuEventCreate_(&e, CU_EVENT_DEFAULT), "cuEventCreate");
    return {reinterpret_cast<std::uint64_t>(e)};
  }
  void destroy(Event e) override { check(calls_.cuEventDestroy_(of(e)), "cuEventDestroy"); }
  void record(Event e, Stream s) override { check(calls_.cuEventRecord_(of(e), of(s)), "cuEventRecord"); }
  void wait(Stream s, Event e) override {
    check(calls_.cuStreamWaitEvent_(of(s), of(e), 0), "cuStreamWaitEvent");
  }
  double milliseconds(Event from, Event to) override {
    float ms = 0;
    check(calls_.cuEventElapsedTime_(&ms, of(from), of(to)), "cuEventElapsedTime");
    return static_cast<double>(ms);
  }

  std::size_t memory_unit() override {
    if (memory_unit_ == 0) {
      const CUmemAllocationProp of = on_this_device();
      check(calls_.cuMemGetAllocationGranularity_(&memory_unit_, &of, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
            "cuMemGetAllocationGranularity");
    }
    return memory_unit_;
  }
  std::uint64_t memory_free() override {
    std::size_t free = 0, all = 0;
    check(calls_.cuMemGetInfo_(&free, &all), "cuMemGetInfo");
    return free;
  }
  DevicePointer reserve(std::size_t bytes) override {
    CUdeviceptr p = 0;
    check(calls_.cuMemAddressReserve_(&p, bytes, 0, 0, 0), "cuMemAddressReserve");
    return p;
  }
  void unreserve(DevicePointer at, std::size_t bytes) override {
    check(calls_.cuMemAddressFree_(at, bytes), "cuMemAddressFree");
  }
  void back(DevicePointer at, std::size_t bytes) override {
    const CUmemAllocationProp of = on_this_device();
    CUmemGenericAllocationHandle memory = 0;
    check(calls_.cuMemCreate_(&memory, bytes, &of, 0), fmt::format("cuMemCreate of {} bytes", bytes).c_str());
    const CUresult mapped = calls_.cuMemMap_(at, bytes, 0, memory, 0);
    check(calls_.cuMemRelease_(memory), "cuMemRelease");  // it lives while it is mapped
    check(mapped, "cuMemMap");
    const CUmemAccessDesc access{of.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check(calls_.cuMemSetAccess_(at, bytes, &access, 1), "cuMemSetAccess");
  }
  void unback(DevicePointer at, std::size_t bytes) override {
    check(calls_.cuMemUnmap_(at, bytes), "cuMemUnmap");
  }

  DevicePointer allocate(std::size_t bytes) override {
    CUdeviceptr p = 0;
    check(calls_.cuMemAlloc_(&p, bytes), fmt::format("cuMemAlloc of {} bytes", bytes).c_str());
    return p;
  }
  void free(DevicePointer p) override { check(calls_.cuMemFree_(p), "cuMemFree"); }
  HostMemory allocate_host(std::size_t bytes) override {
    HostMemory m;
    m.bytes = bytes;
    check(calls_.cuMemHostAlloc_(&m.host, bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE),
          "cuMemHostAlloc");
    CUdeviceptr p = 0;
    check(calls_.cuMemHostGetDevicePointer_(&p, m.host, 0), "cuMemHostGetDevicePointer");
    m.device = p;
    std::memset(m.host, 0, bytes);
    return m;
  }
  void free(const HostMemory& m) override { check(calls_.cuMemFreeHost_(m.host), "cuMemFreeHost"); }

 private:
  static CUstream of(Stream s) { return reinterpret_cast<CUstream>(s.value); }
  static CUevent of(Event e) { return reinterpret_cast<CUevent>(e.value); }
  static CUfunction of(Function f) { return reinterpret_cast<CUfunction>(f.value); }

  [[noreturn]] static void too_old(const char* call) {
    throw InputError("", "--backend=cuda", fmt::format("the NVIDIA driver has no {}", call),
                     "use a driver for CUDA 12.5 or later");
  }
  void check(CUresult r, const char* call) const {
    if (r == CUDA_SUCCESS) return;
    const char *name = "unknown error", *text = "";
    calls_.cuGetErrorName_(r, &name);
    calls_.cuGetErrorString_(r, &text);
    throw DriverError(fmt::format("{}: {} ({})", call, name, text));
  }

  void read_facts() {
    char name[256] = {};
    check(calls_.cuDeviceGetName_(name, sizeof name, device_), "cuDeviceGetName");
    facts_.name = name;
    int version = 0;
    check(calls_.cuDriverGetVersion_(&version), "cuDriverGetVersion");
    facts_.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
    const auto get = [&](CUdevice_attribute a) {
      int value = 0;
      check(calls_.cuDeviceGetAttribute_(&value, a, device_), "cuDeviceGetAttribute");
      return static_cast<std::uint32_t>(value);
    };
    facts_.sms = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    facts_.capability_major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    facts_.capability_minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    facts_.sm_clock_khz = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    facts_.memory_clock_khz = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    facts_.l2_bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    facts_.copy_engines = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    facts_.sm.threads = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    facts_.sm.blocks = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    facts_.sm.registers = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    facts_.sm.shared_bytes = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    facts_.sm.block_threads = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    facts_.sm.block_registers = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    facts_.sm.block_shared_bytes = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    facts_.sm.reserved_shared_bytes = get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    std::size_t bytes = 0;
    check(calls_.cuDeviceTotalMem_(&bytes, device_), "cuDeviceTotalMem");
    facts_.memory_bytes = bytes;
    int least = 0, greatest = 0;
    check(calls_.cuCtxGetStreamPriorityRange_(&least, &greatest), "cuCtxGetStreamPriorityRange");
    facts_.highest_priority = greatest;
  }

  CUmemAllocationProp on_this_device() const {
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = device_;
    return p;
  }

  /// Into TPCs where the driver allows it.
  void split() {
    if (!groups_.empty()) return;
    CUdevResource all{};
    check(calls_.cuDeviceGetDevResource_(device_, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
    unsigned count = 0;
    check(calls_.cuDevSmResourceSplitByCount_(nullptr, &count, &all, nullptr, kTpcsApart, 2),
          "cuDevSmResourceSplitByCount");
    groups_.resize(count);
    check(calls_.cuDevSmResourceSplitByCount_(groups_.data(), &count, &all, nullptr, kTpcsApart, 2),
          "cuDevSmResourceSplitByCount");
    groups_.resize(count);
  }

  void* library_ = nullptr;
  Calls calls_{};
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool owns_context_;
  DeviceFacts facts_;
  std::size_t memory_unit_ = 0;
  std::map<std::string, CUmodule> modules_;
  std::vector<CUdevResource> groups_;
};

}  // namespace

bool built_with_cuda() { return true; }
std::unique_ptr<Driver> open_cuda(int index, OpenAs as) { return std::make_unique<CudaDriver>(index, as); }

}  // namespace corun::hw

#else

namespace corun::hw {

bool built_with_cuda() { return false; }
std::unique_ptr<Driver> open_cuda(int, OpenAs) {
  throw InputError("", "--backend=cuda", "this build has no CUDA backend",
                   "configure with -DCORUN_WITH_CUDA=ON where the CUDA Toolkit is installed");
}

}  // namespace corun::hw

#endif
