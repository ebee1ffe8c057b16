// How waits for memory grow with its use, and what launches wait beside others.
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
  const Load& lone_dram() const { return from_dram_; }
  /// A warp on each SM that waits for L2 most of the time.
  Load hit_on_all() const { return on(from_l2_, {}); }

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

namespace {

/// Kernels of one block one after the other, with the gaps between them.
class Chain {
 public:
  explicit Chain(Bench& bench) : bench_(bench), stamps_(bench.driver(), kKernels * sizeof(Stamp)) {
    graph_ = bench.driver().capture(stream(), [this] { launch_each(); });
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain() { bench_.driver().destroy(graph_); }

  Stream stream() { return bench_.stream(kStream); }
  void launch(bool as_graph) { as_graph ? bench_.driver().launch(graph_, stream()) : launch_each(); }
  /// After it has ended.  The mean, as gaps are of two lengths.
  double gap_ns() {
    const std::vector<Stamp> all = bench_.read<Stamp>(stamps_.at(), kKernels);
    double sum = 0;
    for (std::uint32_t i = kFirst; i < kEnd; ++i)
      sum += static_cast<double>(static_cast<std::int64_t>(all[i].start - all[i - 1].end));
    return sum / (kEnd - kFirst);
  }

 private:
  // The first ones may come before a load has settled, the last ones after it has gone.
  static constexpr std::uint32_t kKernels = 80, kFirst = 10, kEnd = 70, kStream = 6;
  static constexpr double kBodyUs = 5;

  void launch_each() {
    for (std::uint32_t i = 0; i < kKernels; ++i)
      bench_.body(stream(), 1, 32, stamps_.at() + i * sizeof(Stamp), kBodyUs);
  }

  Bench& bench_;
  DeviceArray stamps_;
  Graph graph_;
};

}  // namespace

/// What the gaps of a chain grow by beside blocks that leave issue slots and memory idle, beside launches of
/// another stream, and beside loads that saturate DRAM, over what a lone load from DRAM takes longer there.
void measure_beside(Calibrating& c) {
  Bench& bench = c.bench;
  const Memory memory(bench);
  Chain chain(bench);
  const auto gap = [&](const char* what, const std::vector<Load>& clients, bool as_graph) {
    const std::vector<LoadRate> rates =
        bench.run_together(clients, 3000, 400, [&] { chain.launch(as_graph); });
    const double gap_ns = chain.gap_ns(), per_us = clients.size() < 2 ? 0 : rates[0].per_us;
    c.found.record(std::string("gap beside ") + what,
                   {{"as_graph", as_graph},
                    {"gap_ns", gap_ns},
                    {"dram_ns", per_us == 0 ? 0 : 1e3 * kProbes / per_us},
                    {"GB_per_s", rates.empty() ? 0 : 1e-3 * rates.back().per_us}});
    return std::pair{gap_ns, per_us == 0 ? 0 : 1e3 * kProbes / per_us};
  };
  Load fma;
  fma.kernel = "client_fma", fma.amount = 1024, fma.per_sm = 1;
  Load one_warp = fma;
  one_warp.threads = 32;
  const Load idle = memory.hit_on_all();
  const std::vector<std::pair<const char*, Load>> loads{{"4 reads", memory.read(4)},
                                                        {"6 reads", memory.read(6)},
                                                        {"2 copies", memory.copy(2)},
                                                        {"4 copies", memory.copy(4)}};
  Samples accesses, graph_accesses;
  for (int repeat = 0; repeat < kCurves; ++repeat) {
    const double alone_ns = memory.beside(nullptr).dram_ns;
    for (const bool as_graph : {false, true}) {
      gap("nothing", {}, as_graph);
      const double quiet = gap("idle blocks", {idle}, as_graph).first;
      gap("a warp of FMAs", {one_warp}, as_graph), gap("FMAs", {fma}, as_graph);
      // Each load is a sample: where they do not agree on a number of accesses, there is none.
      for (const auto& [name, load] : loads) {
        const auto [gap_ns, load_ns] = gap(name, {memory.lone_dram(), load}, as_graph);
        (as_graph ? graph_accesses : accesses).push_back((gap_ns - quiet) / (load_ns - alone_ns));
      }
    }
  }
  c.found.add(
      kContention, "launch_memory_accesses", accesses,
      "what gaps between kernels of one block in a stream grow by beside reads and copies that saturate "
      "DRAM, over what a "
      "lone load takes longer there; less what they grow by beside a warp on each SM that waits for L2");
  c.found.add(kContention, "graph_launch_memory_accesses", graph_accesses, "the same in a graph");

  // Another stream's launches in between.
  const Stream other = bench.stream(5);
  const std::uint32_t sms = bench.facts().sms;
  const std::vector<std::pair<const char*, std::function<void()>>> others{
      {"nothing", {}},
      {"launches of the same", [&] { bench.body(other, 1, 32, 0, 1); }},
      {"launches", [&] { bench.launch("plain_worker", 1, 256, 0, other, bench.cycles(1)); }},
      {"launches on all SMs", [&] { bench.launch("plain_worker", sms, 256, 0, other, bench.cycles(1)); }}};
  Samples after;
  std::vector<Graph> graphs;
  for (const auto& [name, launch] : others)
    graphs.push_back(launch ? bench.driver().capture(other,
                                                     [&] {
                                                       for (int i = 0; i < 400; ++i) launch();
                                                     })
                            : Graph{});
  for (int repeat = 0; repeat < kCurves; ++repeat) {
    Samples gaps;
    for (std::size_t i = 0; i < others.size(); ++i)
      for (const bool as_graph : {false, true}) {
        bench.hold(chain.stream()), bench.hold(other);
        if (graphs[i]) bench.driver().launch(graphs[i], other);
        chain.launch(as_graph);
        bench.wait_us(50);
        bench.open_gate();
        bench.synchronize_all();
        const double gap_ns = chain.gap_ns();
        c.found.record(std::string("gap after ") + others[i].first,
                       {{"as_graph", as_graph}, {"gap_ns", gap_ns}});
        if (as_graph) gaps.push_back(gap_ns);
      }
    after.push_back(gaps[2] - gaps[0]);
  }
  for (const Graph g : graphs)
    if (g) bench.driver().destroy(g);
  c.found.add(kContention, "graph_launch_after_others_ns", after,
              "what gaps between kernels of one block in a graph grow by where another stream launches "
              "kernels in between");
}

}  // namespace corun::hw
