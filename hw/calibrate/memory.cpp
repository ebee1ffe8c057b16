// Rates and latencies of DRAM and L2, of one SM, and what clocks lose beside others.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "hw/calibrate/jobs.h"

namespace corun::hw {
namespace {

constexpr double kBytesPerSecond = 1e6;  // of bytes per us
constexpr double kChunk = 4096;
constexpr const char* kContention = "contention";

Load memory_client(const char* kernel, double amount, std::uint32_t per_sm, DevicePointer at,
                     std::uint64_t bytes) {
  Load c;
  c.kernel = kernel, c.amount = amount, c.per_sm = per_sm;
  c.data = at, c.bytes = bytes;
  return c;
}
Load reads(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_read", 4 * kChunk, per_sm, at, bytes);
}
Load writes(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_write", 4 * kChunk, per_sm, at, bytes);
}
Load copies(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_copy", 8 * kChunk, per_sm, at, bytes);
}
/// Random sectors of 32 bytes.
Load gathers(std::uint32_t per_sm, DevicePointer at, std::uint64_t bytes) {
  return memory_client("client_gather", 32.0 * 32 * 32, per_sm, at, bytes);
}
Load on(Load c, std::vector<std::uint32_t> sms) {
  c.sms = std::move(sms);
  return c;
}
Samples times(Samples samples, double factor) {
  for (double& s : samples) s *= factor;
  return samples;
}
/// The samples with the highest median.
Samples best(const std::vector<Samples>& all) {
  return *std::max_element(all.begin(), all.end(),
                           [](const Samples& a, const Samples& b) { return median(a) < median(b); });
}
/// A set of this many sixtieths of L2.
std::uint64_t part_of_l2(const Bench& bench, std::uint64_t sixtieths) {
  return bench.facts().l2_bytes * sixtieths / 60 / (1 << 16) * (1 << 16);
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
                                     "kernels that stream 16-byte loads, 4 or 8 blocks of 256 threads an SM");
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
  Load chase;
  chase.kernel = "client_chase", chase.amount = 16, chase.threads = 32, chase.data = at, chase.sms = {0};
  const auto load_ns = [&](std::uint64_t bytes, double settle_us) {
    const auto lines = static_cast<std::uint32_t>(bytes / 128);
    bench.make_chain(at, lines, 128);
    chase.bytes = bytes;
    Samples ns;
    for (const double per_us : bench.rates(chase, 2000, settle_us)) ns.push_back(1e3 / per_us);
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
                                  "the least of sets of 8 to 36 sixtieths of L2, 8 blocks of 256 threads an SM");
  c.found.add(kContention, "l2_write_bytes_per_second", written, "in sets of 8 to 36 sixtieths of L2");
  Samples ratio;
  for (const double g : gathered) ratio.push_back(rate / g);
  c.found.add(kContention, "l2_sector_cost_ratio", ratio,
              fmt::format("random sectors from L2 at {:.2f} TB/s, against l2_read_bytes_per_second",
                          median(gathered) * 1e-12));
  const auto share = [&](const char* key, std::uint64_t described) {
    if (described != 0 && c.like.l2_bytes != 0)
      c.found.set(kContention, key,
                  static_cast<double>(described * bench.facts().l2_bytes / c.like.l2_bytes),
                  fmt::format("assumed: the same share of L2 as described for {}", c.like.name));
  };
  share("l2_own_bytes", c.like.contention.l2_own_bytes);
  share("l2_shared_bytes", c.like.contention.l2_shared_bytes);
  share("l2_first_loss_bytes", c.like.contention.l2_first_loss_bytes);
  share("l2_dirty_bytes", c.like.contention.l2_dirty_bytes);
}

void measure_one_sm(Calibrating& c) {
  Bench& bench = c.bench;
  const DevicePointer at = bench.buffer();
  const std::uint64_t bytes = part_of_l2(bench, 12);
  const auto rate = [&](const char* key, const Load& client, const char* method) {
    c.found.add(kContention, key, times(bench.rates(on(client, {0}), 300, 1500), kBytesPerSecond), method);
  };
  rate("sm_read_bytes_per_second", reads(8, at, bytes), "one SM with 8 blocks of 256 threads reads L2");
  rate("sm_write_bytes_per_second", writes(8, at, bytes), "one SM with 8 blocks of 256 threads writes L2");
  rate("sm_sector_bytes_per_second", gathers(8, at, bytes),
       "one SM with 8 blocks of 256 threads gathers random sectors from L2");
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
