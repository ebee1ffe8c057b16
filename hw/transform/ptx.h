// A kernel of a module of PTX becomes one that runs as persistent workers: what persistent.cuh does to a
// kernel's source, without it.  Text in, text out: a module with that one kernel, what it calls and what it
// declares.  The driver compiles it.
//
// The body stays as it is, but that %ctaid and %nctaid are registers of the worker's loop, and that a thread
// which returns goes on to the end of the loop.  It has a parameter more, PtxLaunch, at the end.
//
// Refused, with the reason: what no loop can be put around (the module's own variables, which the host sets
// in the program's module; clusters, grid-wide barriers, loops that wait for other blocks; returns before
// operations of a warp; mbarriers that are left valid; what the launch or its blocks' number in the hardware
// is read by).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hw/transform/launch_parameters.h"
#include "hw/transform/ptx_text.h"

namespace corun::hw {

/// In device memory, zero at first: Control, and what a host asks in words of its own.  A launch leaves it so that the next
/// with the same parameters goes on where this one was stopped, or has nothing to do; one without orders, which nobody stops,
/// leaves it zero.
struct PtxControl {
  Control control;
  std::uint64_t order = 0;  // the last that was seen
  std::uint32_t gone = 0;   // workers that have left
  std::uint32_t unused = 0;
};
static_assert(sizeof(PtxControl) == sizeof(Control) + 16);

/// The last parameter.  When the last worker has left, `progress` has the number of chunks done in its fourth word, how many
/// were told to leave in its fifth, and then `number` in its third.
struct PtxLaunch {
  LaunchParameters launch;
  std::uint64_t order = 0;  // host memory, a word as ptx_stop makes it; 0: there is none
  std::uint64_t done = 0;   // host memory, where `done_value` is written when all blocks are done; 0: nowhere
  std::uint32_t number = 0, done_value = 0;
  std::uint64_t quotas = 0;  // where `launch.seated`: a PtxQuota for each SM; may be host memory
};
static_assert(sizeof(PtxLaunch) == 104);

/// How many workers an SM may hold.  A sector of its own: the GPU's reads of one sector of host memory wait for each other.
struct alignas(32) PtxQuota {
  std::uint32_t workers = 0;
};

/// What the host asks of the launch with this number.
constexpr std::uint64_t ptx_stop(std::uint32_t number) { return std::uint64_t{1} << 63 | number; }
/// How many workers leave, in all since the launch began.
constexpr std::uint64_t ptx_leave(std::uint32_t number, std::uint32_t workers) {
  return std::uint64_t{workers} << 32 | number;
}
/// Where SMs have seats: workers beyond the quotas as they are now leave.  `change` is one more each time, from 1 to 0x7fff;
/// `workers` is how many the quotas allow in all.
constexpr std::uint64_t ptx_resize(std::uint32_t number, std::uint32_t change, std::uint32_t workers) {
  return std::uint64_t{change << 16 | (workers < 0xffff ? workers : 0xffff)} << 32 | number;
}

struct PersistentPtx {
  std::string refused;  // why; empty: it was not
  std::string text, entry;
  std::uint32_t launch_offset = 0;  // of PtxLaunch among the parameters
  bool by_warps_along_x = false;    // only where blocks have one dimension, or a multiple of 32 threads in x
  // What the end of a block is like.
  bool shared = false;  // all threads leave it before any goes on
  bool serve = false;   // threads that have returned serve barriers
};

PersistentPtx make_persistent(const PtxModule& module, std::string_view entry);

}  // namespace corun::hw
