// Kernels and programs of one trace beside those of another.
#pragma once

#include <cstdint>
#include <string>

#include "traces/model/trace.h"

namespace corun {

/// Where what was appended begins.
struct Offsets {
  std::uint32_t kernels = 0, programs = 0;
};

/// Kernels and programs, not clients; names that are there already get `prefix` and a slash before them.
Offsets append(Trace& into, const Trace& from, const std::string& prefix);

}  // namespace corun
