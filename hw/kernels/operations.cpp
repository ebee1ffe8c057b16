// Kernels of one operation each: moves through memory, products of matrices and other layers of networks; and
// those of tests, which take a known time or path.
#include <algorithm>

#include "hw/kernels/definitions.h"

namespace corun::hw {
namespace {

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

}  // namespace

std::vector<LibraryKernel> operation_kernels() {
  return {stream("copy", false, 65536),
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

}  // namespace corun::hw
