#include "traces/import/rocprof_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <istream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::rocprof {
namespace {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::Records;
using kineto::Shape;
using nlohmann::json;

constexpr const char* kTool = "rocprofiler-sdk-tool";
constexpr const char* kRecord =
    "record with rocprofv3 --kernel-trace --hip-trace --memory-copy-trace --marker-trace --output-format json -- "
    "PROGRAM";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxBlocks = std::numeric_limits<std::uint32_t>::max();
/// What a trace can say of a thread; vector and accumulation registers together may be 512 on CDNA.
constexpr std::int64_t kMostRegisters = 256;

/// Null where there is no such key, or what should hold it is no object.
const json* find(const json& from, std::initializer_list<const char*> keys) {
  const json* at = &from;
  for (const char* key : keys) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}
std::optional<std::int64_t> integer(const json& from, std::initializer_list<const char*> keys) {
  const json* value = find(from, keys);
  return value != nullptr && value->is_number_integer() ? std::optional(value->get<std::int64_t>()) : std::nullopt;
}
std::string text(const json& from, std::initializer_list<const char*> keys) {
  const json* value = find(from, keys);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}
/// Elements of an array; none where there is no such array.
const json& items(const json& from, std::initializer_list<const char*> keys) {
  static const json none = json::array();
  const json* value = find(from, keys);
  return value != nullptr && value->is_array() ? *value : none;
}

/// Handles are any 64 bits, which JSON does not keep as numbers: numbered in order of appearance.
class Numbering {
 public:
  std::int64_t of(const json* handle) {
    return handle == nullptr ? 0 : numbers_.try_emplace(handle->dump(), numbers_.size()).first->second;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

/// What the tool said of one process, until the names come with which to understand it.
struct Raw {
  struct Dispatch {
    GpuOp op;
    std::int64_t kernel = 0;
    Dim3 grid, block;
    std::uint32_t shared_memory_bytes = 0;
  };
  struct Copy {
    GpuOp op;
    std::int64_t kind = 0, operation = 0;
    std::string source, target;  // agents
  };
  struct Api {
    Call call;
    std::int64_t kind = 0, operation = 0;
  };
  struct Marker {
    std::int64_t correlation = 0;
    Nanoseconds start{}, duration{};
  };
  std::vector<Dispatch> dispatches;
  std::vector<Copy> copies;
  std::vector<Api> calls;
  std::vector<Marker> markers;
  std::map<std::int64_t, std::int64_t> registers;  // of kernels, where only the counters' records say it
  std::vector<std::string> agents;                 // of dispatches, by number
  Numbering queues, streams, threads;
  bool stream_ids = false;
};

class Reader {
 public:
  Reader(const std::filesystem::path& file, const std::string& range, std::optional<std::int64_t> device)
      : file_(file.string()), range_(range), device_(device) {}

  std::vector<RecordedProcess> read() {
    json rest = parse_json(
        *open_input(file_), file_, [&](const std::string& keys, json& element) { return take(keys, element); },
        kMostBytes);
    const json* tool = find(rest, {kTool});
    if (tool == nullptr) refuse_other(rest);
    if (tool->is_object()) end_process(*tool);
    if (processes_.empty()) refuse_no_kernels();
    if (!range_.empty() && std::all_of(processes_.begin(), processes_.end(),
                                       [](const RecordedProcess& p) { return p.records.steps.empty(); })) {
      const std::vector<std::string> names(ranges_.begin(), ranges_.end());
      throw InputError(file_, "--range",
                       fmt::format("there is no range {}{}", in_quotes(range_), did_you_mean(range_, names)),
                       names.empty() ? "record with rocprofv3 --marker-trace"
                                     : fmt::format("use one of {}", list_names(names)));
    }
    std::stable_sort(processes_.begin(), processes_.end(), [](const RecordedProcess& a, const RecordedProcess& b) {
      return a.records.ops.front().start < b.records.ops.front().start;
    });
    return std::move(processes_);
  }

 private:
  [[noreturn]] void refuse_other(const json& rest) const {
    if (find(rest, {"traceEvents"}) != nullptr)
      throw InputError(file_, "", "is a Chrome trace, as PyTorch's profiler writes it", "use `sim import kineto`");
    throw InputError(file_, "", fmt::format("is not what rocprofv3 writes: it has no {}", in_quotes(kTool)),
                     kRecord);
  }
  [[noreturn]] void refuse_no_kernels() const {
    if (device_ && any_dispatch_)
      throw InputError(file_, "--device", fmt::format("no kernels of device {}", *device_),
                       "leave the option out");
    throw InputError(
        file_, "",
        any_call_ ? "there are HIP calls, but no kernel dispatches in it" : "there are no kernel dispatches in it",
        kRecord);
  }
  [[noreturn]] void refuse(const char* array, std::size_t index, const std::string& problem) const {
    throw InputError(file_, fmt::format("/{}/{}/buffer_records/{}/{}", kTool, process_, array, index), problem,
                     "record again, and copy the whole file");
  }

  bool take(const std::string& keys, json& element) {
    if (keys == kTool) {
      end_process(element);
      return true;
    }
    std::string_view rest = keys;
    if (!rest.starts_with(kTool)) return rest != "traceEvents" ? false : true;
    rest.remove_prefix(std::min(rest.size(), std::string_view(kTool).size() + 1));
    if (rest == "buffer_records/kernel_dispatch") {
      take_dispatch(element);
    } else if (rest == "buffer_records/hip_api") {
      take_call(element);
    } else if (rest == "buffer_records/memory_copy") {
      take_copy(element);
    } else if (rest == "buffer_records/marker_api") {
      take_marker(element);
    } else if (rest == "callback_records/counter_collection") {
      const auto kernel = integer(element, {"dispatch_data", "dispatch_info", "kernel_id"});
      const auto registers = integer(element, {"arch_vgpr_count"});
      if (kernel && registers) raw_.registers[*kernel] = *registers;
    }
    return rest.starts_with("buffer_records") || rest.starts_with("callback_records") ||
           rest.starts_with("code_objects") || rest.starts_with("counters");
  }

  std::pair<Nanoseconds, Nanoseconds> times(const json& record, const char* array, std::size_t index) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 62;  // 146 years: sums of two fit 64 bits
    const auto start = integer(record, {"start_timestamp"}), end = integer(record, {"end_timestamp"});
    if (!start || !end || *start < 0 || *end < *start || *end > kMost)
      refuse(array, index, "expected a start_timestamp and an end_timestamp after it, in nanoseconds");
    return {Nanoseconds{*start}, Nanoseconds{*end - *start}};
  }

  GpuOp gpu_op(GpuOp::Kind kind, const json& record, const char* array, std::size_t index) {
    GpuOp op;
    op.kind = kind;
    std::tie(op.start, op.duration) = times(record, array, index);
    if (const auto id = integer(record, {"correlation_id", "internal"}); id && *id > 0)
      op.correlation = static_cast<std::uint64_t>(*id);
    if (const json* stream = find(record, {"stream_id", "handle"})) {
      op.stream.stream = raw_.streams.of(stream);
      raw_.stream_ids = true;
    }
    return op;
  }

  void take_dispatch(const json& record) {
    constexpr const char* kArray = "kernel_dispatch";
    const std::size_t index = raw_.dispatches.size();
    const json* info = find(record, {"dispatch_info"});
    if (info == nullptr) refuse(kArray, index, "has no dispatch_info");
    Raw::Dispatch dispatch;
    dispatch.op = gpu_op(GpuOp::Kind::kernel, record, kArray, index);
    if (find(record, {"stream_id", "handle"}) == nullptr)
      dispatch.op.stream.stream = raw_.queues.of(find(*info, {"queue_id", "handle"}));
    const json* agent = find(*info, {"agent_id", "handle"});
    const std::string name = agent == nullptr ? "" : agent->dump();
    const auto known = std::find(raw_.agents.begin(), raw_.agents.end(), name);
    dispatch.op.stream.device = known - raw_.agents.begin();  // of raw_.agents, until the list of agents is read
    if (known == raw_.agents.end()) raw_.agents.push_back(name);
    dispatch.kernel = integer(*info, {"kernel_id"}).value_or(-1);
    read_shape(*info, index, dispatch);
    const std::int64_t lds = integer(*info, {"group_segment_size"}).value_or(0);
    if (lds < 0 || lds > 1 << 24) refuse(kArray, index, fmt::format("an impossible group_segment_size, {}", lds));
    dispatch.shared_memory_bytes = static_cast<std::uint32_t>(lds);
    raw_.dispatches.push_back(dispatch);
    any_dispatch_ = true;
  }

  /// Work-items become blocks; the last one of a row may be smaller.
  void read_shape(const json& info, std::size_t index, Raw::Dispatch& dispatch) const {
    constexpr std::array<const char*, 3> kAxes = {"x", "y", "z"};
    constexpr std::int64_t kMostItems = std::int64_t{1} << 42;
    constexpr std::array<std::int64_t, 3> kMostThreads = {1024, 1024, 64},
                                          kMostBlocks = {2147483647, 65535, 65535};
    std::array<std::int64_t, 3> blocks{}, threads{};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto group = integer(info, {"workgroup_size", kAxes[i]}), all = integer(info, {"grid_size", kAxes[i]});
      if (!group || !all || *group < 1 || *all < 1 || *all > kMostItems)
        refuse("kernel_dispatch", index,
               fmt::format("expected a workgroup_size and a grid_size of at least 1 in {}", kAxes[i]));
      threads[i] = *group, blocks[i] = (*all - 1) / *group + 1;
      if (threads[i] > kMostThreads[i] || blocks[i] > kMostBlocks[i])
        refuse("kernel_dispatch", index,
               fmt::format("{} work-items in groups of {} in {}: a trace can have groups of {} and {} of them",
                           *all, *group, kAxes[i], kMostThreads[i], kMostBlocks[i]));
    }
    const auto dim = [](const std::array<std::int64_t, 3>& d) {
      return Dim3{static_cast<std::uint32_t>(d[0]), static_cast<std::uint32_t>(d[1]),
                  static_cast<std::uint32_t>(d[2])};
    };
    dispatch.grid = dim(blocks), dispatch.block = dim(threads);
    // Two of three extents fit 64 bits together.
    if (dispatch.block.count() > 1024 ||
        std::uint64_t{dispatch.grid.y} * dispatch.grid.z > kMaxBlocks / dispatch.grid.x)
      refuse("kernel_dispatch", index, "more than 1024 work-items in a group, or 2^32 - 1 groups");
  }

  void take_call(const json& record) {
    any_call_ = true;
    Raw::Api api;
    const auto id = integer(record, {"correlation_id", "internal"});
    std::tie(api.call.start, api.call.duration) = times(record, "hip_api", raw_.calls.size());
    api.kind = integer(record, {"kind"}).value_or(-1), api.operation = integer(record, {"operation"}).value_or(-1);
    api.call.correlation = id && *id > 0 ? static_cast<std::uint64_t>(*id) : 0;
    api.call.thread = static_cast<std::uint32_t>(raw_.threads.of(find(record, {"thread_id"})));
    raw_.calls.push_back(api);
  }

  void take_copy(const json& record) {
    Raw::Copy copy;
    copy.op = gpu_op(GpuOp::Kind::copy, record, "memory_copy", raw_.copies.size());
    const std::int64_t bytes = integer(record, {"bytes"}).value_or(0);
    if (bytes < 0 || static_cast<std::uint64_t>(bytes) > kineto::kMostBytes)
      refuse("memory_copy", raw_.copies.size(), fmt::format("an impossible number of bytes, {}", bytes));
    copy.op.bytes = static_cast<std::uint64_t>(bytes);
    copy.kind = integer(record, {"kind"}).value_or(-1),
    copy.operation = integer(record, {"operation"}).value_or(-1);
    if (const json* agent = find(record, {"src_agent_id", "handle"})) copy.source = agent->dump();
    if (const json* agent = find(record, {"dst_agent_id", "handle"})) copy.target = agent->dump();
    raw_.copies.push_back(std::move(copy));
  }

  void take_marker(const json& record) {
    if (range_.empty()) return;
    Raw::Marker marker;
    std::tie(marker.start, marker.duration) = times(record, "marker_api", raw_.markers.size());
    marker.correlation = integer(record, {"correlation_id", "internal"}).value_or(0);
    raw_.markers.push_back(marker);
  }

  /// `rest`: all that was not taken: agents, kernel symbols, names.
  void end_process(const json& rest) {
    Raw raw = std::exchange(raw_, {});
    const std::size_t number = process_++;
    RecordedProcess process;
    process.name = process_name(rest, number);
    read_agents(rest, raw, process.records);
    read_dispatches(rest, raw, process);
    if (process.records.ops.empty()) return;
    read_copies(rest, raw, process);
    read_calls(rest, raw, process.records);
    read_ranges(rest, raw, process.records);
    process.records.any_events = true;
    std::stable_sort(process.records.ops.begin(), process.records.ops.end(),
                     [](const GpuOp& a, const GpuOp& b) { return a.start < b.start; });
    processes_.push_back(std::move(process));
  }

  static std::string process_name(const json& rest, std::size_t number) {
    std::string name = "process";
    for (const json& word : items(rest, {"metadata", "command"})) {
      if (word.is_string() && !word.get_ref<const std::string&>().empty()) name = word.get<std::string>();
      break;
    }
    name = name.substr(name.find_last_of('/') + 1);
    return fmt::format("{}-{}", name,
                       integer(rest, {"metadata", "pid"}).value_or(static_cast<std::int64_t>(number)));
  }

  /// GPUs are numbered as the file lists them, then those of which only dispatches say that they are there.
  void read_agents(const json& rest, const Raw& raw, Records& records) {
    devices_.clear(), hosts_.clear();
    for (const json& agent : items(rest, {"agents"})) {
      const json* handle = find(agent, {"id", "handle"});
      if (handle == nullptr) continue;
      constexpr std::int64_t kCpu = 1, kGpu = 2;  // rocprofiler_agent_type_t
      const auto type = integer(agent, {"type"});
      if (type == kCpu) hosts_.insert(handle->dump());
      if (type != kGpu) continue;
      const auto id = static_cast<std::int64_t>(devices_.size());
      if (!devices_.try_emplace(handle->dump(), id).second) continue;
      const std::int64_t units = std::clamp<std::int64_t>(integer(agent, {"cu_count"}).value_or(0), 0, 65535);
      records.devices.push_back({id, product_of(agent), static_cast<std::uint32_t>(units)});
    }
    for (const std::string& handle : raw.agents)
      devices_.try_emplace(handle, static_cast<std::int64_t>(devices_.size()));
  }

  /// The driver does not know each card's name, but its instruction set: the product that is described here.
  static std::string product_of(const json& agent) {
    const std::string product = text(agent, {"product_name"}), target = text(agent, {"name"});
    if (!product.empty()) return product;
    for (const auto& [name, card] : {std::pair{"gfx906", "AMD Radeon Instinct MI50"},
                                     {"gfx90a", "AMD Instinct MI250X"},
                                     {"gfx942", "AMD Instinct MI300X"}})
      if (target == name) return card;
    return target;
  }

  struct Symbol {
    std::string name;
    std::optional<std::uint32_t> registers, static_shared_memory_bytes;
  };

  std::map<std::int64_t, Symbol> read_symbols(const json& rest, const Raw& raw, RecordedProcess& process) const {
    std::map<std::int64_t, Symbol> symbols;
    std::size_t many = 0;
    for (const json& from : items(rest, {"kernel_symbols"})) {
      const auto id = integer(from, {"kernel_id"});
      if (!id) continue;
      Symbol symbol;
      for (const char* key : {"formatted_kernel_name", "demangled_kernel_name", "kernel_name"})
        if (symbol.name.empty()) symbol.name = text(from, {key});
      if (symbol.name.ends_with(".kd")) symbol.name.resize(symbol.name.size() - 3);  // "kernel descriptor"
      auto registers = integer(from, {"arch_vgpr_count"});
      if (const auto other = raw.registers.find(*id); !registers && other != raw.registers.end())
        registers = other->second;
      const std::int64_t accumulation = integer(from, {"accum_vgpr_count"}).value_or(0);
      constexpr std::int64_t kMostOfAKind = 512;
      if (registers && *registers > 0 && *registers <= kMostOfAKind && accumulation >= 0 &&
          accumulation <= kMostOfAKind) {
        many += *registers + accumulation > kMostRegisters ? 1 : 0;
        symbol.registers = static_cast<std::uint32_t>(std::min(*registers + accumulation, kMostRegisters));
      }
      if (const auto lds = integer(from, {"group_segment_size"}); lds && *lds >= 0 && *lds <= 1 << 24)
        symbol.static_shared_memory_bytes = static_cast<std::uint32_t>(*lds);
      symbols.insert_or_assign(*id, std::move(symbol));
    }
    if (many != 0)
      process.notes.push_back(
          fmt::format("{} kernels of the file have more than {} vector registers, with those of accumulation: "
                      "taken as {}, so more blocks may fit a compute unit than in truth.",
                      many, kMostRegisters, kMostRegisters));
    return symbols;
  }

  void read_dispatches(const json& rest, const Raw& raw, RecordedProcess& process) {
    const std::map<std::int64_t, Symbol> symbols = read_symbols(rest, raw, process);
    Records& records = process.records;
    using Size = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
    std::map<std::tuple<std::int64_t, Size, Size, std::uint32_t>, std::uint32_t> shapes;
    std::size_t nameless = 0;
    for (const Raw::Dispatch& dispatch : raw.dispatches) {
      GpuOp op = dispatch.op;
      op.stream.device = devices_.at(raw.agents[static_cast<std::size_t>(op.stream.device)]);
      if (device_ && op.stream.device != *device_) continue;
      const auto size = [](Dim3 d) { return std::tuple(d.x, d.y, d.z); };
      const auto next = static_cast<std::uint32_t>(records.shapes.size());
      const auto [known, is_new] = shapes.try_emplace(
          std::tuple(dispatch.kernel, size(dispatch.grid), size(dispatch.block), dispatch.shared_memory_bytes),
          next);
      const auto symbol = symbols.find(dispatch.kernel);
      const bool named = symbol != symbols.end() && !symbol->second.name.empty();
      nameless += named ? 0 : 1;
      if (is_new) {
        Shape shape;
        shape.name = named ? symbol->second.name : fmt::format("kernel {}", dispatch.kernel);
        shape.grid = dispatch.grid, shape.block = dispatch.block;
        shape.shared_memory_bytes = dispatch.shared_memory_bytes;
        if (symbol != symbols.end()) {
          shape.registers_per_thread = symbol->second.registers;
          if (symbol->second.static_shared_memory_bytes)
            shape.static_shared_memory_bytes =
                std::min(*symbol->second.static_shared_memory_bytes, shape.shared_memory_bytes);
        }
        records.shapes.push_back(std::move(shape));
      }
      op.shape = known->second;
      records.ops.push_back(op);
    }
    if (nameless != 0)
      process.notes.push_back(
          fmt::format("{} dispatches are of kernels without a name: called by their number.", nameless));
    if (!raw.stream_ids)
      process.notes.push_back(
          "HIP's streams are not in it, as before ROCm 7: a stream is a hardware queue here, which several "
          "of HIP's may share.");
  }

  static std::string operation(const json& rest, std::int64_t kind, std::int64_t number) {
    const json& kinds = items(rest, {"strings", "buffer_records"});
    if (kind < 0 || static_cast<std::size_t>(kind) >= kinds.size()) return "";
    const json& names = items(kinds[static_cast<std::size_t>(kind)], {"operations"});
    if (number < 0 || static_cast<std::size_t>(number) >= names.size()) return "";
    const json& name = names[static_cast<std::size_t>(number)];
    return name.is_string() ? name.get<std::string>() : "";
  }

  void read_copies(const json& rest, const Raw& raw, RecordedProcess& process) const {
    Records& records = process.records;
    const kineto::StreamKey first = records.ops.front().stream;
    for (const Raw::Copy& copy : raw.copies) {
      GpuOp op = copy.op;
      const auto source = devices_.find(copy.source), target = devices_.find(copy.target);
      const bool from_gpu = source != devices_.end(), to_gpu = target != devices_.end();
      const std::string name = operation(rest, copy.kind, copy.operation);
      const auto has = [&](std::string_view word) { return name.find(word) != std::string::npos; };
      const bool from_host = has("HOST_TO") || (!from_gpu && hosts_.contains(copy.source));
      const bool to_host = has("TO_HOST") || (!to_gpu && hosts_.contains(copy.target));
      op.stream.device = to_gpu ? target->second : from_gpu ? source->second : first.device;
      if (device_ && op.stream.device != *device_) continue;
      if (op.bytes == 0 || (from_host && to_host)) {
        ++records.skipped_copies;
        continue;
      }
      op.direction = from_host ? CopyDirection::host_to_device
                     : to_host ? CopyDirection::device_to_host
                               : CopyDirection::device_to_device;
      op.peer = from_gpu && to_gpu && source != target;
      if (!raw.stream_ids) op.stream.stream = first.stream;
      records.ops.push_back(op);
    }
    if (!raw.copies.empty() && !raw.stream_ids)
      process.notes.push_back("Copies have no stream in it: each is in the order of the first kernel's queue.");
  }

  static void read_calls(const json& rest, const Raw& raw, Records& records) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::optional<Call::Kind>> kinds;
    for (const Raw::Api& api : raw.calls) {
      const auto [kind, is_new] = kinds.try_emplace({api.kind, api.operation});
      if (is_new) kind->second = kineto::call_kind(operation(rest, api.kind, api.operation));
      if (!kind->second || api.call.correlation == 0) continue;
      Call call = api.call;
      call.kind = *kind->second;
      records.calls.push_back(call);
      records.threads = std::max(records.threads, call.thread + 1);
    }
  }

  void read_ranges(const json& rest, const Raw& raw, Records& records) {
    if (raw.markers.empty()) return;
    std::map<std::int64_t, std::string> messages;  // by correlation
    for (const json& message : items(rest, {"strings", "marker_api"}))
      if (const auto key = integer(message, {"key"})) messages.insert_or_assign(*key, text(message, {"value"}));
    for (const Raw::Marker& marker : raw.markers) {
      const auto message = messages.find(marker.correlation);
      if (message == messages.end() || marker.duration == Nanoseconds{}) continue;
      if (message->second == range_)
        records.steps.push_back({range_, marker.start, marker.duration});
      else if (ranges_.size() < 10'000)
        ranges_.insert(message->second);
    }
  }

  std::string file_, range_;
  std::optional<std::int64_t> device_;
  std::size_t process_ = 0;
  Raw raw_;
  std::map<std::string, std::int64_t> devices_;  // by handle
  std::set<std::string> hosts_;
  std::set<std::string> ranges_;  // other ones
  std::vector<RecordedProcess> processes_;
  bool any_dispatch_ = false, any_call_ = false;
};

}  // namespace

std::vector<RecordedProcess> read(const std::filesystem::path& file, const std::string& range,
                                  std::optional<std::int64_t> device) {
  return Reader(file, range, device).read();
}

bool looks_like_records(const std::filesystem::path& file) {
  try {
    const auto in = open_input(file);
    std::string word;
    char c = 0;
    for (int n = 0; n < 4096 && word.size() < 32 && in->get(c); ++n)
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') word += c;
    return word.starts_with(fmt::format("{{\"{}\":", kTool));
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace corun::rocprof
