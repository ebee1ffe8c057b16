#include "traces/import/captured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_map>

#include "traces/import/captured_ranges.h"
#include "traces/import/host_stalls.h"
#include "traces/import/median.h"
#include "traces/import/processes.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::Shape;

constexpr std::int64_t kVersion = 1;
/// What CUPTI adds where it records no kernels, to a call that issues work and to a node of a graph: on an H200, in a process
/// of its own (`overhead.py overhead.json` in experiments/h200/capture).
constexpr Nanoseconds kAddedToCall{1200}, kAddedToNode{290};
/// In nanoseconds 146 years, so that sums of two fit 64 bits.
constexpr std::int64_t kMostOfAny = std::int64_t{1} << 62;
constexpr std::int64_t kMostBytes = (std::int64_t{1} << 53) - 1;
constexpr std::uint64_t kMaxBlocks = std::numeric_limits<std::uint32_t>::max();

/// A line: an array that begins with the kind of record, as hw/capture/injection.cpp writes it.
class Fields {
 public:
  Fields(const nlohmann::json& line, const std::string& file, std::size_t number) : line_(line), file_(file), number_(number) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(file_, fmt::format("line {}", number_), problem, "capture the program again");
  }
  std::int64_t integer(std::size_t i, std::int64_t least = 0, std::int64_t most = kMostOfAny) const {
    if (i >= line_.size() || !line_[i].is_number_integer()) fail(fmt::format("field {} is no integer", i));
    if (line_[i].is_number_unsigned() && line_[i].get<std::uint64_t>() > static_cast<std::uint64_t>(kMostOfAny))
      fail(fmt::format("field {} is too large", i));
    const auto value = line_[i].get<std::int64_t>();
    if (value < least || value > most) fail(fmt::format("field {} is {}, outside of {} to {}", i, value, least, most));
    return value;
  }
  std::string text(std::size_t i) const {
    if (i >= line_.size() || !line_[i].is_string()) fail(fmt::format("field {} is no text", i));
    return line_[i].get<std::string>();
  }

 private:
  const nlohmann::json& line_;
  const std::string& file_;
  std::size_t number_;
};

class Reader {
 public:
  Reader(const std::filesystem::path& file, std::string range, std::optional<std::int64_t> device, bool host_stalls = false)
      : file_(file.string()), range_(std::move(range)), device_(device), host_stalls_(host_stalls) {}

  RecordedProcess read() {
    std::ifstream in(file_);
    if (!in) throw InputError(file_, "", "cannot be read", "check the path");
    std::string text;
    std::size_t number = 0;
    while (std::getline(in, text)) {
      ++number;
      const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
      if (in.eof() && line.is_discarded()) break;  // cut off when the program was killed
      if (!line.is_array() || line.empty() || !line[0].is_string() || line[0].get_ref<const std::string&>().size() != 1)
        throw InputError(file_, fmt::format("line {}", number), "is no record of a capture", "give the folder that sim capture --keep wrote");
      take(line[0].get_ref<const std::string&>()[0], Fields(line, file_, number));
    }
    if (process_.name.empty()) throw InputError(file_, "line 1", "does not say which process it is of", "give the folder that sim capture --keep wrote");
    finish();
    return std::move(process_);
  }

 private:
  void take(char kind, const Fields& f) {
    switch (kind) {
      case 'p': return head(f);
      case 'd':
        process_.records.devices.push_back({f.integer(1), f.text(2), static_cast<std::uint32_t>(f.integer(3, 0, 65535)), 0, 0});
        return;
      case 'n': names_[f.integer(1)] = f.text(2); return;
      case 'k': return kernel(f);
      case 'c': return copy(f, GpuOp::Kind::copy);
      case 'm': return copy(f, GpuOp::Kind::memset);
      case 'a': return call(f);
      case 'o': segments_.push_back({Nanoseconds{f.integer(1)}, f.integer(2, 0, 2)}); return;
      case 's': return event_wait(f);
      case 'e': recorded_[{f.integer(1), f.integer(4)}].push_back({f.integer(3), f.integer(2)}); return;
      case 'r': return range(f);
      case 'x': return memory(f);
      case 'z':
        ended_ = true;
        if (f.integer(1) != 0) process_.notes.push_back(fmt::format("CUPTI dropped {} records.", f.integer(1)));
        return;
      case '!': throw InputError(file_, "", f.text(1), "install CUDA's CUPTI, or name its library: CORUN_CUPTI=/path/to/libcupti.so");
      default: f.fail("an unknown kind of record");
    }
  }

  void head(const Fields& f) {
    if (f.integer(1) != kVersion)
      throw InputError(file_, "line 1", fmt::format("is of version {}, this is version {}", f.integer(1), kVersion), "capture it again");
    process_.name = fmt::format("{}-{}", f.text(3).empty() ? "process" : f.text(3), f.integer(2));
  }

  GpuOp operation(const Fields& f, GpuOp::Kind kind) const {
    GpuOp op;
    op.kind = kind;
    op.start = Nanoseconds{f.integer(2)};
    op.duration = Nanoseconds{f.integer(3)} - op.start;
    op.stream = {f.integer(4), f.integer(5), f.integer(6)};
    if (f.integer(7) != 0) op.correlation = static_cast<std::uint64_t>(f.integer(7));
    return op;
  }

  const std::string& name(const Fields& f, std::size_t i) const {
    const auto known = names_.find(f.integer(i));
    if (known == names_.end()) f.fail("uses a name that was not given before");
    return known->second;
  }

  void kernel(const Fields& f) {
    if (device_ && f.integer(4) != *device_) return;
    GpuOp op = operation(f, GpuOp::Kind::kernel);
    if (op.start == Nanoseconds{} || op.duration <= Nanoseconds{}) {
      ++unmeasured_;
      return;
    }
    const auto dims = [&](std::size_t first, std::array<std::int64_t, 3> most, std::uint64_t in_all) {
      const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(f.integer(first + i, 1, most[i])); };
      const Dim3 size{at(0), at(1), at(2)};
      if (size.count() > in_all) f.fail(fmt::format("fields {} to {} are {} in all, over {}", first, first + 2, size.count(), in_all));
      return size;
    };
    Shape shape;
    shape.name = name(f, 1);
    if (shape.name.empty()) f.fail("is a kernel without a name");
    shape.grid = dims(8, {2147483647, 65535, 65535}, kMaxBlocks), shape.block = dims(11, {1024, 1024, 64}, 1024);
    if (f.integer(14, 0, 256) > 0) shape.registers_per_thread = static_cast<std::uint32_t>(f.integer(14));
    shape.static_shared_memory_bytes = static_cast<std::uint32_t>(f.integer(15, 0, 1 << 24));
    shape.shared_memory_bytes = *shape.static_shared_memory_bytes + static_cast<std::uint32_t>(f.integer(16, 0, 1 << 24));
    if (f.integer(17) > 0) {
      const Dim3 cluster = dims(17, {16, 16, 16}, 16);
      if (shape.grid.x % cluster.x != 0 || shape.grid.y % cluster.y != 0 || shape.grid.z % cluster.z != 0)
        f.fail("has clusters that do not fill the grid");
      shape.cluster = cluster;
    }
    op.shape = shapes_.of(std::move(shape), process_.records.shapes);
    process_.records.ops.push_back(op);
    process_.records.any_events = true;
  }

  void copy(const Fields& f, GpuOp::Kind kind) {
    if (device_ && f.integer(4) != *device_) return;
    GpuOp op = operation(f, kind);
    op.bytes = static_cast<std::uint64_t>(f.integer(1, 0, kMostBytes));
    if (op.duration < Nanoseconds{}) {
      ++unmeasured_;
      return;
    }
    const auto what = kind == GpuOp::Kind::copy ? kineto::cupti_copy(f.integer(8)) : kineto::CuptiCopy{op.direction, false};
    if (op.bytes == 0 || !what) {
      ++process_.records.skipped_copies;
      return;
    }
    op.direction = what->direction, op.peer = what->peer;
    if (op.direction != CopyDirection::device_to_device) {
      constexpr std::int64_t kPageable = 1, kManaged = 5;  // CUpti_ActivityMemoryKind
      const std::int64_t memory = f.integer(op.direction == CopyDirection::host_to_device ? 9 : 10);
      op.pageable = memory == kPageable || memory == kManaged;
    }
    process_.records.ops.push_back(op);
  }

  void call(const Fields& f) {
    const auto [known, added] = kinds_.try_emplace(f.integer(1));
    if (added) known->second = kineto::call_kind(name(f, 1));
    if (!known->second || f.integer(5) == 0) return;
    const auto [thread, is_new] = threads_.try_emplace(f.integer(4), process_.records.threads);
    if (is_new) ++process_.records.threads;
    process_.records.calls.push_back({*known->second, thread->second, static_cast<std::uint64_t>(f.integer(5)),
                                      Nanoseconds{f.integer(2)}, Nanoseconds{f.integer(3, f.integer(2)) - f.integer(2)}});
  }

  void event_wait(const Fields& f) {
    kineto::SyncEvent sync;
    sync.event_wait = true;
    sync.start = Nanoseconds{f.integer(1)};
    sync.stream = {0, f.integer(2), f.integer(3)};
    if (f.integer(4) > 0) sync.correlation = static_cast<std::uint64_t>(f.integer(4));
    process_.records.syncs.push_back(sync);
    event_of_.push_back({f.integer(2), f.integer(5)});
  }

  void range(const Fields& f) {
    const std::string name = f.text(1);
    RangesOfName& of = ranges_[name];
    ++of.count;
    const kineto::Step step{name, Nanoseconds{f.integer(2)}, Nanoseconds{f.integer(3, f.integer(2)) - f.integer(2)}};
    if (range_.empty() ? f.integer(5) == 0 : name == range_) of.steps.push_back(step);
    if (host_stalls_ && f.integer(5) == 0) {
      const auto [thread, is_new] = threads_.try_emplace(f.integer(4), process_.records.threads);
      if (is_new) ++process_.records.threads;
      seen_.push_back({&of, thread->second, step.start, step.start + step.duration});
    }
  }

  void memory(const Fields& f) {
    constexpr std::int64_t kAllocation = 1, kRelease = 2;  // CUpti_ActivityMemoryOperationType
    const std::int64_t what = f.integer(1);
    // An address may be above 2^63, as no pointer of a GPU is.
    if (what == kAllocation) allocations_.push_back({f.integer(4), f.integer(2, 0, kMostBytes), f.integer(3)});
    if (what == kRelease) allocations_.push_back({f.integer(4), -1, f.integer(3)});
  }

  void finish() {
    kineto::Records& r = process_.records;
    // Buffers come device by device and thread by thread.
    std::stable_sort(r.ops.begin(), r.ops.end(), [](const GpuOp& a, const GpuOp& b) { return a.start < b.start; });
    std::stable_sort(r.calls.begin(), r.calls.end(), [](const Call& a, const Call& b) { return a.start < b.start; });
    join_events();
    const std::vector<Call> calls = host_stalls_ ? r.calls : std::vector<Call>{};
    leave_out_segments();
    if (host_stalls_) watch_host(calls);
    most_memory();
    if (unmeasured_ != 0) process_.notes.push_back(fmt::format("CUPTI has no times of {} kernels or copies, an end before the beginning, or one that is too late; they are left out.", unmeasured_));
    if (!ended_)
      process_.notes.push_back("The program did not end by itself: what it did in its last 0.2 s may be missing.");
    choose_range(ranges_, range_, process_);
  }

  /// What was recorded at that time.
  struct Segment {
    Nanoseconds start{};
    std::int64_t what = 1;  // 0: calls, 1: kernels too, 2: ranges alone, as CUPTI was not in the process
    std::size_t number = 0;
    bool records() const { return what == 1; }
    bool away() const { return what == 2; }
  };
  const Segment& segment_at(Nanoseconds time) const {
    static constexpr Segment kAll;
    const auto next = std::upper_bound(segments_.begin(), segments_.end(), time, [](Nanoseconds t, const Segment& s) { return t < s.start; });
    return next == segments_.begin() ? kAll : *std::prev(next);
  }

  /// Calls that were made while no kernels were recorded tell what a request takes then, and nothing else; the same holds for
  /// ranges.  Ranges of several segments are left out.  So is all of a call whose work ends in another segment: where CUPTI had
  /// not read the times of a graph's nodes when its segment ended, they are those of a later launch of the graph.
  void leave_out_segments() {
    if (segments_.empty()) return;
    std::sort(segments_.begin(), segments_.end(), [](const Segment& a, const Segment& b) { return a.start < b.start; });
    std::int64_t what = 1;
    std::size_t number = 0;
    for (Segment& s : segments_) {
      if (s.what != what) ++number;
      what = s.what, s.number = number;
    }
    kineto::Records& r = process_.records;
    r.added_to_call = kAddedToCall, r.added_to_node = kAddedToNode;
    const auto unrecorded = [&](Nanoseconds time) { return !segment_at(time).records(); };
    const auto several = [&](Nanoseconds start, Nanoseconds duration) {
      return segment_at(start).number != segment_at(start + duration).number;
    };
    std::set<std::uint64_t> calls, cut;
    for (const Call& call : r.calls)
      if (unrecorded(call.start)) r.unrecorded_calls.push_back(call), calls.insert(call.correlation);
    std::erase_if(r.calls, [&](const Call& call) { return unrecorded(call.start); });
    r.in_segments = !r.unrecorded_calls.empty() || std::ranges::any_of(segments_, &Segment::away);
    for (const GpuOp& op : r.ops)
      if (op.correlation && !calls.contains(*op.correlation) && (unrecorded(op.start) || several(op.start, op.duration))) {
        ++unmeasured_;
        cut.insert(*op.correlation);
      }
    std::vector<Nanoseconds> cut_at;
    for (const Call& call : r.calls)
      if (cut.contains(call.correlation)) cut_at.push_back(call.start);
    const auto is_cut = [&](const kineto::Step& step) {
      const auto at = std::lower_bound(cut_at.begin(), cut_at.end(), step.start);
      return at != cut_at.end() && *at < step.start + step.duration;
    };
    std::erase_if(r.calls, [&](const Call& call) { return cut.contains(call.correlation); });
    calls.merge(cut);
    std::erase_if(r.syncs, [&](const kineto::SyncEvent& sync) { return unrecorded(sync.start); });
    std::erase_if(r.ops, [&](const GpuOp& op) { return op.correlation && calls.contains(*op.correlation); });
    for (auto& [name, of] : ranges_) {
      for (const kineto::Step& step : of.steps)
        if (unrecorded(step.start) && !several(step.start, step.duration))
          (segment_at(step.start).away() ? of.away : of.unrecorded).push_back(step.duration);
      std::erase_if(of.steps, [&](const kineto::Step& step) {
        return unrecorded(step.start) || several(step.start, step.duration) || is_cut(step);
      });
    }
  }

  /// While CUPTI is away no calls are known: of a range then all but its usual time is a stall.
  void watch_host(const std::vector<Call>& calls) {
    for (WatchedRange& range : seen_) {
      const Segment &begins = segment_at(range.start), &ends = segment_at(range.end);
      range.records = begins.records(), range.segment = begins.number, range.last_segment = ends.number;
    }
    std::optional<FoundStalls> found = stalls_in_ranges(std::move(seen_), calls);
    if (!found) return;
    process_.notes.push_back(found->in_words());
    process_.host_stalls = std::move(found->record);
  }

  /// A wait is for the latest record of its event before it: calls are numbered as they come.
  void join_events() {
    for (auto& [event, records] : recorded_) std::sort(records.begin(), records.end());
    for (std::size_t i = 0; i < process_.records.syncs.size(); ++i) {
      kineto::SyncEvent& sync = process_.records.syncs[i];
      const auto known = recorded_.find(event_of_[i]);
      if (known == recorded_.end() || !sync.correlation) continue;
      const auto& records = known->second;
      auto it = std::lower_bound(records.begin(), records.end(), std::pair{static_cast<std::int64_t>(*sync.correlation), std::int64_t{0}});
      if (it == records.begin()) continue;
      --it;
      sync.record_correlation = static_cast<std::uint64_t>(it->first);
      sync.wait_on_stream = it->second;
    }
    if (process_.records.ops.empty()) return;
    for (kineto::SyncEvent& sync : process_.records.syncs) sync.stream.device = process_.records.ops.front().stream.device;
  }

  void most_memory() {
    std::sort(allocations_.begin(), allocations_.end());
    std::unordered_map<std::int64_t, std::int64_t> size_at;
    std::int64_t held = 0, most = 0;
    for (const auto& [time, bytes, address] : allocations_) {
      if (bytes >= 0) {
        if (held > kMostBytes - bytes)
          throw InputError(file_, "", "allocations of more bytes than any GPU has", "capture the program again");
        held += bytes, size_at[address] = bytes;
      } else if (const auto known = size_at.find(address); known != size_at.end()) {
        held -= known->second;
        size_at.erase(known);
      }
      most = std::max(most, held);
    }
    process_.memory_bytes = static_cast<std::uint64_t>(most);
  }

  std::string file_, range_;
  std::optional<std::int64_t> device_;
  RecordedProcess process_;
  std::unordered_map<std::int64_t, std::string> names_;
  std::unordered_map<std::int64_t, std::optional<Call::Kind>> kinds_;  // by number of the name
  std::map<std::int64_t, std::uint32_t> threads_;
  kineto::ShapeIndex shapes_;
  using Event = std::pair<std::int64_t, std::int64_t>;                          // context, event
  std::map<Event, std::vector<std::pair<std::int64_t, std::int64_t>>> recorded_;  // {correlation, stream}
  std::vector<Event> event_of_;                                                 // by Records::syncs
  RangesByName ranges_;
  std::vector<WatchedRange> seen_;  // of no domain
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> allocations_;  // {time, bytes or -1, address}
  std::vector<Segment> segments_;
  std::size_t unmeasured_ = 0;
  bool ended_ = false, host_stalls_;
};

}  // namespace

Trace import_captured(const std::filesystem::path& folder, const ImportOptions& options, const std::string& process,
                      RecordedTimes* recorded) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  if (failed) throw InputError(folder.string(), "", "is no folder that can be read", "give the folder that sim capture --keep wrote");
  std::sort(files.begin(), files.end());
  std::vector<RecordedProcess> processes;
  for (const auto& file : files) {
    RecordedProcess one = Reader(file, options.range, options.device, options.host_stalls).read();
    if (!one.records.ops.empty()) processes.push_back(std::move(one));
  }
  std::erase_if(processes, [](const RecordedProcess& p) { return !p.records.any_events; });
  if (processes.empty())
    throw InputError(folder.string(), "", files.empty() ? "no process used CUDA" : "no process launched a kernel",
                     "capture a program that uses an NVIDIA GPU");
  if (!options.range.empty() && std::all_of(processes.begin(), processes.end(), [](const auto& p) { return p.records.steps.empty(); }))
    throw InputError(folder.string(), "--range", fmt::format("there is no range {}", in_quotes(options.range)),
                     "leave the option out: a note then lists the ranges");
  std::stable_sort(processes.begin(), processes.end(), [](const RecordedProcess& a, const RecordedProcess& b) {
    return a.records.ops.front().start < b.records.ops.front().start;
  });
  ImportOptions with_repeats = options;
  with_repeats.repeats = true;
  return import_processes(folder, std::move(processes), with_repeats, "sim capture", process, recorded);
}

Time untraced_range(const std::filesystem::path& folder, const std::string& name) {
  std::vector<Nanoseconds> times;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    for (const kineto::Step& step : Reader(entry.path(), name, {}).read().records.steps) times.push_back(step.duration);
  if (times.empty())
    throw InputError("", "--twice", name.empty() ? "the request is no NVTX range" : fmt::format("the request is no NVTX range, but {}", name),
                     "mark requests with NVTX ranges, or say what one takes: --request-time");
  return lower_median(std::move(times));
}

}  // namespace corun
