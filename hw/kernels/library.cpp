#include "hw/kernels/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

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

namespace {

constexpr std::uint32_t kSamples = 300;

/// The i-th of the elements looked at; the first and the last among them.
std::uint32_t sample(std::uint32_t i, std::uint64_t elements) {
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

Buffer input(std::string name, std::uint64_t n, float low, float range, Type type = Type::f32) {
  return {std::move(name), type, n, true, low, range, 0};
}
Buffer integers(std::string name, std::uint64_t n, std::uint32_t modulus) {
  return {std::move(name), Type::u32, n, true, 0, 1, modulus};
}
Buffer output(std::string name, std::uint64_t n, Type type = Type::f32) {
  return {std::move(name), type, n, false, 0, 1, 0};
}
BufferArgument buffer(std::uint32_t i) { return {i}; }

/// Inputs differ by buffer: the seed of buffer b.
std::uint32_t seed_of(std::uint32_t seed, std::uint32_t b) { return seed * 64 + b; }

LibraryKernel black_scholes(std::string name, std::uint32_t blocks) {
  const std::uint32_t n = blocks * 256;
  const Buffer stock = input("stock", n, 5, 25), strike = input("strike", n, 1, 99),
               years = input("years", n, 0.25f, 9.75f);
  const double rate = 0.02f, volatility = 0.3f;
  const auto formula = [=](std::uint32_t seed, std::uint32_t i, bool call) {
    const double s = static_cast<double>(input_of(stock, i, seed_of(seed, 2))),
                 x = static_cast<double>(input_of(strike, i, seed_of(seed, 3))),
                 t = static_cast<double>(input_of(years, i, seed_of(seed, 4)));
    const double d1 = (std::log(s / x) + (rate + volatility * volatility / 2) * t) /
                      (volatility * std::sqrt(t)),
                 d2 = d1 - volatility * std::sqrt(t);
    const auto below = [](double d) { return 0.5 * std::erfc(-d / std::sqrt(2.0)); };
    const double discounted = x * std::exp(-rate * t);
    return call ? s * below(d1) - discounted * below(d2) : discounted * below(-d2) - s * below(-d1);
  };
  LibraryKernel k{std::move(name),
                  "blackscholes",
                  "blackscholes",
                  {blocks, 1, 1},
                  {128, 1, 1},
                  0,
                  {output("call", n), output("put", n), stock, strike, years},
                  {buffer(0), buffer(1), buffer(2), buffer(3), buffer(4), 0.02f, 0.3f, n / 2},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    for (std::uint32_t b : {0u, 1u})
      if (std::string wrong =
              compare<float>(o, b, n, 1e-4, 2e-4, [&](std::uint32_t i) { return formula(seed, i, b == 0); });
          !wrong.empty())
        return wrong;
    return std::string();
  };
  return k;
}

LibraryKernel fdtd3d(std::string name, std::uint32_t gx, std::uint32_t gy, std::uint32_t nz) {
  const std::uint32_t nx = gx * 32, ny = gy * 16, row = nx + 8, plane = row * (ny + 8), n = plane * (nz + 8);
  const Buffer in = input("in", n, 0, 1);
  LibraryKernel k{std::move(name),
                  "fdtd3d",
                  "fdtd3d",
                  {gx, gy, 1},
                  {32, 16, 1},
                  0,
                  {output("out", n), in},
                  {buffer(0), buffer(1), static_cast<std::int32_t>(nx), static_cast<std::int32_t>(ny),
                   static_cast<std::int32_t>(nz)},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    const double c[5] = {-2.847222, 1.6, -0.2, 0.02539683, -0.001785714};
    const float* got = o.of<float>(0);
    for (std::uint32_t s = 0; s < kSamples; ++s) {
      const std::uint32_t x = hash_of(s, 1) % nx, y = hash_of(s, 2) % ny,
                          z = s == 0 ? nz - 1 : hash_of(s, 3) % nz;
      const std::uint32_t at = (z + 4) * plane + (y + 4) * row + x + 4;
      const auto v = [&](std::uint32_t i) { return static_cast<double>(input_of(in, i, seed_of(seed, 1))); };
      double want = 3 * c[0] * v(at);
      for (std::uint32_t i = 1; i <= 4; ++i)
        want += c[i] * (v(at - i) + v(at + i) + v(at - i * row) + v(at + i * row) + v(at - i * plane) +
                        v(at + i * plane));
      if (!(std::fabs(static_cast<double>(got[at]) - want) <= 1e-4))
        return fmt::format("out at ({}, {}, {}) is {:.9g}, expected {:.9g}", x, y, z, got[at], want);
    }
    return std::string();
  };
  return k;
}

LibraryKernel lavamd(std::string name, std::uint32_t side) {
  const std::uint32_t boxes = side * side * side, n = boxes * 100;
  const Buffer at = input("particles", n * 4, 0.1f, 0.9f, Type::f64),
               charge = input("charges", n, 0.1f, 0.9f, Type::f64);
  LibraryKernel k{std::move(name),
                  "lavamd",
                  "lavamd",
                  {boxes, 1, 1},
                  {128, 1, 1},
                  0,
                  {output("forces", n * 4, Type::f64), at, charge},
                  {buffer(0), buffer(1), buffer(2), static_cast<std::int32_t>(side), 0.5},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    const int s = static_cast<int>(side);
    const auto v = [&](std::uint32_t p, std::uint32_t c) {
      return static_cast<double>(input_of(at, p * 4 + c, seed_of(seed, 1)));
    };
    return compare<double>(
        o, 0, n * 4, 1e-9, 1e-9,
        [&](std::uint32_t element) {
          const std::uint32_t p = element / 4, c = element % 4;
          const int box = static_cast<int>(p / 100), bx = box % s, by = box / s % s, bz = box / (s * s);
          double sum = 0;
          for (int i = 0; i < 27; ++i) {
            const int other = (((bz + i / 9 - 1 + s) % s) * s + (by + i / 3 % 3 - 1 + s) % s) * s +
                              (bx + i % 3 - 1 + s) % s;
            for (std::uint32_t j = 0; j < 100; ++j) {
              const std::uint32_t q = static_cast<std::uint32_t>(other) * 100 + j;
              const double charge_of = static_cast<double>(input_of(charge, q, seed_of(seed, 2)));
              const double r2 =
                  v(p, 0) + v(q, 0) - (v(p, 1) * v(q, 1) + v(p, 2) * v(q, 2) + v(p, 3) * v(q, 3));
              const double vij = std::exp(-0.5 * r2);
              sum += c == 0 ? charge_of * vij : 2 * vij * charge_of * (v(p, c) - v(q, c));
            }
          }
          return sum;
        },
        24);
  };
  return k;
}

LibraryKernel nn(std::string name, std::uint32_t blocks) {
  const std::uint32_t n = blocks * 256;
  const Buffer place = input("places", n * 2, -90, 180);
  LibraryKernel k{std::move(name),
                  "nn",
                  "nn",
                  {blocks, 1, 1},
                  {256, 1, 1},
                  0,
                  {output("distances", n), place},
                  {buffer(0), buffer(1), n, 30.0f, 90.0f},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, n, 1e-5, 1e-5, [&](std::uint32_t i) {
      return std::hypot(30 - static_cast<double>(input_of(place, 2 * i, seed_of(seed, 1))),
                        90 - static_cast<double>(input_of(place, 2 * i + 1, seed_of(seed, 1))));
    });
  };
  return k;
}

LibraryKernel quasirandom(std::string name, std::uint32_t n) {
  LibraryKernel k{std::move(name),
                  "quasirandom",
                  "quasirandom",
                  {128, 1, 1},
                  {128, 3, 1},
                  0,
                  {output("numbers", std::uint64_t{n} * 3), integers("directions", 93, 0x7fffffffu)},
                  {buffer(0), buffer(1), n},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, std::uint64_t{n} * 3, 0, 0, [&](std::uint32_t at) {
      std::uint32_t result = 0;
      for (std::uint32_t b = 0; b < 31; ++b)
        if ((at % n >> b & 1) != 0) result ^= hash_of(at / n * 31 + b, seed_of(seed, 1)) % 0x7fffffffu;
      return static_cast<float>(result + 1) * 0x1p-31f;
    });
  };
  return k;
}

std::uint32_t md5_first_word(std::uint32_t w0, std::uint32_t w1) {
  static constexpr std::uint32_t kShifts[4][4] = {
      {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  const std::uint32_t message[16] = {w0, w1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0};
  std::uint32_t a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t f = i < 16   ? (b & c) | (~b & d)
                            : i < 32 ? (d & b) | (~d & c)
                            : i < 48 ? b ^ c ^ d
                                     : c ^ (b | ~d);
    const std::uint32_t g = i < 16 ? i : i < 32 ? (5 * i + 1) % 16 : i < 48 ? (3 * i + 5) % 16 : 7 * i % 16;
    const auto k = static_cast<std::uint32_t>(std::floor(std::fabs(std::sin(i + 1.0)) * 4294967296.0));
    const std::uint32_t sum = a + f + k + message[g];
    a = d, d = c, c = b, b = b + std::rotl(sum, static_cast<int>(kShifts[i / 16][i % 4]));
  }
  return a + 0x67452301;
}

LibraryKernel md5(std::string name, std::uint32_t blocks, std::uint32_t keys) {
  const std::uint32_t n = blocks * 256;
  LibraryKernel k{
      std::move(name),   "md5", "md5", {blocks, 1, 1}, {256, 1, 1}, 0, {output("best", n * 2, Type::u32)},
      {buffer(0), keys}, {}};
  k.check = [=](std::uint32_t, const Outputs& o) {
    return compare<std::uint32_t>(
        o, 0, n * 2, 0, 0,
        [&](std::uint32_t at) {
          std::uint32_t least = 0xffffffffu, whose = 0;
          for (std::uint32_t i = 0; i < keys; ++i)
            if (const std::uint32_t word = md5_first_word(at / 2, i); word < least) least = word, whose = i;
          return at % 2 == 0 ? least : whose;
        },
        64);
  };
  return k;
}

LibraryKernel tpacf(std::string name, std::uint32_t tiles, std::uint32_t parts) {
  const std::uint32_t n = tiles * 256, per_block = n / parts;
  const Buffer point = input("points", n * 4, -1, 2), border = input("borders", 20, 0, 1);
  LibraryKernel k{std::move(name),
                  "tpacf",
                  "tpacf",
                  {tiles, parts, 1},
                  {256, 1, 1},
                  0,
                  {output("histograms", tiles * parts * 21, Type::u32), point, border},
                  {buffer(0), buffer(1), buffer(2), per_block},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    // Borders are not sorted; the search is what the kernel does.  Products may be fused there, so pairs next
    // to a border can fall on either side.
    const std::uint32_t* got = o.of<std::uint32_t>(0);
    for (std::uint32_t s = 0; s < 3; ++s) {
      const std::uint32_t block = s == 0 ? tiles * parts - 1 : hash_of(s, 5) % (tiles * parts);
      const std::uint32_t bx = block % tiles, by = block / tiles;
      std::vector<std::uint64_t> want(21);
      const auto v = [&](std::uint32_t p, std::uint32_t c) {
        return input_of(point, p * 4 + c, seed_of(seed, 1));
      };
      std::vector<float> borders;
      for (std::uint32_t i = 0; i < 20; ++i) borders.push_back(input_of(border, i, seed_of(seed, 2)));
      for (std::uint32_t i = 0; i < 256; ++i) {
        const float x = v(bx * 256 + i, 0), y = v(bx * 256 + i, 1), z = v(bx * 256 + i, 2);
        for (std::uint32_t j = by * per_block; j < (by + 1) * per_block; ++j) {
          const float cosine = std::fma(z, v(j, 2), std::fma(x, v(j, 0), y * v(j, 1)));
          std::uint32_t low = 0, high = 20;
          while (low < high) {
            const std::uint32_t middle = (low + high) / 2;
            if (cosine >= borders[middle])
              high = middle;
            else
              low = middle + 1;
          }
          ++want[low];
        }
      }
      std::uint64_t total = 0, off = 0;
      for (std::uint32_t i = 0; i < 21; ++i) {
        const std::uint64_t is = got[block * 21 + i];
        total += is, off += is > want[i] ? is - want[i] : want[i] - is;
      }
      if (total != std::uint64_t{256} * per_block || off > 20)
        return fmt::format("histogram {} counts {} pairs of {}, {} of them elsewhere than expected", block,
                           total, 256 * per_block, off);
    }
    return std::string();
  };
  return k;
}

LibraryKernel stream(std::string name, bool triad, std::uint32_t blocks) {
  const std::uint32_t n = blocks * 1024;
  const Buffer a = input("b", n, -1, 2), b = input("c", n, -1, 2);
  LibraryKernel k{std::move(name),
                  "stream",
                  triad ? "triad" : "copy",
                  {blocks, 1, 1},
                  {256, 1, 1},
                  0,
                  {output("a", n), a},
                  {buffer(0), buffer(1)},
                  {}};
  if (triad) k.buffers.push_back(b), k.arguments.push_back(buffer(2)), k.arguments.push_back(0.4f);
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, n, triad ? 1e-6 : 0, triad ? 1e-6 : 0, [&](std::uint32_t i) {
      const float x = input_of(a, i, seed_of(seed, 1));
      return triad ? std::fma(0.4f, input_of(b, i, seed_of(seed, 2)), x) : x;
    });
  };
  return k;
}

LibraryKernel gather(std::string name, std::uint32_t blocks, std::uint32_t table) {
  const std::uint32_t n = blocks * 1024;
  const Buffer values = input("table", table, -1, 2);
  LibraryKernel k{std::move(name),
                  "gather",
                  "gather",
                  {blocks, 1, 1},
                  {256, 1, 1},
                  0,
                  {output("out", n), values, integers("index", n, table)},
                  {buffer(0), buffer(1), buffer(2)},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, n, 0, 0, [&](std::uint32_t i) {
      return input_of(values, hash_of(i, seed_of(seed, 2)) % table, seed_of(seed, 1));
    });
  };
  return k;
}

LibraryKernel gemm(std::string name, bool half, std::uint32_t n) {
  const Buffer a = input("a", n * n, -1, 2, half ? Type::f16 : Type::f32),
               b = input("b", n * n, -1, 2, half ? Type::f16 : Type::f32);
  LibraryKernel k{std::move(name),
                  half ? "hgemm" : "sgemm",
                  half ? "hgemm" : "sgemm",
                  {n / 128, n / 128, 1},
                  {256, 1, 1},
                  0,
                  {output("c", n * n), a, b},
                  {buffer(0), buffer(1), buffer(2), static_cast<std::int32_t>(n)},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    const auto value = [&](const Buffer& from, std::uint32_t i, std::uint32_t which) {
      const float v = input_of(from, i, seed_of(seed, which));
      return static_cast<double>(half ? from_half(to_half(v)) : v);
    };
    return compare<float>(o, 0, n * n, 1e-4, 2e-3, [&](std::uint32_t at) {
      const std::uint32_t row = at / n, column = at % n;
      double sum = 0;
      for (std::uint32_t i = 0; i < n; ++i)
        sum += value(a, row * n + i, 1) * value(b, half ? column * n + i : i * n + column, 2);
      return sum;
    });
  };
  return k;
}

LibraryKernel conv3x3(std::string name, std::uint32_t images, std::uint32_t channels, std::uint32_t filters,
                      std::uint32_t side) {
  const std::uint32_t tiles = (side + 15) / 16, n = images * filters * side * side;
  const Buffer in = input("in", images * channels * side * side, -1, 2),
               weight = input("weights", filters * channels * 9, -1, 2);
  const auto integer = [](std::uint32_t i) { return static_cast<std::int32_t>(i); };
  LibraryKernel k{
      std::move(name),
      "conv3x3",
      "conv3x3",
      {tiles * tiles, filters / 8, images},
      {16, 16, 1},
      0,
      {output("out", n), in, weight},
      {buffer(0), buffer(1), buffer(2), integer(channels), integer(filters), integer(side), integer(side)},
      {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, n, 1e-4, 1e-3, [&](std::uint32_t at) {
      const std::uint32_t x = at % side, y = at / side % side, f = at / (side * side) % filters,
                          image = at / (side * side * filters);
      double sum = 0;
      for (std::uint32_t c = 0; c < channels; ++c)
        for (std::uint32_t t = 0; t < 9; ++t) {
          const std::uint32_t sx = x + t % 3, sy = y + t / 3;  // one more than it is
          if (sx == 0 || sy == 0 || sx > side || sy > side) continue;
          sum += static_cast<double>(input_of(in, ((image * channels + c) * side + sy - 1) * side + sx - 1,
                                              seed_of(seed, 1))) *
                 static_cast<double>(input_of(weight, (f * channels + c) * 9 + t, seed_of(seed, 2)));
        }
      return sum;
    });
  };
  return k;
}

LibraryKernel rows(std::string name, bool softmax, std::uint32_t count) {
  const std::uint32_t n = count * 1024;
  const Buffer in = input("in", n, -4, 8);
  LibraryKernel k{std::move(name),
                  "rows",
                  softmax ? "softmax" : "layernorm",
                  {count, 1, 1},
                  {256, 1, 1},
                  0,
                  {output("out", n), in},
                  {buffer(0), buffer(1)},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, n, 1e-4, softmax ? 1e-7 : 1e-4, [&](std::uint32_t at) {
      const auto v = [&](std::uint32_t i) {
        return static_cast<double>(input_of(in, at / 1024 * 1024 + i, seed_of(seed, 1)));
      };
      double sum = 0, squares = 0;
      for (std::uint32_t i = 0; i < 1024; ++i) sum += softmax ? std::exp(v(i)) : v(i) / 1024;
      if (softmax) return std::exp(v(at % 1024)) / sum;
      for (std::uint32_t i = 0; i < 1024; ++i) squares += (v(i) - sum) * (v(i) - sum) / 1024;
      return (v(at % 1024) - sum) / std::sqrt(squares + 1e-5);
    });
  };
  return k;
}

LibraryKernel reduction(std::string name, std::uint32_t blocks) {
  const Buffer in = input("in", std::uint64_t{blocks} * 4096, 0, 1);
  LibraryKernel k{std::move(name),
                  "reduction",
                  "reduction",
                  {blocks, 1, 1},
                  {256, 1, 1},
                  0,
                  {output("sums", blocks), in},
                  {buffer(0), buffer(1)},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, blocks, 1e-5, 0, [&](std::uint32_t b) {
      double sum = 0;
      for (std::uint32_t i = 0; i < 4096; ++i)
        sum += static_cast<double>(input_of(in, b * 4096 + i, seed_of(seed, 1)));
      return sum;
    });
  };
  return k;
}

LibraryKernel transpose(std::string name, std::uint32_t side) {
  const Buffer in = input("in", std::uint64_t{side} * side, -1, 2);
  LibraryKernel k{std::move(name),
                  "transpose",
                  "transpose",
                  {side / 32, side / 32, 1},
                  {32, 8, 1},
                  0,
                  {output("out", std::uint64_t{side} * side), in},
                  {buffer(0), buffer(1), side},
                  {}};
  k.check = [=](std::uint32_t seed, const Outputs& o) {
    return compare<float>(o, 0, std::uint64_t{side} * side, 0, 0, [&](std::uint32_t at) {
      return input_of(in, at % side * side + at / side, seed_of(seed, 1));
    });
  };
  return k;
}

LibraryKernel traps(std::string name, Dim3 grid, std::uint32_t active) {
  const auto n = static_cast<std::uint32_t>(grid.count());
  LibraryKernel k{std::move(name),     "traps", "traps", grid, {192, 1, 1}, 0, {output("out", n, Type::u32)},
                  {buffer(0), active}, {}};
  k.check = [=](std::uint32_t, const Outputs& o) {
    std::uint32_t before = 0, zeros = 0;
    for (std::uint32_t t = 0; t < std::min(active, 192u); ++t) {
      if (t % 3 != 2) before += t;
      zeros += t % 3 == 0;
    }
    return compare<std::uint32_t>(
        o, 0, n, 0, 0,
        [&](std::uint32_t b) {
          const std::uint32_t y = b / grid.x % grid.y, z = b / grid.x / grid.y;
          return (zeros * (before + z)) * 7 + y;
        },
        n);
  };
  return k;
}

LibraryKernel spin(std::string name, std::uint32_t blocks, std::uint32_t threads, std::uint32_t ns) {
  LibraryKernel k{
      std::move(name), "spin", "spin", {blocks, 1, 1}, {threads, 1, 1}, 0, {output("out", blocks, Type::u32)},
      {buffer(0), ns}, {}};
  k.check = [=](std::uint32_t, const Outputs& o) {
    return compare<std::uint32_t>(o, 0, blocks, 0, 0, [](std::uint32_t b) { return b * 2654435761u; });
  };
  return k;
}

/// As spin, but one warp of each block looks at the clock.
LibraryKernel wait(std::string name, std::uint32_t blocks, std::uint32_t threads, std::uint32_t ns) {
  LibraryKernel k = spin(std::move(name), blocks, threads, ns);
  k.entry = "wait";
  return k;
}

std::vector<LibraryKernel> make_library() {
  return {black_scholes("blackscholes", 131072),
          black_scholes("blackscholes_small", 16384),
          fdtd3d("fdtd3d", 12, 24, 376),
          lavamd("lavamd", 10),
          nn("nn", 131072),
          nn("nn_small", 32768),
          quasirandom("quasirandom", 1u << 24),
          md5("md5", 8192, 64),
          tpacf("tpacf", 64, 16),
          stream("copy", false, 65536),
          stream("triad", true, 65536),
          stream("copy_small", false, 8192),
          gather("gather", 65536, 1u << 24),
          gemm("sgemm", false, 2048),
          gemm("sgemm_small", false, 1024),
          gemm("hgemm", true, 4096),
          gemm("hgemm_small", true, 2048),
          conv3x3("conv3x3", 16, 64, 64, 56),
          rows("softmax", true, 65536),
          rows("layernorm", false, 65536),
          rows("softmax_small", true, 8192),
          reduction("reduction", 32768),
          transpose("transpose", 8192),
          traps("traps", {37, 23, 11}, 170),
          spin("spin10", 132 * 8 * 40, 256, 10000),
          spin("spin10_full", 132 * 40, 1024, 10000),
          spin("spin100_few", 64, 256, 100'000),
          spin("tick", 132, 1024, 0),
          wait("wait10", 132 * 8 * 40, 256, 10000)};
}

}  // namespace

const std::vector<LibraryKernel>& kernel_library() {
  static const std::vector<LibraryKernel> all = make_library();
  return all;
}
const LibraryKernel* find_kernel(const std::string& name) {
  for (const LibraryKernel& k : kernel_library())
    if (k.name == name) return &k;
  return nullptr;
}

}  // namespace corun::hw
