// What a program under `sim run` and the service of `sim serve` share: a piece of memory for each program, and the first
// words on the socket, with which it is handed over.  What a program says goes into a ring, in the order in which it says it.
// A grant is the number of the last launch of a stream that may go, in a word that the program's thread looks at, or the GPU:
// a round trip is a microsecond where both sides look.  What the GPU has done, the GPU writes.  What is to become of a
// program's device memory the service writes into a second ring (MemoryCommand), and the program says when it is done.
//
//   program:  alone --Hello--> asks --Welcome, page--> steered --socket ends, or no beat for kStandsStill--> unsteered
//               ^               |                         ^                                                    |
//               +--- refused ---+                         +-- Welcome -- asks again, each kRejoin or later <---+
//   service:  connection --Hello: steer--> joined --its process or socket ends, or it is let go--> forgotten
//               |-- Hello: state --> its text, closed
//               +-- silent for kHello, another version, user or GPU, or no room --> refused, closed
//   a launch: asked (said) --> granted --> on the GPU --> ended;  stopped: resumed --> on the GPU again
//
// Beside a word stands who writes it, and its orders: R/A, a release that the other side acquires; S, sequentially consistent on both
// sides, as each then reads the other's word; else relaxed is enough.  Decision 450 has the reasons, orders_test the proof.
//
// Leaves out: programs of another version, which are refused.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "policies/service/terms.h"

namespace corun::live {

inline constexpr std::uint32_t kVersion = 8;
inline constexpr std::uint32_t kMessageRing = 1024;  // that the service has not heard yet; who has more to say waits
inline constexpr std::uint32_t kStreams = 256;    // of a program; what is launched on others is not steered
inline constexpr std::uint32_t kKernels = 4096;   // functions with a shape, and graphs; further ones share the last entry
inline constexpr std::uint32_t kBlocks = 4096;    // of device memory, of a program; further ones are not steered
inline constexpr std::uint32_t kCommands = 2 * kBlocks;  // that the program has not taken yet
inline constexpr std::uint32_t kSms = 256, kSized = 2;
inline constexpr std::uint32_t kSmsOfTpc = 2;  // of every GPU since Pascal's P100
inline constexpr std::uint64_t kBlockUnit = 2u << 20;  // bytes: what is smaller is not steered, and blocks are multiples of it
inline constexpr std::uint32_t kGpus = 16, kBusBytes = 16;     // that a program names; on others it is not steered
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
  double quota = 0, reservation = 0;  // fractions of the GPU; 0: none
  std::uint64_t slo_us = 0;           // a request that takes longer is late; 0: none is
  char name[kNameBytes] = {};
  std::uint32_t gpus = 0;                // that it sees, of kGpus at most
  char gpu[kGpus][kBusBytes] = {};       // their places on the bus, by the program's numbers: 0000:81:00.0
};
/// The answer; the memory comes with it.
struct Welcome {
  std::uint32_t version = kVersion;
  std::uint32_t accepted = 0;
  std::uint32_t device = 0;  // which of the program's GPUs is the service's
  char reason[120] = {};
};

/// open: a launch goes at once, with the standing priority.  asks: each waits for its grant.
enum class Gate : std::uint32_t { open, asks };

struct Message {
  enum class What : std::uint32_t {
    launch,     // may it go?
    waits,      // the host waits for what it has launched
    failed,     // a launch was refused by the driver
    allocates,  // the host waits for a block: `number` times kBlockUnit
    frees,      // the block is no longer
    moved,      // what was commanded is done; number 0: it could not be, and the block is where it was
    wants,      // a call touches memory while some is on the host, and waits: `number` from 1
    has         // that call is with the driver
  } what = What::launch;
  std::uint32_t stream = 0;  // index into Memory::ended; of memory: the block
  std::uint32_t number = 0;  // of the launch in its stream, from 1
  std::uint32_t kernel = 0;  // index into Memory::kernels; of memory: the block's generation, which tells it from those before it
  std::uint32_t attempts = 0;  // how often it may be on the GPU: it can be stopped one time less; 0: once, it is plain
};

/// A function with the shape of a launch, or a graph as a whole: its nodes as the grid, and no registers.
struct KernelEntry {
  std::uint32_t registers = 0, static_shared_bytes = 0, shared_bytes = 0;
  std::uint32_t grid[3] = {}, block[3] = {};
  char name[kKernelNameBytes] = {};
};

/// All zero at first.  The program only adds to its counters, and the service only reads them.
struct Memory {
  alignas(64) std::atomic<std::uint32_t> said{0};   // messages so far.  Program, R/A; S beside service_sleeps
  alignas(64) std::atomic<std::uint32_t> heard{0};  // of them.  Service, R/A: the place is free
  alignas(64) std::atomic<Gate> gate{Gate::open};
  std::atomic<std::uint32_t> in_flight{0};  // launches of a stream that the driver may have before they are granted
  std::atomic<std::uint32_t> version{0};  // of the standing terms: odd while the service writes them, both of which are R/A
  std::atomic<std::int32_t> priority{0};  // standing: of launches that go at once, and of the program's streams
  std::array<std::atomic<std::uint64_t>, 4> tpcs{};  // of launches that go at once
  std::atomic<std::uint32_t> service_sleeps{0};  // service, S beside said
  std::atomic<std::uint32_t> beat{0};  // each time that the service looks at its sockets, ten times a second at least: it does not stand still
  alignas(64) std::atomic<std::uint64_t> launches{0}, graphs{0}, unsteered{0};
  std::atomic<std::uint64_t> held_ns{0};  // that threads waited for grants
  std::atomic<std::uint64_t> queued{0};   // launches that the driver got before their grants
  std::atomic<std::uint64_t> memory_cap{0};  // bytes, of all programs; 0: memory is not steered
  std::atomic<std::uint64_t> touches{0};     // calls that touch memory, other than launches
  std::atomic<std::uint64_t> passed{0};      // allocations and exports that could not be steered
  std::atomic<std::uint64_t> crowded{0};     // launches of kernels beyond kKernels, which share the last entry
  std::atomic<std::uint64_t> counted{0};     // calls that launch or touch memory and go to the driver as they are (driver_calls.txt)
  // What went to the host and came back, and how long host memory for it took, and to come to rest.
  std::atomic<std::uint64_t> out_bytes{0}, out_ns{0}, in_bytes{0}, in_ns{0}, pin_ns{0}, rest_ns{0};
  alignas(64) std::atomic<std::uint32_t> commanded{0};  // commands so far.  Service, R/A
  std::atomic<std::uint32_t> taken{0};                // of them.  Program, R/A: the place is free
  // Not 0: kernels are made persistent where the service asks for attempts; kSized: all attempts but the last keep to quotas.
  std::atomic<std::uint32_t> persistent{0};
  // Launches that could be stopped; kernels made persistent, and those that could not be; fat binaries whose PTX cannot be read.
  std::atomic<std::uint64_t> stoppable{0};
  std::atomic<std::uint32_t> made{0}, refused{0}, unreadable{0};
  // Into how many groups the driver parts the GPU's SMs, and the TPCs of each (groups.h); 0: the program has asked for no part yet.  Program, R/A.
  std::atomic<std::uint32_t> groups{0};
  std::array<std::atomic<std::uint16_t>, kSms> tpcs_of_group{};
  // By stream, for the GPU as well: the last launch that it has done (GPU, R/A), and the last that may go (service, R/A; S beside sleeps).
  struct alignas(4096) Words {
    std::atomic<std::uint32_t> ended[kStreams], granted[kStreams];
    // Of launches that can be stopped: the attempt that may go, or kAllAttempts of a launch that is done; what the service
    // orders of an attempt (hw/transform/ptx.h), and what the attempt says when it has left (Progress).  All R/A.
    std::atomic<std::uint32_t> resumed[kStreams];
    std::atomic<std::uint64_t> orders[kStreams];
    std::uint32_t reports[kStreams][64];
    struct alignas(32) Quota {  // as hw/transform/ptx.h has it
      std::atomic<std::uint32_t> workers;
    } quotas[kStreams][kSms];  // of the launch that is on the GPU: workers that an SM may hold
  } words;
  Terms terms[kStreams];                         // of the last launch granted
  std::atomic<std::uint32_t> sleeps[kStreams];   // not 0: a thread sleeps until the next grant.  Program, S beside granted
  Message messages[kMessageRing];                // that with number n at n % kMessageRing
  KernelEntry kernels[kKernels];
  MemoryCommand commands[kCommands];  // that with number n at n % kCommands
  std::atomic<std::uint32_t> attempts[kKernels];  // that the service asks for; 0: it is to be launched plainly
};
/// An attempt of a launch by its number, as in Words::resumed.
inline constexpr std::uint32_t kAllAttempts = kMostAttempts + 1;
constexpr std::uint32_t attempt_of(std::uint32_t launch, std::uint32_t attempt) { return launch * 8 + attempt; }

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr const char* kSocketVariable = "CORUN_SERVICE";

}  // namespace corun::live
