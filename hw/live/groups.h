// Which SMs a program gets for a set of TPCs.  The driver parts a GPU into groups of SMs within which a cluster of blocks is
// placed together (8 SMs on Hopper) and a rest.  TPCs are numbered group by group, as the driver lists them.
//
// Leaves out: single TPCs, on which kernels in clusters fail.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hw/live/wire.h"

namespace corun::live {

/// The groups that are in the set, by their numbers of TPCs: those of which more than half is, or half with the first TPC.
/// Sets without common TPCs have no group in common.
std::vector<std::size_t> groups_in(const Tpcs& tpcs, std::span<const std::uint32_t> tpcs_of_group);

/// SMs of those groups.
std::uint32_t sms_of(const Tpcs& tpcs, std::span<const std::uint32_t> tpcs_of_group);

}  // namespace corun::live
