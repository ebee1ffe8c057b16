// How many SMs MPS leaves a process, by its active thread percentage: a process after the other is asked what it sees.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hw/process/channel.h"
#include "hw/process/child.h"

namespace corun::hw {

using StartWorker = std::function<Child(const Channel& channel, const std::vector<std::string>& environment)>;

/// SMs that the process sees, which is started and ends.  Throws DriverError where it does not tell.
std::uint32_t sms_of_process(const StartWorker& start, const std::vector<std::string>& environment);

/// Under an MPS server of its own.  Throws InputError where there is none.
std::vector<std::uint32_t> sms_under_mps(const std::vector<double>& percentages);

}  // namespace corun::hw
