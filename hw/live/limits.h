// Every limit and deadline that the service and the programs that it steers keep.  What the shared page has room for is in wire.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace corun::live::limits {

// Client: what a program waits for, and then goes on without
inline constexpr auto kFirstAnswer = std::chrono::seconds(2);  // of the service, in cuInit: that it takes the connection and says who is welcome
inline constexpr auto kStandsStill = std::chrono::seconds(2);  // without a beat of the service: it stands still, and what waits for it goes
inline constexpr auto kLookAtService = std::chrono::milliseconds(20);   // between looks whether it is there and beats
inline constexpr auto kRejoin = std::chrono::seconds(1);       // until a program asks again for a service that has gone; twice as long each time,
inline constexpr auto kRejoinMost = std::chrono::seconds(30);  // but no longer than this
inline constexpr auto kContextEnds = std::chrono::seconds(1);  // for launches that the GPU still has when their context is destroyed
inline constexpr auto kRest = std::chrono::milliseconds(500);  // that a program may take to come to rest before its memory moves: a copy of 20 GiB
inline constexpr std::uint32_t kSpins = 20000;  // looks without a pause, a millisecond or so, before a thread sleeps or looks after the service

}  // namespace corun::live::limits
