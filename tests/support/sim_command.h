// The `sim` command as a user calls it, in a shell.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace corun {

struct Ran {
  int code;
  std::string out;  // with what it wrote to standard error
};

inline Ran shell(const std::string& command) {
  FILE* pipe = popen(("( " + command + "\n) 2>&1 </dev/null").c_str(), "r");
  std::string out;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

inline Ran sim(const std::string& arguments) { return shell(std::getenv("CORUN_SIM") + (" " + arguments)); }
/// Without the audit, under which what contends takes up to fifty times as long.
inline Ran sim_unaudited(const std::string& arguments) {
  return shell(std::string("env -u CORUN_AUDIT ") + std::getenv("CORUN_SIM") + " " + arguments);
}

}  // namespace corun
