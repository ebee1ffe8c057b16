// When did the host of a recorded program stand still?  Told by requests of one kind, of which the host takes far longer over a
// few than over the others: a request that is longer by itself is of another kind, as it makes other calls.
//
// Leaves out: programs that mark no requests, what a host that waits for the GPU or for requests does not notice, and stalls that a recording of few requests
// cannot tell from their usual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/kineto_records.h"
#include "traces/model/host_stalls.h"

namespace corun {

/// Of the host's thread; requests of one `kind` are expected to do the same.
struct WatchedRequest {
  std::uint64_t kind = 0;
  kineto::Nanoseconds start{}, end{};
};

struct FoundStalls {
  HostStalls record;
  std::size_t requests = 0, of = 0;  // in which they were, of those that could be compared
  kineto::Nanoseconds together{};
  std::string in_words() const;
};

/// The requests in order, one behind the other; `calls` of their thread, in order.  Nothing: the host never stood still.
std::optional<FoundStalls> find_host_stalls(const std::vector<WatchedRequest>& requests, const std::vector<kineto::Call>& calls);

/// A range of the program's own.
struct WatchedRange {
  const void* name = nullptr;  // ranges of one name have the same
  std::uint32_t thread = 0;
  kineto::Nanoseconds start{}, end{};
  bool records = true;  // kernels were recorded when it began
  std::size_t segment = 0, last_segment = 0;  // of the recording, in which it begins and ends
};

/// Requests are the outer ones of the ranges that occur often, on the thread that has most of them.  Those of
/// segments with records and without are of different kinds, and so are those while no calls were heard, of
/// which all is taken for the host's.  One in which the tool began or ended to record is none, nor is the
/// first after that: what it does then takes the host time too.  `calls` in order.
std::optional<FoundStalls> stalls_in_ranges(std::vector<WatchedRange> ranges, std::vector<kineto::Call> calls);

}  // namespace corun
