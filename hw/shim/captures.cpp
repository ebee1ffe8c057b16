#include "hw/shim/captures.h"

#include <algorithm>

#include "hw/shim/contexts.h"
#include "hw/shim/driver.h"

namespace corun::live {
namespace {

std::uint64_t thread_of(CUstream stream) { return stream == CU_STREAM_PER_THREAD ? number_of_thread() : 0; }

}  // namespace

std::uint64_t number_of_thread() {
  struct Threads {
    std::atomic<std::uint64_t> all{0};
  };
  struct Own {
    std::uint64_t number = 0;
  };
  std::uint64_t& mine = os::of_thread<Own>().number;
  if (mine == 0) mine = ++os::of_process<Threads>().all;
  return mine;
}

Captures& captures() {
  return os::of_process<Captures>();
}

Capturing capturing(CUstream stream) {
  static const auto status_of = driver<CUresult (*)(CUstream, CUstreamCaptureStatus*)>("cuStreamIsCapturing");
  if (status_of == nullptr) return Capturing::no;  // a driver before CUDA 10
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  switch (status_of(stream, &status)) {
    case CUDA_SUCCESS: return status == CU_STREAM_CAPTURE_STATUS_NONE ? Capturing::no : Capturing::yes;
    default: return Capturing::implicit;  // or the call is the driver's to refuse
  }
}

void Captures::begun(CUstream stream) {
  const Begun is{stream, thread_of(stream), current_context()};
  forget([&](const Begun& each) { return each.stream == is.stream && each.thread == is.thread; });
  const std::scoped_lock lock(mutex_);
  all_.push_back(is);
  count_.store(all_.size());
}

void Captures::tried_to_end(CUstream stream) {
  if (capturing(stream) != Capturing::no) return;  // it was another thread's to end, or began in another stream
  forget([&](const Begun& each) { return each.stream == stream && each.thread == thread_of(stream); });
}

void Captures::destroyed(CUstream stream) {
  if (any()) forget([&](const Begun& each) { return each.stream == stream; });
}

void Captures::context_ended(CUcontext context) {
  if (any()) forget([&](const Begun& each) { return each.context == context; });
}

template <class Which>
void Captures::forget(Which which) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(all_, which);
  count_.store(all_.size());
}

}  // namespace corun::live
