// Which of the program's streams are captured.  The driver is asked about the very stream of a call, since a stream joins a capture by
// waiting for an event, and a way to begin one may be unknown here.  What has begun is also listed, for whoever must know whether
// anything is captured at all: the thread that moves memory.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "hw/live/system.h"

namespace corun::live {

/// implicit: it is the legacy stream, and a stream that it would wait for is captured.  The driver refuses what is launched there, and
/// whatever else is done there would end the capture.
enum class Capturing : std::uint8_t { no, yes, implicit };

/// To ask changes no capture.
Capturing capturing(CUstream stream);

class Captures {
 public:
  /// The program has begun one in this stream (of this thread, where the stream is CU_STREAM_PER_THREAD).
  void begun(CUstream stream);
  /// The program has tried to end that of this stream: whether it is over the driver is asked.
  void tried_to_end(CUstream stream);
  /// What is not any more is captured no more.
  void destroyed(CUstream stream);
  void context_ended(CUcontext context);
  bool any() const { return count_.load() != 0; }

 private:
  struct Begun {
    CUstream stream;
    std::uint64_t thread;  // 0: any
    CUcontext context;
  };
  template <class Which>
  void forget(Which which);
  os::Mutex mutex_;
  std::vector<Begun> all_;
  std::atomic<std::size_t> count_{0};
};
/// Lives as long as the program.
Captures& captures();

/// Of the calling thread, from 1.
std::uint64_t number_of_thread();

}  // namespace corun::live
