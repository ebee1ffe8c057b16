// Device code that the build compiles into the library as text.
#pragma once

#include <string_view>

namespace corun::hw {

/// hw/transform/persistent.cuh
std::string_view persistent_header();
/// hw/kernels/NAME.cu; empty if there is none.
std::string_view library_source(std::string_view name);

}  // namespace corun::hw
