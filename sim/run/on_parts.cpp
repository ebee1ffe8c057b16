#include "sim/run/on_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "policies/session/instances.h"
#include "traces/json/spelling.h"
#include "traces/model/serving.h"

namespace corun::sim {
namespace {

/// Of each client, by ClientId.
std::vector<std::uint32_t> sms_of_clients(const Trace& trace, const Gpu& gpu, const Requirements& needed) {
  std::vector<std::uint32_t> sms(trace.clients.size(), gpu.sms);
  if (!needed.instances.empty()) {
    const std::vector<Gpu> of = instances_of(gpu, needed.instances);
    for (const InstancePart& part : divide(trace, needed.instances))
      for (const ClientId client : part.clients) sms[client.value] = of[part.number].sms;
    return sms;
  }
  const std::vector<double>& percentages = needed.thread_percentages;
  for (std::size_t i = 0; i < sms.size() && !percentages.empty(); ++i)
    if (const double percentage = percentages[std::min(i, percentages.size() - 1)]; percentage > 0) sms[i] = gpu.mps_sms(percentage);
  return sms;
}

/// How many times as many SMs one has as the other.
double apart(std::uint32_t a, std::uint32_t b) {
  return static_cast<double>(std::max(a, b)) / static_cast<double>(std::max(1u, std::min(a, b)));
}

/// The nearest of what was recorded on as many SMs or fewer, and of the whole GPU's: kernels that a library chose for more SMs
/// than there are take waves that nobody would launch.
ProgramId recorded_for(const Trace& trace, ProgramId program, std::uint32_t sms, std::uint32_t all) {
  ProgramId nearest = program;
  double least = apart(all, sms);
  for (const auto& [on, there] : trace.programs[program.value].on_sms)
    if (const double far = apart(on, sms); on <= sms && far < least) least = far, nearest = there;
  return nearest;
}

}  // namespace

std::optional<Trace> on_parts(const Trace& trace, const Gpu& gpu, const Requirements& needed) {
  if (std::ranges::all_of(trace.programs, [](const Program& p) { return p.on_sms.empty(); })) return std::nullopt;
  const std::vector<std::uint32_t> sms = sms_of_clients(trace, gpu, needed);
  std::optional<Trace> there;
  const auto replace = [&](ProgramId was, std::size_t client, auto&& with) {
    const ProgramId now = recorded_for(trace, was, sms[client], gpu.sms);
    if (now == was) return false;
    with(there ? *there : there.emplace(trace), now);
    return true;
  };
  bool steps = false;
  for (std::size_t i = 0; i < trace.clients.size(); ++i) {
    if (const auto& serving = trace.clients[i].serving) {
      for (std::size_t k = 0; k < serving->steps.size(); ++k)
        steps |= replace(serving->steps[k].program, i,
                         [&](Trace& to, ProgramId now) { to.clients[i].serving->steps[k].program = now; });
      continue;
    }
    replace(trace.clients[i].program, i, [&](Trace& to, ProgramId now) {
      to.clients[i].program = now;
      to.clients[i].streams.resize(to.programs[now.value].streams.size());
    });
  }
  if (steps) make_servers(*there);
  return there;
}

std::string on_parts_note(const Trace& recorded, const Trace& confined) {
  std::string text = "on their parts of the GPU clients run what was recorded on one:";
  const char* before = " ";
  for (std::size_t i = 0; i < recorded.clients.size(); ++i) {
    const Client& client = confined.clients[i];
    if (client.program == recorded.clients[i].program) continue;
    const ProgramId shown = client.serving ? client.serving->steps.front().program : client.program;
    text += fmt::format("{}{} {}", std::exchange(before, ", "), printable(client.name), in_quotes(confined.programs[shown.value].name));
  }
  return text;
}

}  // namespace corun::sim
