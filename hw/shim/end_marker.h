// Where the GPU waits until a launch may go: for a number in memory of the host, in the launch's own stream.  And where it
// says that it has done a launch: a number that it writes there.  A stream beside the program's
// writes it when an event behind the launch has passed, so that the next launch does not wait for the write: behind each of
// a chain of kernels it costs them nothing, in their own stream 2.1 us each (experiments/h200/live/gate.cu).
//
// Leaves out: streams that are captured.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace corun::live {

/// Of one stream of the program.  Not for two threads at once.
class EndMarker {
 public:
  /// Behind what was launched in the stream so far.  False: the driver refuses.
  bool put(CUstream stream, CUdeviceptr at, std::uint32_t number);
  /// In which it was put last.
  CUcontext context() const { return context_; }

 private:
  bool make(CUcontext context);
  std::atomic<CUcontext> context_{nullptr};
  std::uint32_t since_ = 0;
  CUstream beside_ = nullptr;
  CUevent launched_ = nullptr;
};

/// What is launched in the stream from now on goes when `number` or a later one is there.  False: the driver refuses.
bool hold(CUstream stream, CUdeviceptr at, std::uint32_t number);

}  // namespace corun::live
