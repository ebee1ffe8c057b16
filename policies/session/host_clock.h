// When the host of a client goes on, where it stands still now and then (Client::host_stalls).  It begins at a place of that
// record which the run's seed and the client's name give, and repeats it.  While it stands it does nothing and takes note of
// nothing: what it is at takes as much longer.
//
// Leaves out: that the hosts of one machine may stand still together.
#pragma once

#include <cstdint>

#include "traces/model/host_stalls.h"
#include "traces/model/trace.h"

namespace corun {

class HostClock {
 public:
  HostClock() = default;  // it never stands still
  /// As long as the client is.
  HostClock(const Client& client, std::uint64_t seed);

  /// The first instant at which it goes and has gone for `work` since `from`.  A stall from a to b: it goes at any instant before
  /// a, and at b.
  Time after(Time from, Time work = {}) const;

  /// Of the record, at the run's beginning.
  Time place() const { return place_; }

 private:
  const HostStalls* stalls_ = nullptr;  // null: none
  Time place_{};
  Time goes_{};  // of the time observed
};

}  // namespace corun
