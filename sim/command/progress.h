// A progress bar on standard error: only on a terminal, and only once something has taken two seconds.
#pragma once

#include <chrono>

namespace corun::sim {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  /// What is left, from how long the shown fraction took.
  void show(const char* stage, double fraction);
  void clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point began_, last_;
};

}  // namespace corun::sim
