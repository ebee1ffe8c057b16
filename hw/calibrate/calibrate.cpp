#include "hw/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "hw/calibrate/jobs.h"

namespace corun::hw {
namespace {

struct Job {
  const char* name;
  void (*run)(Calibrating&);
};
constexpr Job kJobs[] = {{"limits", measure_limits},
                         {"placement", measure_placement},
                         {"GPCs", measure_gpcs},
                         {"dispatch", measure_dispatch},
                         {"task slots", measure_task_slots},
                         {"channels", measure_channels},
                         {"launches", measure_launches},
                         {"gaps", measure_gaps},
                         {"launches taken back", measure_evicted},
                         {"persistent workers", measure_workers},
                         {"progress reads", measure_progress},
                         {"stop flags", measure_stop_flags},
                         {"copies", measure_copies},
                         {"DRAM", measure_dram},
                         {"latencies", measure_latencies},
                         {"L2", measure_l2},
                         {"one SM", measure_one_sm},
                         {"loaded memory", measure_queueing},
                         {"FP64", measure_fp64},
                         {"clocks", measure_clocks},
                         {"turns", measure_turns},
                         {"MPS", measure_mps}};

/// A kernel of one thread that sees pauses shares the GPU with another context.
void check_alone(Bench& bench) {
  if (const std::vector<Pause> pauses = bench.pauses(30e3); !pauses.empty())
    throw CardInUse(fmt::format("a kernel was interrupted {} times in 30 ms: another program computes on it",
                                pauses.size()));
}

/// Rates that an idle GPU repeats closely.
constexpr double kMostSpread = 0.1;
constexpr const char* kSteady[] = {"dispatch_interval_ns", "dram_read_bytes_per_second",
                                   "l2_read_bytes_per_second", "sm_read_bytes_per_second"};

/// A bench takes a quarter, and jobs copy 64 MiB of it.
constexpr std::uint64_t kLeastFreeMib = 256;

}  // namespace

void calibrate(Driver& driver, Compiler& compiler, const Gpu& like, const CalibrationOptions& options,
               Constants& found) {
  static const std::atomic<bool> never{false};
  if (const std::uint64_t mib = driver.memory_free() >> 20; mib < kLeastFreeMib)
    throw CardInUse(fmt::format("{} MiB of its memory are free, and {} are needed", mib, kLeastFreeMib));
  Bench bench(driver, compiler, options.interrupted != nullptr ? *options.interrupted : never);
  bench.check_interrupt();
  bench.raise_clock();
  Calibrating c{bench, found, like, options.further_context, options.sms_under_mps};
  double done = 0;
  for (const Job& job : kJobs) {
    options.progress(job.name, done++ / static_cast<double>(std::size(kJobs)));
    bench.check_interrupt();
    check_alone(bench);
    job.run(c);
  }
  for (const Constant& k : found.all())
    if (k.spread > kMostSpread && std::ranges::find(kSteady, k.key) != std::end(kSteady))
      throw CardInUse(fmt::format("{} varies by {:.0f} % from one repetition to the next", k.key, 100 * k.spread));
  found.drop_unsure();
}

}  // namespace corun::hw
