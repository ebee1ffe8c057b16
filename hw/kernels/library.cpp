#include "hw/kernels/library.h"

#include <cmath>
#include <utility>

#include "hw/kernels/definitions.h"
#include "hw/transform/embedded_device_code.h"

namespace corun::hw {

std::string_view LibraryKernel::code() const { return text.empty() ? library_source(source) : text; }

std::size_t bytes_of(Type type) { return type == Type::f64 ? 8 : type == Type::f16 ? 2 : 4; }

std::uint32_t hash_of(std::uint32_t i, std::uint32_t seed) {
  std::uint32_t x = i * 0x9E3779B9u + seed * 0x85EBCA6Bu;
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
  return x;
}
float input_of(const Buffer& b, std::uint32_t i, std::uint32_t seed) {
  return std::fma(static_cast<float>(hash_of(i, seed) >> 8) * 0x1p-24f, b.range, b.low);
}

float from_half(std::uint16_t h) {
  const int exponent = h >> 10 & 31;
  const float mantissa = static_cast<float>(h & 1023);
  const float value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return (h & 0x8000) != 0 ? -value : value;
}
std::uint16_t to_half(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::fabs(value);
  if (size < 0x1p-14f)
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24f)));
  int exponent = 0;
  std::frexp(size, &exponent);  // size = m 2^exponent, m in [0.5, 1)
  const auto mantissa = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 11 - exponent)));
  return static_cast<std::uint16_t>(sign | (((exponent + 13) << 10) + static_cast<int>(mantissa)));
}

const std::vector<LibraryKernel>& kernel_library() {
  static const std::vector<LibraryKernel> all = [] {
    std::vector<LibraryKernel> kernels = application_kernels();
    for (LibraryKernel& k : operation_kernels()) kernels.push_back(std::move(k));
    return kernels;
  }();
  return all;
}
const LibraryKernel* find_kernel(const std::string& name) {
  for (const LibraryKernel& k : kernel_library())
    if (k.name == name) return &k;
  return nullptr;
}

}  // namespace corun::hw
