// Programs as they were recorded on a part of the GPU: which of them a client runs.
//
// A client under an MPS percentage or in an instance sees fewer SMs, and its libraries choose kernels for these.  So it runs what
// was recorded on as many SMs or somewhat fewer (Program::on_sms), where that is nearer than the whole GPU.
//
// Leaves out: green contexts and masks, in which programs see all SMs and libraries choose as on neither (experiments/h200/networks,
// "Parts of the GPU").
#pragma once

#include <optional>
#include <string>

#include "policies/api/policy.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// The trace as its clients run it under a policy that needs this.  Nothing: as it is.  Throws InputError for instances
/// that the GPU cannot be divided into.
std::optional<Trace> on_parts(const Trace& trace, const Gpu& gpu, const Requirements& needed);
/// Which clients run what was recorded on a part, in words.
std::string on_parts_note(const Trace& recorded, const Trace& confined);

}  // namespace corun::sim
