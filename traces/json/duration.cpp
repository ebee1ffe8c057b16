#include "traces/json/duration.h"

#include <fmt/format.h>

#include <charconv>

#include "traces/model/error.h"

namespace corun {

Time parse_duration(const std::string& text, const char* option) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double ns = unit == "s"                   ? 1e9
                    : unit == "ms"                ? 1e6
                    : unit == "us"                ? 1e3
                    : unit == "ns" || text == "0" ? 1
                                                  : 0;
  if (error != std::errc{} || ns == 0 || !(value >= 0 && value * ns <= 1e16))
    throw InputError("", option, fmt::format("'{}' is not a duration", text),
                     "write a number and s, ms, us or ns, as in 200ms");
  return from_ns(value * ns);
}

}  // namespace corun
