#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "traces/json/trace_file.h"

namespace corun::reading {
namespace {

Dim3 dim3(const json& object, const char* key) {
  const json* size = find(object, key);
  if (size == nullptr) return {};
  return {(*size)[0].get<std::uint32_t>(), (*size)[1].get<std::uint32_t>(), (*size)[2].get<std::uint32_t>()};
}

DeviceCode::Argument device_argument(const TraceFile& file, const json& from, const std::string& place) {
  const char* const kinds[] = {"buffer", "u32", "i32", "f32", "f64"};
  if (std::count_if(std::begin(kinds), std::end(kinds), [&](const char* k) { return from.contains(k); }) != 1)
    fail(file, place, "an argument is one thing", "give one of buffer, u32, i32, f32 and f64");
  if (const json* v = find(from, "u32")) return v->get<std::uint32_t>();
  if (const json* v = find(from, "i32")) return v->get<std::int32_t>();
  if (const json* v = find(from, "f32")) return v->get<float>();
  if (const json* v = find(from, "f64")) return v->get<double>();
  DeviceCode::Buffer buffer;
  using Type = DeviceCode::Buffer::Type;
  const std::string type = from["buffer"].get<std::string>();
  buffer.type = type == "f32" ? Type::f32 : type == "f64" ? Type::f64 : type == "f16" ? Type::f16 : Type::u32;
  const json* elements = find(from, "elements");
  if (elements == nullptr) fail(file, place, "a buffer of unknown size", "give its number of \"elements\"");
  buffer.elements = elements->get<std::uint64_t>();
  const json* fill = find(from, "fill");
  if (fill == nullptr) return buffer;
  buffer.filled = true;
  const bool integers = buffer.type == Type::u32;
  if (integers ? fill->contains("low") || fill->contains("high") : fill->contains("below"))
    fail(file, place + "/fill", fmt::format("{} are not filled like that", integers ? "integers" : "numbers"),
         "numbers are filled from \"low\" to \"high\", integers \"below\" a number");
  buffer.low = fill->value("low", 0.0), buffer.high = fill->value("high", 1.0);
  buffer.below = fill->value("below", 0u);
  return buffer;
}

DeviceCode device_code(const TraceFile& file, const json& from, const std::string& place) {
  DeviceCode code;
  const json *path = find(from, "file"), *library = find(from, "library");
  if ((path != nullptr) == (library != nullptr))
    fail(file, place, "it names both a file and the library's, or neither",
         "give \"file\", a CUDA source beside the trace, or \"library\"");
  if (path != nullptr)
    code.file = std::filesystem::absolute(file.location.parent_path() / path->get<std::string>())
                    .lexically_normal()
                    .string();
  if (library != nullptr) code.library = library->get<std::string>();
  code.function = from["function"].get<std::string>();
  const json& arguments = members(from, "arguments");
  for (std::size_t i = 0; i < arguments.size(); ++i)
    code.arguments.push_back(device_argument(file, arguments[i], fmt::format("{}/arguments/{}", place, i)));
  return code;
}

}  // namespace

Kernel read_kernel(const TraceFile& file, const json& from, const std::string& place) {
  Kernel kernel;
  kernel.name = from["name"].get<std::string>();
  kernel.origin = {file.name, place};
  kernel.grid = dim3(from, "grid");
  kernel.block = dim3(from, "block");
  kernel.cluster = dim3(from, "cluster");
  if (kernel.grid.count() > std::numeric_limits<std::uint32_t>::max())
    fail(file, place + "/grid",
         fmt::format("expected at most 2^32 - 1 blocks in all, got {}", kernel.grid.count()),
         "split the kernel's work over several launches");
  if (kernel.block.count() > 1024)
    fail(file, place + "/block",
         fmt::format("expected at most 1024 threads in all, got {}", kernel.block.count()),
         "x * y * z must not exceed 1024");
  const Dim3 &g = kernel.grid, &c = kernel.cluster;
  if (g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0)
    fail(file, place + "/cluster",
         fmt::format("the grid {}x{}x{} is not made of whole clusters of {}x{}x{}", g.x, g.y, g.z, c.x, c.y,
                     c.z),
         "each extent of the cluster must divide the grid's");
  kernel.registers_per_thread = from.value("registers_per_thread", kAssumedRegisters);
  kernel.static_shared_memory_bytes = from.value("static_shared_memory_bytes", 0u);
  kernel.dynamic_shared_memory_bytes = from.value("dynamic_shared_memory_bytes", 0u);
  kernel.idempotent = from.value("idempotent", false);
  kernel.ptx = from.value("ptx", false);
  kernel.solo_time = optional_time(from, "solo_time_ns");
  kernel.solo_time_sms = from.value("solo_time_sms", 0u);
  if (const json* by_sms = find(from, "solo_time_by_sms_ns"))
    for (const auto& [sms, ns] : by_sms->items())
      kernel.solo_time_by_sms[static_cast<std::uint32_t>(std::stoul(sms))] = time(ns);
  if (const json* by_ctas = find(from, "persistent_time_by_ctas_ns"))
    for (const auto& [ctas, ns] : by_ctas->items())
      kernel.persistent_time_by_ctas[static_cast<std::uint32_t>(std::stoul(ctas))] = time(ns);
  if (const json* stoppable = find(from, "stoppable"))
    kernel.stoppable = {time((*stoppable)["time_ns"]), (*stoppable)["workers_stay"].get<bool>()};
  for (const json& ns : members(from, "block_times_ns")) kernel.block_times.push_back(time(ns));
  if (kernel.block_times.size() > 1 && kernel.block_times.size() != kernel.blocks())
    fail(file, place + "/block_times_ns",
         fmt::format("expected 1 time or {} (one per block of the grid), got {}", kernel.blocks(),
                     kernel.block_times.size()),
         "give one time for all blocks, or one for each");
  if (const json* counters = find(from, "counters")) {
    Counters& to = kernel.counters;
    to.dram_read_bytes = optional_number(*counters, "dram_read_bytes");
    to.dram_write_bytes = optional_number(*counters, "dram_write_bytes");
    to.l2_bytes = optional_number(*counters, "l2_bytes");
    to.l1_bytes = optional_number(*counters, "l1_bytes");
    to.warp_instructions = optional_number(*counters, "warp_instructions");
    to.tensor_instructions = optional_number(*counters, "tensor_instructions");
    to.issue_active_pct = optional_number(*counters, "issue_active_pct");
    to.warps_active_pct = optional_number(*counters, "warps_active_pct");
    to.fp64_active_pct = optional_number(*counters, "fp64_active_pct");
    to.duration_ns = optional_number(*counters, "duration_ns");
    if (const json* pipes = find(*counters, "pipes_pct"))
      for (const auto& [pipe, busy] : pipes->items()) to.pipes_pct[pipe] = busy.get<double>();
  }
  if (const json* code = find(from, "code")) kernel.code = device_code(file, *code, place + "/code");
  return kernel;
}

}  // namespace corun::reading
