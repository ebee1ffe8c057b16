#include "hw/calibrate/loaded_latency.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "traces/model/memory_waits.h"

namespace corun::hw {
namespace {

constexpr std::size_t kLoads = 4;
constexpr double kFull = 0.98;       // of the most use of a load
constexpr double kMostL2Use = 0.95;  // for which the form was made

double square(double x) { return x * x; }

class QueueingFit {
 public:
  QueueingFit(std::span<const LoadedLatency> all, double dram_over_l2)
      : all_(all.begin(), all.end()), dram_over_l2_(dram_over_l2) {
    std::array<double, kLoads> most{};
    for (const LoadedLatency& at : all_) most[index(at)] = std::max(most[index(at)], at.use);
    // What a load does at most is a use of 1 to the model, of which rates of reads and writes alone are no
    // exact measure: writes go to 1.1 of theirs, copies to 0.95.
    for (LoadedLatency& at : all_)
      if (at.use > 0) at.use /= most[index(at)];
  }

  /// Squares of what the logarithms are off by, the mean of each load, added up.
  double off_by(const QueueingFactors& f) const {
    std::array<double, kLoads> sum{}, count{};
    for (const LoadedLatency& at : all_) {
      if (at.load == LoadedLatency::Load::l2_reads && at.l2_use > kMostL2Use) continue;
      sum[index(at)] += at.use >= kFull ? best_off_by(f, at) : off_by(f, at, dram_backlog(at.use, f.backlog));
      ++count[index(at)];
    }
    double all = 0;
    for (std::size_t i = 0; i < kLoads; ++i)
      if (count[i] > 0) all += sum[i] / count[i];
    return all;
  }

 private:
  static std::size_t index(const LoadedLatency& at) { return static_cast<std::size_t>(at.load); }

  double off_by(const QueueingFactors& f, const LoadedLatency& at, double backlog) const {
    const double dram = dram_wait(at.use, f.read + f.write * at.writes, f.full_use, backlog);
    const double l2 = corun::l2_wait(std::min(at.l2_use, kMostL2Use), f.l2, dram_over_l2_, backlog);
    const double dram_off =
        at.use > 0 ? std::log(dram / at.dram) : 0;  // DRAM's path beside L2's own load is no queue of DRAM
    return square(dram_off) + square(std::log(l2 / at.l2));
  }
  double best_off_by(const QueueingFactors& f, const LoadedLatency& at) const {
    double low = 0, high = std::max(at.dram, at.l2);
    for (int i = 0; i < 50; ++i) {
      const double third = (high - low) / 3;
      if (off_by(f, at, low + third) < off_by(f, at, high - third))
        high -= third;
      else
        low += third;
    }
    return off_by(f, at, (low + high) / 2);
  }

  std::vector<LoadedLatency> all_;
  double dram_over_l2_;
};

}  // namespace

LoadedLatency as_the_model_counts(LoadedLatency::Load load, double bytes_per_second, const MemoryRates& r) {
  using Kind = LoadedLatency::Load;
  LoadedLatency at;
  at.load = load;
  if (load == Kind::l2_reads) {
    at.l2_use = bytes_per_second / r.l2_read;
    return at;
  }
  const double read = load == Kind::reads ? 1 : load == Kind::writes ? 0 : 0.5;
  const double reading = read * bytes_per_second / r.read, writing = (1 - read) * bytes_per_second / r.write;
  at.use = reading + writing;
  at.writes = at.use > 0 ? writing / at.use : 0;
  at.l2_use = bytes_per_second * (read / r.l2_read + (1 - read) / r.l2_write);
  return at;
}

/// Each factor in turn a step up or down, as long as that helps; then shorter steps.
QueueingFactors fit_queueing(std::span<const LoadedLatency> all, double dram_over_l2) {
  const QueueingFit fit(all, dram_over_l2);
  QueueingFactors best;
  double least = fit.off_by(best);
  const auto stepped = [](QueueingFactors f, int which, double by) {
    switch (which) {
      case 0:
        f.read *= by;
        break;
      case 1:
        f.write *= by;
        break;
      case 2:
        f.full_use = 1 - (1 - f.full_use) * by;
        break;
      case 3:
        f.backlog *= by;
        break;
      default:
        f.l2 *= by;
    }
    return f;
  };
  for (double step = 0.5; step > 1e-4;) {
    bool better = false;
    for (int which = 0; which < 5; ++which)
      for (const double by : {1 + step, 1 / (1 + step)}) {
        const QueueingFactors tried = stepped(best, which, by);
        if (tried.full_use < 0.3 || tried.full_use > 0.999) continue;
        const double off = fit.off_by(tried);
        if (off >= least) continue;
        best = tried, least = off, better = true;
        break;
      }
    if (!better) step /= 2;
  }
  return best;
}

}  // namespace corun::hw
