// A policy that looks ahead, metered: how many forecasts it asks for, and what its decisions take.  The clock is read
// here, outside the policy, and changes nothing that is decided.
#pragma once

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>
#include <vector>

#include "policies/api/policy.h"
#include "traces/timeline/metrics.h"

namespace corun::sim {

class MeteredPolicy final : public Policy, private Forecast {
 public:
  explicit MeteredPolicy(Policy& policy) : policy_(policy) {}

  std::string_view name() const override { return policy_.name(); }
  Requirements requirements() const override { return policy_.requirements(); }
  void look_ahead(Forecast& forecast) override {
    forecast_ = &forecast;
    policy_.look_ahead(*this);
  }
  void start(const Topology& topology, std::span<const ClientView> clients) override {
    policy_.start(topology, clients);
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    asked_ = false;
    const auto began = std::chrono::steady_clock::now();
    policy_.decide(now, decisions);
    const auto took = std::chrono::steady_clock::now() - began;
    if (asked_) us_.push_back(std::chrono::duration<double, std::micro>(took).count());
  }

  RunResult::LookedAhead sum() const {
    RunResult::LookedAhead all = sum_;
    all.decisions = us_.size();
    if (us_.empty()) return all;
    std::vector<double> us = us_;
    std::ranges::sort(us);
    for (const double one : us) all.mean_us += one / static_cast<double>(us.size());
    all.p99_us = us[(us.size() * 99 - 1) / 100];
    all.max_us = us.back();
    return all;
  }

 private:
  Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) override {
    Outlook outlook = forecast_->look(now, way, bounds);
    asked_ = true;
    count(outlook);
    return outlook;
  }
  bool ask(const Snapshot& now, std::span<const WayOfDeciding> ways, const ForecastBounds& each) override {
    const bool taken = forecast_->ask(now, ways, each);
    asked_ = asked_ || taken;
    return taken;
  }
  std::optional<Foretold> answer() override {
    std::optional<Foretold> told = forecast_->answer();
    if (told) std::ranges::for_each(told->outlooks, [&](const Outlook& o) { count(o); });
    return told;
  }
  void count(const Outlook& outlook) {
    ++sum_.forecasts;
    sum_.events += outlook.events;
  }

  Policy& policy_;
  Forecast* forecast_ = nullptr;
  RunResult::LookedAhead sum_;
  bool asked_ = false;  // by this decision
  std::vector<double> us_;  // of each decision with a forecast
};

}  // namespace corun::sim
