// A forecast that takes its time, as `sim serve` makes it (hw/live/beside.h): what was asked about is heard
// `takes` later, nothing else is asked meanwhile, and only while a real-time request is under way.
//
// Leaves out: that a look takes longer the more it sees; `takes` is the mean of a service's (`sim top
// --json`, looks).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "policies/api/kept_snapshot.h"
#include "policies/service/service_forecast.h"

namespace corun::sim {

class LaterForecast final : public live::ServiceForecast {
 public:
  LaterForecast(std::unique_ptr<Forecast> of, Time takes) : of_(std::move(of)), takes_(takes) {}

  Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) override {
    return of_->look(now, way, bounds);
  }
  bool ask(const Snapshot& now, std::span<const WayOfDeciding> ways, const ForecastBounds& each) override {
    if (due_ != kNever || answer_) return false;
    if (std::ranges::none_of(now.clients, [](const ClientView& c) {
          return c.busy && c.client->service_class == ServiceClass::real_time;
        }))
      return false;
    kept_.keep(now);
    outlooks_.clear();
    for (const WayOfDeciding& way : ways) outlooks_.push_back(of_->look(kept_.snapshot(), way, each));
    due_ = now.now + takes_;
    if (takes_ == Time{}) hear();
    return true;
  }

  /// When what was asked is to be heard; kNever: nothing is.
  Time due() const { return due_; }
  bool ready() const override { return due_ != kNever; }
  void hear() override {
    if (std::exchange(due_, kNever) != kNever) answer_.emplace(Foretold{kept_.snapshot(), std::move(outlooks_)});
  }
  void forget() override {
    due_ = kNever;
    answer_.reset();
  }

 private:
  std::unique_ptr<Forecast> of_;
  Time takes_;
  KeptSnapshot kept_;
  std::vector<Outlook> outlooks_;
  Time due_ = kNever;
};

}  // namespace corun::sim
