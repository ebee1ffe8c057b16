// The host's side of what persistent.cuh declares for the device.
#pragma once

#include <cstdint>

namespace corun::hw {

inline constexpr std::uint32_t kMostSms = 256;
inline constexpr std::uint32_t kStop = 0x80000000u;  // of Control::command

/// In device memory, one per launch under way.  taken and command are the halves of one 64-bit counter.
struct Control {
  std::uint32_t taken = 0;    // chunks; afterwards one more for each worker that found none
  std::uint32_t command = 0;  // written by the host
  std::uint32_t leave = 0, left = 0, turned_away = 0;
  std::uint32_t unused[3]{};
  std::uint32_t present[kMostSms]{}, quota[kMostSms]{};  // workers by SM
};
static_assert(sizeof(Control) == 32 + 8 * kMostSms);

struct BlockLog {
  std::uint32_t sm = 0, worker = 0;
  std::uint64_t start = 0, end = 0;  // of the GPU's clock, ns
};

/// The last parameter of a persistent kernel.
struct LaunchParameters {
  std::uint64_t control = 0, progress = 0, log = 0;
  std::uint32_t first = 0, end = 0, chunks = 0, large = 0, chunk = 1, progress_mask = 0, single = 0,
                seated = 0;
  std::uint32_t grid_x = 1, grid_y = 1, grid_z = 1, unused = 0;
};
static_assert(sizeof(LaunchParameters) == 72);

/// Blocks in the first `chunks` chunks.
inline std::uint32_t blocks_in(const LaunchParameters& p, std::uint32_t chunks) {
  return chunks <= p.large ? chunks * p.chunk : p.large * (p.chunk - 1) + chunks;
}

/// Chunks done of a launch whose workers have all left: each that neither left by itself nor was turned away
/// took one number too many.
inline std::uint32_t chunks_done(const Control& c, std::uint32_t workers, std::uint32_t chunks) {
  const std::uint32_t done = c.taken - (workers - c.left - c.turned_away);
  return done < chunks ? done : chunks;
}

}  // namespace corun::hw
