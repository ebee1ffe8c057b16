#include "hw/transform/transform.h"

#include <fmt/format.h>

#include "hw/transform/embedded_device_code.h"
#include "hw/transform/kernel_source.h"

namespace corun::hw {

Transformed make_persistent(std::string_view source, std::string_view file, std::string_view kernel) {
  KernelSource k(source, file, kernel);
  const Traits traits = k.traits();
  const auto replace = [traits](std::string_view word, bool of_body) -> std::optional<std::string> {
    if (word == "blockIdx") return "corun_block";
    if (word == "gridDim") return "corun_grid";
    if (word == "threadIdx" && of_body) return "corun_thread";
    if (word == "__syncthreads" && traits.returns_before_barriers()) return "corun_barrier";
    return std::nullopt;
  };
  k.replace = replace;

  std::string declared, names;
  for (const KernelSource::Parameter& p : k.parameters()) {
    declared += p.text + ", ";
    names += p.name + ", ";
  }
  const std::string call = fmt::format(
      "{}__body({}corun_at, corun_grid_size(corun_size.x, corun_size.y, corun_size.z), corun_thread_index())",
      kernel, names);

  std::string out = fmt::format(
      "#define CORUN_SHARED_MEMORY {:d}\n#define CORUN_RETURNS_BEFORE_BARRIERS {:d}\n"
      "#define CORUN_HELPERS_READ_INDEX {:d}\n{}#line 1 \"{}\"\n",
      traits.shared_memory, traits.returns_before_barriers(), traits.helpers_read_index, persistent_header(),
      file);
  out += k.before();
  out += fmt::format(
      "static __device__ __forceinline__ void {}__body({}const uint3 corun_block, const uint3 corun_grid, "
      "const uint3 corun_thread) ",
      kernel, declared);
  out += k.body();
  out += fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__(CORUN_THREADS, CORUN_RESIDENT)\n"
      "{}__persistent({}const CorunLaunch corun_launch) {{\n"
      "  const uint3 corun_size = make_uint3(corun_launch.grid_x, corun_launch.grid_y, "
      "corun_launch.grid_z);\n"
      "  CORUN_WORK({})\n}}\n",
      kernel, declared, call);
  out += fmt::format(
      "#if CORUN_LOGGED\n"
      "extern \"C\" __global__ void __launch_bounds__(CORUN_THREADS, CORUN_RESIDENT)\n"
      "{}__located({}const CorunLaunch corun_launch) {{\n"
      "  const uint3 corun_size = make_uint3(gridDim.x, gridDim.y, gridDim.z);\n"
      "  const uint3 corun_at = make_uint3(blockIdx.x, blockIdx.y, blockIdx.z);\n"
      "  CORUN_TELL_HELPERS;\n  CORUN_LOG_START;\n  {};\n  CORUN_LOG_END;\n  "
      "corun_all_returned();\n}}\n#endif\n",
      kernel, declared, call);
  out += fmt::format("#line {} \"{}\"\n", k.line_after(), file);
  out += k.after();
  out += "\n";
  return {out, std::string(kernel) + "__persistent", traits};
}

}  // namespace corun::hw
