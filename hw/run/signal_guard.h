// Ctrl-C ends what is under way in good order.
#pragma once

#include <atomic>

namespace corun::hw {

/// While one lives, SIGINT and SIGTERM only set a flag; the old handlers come back afterwards.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  static std::atomic<bool>& flag();

 private:
  void (*old_int_)(int);
  void (*old_term_)(int);
};

}  // namespace corun::hw
