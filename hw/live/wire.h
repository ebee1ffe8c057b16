// What a program under `sim run` and the service of `sim serve` share: a piece of memory for each program, and the first
// words on the socket, with which it is handed over.  A thread that wants to launch fills its mailbox, rings, and waits until
// the service has granted the launch: a round trip is a microsecond where both look.  What the GPU has done, the GPU writes.
//
// Leaves out: programs of another version, which are refused, and threads beyond kMailboxes, which share the last one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace corun::live {

inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kMailboxes = 64;   // as many bits as the doorbell has
inline constexpr std::uint32_t kStreams = 256;    // of a program; what is launched on others is not steered
inline constexpr std::uint32_t kKernels = 4096;   // functions and graphs; further ones share the last entry
inline constexpr std::size_t kNameBytes = 64, kKernelNameBytes = 224;

/// A set of TPCs by number, a bit each; none: all of them.
using Tpcs = std::array<std::uint64_t, 4>;
inline constexpr Tpcs kAllTpcs{};

/// What a policy decides of a launch.
struct Terms {
  std::int32_t priority = 0;  // CUDA's: 0 lowest, -5 highest
  Tpcs tpcs{};
  bool operator==(const Terms&) const = default;
};

/// What a program says first on the socket.
struct Hello {
  enum class Wish : std::uint32_t { steer, state } wish = Wish::steer;
  std::uint32_t version = kVersion;
  std::int32_t priority = 0;  // CUDA's: 0 lowest, -5 highest
  std::uint32_t real_time = 0;
  char name[kNameBytes] = {};
};
/// The answer; the memory comes with it.
struct Welcome {
  std::uint32_t version = kVersion;
  std::uint32_t accepted = 0;
  char reason[120] = {};
};

/// open: a launch goes at once, with the standing priority.  asks: each waits for its grant.
enum class Gate : std::uint32_t { open, asks };

enum class Said : std::uint32_t {
  launch,  // may it go?
  waits,   // the host waits for what it has launched
  failed   // a granted launch was refused by the driver
};

/// Of one thread of the program.
struct alignas(64) Mailbox {
  enum State : std::uint32_t { empty, filled, asleep, granted };  // asleep: filled, and its thread sleeps
  std::atomic<std::uint32_t> state{empty};
  Said said = Said::launch;
  std::uint32_t stream = 0;    // index into Memory::ended
  std::uint32_t number = 0;    // of the launch in its stream, from 1
  std::uint32_t kernel = 0;    // index into Memory::kernels
  std::uint32_t grid[3] = {};  // blocks
  std::uint32_t block[3] = {};
  std::uint32_t shared_bytes = 0;
  Terms terms;  // with the grant
};

/// A function, or a graph as a whole.
struct KernelEntry {
  std::atomic<std::uint32_t> written{0};
  std::uint32_t registers = 0, static_shared_bytes = 0, is_graph = 0;
  char name[kKernelNameBytes] = {};
};

/// All zero at first.  The program only adds to its counters, and the service only reads them.
struct Memory {
  alignas(64) std::atomic<std::uint64_t> doorbell{0};  // by mailbox
  alignas(64) std::atomic<Gate> gate{Gate::open};
  std::atomic<std::uint32_t> version{0};  // of the standing terms: odd while the service writes them
  std::atomic<std::int32_t> priority{0};  // standing: of launches that go at once, and of the program's streams
  std::array<std::atomic<std::uint64_t>, 4> tpcs{};  // of launches that go at once
  std::atomic<std::uint32_t> service_sleeps{0};
  alignas(64) std::atomic<std::uint64_t> launches{0}, graphs{0}, unsteered{0};
  std::atomic<std::uint64_t> held_ns{0};  // that launches waited for their grants
  alignas(4096) std::atomic<std::uint32_t> ended[kStreams] = {};  // by stream: the last launch that the GPU has done
  Mailbox boxes[kMailboxes];
  KernelEntry kernels[kKernels];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr const char* kSocketVariable = "CORUN_SERVICE";

}  // namespace corun::live
