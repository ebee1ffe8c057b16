// `sim man`: the manual page, of what the command tells of itself.
#pragma once

#include <string>

#include "sim/command/description.h"

namespace corun::sim {

/// In roff, with the macros of man(7).
std::string manual(const CommandDescription& top);

}  // namespace corun::sim
