// Strong identities: an index that cannot be mistaken for one of another kind.
#pragma once

#include <compare>
#include <cstdint>

namespace corun {

template <class Tag>
struct Id {
  std::uint32_t value = 0;
  constexpr auto operator<=>(const Id&) const = default;
};

using KernelId = Id<struct KernelTag>;    // index into Trace::kernels
using ProgramId = Id<struct ProgramTag>;  // index into Trace::programs
using ClientId = Id<struct ClientTag>;    // index into Trace::clients
using StreamId = Id<struct StreamTag>;    // index of a stream within its program
using OpId = Id<struct OpTag>;            // index of an operation within its program
using SmId = Id<struct SmTag>;            // %smid
using BufferId = Id<struct BufferTag>;    // index of an allocation within a run
using TpcId = Id<struct TpcTag>;          // %smid / sms_per_tpc

/// One execution of one operation: `serial` counts every one ever issued (unique in a run), `slot` is where
/// its bookkeeping lives while it is unfinished (reused afterwards).
struct LaunchId {
  std::uint32_t slot = 0;
  std::uint32_t serial = 0;
  constexpr auto operator<=>(const LaunchId&) const = default;
};

}  // namespace corun
