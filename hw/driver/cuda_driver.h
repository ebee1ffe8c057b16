// The driver interface over NVIDIA's driver library, which is opened at run time: a program that has this
// runs on machines without a GPU too, until it asks for one.
#pragma once

#include <memory>

#include "hw/driver/driver.h"

namespace corun::hw {

enum class OpenAs : std::uint8_t {
  usual,            // with as many hardware channels as can be; one per process
  with_defaults,    // with as many as a program gets that asks for nothing
  further_context,  // which takes turns with the first; for the thread that opens it
};

/// Opens device `index`.  Throws InputError where there is no driver or no such device, DriverError if the
/// driver fails.
std::unique_ptr<Driver> open_cuda(int index = 0, OpenAs as = OpenAs::usual);

/// Whether this build has it.
bool built_with_cuda();

}  // namespace corun::hw
