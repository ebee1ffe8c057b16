// The library that `sim run` puts before a program's libraries (LD_PRELOAD).  It answers for the driver's calls that launch or
// wait, in each way in which a program can come by them: linked, by dlsym, or by cuGetProcAddress, as the CUDA runtime does.
// A launch that the program's host calls goes when the service grants it: its thread waits, or, of a program that may run
// ahead, its stream on the GPU.  After it the GPU writes that it has done it.
//
// Passed through: what is called while a stream is captured (its graph is steered as one launch), launches on devices but the
// service's, and everything that is no launch and touches no memory (memory_hooks.cpp).  Leaves out: sizes of kernels without PTX.
#define __CUDA_API_VERSION_INTERNAL  // names as the library has them
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hw/shim/blocks.h"
#include "hw/shim/captures.h"
#include "hw/shim/client.h"
#include "hw/shim/code_hooks.h"
#include "hw/shim/driver.h"
#include "hw/shim/driver_calls.h"
#include "hw/shim/graphs.h"
#include "hw/shim/hooks.h"
#include "hw/shim/leave.h"
#include "hw/shim/steer.h"
#include "hw/shim/stoppable.h"

namespace corun::live {
namespace {

/// The driver's own function in whose place `Own` stands.
template <auto Own>
inline decltype(Own) real = nullptr;

template <Default K>
CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction f, void** arguments, void** extra);
CUresult make_stream_with_priority(CUstream* stream, unsigned flags, int priority);

template <Default K>
CUresult launch_with(const CUlaunchConfig& config, CUfunction f, void** arguments, void** extra, std::int32_t priority) {
  if (priority == 0 || real<&launch_kernel_ex<K>> == nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // so it goes without
  std::vector<CUlaunchAttribute> attributes(config.attrs, config.attrs + config.numAttrs);
  CUlaunchAttribute& own = attributes.emplace_back();
  std::memset(&own, 0, sizeof own);
  own.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  own.value.priority = priority;
  CUlaunchConfig with = config;
  with.attrs = attributes.data(), with.numAttrs = static_cast<unsigned>(attributes.size());
  return real<&launch_kernel_ex<K>>(&with, f, arguments, extra);
}

template <Default K>
CUresult launch_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       CUstream stream, void** arguments, void** extra) {
  const Work work{reinterpret_cast<const void*>(f), false, {gx, gy, gz}, {bx, by, bz}, shared};
  const Arguments given{arguments, extra};
  return steer(work, stream, K, [&](CUstream to, std::int32_t priority) {
    const CUlaunchConfig config{gx, gy, gz, bx, by, bz, shared, to, nullptr, 0};
    if (const CUresult r = launch_with<K>(config, f, arguments, extra, priority); r != CUDA_ERROR_NOT_SUPPORTED) return r;
    return real<&launch_kernel<K>>(f, gx, gy, gz, bx, by, bz, shared, to, arguments, extra);
  }, &given);
}

template <Default K>
CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction f, void** arguments, void** extra) {
  if (config == nullptr) return real<&launch_kernel_ex<K>>(config, f, arguments, extra);
  const Work work{reinterpret_cast<const void*>(f),
                  false,
                  {config->gridDimX, config->gridDimY, config->gridDimZ},
                  {config->blockDimX, config->blockDimY, config->blockDimZ},
                  config->sharedMemBytes};
  const Arguments given{arguments, extra};
  return steer(work, config->hStream, K, [&](CUstream to, std::int32_t priority) {
    for (unsigned i = 0; i < config->numAttrs; ++i)
      if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY) priority = 0;  // the program's own
    CUlaunchConfig there = *config;
    there.hStream = to;
    if (const CUresult r = launch_with<K>(there, f, arguments, extra, priority); r != CUDA_ERROR_NOT_SUPPORTED) return r;
    return real<&launch_kernel_ex<K>>(&there, f, arguments, extra);
  }, config->numAttrs == 0 ? &given : nullptr);
}

template <Default K>
CUresult launch_cooperative(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, CUstream stream, void** arguments) {
  const Work work{reinterpret_cast<const void*>(f), false, {gx, gy, gz}, {bx, by, bz}, shared};
  return steer(work, stream, K, [&](CUstream to, std::int32_t) {
    return real<&launch_cooperative<K>>(f, gx, gy, gz, bx, by, bz, shared, to, arguments);
  });
}

template <Default K>
CUresult launch_graph(CUgraphExec graph, CUstream stream) {
  const Work work{reinterpret_cast<const void*>(graph), true, {graphs().nodes(graph), 1, 1}, {1, 1, 1}, 0};
  return steer(work, stream, K, [&](CUstream to, std::int32_t) { return real<&launch_graph<K>>(graph, to); });
}

template <Default K>
CUresult synchronize(CUstream stream) {
  host_waits();
  return real<&synchronize<K>>(stream);
}
template <Default K>
CUresult query(CUstream stream) {
  const CUresult result = real<&query<K>>(stream);
  if (result == CUDA_SUCCESS) host_waits();
  return result;
}
CUresult event_synchronize(CUevent event) {
  host_waits();
  return real<&event_synchronize>(event);
}
CUresult context_synchronize() {
  host_waits();
  return real<&context_synchronize>();
}
CUresult this_context_synchronize(CUcontext context) {
  host_waits();
  return real<&this_context_synchronize>(context);
}
template <Default K>
CUresult copy_back(void* to, CUdeviceptr from, size_t bytes) {
  host_waits();
  const Touch touch;
  return real<&copy_back<K>>(to, from, bytes);
}
template <Default K, class Begin>
CUresult begin(CUstream stream, Begin begin) {
  const Touch touch;  // so that who looks whether something is captured looks before or after
  const CUresult result = begin();
  if (result == CUDA_SUCCESS) captures().begun(plain(stream, K));
  return result;
}
template <Default K>
CUresult begin_first_capture(CUstream stream) {
  return begin<K>(stream, [&] { return real<&begin_first_capture<K>>(stream); });
}
template <Default K>
CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode) {
  return begin<K>(stream, [&] { return real<&begin_capture<K>>(stream, mode); });
}
template <Default K>
CUresult begin_capture_to_graph(CUstream stream, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges, size_t count,
                                CUstreamCaptureMode mode) {
  return begin<K>(stream, [&] { return real<&begin_capture_to_graph<K>>(stream, graph, after, edges, count, mode); });
}
template <Default K>
CUresult end_capture(CUstream stream, CUgraph* graph) {
  const CUresult result = real<&end_capture<K>>(stream, graph);
  captures().tried_to_end(plain(stream, K));
  Client* client = Client::get();
  if (client != nullptr && result == CUDA_SUCCESS && graph != nullptr && !client->asks())
    graphs().captured(*graph, client->standing().tpcs);
  return result;
}
CUresult instantiate(CUgraphExec* made, CUgraph graph, unsigned long long flags) {
  const CUresult result = real<&instantiate>(made, graph, flags);
  if (result == CUDA_SUCCESS) graphs().made(*made, graph);
  return result;
}
CUresult destroy_graph(CUgraph graph) {
  graphs().destroyed(graph);
  return real<&destroy_graph>(graph);
}
CUresult destroy_made_graph(CUgraphExec graph) {
  graphs().destroyed(graph);
  if (Client* client = Client::get()) client->forget_graph(graph);
  return real<&destroy_made_graph>(graph);
}
/// As until CUDA 12; `Version`: two of the driver's.
template <int Version>
CUresult instantiate_first(CUgraphExec* made, CUgraph graph, CUgraphNode* failed, char* log, size_t bytes) {
  const CUresult result = real<&instantiate_first<Version>>(made, graph, failed, log, bytes);
  if (result == CUDA_SUCCESS) graphs().made(*made, graph);
  return result;
}
template <Default K>
CUresult instantiate_with(CUgraphExec* made, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  const CUresult result = real<&instantiate_with<K>>(made, graph, parameters);
  if (result == CUDA_SUCCESS) graphs().made(*made, graph);
  return result;
}
/// A stream for which the program asks no priority has the one that it was given, and so have the graphs captured from it.
CUresult make_stream_with_priority(CUstream* stream, unsigned flags, int priority) {
  Client* client = priority == 0 ? Client::get() : nullptr;
  return real<&make_stream_with_priority>(stream, flags, client != nullptr ? client->standing_priority() : priority);
}
CUresult make_stream(CUstream* stream, unsigned flags) {
  Client* client = real<&make_stream_with_priority> != nullptr ? Client::get() : nullptr;
  if (client == nullptr || client->standing_priority() == 0) return real<&make_stream>(stream, flags);
  return real<&make_stream_with_priority>(stream, flags, client->standing_priority());
}
CUresult init(unsigned flags) {
  const CUresult result = real<&init>(flags);
  if (result == CUDA_SUCCESS) Client::connect();
  return result;
}

CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found);
CUresult get_proc_address_1(const char* name, void** function, int version, cuuint64_t flags);

template <auto Own>
Hook hook(std::string_view symbol) {
  return {symbol, reinterpret_cast<void*>(Own), reinterpret_cast<void**>(&real<Own>)};
}

const std::vector<Hook>& hooks() {
  using enum Default;
  static const auto& all = *new std::vector<Hook>(with_memory({  // not destroyed: programs look up and launch while they end
      hook<&init>("cuInit"),
      hook<&get_proc_address>("cuGetProcAddress_v2"),
      hook<&get_proc_address_1>("cuGetProcAddress"),
      hook<&make_stream>("cuStreamCreate"),
      hook<&make_stream_with_priority>("cuStreamCreateWithPriority"),
      hook<&launch_kernel<common>>("cuLaunchKernel"),
      hook<&launch_kernel<of_thread>>("cuLaunchKernel_ptsz"),
      hook<&launch_kernel_ex<common>>("cuLaunchKernelEx"),
      hook<&launch_kernel_ex<of_thread>>("cuLaunchKernelEx_ptsz"),
      hook<&launch_cooperative<common>>("cuLaunchCooperativeKernel"),
      hook<&launch_cooperative<of_thread>>("cuLaunchCooperativeKernel_ptsz"),
      hook<&launch_graph<common>>("cuGraphLaunch"),
      hook<&launch_graph<of_thread>>("cuGraphLaunch_ptsz"),
      hook<&synchronize<common>>("cuStreamSynchronize"),
      hook<&synchronize<of_thread>>("cuStreamSynchronize_ptsz"),
      hook<&query<common>>("cuStreamQuery"),
      hook<&query<of_thread>>("cuStreamQuery_ptsz"),
      hook<&event_synchronize>("cuEventSynchronize"),
      hook<&context_synchronize>("cuCtxSynchronize"),
      hook<&this_context_synchronize>("cuCtxSynchronize_v2"),
      hook<&copy_back<common>>("cuMemcpyDtoH_v2"),
      hook<&copy_back<of_thread>>("cuMemcpyDtoH_v2_ptds"),
      hook<&begin_first_capture<common>>("cuStreamBeginCapture"),
      hook<&begin_first_capture<of_thread>>("cuStreamBeginCapture_ptsz"),
      hook<&begin_capture_to_graph<common>>("cuStreamBeginCaptureToGraph"),
      hook<&begin_capture_to_graph<of_thread>>("cuStreamBeginCaptureToGraph_ptsz"),
      hook<&begin_capture<common>>("cuStreamBeginCapture_v2"),
      hook<&begin_capture<of_thread>>("cuStreamBeginCapture_v2_ptsz"),
      hook<&end_capture<common>>("cuStreamEndCapture"),
      hook<&end_capture<of_thread>>("cuStreamEndCapture_ptsz"),
      hook<&instantiate>("cuGraphInstantiateWithFlags"),
      hook<&destroy_graph>("cuGraphDestroy"),
      hook<&destroy_made_graph>("cuGraphExecDestroy"),
      hook<&instantiate_first<1>>("cuGraphInstantiate"),
      hook<&instantiate_first<2>>("cuGraphInstantiate_v2"),
      hook<&instantiate_with<common>>("cuGraphInstantiateWithParams"),
      hook<&instantiate_with<of_thread>>("cuGraphInstantiateWithParams_ptsz"),
  }));
  return all;
}

/// By symbol.
const std::unordered_map<std::string_view, const Hook*>& by_symbol() {
  static const auto& all = *[] {
    auto* made = new std::unordered_map<std::string_view, const Hook*>;
    for (const Hook& hook : hooks()) made->emplace(hook.symbol, &hook);
    return made;
  }();
  return all;
}

/// What the driver has answered, or what stands in its place.  `ask`: the driver, for another version.
/// A program of a later CUDA than anyone has looked at gets the library's functions where the driver means the same by both.
template <class Ask>
CUresult answer(CUresult result, const char* name, void** function, int version, cuuint64_t flags, Ask ask) {
  if (result != CUDA_SUCCESS || name == nullptr || function == nullptr || *function == nullptr) return result;
  const int known = std::min(version, listed_version());
  const DriverCall* call = meant_by(name, known, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  if (call == nullptr || call->is == Treatment::passed) return result;
  if (version != known) {
    void* same = nullptr;
    if (ask(name, &same, known) != CUDA_SUCCESS || same != *function) return of_later_cuda(name), result;
  }
  if (void* own = in_place_of(call->symbol))
    *function = own;
  else
    of_later_cuda(name);  // than that the library is built with
  return result;
}

CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  look_up();
  return answer(real<&get_proc_address>(name, function, version, flags, found), name, function, version, flags,
                [&](const char* of, void** at, int in) { return real<&get_proc_address>(of, at, in, flags, nullptr); });
}
CUresult get_proc_address_1(const char* name, void** function, int version, cuuint64_t flags) {
  look_up();
  return answer(real<&get_proc_address_1>(name, function, version, flags), name, function, version, flags,
                [&](const char* of, void** at, int in) { return real<&get_proc_address_1>(of, at, in, flags); });
}

}  // namespace

void look_up() {
  static const bool done = [] {
    for (const Hook& hook : hooks()) *hook.real = driver_function(std::string(hook.symbol).c_str());
    return true;
  }();
  (void)done;
}

void* in_place_of(std::string_view symbol) {
  if (const auto at = by_symbol().find(symbol); at != by_symbol().end()) {
    look_up();
    return *at->second->real != nullptr ? at->second->own : nullptr;
  }
  void* own = code_hook(symbol);
  return own != nullptr && driver_function(std::string(symbol).c_str()) != nullptr ? own : nullptr;
}
}  // namespace corun::live

// Of a program that is linked with the driver: its names are found here first.
namespace {
using namespace corun::live;
using enum Default;

/// The library's function of this name, whichever the program calls.
template <class F, class... Arguments>
auto linked(F* function, Arguments... arguments) {
  look_up();
  return function(arguments...);
}
}  // namespace

#pragma GCC visibility push(default)
extern "C" {
CUresult cuInit(unsigned flags) { return linked(init, flags); }
CUresult cuGetProcAddress(const char* name, void** f, int version, cuuint64_t flags) {
  return linked(get_proc_address_1, name, f, version, flags);
}
CUresult cuGetProcAddress_v2(const char* name, void** f, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  return linked(get_proc_address, name, f, version, flags, found);
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return linked(make_stream, stream, flags); }
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return linked(make_stream_with_priority, stream, flags, priority);
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void** arguments, void** extra) {
  return linked(launch_kernel<common>, f, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream stream, void** arguments, void** extra) {
  return linked(launch_kernel<of_thread>, f, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** arguments, void** extra) {
  return linked(launch_kernel_ex<common>, config, f, arguments, extra);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** arguments, void** extra) {
  return linked(launch_kernel_ex<of_thread>, config, f, arguments, extra);
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                   unsigned shared, CUstream stream, void** arguments) {
  return linked(launch_cooperative<common>, f, gx, gy, gz, bx, by, bz, shared, stream, arguments);
}
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                        unsigned bz, unsigned shared, CUstream stream, void** arguments) {
  return linked(launch_cooperative<of_thread>, f, gx, gy, gz, bx, by, bz, shared, stream, arguments);
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) { return linked(launch_graph<common>, graph, stream); }
CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) { return linked(launch_graph<of_thread>, graph, stream); }
CUresult cuStreamSynchronize(CUstream stream) { return linked(synchronize<common>, stream); }
CUresult cuStreamSynchronize_ptsz(CUstream stream) { return linked(synchronize<of_thread>, stream); }
CUresult cuStreamQuery(CUstream stream) { return linked(query<common>, stream); }
CUresult cuStreamQuery_ptsz(CUstream stream) { return linked(query<of_thread>, stream); }
CUresult cuEventSynchronize(CUevent event) { return linked(event_synchronize, event); }
CUresult cuCtxSynchronize() { return linked(context_synchronize); }
CUresult cuCtxSynchronize_v2(CUcontext context) { return linked(this_context_synchronize, context); }
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) { return linked(copy_back<common>, to, from, bytes); }
CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return linked(copy_back<of_thread>, to, from, bytes);
}
CUresult cuStreamBeginCapture(CUstream stream) { return linked(begin_first_capture<common>, stream); }
CUresult cuStreamBeginCapture_ptsz(CUstream stream) { return linked(begin_first_capture<of_thread>, stream); }
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges, size_t count,
                                     CUstreamCaptureMode mode) {
  return linked(begin_capture_to_graph<common>, stream, graph, after, edges, count, mode);
}
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges,
                                          size_t count, CUstreamCaptureMode mode) {
  return linked(begin_capture_to_graph<of_thread>, stream, graph, after, edges, count, mode);
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return linked(begin_capture<common>, stream, mode);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return linked(begin_capture<of_thread>, stream, mode);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) { return linked(end_capture<common>, stream, graph); }
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) { return linked(end_capture<of_thread>, stream, graph); }
CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long flags) {
  return linked(instantiate, made, graph, flags);
}
CUresult cuGraphDestroy(CUgraph graph) { return linked(destroy_graph, graph); }
CUresult cuGraphExecDestroy(CUgraphExec graph) { return linked(destroy_made_graph, graph); }
CUresult cuGraphInstantiate(CUgraphExec* made, CUgraph graph, CUgraphNode* failed, char* log, size_t bytes) {
  return linked(instantiate_first<1>, made, graph, failed, log, bytes);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* made, CUgraph graph, CUgraphNode* failed, char* log, size_t bytes) {
  return linked(instantiate_first<2>, made, graph, failed, log, bytes);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* made, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return linked(instantiate_with<common>, made, graph, parameters);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* made, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return linked(instantiate_with<of_thread>, made, graph, parameters);
}
}
#pragma GCC visibility pop
