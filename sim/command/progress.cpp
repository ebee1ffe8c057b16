#include "sim/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace corun::sim {

using namespace std::chrono_literals;

namespace {

std::string time_left(double seconds) {
  const auto s = static_cast<long>(seconds + 0.5);
  if (s < 60) return fmt::format(", {} s left", s);
  if (s < 3600) return fmt::format(", {} min {:02} s left", s / 60, s % 60);
  return fmt::format(", {} h {:02} min left", s / 3600, s / 60 % 60);
}

}  // namespace

ProgressBar::ProgressBar()
    : terminal_(isatty(STDERR_FILENO) != 0), began_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

void ProgressBar::show(const char* stage, double fraction) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - began_ < 2s || now - last_ < 100ms) return;
  last_ = now;
  drawn_ = true;
  constexpr std::size_t kWidth = 30;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(fraction * kWidth);
  const double took = std::chrono::duration<double>(now - began_).count();
  const std::string left = fraction > 0.01 ? time_left(took / fraction * (1 - fraction)) : "";
  fmt::print(stderr, "\r\033[K[{}{}] {:3.0f} %{}  {}", std::string(full, '#'), std::string(kWidth - full, '.'),
             fraction * 100, left, stage);
  std::fflush(stderr);
}

}  // namespace corun::sim
