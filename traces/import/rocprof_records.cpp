#include "traces/import/rocprof_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "traces/import/rocprof_raw.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::rocprof {
namespace {

using kineto::Call;
using kineto::GpuOp;
using kineto::Records;
using kineto::Shape;

constexpr const char* kRecord =
    "record with rocprofv3 --kernel-trace --hip-trace --memory-copy-trace --marker-trace --output-format json -- "
    "PROGRAM";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
/// What a trace can say of a thread; vector and accumulation registers together may be 512 on CDNA.
constexpr std::int64_t kMostRegisters = 256;

class Reader {
 public:
  Reader(const std::filesystem::path& file, const std::string& range, std::optional<std::int64_t> device)
      : file_(file.string()), range_(range), device_(device), raw_(file_, !range.empty()) {}

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
    if (device_ && raw_.any_dispatch())
      throw InputError(file_, "--device", fmt::format("no kernels of device {}", *device_),
                       "leave the option out");
    throw InputError(
        file_, "",
        raw_.any_call() ? "there are HIP calls, but no kernel dispatches in it" : "there are no kernel dispatches in it",
        kRecord);
  }

  bool take(const std::string& keys, json& element) {
    if (keys == kTool) {
      end_process(element);
      return true;
    }
    std::string_view rest = keys;
    if (!rest.starts_with(kTool)) return rest != "traceEvents" ? false : true;
    rest.remove_prefix(std::min(rest.size(), std::string_view(kTool).size() + 1));
    raw_.take(rest, element);
    return rest.starts_with("buffer_records") || rest.starts_with("callback_records") ||
           rest.starts_with("code_objects") || rest.starts_with("counters");
  }

  /// `rest`: all that was not taken: agents, kernel symbols, names.
  void end_process(const json& rest) {
    const std::size_t number = raw_.process();
    const Raw raw = raw_.end_process();
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
      records.devices.push_back({id, product_of(agent), static_cast<std::uint32_t>(units), 0, 0});
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
    kineto::ShapeIndex shapes;
    std::size_t nameless = 0;
    for (const Raw::Dispatch& dispatch : raw.dispatches) {
      GpuOp op = dispatch.op;
      op.stream.device = devices_.at(raw.agents[static_cast<std::size_t>(op.stream.device)]);
      if (device_ && op.stream.device != *device_) continue;
      const auto symbol = symbols.find(dispatch.kernel);
      const bool named = symbol != symbols.end() && !symbol->second.name.empty();
      nameless += named ? 0 : 1;
      Shape shape;
      shape.name = named ? symbol->second.name : fmt::format("kernel {}", dispatch.kernel);
      shape.grid = dispatch.grid, shape.block = dispatch.block;
      shape.shared_memory_bytes = dispatch.shared_memory_bytes;
      if (symbol != symbols.end()) {
        shape.registers_per_thread = symbol->second.registers;
        if (symbol->second.static_shared_memory_bytes)
          shape.static_shared_memory_bytes = std::min(*symbol->second.static_shared_memory_bytes, shape.shared_memory_bytes);
      }
      op.shape = shapes.of(std::move(shape), records.shapes);
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
      op.direction = kineto::direction_of(from_host, to_host);
      op.peer = from_gpu && to_gpu && source != target;
      op.memory_unknown = from_host || to_host;
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
  RawReader raw_;
  std::map<std::string, std::int64_t> devices_;  // by handle
  std::set<std::string> hosts_;
  std::set<std::string> ranges_;  // other ones
  std::vector<RecordedProcess> processes_;
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
