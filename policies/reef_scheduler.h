// The scheduler of REEF and REEF-N: Han et al., OSDI 2022, sections 3 to 5.  They differ in how launches come
// off the GPU.
#pragma once

#include <string_view>
#include <vector>

#include "policies/api/registry.h"
#include "policies/kernel_padding.h"
#include "policies/real_time_mode.h"

namespace corun {

class ReefScheduler : public Policy {
 public:
  struct Options {
    decide::Stop how = decide::Stop::reset;
    std::uint32_t depth = 4;  // 0: no limit
    bool padding = true;
    Time lead{};
  };
  explicit ReefScheduler(Options options) : options_(options) {}

  void start(const Topology& topology, std::span<const ClientView>) override { gpu_ = topology.gpu; }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    mode_.look(now);
    std::erase_if(padding_, [&](LaunchId id) {
      const LaunchView& l = now.launch(id);
      return l.id != id || l.state == LaunchState::pending || l.state == LaunchState::finished;
    });
    std::erase_if(tried_, [&](LaunchId id) {
      const LaunchView& l = now.launch(id);
      return l.id != id || l.state != LaunchState::pending;
    });
    if (!mode_.active()) return launch_best_effort(now, decisions);
    const auto ordinary = [&](const LaunchView& l) { return !pads(l.id); };
    take_off_best_effort(now, decisions, options_.how, ordinary);
    const bool clear = !runs_best_effort(now) || std::ranges::none_of(now.running, [&](LaunchId id) {
      const LaunchView& l = now.launch(id);
      return l.kernel != nullptr && !is_real_time(now, l) && ordinary(l);
    });
    if (clear) launch_real_time(now, decisions);
  }

 private:
  bool pads(LaunchId id) const { return std::find(padding_.begin(), padding_.end(), id) != padding_.end(); }

  /// Normal mode: every stream on its own, `depth` launches ahead.
  void launch_best_effort(const Snapshot& now, std::vector<Decision>& decisions) const {
    const auto most = [&](const StreamView& s) -> std::size_t {
      if (is_real_time(now, s)) return 0;
      if (options_.depth == 0) return s.pending.size();
      return options_.depth - std::min(options_.depth, s.running);
    };
    for (LaunchId id : now.first_pending(most)) decisions.push_back(decide::Launch{id, 0, {}, 0});
  }

  /// Real-time mode: as far ahead as the padding of the next launch can still be chosen without the GPU
  /// running dry.
  void launch_real_time(const Snapshot& now, std::vector<Decision>& decisions) {
    const auto served = [&](const StreamView& s) {
      return is_real_time(now, s) && mode_.has_turn(s.client) ? s.pending.size() : 0;
    };
    const std::vector<LaunchId> pending = now.first_pending(served);
    if (pending.empty()) return;
    Time ahead{};
    bool first = true;
    for (LaunchId id : now.running)
      if (const LaunchView& l = now.launch(id); l.kernel != nullptr && is_real_time(now, l)) {
        if (!first) ahead += l.solo_time;
        first = false;
      }
    const bool choosing = options_.padding && (!padding_.empty() || any_best_effort(now));
    std::vector<LaunchId> taken;
    for (LaunchId id : pending) {
      const LaunchView& l = now.launch(id);
      if (choosing && !first && ahead >= options_.lead) return;
      const bool refused = std::find(tried_.begin(), tried_.end(), id) != tried_.end();
      decisions.push_back(choosing && !refused ? padded(now, l, taken)
                                               : Decision{decide::Launch{id, 0, {}, 0}});
      if (std::holds_alternative<decide::LaunchPadded>(decisions.back())) {
        tried_.push_back(id);
        decisions.push_back(decide::WakeAt{now.now + kSoon});  // a refusal gives no notice
      }
      if (!first) ahead += l.solo_time;
      first = false;
    }
  }

  static bool any_best_effort(const Snapshot& now) {
    return std::any_of(now.streams.begin(), now.streams.end(), [&](const StreamView& s) {
      return !s.pending.empty() && !is_real_time(now, s);
    });
  }

  /// The launch with the first best-effort launch that fits beside it, or alone.
  Decision padded(const Snapshot& now, const LaunchView& l, std::vector<LaunchId>& taken) {
    const Paddable real_time{demand_of(*l.kernel, gpu_.sm), l.kernel->blocks(), l.kernel->blocks(),
                             l.solo_time};
    const auto next = [&](const StreamView& s) { return is_real_time(now, s) ? 0 : 1; };
    for (LaunchId id : now.first_pending(next)) {  // what is behind it waits for it
      const LaunchView& other = now.launch(id);
      if (other.waits_for != 0 ||
          std::find(taken.begin(), taken.end(), id) != taken.end())
        continue;
      const Paddable best_effort{demand_of(*other.kernel, gpu_.sm),
                                 other.kernel->blocks() - other.blocks_done, other.kernel->blocks(),
                                 other.solo_time};
      if (const auto padding = pad(real_time, best_effort, gpu_)) {
        taken.push_back(id);
        padding_.push_back(id);
        return decide::LaunchPadded{l.id, 0, padding->sms, id, padding->blocks};
      }
    }
    return decide::Launch{l.id, 0, {}, 0};
  }

  Options options_;
  Gpu gpu_;
  RealTimeMode mode_;
  std::vector<LaunchId> padding_;  // best-effort launches that run as padding
  /// Real-time launches that were ordered padded; one that is pending was refused.
  std::vector<LaunchId> tried_;
  static constexpr Time kSoon{1'000'000};  // a microsecond
};

}  // namespace corun
