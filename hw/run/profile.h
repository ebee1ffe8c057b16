// What a kernel does alone on the card: its solo time, plain on all SMs and on fewer, and as a persistent
// kernel by CTAs, or by SMs and CTAs on each.  And what the backend's host side costs.
//
// Leaves out: counters (counters.h).
#pragma once

#include "hw/kernels/workbench.h"
#include "policies/api/snapshot.h"
#include "policies/session/profile_file.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::hw {

/// Times of the kernel as a persistent one, at the points of the simulator's profile (sim/run/profile.h):
/// by CTAs over all SMs, by SMs and CTAs on each, or of the latter only those on all SMs.  `solo`: about how
/// long it takes.
enum class Points : std::uint8_t { by_total, by_sm, by_workers };
Profile measure_points(const LibraryKernel& k, Time solo, const Gpu& gpu, Workbench& work, Points which);

/// As a trace says it: launch shape, solo time, solo times on some numbers of SMs (green contexts).
Kernel measure_alone(const LibraryKernel& k, const Gpu& gpu, Workbench& work);

/// As the backend runs it under a policy that stops launches.
Kernel::Stoppable measure_stoppable(const LibraryKernel& k, Time solo, const Gpu& gpu, Workbench& work);

/// A client alone under the backend, plain and persistent.
HostCosts measure_host(const Gpu& gpu, Workbench& work);
/// The part of it that is the time of the backend's one thread.
void measure_calls(const Gpu& gpu, Workbench& work, HostCosts& costs);

}  // namespace corun::hw
