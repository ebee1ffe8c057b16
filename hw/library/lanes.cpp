#include "hw/library/lanes.h"

#include <map>
#include <mutex>
#include <tuple>

#include "hw/library/driver.h"

namespace corun::live {
namespace {

struct Lane {
  CUstream stream = nullptr;
  CUevent before = nullptr, after = nullptr;
  std::mutex order;
};

/// Null: there is none.
Lane* lane_of(CUstream stream, std::int32_t priority) {
  static std::mutex tables;
  static std::map<std::tuple<CUcontext, CUstream, std::int32_t>, Lane> lanes;
  static const auto context_of = driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  static const auto make_stream = driver<CUresult (*)(CUstream*, unsigned, int)>("cuStreamCreateWithPriority");
  static const auto make_event = driver<CUresult (*)(CUevent*, unsigned)>("cuEventCreate");
  CUcontext context = nullptr;
  if (context_of == nullptr || make_stream == nullptr || make_event == nullptr || context_of(&context) != CUDA_SUCCESS)
    return nullptr;
  const std::scoped_lock lock(tables);
  const auto [at, added] = lanes.try_emplace({context, stream, priority});
  Lane& lane = at->second;
  if (added && (make_stream(&lane.stream, CU_STREAM_NON_BLOCKING, priority) != CUDA_SUCCESS ||
                make_event(&lane.before, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
                make_event(&lane.after, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS))
    lane.stream = nullptr;
  return lane.stream != nullptr ? &lane : nullptr;
}

}  // namespace

CUresult in_lane(CUstream stream, std::int32_t priority, const std::function<CUresult(CUstream)>& go) {
  static const auto priority_of = driver<CUresult (*)(CUstream, int*)>("cuStreamGetPriority");
  static const auto record = driver<CUresult (*)(CUevent, CUstream)>("cuEventRecord");
  static const auto wait = driver<CUresult (*)(CUstream, CUevent, unsigned)>("cuStreamWaitEvent");
  int has = 0;
  if (priority == 0 || record == nullptr || wait == nullptr ||
      (priority_of != nullptr && priority_of(stream, &has) == CUDA_SUCCESS && has == priority))
    return go(stream);
  Lane* lane = lane_of(stream, priority);
  if (lane == nullptr) return go(stream);
  const std::scoped_lock order(lane->order);
  if (record(lane->before, stream) != CUDA_SUCCESS || wait(lane->stream, lane->before, 0) != CUDA_SUCCESS) return go(stream);
  const CUresult result = go(lane->stream);
  if (record(lane->after, lane->stream) != CUDA_SUCCESS || wait(stream, lane->after, 0) != CUDA_SUCCESS)
    return CUDA_ERROR_UNKNOWN;  // what follows in the program's stream would overtake it
  return result;
}

}  // namespace corun::live
