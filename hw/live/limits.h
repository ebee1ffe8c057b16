// Every limit and deadline that the service and the programs that it steers keep, but for the room of the shared page (wire.h)
// and waits for another program (policies/service/terms.h).
// docs/trust.md lists them; a test holds the two together.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "policies/service/terms.h"

namespace corun::live::limits {

// Of files
inline constexpr std::uint64_t kFileBytes = 16 << 10;  // of the file `environment`; a longer one is refused

// Of clients that come
inline constexpr std::size_t kPrograms = 128;  // that have joined; a further one is refused, and told so
inline constexpr std::size_t kConnections = 192;  // at once; a further one is closed
inline constexpr auto kHello = std::chrono::seconds(1);  // until a connection says what it wants; else it is closed
inline constexpr auto kStateTaken = std::chrono::seconds(1);  // until who asked for the state has taken it; else the connection is closed
inline constexpr auto kAcceptAgain = std::chrono::milliseconds(100);  // without a new connection, after the system had no room for one
inline constexpr std::uint32_t kUnfinished = 65536;  // launches of a program that have not ended; a program that asks for more is let go

// Of messages
inline constexpr std::uint32_t kMessages = 200;  // of joins, leaves and refusals within `kMessagesIn`; further ones are counted
inline constexpr auto kMessagesIn = std::chrono::seconds(10);  // in which so many are said
inline constexpr auto kSayAgain = std::chrono::seconds(60);  // between two messages that a file cannot be written

// Of waits for the service
inline constexpr auto kFirstAnswer = std::chrono::seconds(2);  // of the service, in a program's first call of the driver; then the program is not steered
inline constexpr auto kStandsStill = std::chrono::seconds(2);  // without a heartbeat of the service; then what waits for it goes
inline constexpr auto kLookAtService = std::chrono::milliseconds(20);  // between looks of a program that waits, whether the service is there
inline constexpr auto kRejoin = std::chrono::seconds(1);  // until a program asks again for a service that has gone, and twice as long each time
inline constexpr auto kRejoinMost = std::chrono::seconds(30);  // at most, between two such times
inline constexpr auto kContextEnds = std::chrono::seconds(1);  // for launches that the GPU still has when their context is destroyed
inline constexpr auto kRest = std::chrono::milliseconds(500);  // that a program may take to come to rest before its memory moves: a copy of 20 GiB
inline constexpr std::uint32_t kSpins = 20000;  // looks without a pause, a millisecond or so, before a thread sleeps or looks after the service

}  // namespace corun::live::limits
