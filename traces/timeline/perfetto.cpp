// What a run's records are on the tracks of a Perfetto trace (perfetto_packets.h).
#include "traces/timeline/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/timeline/perfetto_packets.h"

namespace corun {
namespace {

constexpr Time kCounterStep = std::chrono::nanoseconds(100);

std::uint64_t ns(Time t) { return static_cast<std::uint64_t>(t.count() / 1000); }

bool reached(Time t, Time from) { return t != kNever && t >= from; }

std::string_view decision_of(const KernelRecord& r, std::string& buffer) {
  if (r.ctas == 0) return "plain";
  buffer = fmt::format("persistent, {} CTAs", r.ctas);
  return buffer;
}

std::string shape(const Dim3& d) { return fmt::format("[{}, {}, {}]", d.x, d.y, d.z); }

}  // namespace

class PerfettoSink::Writer {
 public:
  Writer(const Trace& trace, const Gpu& gpu, PerfettoOptions options, std::ostream& out)
      : trace_(trace), gpu_(gpu), options_(options), packets_(out) {}

  void request(const RequestRecord& r) {
    seen(r.arrival);
    if (r.dropped) {
      instant(arrivals(r.client), r.arrival, "dropped");
      return;
    }
    if (r.finished == kNever) {
      open_requests_.push_back(r);
      return;
    }
    write(r, r.finished);
  }

  void kernel(const KernelRecord& r) {
    seen(r.ready);
    if (r.finished == kNever) {
      open_kernels_.push_back(r);
      return;
    }
    write(r, r.finished);
  }

  void blocks(std::span<const BlockRecord> blocks) {
    for (const BlockRecord& b : blocks) {
      seen(b.end);
      const std::optional<Slice> slice = placed(lane(b.sm, b.lane), b.start, b.end);
      if (!slice) continue;
      const std::uint64_t key = std::uint64_t{b.client.value} << 32 | b.kernel.value;
      auto [name, is_new] = block_names_.try_emplace(key);
      if (is_new)
        name->second = packets_.event_name(trace_.clients[b.client.value].name + ": " +
                                           trace_.kernels[b.kernel.value].name);
      const Annotations annotations{{"block", b.block}, {"launch", b.launch.serial}};
      packets_.begin(*slice, name->second, "block", annotations);
      packets_.end(*slice);
    }
  }

  void copy(const CopyRecord& r) {
    seen(r.finished);
    const std::optional<Slice> slice = placed(copies(r.client, r.engine), r.started, r.finished);
    if (!slice) return;
    packets_.begin(
        *slice, packets_.event_name("copy"), "copy",
        {{"bytes", r.bytes}, {"request", r.request}, {"stream", r.stream.value}, {"operation", r.op.value}});
    packets_.end(*slice);
  }

  void move(const MoveRecord& r) {
    seen(r.finished);
    const std::optional<Slice> slice = placed(copies(r.client, r.engine), r.started, r.finished);
    if (!slice) return;
    packets_.begin(*slice, packets_.event_name(r.to_host ? "checkpoint" : "restore"), "memory",
          {{"bytes", r.bytes}, {"buffer", r.buffer.value}});
    packets_.end(*slice);
  }

  void turn(const TurnRecord& r) {
    seen(r.end);
    const std::uint64_t track =
        packets_.track(key(Kind::turns), gpu_process(), [] { return std::string("context turns"); }, 0);
    const std::optional<Slice> slice = placed(track, r.start, r.end);
    if (!slice) return;
    packets_.begin(*slice, packets_.event_name(fmt::format("context {}", r.context)), "turn", {});
    packets_.end(*slice);
  }

  /// Writes a value at once if the last written one is old enough, else holds it until a later one replaces
  /// it or comes after a pause.
  void gauge(const GaugeRecord& r) {
    seen(r.at);
    if (r.at >= options_.end) return;
    const Time at =
        std::max(r.at, options_.begin);  // from before the window: what it stands at when that opens
    GaugeState& state = gauges_[static_cast<std::size_t>(r.gauge)];
    if (state.held && at > state.held->at && at >= state.written_at + kCounterStep) {
      const Held held = *state.held;
      state.held.reset();
      counter(r.gauge, held.at, held.value);
    }
    if (at == options_.begin || at < state.written_at + kCounterStep) {
      state.held = Held{at, r.value};
    } else {
      counter(r.gauge, at, r.value);
    }
  }

  void finish() {
    for (const KernelRecord& r : open_kernels_) write(r, last_);
    for (const RequestRecord& r : open_requests_) write(r, last_);
    for (std::uint32_t i = 0; i < kGauges; ++i) {
      const std::optional<Held> held = gauges_[i].held;
      if (held && last_ >= options_.begin) counter(static_cast<Gauge>(i), held->at, held->value);
    }
    open_kernels_.clear();
    open_requests_.clear();
    packets_.flush();
  }

 private:
  enum class Kind : std::uint8_t {
    gpu = 1,
    sms,
    sm,
    lane,
    turns,
    counter,
    client,
    arrivals,
    requests,
    stream,
    copies,
  };
  using Annotations = PerfettoPackets::Annotations;
  using Slice = PerfettoPackets::Slice;
  struct Held {
    Time at{};
    double value = 0;
  };
  struct GaugeState {
    std::optional<double> written;
    Time written_at = -kCounterStep;
    std::optional<Held> held;
  };

  /// What a track is, as one number.
  static std::uint64_t key(Kind kind, std::uint32_t a = 0, std::uint32_t b = 0) {
    return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 | std::uint64_t{a} << 28 | b;
  }

  void seen(Time t) {
    if (t != kNever) last_ = std::max(last_, t);
  }

  // ---- tracks ----

  std::uint64_t gpu_process() {
    return packets_.process(key(Kind::gpu), 1,
                   [&] { return "GPU " + (gpu_.product.empty() ? gpu_.name : gpu_.product); });
  }
  std::uint64_t client_process(ClientId client) {
    const auto pid = static_cast<std::int32_t>(client.value) + 2;
    return packets_.process(key(Kind::client, client.value), pid, [&] {
      const Client& c = trace_.clients[client.value];
      return fmt::format("{} ({})", c.name,
                         c.service_class == ServiceClass::real_time ? "real time" : "best effort");
    });
  }
  std::uint64_t arrivals(ClientId client) {
    return packets_.track(
        key(Kind::arrivals, client.value), client_process(client), [] { return std::string("arrivals"); }, 0);
  }
  std::uint64_t requests(ClientId client) {
    return packets_.track(
        key(Kind::requests, client.value), client_process(client), [] { return std::string("requests"); }, 1);
  }
  std::uint64_t stream(ClientId client, StreamId stream) {
    return packets_.track(
        key(Kind::stream, client.value, stream.value), client_process(client),
        [&] {
          const Program& program = trace_.programs[trace_.clients[client.value].program.value];
          const std::string& name = program.streams[stream.value].name;
          return name.empty() ? fmt::format("stream {}", stream.value)
                              : fmt::format("stream {}: {}", stream.value, name);
        },
        2 + static_cast<std::int32_t>(stream.value));
  }
  /// What an engine does for a client: copies of its program, and moves of its buffers by the policy.
  std::uint64_t copies(ClientId client, std::uint32_t engine) {
    return packets_.track(
        key(Kind::copies, client.value, engine), client_process(client),
        [&] { return fmt::format("copies, engine {}", engine); }, 1000 + static_cast<std::int32_t>(engine));
  }
  /// Blocks on one SM overlap, so each place is a row of its own.  The rows lie in groups, because the order
  /// of tracks right below a process is not ours to choose.
  std::uint64_t lane(SmId sm, std::uint32_t lane) {
    const std::uint64_t what = key(Kind::lane, sm.value, lane);
    if (const std::optional<std::uint64_t> known = packets_.known(what)) return *known;
    const std::uint64_t sms =
        packets_.track(key(Kind::sms), gpu_process(), [] { return std::string("SMs"); }, 2);
    const std::uint64_t group = packets_.track(
        key(Kind::sm, sm.value), sms, [&] { return fmt::format("SM {}", sm.value); },
        static_cast<std::int32_t>(sm.value));
    return packets_.track(
        what, group, [&] { return fmt::format("SM {}, place {}", sm.value, lane); },
        static_cast<std::int32_t>(lane));
  }

  // ---- events ----

  /// Where a slice goes: cut to the window and, so that slices of one track never overlap, to the end of the
  /// track's last slice.  None if nothing of it is left.
  std::optional<Slice> placed(std::uint64_t track, Time start, Time finish) {
    if (start >= options_.end || finish < options_.begin || (finish == options_.begin && start < finish))
      return {};
    if (track >= free_ns_.size()) free_ns_.resize(track + 1);
    std::uint64_t& free_ns = free_ns_[track];
    Slice slice{track, std::max(ns(std::max(start, options_.begin)), free_ns),
                ns(std::min(finish, options_.end))};
    if (slice.end_ns < slice.begin_ns) return {};
    free_ns = slice.end_ns;
    return slice;
  }

  void instant(std::uint64_t track, Time at, const char* name) {
    if (at < options_.begin || at >= options_.end) return;
    packets_.instant(track, ns(at), packets_.event_name(name));
  }

  void counter(Gauge gauge, Time at, double value) {
    GaugeState& state = gauges_[static_cast<std::size_t>(gauge)];
    if (state.written == value) return;
    state.written = value;
    state.written_at = at;
    const auto number = static_cast<std::uint32_t>(gauge);
    const std::uint64_t track = packets_.track(
        key(Kind::counter, number), gpu_process(), [&] { return std::string(to_string(gauge)); },
        10 + static_cast<std::int32_t>(number), gauge == Gauge::dram_bandwidth_pct ? "%" : "");
    packets_.counter(track, ns(at), value);
  }

  static std::uint64_t key_of(ClientId client, std::uint64_t request) {
    return std::uint64_t{client.value} << 40 ^ request;
  }

  /// `finish`: where the slice ends, which for an unfinished request is the end of the trace.
  void write(const RequestRecord& r, Time finish) {
    seen(finish);
    instant(arrivals(r.client), r.arrival, "arrived");
    const auto open = flows_.find(key_of(r.client, r.request));
    std::vector<std::uint64_t> flows;
    if (open != flows_.end()) {
      flows = std::move(open->second);
      flows_.erase(open);
    }
    if (!reached(r.started, r.arrival)) return;
    const std::optional<Slice> slice = placed(requests(r.client), r.started, finish);
    if (!slice) return;
    Annotations annotations{
        {"request", r.request}, {"waited_ns", ns(r.started - r.arrival)}, {"work_done_ns", ns(r.work_done)}};
    const Client& client = trace_.clients[r.client.value];
    if (r.finished != kNever) annotations.push_back({"latency_ns", ns(r.finished - r.arrival)});
    if (client.deadline)
      annotations.push_back({"deadline", 0, finish - r.arrival > *client.deadline ? "missed" : "met"});
    const std::uint64_t name = packets_.event_name(trace_.programs[client.program.value].name);
    packets_.begin(*slice, name, "request", annotations, flows);
    packets_.end(*slice);
  }

  void write(const KernelRecord& r, Time finish) {
    seen(finish);
    if (!reached(r.queued, r.ready)) return;
    const std::optional<Slice> slice = placed(stream(r.client, r.stream), r.queued, finish);
    if (!slice) return;
    const std::uint64_t flow = std::uint64_t{r.launch.serial} + 1;
    flows_[key_of(r.client, r.request)].push_back(flow);

    const Kernel& kernel = trace_.kernels[r.kernel.value];
    const Time started = reached(r.started, r.queued) ? r.started : finish;
    const Time slotted = reached(r.slotted, r.queued) ? std::min(r.slotted, started) : finish;
    const std::string grid = shape(kernel.grid), block = shape(kernel.block), cluster = shape(kernel.cluster);
    std::string buffer;
    Annotations annotations{{"grid", 0, grid},
                            {"block", 0, block},
                            {"registers per thread", kernel.registers_per_thread},
                            {"shared memory", kernel.shared_memory_bytes()},
                            {"request", r.request},
                            {"launch", r.launch.serial},
                            {"operation", r.op.value},
                            {"blocks", r.blocks},
                            {"decision", 0, decision_of(r, buffer)},
                            {"priority", static_cast<std::uint64_t>(std::int64_t{r.priority})},
                            {"evictions", r.evictions},
                            {"preemptions", r.preemptions},
                            {"redone blocks", r.redone_blocks}};
    if (kernel.cluster != Dim3{}) annotations.push_back({"cluster", 0, cluster});
    if (kernel.solo_time) annotations.push_back({"solo_time_ns", ns(*kernel.solo_time)});
    if (reached(r.submitted, r.ready)) {
      annotations.push_back({"policy_wait_ns", ns(r.submitted - r.ready)});
      annotations.push_back({"stream_wait_ns", ns(std::max(r.queued - r.submitted, Time{}))});
    }
    annotations.push_back({"slot_wait_ns", ns(slotted - r.queued)});
    annotations.push_back({"sm_wait_ns", ns(started - slotted)});
    annotations.push_back({"run_ns", ns(finish - started)});
    packets_.begin(*slice, packets_.event_name(kernel.name), "kernel", annotations, std::span(&flow, 1));
    nested(*slice, r.queued, slotted, "waiting for a task slot");
    nested(*slice, slotted, started, "waiting for an SM");
    nested(*slice, started, finish, "running");
    packets_.end(*slice);
  }

  void nested(const Slice& outer, Time start, Time finish, const char* name) {
    if (start >= finish) return;
    const Slice slice{outer.track, std::clamp(ns(start), outer.begin_ns, outer.end_ns),
                      std::clamp(ns(finish), outer.begin_ns, outer.end_ns)};
    if (slice.begin_ns == slice.end_ns && outer.begin_ns != outer.end_ns) return;
    packets_.begin(slice, packets_.event_name(name), "kernel", {});
    packets_.end(slice);
  }

  const Trace& trace_;
  const Gpu& gpu_;
  PerfettoOptions options_;
  PerfettoPackets packets_;
  std::vector<std::uint64_t> free_ns_;  // by track: end of its last slice
  std::unordered_map<std::uint64_t, std::uint64_t> block_names_;         // by client and kernel
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> flows_;  // by open request: to its kernels
  std::vector<RequestRecord> open_requests_;
  std::vector<KernelRecord> open_kernels_;
  std::array<GaugeState, kGauges> gauges_;
  Time last_{};
};

PerfettoSink::PerfettoSink(const Trace& trace, const Gpu& gpu, PerfettoOptions options, std::ostream& out)
    : options_(options), writer_(std::make_unique<Writer>(trace, gpu, options, out)) {}

PerfettoSink::~PerfettoSink() = default;

void PerfettoSink::record(const RequestRecord& r) { writer_->request(r); }
void PerfettoSink::record(const KernelRecord& r) {
  if (options_.level != TraceLevel::request) writer_->kernel(r);
}
void PerfettoSink::record(std::span<const BlockRecord> blocks) {
  if (options_.level == TraceLevel::cta) writer_->blocks(blocks);
}
void PerfettoSink::record(const CopyRecord& r) {
  if (options_.level != TraceLevel::request) writer_->copy(r);
}
void PerfettoSink::record(const MoveRecord& r) {
  if (options_.level != TraceLevel::request) writer_->move(r);
}
void PerfettoSink::record(const TurnRecord& r) { writer_->turn(r); }
void PerfettoSink::record(const GaugeRecord& r) {
  if (options_.level != TraceLevel::request) writer_->gauge(r);
}
void PerfettoSink::finish() { writer_->finish(); }

}  // namespace corun
