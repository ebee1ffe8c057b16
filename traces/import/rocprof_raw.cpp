#include "traces/import/rocprof_raw.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "traces/model/error.h"

namespace corun::rocprof {
namespace {

using kineto::GpuOp;

constexpr std::uint64_t kMaxBlocks = std::numeric_limits<std::uint32_t>::max();

}  // namespace

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

const json& items(const json& from, std::initializer_list<const char*> keys) {
  static const json none = json::array();
  const json* value = find(from, keys);
  return value != nullptr && value->is_array() ? *value : none;
}

void RawReader::take(std::string_view array, const json& record) {
  if (array == "buffer_records/kernel_dispatch") {
    take_dispatch(record);
  } else if (array == "buffer_records/hip_api") {
    take_call(record);
  } else if (array == "buffer_records/memory_copy") {
    take_copy(record);
  } else if (array == "buffer_records/marker_api") {
    take_marker(record);
  } else if (array == "callback_records/counter_collection") {
    const auto kernel = integer(record, {"dispatch_data", "dispatch_info", "kernel_id"});
    const auto registers = integer(record, {"arch_vgpr_count"});
    if (kernel && registers) raw_.registers[*kernel] = *registers;
  }
}

Raw RawReader::end_process() {
  ++process_;
  return std::exchange(raw_, {});
}

void RawReader::refuse(const char* array, std::size_t index, const std::string& problem) const {
  throw InputError(file_, fmt::format("/{}/{}/buffer_records/{}/{}", kTool, process_, array, index), problem,
                   "record again, and copy the whole file");
}

std::pair<Nanoseconds, Nanoseconds> RawReader::times(const json& record, const char* array, std::size_t index) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;  // 146 years: sums of two fit 64 bits
  const auto start = integer(record, {"start_timestamp"}), end = integer(record, {"end_timestamp"});
  if (!start || !end || *start < 0 || *end < *start || *end > kMost)
    refuse(array, index, "expected a start_timestamp and an end_timestamp after it, in nanoseconds");
  return {Nanoseconds{*start}, Nanoseconds{*end - *start}};
}

GpuOp RawReader::gpu_op(GpuOp::Kind kind, const json& record, const char* array, std::size_t index) {
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

void RawReader::take_dispatch(const json& record) {
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

void RawReader::read_shape(const json& info, std::size_t index, Raw::Dispatch& dispatch) const {
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

void RawReader::take_call(const json& record) {
  any_call_ = true;
  Raw::Api api;
  const auto id = integer(record, {"correlation_id", "internal"});
  std::tie(api.call.start, api.call.duration) = times(record, "hip_api", raw_.calls.size());
  api.kind = integer(record, {"kind"}).value_or(-1), api.operation = integer(record, {"operation"}).value_or(-1);
  api.call.correlation = id && *id > 0 ? static_cast<std::uint64_t>(*id) : 0;
  api.call.thread = static_cast<std::uint32_t>(raw_.threads.of(find(record, {"thread_id"})));
  raw_.calls.push_back(api);
}

void RawReader::take_copy(const json& record) {
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

void RawReader::take_marker(const json& record) {
  if (!ranges_) return;
  Raw::Marker marker;
  std::tie(marker.start, marker.duration) = times(record, "marker_api", raw_.markers.size());
  marker.correlation = integer(record, {"correlation_id", "internal"}).value_or(0);
  raw_.markers.push_back(marker);
}

}  // namespace corun::rocprof
