// The `sim` command as a user calls it, in a shell.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/support/shell.h"

namespace corun {

inline Ran sim(const std::string& arguments) { return shell(std::getenv("CORUN_SIM") + (" " + arguments)); }
/// Without the audit, under which what contends takes up to fifty times as long.
inline Ran sim_unaudited(const std::string& arguments) {
  return shell(std::string("env -u CORUN_AUDIT ") + std::getenv("CORUN_SIM") + " " + arguments);
}

}  // namespace corun
