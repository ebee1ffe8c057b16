// What a policy orders, imperative.  A backend may refuse any of them; the policy is asked again at the next
// notice.  A refusal changes nothing.  The policy is not told of it: the next Snapshot shows what is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "traces/model/ids.h"
#include "traces/model/time.h"
#include "traces/model/tpc_mask.h"

namespace corun::decide {

/// By SmId, one for each SM: how many CTAs of a persistent kernel it is to hold.  Workers that land elsewhere
/// retreat.
using CtasPerSm = std::vector<std::uint16_t>;

/// Hand a pending launch to the GPU, behind what was launched before it in its stream.  One that was
/// preempted goes on with the blocks that are not done.
struct Launch {
  LaunchId launch;
  std::int32_t priority = 0;          // CUDA's: 0 lowest, -5 highest
  std::optional<TpcMask> tpc_mask{};  // absent: all TPCs
  std::uint32_t ctas = 0;             // of a persistent kernel; 0: as a plain kernel
  CtasPerSm ctas_per_sm{};            // not empty: persistent, and `ctas` is their sum
};
/// Give a persistent launch another number of CTAs.  Fewer: the surplus exits at its next block.  More: a
/// further instance is launched on a stream of its own.
struct Resize {
  LaunchId launch;
  std::uint32_t ctas = 0;   // at least one stays
  CtasPerSm ctas_per_sm{};  // where the launch has one
};
/// Launch, as one grid, a pending launch confined to some SMs and, on the others, blocks of a pending launch
/// of another client.  Both have what the larger of them needs of an SM.  The padding launch is told of by
/// Preempted with what is done of it when it has blocks left, else by KernelFinished.
struct LaunchPadded {
  LaunchId launch;
  std::int32_t priority = 0;
  std::uint32_t sms = 0;  // for the launch; the padding has the rest
  LaunchId padding;
  std::uint64_t padding_blocks = 0;  // of those that it has left
};
enum class Stop : std::uint8_t {
  at_block,  // no further block starts; those that run end
  reset      // running blocks are killed, and the kernel, an idempotent one, starts anew when launched again
};
/// Take a launch off the GPU, with whatever was launched behind it in its stream or waits for any of that.
/// For each there follows Preempted, or KernelFinished if it was too late.
struct Preempt {
  LaunchId launch;
  Stop how = Stop::at_block;
};
/// Grant a pending allocation.
struct Allocate {
  LaunchId allocation;
};
/// Copy a buffer that no launch on the GPU uses to the host and free its device memory; answered by
/// BufferMoved.  For a policy that requires Capability::memory_swap, as Restore.
struct Checkpoint {
  BufferId buffer;
};
/// Bring it back; answered by BufferMoved.
struct Restore {
  BufferId buffer;
};
/// Ask how many blocks are done; answered by ProgressReported.
struct Query {
  LaunchId launch;
};
/// Ask again at this time of Snapshot::now, whatever happens (the earliest wish counts).
struct WakeAt {
  Time at{};
};

}  // namespace corun::decide

namespace corun {

using Decision =
    std::variant<decide::Launch, decide::Resize, decide::Query, decide::WakeAt, decide::LaunchPadded,
                 decide::Preempt, decide::Allocate, decide::Checkpoint, decide::Restore>;

struct Applied {};
struct Refused {
  std::string reason;
  bool no_room = false;  // a hardware channel is full: a thread that calls waits in the call
};
using Outcome = std::variant<Applied, Refused>;

}  // namespace corun
