// A launch on its way to the driver: asked for, granted, on its terms, and marked.  Whichever of the driver's calls makes it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "hw/live/system.h"
#include "hw/shim/blocks.h"
#include "hw/shim/captures.h"
#include "hw/shim/client.h"
#include "hw/shim/driver.h"
#include "hw/shim/graphs.h"
#include "hw/shim/hooks.h"
#include "hw/shim/shadow_streams.h"
#include "hw/shim/stoppable.h"

namespace corun::live {

inline StreamKey key_of(CUstream stream, Default kind) {
  const bool each = stream == CU_STREAM_PER_THREAD || (stream == nullptr && kind == Default::of_thread);
  if (!each) return {stream == CU_STREAM_LEGACY ? nullptr : stream, 0};
  return {CU_STREAM_PER_THREAD, number_of_thread()};
}

/// The stream as a function without a variant takes it.
inline CUstream plain(CUstream stream, Default kind) {
  return stream == nullptr && kind == Default::of_thread ? CU_STREAM_PER_THREAD : stream;
}

inline bool on_device_of(const Client& client) {
  if (client.only_gpu()) return true;
  static const auto device_of = driver<CUresult (*)(CUdevice*)>("cuCtxGetDevice");
  CUdevice device = 0;
  return device_of == nullptr || device_of(&device) != CUDA_SUCCESS || device == client.device();
}

/// Launches on these terms: `go(stream, priority)` launches the work in that stream.
template <class Go>
CUresult launch_on(const Terms& terms, const Work& work, CUstream stream, Default kind, Client& client, Go& go, bool captured = false) {
  // A graph's kernels have the priority of the stream it is launched in, unless it keeps its nodes' (PyTorch's): of where they
  // were captured, as are their TPCs.
  const CUstream own = plain(stream, kind);
  if (work.graph ? terms.priority == 0 || !has_other_priority(own, terms.priority) : terms.tpcs == kAllTpcs)
    return go(stream, terms.priority);
  bool kept = true;
  const CUresult result = in_shadow_stream(own, {terms.priority, work.graph ? kAllTpcs : terms.tpcs}, kept, captured,
                                  [&](CUstream shadow) { return go(shadow, shadow == own ? terms.priority : 0); });
  if (!kept && !work.graph && result == CUDA_SUCCESS) client.count_unsteered();
  return result;
}

/// A driver that launches by a function of its own that is answered for here is asked about once.
class Within {
 public:
  Within() { within() = true; }
  ~Within() { within() = false; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
  static bool already() { return within(); }

 private:
  struct Flag {
    bool set = false;
  };
  static bool& within() { return os::of_thread<Flag>().set; }
};

/// What comes back is what the driver said.  `arguments`: of a kernel that may be made one that can be stopped.
template <class Go>
CUresult steer(const Work& work, CUstream stream, Default kind, Go go, const Arguments* arguments = nullptr) {
  Client* client = Client::get();
  if (client == nullptr || Within::already()) {
    const Touch touch;
    return go(stream, 0);
  }
  const Within from_here;
  if (!on_device_of(*client)) return client->count_unsteered(), go(stream, 0);
  std::optional<Touch> touch;
  if (const Capturing is = capturing(plain(stream, kind)); is != Capturing::no) {
    if (is == Capturing::implicit || client->asks() || client->standing().tpcs == kAllTpcs) return client->count_unsteered(), go(stream, 0);
    return launch_on({0, client->standing().tpcs}, work, stream, kind, *client, go, true);
  }
  client->count(work);
  const auto elsewhere = [&](const Terms& terms) {
    return work.graph && !graphs().runs_on(static_cast<CUgraphExec>(const_cast<void*>(work.key)), terms.tpcs);
  };
  if (!client->asks()) {
    const Terms& terms = client->standing();
    if (elsewhere(terms)) client->count_unsteered();
    return launch_on(terms, work, stream, kind, *client, go);
  }
  Client::Stream* of = client->stream(key_of(stream, kind));
  const CUdeviceptr ended = of != nullptr ? client->ended(*of) : 0;
  if (ended == 0) return client->count_unsteered(), touch.emplace(), go(stream, 0);
  std::uint32_t attempts = arguments != nullptr && client->persistent() ? client->attempts(work) : 0;
  // Terms of the program's own are of plain launches.
  const auto stoppable = attempts > 1 && client->standing() == Terms{} ? stoppable_kernels().of(work, *client) : std::nullopt;
  if (!stoppable) attempts = 0;
  const std::scoped_lock order(client->order(*of));
  if (!client->joined()) return touch.emplace(), go(stream, 0);
  if (!client->ask(*of, work, attempts) && !hold(plain(stream, kind), client->granted(*of), of->launched)) client->wait_for_grant(*of);
  touch.emplace();  // where it was granted all is there
  const Terms terms = client->terms(*of);
  if (elsewhere(terms)) client->count_unsteered();
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (stoppable && terms == Terms{} && client->joined()) {
    result = stoppable_kernels().launch(*stoppable, work, plain(stream, kind), *arguments, attempts, *of, *client);
    if (result == CUDA_SUCCESS) client->count_stoppable();
  }
  if (result == CUDA_ERROR_NOT_SUPPORTED) result = launch_on(terms, work, stream, kind, *client, go);
  if (result == CUDA_SUCCESS && of->end_marker.put(plain(stream, kind), ended, of->launched))
    of->marked.store(of->launched);
  else if (client->joined())
    client->failed(*of);
  return result;
}

inline void host_waits() {
  if (Client* client = Client::get(); client != nullptr && client->asks()) client->waits();
}

}  // namespace corun::live
