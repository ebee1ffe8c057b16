#pragma once

#include <cuda.h>

#include "hw/shim/driver.h"

namespace corun::live {

/// Of this thread: what it makes now is no part of what another captures.
class Uncaptured {
 public:
  Uncaptured() { exchange(); }
  ~Uncaptured() { exchange(); }
  Uncaptured(const Uncaptured&) = delete;
  Uncaptured& operator=(const Uncaptured&) = delete;

 private:
  void exchange() {
    static const auto call = driver<CUresult (*)(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode");
    if (call != nullptr) call(&mode_);
  }
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace corun::live
