// How waits for memory grow with its use.
#include "hw/calibrate/loaded_latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "hw/calibrate/jobs.h"
#include "hw/calibrate/memory_loads.h"

namespace corun::hw {
namespace {

constexpr int kCurves = 5;
constexpr std::uint32_t kProbes = 8;  // SMs with a lone load

/// SMs spread over the GPU.
std::vector<std::uint32_t> spread(std::uint32_t sms, std::uint32_t first) {
  std::vector<std::uint32_t> some;
  for (std::uint32_t i = 0; i < kProbes; ++i) some.push_back((first + i * sms / kProbes + i % 2) % sms);
  return some;
}

/// What the loads of this file work on: their half of the buffer, and chains for lone loads in the other.
class Memory {
 public:
  explicit Memory(Bench& bench) : bench_(bench), at_(bench.buffer()), half_(bench.buffer_bytes() / 2) {
    const std::uint64_t cold_bytes = std::bit_floor(half_ / 2);
    const auto hot_stride = static_cast<std::uint32_t>(std::min(std::uint64_t{1} << 20, half_ / 64) + 384);
    bench.make_chain(at_ + half_, static_cast<std::uint32_t>(cold_bytes / 128), 128);
    bench.make_chain(at_ + half_ + cold_bytes, 16, hot_stride);
    const std::uint32_t sms = bench.facts().sms;
    from_dram_ = on(chase(at_ + half_, cold_bytes), spread(sms, 0));
    from_l2_ = on(chase(at_ + half_ + cold_bytes, 16ull * hot_stride, hot_stride), spread(sms, sms / 16));
  }
  Load read(std::uint32_t per_sm) const { return reads(per_sm, at_, half_); }
  Load write(std::uint32_t per_sm) const { return writes(per_sm, at_, half_); }
  Load copy(std::uint32_t per_sm) const { return copies(per_sm, at_, half_); }
  Load read_l2(std::uint32_t per_sm) const { return reads(per_sm, at_, part_of_l2(bench_, 8)); }

  struct Met {
    double dram_ns = 0, l2_ns = 0, bytes_per_second = 0;
  };
  /// Lone loads beside a load, if there is one.
  Met beside(const Load* load) const {
    std::vector<Load> clients{from_dram_, from_l2_};
    if (load != nullptr) clients.push_back(*load);
    const std::vector<LoadRate> rates = bench_.run_together(clients, 2000, 500);
    const auto ns = [&](std::size_t i) { return 1e3 * kProbes / std::max(1e-9, rates[i].per_us); };
    return {ns(0), ns(1), load != nullptr ? rates[2].per_us * kBytesPerSecond : 0};
  }

 private:
  Bench& bench_;
  DevicePointer at_;
  std::uint64_t half_;
  Load from_dram_, from_l2_;
};

struct Case {
  LoadedLatency::Load kind;
  Load load;
};

/// Each kind of load from a third of what its memory does up to all, and as fast as two to six blocks an SM
/// go.
std::vector<Case> cases(const Bench& bench, const Memory& memory, const MemoryRates& rates, double dram_us) {
  using Kind = LoadedLatency::Load;
  std::vector<Case> all;
  const auto add = [&](Kind kind, const Load& load, double most, double access_us, double bytes) {
    // Two blocks an SM whose warps idle after each chunk, longer than what a chunk takes.
    const double chunks =
        load.per_sm * bench.facts().sms * load.threads / 32.0 * bytes / (most / kBytesPerSecond);
    for (const double use : {0.35, 0.5, 0.65, 0.75, 0.85, 0.92, 0.97}) {
      Load throttled = load;
      throttled.idle_cycles = std::max(1, static_cast<std::int32_t>(bench.cycles(chunks / use - access_us)));
      all.push_back({kind, throttled});
    }
  };
  add(Kind::reads, memory.read(2), rates.read, 2.7 * dram_us, kChunkBytes);
  add(Kind::writes, memory.write(2), rates.write, 0.05, kChunkBytes);
  const double copied = 2 / (1 / rates.read + 1 / rates.write);
  add(Kind::copies, memory.copy(2), copied, 2.7 * dram_us, 2 * kChunkBytes);
  add(Kind::l2_reads, memory.read_l2(2), rates.l2_read, 1.2 * dram_us, kChunkBytes);
  for (const std::uint32_t per_sm : {2u, 4u, 6u}) {
    all.push_back({Kind::reads, memory.read(per_sm)});
    all.push_back({Kind::writes, memory.write(per_sm)});
    all.push_back({Kind::copies, memory.copy(per_sm)});
  }
  return all;
}

}  // namespace

/// DRAM's factors.  That of L2 is fitted with them, but hangs on the few points near its full use, so that it
/// is no measurement (hw/DECISIONS.md, 351).
void measure_queueing(Calibrating& c) {
  static constexpr std::array kKeys{"dram_read_queueing_factor", "dram_write_queueing_factor",
                                    "dram_queue_full_use", "dram_backlog_factor"};
  const auto known = [&](const char* key) { return c.found.value(kContention, key); };
  const MemoryRates rates{known("dram_read_bytes_per_second"), known("dram_write_bytes_per_second"),
                          known("l2_read_bytes_per_second"), known("l2_write_bytes_per_second")};
  const double dram_over_l2 = known("dram_over_l2_latency_ratio"), dram_us = 1e-3 * known("dram_latency_ns");
  if (std::min({rates.read, rates.write, rates.l2_read, rates.l2_write, dram_over_l2, dram_us}) <= 0) {
    for (const char* key : kKeys)
      c.found.missing(kContention, key, "rates and latencies of the memory were not found");
    return;
  }
  Bench& bench = c.bench;
  const Memory memory(bench);
  const std::vector<Case> all = cases(bench, memory, rates, dram_us);
  std::array<Samples, kKeys.size()> found;
  for (int repeat = 0; repeat < kCurves; ++repeat) {
    const Memory::Met alone = memory.beside(nullptr);
    std::vector<LoadedLatency> curves;
    for (const Case& each : all) {
      const Memory::Met met = memory.beside(&each.load);
      LoadedLatency at = as_the_model_counts(each.kind, met.bytes_per_second, rates);
      at.dram = met.dram_ns / alone.dram_ns, at.l2 = met.l2_ns / alone.l2_ns;
      curves.push_back(at);
      c.found.record("loaded latency", {{"kind", static_cast<double>(each.kind)},
                                        {"per_sm", each.load.per_sm},
                                        {"idle_cycles", each.load.idle_cycles},
                                        {"GB_per_s", 1e-9 * met.bytes_per_second},
                                        {"dram_ns", met.dram_ns},
                                        {"l2_ns", met.l2_ns},
                                        {"dram_alone_ns", alone.dram_ns},
                                        {"l2_alone_ns", alone.l2_ns}});
    }
    const QueueingFactors f = fit_queueing(curves, dram_over_l2);
    const double values[] = {f.read, f.write, f.full_use, f.backlog};
    for (std::size_t i = 0; i < kKeys.size(); ++i) found[i].push_back(values[i]);
    c.found.record("queueing", {{"read", f.read},
                                {"write", f.write},
                                {"full_use", f.full_use},
                                {"backlog", f.backlog},
                                {"l2", f.l2}});
  }
  for (std::size_t i = 0; i < kKeys.size(); ++i)
    c.found.add(
        kContention, kKeys[i], found[i],
        fmt::format("lone loads from DRAM and L2 beside {} reads, writes, copies and L2 reads of different "
                    "rates, to which the form of the contention model was fitted",
                    all.size()));
  // They were fitted together, so that some of them beside others of another card would say nothing.
  c.found.drop_together(kContention, kKeys);
}

}  // namespace corun::hw
