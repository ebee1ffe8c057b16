// Every limit and deadline that the service keeps.  docs/trust.md lists them; `limits_test` holds the page to this file.
// What the shared page has room for is in wire.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace corun::live::limits {

inline constexpr std::uint64_t kFileBytes = 16 << 10;  // of a service's file `environment`; a longer one is refused

// Who may come
inline constexpr std::size_t kPrograms = 128;     // that have joined; a further one is refused, and told so
inline constexpr std::size_t kConnections = 192;  // open at once, those who ask for the state among them; a further one is closed
inline constexpr auto kHello = std::chrono::seconds(1);         // until a connection has said what it wants; then it is closed
inline constexpr auto kStateTaken = std::chrono::seconds(1);    // until who asked for the state has taken it; then it is closed
inline constexpr auto kAcceptAgain = std::chrono::milliseconds(100);  // after the system had no room for a connection
inline constexpr std::uint32_t kUnfinished = 65536;  // launches of a program, asked for and not ended; who asks for more is let go

// What others wait for
inline constexpr auto kOnGpu = std::chrono::seconds(5);  // of a launch; if it takes longer, others wait for it no longer
inline constexpr auto kMove = std::chrono::seconds(5);   // until a program has moved a block of memory, after the order or the block before it
inline constexpr auto kMoveGib = std::chrono::seconds(2);  // more for each GiB that it has been ordered to move; who takes longer is let go

// Files that are written while it runs
inline constexpr auto kSayAgain = std::chrono::seconds(60);  // after a file could not be written, until that is said again

}  // namespace corun::live::limits
