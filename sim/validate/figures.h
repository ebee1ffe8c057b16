// Figures of the tables that `sim validate` prints: "-" where there is none.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace corun::sim {

inline std::string percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f} %", 100 * fraction) : "-";
}
inline std::string figure(double value, int digits = 3) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

}  // namespace corun::sim
