#include "hw/live/beside.h"

#include <algorithm>

namespace corun::live {

ForecastBeside::ForecastBeside(std::unique_ptr<Forecast> of) : of_(std::move(of)), thread_([this] { run(); }) {}

ForecastBeside::~ForecastBeside() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool ForecastBeside::ask(const Snapshot& now, std::span<const WayOfDeciding> ways, const ForecastBounds& each) {
  if (state_.load(std::memory_order_acquire) != State::idle || answer_) return false;
  if (std::ranges::none_of(now.clients, [](const ClientView& c) { return c.busy && c.client->service_class == ServiceClass::real_time; }))
    return false;
  kept_.keep(now);
  asked_at_ = std::chrono::steady_clock::now();
  ways_ = ways;
  each_ = each;
  {
    const std::lock_guard lock(mutex_);
    state_.store(State::looks, std::memory_order_release);
  }
  changed_.notify_all();
  return true;
}

void ForecastBeside::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || state_.load() == State::looks; });
    if (ends_) return;
    lock.unlock();
    outlooks_.clear();
    try {
      for (const WayOfDeciding& way : ways_) outlooks_.push_back(of_->look(kept_.snapshot(), way, each_));
    } catch (...) {
      failed_ = std::current_exception();
    }
    lock.lock();
    state_.store(State::looked, std::memory_order_release);
    changed_.notify_all();
  }
}

void ForecastBeside::await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_.load() != State::looks; });
}

void ForecastBeside::hear() {
  await();
  if (state_.load() != State::looked) return;
  state_.store(State::idle);
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - asked_at_).count();
  ++looks_.heard;
  looks_.sum_us += us;
  looks_.max_us = std::max(looks_.max_us, us);
  answer_.emplace(Foretold{kept_.snapshot(), std::move(outlooks_)});
}

void ForecastBeside::forget() {
  await();
  state_.store(State::idle);
  failed_ = nullptr;
  answer_.reset();
}

}  // namespace corun::live
