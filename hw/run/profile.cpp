#include "hw/run/profile.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "hw/backend/cuda_backend.h"
#include "policies/api/registry.h"
#include "policies/session/profile_points.h"
#include "policies/session/run.h"

namespace corun::hw {
namespace {

constexpr std::uint32_t kMostLaunches = 40;
constexpr double kRowMs = 2;   // a row of launches lasts about so long,
constexpr double kOnceMs = 8;  // but what lasts this long stands alone, and is timed once
constexpr int kRepeats = 3;    // rows; the median counts
constexpr std::uint32_t kSolo[] = {8,  16, 32, 34,
                                   44, 66, 88, 100};  // SMs on which a plain kernel is timed too

double median_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Times launches in rows: what one takes, from the first block's start to the last block's end.
class Stopwatch {
 public:
  Stopwatch(Workbench& work, const Gpu& gpu)
      : driver_(work.driver()),
        gap_(to_ms(gpu.stream_gap)),
        from_(driver_.event()),
        to_(driver_.event()),
        controls_(driver_.allocate(kMostLaunches * sizeof(Control))),
        progress_(driver_.allocate_host(sizeof(Progress) * kMostLaunches)) {}
  ~Stopwatch() {
    driver_.free(controls_), driver_.free(progress_);
    driver_.destroy(from_), driver_.destroy(to_);
  }
  DevicePointer control(std::uint32_t i) const { return controls_ + i * sizeof(Control); }
  DevicePointer progress(std::uint32_t i) const { return progress_.device + sizeof(Progress) * i; }

  /// `launch(i)`: the i-th of a row; `before`: what a row needs first.
  Time time(Stream s, double about_ms, const std::function<void()>& before,
            const std::function<void(std::uint32_t)>& launch) {
    const auto launches =
        static_cast<std::uint32_t>(std::clamp(kRowMs / std::max(about_ms, 1e-6), 1.0, double{kMostLaunches}));
    std::vector<double> ms;
    for (int r = 0; r < kRepeats; ++r) {
      before();
      driver_.synchronize(s);
      driver_.record(from_, s);
      for (std::uint32_t i = 0; i < launches; ++i) launch(i);
      driver_.record(to_, s);
      driver_.synchronize(s);
      ms.push_back(driver_.milliseconds(from_, to_) / launches);
      if (ms.back() > kOnceMs) break;
    }
    return from_ns(std::max(median_of(ms) - gap_, 1e-3) * 1e6);
  }

 private:
  Driver& driver_;
  double gap_;
  Event from_, to_;
  DevicePointer controls_;
  HostMemory progress_;
};

}  // namespace

Profile measure_points(const LibraryKernel& k, Time solo, const Gpu& gpu, Workbench& work, Points which) {
  const bool by_sm = which != Points::by_total;
  Driver& driver = work.driver();
  const Plain& plain = work.plain(k);
  const auto blocks = static_cast<std::uint32_t>(k.blocks());
  const Stream s = driver.stream(0, {});
  Profile profile;
  {
    Stopwatch watch(work, gpu);
    Instance instance(driver, k);
    work.prepare(instance, 1, s);
    const auto [taking, code] = work.fastest(
        instance, sized_takings_for(blocks, gpu.sms * plain.blocks_per_sm, solo, by_sm), gpu.sms, s);
    const std::uint32_t room = gpu.sms * code->workers_per_sm;
    profile = by_sm ? points_by_sm(gpu.sms, code->workers_per_sm, blocks)
                    : points_by_total(gpu.sms, std::min(blocks, room));
    if (which == Points::by_workers)
      std::erase_if(profile, [&](const ProfilePoint& p) { return p.sms != gpu.sms; });
    std::vector<Control> fresh(kMostLaunches);
    for (ProfilePoint& point : profile) {
      LaunchParameters p = launch_parameters(0, blocks, taking, std::min(point.ctas, room));
      std::uint32_t workers = point.ctas;
      for (Control& c : fresh) c = Control{};
      if (by_sm) {
        p.seated = 1, p.single = 0, workers = room;
        for (Control& c : fresh) std::fill_n(c.quota, point.sms, point.ctas_per_sm);
      }
      const double about =
          to_ms(solo) * std::max(1.0, static_cast<double>(std::min(blocks, room)) / point.ctas);
      point.time = watch.time(
          s, about,
          [&] { driver.copy_to_device(s, watch.control(0), fresh.data(), fresh.size() * sizeof(Control)); },
          [&](std::uint32_t i) {
            p.control = watch.control(i), p.progress = watch.progress(i);
            work.launch(instance, *code, workers, p, s);
          });
    }
  }
  driver.destroy(s);
  return profile;
}

Kernel measure_alone(const LibraryKernel& k, const Gpu& gpu, Workbench& work) {
  Driver& driver = work.driver();
  const Plain& plain = work.plain(k);
  Kernel kernel;
  kernel.name = k.name, kernel.grid = k.grid, kernel.block = k.block;
  kernel.registers_per_thread = plain.facts.registers;
  kernel.static_shared_memory_bytes = plain.facts.static_shared_bytes;
  kernel.dynamic_shared_memory_bytes = k.dynamic_shared_bytes;
  const Stream whole = driver.stream(0, {});
  {
    Stopwatch watch(work, gpu);
    Instance instance(driver, k);
    work.prepare(instance, 1, whole);
    const auto on = [&](Stream s, double about) {
      return watch.time(s, about, [] {}, [&](std::uint32_t) { work.launch(instance, s); });
    };
    const Time about = on(whole, kRowMs);
    kernel.solo_time = on(whole, to_ms(about));
    kernel.solo_time_by_sms[gpu.sms] = *kernel.solo_time;
    const std::vector<std::uint32_t>& groups = work.group_of_tpc(gpu.tpcs(), gpu.sms_per_tpc);
    for (std::uint32_t sms : kSolo) {
      if (sms >= gpu.sms) continue;
      std::vector<std::uint32_t> mine(groups.begin(), groups.begin() + sms / gpu.sms_per_tpc);
      std::sort(mine.begin(), mine.end());
      const Stream s = driver.stream(0, work.partition(mine));
      work.launch(instance, s);  // the first launch into a new context takes longer
      driver.synchronize(s);
      kernel.solo_time_by_sms[sms] = on(s, to_ms(about) * gpu.sms / sms);
      driver.destroy(s);
    }
  }
  driver.destroy(whole);
  return kernel;
}

Kernel::Stoppable measure_stoppable(const LibraryKernel& k, Time solo, const Gpu& gpu, Workbench& work) {
  Driver& driver = work.driver();
  const auto blocks = static_cast<std::uint32_t>(k.blocks());
  const Stream s = driver.stream(0, {});
  Kernel::Stoppable how;
  {
    Stopwatch watch(work, gpu);
    Instance instance(driver, k);
    work.prepare(instance, 1, s);
    const Way way = work.fastest(
        instance, stoppable_takings_for(blocks, gpu.sms * work.plain(k).blocks_per_sm, solo), gpu.sms, s);
    const std::uint32_t room = gpu.sms * way.code->workers_per_sm;
    LaunchParameters p = launch_parameters(0, blocks, way.taking, room);
    const std::vector<Control> fresh(kMostLaunches);
    how.workers_stay = !way.taking.once;
    how.time = watch.time(
        s, to_ms(solo),
        [&] { driver.copy_to_device(s, watch.control(0), fresh.data(), fresh.size() * sizeof(Control)); },
        [&](std::uint32_t i) {
          p.control = watch.control(i), p.progress = watch.progress(i);
          work.launch(instance, *way.code, workers_of(p, way.taking, room), p, s);
        });
  }
  driver.destroy(s);
  return how;
}

namespace {

/// All launches plain (`ctas` 0), or one after the other as persistent kernels of `ctas` CTAs.
class OneByOne final : public Policy {
 public:
  explicit OneByOne(std::uint32_t ctas) : ctas_(ctas) {}
  std::string_view name() const override { return "one by one"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::cta_quota}, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId id : now.pending)
      if (ctas_ == 0 || now.launch(id).waits_for == 0)
        decisions.push_back(decide::Launch{id, 0, {}, ctas_, {}});
  }

 private:
  std::uint32_t ctas_;
};

class Gaps final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    if (r.finished == kNever) return;
    (r.op.value == 0 ? start : next).push_back(to_ns(r.started - (r.op.value == 0 ? r.ready : last_)));
    last_ = r.finished;
  }
  void record(const RequestRecord& r) override {
    if (r.finished != kNever) notice.push_back(to_ns(r.finished - last_));
  }
  std::vector<double> start, next, notice;  // call to start; end to the next one's start; end to its notice

 private:
  Time last_{};
};

/// A client whose requests are `launches` launches of a kernel.
Trace rows_of(const char* name, Time solo, int launches, const Gpu& gpu) {
  const LibraryKernel& k = *find_kernel(name);
  Trace trace;
  trace.name = "host", trace.gpu = gpu.name;
  Kernel kernel;
  kernel.name = k.name, kernel.grid = k.grid, kernel.block = k.block;
  kernel.solo_time = solo;
  trace.kernels = {kernel};
  Program program;
  program.name = "row", program.streams = {{"main"}};
  for (int i = 0; i < launches; ++i)
    program.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
  trace.programs = {program};
  Client client;
  client.name = client.process = "one", client.program = ProgramId{0}, client.streams.resize(1);
  trace.clients = {client};
  trace.run.duration = std::chrono::milliseconds(60);
  return trace;
}

/// Once to warm up, then with `sink`.
void run_alone(const Trace& trace, const Gpu& gpu, Workbench& work,
               const std::function<std::unique_ptr<Policy>()>& make, Sink& sink) {
  const std::unique_ptr<Policy> policy = make(), rehearsal = make();
  Timeline timeline;
  CudaBackend backend(trace, gpu, policy->requirements(), timeline, work, {});
  Trace first = trace;
  first.run.duration = std::chrono::milliseconds(10);
  play(first, *rehearsal, backend, timeline, {});
  backend.reset();
  timeline.attach(sink);
  play(trace, *policy, backend, timeline, {});
}

/// From one decision of a row to the next: what the host does for a launch.
class Steps final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    if (r.finished == kNever) return;
    if (r.op.value != 0) step.push_back(to_ns(r.submitted - submitted_));
    if (r.op.value != 0) turn.push_back(to_ns(r.finished - finished_));
    submitted_ = r.submitted, finished_ = r.finished;
  }
  std::vector<double> step, turn;

 private:
  Time submitted_{}, finished_{};
};

/// Stops a long row now and then: ns for each launch that is taken back.
class TakeBack final : public Policy {
 public:
  explicit TakeBack(std::vector<double>& ns) : ns_(ns) {}
  std::string_view name() const override { return "take back"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::preempt_at_block}, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    const auto off = std::count_if(now.notices.begin(), now.notices.end(),
                                   [](const Notice& n) { return std::holds_alternative<Preempted>(n); });
    if (std::exchange(stopping_, false) && off != 0)
      ns_.push_back(to_ns(now.now - asked_) / static_cast<double>(off));
    for (LaunchId id : now.pending) decisions.push_back(decide::Launch{id, 0, {}, 0, {}});
    if (decisions.empty() && now.running.size() > 150) {
      decisions.push_back(decide::Preempt{*now.running.begin(), decide::Stop::at_block});
      asked_ = now.now, stopping_ = true;
    }
  }

 private:
  std::vector<double>& ns_;
  Time asked_{};
  bool stopping_ = false;
};

}  // namespace

/// Of long kernels, nothing ends between two decisions; short ones wait for the host, which then decides one,
/// hands one over and hears of one in turn.
void measure_calls(const Gpu& real, Workbench& work, HostCosts& costs) {
  Gpu gpu = real;
  gpu.launch_call = Time{1};  // the client calls as fast as the host lets it
  const auto measured = [&](const char* kernel, Time solo, int launches, const char* policy) {
    Steps steps;
    run_alone(rows_of(kernel, solo, launches, gpu), gpu, work, [&] { return make_policy(policy); }, steps);
    return steps;
  };
  constexpr Time kLong = std::chrono::microseconds(100), kShort = std::chrono::microseconds(3);
  const double launch = median_of(measured("spin100_few", kLong, 8, "fcfs").step);
  const double end = std::max(0.0, median_of(measured("tick", kShort, 200, "fcfs").step) - launch);
  const double held = median_of(measured("spin100_few", kLong, 8, "wait").step);
  const double all = median_of(measured("tick", kShort, 200, "wait").turn);
  costs.launch_call = from_ns(launch), costs.end_call = from_ns(end), costs.held_call = from_ns(held);
  costs.hand_over = from_ns(std::max(0.0, all - held - end));
  std::vector<double> taken_back{0.0};
  Steps ignored;
  run_alone(
      rows_of("spin100_few", kLong, 300, gpu), gpu, work,
      [&] { return std::make_unique<TakeBack>(taken_back); }, ignored);
  costs.take_back = from_ns(median_of(taken_back));
}

HostCosts measure_host(const Gpu& gpu, Workbench& work) {
  const LibraryKernel& k = *find_kernel("sgemm_small");
  const Trace trace = rows_of("sgemm_small", std::chrono::microseconds(100), 2, gpu);
  HostCosts costs;
  for (const std::uint32_t ctas : {0u, static_cast<std::uint32_t>(k.blocks())}) {
    Gaps gaps;
    run_alone(trace, gpu, work, [&] { return std::make_unique<OneByOne>(ctas); }, gaps);
    if (ctas == 0) {
      // The GPU's clock and the host's are aligned to a microsecond or two; what they add up to is exact.
      const double notice = median_of(gaps.notice);
      costs.completion_notice = from_ns(std::max(0.0, notice));
      costs.launch_latency = from_ns(median_of(gaps.start) + std::min(0.0, notice));
      costs.stream_gap = from_ns(median_of(gaps.next));
    } else {
      costs.persistent_latency = from_ns(median_of(gaps.start));
      costs.persistent_turn = from_ns(median_of(gaps.next));
    }
  }
  measure_calls(gpu, work, costs);
  return costs;
}

}  // namespace corun::hw
