// The jobs of a calibration, in the order in which they run.  Each adds the constants that it finds.
#pragma once

#include <functional>
#include <memory>

#include "hw/calibrate/constants.h"
#include "traces/model/gpu.h"

namespace corun::hw {

/// What a job works with.  `like`: the described GPU from which is taken what cannot be measured.
struct Calibrating {
  Bench& bench;
  Constants& found;
  const Gpu& like;
  std::function<std::unique_ptr<Driver>()> further_context;
};

void measure_limits(Calibrating& c);
void measure_placement(Calibrating& c);
void measure_dispatch(Calibrating& c);
void measure_task_slots(Calibrating& c);
void measure_channels(Calibrating& c);

void measure_launches(Calibrating& c);
void measure_gaps(Calibrating& c);

void measure_workers(Calibrating& c);
void measure_progress(Calibrating& c);
void measure_stop_flags(Calibrating& c);
void measure_turns(Calibrating& c);
void measure_copies(Calibrating& c);

void measure_dram(Calibrating& c);
void measure_latencies(Calibrating& c);
void measure_l2(Calibrating& c);
void measure_one_sm(Calibrating& c);
void measure_clocks(Calibrating& c);
void measure_launches_beside(Calibrating& c);

}  // namespace corun::hw
