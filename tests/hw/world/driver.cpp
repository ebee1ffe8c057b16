// The driver's functions, as a played GPU has them.
#define __CUDA_API_VERSION_INTERNAL
#include "hw/shim/driver.h"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "hw/live/system.h"
#include "tests/hw/world/device_memory.h"
#include "tests/hw/world/gpu.h"

namespace corun::world {
namespace {

Gpu& gpu() { return Gpu::the(); }
Machine& machine() { return Machine::the(); }
bool dead() { return machine().thread() == nullptr || !machine().process()->alive; }

/// One that waits fails only with its context.
template <class Call>
CUresult waiting(Call what) {
  if (dead()) return CUDA_ERROR_DEINITIALIZED;
  machine().spend(2us);
  return what();
}
/// A call that takes a while, and may be refused.
template <class Call>
CUresult call(Call what) {
  if (dead()) return CUDA_ERROR_DEINITIALIZED;
  machine().spend(2us);
  if (gpu().fails()) return machine().tell("the driver refuses a call"), CUDA_ERROR_UNKNOWN;
  return what();
}

struct OfThread {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
CUcontext handle() { return reinterpret_cast<CUcontext>(std::uintptr_t{0x40000}); }  // the same again, after another has ended
constexpr int kOfModule = 44;  // above: the number of a function of a module
Ns time_of(CUfunction f) { return std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(f) % (std::uintptr_t{1} << kOfModule) >> 4); }
std::uint32_t number_of(CUgraph graph) { return static_cast<std::uint32_t>((reinterpret_cast<std::uintptr_t>(graph) - 0x30000) / 16); }

CUresult init(unsigned) { return call([] { return CUDA_SUCCESS; }); }
/// Null: there is one. Else the program uses this one of two.
const char* second() { return live::os::getenv("DEVICE"); }
CUresult count(int* n) { return *n = second() != nullptr ? 2 : 1, CUDA_SUCCESS; }
CUresult place(char* at, int bytes, CUdevice device) { return std::snprintf(at, static_cast<std::size_t>(bytes), "0000:%02x:00.0", 1 + device), CUDA_SUCCESS; }
CUresult current(CUcontext* is) { return *is = dead() ? nullptr : handle(), CUDA_SUCCESS; }
CUresult set_current(CUcontext) { return CUDA_SUCCESS; }
CUresult device(CUdevice* is) { return *is = second() != nullptr ? std::atoi(second()) : 0, CUDA_SUCCESS; }
CUresult exchange(CUstreamCaptureMode* mode) { return std::swap(*mode, live::os::of_thread<OfThread>().mode), CUDA_SUCCESS; }
CUresult state(CUdevice, unsigned* flags, int* active) { return *flags = 0, *active = 1, CUDA_SUCCESS; }
CUresult retain(CUcontext* is, CUdevice) { return *is = handle(), CUDA_SUCCESS; }
CUresult release(CUdevice) { return CUDA_SUCCESS; }
CUresult reset(CUdevice) {
  return call([] {
    if (gpu().refuses_reset.erase(machine().process()->pid) != 0) return ++machine().count("the driver did not reset"), CUDA_ERROR_UNKNOWN;
    DeviceMemory::the().context_ended(machine().process()->pid);
    ++machine().count("reset");
    gpu().end_context(machine().process()->pid);
    return CUDA_SUCCESS;
  });
}

CUresult add_memory(void* at, std::size_t bytes, unsigned) {
  return call([&] {
    auto& all = gpu().context().registered;
    return all.emplace(reinterpret_cast<CUdeviceptr>(at), bytes).second ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  });
}
CUresult address(CUdeviceptr* is, void* at, unsigned flags) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : (*is = reinterpret_cast<CUdeviceptr>(at), CUDA_SUCCESS);
}
bool registered(CUdeviceptr at) {
  return std::ranges::any_of(gpu().context().registered, [&](const auto& each) { return at - each.first < each.second; });
}

CUresult stream_with_priority(CUstream* made, unsigned, int priority) {
  return call([&] { return (void)gpu().context(), *made = gpu().new_stream(priority), CUDA_SUCCESS; });
}
CUresult stream(CUstream* made, unsigned flags) { return stream_with_priority(made, flags, 0); }
CUresult destroy_stream(CUstream stream) {
  return call([&] {
    Gpu::Stream* s = gpu().stream(stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    s->gone = true;  // what is in it goes on
    return CUDA_SUCCESS;
  });
}
CUresult priority_of(CUstream stream, int* priority) {
  const Gpu::Stream* s = gpu().stream(stream);
  return s == nullptr ? CUDA_ERROR_INVALID_HANDLE : (*priority = s->priority, CUDA_SUCCESS);
}
CUresult event(CUevent* made, unsigned) {
  return call([&] {
    const std::uint32_t life = gpu().context().life;
    gpu().events.push_back(std::make_unique<Gpu::Event>());
    gpu().events.back()->pid = machine().process()->pid, gpu().events.back()->life = life;
    *made = reinterpret_cast<CUevent>(std::uintptr_t{0x20000} + (gpu().events.size() - 1) * 16);
    return CUDA_SUCCESS;
  });
}
CUresult destroy_event(CUevent) { return CUDA_SUCCESS; }
std::uint32_t number_of(CUevent event) { return static_cast<std::uint32_t>((reinterpret_cast<std::uintptr_t>(event) - 0x20000) / 16); }
CUresult record(CUevent event, CUstream stream) {
  return call([&] {
    std::uint32_t n = 0;
    Gpu::Stream* s = gpu().stream(stream, &n);
    Gpu::Event* e = gpu().event(event);
    if (s == nullptr || e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    e->capture = s->capture, e->of = n;
    if (s->capture != nullptr) return CUDA_SUCCESS;
    Gpu::Op op;
    op.what = Gpu::Op::What::record, op.event = number_of(event), op.ticket = ++e->recorded;
    return gpu().enqueue(stream, std::move(op));
  });
}
CUresult wait_event(CUstream stream, CUevent event, unsigned) {
  return call([&] {
    std::uint32_t n = 0;
    Gpu::Stream* s = gpu().stream(stream, &n);
    const Gpu::Event* e = gpu().event(event);
    if (s == nullptr || e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture != nullptr) {
      s->capture = e->capture;
      if (n == e->capture->origin) e->capture->open.erase(e->of); else e->capture->open.insert(n);
      return CUDA_SUCCESS;
    }
    if (s->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    Gpu::Op op;
    op.what = Gpu::Op::What::wait, op.event = number_of(event), op.ticket = e->recorded;
    return gpu().enqueue(stream, std::move(op));
  });
}
CUresult value(Gpu::Op::What what, CUstream stream, CUdeviceptr at, cuuint32_t number) {
  return call([&] {
    if (!registered(at)) return machine().wrong("stale: the GPU is to use memory that is not registered"), CUDA_ERROR_INVALID_VALUE;
    Gpu::Op op;
    op.what = what, op.at = at, op.value = number;
    return gpu().enqueue(stream, std::move(op));
  });
}
CUresult write_value(CUstream stream, CUdeviceptr at, cuuint32_t number, unsigned) { return value(Gpu::Op::What::write, stream, at, number); }
CUresult wait_value(CUstream stream, CUdeviceptr at, cuuint32_t number, unsigned) {
  if (!gpu().waits) return CUDA_ERROR_NOT_SUPPORTED;
  return value(Gpu::Op::What::wait_value, stream, at, number);
}

CUresult is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  const Gpu::Stream* s = gpu().stream(stream);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool is = s->capture != nullptr && !machine().plants.nobody_asks_for_captures;
  *status = is ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult begin_capture(CUstream stream, CUstreamCaptureMode) {
  return call([&] {
    std::uint32_t n = 0;
    Gpu::Stream* s = gpu().stream(stream, &n);
    if (s == nullptr || s->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    gpu().captures.push_back(std::make_unique<Gpu::Capture>());
    s->capture = gpu().captures.back().get();
    s->capture->origin = n;
    return CUDA_SUCCESS;
  });
}
CUresult begin_to_graph(CUstream stream, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, std::size_t, CUstreamCaptureMode mode) {
  return begin_capture(stream, mode);
}
CUresult end_capture(CUstream stream, CUgraph* graph) {
  return call([&] { return gpu().capture_end(stream, graph); });
}
CUresult instantiate(CUgraphExec* made, CUgraph graph, unsigned long long) {
  return *made = reinterpret_cast<CUgraphExec>(gpu().add(Gpu::Graph(gpu().graphs[number_of(graph)]))), CUDA_SUCCESS;
}
CUresult nodes(CUgraph graph, CUgraphNode*, std::size_t* n) { return *n = gpu().graphs[number_of(graph)].kernels, CUDA_SUCCESS; }
CUresult destroy_graph(CUgraph) { return CUDA_SUCCESS; }
CUresult destroy_made(CUgraphExec) { return CUDA_SUCCESS; }

CUresult kernel(CUstream stream, Ns takes) {
  return call([&] {
    Gpu::Op op;
    op.takes = takes, op.launch = machine().thread()->launch;
    return gpu().enqueue(stream, std::move(op));
  });
}
CUresult launch(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream stream, void**, void**) {
  return f == nullptr ? CUDA_ERROR_INVALID_HANDLE : kernel(stream, time_of(f));
}
CUresult launch_ex(const CUlaunchConfig* config, CUfunction f, void**, void**) {
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY) gpu().has_priority(config->attrs[i].value.priority);
  return kernel(config->hStream, time_of(f));
}
CUresult launch_graph(CUgraphExec graph, CUstream stream) { return kernel(stream, gpu().graphs[number_of(reinterpret_cast<CUgraph>(graph))].takes); }
CUresult load(CUmodule* module, const void*) { return *module = reinterpret_cast<CUmodule>(std::uintptr_t{++gpu().modules}), CUDA_SUCCESS; }
CUresult unload(CUmodule) { return CUDA_SUCCESS; }
/// Of so many microseconds, as its name says, at an address of its own.
CUresult find(CUfunction* f, CUmodule module, const char* name) {
  return *f = reinterpret_cast<CUfunction>(reinterpret_cast<std::uintptr_t>(module) << kOfModule | static_cast<std::uintptr_t>(std::atoi(name)) << 4), CUDA_SUCCESS;
}
CUresult name_of(const char** name, CUfunction) { return *name = "kernel", CUDA_SUCCESS; }
CUresult attribute(int* is, CUfunction_attribute, CUfunction) { return *is = 16, CUDA_SUCCESS; }

CUresult wait_stream(CUstream stream) {
  return waiting([&] {
    const Gpu::Stream* s = gpu().stream(stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    while (!gpu().idle(machine().process()->pid, s)) machine().wait_on(s, kForever);
    return CUDA_SUCCESS;
  });
}
CUresult wait_context() {
  return waiting([&] {
    while (!gpu().idle(machine().process()->pid)) machine().wait_on(&gpu(), kForever);
    return CUDA_SUCCESS;
  });
}
CUresult query(CUstream stream) {
  return call([&] {
    const Gpu::Stream* s = gpu().stream(stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return gpu().idle(machine().process()->pid, s) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

const std::pair<std::string_view, void*> kFunctions[] = {
#define CORUN_PLAYED(NAME, FUNCTION) {NAME, reinterpret_cast<void*>(&FUNCTION)},
    CORUN_PLAYED("cuInit", init)
    CORUN_PLAYED("cuDeviceGetCount", count)
    CORUN_PLAYED("cuDeviceGetPCIBusId", place)
    CORUN_PLAYED("cuCtxGetCurrent", current)
    CORUN_PLAYED("cuCtxSetCurrent", set_current)
    CORUN_PLAYED("cuCtxGetDevice", device)
    CORUN_PLAYED("cuThreadExchangeStreamCaptureMode", exchange)
    CORUN_PLAYED("cuDevicePrimaryCtxGetState", state)
    CORUN_PLAYED("cuDevicePrimaryCtxRetain", retain)
    CORUN_PLAYED("cuDevicePrimaryCtxRelease_v2", release)
    CORUN_PLAYED("cuDevicePrimaryCtxReset_v2", reset)
    CORUN_PLAYED("cuMemHostRegister_v2", add_memory)
    CORUN_PLAYED("cuMemHostGetDevicePointer_v2", address)
    CORUN_PLAYED("cuStreamCreate", stream)
    CORUN_PLAYED("cuStreamCreateWithPriority", stream_with_priority)
    CORUN_PLAYED("cuStreamDestroy_v2", destroy_stream)
    CORUN_PLAYED("cuStreamGetPriority", priority_of)
    CORUN_PLAYED("cuEventCreate", event)
    CORUN_PLAYED("cuEventDestroy_v2", destroy_event)
    CORUN_PLAYED("cuEventRecord", record)
    CORUN_PLAYED("cuStreamWaitEvent", wait_event)
    CORUN_PLAYED("cuStreamWriteValue32_v2", write_value)
    CORUN_PLAYED("cuStreamWaitValue32_v2", wait_value)
    CORUN_PLAYED("cuStreamIsCapturing", is_capturing)
    CORUN_PLAYED("cuStreamBeginCapture_v2", begin_capture)
    CORUN_PLAYED("cuStreamBeginCaptureToGraph", begin_to_graph)
    CORUN_PLAYED("cuStreamEndCapture", end_capture)
    CORUN_PLAYED("cuGraphInstantiateWithFlags", instantiate)
    CORUN_PLAYED("cuGraphGetNodes", nodes)
    CORUN_PLAYED("cuGraphDestroy", destroy_graph)
    CORUN_PLAYED("cuGraphExecDestroy", destroy_made)
    CORUN_PLAYED("cuLaunchKernel", launch)
    CORUN_PLAYED("cuLaunchKernelEx", launch_ex)
    CORUN_PLAYED("cuGraphLaunch", launch_graph)
    CORUN_PLAYED("cuModuleLoadData", load)
    CORUN_PLAYED("cuModuleUnload", unload)
    CORUN_PLAYED("cuModuleGetFunction", find)
    CORUN_PLAYED("cuFuncGetName", name_of)
    CORUN_PLAYED("cuFuncGetAttribute", attribute)
    CORUN_PLAYED("cuStreamSynchronize", wait_stream)
    CORUN_PLAYED("cuCtxSynchronize", wait_context)
    CORUN_PLAYED("cuStreamQuery", query)
#undef CORUN_PLAYED
};

}  // namespace
}  // namespace corun::world

namespace corun::live {

void* driver_function(const char* name) {
  for (const auto& [known, function] : world::kFunctions)
    if (known == name) return function;
  return world::memory_function(name);
}

}  // namespace corun::live
