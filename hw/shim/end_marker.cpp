#include "hw/shim/end_marker.h"

#include "hw/shim/contexts.h"
#include "hw/shim/driver.h"
#include "hw/shim/uncaptured.h"

namespace corun::live {

bool EndMarker::make(CUcontext context) {
  static const auto make_stream = driver<CUresult (*)(CUstream*, unsigned)>("cuStreamCreate");
  static const auto make_event = driver<CUresult (*)(CUevent*, unsigned)>("cuEventCreate");
  const Uncaptured now;
  // What a context had is gone with it.
  if (make_stream == nullptr || make_stream(&beside_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) beside_ = nullptr;
  if (make_event == nullptr || make_event(&launched_, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) beside_ = nullptr;
  context_ = context;
  since_ = contexts_ended();
  return beside_ != nullptr;
}

bool EndMarker::put(CUstream stream, CUdeviceptr at, std::uint32_t number) {
  static const auto context_of = driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  static const auto record = driver<CUresult (*)(CUevent, CUstream)>("cuEventRecord");
  static const auto wait = driver<CUresult (*)(CUstream, CUevent, unsigned)>("cuStreamWaitEvent");
  static const auto write = driver<CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned)>("cuStreamWriteValue32_v2");
  if (context_of == nullptr || record == nullptr || wait == nullptr || write == nullptr) return false;
  CUcontext context = nullptr;
  if (context_of(&context) != CUDA_SUCCESS) return false;
  const auto behind = [&] {
    return record(launched_, stream) == CUDA_SUCCESS && wait(beside_, launched_, 0) == CUDA_SUCCESS &&
           write(beside_, at, number, 0) == CUDA_SUCCESS;
  };
  if (beside_ != nullptr && context == context_ && since_ == contexts_ended() && behind()) return true;
  return make(context) && behind();  // the first, or a context has ended, maybe one of this address
}

bool hold(CUstream stream, CUdeviceptr at, std::uint32_t number) {
  static const auto wait = driver<CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned)>("cuStreamWaitValue32_v2");
  return wait != nullptr && wait(stream, at, number, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS;
}

}  // namespace corun::live
