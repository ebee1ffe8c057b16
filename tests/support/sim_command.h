// The `sim` command as a user calls it, in a shell.
#pragma once

#include <string>

#include "tests/support/shell.h"
#include "tests/support/sim_file.h"

namespace corun {

inline Ran sim(const std::string& arguments) { return shell(sim_file() + " " + arguments); }
/// Without the audit, under which what contends takes up to fifty times as long.
inline Ran sim_unaudited(const std::string& arguments) {
  return shell("env -u CORUN_AUDIT " + sim_file() + " " + arguments);
}

}  // namespace corun
