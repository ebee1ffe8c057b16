// Rates and latencies of DRAM and L2, of one SM, and what clocks lose beside others.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "hw/calibrate/jobs.h"
#include "hw/calibrate/memory_loads.h"

namespace corun::hw {
namespace {

Samples times(Samples samples, double factor) {
  for (double& s : samples) s *= factor;
  return samples;
}
/// The samples with the highest median.
Samples best(const std::vector<Samples>& all) {
  return *std::max_element(all.begin(), all.end(),
                           [](const Samples& a, const Samples& b) { return median(a) < median(b); });
}

}  // namespace

void measure_dram(Calibrating& c) {
  Bench& bench = c.bench;
  const DevicePointer at = bench.buffer();
  const std::uint64_t bytes = bench.buffer_bytes();
  const Samples read = times(best({bench.rates(reads(4, at, bytes), 600), bench.rates(reads(8, at, bytes), 600)}),
                             kBytesPerSecond),
                write = times(best({bench.rates(writes(4, at, bytes), 600),
                                    bench.rates(writes(8, at, bytes), 600)}),
                              kBytesPerSecond),
                copy = times(best({bench.rates(copies(2, at, bytes), 600), bench.rates(copies(4, at, bytes), 600)}),
                             kBytesPerSecond);
  const double highest = c.found.add(kContention, "dram_read_bytes_per_second", read,
                                     "kernels that stream 16-byte loads, 4 blocks of 256 threads an SM or up to 8");
  c.found.set("memory", "dram_bytes_per_second", highest, "as dram_read_bytes_per_second");
  Samples both;
  for (std::size_t i = 0; i < copy.size(); ++i) {
    const double half = copy[i] / 2, implied = half / std::max(0.1, 1 - half / highest);
    both.push_back(2 / (1 / implied + 1 / write[i]));
  }
  c.found.add(kContention, "dram_write_bytes_per_second", both,
              fmt::format("harmonic mean of writes alone, {:.2f} TB/s, and of what copies at {:.2f} TB/s leave "
                          "for writes beside their reads",
                          median(write) * 1e-12, median(copy) * 1e-12));
}

void measure_latencies(Calibrating& c) {
  Bench& bench = c.bench;
  const DevicePointer at = bench.buffer();
  const auto load_ns = [&](std::uint64_t bytes, double settle_us) {
    const auto lines = static_cast<std::uint32_t>(bytes / 128);
    bench.make_chain(at, lines, 128);
    Samples ns;
    for (const double per_us : bench.rates(on(chase(at, bytes), {0}), 2000, settle_us))
      ns.push_back(1e3 / per_us);
    return ns;
  };
  const std::uint64_t small = std::bit_floor(bench.facts().l2_bytes / 15), large = bench.buffer_bytes() / 2;
  const double dram = c.found.add(kContention, "dram_latency_ns", load_ns(large, 400),
                                  fmt::format("dependent loads of one thread in {} MiB", large >> 20));
  const Samples hits = load_ns(small, 20e3);
  c.found.set(kContention, "dram_over_l2_latency_ratio", dram / median(hits),
              fmt::format("{:.0f} ns over the {:.0f} ns of dependent loads in {} MiB", dram, median(hits),
                          small >> 20));
  Load scatter = memory_client("client_scatter", 16, 1, at, large);
  scatter.sms = {0};
  Samples wait;
  const double warps = scatter.threads / 32.0;
  for (const double per_us : bench.rates(scatter, 2000))
    wait.push_back(1e3 * warps / per_us * median(hits) / dram);
  c.found.add(kContention, "l2_wait_ns", wait,
              "a dependent random load of all threads of a block from DRAM, over dram_over_l2_latency_ratio");
}

void measure_l2(Calibrating& c) {
  Bench& bench = c.bench;
  const DevicePointer at = bench.buffer();
  Samples least, written;
  for (const std::uint64_t sixtieths : {8, 12, 16, 24, 36}) {
    const std::uint64_t bytes = part_of_l2(bench, sixtieths);
    const Samples read = times(bench.rates(reads(8, at, bytes), 400, 600), kBytesPerSecond);
    if (least.empty() || median(read) < median(least)) least = read;
    for (const double rate : times(bench.rates(writes(8, at, bytes), 400, 600, 3), kBytesPerSecond))
      written.push_back(rate);
  }
  const Samples gathered =
      times(bench.rates(gathers(8, at, part_of_l2(bench, 12)), 400, 600), kBytesPerSecond);
  const double rate = c.found.add(kContention, "l2_read_bytes_per_second", least,
                                  "the least of sets of 8 to 36 sixtieths of L2, up to 8 blocks of 256 threads an SM");
  c.found.add(kContention, "l2_write_bytes_per_second", written, "in sets of 8 to 36 sixtieths of L2");
  Samples ratio;
  for (const double g : gathered) ratio.push_back(rate / g);
  c.found.add(kContention, "l2_sector_cost_ratio", ratio,
              fmt::format("random sectors from L2 at {:.2f} TB/s, against l2_read_bytes_per_second",
                          median(gathered) * 1e-12));
}

void measure_one_sm(Calibrating& c) {
  Bench& bench = c.bench;
  const DevicePointer at = bench.buffer();
  const std::uint64_t bytes = part_of_l2(bench, 12);
  const auto rate = [&](const char* key, const Load& client, const char* method) {
    c.found.add(kContention, key, times(bench.rates(on(client, {0}), 300, 1500), kBytesPerSecond), method);
  };
  rate("sm_read_bytes_per_second", reads(8, at, bytes), "one SM with up to 8 blocks of 256 threads reads L2");
  rate("sm_write_bytes_per_second", writes(8, at, bytes), "one SM with up to 8 blocks of 256 threads writes L2");
  rate("sm_sector_bytes_per_second", gathers(8, at, bytes),
       "one SM with up to 8 blocks of 256 threads gathers random sectors from L2");
}

/// FP64 multiply-adds that an SM starts in a cycle.  A loop reaches nine tenths of it, and it is a power of
/// two.
void measure_fp64(Calibrating& c) {
  Load fp64;
  fp64.kernel = "client_fp64", fp64.amount = 1024, fp64.per_sm = 2;
  Samples lanes;
  for (int i = 0; i < 3; ++i) {
    const LoadRate rate = c.bench.run_together({fp64}, 1000)[0];
    if (rate.mhz > 0) lanes.push_back(32 * rate.per_us / (rate.mhz * c.bench.facts().sms));
  }
  const double found = median(lanes);
  if (found < 1)
    return c.found.missing("sm", "fp64_units", fmt::format("{:.2f} multiply-adds a cycle", found));
  c.found.set(
      "sm", "fp64_units", std::exp2(std::round(std::log2(found))),
      fmt::format("{:.1f} multiply-adds a cycle and SM, 16 warps on each, to the nearest power of two",
                  found));
}

void measure_clocks(Calibrating& c) {
  Bench& bench = c.bench;
  Load fma, mma;
  fma.kernel = "client_fma", fma.per_sm = 4;
  mma.kernel = "client_mma", mma.per_sm = 2;
  Samples free, loaded;
  for (int i = 0; i < 3; ++i) free.push_back(bench.run_together({fma}, 20e3)[0].mhz);
  for (int i = 0; i < 8; ++i) {
    const double mhz = bench.run_together({mma}, 100e3)[0].mhz;
    if (i >= 3) loaded.push_back(mhz);  // the clock has settled
  }
  const double highest = 1e-3 * bench.facts().sm_clock_khz;
  Samples ratio;
  for (const double mhz : loaded) ratio.push_back(std::max(1.0, highest / mhz));
  c.found.add(kContention, "tensor_clock_ratio", ratio,
              fmt::format("{:.0f} MHz rated, {:.0f} under FMAs, {:.0f} under mma.sync on all SMs", highest,
                          median(free), median(loaded)));
}

}  // namespace corun::hw
