#include "hw/run/signal_guard.h"

#include <csignal>

namespace corun::hw {
namespace {

std::atomic<bool> interrupted{false};
extern "C" void on_signal(int) { interrupted.store(true); }

}  // namespace

SignalGuard::SignalGuard() {
  interrupted = false;  // first: what comes once the handlers are there must not be forgotten
  old_int_ = std::signal(SIGINT, on_signal);
  old_term_ = std::signal(SIGTERM, on_signal);
}
SignalGuard::~SignalGuard() {
  std::signal(SIGINT, old_int_);
  std::signal(SIGTERM, old_term_);
}
std::atomic<bool>& SignalGuard::flag() { return interrupted; }

}  // namespace corun::hw
