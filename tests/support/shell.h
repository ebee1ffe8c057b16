// Commands as a user calls them, and processes that go on beside a test.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace corun {

struct Ran {
  int code = -1;
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

/// What it says goes into this file.  Not by fork: what goes wrong in a child would run the rest of the test twice.
inline pid_t started(std::vector<std::string> words, const std::string& output) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, all[0], &files, nullptr, all.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::runtime_error(words[0] + ": " + std::strerror(error));
  return pid;
}
/// Waits for its end.
inline void end_process(pid_t pid, int signal) {
  if (pid <= 0) throw std::runtime_error("there is no such process");
  kill(pid, signal);
  waitpid(pid, nullptr, 0);
}

}  // namespace corun
