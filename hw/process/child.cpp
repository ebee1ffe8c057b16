#include "hw/process/child.h"

#include <fcntl.h>
#include <sys/poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace corun::hw {

Child Child::start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                   int descriptor, bool in_group, bool outlives) {
  // All that needs memory, before the fork: another thread may hold the allocator's lock.
  std::vector<char*> arguments, variables;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string known(*e);
    bool replaced = false;
    for (const std::string& v : environment)
      replaced |= known.compare(0, v.find('=') + 1, v, 0, v.find('=') + 1) == 0;
    if (!replaced) variables.push_back(*e);
  }
  for (const std::string& v : environment) variables.push_back(const_cast<char*>(v.c_str()));
  variables.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no further process can be started");
  if (pid == 0) {
    if (!outlives) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!outlives && getppid() != parent) _exit(127);
    if (in_group) setpgid(0, 0);
    if (descriptor >= 0 && dup2(descriptor, kDescriptor) < 0) _exit(127);
    const int nowhere = open("/dev/null", O_RDWR);
    if (nowhere >= 0) dup2(nowhere, STDIN_FILENO), dup2(nowhere, STDOUT_FILENO);
    environ = variables.data();
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  if (in_group) setpgid(pid, pid);  // whoever is first
  return Child(pid, in_group);
}

Child::Child(pid_t pid, bool in_group) : pid_(pid), descriptor_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))), in_group_(in_group) {}
Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), descriptor_(std::exchange(other.descriptor_, -1)), in_group_(other.in_group_), end_(other.end_) {}

Child::~Child() {
  if (pid_ >= 0) {
    kill(SIGKILL);
    wait(10);
  }
  if (descriptor_ >= 0) close(descriptor_);
}

std::optional<Child::End> Child::ended() {
  if (end_ || pid_ < 0) return end_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  end_ = WIFSIGNALED(status) ? End{WTERMSIG(status), 0} : End{0, WEXITSTATUS(status)};
  return end_;
}

std::optional<Child::End> Child::wait(double seconds) {
  constexpr int kLookMs = 100;  // where there is no descriptor
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (pollfd look{descriptor_, POLLIN, 0}; !ended();) {
    const std::chrono::duration<double, std::milli> left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) break;
    poll(&look, 1, std::min(kLookMs, 1 + static_cast<int>(left.count())));
  }
  return end_;
}

void Child::kill(int signal) {
  if (pid_ < 0) return;
  if (!ended()) ::kill(pid_, signal);
  if (in_group_) ::kill(-pid_, signal);  // what it has started may outlive it
}

}  // namespace corun::hw
