// The kernels that traces may name, each with its launch shape, its buffers, and what the host says its
// outputs must be.  The device code is beside this file; inputs are hashes of their index (fill.cu), so that
// the host can recompute any of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "traces/model/kernel.h"

namespace corun::hw {

enum class Type : std::uint8_t { f32, f64, f16, u32 };
std::size_t bytes_of(Type type);

struct Buffer {
  std::string name;
  Type type = Type::f32;
  std::uint64_t elements = 0;
  bool input = true;
  float low = 0, range = 1;   // inputs are low + range * [0, 1)
  std::uint32_t modulus = 0;  // of u32 inputs; 0: all 32 bits

  std::size_t bytes() const { return elements * bytes_of(type); }
};

struct BufferArgument {
  std::uint32_t buffer;
};
using Argument = std::variant<BufferArgument, std::uint32_t, std::int32_t, float, double>;

/// The outputs of one launch, on the host.
class Outputs {
 public:
  virtual ~Outputs() = default;
  virtual const void* at(std::uint32_t buffer) const = 0;
  template <class T>
  const T* of(std::uint32_t buffer) const {
    return static_cast<const T*>(at(buffer));
  }
};

struct LibraryKernel {
  std::string name;    // as a trace names it
  std::string source;  // the device code's file, without ".cu"; where it is not the library's, its path
  std::string entry;
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<Buffer> buffers;
  std::vector<Argument> arguments;
  /// What is wrong with the outputs, or empty.  Samples large ones.  None: the plain launch is the reference.
  std::function<std::string(std::uint32_t seed, const Outputs&)> check{};
  std::string text{};  // the device code, where it is not the library's

  std::string_view code() const;
  std::string file() const { return text.empty() ? source + ".cu" : source; }
  std::uint64_t blocks() const { return grid.count(); }
  std::uint32_t threads() const { return static_cast<std::uint32_t>(block.count()); }
};

/// In the order in which tables list them.
const std::vector<LibraryKernel>& kernel_library();
/// Null if there is none.
const LibraryKernel* find_kernel(const std::string& name);

/// An input, as fill.cu makes it.
std::uint32_t hash_of(std::uint32_t index, std::uint32_t seed);
float input_of(const Buffer& b, std::uint32_t index, std::uint32_t seed);
float from_half(std::uint16_t half);
std::uint16_t to_half(float value);  // to nearest even

}  // namespace corun::hw
