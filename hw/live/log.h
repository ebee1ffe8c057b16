// What the service says of joins, leaves, refusals and faults: a line each on standard error, with journald's level before it where
// that is no terminal.  A line never holds the service up and never ends it: where nobody reads, or the disk is full, it is lost.
// What is lost, or too much at a time, is counted, and said with the next line.
#pragma once

#include <cstdint>
#include <string>

#include "hw/live/limits.h"
#include "policies/api/policy.h"

namespace corun::live {

enum class Level : int { error = 3, warning = 4, notice = 5, info = 6 };

class Log {
 public:
  explicit Log(int fd);
  void say(Level level, const std::string& text, Time now) noexcept;

 private:
  bool write(Level level, const std::string& text) const noexcept;

  int fd_;
  bool levels_;
  Time since_{};
  std::uint32_t said_ = 0;
  std::uint64_t lost_ = 0;
};

/// To who started the service, where that is systemd (NOTIFY_SOCKET): "READY=1", "STOPPING=1".
void notify(const std::string& state) noexcept;

}  // namespace corun::live
