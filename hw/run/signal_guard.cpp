#include "hw/run/signal_guard.h"

#include <csignal>

namespace corun::hw {
namespace {

std::atomic<bool> interrupted{false};
extern "C" void on_signal(int) { interrupted.store(true); }

}  // namespace

SignalGuard::SignalGuard()
    : old_int_(std::signal(SIGINT, on_signal)), old_term_(std::signal(SIGTERM, on_signal)) {
  interrupted = false;
}
SignalGuard::~SignalGuard() {
  std::signal(SIGINT, old_int_);
  std::signal(SIGTERM, old_term_);
}
std::atomic<bool>& SignalGuard::flag() { return interrupted; }

}  // namespace corun::hw
