// Which launches of programs under `sim serve --persistent` are persistent, and of how many attempts: the rule of the library
// (hw/shim/stoppable.h) and of the books (hw/live/books_stops.cpp).
//
// A best-effort launch of a kernel whose program brings its PTX (Kernel::ptx), from 300 us on, with more blocks than workers fit the
// GPU, in no graph and without attributes, once a launch of the kernel has ended.  It goes to the GPU as two to six attempts.
// A stop ends one of them, and so does a further worker; the last runs to its end with all workers.
//
// Leaves out: the time in which a kernel is made, once; kernels that the transform refuses; that times are learnt.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>

#include "policies/api/snapshot.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

class PersistentLaunches {
 public:
  PersistentLaunches(const Trace& trace, const Gpu& gpu) : trace_(trace), gpu_(gpu) {}

  /// The host has called the launch.
  void called(const LaunchView& launch);
  void ended(const LaunchView& launch);
  /// It has come off the GPU, or is to.
  void next_attempt(LaunchId launch);

  bool are(LaunchId launch) const { return left_.contains(launch.serial); }
  /// Attempts behind the one that is on the GPU or goes next.  0: it can be neither stopped nor sized.
  std::uint32_t left(LaunchId launch) const;
  /// How many workers the GPU has room for.
  std::uint32_t workers(const Kernel& kernel) const;

 private:
  using KernelOfClient = std::pair<std::uint32_t, std::uint32_t>;

  const Trace& trace_;
  const Gpu& gpu_;
  std::set<KernelOfClient> known_;                       // kernels of which a launch has ended
  std::unordered_map<std::uint64_t, std::uint32_t> left_;  // by serial
};

/// How many attempts a launch that takes so long becomes; 0: it is too short.
std::uint32_t attempts_of(Time solo);
/// What an attempt takes that finds nothing to do.
inline constexpr Time kEmptyAttempt = std::chrono::microseconds(15);

}  // namespace corun::sim
