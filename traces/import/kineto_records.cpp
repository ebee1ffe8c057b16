#include "traces/import/kineto_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/import/kineto_fields.h"
#include "traces/import/kineto_shapes.h"
#include "traces/import/kineto_text.h"
#include "traces/import/mended_json.h"
#include "traces/import/xla_details.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::kineto {
namespace {

constexpr std::string_view kRequestTime = "corun_request_time_us";
constexpr Nanoseconds kLongestRequest = std::chrono::hours{1};
constexpr std::int64_t kMaxGridX = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMaxBlocks = std::numeric_limits<std::uint32_t>::max();

struct Dims {
  std::array<std::int64_t, 3> size{};
  std::size_t count = 0;
};

/// The file is no JSON, but may be as profilers are known to write it (MendedJson).
struct Unsound {};

/// Where the reader is in the document, and the record it is filling.
class RecordSax {
 public:
  /// `mended`: the text is; else parse errors within it are thrown as Unsound.
  RecordSax(std::string file, const ByteSource& source, std::string range, bool mended)
      : file_(std::move(file)), source_(source), range_(std::move(range)), mended_(mended) {}

  Records take() {
    if (!records_.other_runtime.empty() && !records_.shapeless.empty())
      throw InputError(file_, "",
                       fmt::format("its kernels are of a GPU of neither NVIDIA nor AMD (events of `{}`), and have no launch shapes",
                                   records_.other_runtime),
                       "record the program on an NVIDIA or AMD GPU: nothing here describes another");
    shapes_.complete(records_, file_);
    find_contexts();
    return std::move(records_);
  }

  bool null() {
    return value([&](Field field) {
      if (field == Field::request_time) refuse_request_time();
    });
  }
  bool boolean(bool) { return null(); }
  bool number_integer(std::int64_t v) { return number(integer_number(v)); }
  bool number_unsigned(std::uint64_t v) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return number(v <= most ? integer_number(static_cast<std::int64_t>(v))
                            : Number{static_cast<double>(v), {}, {}});
  }
  bool number_float(double v, const std::string& digits) { return number(decimal_number(v, digits)); }
  bool string(std::string& text) {
    return value([&](Field field) { set_text(field, text); });
  }
  bool binary(std::vector<std::uint8_t>&) { return null(); }

  bool start_object(std::size_t) {
    open();
    if (field_ == Field::request_time && depth_ != 2) refuse_request_time();
    if (depth_ == record_depth_ && in_events()) event_ = {};
    if (depth_ == record_depth_ && section_ == Section::devices) device_ = {};
    if (depth_ == record_depth_ + 1 && in_events() && field_ == Field::args) in_args_ = true;
    field_ = Field::none;
    return true;
  }
  bool key(std::string& name) {
    if (depth_ == 1 && !array_) {
      section_ = name == "traceEvents"        ? Section::events
                 : name == "deviceProperties" ? Section::devices
                 : name == kRequestTime       ? Section::request_time
                                              : Section::other;
      if (section_ == Section::request_time) field_ = Field::request_time, request_of_.clear();
    } else if (section_ == Section::request_time && depth_ == 2) {
      field_ = Field::request_time, request_of_ = std::move(name);
    } else if (in_events() && depth_ == record_depth_) {
      field_ = event_field(name);
      if (field_ == Field::none) field_ = argument_field(name);  // bare kernel records have no `args`
    } else if (in_args_ && depth_ == record_depth_ + 1) {
      field_ = argument_field(name);
    } else if (section_ == Section::devices && depth_ == record_depth_) {
      field_ = device_field(name);
    }
    return true;
  }
  bool end_object() {
    if (depth_ == record_depth_ + 1) in_args_ = false;
    if (depth_ == record_depth_ && in_events()) end_event();
    if (depth_ == record_depth_ && section_ == Section::devices)
      records_.devices.push_back(std::move(device_));
    --depth_;
    return true;
  }
  bool start_array(std::size_t) {
    open();
    if (field_ == Field::request_time) refuse_request_time();
    if (depth_ == 1) {
      array_ = true;
      record_depth_ = 2;
    }
    if (field_ == Field::grid || field_ == Field::block) {
      dims_ = field_ == Field::grid ? &event_.grid : &event_.block;
      dims_->emplace();
      dims_depth_ = depth_;
    }
    field_ = Field::none;
    return true;
  }
  bool end_array() {
    if (depth_ == dims_depth_) dims_depth_ = 0;
    --depth_;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    const std::string_view what = error.what();
    const std::size_t colon = what.find(": ");
    const std::string_view detail = colon == std::string_view::npos ? what : what.substr(colon + 2);
    if (what.find("unexpected end of input") != std::string_view::npos ||
        what.find("missing closing quote") != std::string_view::npos)
      throw InputError(file_, source_.place(), "the file ends in the middle of the JSON",
                       "the recording or the copy was cut short: export the trace again");
    if (what.find("UTF-8") != std::string_view::npos)
      throw InputError(file_, source_.place(), fmt::format("a string is not UTF-8 ({})", detail),
                       "drop the bad bytes: iconv -c -f utf-8 -t utf-8 old.json > new.json");
    if (!mended_ && depth_ != 0) throw Unsound{};
    throw InputError(
        file_, source_.place(), fmt::format("not JSON from here on ({})", detail),
        depth_ == 0 ? "give a trace that the PyTorch profiler exported (export_chrome_trace)"
                    : "export the trace again: bare quotes, inf, N/A and commas of the locale are read, and this is something else");
  }

 private:
  enum class Section : std::uint8_t { other, events, devices, request_time };

  struct Event {
    std::string name, cat, ph, tid, pid, sync_kind, label, kernel_details, memcpy_details, memset_details;
    std::optional<Nanoseconds> ts, dur;
    std::optional<std::int64_t> device, context, stream, correlation, registers, shared_memory, bytes;
    std::optional<std::int64_t> wait_on_stream, record_correlation;
    std::optional<Dims> grid, block;
    double blocks_per_sm = 0;
  };

  bool in_events() const { return array_ || section_ == Section::events; }

  void open() {
    if (++depth_ > kMaxDepth)
      throw InputError(file_, source_.place(), fmt::format("nested more than {} levels deep", kMaxDepth),
                       "this is no profiler trace: check the file");
  }

  template <class Set>
  bool value(Set set) {
    if (field_ != Field::none) set(std::exchange(field_, Field::none));
    return true;
  }

  bool number(const Number& n) {
    if (dims_depth_ != 0 && depth_ == dims_depth_) {
      if ((*dims_)->count < 3) (*dims_)->size[(*dims_)->count] = n.integer.value_or(0);
      ++(*dims_)->count;
      return true;
    }
    return value([&](Field field) { set_number(field, n); });
  }

  void set_text(Field field, std::string& text) {
    switch (field) {
      case Field::name:
        (section_ == Section::devices ? device_.name : event_.name) = std::move(text);
        break;
      case Field::cat:
        event_.cat = std::move(text);
        break;
      case Field::ph:
        event_.ph = std::move(text);
        break;
      case Field::tid:
        event_.tid = std::move(text);
        break;
      case Field::pid:
        event_.pid = std::move(text);
        break;
      case Field::label:
        event_.label = std::move(text);
        break;
      case Field::kernel_details:
        event_.kernel_details = std::move(text);
        break;
      case Field::memcpy_details:
        event_.memcpy_details = std::move(text);
        break;
      case Field::memset_details:
        event_.memset_details = std::move(text);
        break;
      case Field::correlation:
        if (const auto number = whole_numbers(text); number.size() == 1) event_.correlation = number.front();
        break;
      case Field::sync_kind:
        event_.sync_kind = std::move(text);
        break;
      case Field::request_time:
        refuse_request_time();
      default:
        break;
    }
  }

  void set_number(Field field, const Number& n) {
    switch (field) {
      case Field::ts:
        event_.ts = n.microseconds;
        break;
      case Field::dur:
        event_.dur = n.microseconds;
        break;
      case Field::tid:
        event_.tid = fmt::format("{}", n.value);
        break;
      case Field::pid:
        event_.pid = fmt::format("{}", n.value);
        break;
      case Field::device:
        event_.device = n.integer;
        break;
      case Field::context:
        event_.context = n.integer;
        break;
      case Field::stream:
        event_.stream = n.integer;
        break;
      case Field::correlation:
        event_.correlation = n.integer;
        break;
      case Field::registers:
        event_.registers = n.integer;
        break;
      case Field::shared_memory:
        event_.shared_memory = n.integer;
        break;
      case Field::bytes:
        event_.bytes = n.integer;
        break;
      case Field::wait_on_stream:
        event_.wait_on_stream = n.integer;
        break;
      case Field::record_correlation:
        event_.record_correlation = n.integer;
        break;
      case Field::blocks_per_sm:
        event_.blocks_per_sm = n.value;
        break;
      case Field::id:
        device_.id = n.integer.value_or(0);
        break;
      case Field::sms:
        device_.sms = static_cast<std::uint32_t>(n.integer.value_or(0));
        break;
      case Field::compute_major:
        device_.compute_capability += 10 * static_cast<std::uint32_t>(std::clamp<std::int64_t>(n.integer.value_or(0), 0, 100));
        break;
      case Field::compute_minor:
        device_.compute_capability += static_cast<std::uint32_t>(std::clamp<std::int64_t>(n.integer.value_or(0), 0, 9));
        break;
      case Field::memory:
        device_.memory_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, n.integer.value_or(0)));
        break;
      case Field::request_time:
        if (!n.microseconds || *n.microseconds <= Nanoseconds{} || *n.microseconds > kLongestRequest) refuse_request_time();
        records_.request_times[request_of_] = *n.microseconds;
        break;
      default:
        break;
    }
  }

  [[noreturn]] void refuse_request_time() const {
    throw InputError(file_, source_.place(),
                     fmt::format("`{}` is neither a number of microseconds, above 0 and at most an hour, nor an object with one for each range",
                                 kRequestTime),
                     fmt::format("write it as add_metadata_json(\"{}\", \"3214.5\") does", kRequestTime));
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw InputError(file_, source_.place(),
                     fmt::format("the {} record that ends here, {}, {}",
                                 event_.cat.empty() ? "kernel" : event_.cat, in_quotes(event_.name), problem),
                     "export the trace again with the PyTorch profiler and CUDA activities");
  }

  Nanoseconds require_time(const std::optional<Nanoseconds>& time, const char* key) const {
    if (!time) refuse(fmt::format("has no number `{}` (microseconds)", key));
    return *time;
  }

  Nanoseconds duration() const {
    const Nanoseconds dur = require_time(event_.dur, "dur");
    if (dur < Nanoseconds{}) refuse("has a negative `dur`");
    return dur;
  }

  /// `most` in each direction and `in_all`, as CUDA allows.
  Dim3 require_dims(const std::optional<Dims>& dims, const char* key, std::array<std::int64_t, 3> most,
                    std::uint64_t in_all) const {
    bool valid = dims && dims->count == 3;
    for (std::size_t i = 0; valid && i < 3; ++i) valid = dims->size[i] >= 1 && dims->size[i] <= most[i];
    if (!valid) refuse(fmt::format("has no `{}` of three integers that a launch can have", key));
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(dims->size[i]); };
    const Dim3 size{at(0), at(1), at(2)};
    if (size.count() > in_all)
      refuse(fmt::format("has a `{}` of {} in all, more than {}", key, size.count(), in_all));
    return size;
  }

  std::uint32_t require_count(std::int64_t n, const char* key, std::int64_t most) const {
    if (n < 0 || n > most) refuse(fmt::format("has an impossible `{}`, {}", key, n));
    return static_cast<std::uint32_t>(n);
  }

  static std::optional<std::uint64_t> correlation(const std::optional<std::int64_t>& id) {
    return id && *id > 0 ? std::optional(static_cast<std::uint64_t>(*id)) : std::nullopt;
  }

  StreamKey stream() const {
    return {event_.device.value_or(0), event_.context.value_or(0), event_.stream.value_or(0)};
  }

  void end_event() {
    records_.any_events = true;
    const std::string& cat = event_.cat;
    if (event_.ph == "M" && event_.name == "process_name") {
      if (const auto gpu = gpu_of_process(event_.label)) gpu_of_pid_[event_.pid] = *gpu;
      else if (event_.label.starts_with("/device:") || (event_.label.starts_with("/host:CPU") && records_.xla_device.empty())) records_.xla_device = event_.label;
    }
    const bool bare_kernel = cat.empty() && event_.ph.empty() && event_.grid;
    if (!event_.ph.empty() && event_.ph != "X") return;
    if (cat.empty() && event_.ph == "X" && of_xla()) return end_event_of_xla();
    if (event_.pid == "CUDA functions" || event_.pid == "CPU functions") records_.by_legacy_profiler = true;
    if (cat.ends_with("_runtime") && cat != "cuda_runtime" && !cat.starts_with("hip")) records_.other_runtime = cat;
    // The capitalised names are those of 2021.
    if (bare_kernel || cat == "kernel" || cat == "Kernel") {
      end_kernel();
    } else if (cat == "gpu_memcpy" || cat == "Memcpy") {
      end_copy();
    } else if (cat == "gpu_memset" || cat == "Memset") {
      end_memset();
    } else if (cat == "cuda_runtime" || cat == "cuda_driver" || cat == "Runtime") {
      end_call();
    } else if (cat == "cuda_sync") {
      end_sync();
    } else if (is_step()) {
      records_.steps.push_back({std::move(event_.name), require_time(event_.ts, "ts"), duration()});
    }
  }

  bool of_xla() const { return !gpu_of_pid_.empty() || !event_.kernel_details.empty(); }

  /// Its events have no categories.  A stream is a thread of the GPU's process, and an operation tells its details; the same
  /// process has rows of what was made of them, without details.
  void end_event_of_xla() {
    records_.by_xla = true;
    const auto gpu = gpu_of_pid_.find(event_.pid);
    if (gpu == gpu_of_pid_.end() && event_.kernel_details.empty()) {
      if (!range_.empty() && event_.name == range_) records_.steps.push_back({event_.name, require_time(event_.ts, "ts"), duration()});
      return end_call();
    }
    event_.cat = "GPU";
    event_.device = gpu == gpu_of_pid_.end() ? 0 : gpu->second;
    if (const auto stream = whole_numbers(event_.tid); stream.size() == 1) event_.stream = stream.front();
    const auto number = [](const std::string& details, const char* key) -> std::optional<std::int64_t> {
      const auto numbers = whole_numbers(detail(details, key));
      return numbers.size() == 1 ? std::optional(numbers.front()) : std::nullopt;
    };
    if (const std::string& kernel = event_.kernel_details; !kernel.empty()) {
      const auto dims = [&](const char* key) {
        Dims read;
        for (const std::int64_t n : whole_numbers(detail(kernel, key))) {
          if (read.count < 3) read.size[read.count] = n;
          ++read.count;
        }
        return read;
      };
      event_.grid = dims("grid"), event_.block = dims("block"), event_.registers = number(kernel, "regs");
      const std::int64_t shared = number(kernel, "static_shared").value_or(0), dynamic = number(kernel, "dynamic_shared").value_or(0);
      if (shared < 0 || dynamic < 0 || shared > 1 << 24 || dynamic > 1 << 24) refuse("has impossible bytes of shared memory");
      event_.shared_memory = shared + dynamic;
      end_kernel();
    } else if (const std::string& copy = event_.memcpy_details; !copy.empty()) {
      const auto host = [&](const char* key) {
        const std::string_view kind = detail(copy, key);
        return kind == "pageable" || kind == "pinned";
      };
      const bool pageable = detail(copy, "kind_src") == "pageable" || detail(copy, "kind_dst") == "pageable";
      const bool from_host = host("kind_src"), to_host = host("kind_dst");
      event_.bytes = number(copy, "size");
      event_.name = fmt::format("{}to{} {} {}", from_host ? 'H' : 'D', to_host ? 'H' : 'D', pageable ? "Pageable" : "",
                                event_.name.find("P2P") != std::string::npos ? "PtoP" : "");
      end_copy();
    } else if (!event_.memset_details.empty()) {
      event_.bytes = number(event_.memset_details, "size");
      end_memset();
    }
  }

  /// Profilers of 2021 put the marks among the operators.
  bool is_step() const {
    const std::string& cat = event_.cat;
    if (cat != "user_annotation" && cat != "cpu_op" && cat != "Operator") return false;
    return range_.empty() ? event_.name.starts_with("ProfilerStep#") : event_.name == range_;
  }

  /// Events without a context are of that in which their stream has kernels, where that is one.
  void find_contexts() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::optional<std::int64_t>> of_stream;  // nothing: of several
    std::vector<bool> without(records_.ops.size());
    for (const std::size_t i : without_context_) without[i] = true;
    for (std::size_t i = 0; i < records_.ops.size(); ++i) {
      const StreamKey& key = records_.ops[i].stream;
      if (without[i]) continue;
      const auto [known, added] = of_stream.try_emplace({key.device, key.stream}, key.context);
      if (!added && known->second != key.context) known->second.reset();
    }
    for (const std::size_t i : without_context_) {
      StreamKey& key = records_.ops[i].stream;
      const auto known = of_stream.find({key.device, key.stream});
      if (known != of_stream.end() && known->second) key.context = *known->second;
    }
  }

  GpuOp gpu_op(GpuOp::Kind kind) {
    if (!event_.context) without_context_.push_back(records_.ops.size());
    GpuOp op;
    op.kind = kind;
    op.start = require_time(event_.ts, "ts");
    op.duration = duration();
    op.stream = stream();
    op.correlation = correlation(event_.correlation);
    if (event_.bytes && *event_.bytes > 0) op.bytes = static_cast<std::uint64_t>(*event_.bytes);
    if (op.bytes > kMostBytes) refuse(fmt::format("has an impossible `bytes`, {}", op.bytes));
    return op;
  }

  void end_kernel() {
    if (event_.name.empty()) refuse("has no `name`");
    GpuOp op = gpu_op(GpuOp::Kind::kernel);
    Shape shape;
    const bool shapeless = !event_.grid && !event_.block;  // of AMD's: the launch call may say it
    if (shapeless) {
      records_.shapeless.push_back(static_cast<std::uint32_t>(records_.ops.size()));
    } else {
      shape.grid = require_dims(event_.grid, "grid", {kMaxGridX, kMaxGridX, kMaxGridX}, kMaxBlocks);
      shape.block = require_dims(event_.block, "block", {1024, 1024, 64}, 1024);
    }
    if (event_.registers && *event_.registers != 0)
      shape.registers_per_thread = require_count(*event_.registers, "registers per thread", 256);
    shape.shared_memory_bytes = require_count(event_.shared_memory.value_or(0), "shared memory", 1 << 24);
    if (event_.blocks_per_sm > 0) {
      // The value is rounded, so the more blocks the surer.
      const double sms = static_cast<double>(shape.grid.count()) / event_.blocks_per_sm;
      if (event_.blocks_per_sm > most_blocks_per_sm_ && sms < 100000) {
        most_blocks_per_sm_ = event_.blocks_per_sm;
        records_.implied_sms = static_cast<std::uint32_t>(std::lround(sms));
      }
    }
    shape.name = std::move(event_.name);
    op.shape = shapes_.of(std::move(shape), records_);
    records_.ops.push_back(op);
  }

  void skip_copy() {
    ++records_.skipped_copies;
    if (!event_.context) without_context_.pop_back();
  }

  void end_copy() {
    GpuOp op = gpu_op(GpuOp::Kind::copy);
    const std::string_view name = event_.name;  // "Memcpy HtoD (Pageable -> Device)"; of roctracer "CopyHostToDevice"
    const auto has = [&](std::string_view text) { return name.find(text) != std::string_view::npos; };
    if (op.bytes == 0 || has("HtoH") || has("HostToHost")) return skip_copy();
    op.direction = direction_of(has("HtoD") || has("HtoA") || has("HostToDevice"), has("DtoH") || has("AtoH") || has("DeviceToHost"));
    const bool of_host = op.direction != CopyDirection::device_to_device;
    op.pageable = has("Pageable") || (of_host && has("Managed"));
    op.memory_unknown = of_host && !op.pageable && !has("Pinned");
    op.peer = has("PtoP");
    records_.ops.push_back(op);
  }

  void end_memset() {
    const GpuOp op = gpu_op(GpuOp::Kind::memset);
    if (op.bytes == 0) return skip_copy();
    records_.ops.push_back(op);
  }

  void end_call() {
    const std::optional<Call::Kind> kind = call_kind(event_.name);
    const auto id = correlation(event_.correlation);
    if (!kind || !id) return;
    if (*kind == Call::Kind::launch && event_.grid && event_.block) {
      Shape shape;
      shape.grid = require_dims(event_.grid, "grid", {kMaxGridX, kMaxGridX, kMaxGridX}, kMaxBlocks);
      shape.block = require_dims(event_.block, "block", {1024, 1024, 64}, 1024);
      shape.shared_memory_bytes = require_count(event_.shared_memory.value_or(0), "shared memory", 1 << 24);
      shapes_.of_call(*id, std::move(shape));
    }
    if (event_.name.starts_with("hipExtModuleLaunch") || event_.name.starts_with("hipHccModuleLaunch"))
      shapes_.in_work_items(*id);
    const auto [it, added] = threads_.try_emplace(event_.tid, records_.threads);
    if (added) ++records_.threads;
    records_.calls.push_back({*kind, it->second, *id, require_time(event_.ts, "ts"), duration()});
  }

  void end_sync() {
    SyncEvent sync;
    const std::string& kind = event_.sync_kind.empty() ? event_.name : event_.sync_kind;
    sync.event_wait = kind == "Stream Wait Event";
    if (!sync.event_wait && kind.find("Sync") == std::string::npos) return;
    sync.stream = stream();
    if (event_.wait_on_stream && *event_.wait_on_stream >= 0) sync.wait_on_stream = event_.wait_on_stream;
    sync.correlation = correlation(event_.correlation);
    sync.record_correlation = correlation(event_.record_correlation);
    sync.start = require_time(event_.ts, "ts");
    sync.duration = event_.dur.value_or(Nanoseconds{});
    records_.syncs.push_back(sync);
  }

  std::string file_;
  const ByteSource& source_;
  std::string range_, request_of_;  // request_of_: range whose time comes next
  bool mended_;
  std::map<std::string, std::int64_t> gpu_of_pid_;  // as XLA's profiler names processes
  Records records_;

  std::size_t depth_ = 0;
  std::size_t record_depth_ = 3;  // of what is inside a record; 2 where the document is an array
  std::size_t dims_depth_ = 0;
  bool array_ = false, in_args_ = false;
  Section section_ = Section::other;
  Field field_ = Field::none;
  std::optional<Dims>* dims_ = nullptr;
  Event event_;
  Device device_;

  LaunchShapes shapes_;
  std::vector<std::size_t> without_context_;  // indices into Records::ops
  std::map<std::string, std::uint32_t> threads_;
  double most_blocks_per_sm_ = 0;
};

}  // namespace

Records read_records(const std::filesystem::path& file, const std::string& range) {
  constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
  try {
    ByteSource source(file, kWhole);
    RecordSax sax(file.string(), source, range, false);
    nlohmann::json::sax_parse(Cursor(source), Cursor(), &sax);
    return sax.take();
  } catch (const Unsound&) {
    ByteSource source(file, kWhole);
    MendedJson json(source);
    RecordSax sax(file.string(), source, range, true);
    using MendedCursor = CursorOver<MendedJson>;
    nlohmann::json::sax_parse(MendedCursor(json), MendedCursor(), &sax);
    Records records = sax.take();
    records.mended = json.mended();
    return records;
  }
}

}  // namespace corun::kineto
