// CUPTI, opened at run time: its functions that a capture uses.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>

namespace corun::capture {

/// The functions of CUPTI that are used, from the library that the program has, else from the toolkit's.
struct Cupti {
  decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::cuptiActivityEnable) enable = nullptr;
  decltype(&::cuptiActivityDisable) disable = nullptr;
  decltype(&::cuptiSubscribe) subscribe = nullptr;
  decltype(&::cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&::cuptiEnableCallback) enable_callback = nullptr;
  decltype(&::cuptiActivityGetNextRecord) next = nullptr;
  decltype(&::cuptiActivityFlushAll) flush = nullptr;
  decltype(&::cuptiActivityFlushPeriod) flush_period = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&::cuptiGetCallbackName) call_name = nullptr;
  decltype(&::cuptiGetStreamIdEx) stream_number = nullptr;
  decltype(&::cuptiGetTimestamp) now = nullptr;
  decltype(&::cuptiGetResultString) in_words = nullptr;
  decltype(&::cuptiFinalize) finalize = nullptr;  // null: CUPTI cannot leave the process

  bool load();
};

Cupti& cupti();

/// CUPTI's clock, in ns; while CUPTI is not in the process the host's, which CUPTI's is too.
std::uint64_t now();

/// CUPTI is in the process from here, or no longer.
void set_attached(bool attached);

/// CUPTI's clock and the host's agree within 0.1 ms.
bool one_clock();

}  // namespace corun::capture
