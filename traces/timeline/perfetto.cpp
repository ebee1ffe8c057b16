// TrackEvent packets.  Field numbers: protos/perfetto/trace/perfetto_trace.proto.
#include "traces/timeline/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace corun {
namespace {

namespace field {
constexpr protozero::pbf_tag_type kPacket = 1;
constexpr protozero::pbf_tag_type kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12,
                                  kSequenceFlags = 13, kTrackDescriptor = 60;
namespace descriptor {
constexpr protozero::pbf_tag_type kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8,
                                  kChildOrdering = 11, kRank = 12;
constexpr protozero::pbf_tag_type kPid = 1, kProcessName = 6;
constexpr protozero::pbf_tag_type kUnitName = 6;
}  // namespace descriptor
namespace event {
constexpr protozero::pbf_tag_type kCategory = 3, kAnnotation = 4, kType = 9, kName = 10, kTrack = 11,
                                  kCounter = 44, kFlow = 47;
}  // namespace event
namespace annotation {
constexpr protozero::pbf_tag_type kName = 1, kInt = 4, kString = 6;
}  // namespace annotation
namespace interned {
constexpr protozero::pbf_tag_type kCategories = 1, kEventNames = 2, kAnnotationNames = 3;
constexpr protozero::pbf_tag_type kIid = 1, kText = 2;
}  // namespace interned
}  // namespace field

constexpr std::uint32_t kSequence = 1;
constexpr std::uint32_t kIncrementalStateCleared = 1;
constexpr std::int32_t kExplicitOrder = 3;
constexpr Time kCounterStep = std::chrono::nanoseconds(100);
enum class EventType : std::int32_t { slice_begin = 1, slice_end = 2, instant = 3, counter = 4 };

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
      : trace_(trace), gpu_(gpu), options_(options), out_(out) {
    protozero::pbf_writer packet(packets_, field::kPacket);
    packet.add_uint32(field::kSequence, kSequence);
    packet.add_uint32(field::kSequenceFlags, kIncrementalStateCleared);
  }

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
        name->second = iid(event_names_, field::interned::kEventNames,
                           trace_.clients[b.client.value].name + ": " + trace_.kernels[b.kernel.value].name);
      const Annotations annotations{{"block", b.block}, {"launch", b.launch.serial}};
      begin(*slice, name->second, "block", annotations);
      end(*slice);
    }
  }

  void copy(const CopyRecord& r) {
    seen(r.finished);
    const std::optional<Slice> slice = placed(copies(r.client, r.engine), r.started, r.finished);
    if (!slice) return;
    begin(
        *slice, event_name("copy"), "copy",
        {{"bytes", r.bytes}, {"request", r.request}, {"stream", r.stream.value}, {"operation", r.op.value}});
    end(*slice);
  }

  void move(const MoveRecord& r) {
    seen(r.finished);
    const std::optional<Slice> slice = placed(copies(r.client, r.engine), r.started, r.finished);
    if (!slice) return;
    begin(*slice, event_name(r.to_host ? "checkpoint" : "restore"), "memory",
          {{"bytes", r.bytes}, {"buffer", r.buffer.value}});
    end(*slice);
  }

  void turn(const TurnRecord& r) {
    seen(r.end);
    const std::uint64_t track =
        described(key(Kind::turns), gpu_process(), [] { return std::string("context turns"); }, 0);
    const std::optional<Slice> slice = placed(track, r.start, r.end);
    if (!slice) return;
    begin(*slice, event_name(fmt::format("context {}", r.context)), "turn", {});
    end(*slice);
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
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    out_.flush();
    buffer_.clear();
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
  struct Annotation {
    std::string_view name;
    std::uint64_t number = 0;
    std::string_view text = {};
  };
  using Annotations = std::vector<Annotation>;
  using Interned = std::unordered_map<std::string, std::uint64_t>;
  struct Slice {
    std::uint64_t track = 0, begin_ns = 0, end_ns = 0;
  };
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

  template <class Name>
  std::uint64_t described(std::uint64_t what, std::uint64_t parent, Name name, std::int32_t rank,
                          const char* unit = nullptr) {
    const auto [entry, is_new] = tracks_.try_emplace(what, tracks_.size() + 1);
    const std::uint64_t track = entry->second;
    if (!is_new) return track;
    protozero::pbf_writer packet(packets_, field::kPacket);
    packet.add_uint32(field::kSequence, kSequence);
    protozero::pbf_writer descriptor(packet, field::kTrackDescriptor);
    descriptor.add_uint64(field::descriptor::kUuid, track);
    descriptor.add_string(field::descriptor::kName, name());
    descriptor.add_uint64(field::descriptor::kParent, parent);
    if (unit != nullptr) {
      protozero::pbf_writer counter(descriptor, field::descriptor::kCounter);
      counter.add_string(field::descriptor::kUnitName, unit);
    }
    descriptor.add_int32(field::descriptor::kChildOrdering, kExplicitOrder);
    descriptor.add_int32(field::descriptor::kRank, rank);
    return track;
  }

  template <class Name>
  std::uint64_t process(std::uint64_t what, std::int32_t pid, Name name) {
    const auto [entry, is_new] = tracks_.try_emplace(what, tracks_.size() + 1);
    const std::uint64_t track = entry->second;
    if (!is_new) return track;
    const std::string text = name();
    protozero::pbf_writer packet(packets_, field::kPacket);
    packet.add_uint32(field::kSequence, kSequence);
    protozero::pbf_writer descriptor(packet, field::kTrackDescriptor);
    descriptor.add_uint64(field::descriptor::kUuid, track);
    {
      protozero::pbf_writer named(descriptor, field::descriptor::kProcess);
      named.add_int32(field::descriptor::kPid, pid);
      named.add_string(field::descriptor::kProcessName, text);
    }
    descriptor.add_int32(field::descriptor::kChildOrdering, kExplicitOrder);
    return track;
  }

  std::uint64_t gpu_process() {
    return process(key(Kind::gpu), 1,
                   [&] { return "GPU " + (gpu_.product.empty() ? gpu_.name : gpu_.product); });
  }
  std::uint64_t client_process(ClientId client) {
    return process(key(Kind::client, client.value), static_cast<std::int32_t>(client.value) + 2, [&] {
      const Client& c = trace_.clients[client.value];
      return fmt::format("{} ({})", c.name,
                         c.service_class == ServiceClass::real_time ? "real time" : "best effort");
    });
  }
  std::uint64_t arrivals(ClientId client) {
    return described(
        key(Kind::arrivals, client.value), client_process(client), [] { return std::string("arrivals"); }, 0);
  }
  std::uint64_t requests(ClientId client) {
    return described(
        key(Kind::requests, client.value), client_process(client), [] { return std::string("requests"); }, 1);
  }
  std::uint64_t stream(ClientId client, StreamId stream) {
    return described(
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
    return described(
        key(Kind::copies, client.value, engine), client_process(client),
        [&] { return fmt::format("copies, engine {}", engine); }, 1000 + static_cast<std::int32_t>(engine));
  }
  /// Blocks on one SM overlap, so each place is a row of its own.  The rows lie in groups, because the order
  /// of tracks right below a process is not ours to choose.
  std::uint64_t lane(SmId sm, std::uint32_t lane) {
    const std::uint64_t what = key(Kind::lane, sm.value, lane);
    if (const auto known = tracks_.find(what); known != tracks_.end()) return known->second;
    const std::uint64_t sms = described(key(Kind::sms), gpu_process(), [] { return std::string("SMs"); }, 2);
    const std::uint64_t group = described(
        key(Kind::sm, sm.value), sms, [&] { return fmt::format("SM {}", sm.value); },
        static_cast<std::int32_t>(sm.value));
    return described(
        what, group, [&] { return fmt::format("SM {}, place {}", sm.value, lane); },
        static_cast<std::int32_t>(lane));
  }

  // ---- strings, written once ----

  std::uint64_t iid(Interned& known, protozero::pbf_tag_type kind, const std::string& text) {
    const auto [entry, is_new] = known.try_emplace(text, known.size() + 1);
    if (is_new) {
      protozero::pbf_writer packet(packets_, field::kPacket);
      packet.add_uint32(field::kSequence, kSequence);
      protozero::pbf_writer data(packet, field::kInternedData);
      protozero::pbf_writer string(data, kind);
      string.add_uint64(field::interned::kIid, entry->second);
      string.add_string(field::interned::kText, text);
    }
    return entry->second;
  }
  std::uint64_t event_name(const std::string& text) {
    return iid(event_names_, field::interned::kEventNames, text);
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

  template <class Fill>
  void event(std::uint64_t track, std::uint64_t at_ns, EventType type, Fill fill) {
    {
      protozero::pbf_writer packet(packets_, field::kPacket);
      packet.add_uint64(field::kTimestamp, at_ns);
      packet.add_uint32(field::kSequence, kSequence);
      protozero::pbf_writer event(packet, field::kTrackEvent);
      event.add_enum(field::event::kType, static_cast<std::int32_t>(type));
      event.add_uint64(field::event::kTrack, track);
      fill(event);
    }
    constexpr std::size_t kEnough = 1 << 20;
    if (buffer_.size() < kEnough) return;
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }

  void begin(const Slice& slice, std::uint64_t name, const char* category, const Annotations& annotations,
             std::span<const std::uint64_t> flows = {}) {
    const std::uint64_t category_iid = iid(categories_, field::interned::kCategories, category);
    std::vector<std::uint64_t> names;
    for (const Annotation& a : annotations)
      names.push_back(iid(annotation_names_, field::interned::kAnnotationNames, std::string(a.name)));
    event(slice.track, slice.begin_ns, EventType::slice_begin, [&](protozero::pbf_writer& e) {
      e.add_uint64(field::event::kCategory, category_iid);
      e.add_uint64(field::event::kName, name);
      for (std::size_t i = 0; i < annotations.size(); ++i) {
        protozero::pbf_writer annotation(e, field::event::kAnnotation);
        annotation.add_uint64(field::annotation::kName, names[i]);
        if (annotations[i].text.empty()) {
          annotation.add_int64(field::annotation::kInt, static_cast<std::int64_t>(annotations[i].number));
        } else {
          annotation.add_string(field::annotation::kString, annotations[i].text.data(),
                                annotations[i].text.size());
        }
      }
      for (std::uint64_t flow : flows) e.add_fixed64(field::event::kFlow, flow);
    });
  }
  void end(const Slice& slice) {
    event(slice.track, slice.end_ns, EventType::slice_end, [](protozero::pbf_writer&) {});
  }

  void instant(std::uint64_t track, Time at, const char* name) {
    if (at < options_.begin || at >= options_.end) return;
    const std::uint64_t name_iid = event_name(name);
    event(track, ns(at), EventType::instant,
          [&](protozero::pbf_writer& e) { e.add_uint64(field::event::kName, name_iid); });
  }

  void counter(Gauge gauge, Time at, double value) {
    GaugeState& state = gauges_[static_cast<std::size_t>(gauge)];
    if (state.written == value) return;
    state.written = value;
    state.written_at = at;
    const auto number = static_cast<std::uint32_t>(gauge);
    const std::uint64_t track = described(
        key(Kind::counter, number), gpu_process(), [&] { return std::string(to_string(gauge)); },
        10 + static_cast<std::int32_t>(number), gauge == Gauge::dram_bandwidth_pct ? "%" : "");
    event(track, ns(at), EventType::counter,
          [&](protozero::pbf_writer& e) { e.add_double(field::event::kCounter, value); });
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
    begin(*slice, event_name(trace_.programs[client.program.value].name), "request", annotations, flows);
    end(*slice);
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
    begin(*slice, event_name(kernel.name), "kernel", annotations, std::span(&flow, 1));
    nested(*slice, r.queued, slotted, "waiting for a task slot");
    nested(*slice, slotted, started, "waiting for an SM");
    nested(*slice, started, finish, "running");
    end(*slice);
  }

  void nested(const Slice& outer, Time start, Time finish, const char* name) {
    if (start >= finish) return;
    const Slice slice{outer.track, std::clamp(ns(start), outer.begin_ns, outer.end_ns),
                      std::clamp(ns(finish), outer.begin_ns, outer.end_ns)};
    if (slice.begin_ns == slice.end_ns && outer.begin_ns != outer.end_ns) return;
    begin(slice, event_name(name), "kernel", {});
    end(slice);
  }

  const Trace& trace_;
  const Gpu& gpu_;
  PerfettoOptions options_;
  std::ostream& out_;
  std::string buffer_;
  protozero::pbf_writer packets_{buffer_};
  std::unordered_map<std::uint64_t, std::uint64_t> tracks_;  // by what it is: its number, from 1
  std::vector<std::uint64_t> free_ns_;                       // by track: end of its last slice
  Interned event_names_, annotation_names_, categories_;
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
