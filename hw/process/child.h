// Processes that a run starts, and that end when it does, however it ends, unless they are to outlive it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace corun::hw {

class Child {
 public:
  /// `environment`: NAME=VALUE beside those of this process.  `descriptor`, where not -1, is open there as
  /// kDescriptor.  `in_group` of its own: whatever it starts can be ended with it, and Ctrl-C is not for it.
  /// `outlives`: it goes on where this process is killed.  Its output, but for errors, goes nowhere.  A program that cannot be
  /// started ends with code 127.
  static Child start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                     int descriptor, bool in_group, bool outlives = false);
  explicit Child(pid_t pid, bool in_group = false);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  /// Kills it.
  ~Child();

  static constexpr int kDescriptor = 200;

  pid_t pid() const { return pid_; }
  /// Readable when it has ended; -1: it is not to be had.
  int descriptor() const { return descriptor_; }
  struct End {
    int signal = 0, code = 0;
  };
  /// How it ended, if it has.
  std::optional<End> ended();
  /// Waits so long for its end.
  std::optional<End> wait(double seconds);
  void kill(int signal);
  /// It goes on when this object ends.
  void let_go() { pid_ = -1; }

 private:
  pid_t pid_;
  int descriptor_;
  bool in_group_;
  std::optional<End> end_;
};

}  // namespace corun::hw
