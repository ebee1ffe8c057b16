// Kernels of applications, as suites of benchmarks have them: finance, physics, nearest neighbours, random
// numbers, hashes, astronomy.
#include <algorithm>
#include <bit>

#include "hw/kernels/definitions.h"

namespace corun::hw {
namespace {

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

}  // namespace

std::vector<LibraryKernel> application_kernels() {
  return {black_scholes("blackscholes", 131072),
          black_scholes("blackscholes_small", 16384),
          fdtd3d("fdtd3d", 12, 24, 376),
          lavamd("lavamd", 10),
          nn("nn", 131072),
          nn("nn_small", 32768),
          quasirandom("quasirandom", 1u << 24),
          md5("md5", 8192, 64),
          tpacf("tpacf", 64, 16)};
}

}  // namespace corun::hw
