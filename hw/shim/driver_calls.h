// The driver's entry points, as driver_calls.txt lists them: what the library does with each, and which one cuGetProcAddress means.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace corun::live {

enum class Treatment : std::uint8_t { steered, counted, passed };

struct DriverCall {
  std::string_view symbol;  // of the driver's library
  int since;                // version of CUDA, from which on it is meant by its name
  Treatment is;

  /// What cuGetProcAddress is asked for.
  std::string_view name() const;
  /// Its null stream is the calling thread's.
  bool of_thread() const { return symbol.ends_with("_ptsz") || symbol.ends_with("_ptds"); }
};

/// By symbol.
std::span<const DriverCall> driver_calls();
/// The version of the header that the list was held against: what a later one means by a name nobody has looked at.
int listed_version();

/// The one that a program of this version of CUDA means; null: none that is listed.
const DriverCall* meant_by(std::string_view name, int version, bool of_thread);

}  // namespace corun::live
