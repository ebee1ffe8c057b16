// Durations on the command line.
#pragma once

#include <string>

#include "traces/model/time.h"

namespace corun {

/// "200ms", "1.5s", "300us", "50ns", or "0".  Throws InputError naming `option`.
Time parse_duration(const std::string& text, const char* option);

}  // namespace corun
