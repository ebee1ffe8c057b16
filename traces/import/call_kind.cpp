// Also part of the library that sim capture puts into programs: it records no other calls.
#include <algorithm>
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

}  // namespace corun::kineto
