// Calls of the host that issue work or wait for it, as CUPTI's callbacks tell of them.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>
#include <functional>

namespace corun::capture {

struct Call {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId function;
  std::uint32_t thread;
  std::uint64_t correlation;  // number_of() CUPTI's
  std::uint64_t start, end;
  /// Of one that records an event on a stream, or lets a stream wait for one; else the event is 0.
  std::uint64_t event;
  std::uint32_t context, stream;
  bool waits;  // the stream does
};

/// From here on calls are kept; again where CUPTI has left the process and come back.
CUptiResult hear_calls();
void hear_no_calls();

/// Those that have been kept, in the order of each thread; they are not kept any longer.  From one thread at a time.
void take_calls(const std::function<void(const Call&)>& taker);

}  // namespace corun::capture
