// How many times as long as idle an access waits for DRAM and for L2, by their use.  The contention model's
// form, to which `sim calibrate` fits what it measures.
#pragma once

#include <algorithm>
#include <cmath>

namespace corun {

/// `factor`: what it grows by, reads' and writes' by their shares.  `backlog`: what finds the queues full.
inline double dram_wait(double use, double factor, double full_use, double backlog) {
  const double queued = std::min(use, full_use);
  return 1 + factor * queued / std::sqrt(1 - queued) + backlog;
}
/// L2 hits wait for what finds DRAM's queues full, too: as many ns.
inline double l2_wait(double use, double factor, double dram_over_l2, double backlog) {
  return 1 + factor * use / std::sqrt(1 - use) + dram_over_l2 * backlog;
}
inline double dram_backlog(double use, double factor) { return factor * use / (1 - use); }

}  // namespace corun
