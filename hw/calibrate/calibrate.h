// Measures the constants of a GPU description on the GPU of this machine, in jobs, without counters and without
// changing any of the card's settings.
//
// Leaves out what a program cannot see or would take long for; docs/howto/gpu.md lists it with the reasons.  The
// description inherits it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hw/calibrate/constants.h"
#include "traces/model/gpu.h"

namespace corun::hw {

/// The card is in use by others, so that what is measured would be theirs too.
class CardInUse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// SMs that a client of MPS sees with each of these active thread percentages.  Throws where there is no MPS.
using SmsUnderMps = std::function<std::vector<std::uint32_t>(const std::vector<double>& percentages)>;

struct CalibrationOptions {
  std::function<void(const char* job, double done)> progress = [](const char*, double) {};
  std::function<std::unique_ptr<Driver>()> further_context;
  SmsUnderMps sms_under_mps;  // none: not asked
  const std::atomic<bool>* interrupted = nullptr;
};

/// `like`: the described GPU for what follows from shares.  Throws CardInUse, Interrupted, DriverError;
/// `found` then holds what was measured until then.
void calibrate(Driver& driver, Compiler& compiler, const Gpu& like, const CalibrationOptions& options,
               Constants& found);

}  // namespace corun::hw
