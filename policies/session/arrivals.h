// When requests arrive: one open-loop generator per client.  Closed loops have none; their next request
// follows the previous one's end.
#pragma once

#include <boost/random/exponential_distribution.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <cstdint>

#include "traces/model/trace.h"

namespace corun {

class ArrivalProcess {
 public:
  /// The run's seed and the client's name pick the random numbers, so that a client sees the same arrivals
  /// whoever runs beside it.  Boost's distributions give the same numbers everywhere.
  /// A replica has those of its server that are dealt to it.  `client` must outlive the object.
  ArrivalProcess(const Client& client, std::uint64_t seed);

  /// Intended time of the next arrival, kNever when there are no more.
  Time next() const { return next_; }
  void advance();

 private:
  void draw();

  const Arrivals& arrivals_;
  std::uint32_t among_;  // replicas
  boost::random::mt19937_64 engine_;
  boost::random::exponential_distribution<double> gap_s_;
  std::uint64_t count_ = 0;
  Time next_ = kNever;
};

}  // namespace corun
