// Where the `sim` command of this build is.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace corun {

/// The command, which ctest names.
inline std::string sim_file() {
  if (const char* file = std::getenv("CORUN_SIM")) return file;
  throw std::runtime_error("CORUN_SIM names no command: run tests by ctest, or set it to build/bin/sim");
}

}  // namespace corun
