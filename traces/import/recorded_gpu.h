// Which described GPU a recording was made on, by the name and number of SMs that the profiler wrote down.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "traces/import/import_notes.h"
#include "traces/import/kineto_records.h"
#include "traces/model/time.h"

namespace corun {

struct RecordedGpu {
  std::string name;  // of `sim gpus`, or a path; empty: not known
  std::string nearest;  // where it is not known: of those described; empty: of the card too little is recorded
  // Where it is not known: between what an H200 and a V100 take.
  Time launch_call = std::chrono::microseconds{3}, launch_latency = std::chrono::microseconds{5};
  Time completion_notice = std::chrono::nanoseconds{2300};  // an H200's
  std::uint32_t sms = 0;  // that the program had, if fewer than the GPU has
  Time mps_kernel{};      // what MPS added to each kernel
};

/// `wanted`: what the user says it is; empty: to be found by the device's properties.  `sms`: likewise; 0: to
/// be found. Throws InputError where the program cannot have had that many SMs.
RecordedGpu recorded_gpu(const kineto::Records& records, std::int64_t device, const std::string& wanted,
                         std::uint32_t sms, const std::string& file, Notes& notes);

}  // namespace corun
