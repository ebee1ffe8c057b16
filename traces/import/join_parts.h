// Times of a program's kernels on a part of the GPU, from a recording of the same program confined to that part.
//
// Launches are the same where function, grid and block are, the n-th with the n-th.  Libraries choose kernels by the number
// of SMs: launches without a counterpart have no time there, and are told.
#pragma once

#include <cstdint>
#include <string>

#include "traces/model/trace.h"

namespace corun {

/// Gives the kernels of `whole`, recorded on `whole_sms` SMs, their times on the SMs on which `part` was recorded: the
/// median over a kernel's launches of how much longer they took there.  Returns what matched, and what did not, in words.
std::string join_part(Trace& whole, std::uint32_t whole_sms, const Trace& part, std::uint32_t part_sms);

/// On how many SMs its kernels were recorded.  0: on the whole GPU, as far as it says.
std::uint32_t recorded_sms(const Trace& trace);

}  // namespace corun
