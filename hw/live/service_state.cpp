// What a service says of itself: `sim top` shows it, and makes metrics of it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "hw/live/beside.h"
#include "hw/live/groups.h"
#include "hw/live/service.h"

namespace corun::live {
namespace {

/// That the driver's groups give it of the standing set of TPCs; 0: it has all, none, or has not launched on a part yet.
std::uint32_t sms_of_part(const Memory& memory) {
  Tpcs tpcs{};
  for (std::size_t i = 0; i < tpcs.size(); ++i) tpcs[i] = memory.tpcs[i].load();
  std::vector<std::uint32_t> groups(std::min(memory.groups.load(std::memory_order_acquire), kSms));
  for (std::size_t g = 0; g < groups.size(); ++g) groups[g] = memory.tpcs_of_group[g].load(std::memory_order_relaxed);
  return tpcs == kAllTpcs ? 0 : sms_of(tpcs, groups);
}

}  // namespace

std::string Service::state() const {
  nlohmann::ordered_json out;
  std::vector<std::int64_t> sorted = decision_ns_;
  std::ranges::sort(sorted);
  const auto at = [&](double share) {
    if (sorted.empty()) return 0.0;
    const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
    return static_cast<double>(sorted[place]) / 1e3;
  };
  out["policy"] = policy_;
  out["up_s"] = to_seconds(now());
  out["waits_for_grants"] = books_.asks();
  if (!books_.unfit().empty()) out["unfit"] = books_.unfit();
  out["decisions"] = books_.decisions();
  out["decision_us"] = {{"p50", at(0.5)}, {"p99", at(0.99)}};
  if (const auto* forecast = dynamic_cast<const ForecastBeside*>(books_.forecast())) {
    const ForecastBeside::Looks& l = forecast->looks();
    out["looks"] = {{"heard", l.heard}, {"mean_us", l.heard != 0 ? l.sum_us / static_cast<double>(l.heard) : 0.0}, {"max_us", l.max_us}};
  }
  if (const ProgramMemory* memory = books_.memory()) {
    const DeviceMemory& m = memory->accounts();
    out["memory"] = {{"cap_bytes", m.capacity()},       {"used_bytes", m.used()},         {"peak_bytes", m.peak()},
                     {"checkpoints", m.checkpoints()}, {"moved_bytes", m.moved_bytes()}};
  }
  out["programs"] = nlohmann::ordered_json::array();
  for (const ClientState& s : books_.state()) {
    const auto c = std::ranges::find_if(
        connections_, [&](const auto& each) { return each->memory != nullptr && each->client == s.client; });
    if (c == connections_.end()) continue;
    const Memory& memory = *(*c)->memory;
    const auto launches = static_cast<double>(memory.launches.load() + memory.graphs.load());
    const double held_us = static_cast<double>(memory.held_ns.load()) / 1e3;
    out["programs"].push_back(
        {{"name", s.self.name},
         {"client", s.client},
         {"pid", (*c)->pid},
         {"class", s.self.service_class == ServiceClass::real_time ? "real_time" : "best_effort"},
         {"launches", memory.launches.load()},
         {"graphs", memory.graphs.load()},
         {"unsteered", memory.unsteered.load()},
         {"counted", memory.counted.load()},
         {"crowded", memory.crowded.load()},
         {"queued", memory.queued.load()},
         {"requests", s.requests},
         {"waiting", s.pending},
         {"on_gpu", s.on_gpu},
         {"busy_s", to_seconds(s.busy)},
         {"mean_wait_us", launches > 0 ? held_us / launches : 0.0}});
    if (s.late) out["programs"].back()["late"] = true;
    if (const std::uint32_t sms = sms_of_part(memory); sms != 0) out["programs"].back()["sms"] = sms;
    if (books_.memory() != nullptr) {
      const auto taken = [](const auto& ns) { return static_cast<double>(ns.load()) / 1e9; };
      out["programs"].back()["memory"] = {{"gpu_bytes", s.device_bytes},
                                          {"host_bytes", s.host_bytes},
                                          {"passed", memory.passed.load()},
                                          {"out_bytes", memory.out_bytes.load()},
                                          {"out_s", taken(memory.out_ns)},
                                          {"in_bytes", memory.in_bytes.load()},
                                          {"in_s", taken(memory.in_ns)},
                                          {"pin_s", taken(memory.pin_ns)},
                                          {"rest_s", taken(memory.rest_ns)}};
    }
    if (persistent_) {
      out["programs"].back()["stoppable"] = {{"launches", s.stoppable.launches},
                                             {"of", s.all.launches},
                                             {"s", to_seconds(s.stoppable.time)},
                                             {"of_s", to_seconds(s.all.time)},
                                             {"stops", s.stops},
                                             {"resizes", s.resizes},
                                             {"kernels", memory.made.load()},
                                             {"refused", memory.refused.load()},
                                             {"unreadable", memory.unreadable.load()}};
    }
  }
  return out.dump(2) + "\n";
}

}  // namespace corun::live
