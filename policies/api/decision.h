// What a policy orders, imperative.  A backend may refuse any of them; the policy is asked again at the next
// notice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "traces/model/ids.h"
#include "traces/model/time.h"
#include "traces/model/tpc_mask.h"

namespace corun::decide {

/// Hand a pending launch to the GPU, behind what was launched before it in its stream.
struct Launch {
  LaunchId launch;
  std::int32_t priority = 0;        // CUDA's: 0 lowest, -5 highest
  std::optional<TpcMask> tpc_mask;  // absent: all TPCs
  std::uint32_t ctas = 0;           // 0: as a plain kernel; else as a persistent kernel of so many CTAs
};
/// Give a persistent launch another number of CTAs.  Fewer: the surplus exits at its next block.  More: a
/// further instance joins on a stream of its own.
struct Resize {
  LaunchId launch;
  std::uint32_t ctas = 0;
};
/// Ask how many blocks are done; answered by ProgressReported.
struct Query {
  LaunchId launch;
};
/// Ask again at this time, whatever happens (the earliest wish counts).
struct WakeAt {
  Time at{};
};

}  // namespace corun::decide

namespace corun {

using Decision = std::variant<decide::Launch, decide::Resize, decide::Query, decide::WakeAt>;

struct Applied {};
struct Refused {
  std::string reason;
};
using Outcome = std::variant<Applied, Refused>;

}  // namespace corun
