// The device code for a trace's kernels: the library's, by name and shape, or a function that the trace
// names, with buffers and scalars as it says.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <iterator>

#include "hw/kernels/workbench.h"
#include "hw/transform/embedded_device_code.h"
#include "hw/transform/kernel_source.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

std::string shape(Dim3 d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }

const LibraryKernel& of_the_library(const Kernel& kernel) {
  const LibraryKernel* k = find_kernel(kernel.name);
  if (k == nullptr) {
    std::vector<std::string> names;
    for (const LibraryKernel& other : kernel_library()) names.push_back(other.name);
    throw InputError(kernel.origin.file, kernel.origin.place,
                     fmt::format("there is no device code for kernel {}", kernel.name),
                     fmt::format("say where it is under \"code\", or use one of {}", fmt::join(names, ", ")));
  }
  if (!(k->grid == kernel.grid) || !(k->block == kernel.block))
    throw InputError(
        kernel.origin.file, kernel.origin.place,
        fmt::format("kernel {} has {} blocks of {} here and {} of {} in the library", kernel.name,
                    shape(kernel.grid), shape(kernel.block), shape(k->grid), shape(k->block)),
        "give it the library's shape");
  return *k;
}

std::string text_of(const Kernel& kernel) {
  const DeviceCode& code = *kernel.code;
  if (code.file.empty()) {
    const std::string_view text = library_source(code.library);
    if (text.empty())
      throw InputError(kernel.origin.file, kernel.origin.place + "/code/library",
                       fmt::format("the library has no {}", code.library), "hw/kernels lists what it has");
    return std::string(text);
  }
  std::ifstream in(code.file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in && text.empty())
    throw InputError(kernel.origin.file, kernel.origin.place + "/code/file",
                     fmt::format("{} cannot be read", code.file), "put the CUDA source beside the trace");
  return text;
}

}  // namespace

const LibraryKernel& Workbench::device_kernel(const Kernel& kernel) {
  if (!kernel.code) return of_the_library(kernel);
  const DeviceCode& code = *kernel.code;
  LibraryKernel k;
  k.name = kernel.name;
  k.source = code.file.empty() ? code.library : code.file;
  k.entry = code.function;
  k.grid = kernel.grid, k.block = kernel.block;
  k.dynamic_shared_bytes = kernel.dynamic_shared_memory_bytes;
  std::string key =
      fmt::format("{} {} {} {} {}", k.source, k.entry, shape(k.grid), shape(k.block), k.dynamic_shared_bytes);
  for (const DeviceCode::Argument& argument : code.arguments)
    std::visit(
        [&](const auto& a) {
          if constexpr (std::is_same_v<std::decay_t<decltype(a)>, DeviceCode::Buffer>) {
            Buffer b;
            b.name = fmt::format("buffer {}", k.buffers.size());
            using Of = DeviceCode::Buffer::Type;
            b.type = a.type == Of::f32   ? Type::f32
                     : a.type == Of::f64 ? Type::f64
                     : a.type == Of::f16 ? Type::f16
                                         : Type::u32;
            b.elements = a.elements, b.input = a.filled;
            b.low = static_cast<float>(a.low), b.range = static_cast<float>(a.high - a.low),
            b.modulus = a.below;
            k.arguments.push_back(BufferArgument{static_cast<std::uint32_t>(k.buffers.size())});
            k.buffers.push_back(b);
            key += fmt::format(" {} {} {} {} {} {}", static_cast<int>(b.type), b.elements, b.input, b.low,
                               b.range, b.modulus);
          } else {
            k.arguments.push_back(a);
            key += fmt::format(" {}", a);
          }
        },
        argument);
  std::unique_ptr<LibraryKernel>& known = named_by_traces_[key];
  if (!known) {
    k.text = text_of(kernel);
    const std::size_t parameters = KernelSource(k.text, k.file(), k.entry).parameters().size();
    if (parameters != k.arguments.size())
      throw InputError(
          kernel.origin.file, kernel.origin.place + "/code/arguments",
          fmt::format("{} takes {} arguments, here are {}", k.entry, parameters, k.arguments.size()),
          "give one for each parameter, in order");
    known = std::make_unique<LibraryKernel>(std::move(k));
  }
  return *known;
}

}  // namespace corun::hw
