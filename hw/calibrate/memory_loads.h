// Clients that load DRAM or L2.
#pragma once

#include "hw/calibrate/bench.h"

namespace corun::hw {

inline constexpr const char* kContention = "contention";
inline constexpr double kBytesPerSecond = 1e6;  // of bytes per us
inline constexpr double kChunkBytes = 4096;     // between two idle times of a warp, each way

inline Load memory_client(const char* kernel, double amount, std::uint32_t per_sm, DevicePointer at,
                          std::uint64_t bytes) {
  Load c;
  c.kernel = kernel, c.amount = amount, c.per_sm = per_sm;
  c.data = at, c.bytes = bytes;
  return c;
}
inline Load reads(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_read", 4 * kChunkBytes, per_sm, at, bytes);
}
inline Load writes(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_write", 4 * kChunkBytes, per_sm, at, bytes);
}
inline Load copies(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_copy", 8 * kChunkBytes, per_sm, at, bytes);
}
/// Random sectors of 32 bytes.
inline Load gathers(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_gather", 32.0 * 32 * 32, per_sm, at, bytes);
}
/// Dependent loads of one warp, all lanes from one address; amount in loads.
inline Load chase(DevicePointer at, std::uint64_t bytes, std::uint32_t stride = 128) {
  Load c = memory_client("client_chase", 16, 1, at, bytes);
  c.threads = 32, c.stride = stride;
  return c;
}
inline Load on(Load c, std::vector<std::uint32_t> sms) {
  c.sms = std::move(sms);
  return c;
}
/// A set of this many sixtieths of L2.
inline std::uint64_t part_of_l2(const Bench& bench, std::uint64_t sixtieths) {
  return bench.facts().l2_bytes * sixtieths / 60 / (1 << 16) * (1 << 16);
}

}  // namespace corun::hw
