// What the names and numbers of the tools mean.
#include <algorithm>
#include <array>
#include <initializer_list>

#include "traces/import/kineto_records.h"

namespace corun::kineto {

std::optional<Call::Kind> call_kind(std::string_view name) {
  const auto starts = [&](std::initializer_list<std::string_view> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return name.starts_with(p); });
  };
  // Prefixes, because versions and per-thread variants are suffixes: cudaLaunchKernelExC_v11060, ..._ptsz.
  if (starts({"cudaLaunchHostFunc", "cuLaunchHostFunc", "hipLaunchHostFunc"})) return std::nullopt;
  if (starts({"cudaLaunch", "cuLaunch", "hipLaunch", "hipModuleLaunch", "hipExtModuleLaunch", "hipExtLaunch",
              "hipHccModuleLaunch"}))
    return Call::Kind::launch;
  if (starts({"cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"})) return Call::Kind::graph_launch;
  if (starts({"cudaMemcpy", "cuMemcpy", "hipMemcpy"}))
    return name.find("Async") == std::string_view::npos ? Call::Kind::copy_and_wait : Call::Kind::copy;
  if (starts({"cudaMemset", "cuMemset", "hipMemset"})) return Call::Kind::copy;
  if (starts({"cudaEventRecord", "cuEventRecord", "hipEventRecord"})) return Call::Kind::event_record;
  if (starts({"cudaStreamWaitEvent", "cuStreamWaitEvent", "hipStreamWaitEvent"})) return Call::Kind::event_wait;
  if (starts({"cudaStreamSynchronize", "cuStreamSynchronize", "cudaDeviceSynchronize", "cuCtxSynchronize",
              "cudaEventSynchronize", "cuEventSynchronize", "hipStreamSynchronize", "hipDeviceSynchronize",
              "hipEventSynchronize"}))
    return Call::Kind::synchronize;
  if (starts({"cudaEventQuery", "cuEventQuery", "cudaStreamQuery", "cuStreamQuery", "hipEventQuery", "hipStreamQuery"}))
    return Call::Kind::query;
  return std::nullopt;
}

CopyDirection direction_of(bool from_host, bool to_host) {
  return from_host ? CopyDirection::host_to_device
         : to_host ? CopyDirection::device_to_host
                   : CopyDirection::device_to_device;
}

std::optional<CuptiCopy> cupti_copy(std::int64_t kind) {
  enum { kToDevice = 1, kToHost, kToArray, kFromArray, kHostToHost = 9, kBetweenDevices };  // CUpti_ActivityMemcpyKind
  if (kind == kHostToHost) return std::nullopt;
  return CuptiCopy{direction_of(kind == kToDevice || kind == kToArray, kind == kToHost || kind == kFromArray),
                   kind == kBetweenDevices};
}

std::uint32_t ShapeIndex::of(Shape shape, std::vector<Shape>& shapes) {
  const auto size = [](Dim3 d) { return std::array{d.x, d.y, d.z}; };
  const auto [known, is_new] = known_.try_emplace(
      Key{shape.name, size(shape.grid), size(shape.block), size(shape.cluster.value_or(Dim3{})), shape.registers_per_thread,
          shape.static_shared_memory_bytes, shape.shared_memory_bytes},
      static_cast<std::uint32_t>(shapes.size()));
  if (is_new) shapes.push_back(std::move(shape));
  return known->second;
}

}  // namespace corun::kineto
