#include "sim/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace corun::sim {

using namespace std::chrono_literals;

ProgressBar::ProgressBar()
    : terminal_(isatty(STDERR_FILENO) != 0), began_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void ProgressBar::show(const char* stage, double fraction) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - began_ < 2s || now - last_ < 100ms) return;
  last_ = now;
  drawn_ = true;
  constexpr std::size_t kWidth = 30;
  const auto full = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * kWidth);
  fmt::print(stderr, "\r\033[K[{}{}] {:3.0f} %  {}", std::string(full, '#'), std::string(kWidth - full, '.'),
             std::clamp(fraction, 0.0, 1.0) * 100, stage);
  std::fflush(stderr);
}

}  // namespace corun::sim
