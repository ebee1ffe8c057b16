// The jobs of a calibration, in the order in which they run.  Each adds the constants that it finds.
#pragma once

#include <functional>
#include <memory>

#include "hw/calibrate/calibrate.h"
#include "hw/calibrate/constants.h"
#include "traces/model/gpu.h"

namespace corun::hw {

/// What a job works with.  `like`: the described GPU from which is taken what cannot be measured.
struct Calibrating {
  Bench& bench;
  Constants& found;
  const Gpu& like;
  std::function<std::unique_ptr<Driver>()> further_context;
  SmsUnderMps sms_under_mps;
};

/// Of each TPC, numbered in the order of their first TPCs, where blocks of a cluster are on one GPC.  `clusters`: the
/// SMs of each.  Empty where they do not tell, and then `why`.
std::vector<double> gpc_of_tpcs(const std::vector<std::vector<std::uint32_t>>& clusters, std::uint32_t sms,
                                std::uint32_t sms_per_tpc, std::string& why);

/// How many SMs an active thread percentage leaves a client of MPS: `least` at the least, else multiples of `step`.
struct MpsGranularity {
  std::uint32_t least = 0, step = 0;  // 0: no such rule gives what was seen
};
MpsGranularity mps_granularity(const std::vector<double>& percentages, const std::vector<std::uint32_t>& seen,
                               std::uint32_t sms);

void measure_limits(Calibrating& c);
void measure_placement(Calibrating& c);
void measure_gpcs(Calibrating& c);
void measure_mps(Calibrating& c);
void measure_dispatch(Calibrating& c);
void measure_task_slots(Calibrating& c);
void measure_channels(Calibrating& c);

void measure_launches(Calibrating& c);
void measure_gaps(Calibrating& c);
void measure_evicted(Calibrating& c);

void measure_workers(Calibrating& c);
void measure_progress(Calibrating& c);
void measure_stop_flags(Calibrating& c);
void measure_turns(Calibrating& c);
void measure_copies(Calibrating& c);

void measure_dram(Calibrating& c);
void measure_latencies(Calibrating& c);
void measure_l2(Calibrating& c);
void measure_one_sm(Calibrating& c);
void measure_fp64(Calibrating& c);
void measure_clocks(Calibrating& c);
void measure_queueing(Calibrating& c);

}  // namespace corun::hw
