// What of a trace the GPU cannot do, told before anything runs.
#include <fmt/format.h>

#include <optional>

#include "sim/backend/sim_backend.h"
#include "traces/model/error.h"
#include "traces/model/occupancy.h"
#include "traces/model/tpc_mask.h"

namespace corun::sim {

void SimBackend::check_trace(const Trace& trace) const {
  const Gpu& gpu = topology_.gpu;
  const auto check_priority = [&](const Client& client, std::int32_t priority) {
    if (priority > 0 || priority <= -static_cast<std::int32_t>(gpu.priority_levels))
      throw InputError(
          client.origin.file, client.origin.place + "/priority",
          fmt::format("priority {} of client {} does not exist on {}", priority, client.name, gpu.name),
          fmt::format("use 0 (lowest) to {} (highest)", 1 - static_cast<std::int32_t>(gpu.priority_levels)));
  };
  const auto check_mask = [&](const Client& client, const std::optional<TpcMask>& mask) {
    if (mask && (*mask & TpcMask::range(0, gpu.tpcs())).empty())
      throw InputError(client.origin.file, client.origin.place + "/tpc_mask",
                       fmt::format("tpc_mask of client {} names only TPCs that {} lacks: it has {}", client.name, gpu.name,
                                   gpu.tpcs()),
                       fmt::format("name some of 0-{}", gpu.tpcs() - 1));
  };
  for (const Client& client : trace.clients) {
    check_priority(client, client.priority);
    check_mask(client, client.tpc_mask);
    for (const ClientStream& stream : client.streams) {
      if (stream.priority) check_priority(client, *stream.priority);
      check_mask(client, stream.tpc_mask);
    }
    for (const Op& op : trace.programs[client.program.value].ops)
      if (const auto* launch = std::get_if<corun::Launch>(&op.what)) {
        const Kernel& kernel = trace.kernels[launch->kernel.value];
        check_mask(client, launch->tpc_mask);
        if (const std::string problem = misfit(kernel, gpu.sm); !problem.empty())
          throw InputError(kernel.origin.file, kernel.origin.place,
                           fmt::format("kernel {} fits no SM of {}: it {}", kernel.name, gpu.name, problem),
                           "choose another GPU with --gpu, carry the trace over with `sim compare --gpus` (which caps "
                           "shared memory), or correct the kernel's launch shape");
      }
  }
}

}  // namespace corun::sim
