// A forecast beside the decisions: a thread of its own looks ahead from a copy of the Snapshot while the service goes on
// granting, as a look takes longer than most requests (experiments/h200/live).  Only while a real-time request is under
// way: between, the ways of `lookahead` decide alike, and what was chosen last stays so until the next.
//
// Leaves out: to stop a look whose time has passed; it ends with its events.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "policies/api/kept_snapshot.h"
#include "policies/service/service_forecast.h"

namespace corun::live {

class ForecastBeside final : public ServiceForecast {
 public:
  explicit ForecastBeside(std::unique_ptr<Forecast> of);
  ~ForecastBeside() override;
  ForecastBeside(const ForecastBeside&) = delete;
  ForecastBeside& operator=(const ForecastBeside&) = delete;

  Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) override {
    return of_->look(now, way, bounds);
  }
  /// False while it looks or has an answer, and where no real-time request is under way.
  bool ask(const Snapshot& now, std::span<const WayOfDeciding> ways, const ForecastBounds& each) override;

  bool ready() const override { return state_.load(std::memory_order_acquire) == State::looked; }
  /// Waits until it has looked.
  void hear() override;
  /// Answers so far, and from asking to hearing of them, us.
  struct Looks {
    std::uint64_t heard = 0;
    double sum_us = 0, max_us = 0;
  };
  const Looks& looks() const { return looks_; }
  /// Waits until it looks no longer.
  void forget() override;

 private:
  enum class State : std::uint8_t { idle, looks, looked };

  void run();
  void await();

  std::unique_ptr<Forecast> of_;
  KeptSnapshot kept_;
  std::span<const WayOfDeciding> ways_;
  ForecastBounds each_;
  std::vector<Outlook> outlooks_;
  std::exception_ptr failed_;
  std::chrono::steady_clock::time_point asked_at_{};
  Looks looks_;
  std::atomic<State> state_{State::idle};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace corun::live
