#include "hw/shim/shadow_streams.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "hw/live/system.h"
#include "hw/shim/driver.h"
#include "hw/shim/partitions.h"
#include "hw/shim/uncaptured.h"

namespace corun::live {
namespace {

struct ShadowStream {
  CUstream stream = nullptr;
  CUevent before = nullptr, after = nullptr;
  os::Mutex order;
};

void make(ShadowStream& shadow, const Terms& terms) {
  static const auto make_stream = driver<CUresult (*)(CUstream*, unsigned, int)>("cuStreamCreateWithPriority");
  static const auto make_event = driver<CUresult (*)(CUevent*, unsigned)>("cuEventCreate");
  const Uncaptured now;
  if (terms.tpcs != kAllTpcs)
    shadow.stream = stream_on(terms.tpcs, terms.priority);
  else if (make_stream == nullptr || make_stream(&shadow.stream, CU_STREAM_NON_BLOCKING, terms.priority) != CUDA_SUCCESS)
    shadow.stream = nullptr;
  if (make_event == nullptr || make_event(&shadow.before, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
      make_event(&shadow.after, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    shadow.stream = nullptr;
}

struct ShadowStreams {
  os::Mutex mutex;
  std::map<std::tuple<CUcontext, CUstream, std::int32_t, Tpcs>, std::shared_ptr<ShadowStream>> all;  // a thread may be in one that is forgotten
};
/// Lives as long as the program.
ShadowStreams& shadow_streams() {
  return os::of_process<ShadowStreams>();
}

template <class Which>
std::vector<std::shared_ptr<ShadowStream>> forget(Which which) {
  std::vector<std::shared_ptr<ShadowStream>> gone;
  const std::scoped_lock lock(shadow_streams().mutex);
  std::erase_if(shadow_streams().all, [&](const auto& each) {
    if (!which(each.first)) return false;
    gone.push_back(each.second);
    return true;
  });
  return gone;
}

/// Null: there is none.
std::shared_ptr<ShadowStream> shadow_of(CUstream stream, const Terms& terms) {
  static const auto context_of = driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  if (context_of == nullptr || context_of(&context) != CUDA_SUCCESS) return nullptr;
  const std::scoped_lock lock(shadow_streams().mutex);
  const auto [at, added] = shadow_streams().all.try_emplace({context, stream, terms.priority, terms.tpcs});
  if (added) make(*(at->second = std::make_shared<ShadowStream>()), terms);
  return at->second->stream != nullptr ? at->second : nullptr;
}

/// In a capture: what is next in `to` depends on what is next in `from` depends on, and on nothing else.  A wait for an event adds to
/// what a stream depends on and takes nothing away, so that each kernel of a graph would depend on all before it.
void depend_alike(CUstream from, CUstream to) {
  using Info = CUresult (*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, const CUgraphEdgeData**, std::size_t*);
  using Update = CUresult (*)(CUstream, CUgraphNode*, const CUgraphEdgeData*, std::size_t, unsigned);
  static const auto info = driver<Info>("cuStreamGetCaptureInfo_v3");  // none of a driver before CUDA 12.3
  static const auto update = driver<Update>("cuStreamUpdateCaptureDependencies_v2");
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  if (info == nullptr || update == nullptr || info(from, &status, &id, &graph, &nodes, &edges, &count) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return;
  std::vector<CUgraphNode> after(nodes, nodes + count);
  std::vector<CUgraphEdgeData> how;
  if (edges != nullptr) how.assign(edges, edges + count);
  update(to, after.data(), how.empty() ? nullptr : how.data(), count, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

}  // namespace

void forget_shadow_streams(CUcontext context) {
  forget([&](const auto& key) { return std::get<CUcontext>(key) == context; });
}

void forget_shadow_streams(CUstream stream) {
  static const auto destroy_stream = driver<CUresult (*)(CUstream)>("cuStreamDestroy_v2");
  static const auto destroy_event = driver<CUresult (*)(CUevent)>("cuEventDestroy_v2");
  for (const auto& shadow : forget([&](const auto& key) { return std::get<CUstream>(key) == stream; })) {
    if (shadow->stream != nullptr && destroy_stream != nullptr) destroy_stream(shadow->stream);  // what is in it is done first
    for (CUevent event : {shadow->before, shadow->after})
      if (event != nullptr && destroy_event != nullptr) destroy_event(event);
  }
}

bool has_other_priority(CUstream stream, std::int32_t priority) {
  static const auto priority_of = driver<CUresult (*)(CUstream, int*)>("cuStreamGetPriority");
  int has = 0;
  return priority_of == nullptr || priority_of(stream, &has) != CUDA_SUCCESS || has != priority;
}

CUresult in_shadow_stream(CUstream stream, const Terms& terms, bool& kept, bool captured, const std::function<CUresult(CUstream)>& go) {
  static const auto record = driver<CUresult (*)(CUevent, CUstream)>("cuEventRecord");
  static const auto wait = driver<CUresult (*)(CUstream, CUevent, unsigned)>("cuStreamWaitEvent");
  kept = true;
  const std::shared_ptr<ShadowStream> shadow = record != nullptr && wait != nullptr ? shadow_of(stream, terms) : nullptr;
  if (shadow != nullptr) {
    const std::scoped_lock order(shadow->order);
    if (record(shadow->before, stream) == CUDA_SUCCESS && wait(shadow->stream, shadow->before, 0) == CUDA_SUCCESS) {
      if (captured) depend_alike(stream, shadow->stream);
      const CUresult result = go(shadow->stream);
      if (record(shadow->after, shadow->stream) != CUDA_SUCCESS || wait(stream, shadow->after, 0) != CUDA_SUCCESS)
        return CUDA_ERROR_UNKNOWN;  // what follows in the program's stream would overtake it
      if (captured) depend_alike(shadow->stream, stream);
      if (result == CUDA_SUCCESS) return result;
    }
  }
  kept = false;
  return go(stream);
}

}  // namespace corun::live
