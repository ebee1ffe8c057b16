#include "traces/import/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/import/device_records.h"
#include "traces/import/host_gaps.h"
#include "traces/import/host_order.h"
#include "traces/import/import_notes.h"
#include "traces/import/kineto_records.h"
#include "traces/import/recorded_gpu.h"
#include "traces/import/recorded_kernels.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::Records;
using kineto::StreamKey;

/// Bytes/s of a copy whose pace the host sets; 0: another copy.
std::uint64_t rate_of_host(const GpuOp& op) {
  constexpr std::uint64_t kStaged = 64 * 1024;  // bytes up to which CUDA's driver takes a copy along with its command
  const bool by_host = op.migration || (op.pageable && op.bytes > kStaged);
  constexpr double kMost = 1e15;  // bytes/s that no memory reaches
  const double seconds = static_cast<double>(op.duration.count()) / 1e9, rate = static_cast<double>(op.bytes) / seconds;
  return by_host && seconds > 0 && rate < kMost ? std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rate)) : 0;
}

std::string trace_name(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view suffix : {".gz", ".json", ".sqlite", ".trace", ".pt", ".kernels"}) {
      if (!name.ends_with(suffix) || name.size() == suffix.size()) continue;
      name.resize(name.size() - suffix.size());
      cut = true;
    }
  }
  return name;
}

/// Blocks of a kernel whose shape is to be assumed, where the GPU is not known.
constexpr std::uint32_t kAssumedBlocks = 100;

/// From records to the trace of one program: each part knows only those before it.
class Import {
 public:
  Import(const std::filesystem::path& file, Records records, const ImportOptions& wanted, const char* tool)
      : file_(file),
        tool_(tool),
        wanted_(wanted),
        device_(file.string(), std::move(records), wanted, notes_),
        gpu_(
            recorded_gpu(device_.records(), device_.device(), wanted.gpu, wanted.sms, file.string(), notes_)),
        order_(of_the_request(), gpu_, tool, notes_),
        kernels_(device_, gpu_, order_, wanted.counters, file.string()) {}

  Trace run() {
    trace_.name = wanted_.name.empty() ? trace_name(file_) : wanted_.name;
    trace_.gpu = gpu_.name;
    trace_.kernels = kernels_.kernels();
    write_program();
    note_gaps();
    trace_.notes = std::move(notes_);
    return std::move(trace_);
  }

  RecordedTimes times() { return std::move(times_); }

 private:
  const DeviceRecords& of_the_request() {
    device_.settle_shapes(gpu_.name.empty() ? kAssumedBlocks : read_gpu(gpu_.name).sms);
    device_.choose_window();
    return device_;
  }

  std::string stream_name(const StreamKey& key) const {
    const bool one_context =
        std::all_of(order_.streams().begin(), order_.streams().end(),
                    [&](const StreamKey& other) { return other.context == order_.streams()[0].context; });
    if (key.stream == kineto::kDriverStream) return "managed memory";
    if (key.stream < 0 && key.stream >= kineto::kLastDriverStream) return key.stream == kineto::kLastDriverStream ? "managed memory within" : "managed memory to the host";
    return one_context ? fmt::format("{}", key.stream) : fmt::format("{}/{}", key.context, key.stream);
  }

  void write_program() {
    Program program;
    program.name = trace_.name;
    for (const StreamKey& key : order_.streams()) program.streams.push_back({stream_name(key)});

    std::set<std::uint32_t> named;
    for (const HostItem& item : order_.items()) named.insert(item.after.begin(), item.after.end());
    std::optional<std::uint64_t> last_call;
    Time over{};  // what the GPU was given so far
    const bool whole = order_.one_graph();
    std::uint32_t graphs = 0;
    Time free = device_.window() != nullptr ? device_.at(device_.window()->start) : order_.begins();
    for (std::uint32_t i = 0; i < order_.items().size(); ++i) {
      const HostItem& item = order_.items()[i];
      Op op;
      if (item.op == nullptr) {
        op.what = Sync{};
      } else if (item.op->kind == GpuOp::Kind::kernel) {
        op.what = kernels_.next_launch();
      } else {
        const bool filled =
            item.op->kind == GpuOp::Kind::memset;  // moves half of what a copy reads and writes
        op.what = Copy{item.op->direction, filled ? (item.op->bytes + 1) / 2 : item.op->bytes, rate_of_host(*item.op)};
      }
      op.stream = StreamId{item.stream};
      const bool new_call = !item.call || item.call != last_call;
      if (new_call) op.host_gap = std::max(Time{}, item.call_start - free);
      if (!whole && order_.of_graph(item)) op.graph = new_call ? ++graphs : graphs;
      last_call = item.op == nullptr ? std::nullopt : item.call;
      if (item.op == nullptr)  // of a wait the host's own is what it takes beyond the work's end
        free = std::clamp(over + gpu_.completion_notice, item.call_start, item.call_end);
      else if (new_call)
        free = std::max(free, item.call_start) + (item.call_end - item.call_start);
      if (item.op != nullptr) over = std::max(over, item.gpu_end());
      for (const std::uint32_t source : item.after) op.after.push_back(OpId{source});
      if (named.contains(i)) op.name = fmt::format("op{}", i);
      program.ops.push_back(std::move(op));
    }
    if (whole) program.issue = Issue::graph;
    const bool polls = this->polls();
    times_.polls = {polls};
    // Of a range: what the host does after its last wait, as reading a result.
    if (const Time rest = device_.window() == nullptr ? Time{} : window_end() - (polls ? std::max(free, last_end()) : free);
        wanted_.repeats && program.issue != Issue::graph && (polls || order_.items().back().op == nullptr) &&
        (polls || rest >= std::chrono::microseconds{1})) {
      Op op;
      op.what = Sync{}, op.host_gap = rest;
      program.ops.push_back(std::move(op));
    }
    ClosedLoop arrivals{device_.think_time()};
    if (const auto& rhythm = device_.rhythm()) {
      times_.period = rhythm->period;
      const Time begins = device_.at(device_.window()->start), lasts = std::max(free, last_end()) - begins;
      if (rhythm->in_flight > 1) {
        constexpr double kBusy = 0.9;  // of the period: where a whole step waits behind the one under way, the GPU is never idle but between kernels
        const bool waits_for_room = rhythm->in_flight > 2 && to_ns(kernels_.kernel_time()) > kBusy * to_ns(rhythm->period);
        if (!waits_for_room) earlier_ = std::max(Time{}, rhythm->period - (free - begins));
        program.ops.front().host_gap += earlier_;
        notes_.push_back(waits_for_room ? "The GPU is never idle, so from a step's last call to the next step's first the host is taken to wait for one in flight to end."
                                        : "What the host does from a step's last call to the next step's first is its work for the next.");
        arrivals.in_flight = rhythm->in_flight;
      } else {
        arrivals.think_time = std::max(Time{}, rhythm->period - lasts);
      }
    }
    if (wanted_.host_time) shrink_host_gaps(program);

    Client client;
    client.name = "main";
    client.process = "main";
    client.program = ProgramId{0};
    client.streams.resize(program.streams.size());
    client.arrivals = arrivals;
    trace_.clients.push_back(std::move(client));
    trace_.programs.push_back(std::move(program));
  }

  Time window_end() const { return device_.at(device_.window()->start + device_.window()->duration); }
  Time last_end() const {
    Time last{};
    for (const HostItem& item : order_.items())
      if (item.op != nullptr) last = std::max(last, item.gpu_end());
    return last;
  }
  /// The request's mark ends after its work on the GPU, and no call in it waits: the program looks for itself, as JAX does.
  bool polls() const {
    return wanted_.repeats && device_.marked() && last_end() <= window_end() && std::ranges::none_of(order_.items(), [&](const HostItem& item) {
             const kineto::Call* call = item.op == nullptr ? nullptr : device_.call_of(item.call);
             return item.op == nullptr || (call != nullptr && call->kind == kineto::Call::Kind::copy_and_wait);
           });
  }

  /// Of what the profiler adds only that within launch calls is known; the rest is spread over the gaps.
  void shrink_host_gaps(Program& program) {
    const auto refuse = [&](const std::string& problem, const char* remedy) {
      throw InputError(file_.string(), "--host-time", problem, remedy);
    };
    if (!order_.any_call())
      refuse("there are no launch calls in it, so what the host did is not known",
             "record with ProfilerActivity.CPU too, or leave the option out");
    if (program.issue == Issue::graph)
      refuse("the request is one launch of a CUDA graph, which has no host gaps", "leave the option out");
    Time gaps{}, calls{};
    std::size_t issued = 0;
    for (const Op& op : program.ops) {
      gaps += op.host_gap;
      if (!std::holds_alternative<Sync>(op.what)) calls += gpu_.launch_call, ++issued;
    }
    if (*wanted_.host_time < calls)
      refuse(fmt::format("{:.3f} ms are less than its {} take the host, {:.3f} ms", to_ms(*wanted_.host_time),
                         counted(issued, "call", "calls"), to_ms(calls)),
             "give the time in which the host issues the whole request");
    if (gaps + calls <= *wanted_.host_time) {
      notes_.push_back(
          fmt::format("The host took {:.3f} ms in the recording, no longer than the {:.3f} ms it was said to "
                      "take without the profiler: its gaps are as recorded.",
                      to_ms(gaps + calls), to_ms(*wanted_.host_time)));
      return;
    }
    const double share =
        static_cast<double>((*wanted_.host_time - calls).count()) / static_cast<double>(gaps.count());
    scale_host_gaps(program, share);
    host_as_told_ = true;
    notes_.push_back(fmt::format(
        "Host gaps are {:.3f} of the recorded ones: so the host takes {:.3f} ms for a request, as "
        "it was said to without the profiler, instead of {:.3f}.",
        share, to_ms(*wanted_.host_time), to_ms(gaps + calls)));
  }

  // --- what was missing and what it costs ---

  void note_gaps() {
    Time first = kNever, last{};
    for (const HostItem& item : order_.items()) {
      if (item.op == nullptr) continue;
      first = std::min(first, item.gpu_start);
      last = std::max(last, item.gpu_start + item.op->duration);
    }
    trace_.about =
        fmt::format("Imported from {} ({}): {} of {}, {:.3f} ms of kernels within {:.3f} ms.",
                    file_.filename().string(), tool_, counted(kernels_.launches(), "launch", "launches"),
                    counted(kernels_.kernels().size(), "kernel", "kernels"), to_ms(kernels_.kernel_time()),
                    to_ms(last - first));
    const Time begin = (device_.window() != nullptr ? device_.at(device_.window()->start) : order_.begins()) - earlier_;
    times_.nearest_gpu = gpu_.nearest;
    if (device_.window() != nullptr) times_.request = device_.window()->name;
    times_.span = std::max(last, first) - begin;
    times_.kernels = kernels_.kernel_time();
    for (const HostItem& item : order_.items())
      times_.ops.push_back(
          item.op == nullptr
              ? RecordedTimes::Interval{}
              : RecordedTimes::Interval{item.gpu_start - begin, item.gpu_start + item.op->duration - begin});
    note_without_records();
    if (const std::size_t mended = device_.records().mended; mended != 0)
      notes_.push_back(fmt::format("{} no JSON (a comma of the locale, inf, N/A, or what nobody escaped in a name): a value there is read "
                                   "where it can be, and else left out.",
                                   counted(mended, "place is", "places are")));
    note_host(device_, gpu_, order_, host_as_told_, notes_);
    note_long_calls();
    note_copies(device_, order_, notes_);
    note_concurrency(order_, kernels_, !wanted_.counters.empty(), notes_);
    if (kernels_.any_shared_memory())
      notes_.push_back(
          "Static and dynamic shared memory are recorded as one sum and stored as dynamic: no effect on the "
          "simulation.");
    if (kernels_.without_registers() != 0)
      notes_.push_back(fmt::format(
          "{} without a register count: 32 a thread are assumed, so more blocks may fit an SM than in truth.",
          counted(kernels_.without_registers(), "kernel", "kernels")));
    note_profile(kernels_, wanted_.counters, notes_);
    notes_.push_back(
        "No times of single blocks: all blocks of a kernel are taken as equal, which flatters uneven ones.");
  }

  void note_without_records() {
    if (!device_.records().unrecorded_request) return;
    const kineto::Untraced& untraced = device_.records().untraced;
    std::set<std::uint64_t> calls;
    std::int64_t nodes = 0;
    for (const HostItem& item : order_.items()) {
      if (item.op == nullptr || !item.call) continue;
      calls.insert(*item.call);
      nodes += order_.of_graph(item) ? 1 : 0;
    }
    times_.without_profiler = {
        WithoutProfiler{*device_.records().unrecorded_request,
                        static_cast<std::int64_t>(calls.size()) * device_.records().added_to_call,
                        nodes * device_.records().added_to_node, untraced.count, untraced.tenth,
                        untraced.nine_tenths, untraced.kept_back, untraced.tool_away}};
    times_.told_by = untraced.tool_away ? "ranges while CUPTI was not in the process"
                                        : "its segments in which no kernels were recorded";
  }

  void note_long_calls() {
    times_.long_calls = order_.long_call_time();
    times_.long_call_count = order_.long_calls();
    if (times_.long_call_count != 0)
      notes_.push_back(fmt::format(
          "{} over 0.1 ms, {:.1f} ms in all, as when code is loaded in a cold start: kept as time of the "
          "host. Record after a warm-up if requests are not like that.",
          counted(times_.long_call_count, "call took", "calls took"), to_ms(times_.long_calls)));
  }

  std::filesystem::path file_;
  const char* tool_;
  const ImportOptions& wanted_;
  Notes notes_;
  DeviceRecords device_;
  RecordedGpu gpu_;
  HostOrder order_;
  RecordedKernels kernels_;
  bool host_as_told_ = false;
  Time earlier_{};  // that the host begins with the request before the step's mark
  RecordedTimes times_;
  Trace trace_;
};

}  // namespace

Trace import_records(const std::filesystem::path& file, Records records, const ImportOptions& options,
                     const char* tool, RecordedTimes* recorded) {
  Import import(file, std::move(records), options, tool);
  Trace trace = import.run();
  if (recorded != nullptr) *recorded = import.times();
  return trace;
}

Trace import_kineto(const std::filesystem::path& file, const ImportOptions& options,
                    RecordedTimes* recorded) {
  Records records = kineto::read_records(file, options.range);
  const std::map<std::string, Nanoseconds> times = std::move(records.request_times);
  const char* tool = records.by_xla ? "XLA's profiler" : "Kineto";
  Trace trace = import_records(file, std::move(records), options, tool, recorded);
  auto of = times.find(options.range.empty() ? "ProfilerStep" : options.range);
  if (of == times.end()) of = times.find("");
  if (of != times.end() && recorded != nullptr)
    recorded->without_profiler = {WithoutProfiler{of->second}}, recorded->told_by = "corun_request_time_us";
  return trace;
}

Trace import_kineto(const std::filesystem::path& file, const std::string& gpu,
                    const std::filesystem::path& counters, std::optional<Time> host_time, std::uint32_t sms) {
  ImportOptions options;
  options.gpu = gpu, options.counters = counters, options.host_time = host_time, options.sms = sms;
  return import_kineto(file, options);
}

bool looks_like_kineto(const std::filesystem::path& file) { return kineto::looks_like_records(file); }

}  // namespace corun
