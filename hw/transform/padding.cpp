#include "hw/transform/padding.h"

#include <fmt/format.h>

#include "hw/transform/embedded_device_code.h"
#include "hw/transform/kernel_source.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

/// The namespace of one of the two.
std::string part(const std::string& name, const PaddingSource& of, std::string& includes) {
  KernelSource k(of.source, of.file, of.kernel);
  const Traits traits = k.traits();
  k.replace = [traits](std::string_view word, bool of_body) -> std::optional<std::string> {
    if (word == "blockIdx") return "corun_block";
    if (word == "gridDim") return "corun_grid";
    if (word == "blockDim") return "corun_block_size()";
    if (word == "threadIdx") return of_body ? "corun_thread" : "corun_thread_of()";
    if (word == "__syncthreads" && traits.returns_before_barriers()) return "corun_barrier_of";
    return std::nullopt;
  };
  for (const std::string& line : k.includes()) includes += line + "\n";

  std::string out = fmt::format("namespace {} {{\n", name);
  const Dim3 b = of.block;
  out += fmt::format(
      "static __device__ __forceinline__ uint3 corun_block_size() {{ return make_uint3({}u, {}u, {}u); }}\n",
      b.x, b.y, b.z);
  const std::string thread =
      b.y == 1 && b.z == 1 ? "make_uint3(t, 0, 0)"
      : b.z == 1           ? fmt::format("make_uint3(t % {0}u, t / {0}u, 0)", b.x)
                 : fmt::format("make_uint3(t % {0}u, t / {0}u % {1}u, t / {2}u)", b.x, b.y, b.x * b.y);
  out += fmt::format(
      "static __device__ __forceinline__ uint3 corun_thread_of() {{ const unsigned t = threadIdx.x; return "
      "{0}; }}\n"
      "static __device__ __forceinline__ uint3 corun_thread_anew() {{ const unsigned t = "
      "corun_thread_index().x; "
      "return {0}; }}\n",
      thread);
  if (traits.returns_before_barriers())
    out +=
        "static __device__ __forceinline__ void corun_barrier_of() { corun_arrive(false); }\n"
        "static __device__ __forceinline__ void corun_all_left() { while (!corun_arrive(true)) {} "
        "__syncwarp(); "
        "}\n";
  else
    out += "static __device__ __forceinline__ void corun_all_left() { __syncthreads(); }\n";
  if (traits.helpers_read_index) out += "static __shared__ uint3 corun_block, corun_grid;\n";
  out += fmt::format("#line 1 \"{}\"\n", of.file);
  out += k.before(false);
  std::string declared, members, values;
  for (const KernelSource::Parameter& p : k.parameters()) {
    if (p.text.find('[') != p.text.npos)
      throw InputError(
          of.file, "",
          fmt::format("kernel {} cannot be padded: its parameter {} is an array", of.kernel, p.name),
          "make it a pointer");
    declared += p.text + ", ";
    members += "  " + p.text + ";\n";
    values += fmt::format("corun_values.{}, ", p.name);
  }
  out += fmt::format(
      "static __device__ __forceinline__ void {}__body({}const uint3 corun_block, const uint3 corun_grid, "
      "const "
      "uint3 corun_thread) ",
      of.kernel, declared);
  out += k.body();
  // Where there are none, a structure still has a byte.
  out += fmt::format("\nstruct CorunValues {{\n{}}};\n", members.empty() ? "  char none;\n" : members);
  out += fmt::format(
      "template <bool kOnce> static __device__ __forceinline__ void corun_run(const CorunValues& "
      "corun_values, const CorunLaunch& launch, unsigned most, CorunControl* stops) {{\n"
      "  if (threadIdx.x >= {}u) return;\n"
      "  const auto call = [&](uint3 at, uint3 grid) {{\n"
      "{}    {}__body({}at, grid, corun_thread_anew());\n"
      "  }};\n"
      "  const auto meet = [] {{ corun_all_left(); }};\n"
      "  if constexpr (kOnce)\n"
      "    corun_take_one(launch, most, stops, call, meet);\n"
      "  else\n"
      "    corun_take_blocks(launch, most, stops, call, meet);\n}}\n",
      b.count(),
      traits.helpers_read_index
          ? "    if (corun_is_leader()) corun_block = at, corun_grid = grid;\n    __syncthreads();\n"
          : "",
      of.kernel, values);
  out += fmt::format("#line {} \"{}\"\n", k.line_after(), of.file);
  out += k.after(false);
  out += "\n}\n";
  for (const std::string& macro : k.macros()) out += fmt::format("#undef {}\n", macro);
  return out;
}

}  // namespace

std::string make_padded(const PaddingSource& first, const PaddingSource& second) {
  std::string includes;
  const std::string a = part("corun_first", first, includes), b = part("corun_second", second, includes);
  return fmt::format(
      "#define CORUN_SHARED_MEMORY 1\n#define CORUN_RETURNS_BEFORE_BARRIERS 1\n#define "
      "CORUN_HELPERS_READ_INDEX 0\n"
      "#define CORUN_DIMENSIONS 3\n#define CORUN_BLOCK_DIMENSIONS 1\n#define CORUN_PREFETCH 0\n"
      "#define CORUN_CHUNKED 0\n#define CORUN_LOGGED 0\n#define CORUN_ONCE 0\n{}{}{}{}{}"
      "extern \"C\" __global__ void __launch_bounds__(CORUN_THREADS, CORUN_RESIDENT)\n"
      "{}(const corun_first::CorunValues a, const corun_second::CorunValues b, const CorunPadded p) {{\n"
      "  if (corun_sm() < p.sms)\n"
      "    corun_first::corun_run<CORUN_FIRST_ONCE>(a, p.first, p.seats != 0 ? p.per_sm : 0, "
      "p.second.control);\n"
      "  else\n"
      "    corun_second::corun_run<false>(b, p.second, 0, nullptr);\n}}\n",
      includes, persistent_header(), library_source("padding.cuh"), a, b, kPaddedEntry);
}

}  // namespace corun::hw
