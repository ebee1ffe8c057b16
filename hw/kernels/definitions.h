// What the definitions of the library's kernels share: their buffers, and how outputs are compared.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hw/kernels/library.h"

namespace corun::hw {

/// Kernels of benchmarks' applications, each with its shape (applications.cpp).
std::vector<LibraryKernel> application_kernels();
/// Single operations: moves through memory, layers of networks, and what tests look at (operations.cpp).
std::vector<LibraryKernel> operation_kernels();

inline constexpr std::uint32_t kSamples = 300;

/// The i-th of the elements looked at; the first and the last among them.
inline std::uint32_t sample(std::uint32_t i, std::uint64_t elements) {
  if (i == 0) return 0;
  if (i == 1) return static_cast<std::uint32_t>(elements - 1);
  return static_cast<std::uint32_t>((std::uint64_t{hash_of(i, 77)} << 16 ^ hash_of(i, 78)) % elements);
}

/// Compares samples of an output with what `expected` says of an index.
template <class T, class Expected>
std::string compare(const Outputs& outputs, std::uint32_t buffer, std::uint64_t elements, double relative,
                    double absolute, const Expected& expected, std::uint32_t samples = kSamples) {
  const T* got = outputs.of<T>(buffer);
  for (std::uint32_t i = 0; i < samples; ++i) {
    const std::uint32_t at = sample(i, elements);
    const double want = static_cast<double>(expected(at)), is = static_cast<double>(got[at]);
    if (!(std::fabs(is - want) <= absolute + relative * std::fabs(want)))
      return fmt::format("output {} at {} is {:.9g}, expected {:.9g}", buffer, at, is, want);
  }
  return {};
}

inline Buffer input(std::string name, std::uint64_t n, float low, float range, Type type = Type::f32) {
  return {std::move(name), type, n, true, low, range, 0};
}
inline Buffer integers(std::string name, std::uint64_t n, std::uint32_t modulus) {
  return {std::move(name), Type::u32, n, true, 0, 1, modulus};
}
inline Buffer output(std::string name, std::uint64_t n, Type type = Type::f32) {
  return {std::move(name), type, n, false, 0, 1, 0};
}
inline BufferArgument buffer(std::uint32_t i) { return {i}; }

/// Inputs differ by buffer: the seed of buffer b.
inline std::uint32_t seed_of(std::uint32_t seed, std::uint32_t b) { return seed * 64 + b; }

}  // namespace corun::hw
