// A backend that plays a script: it says at given times what the script says, and keeps what was decided.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "policies/api/backend.h"

namespace corun::sim {

/// A decision that reached the backend.
struct Decided {
  Time at{};
  Decision decision;
  std::uint32_t serial = 0;  // of the launch: 0 for the first that a client called
  bool refused = false;
};

/// "launch 0 ctas 4", "resize 0 ctas 2", "launch 0 ctas 1,1,0" (by SM), "preempt 0", "query 0"; with "refused: " before it
/// where it was.
std::string to_string(const Decided& decided);

class ScriptedBackend final : public Backend {
 public:
  ScriptedBackend(const Gpu& gpu, CapabilitySet capabilities) : topology_{gpu, capabilities} {}

  // The script; launches by serial.  Times may come in any order.
  void last_block(Time at, std::uint32_t serial);
  void finish(Time at, std::uint32_t serial);
  void progress(Time at, std::uint32_t serial, std::uint64_t blocks_done);
  void preempted(Time at, std::uint32_t serial, std::uint64_t blocks_done);

  /// Asked for each decision; by default none is refused.
  std::function<bool(const Decision&)> refuse = [](const Decision&) { return false; };
  std::vector<Decided> decided;
  /// As lines, those of one instant only.
  std::vector<std::string> at(Time time) const;

  const Topology& topology() const override { return topology_; }
  Time now() const override { return now_; }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch,
                std::span<const LaunchId> follows) override;
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;

 private:
  using Line = std::function<Notice(LaunchId)>;
  void add(Time at, std::uint32_t serial, Line line) {
    script_.emplace(at, std::pair(serial, std::move(line)));
  }

  Topology topology_;
  Time now_{};
  std::multimap<Time, std::pair<std::uint32_t, Line>> script_;
  std::map<std::uint32_t, LaunchId> launches_;  // by serial
};

}  // namespace corun::sim
