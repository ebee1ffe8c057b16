// The driver interface over NVIDIA's driver library, which is opened at run time: a program that has this
// runs on machines without a GPU too, until it asks for one.
#pragma once

#include <memory>

#include "hw/driver/driver.h"

namespace corun::hw {

/// Opens device `index`.  Throws InputError where there is no driver or no such device, DriverError if the
/// driver fails.  One per process: it sets how many hardware channels the process has.
std::unique_ptr<Driver> open_cuda(int index = 0);

/// Whether this build has it.
bool built_with_cuda();

}  // namespace corun::hw
