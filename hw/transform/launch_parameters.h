// The host's side of what persistent.cuh declares for the device.
#pragma once

#include <cstdint>

namespace corun::hw {

inline constexpr std::uint32_t kMostSms = 256;
inline constexpr std::uint32_t kStop = 0x80000000u;  // of Control::command

/// In device memory, one per launch under way.  taken and command are the halves of one 64-bit counter.
struct Control {
  std::uint32_t taken = 0;    // numbers of chunks
  std::uint32_t command = 0;  // written by the host
  std::uint32_t leave = 0, left = 0;
  std::uint32_t stopped_at = 0;  // ~ of the least number that was taken after a stop; 0: none was
  std::uint32_t records = 0;
  std::uint64_t seats = 0;
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

/// The last parameter of a padded launch (padding.cuh).
struct PaddedParameters {
  LaunchParameters first, second;
  std::uint32_t sms = 0, per_sm = 0, seats = 0, unused = 0;
};
static_assert(sizeof(PaddedParameters) == 2 * sizeof(LaunchParameters) + 16);

/// Blocks in the first `chunks` chunks.
inline std::uint32_t blocks_in(const LaunchParameters& p, std::uint32_t chunks) {
  return chunks <= p.large ? chunks * p.chunk : p.large * (p.chunk - 1) + chunks;
}

/// What a launch writes into host memory.
struct Progress {
  std::uint32_t taken = 0;  // chunks; of several that write at once, any one's
  std::uint32_t all_taken = 0, unused[14]{};
  std::uint32_t stopped_at[16]{};  // numbers taken after a stop; to be preset to kNotStopped
  std::uint64_t seats[16]{};       // where an SM has a number of seats: the last 16 changes, see seats_in
};
static_assert(sizeof(Progress) == 256);
inline constexpr std::uint32_t kNotStopped = ~0u;

/// Chunks done of a launch whose workers have all left.
inline std::uint32_t chunks_done(const Control& c, std::uint32_t chunks) {
  return c.stopped_at == 0 ? chunks : ~c.stopped_at;
}
inline std::uint32_t chunks_done(const volatile Progress& p, std::uint32_t chunks) {
  std::uint32_t done = chunks;
  for (const volatile std::uint32_t& at : p.stopped_at) done = at < done ? std::uint32_t{at} : done;
  return done;
}

/// Of workers with seats: how many have come in all, of 24 bits, and how many have a seat now.
struct Seats {
  std::uint32_t came = 0, taken = 0;
};
inline Seats seats_in(const volatile Progress& p) {
  std::uint64_t newest = 0;  // the number of the change is in the high 24 bits
  for (const volatile std::uint64_t& at : p.seats)
    if (const std::uint64_t change = at; change > newest) newest = change;
  return {static_cast<std::uint32_t>(newest >> 16) & 0xffffff, static_cast<std::uint32_t>(newest & 0xffff)};
}

}  // namespace corun::hw
