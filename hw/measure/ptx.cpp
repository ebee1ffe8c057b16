// Kernels made persistent from their PTX, without their source: results bit by bit against the plain
// kernel's, whole, stopped and gone on with several times, with workers told to leave and with seats; times
// beside the plain kernel's.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <vector>

#include "hw/measure/jobs.h"
#include "hw/transform/ptx.h"
#include "traces/json/trace_json.h"

namespace corun::hw {
namespace {

struct HostWords {
  volatile Progress progress;
  volatile std::uint64_t order;
  volatile std::uint32_t done;
  volatile PtxQuota quotas[kMostSms];
};

class PtxBench {
 public:
  explicit PtxBench(Bench& bench)
      : bench_(bench),
        gpu_(bench.driver.facts()),
        compiler_(open_nvrtc(fmt::format("compute_{}{}", gpu_.capability_major, gpu_.capability_minor), "")),
        s_(bench.driver.stream(0, {})),
        beside_(bench.driver.stream(0, {})),
        from_(bench.driver.event()),
        to_(bench.driver.event()),
        control_(bench.driver.allocate(sizeof(PtxControl))),
        memory_(bench.driver.allocate_host(sizeof(HostWords))),
        words_(*static_cast<HostWords*>(memory_.host)) {}

  Json measure(const LibraryKernel& k) {
    Json row{{"kernel", k.name}, {"blocks", k.blocks()}, {"threads", k.threads()}};
    const std::string ptx = compiler_->compile(std::string(k.code()), k.file(), {});
    const ParsedPtx parsed = parse_ptx(ptx);
    const PersistentPtx made = parsed.problem.empty() ? make_persistent(parsed.module, k.entry)
                                                      : PersistentPtx{parsed.problem, {}, {}};
    if (!made.refused.empty()) {
      fmt::print("{:<20} refused: {}\n", k.name, made.refused);
      row["refused"] = made.refused;
      std::ofstream(fmt::format("{}/{}.refused.ptx", bench_.out, k.name)) << ptx;
      return row;
    }
    Instance instance(bench_.driver, k);
    bench_.work.prepare(instance, 1, s_);
    const Function plain = bench_.driver.load(ptx, k.entry);
    const Time begin = bench_.driver.now();
    how_ = bench_.driver.load(made.text, made.entry);
    row["compile_ms"] = to_seconds(bench_.driver.now() - begin) * 1e3;
    for (const Function f : {plain, how_})
      if (k.dynamic_shared_bytes > 0) bench_.driver.allow_shared_memory(f, k.dynamic_shared_bytes);
    const std::uint32_t fit = bench_.driver.blocks_per_sm(plain, k.threads(), k.dynamic_shared_bytes);
    fits_ = bench_.driver.blocks_per_sm(how_, k.threads(), k.dynamic_shared_bytes);
    row["registers"] = {bench_.driver.facts(plain).registers, bench_.driver.facts(how_).registers};
    row["local_bytes"] = {bench_.driver.facts(plain).local_bytes, bench_.driver.facts(how_).local_bytes};
    row["blocks_per_sm"] = {fit, fits_};
    row["serve"] = made.serve, row["shared"] = made.shared;

    launch_plain(instance, plain);
    bench_.driver.synchronize(s_);
    const std::uint64_t by_ptx = digest(instance);
    bench_.work.launch(instance, s_);
    bench_.driver.synchronize(s_);
    row["plain_as_cubin"] = digest(instance) == by_ptx;
    expected_ = by_ptx;

    const auto blocks = static_cast<std::uint32_t>(k.blocks());
    workers_ = std::min(blocks, fits_ * gpu_.sms);
    solo_us_ = time([&] { launch_plain(instance, plain); });
    Json same;  // not in the row, whose elements move as it grows
    same["whole"] = run_whole(instance, 1);
    same["chunks"] = run_whole(instance, 3);
    row["stops"] = run_stopped(instance, same);
    same["leave"] = run_leaving(instance, row);
    same["seats"] = run_seated(instance, row);
    same["resized"] = run_resized(instance, row);
    row["identical"] = same;
    measure_times(instance, plain, row);
    fmt::print("{:<20} {:>9.1f} us {:>7} blocks, regs {}, per SM {}, {}; same {}; stops {}\n", k.name,
               row["plain_us"].get<double>(), blocks, row["registers"].dump(), row["blocks_per_sm"].dump(),
               row["persistent"].dump(), same.dump(), row["stops"].dump());
    return row;
  }

 private:
  void launch_plain(Instance& instance, Function plain) {
    const LibraryKernel& k = instance.kernel();
    bench_.driver.launch(plain, k.grid, k.block, k.dynamic_shared_bytes, s_, instance.parameters());
  }
  std::uint64_t digest(Instance& instance) { return bench_.work.digest(instance, s_); }

  PtxLaunch parameters(const LibraryKernel& k, std::uint32_t first, std::uint32_t chunk) {
    PtxLaunch p;
    p.launch = launch_parameters(first, static_cast<std::uint32_t>(k.blocks()), {chunk, false, false, false},
                                 workers_);
    p.launch.control = control_, p.launch.progress = memory_.device;
    p.launch.grid_x = k.grid.x, p.launch.grid_y = k.grid.y, p.launch.grid_z = k.grid.z;
    p.order = memory_.device + offsetof(HostWords, order),
    p.done = memory_.device + offsetof(HostWords, done);
    p.number = p.done_value = ++number_;
    return p;
  }
  void clear() {
    bench_.driver.fill(s_, control_, 0, sizeof(PtxControl));
    bench_.driver.synchronize(s_);
    std::memset(memory_.host, 0, sizeof(HostWords));
    for (auto& at : words_.progress.stopped_at) at = kNotStopped;
  }
  void launch(Instance& instance, const PtxLaunch& p) {
    const LibraryKernel& k = instance.kernel();
    std::vector<void*> all = instance.parameters();
    PtxLaunch copy = p;
    all.push_back(&copy);
    bench_.driver.launch(how_, {std::min(p.launch.chunks, workers_), 1, 1}, k.block, k.dynamic_shared_bytes,
                         s_, all);
  }
  PtxControl read() {
    PtxControl c;
    bench_.driver.copy_to_host(s_, &c, control_, sizeof c);
    bench_.driver.synchronize(s_);
    return c;
  }
  bool is_whole(Instance& instance, const PtxLaunch& p) {
    bench_.driver.synchronize(s_);
    return words_.done == p.number && digest(instance) == expected_;
  }

  bool run_whole(Instance& instance, std::uint32_t chunk) {
    bench_.work.poison(instance, 0xa5, s_);
    clear();
    const PtxLaunch p = parameters(instance.kernel(), 0, chunk);
    launch(instance, p);
    return is_whole(instance, p);
  }

  /// Waits until `is`, for a second at most.
  template <class Is>
  bool until(Is is) {
    const Time limit = bench_.driver.now() + std::chrono::seconds(1);
    while (!is())
      if (bench_.driver.now() > limit) return false;
    return true;
  }

  /// Each attempt is stopped after a time of its own, the last is not.
  Json run_stopped(Instance& instance, Json& same) {
    constexpr int kAttempts = 8;
    std::vector<double> latencies;
    std::uint32_t stops = 0, attempts = 0;
    bool whole = true;
    for (const std::uint32_t chunk : {1u, 4u}) {
      bench_.work.poison(instance, 0xa5, s_);
      clear();
      PtxLaunch p = parameters(instance.kernel(), 0, chunk);
      for (int attempt = 0; whole; ++attempt, ++attempts) {
        p.number = p.done_value = ++number_;
        if (attempt == kAttempts) p.order = 0;
        const Time begin = bench_.driver.now();
        launch(instance, p);
        if (attempt < kAttempts) {
          const Time at = begin + from_ns(3000 + solo_us_ * 1000 * (attempt + 1) / (kAttempts + 4));
          until([&] { return bench_.driver.now() >= at; });
          const Time asked = bench_.driver.now();
          words_.order = ptx_stop(p.number);
          until([&] { return words_.progress.unused[0] == p.number; });
          latencies.push_back(to_seconds(bench_.driver.now() - asked) * 1e6);
        }
        bench_.driver.synchronize(s_);
        whole &= words_.progress.unused[0] == p.number;
        const bool done = words_.done == p.number;
        whole &= done == (words_.progress.unused[1] == p.launch.chunks);
        if (attempt == kAttempts) {
          whole &= done && read().control.taken == 0;
          break;
        }
        stops += done ? 0 : 1;
      }
      whole &= digest(instance) == expected_;
    }
    same["stopped"] = whole;
    return {{"stops", stops},
            {"attempts", attempts},
            {"us_p50", quantile(latencies, 0.5)},
            {"us_max", quantile(latencies, 1)}};
  }

  bool run_leaving(Instance& instance, Json& row) {
    bench_.work.poison(instance, 0xa5, s_);
    clear();
    const PtxLaunch p = parameters(instance.kernel(), 0, 1);
    launch(instance, p);
    const std::uint32_t leave = std::min(p.launch.chunks, workers_) / 2;
    words_.order = ptx_leave(p.number, leave);
    const bool same = is_whole(instance, p);
    const std::uint32_t left = words_.progress.unused[2];
    row["left"] = {left, leave};
    return same && left <= leave;
  }

  /// Workers on each SM now, beside what runs.
  PtxControl look() {
    PtxControl c;
    bench_.driver.copy_to_host(beside_, &c, control_, sizeof c);
    bench_.driver.synchronize(beside_);
    return c;
  }
  bool beyond(const PtxControl& c) const {
    for (std::uint32_t sm = 0; sm < kMostSms; ++sm)
      if (c.control.present[sm] > words_.quotas[sm].workers) return true;
    return false;
  }
  /// `on_even` workers on an even SM, `on_odd` on an odd one.
  std::uint32_t set_quotas(std::uint32_t on_even, std::uint32_t on_odd) {
    std::uint32_t all = 0;
    for (std::uint32_t sm = 0; sm < gpu_.sms; ++sm) {
      const std::uint32_t quota = sm % 2 == 0 ? on_even : on_odd;
      words_.quotas[sm].workers = quota;
      all += quota;
    }
    return all;
  }
  PtxLaunch seated(const LibraryKernel& k) {
    PtxLaunch p = parameters(k, 0, 1);
    p.launch.seated = 1, p.launch.single = 0;
    p.quotas = memory_.device + offsetof(HostWords, quotas);
    return p;
  }

  bool run_seated(Instance& instance, Json& row) {
    bench_.work.poison(instance, 0xa5, s_);
    clear();
    const std::uint32_t all = set_quotas(1, 0);
    const PtxLaunch p = seated(instance.kernel());
    launch(instance, p);
    const auto left = [&] { return words_.progress.unused[0] == p.number; };
    const bool ended = until([&] { return left() || beyond(look()); }) && left();
    bench_.driver.synchronize(s_);
    const std::uint32_t told = seats_in(words_.progress).taken;
    row["seats"] = {{"taken", told}, {"of", all}};
    bool free = true;
    for (const std::uint32_t present : read().control.present) free &= present == 0;
    // A small grid's workers may all have come to SMs without a seat.
    if (words_.done != p.number && told == 0) return ended && free;
    return is_whole(instance, p) && ended && free && told <= all;
  }

  /// All seats, then one on each even SM, then a stop, all seats again, a stop, and the rest without seats.
  bool run_resized(Instance& instance, Json& row) {
    bench_.work.poison(instance, 0xa5, s_);
    clear();
    const auto pause = [&] {
      const Time at = bench_.driver.now() + from_ns(3000 + solo_us_ * 150);
      until([&] { return bench_.driver.now() >= at; });
    };
    PtxLaunch p = seated(instance.kernel());
    const auto left = [&] { return words_.progress.unused[0] == p.number; };
    const auto stop = [&] {
      words_.order = ptx_stop(p.number);
      until(left);
      bench_.driver.synchronize(s_);
      p.number = p.done_value = ++number_;
    };
    set_quotas(fits_, fits_);
    launch(instance, p);
    pause();
    const std::uint32_t few = set_quotas(1, 0);
    const Time asked = bench_.driver.now();
    words_.order = ptx_resize(p.number, 1, few);
    const bool fewer = until([&] { return left() || !beyond(look()); });
    row["fewer_us"] = to_seconds(bench_.driver.now() - asked) * 1e6;
    row["fewer_done"] = {words_.progress.unused[1], left()};
    pause();
    stop();
    set_quotas(fits_, fits_);
    launch(instance, p);
    pause();
    stop();
    const std::uint32_t done = words_.progress.unused[1];
    row["resized_done"] = {done, p.launch.chunks};
    p.order = 0, p.launch.seated = 0;
    launch(instance, p);
    return is_whole(instance, p) && fewer;
  }

  template <class Launch>
  double time(Launch launch_it) {
    bench_.driver.record(from_, s_);
    launch_it();
    bench_.driver.record(to_, s_);
    bench_.driver.synchronize(s_);
    return bench_.driver.milliseconds(from_, to_) * 1000;
  }

  void measure_times(Instance& instance, Function plain, Json& row) {
    const auto blocks = static_cast<std::uint32_t>(instance.kernel().blocks());
    std::vector<std::uint32_t> chunks{1};
    for (const std::uint32_t chunk : {2u, 4u, 8u, 16u})
      if (blocks >= std::uint64_t{workers_} * chunk * 4) chunks.push_back(chunk);
    std::vector<double> plains;
    std::vector<std::vector<double>> each(chunks.size());
    const int repeats = solo_us_ > 20'000 ? 3 : solo_us_ > 2000 ? 7 : 15;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      plains.push_back(time([&] { launch_plain(instance, plain); }));
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        clear();
        const PtxLaunch p = parameters(instance.kernel(), 0, chunks[i]);
        each[i].push_back(time([&] { launch(instance, p); }));
      }
    }
    row["plain_us"] = median(plains);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      row["persistent"][fmt::format("chunk {}", chunks[i])] =
          std::round(1e4 * (median(each[i]) / median(plains) - 1)) / 1e4;
    row["persistent_us"] = Json::array();
    for (const auto& samples : each) row["persistent_us"].push_back(median(samples));
  }

  Bench& bench_;
  DeviceFacts gpu_;
  std::unique_ptr<Compiler> compiler_;
  Stream s_, beside_;
  Event from_, to_;
  DevicePointer control_;
  HostMemory memory_;
  HostWords& words_;
  Function how_;
  std::uint32_t fits_ = 0, workers_ = 0, number_ = 0;
  double solo_us_ = 0;
  std::uint64_t expected_ = 0;
};

}  // namespace

Json measure_ptx(Bench& bench) {
  PtxBench ptx(bench);
  Json rows = Json::array();
  const auto each = [&](const LibraryKernel& k) {
    if (!bench.wants(k.name)) return;
    try {
      rows.push_back(ptx.measure(k));
    } catch (const InputError& e) {
      fmt::print("{:<20} {}\n", k.name, e.what());
      rows.push_back({{"kernel", k.name}, {"failed", e.what()}});
    }
  };
  for (const LibraryKernel& k : kernel_library()) each(k);
  if (!bench.trace.empty()) {
    const Trace trace = read_trace(bench.trace);
    for (const Kernel& k : trace.kernels) each(bench.work.device_kernel(k));
  }
  return rows;
}

}  // namespace corun::hw
