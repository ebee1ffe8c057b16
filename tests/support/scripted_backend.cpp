#include "tests/support/scripted_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace corun::sim {

namespace {

template <class SizedDecision>
std::string size_of(const SizedDecision& d) {
  return d.ctas_per_sm.empty() ? fmt::format("ctas {}", d.ctas)
                               : fmt::format("ctas {}", fmt::join(d.ctas_per_sm, ","));
}

}  // namespace

std::string to_string(const Decided& d) {
  std::string text = d.refused ? "refused: " : "";
  if (const auto* launch = std::get_if<decide::Launch>(&d.decision))
    return text + fmt::format("launch {} {}", d.serial, size_of(*launch));
  if (const auto* resize = std::get_if<decide::Resize>(&d.decision))
    return text + fmt::format("resize {} {}", d.serial, size_of(*resize));
  if (std::holds_alternative<decide::Preempt>(d.decision)) return text + fmt::format("preempt {}", d.serial);
  return text + fmt::format("query {}", d.serial);
}

void ScriptedBackend::last_block(Time at, std::uint32_t serial) {
  add(at, serial, [](LaunchId id) { return LastBlockStarted{id}; });
}
void ScriptedBackend::finish(Time at, std::uint32_t serial) {
  add(at, serial, [](LaunchId id) { return KernelFinished{id}; });
}
void ScriptedBackend::progress(Time at, std::uint32_t serial, std::uint64_t blocks_done) {
  add(at, serial, [=](LaunchId id) { return ProgressReported{id, blocks_done, at}; });
}
void ScriptedBackend::preempted(Time at, std::uint32_t serial, std::uint64_t blocks_done) {
  add(at, serial, [=](LaunchId id) { return Preempted{id, blocks_done}; });
}

std::vector<std::string> ScriptedBackend::at(Time time) const {
  std::vector<std::string> lines;
  for (const Decided& d : decided)
    if (d.at == time) lines.push_back(to_string(d));
  return lines;
}

void ScriptedBackend::wait(Time until, std::vector<Notice>& notices) {
  const Time next = script_.empty() ? kNever : script_.begin()->first;
  if (std::min(next, until) == kNever) return;
  now_ = std::min(next, until);
  for (; !script_.empty() && script_.begin()->first == now_; script_.erase(script_.begin())) {
    const auto& [serial, line] = script_.begin()->second;
    notices.push_back(line(launches_.at(serial)));
  }
}

Outcome ScriptedBackend::apply(const Decision& decision, const LaunchView& launch,
                               std::span<const LaunchId>) {
  decided.push_back({now_, decision, launch.id.serial, refuse(decision)});
  if (decided.back().refused) return Refused{"the script says so"};
  launches_[launch.id.serial] = launch.id;
  return Applied{};
}

Outcome ScriptedBackend::copy(const LaunchView& copy, std::span<const LaunchId>) {
  launches_[copy.id.serial] = copy.id;
  return Applied{};
}

}  // namespace corun::sim
