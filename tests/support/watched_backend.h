// The simulated GPU, watched: what was decided of each launch, and some of it refused.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "policies/api/backend.h"

namespace corun::sim {

class WatchedBackend final : public Backend {
 public:
  struct Granted {
    std::vector<TpcMask> masks;       // of each time it was launched; all TPCs where none was named
    std::uint32_t ctas = 0;           // most at any time; 0: plain
    decide::CtasPerSm ctas_per_sm{};  // most at any time, by SM
    bool plain = false;               // at some time
    bool padded = false;
  };

  explicit WatchedBackend(Backend& backend) : backend_(backend) {}

  /// Asked for each decision and copy; by default none is refused.
  std::function<bool()> refuse = [] { return false; };
  std::map<std::uint32_t, Granted> granted;  // by the launch's serial
  std::set<std::uint32_t> reset;             // serials of launches that may have been reset
  std::uint64_t refused = 0;

  const Topology& topology() const override { return backend_.topology(); }
  Forecast* forecast() override { return backend_.forecast(); }
  Time now() const override { return backend_.now(); }
  void wait(Time until, std::vector<Notice>& notices) override { backend_.wait(until, notices); }
  Outcome apply(const Decision& d, const LaunchView& l, std::span<const LaunchId> follows) override {
    if (refuse()) return ++refused, Refused{"not now"};
    const Outcome outcome = backend_.apply(d, l, follows);
    if (std::holds_alternative<Applied>(outcome)) note(d, l, follows);
    return outcome;
  }
  Outcome copy(const LaunchView& c, std::span<const LaunchId> follows) override {
    return backend_.copy(c, follows);
  }

 private:
  void note(const Decision& d, const LaunchView& l, std::span<const LaunchId> follows) {
    Granted& g = granted[l.id.serial];
    if (const auto* launch = std::get_if<decide::Launch>(&d)) {
      g.masks.push_back(launch->tpc_mask.value_or(TpcMask::all()));
      g.plain = g.plain || launch->ctas == 0;
      raise(g, launch->ctas, launch->ctas_per_sm);
    } else if (const auto* resize = std::get_if<decide::Resize>(&d)) {
      raise(g, resize->ctas, resize->ctas_per_sm);
    } else if (const auto* padded = std::get_if<decide::LaunchPadded>(&d)) {
      g.padded = granted[padded->padding.serial].padded = true;
    } else if (const auto* preempt = std::get_if<decide::Preempt>(&d);
               preempt && preempt->how == decide::Stop::reset) {
      reset.insert(l.id.serial);
      for (LaunchId id : follows) reset.insert(id.serial);
    }
  }
  static void raise(Granted& g, std::uint32_t ctas, const decide::CtasPerSm& per_sm) {
    g.ctas = std::max(g.ctas, ctas);
    if (g.ctas_per_sm.size() < per_sm.size()) g.ctas_per_sm.resize(per_sm.size());
    for (std::size_t i = 0; i < per_sm.size(); ++i) g.ctas_per_sm[i] = std::max(g.ctas_per_sm[i], per_sm[i]);
  }

  Backend& backend_;
};

}  // namespace corun::sim
