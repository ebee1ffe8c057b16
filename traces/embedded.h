#pragma once

#include <span>
#include <string_view>

namespace corun {

// A data file compiled into the library, so that programs run from any folder.
struct EmbeddedFile {
  std::string_view name;  // file name without ".json", e.g. "h200"; in the tree a path
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_gpus();         // traces/gpus/*.json, sorted by name
std::span<const EmbeddedFile> embedded_mig();          // traces/mig/*.json
std::span<const EmbeddedFile> embedded_schemas();      // traces/schema/*.json, sorted by name
std::span<const EmbeddedFile> embedded_device_code();  // hw/kernels/*.cu, hw/transform and hw/calibrate/*.cuh
std::span<const EmbeddedFile> embedded_ptx();          // hw/transform/ptx_worker.ptx
// The scenarios of published figures and what they refer to, by path in the repository, sorted.
std::span<const EmbeddedFile> embedded_tree();

}  // namespace corun
