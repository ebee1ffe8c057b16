#include "traces/model/occupancy.h"

#include <fmt/format.h>

#include <algorithm>

namespace corun {
namespace {

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) {
  return unit == 0 ? n : (n + unit - 1) / unit * unit;
}

std::uint64_t warps_of(const Kernel& kernel, const SmLimits& sm) {
  return (kernel.block.count() + sm.warp_size - 1) / sm.warp_size;
}
std::uint64_t registers_per_warp(const Kernel& kernel, const SmLimits& sm) {
  return round_up(std::uint64_t{kernel.registers_per_thread} * sm.warp_size, sm.register_allocation_unit);
}
/// A partition of the register file holds whole warps, and what is left over in it is lost to others of the
/// same kernel.  To blocks of other kernels it is not: a block is charged what its warps take, or as much as
/// it takes to let in no more of its kernel than the partitions hold.
std::uint64_t registers_of(const Kernel& kernel, const SmLimits& sm) {
  const std::uint64_t partition = sm.registers / sm.sub_partitions;
  const std::uint64_t taken = registers_per_warp(kernel, sm), warps = warps_of(kernel, sm);
  const std::uint64_t warps_there = partition / std::max<std::uint64_t>(1, taken);
  const std::uint64_t with_rest = warps * (warps_there == 0 ? partition : partition / warps_there);
  if (with_rest == 0 || with_rest > sm.registers) return with_rest;
  const std::uint64_t blocks = sm.registers / with_rest;
  return std::max(warps * taken, sm.registers / (blocks + 1) + 1);
}
/// The hardware admits a block as if its warps filled up all partitions.
std::uint64_t registers_checked(const Kernel& kernel, const SmLimits& sm) {
  return registers_per_warp(kernel, sm) * round_up(warps_of(kernel, sm), sm.warp_allocation_granularity);
}
std::uint64_t shared_memory_of(const Kernel& kernel, const SmLimits& sm) {
  const std::uint64_t asked =
      std::uint64_t{kernel.static_shared_memory_bytes} + kernel.dynamic_shared_memory_bytes;
  return round_up(asked + sm.shared_memory_reserved_bytes, sm.shared_memory_allocation_unit);
}

}  // namespace

SmResources capacity_of(const SmLimits& sm) {
  return {sm.max_blocks, sm.max_warps, sm.max_threads, sm.registers, sm.shared_memory_bytes};
}

SmResources demand_of(const Kernel& kernel, const SmLimits& sm) {
  return {1, static_cast<std::uint32_t>(warps_of(kernel, sm)),
          static_cast<std::uint32_t>(kernel.block.count()),
          static_cast<std::uint32_t>(registers_of(kernel, sm)),
          static_cast<std::uint32_t>(shared_memory_of(kernel, sm))};
}

std::string misfit(const Kernel& kernel, const SmLimits& sm) {
  const auto check = [](std::uint64_t need, std::uint64_t have, const char* what) {
    return need > have ? fmt::format("needs {} {}, an SM gives a block {}", need, what, have) : std::string{};
  };
  const std::uint64_t shared =
      std::uint64_t{kernel.static_shared_memory_bytes} + kernel.dynamic_shared_memory_bytes;
  for (const std::string& problem :
       {check(kernel.block.count(), sm.threads_per_block, "threads"),
        check(warps_of(kernel, sm), sm.max_warps, "warps"),
        check(kernel.registers_per_thread, sm.registers_per_thread, "registers per thread"),
        check(registers_checked(kernel, sm), sm.registers_per_block, "registers"),
        check(shared, sm.shared_memory_per_block_bytes, "bytes of shared memory")})
    if (!problem.empty()) return problem;
  if (registers_of(kernel, sm) > sm.registers)
    return fmt::format(
        "needs {} registers with what its warps leave over in each part of the register file, an "
        "SM has {}",
        registers_of(kernel, sm), sm.registers);
  return {};
}

}  // namespace corun
