// At which numbers of CTAs and SMs a kernel's profile has times: the same whether simulated or measured.
#pragma once

#include "policies/api/snapshot.h"

namespace corun {

/// By CTAs over all SMs of the GPU, at most `most`; times left out.
Profile points_by_total(std::uint32_t sms, std::uint32_t most);

/// By SMs and CTAs on each, at most `most`, for a kernel of `blocks` blocks; times left out.  In the order of
/// their CTAs.
Profile points_by_sm(std::uint32_t sms, std::uint32_t most, std::uint64_t blocks);

}  // namespace corun
