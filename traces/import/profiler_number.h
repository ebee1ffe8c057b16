// Numbers and units as profilers print them for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "traces/model/kernel.h"

namespace corun {

/// "1,234.5", "1'234.5": English; "1.234,5", "1 234,5": where the decimal mark is a comma.
enum class Marks : std::uint8_t { english, decimal_comma };

/// Which of the two the number shows beyond doubt, if any: "1,234" may be either.
std::optional<Marks> marks_of(std::string_view text);

/// Absent for what is no finite number, as "n/a".
std::optional<double> profiler_number(std::string_view text, Marks marks);

enum class Quantity : std::uint8_t { count, bytes, nanoseconds, percent };

/// What a value in this unit ("Mbyte", "usecond", "Kbyte/block", "%") is to be multiplied by; absent: no unit
/// of that quantity.
std::optional<double> unit_factor(std::string_view unit, Quantity quantity);

/// "(8, 7, 1)": three counts of at least 1.
std::optional<Dim3> dimensions(std::string_view text);

}  // namespace corun
