#include "sim/model/kernel_energy.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "sim/model/kernel_prior.h"

namespace corun::sim {
namespace {

struct Tile {
  unsigned rows = 0, columns = 0;
};

unsigned number(std::string_view& text) {
  unsigned n = 0;
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) && n < 10000) {
    n = 10 * n + static_cast<unsigned>(text.front() - '0');
    text.remove_prefix(1);
  }
  return n;
}

/// "_168x128_" of nvjet_sm90_hsh_168x128_64x5, "64x128x32" of ..._tilesize64x128x32_...
std::optional<Tile> tile_of(std::string_view name) {
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (!std::isdigit(static_cast<unsigned char>(name[at]))) continue;
    if (at > 0 && name[at - 1] != '_' && !name.substr(0, at).ends_with("tilesize")) continue;
    std::string_view rest = name.substr(at);
    Tile tile;
    tile.rows = number(rest);
    if (!rest.starts_with('x')) continue;
    rest.remove_prefix(1);
    tile.columns = number(rest);
    if (tile.rows != 0 && tile.columns != 0) return tile;
  }
  return std::nullopt;
}

}  // namespace

/// What of a block's tile is no multiple of 64, else its second side.
double wgmma_columns(std::string_view name) {
  constexpr double kUsual = 128, kMost = 256;
  const std::optional<Tile> tile = tile_of(name);
  if (!tile) return kUsual;
  if (name.find("nvjet") == std::string_view::npos) return std::min<double>(tile->columns, kMost);
  if (tile->rows % 64 != 0) return std::min<double>(tile->rows, kMost);
  if (tile->columns % 64 != 0) return std::min<double>(tile->columns, kMost);
  const bool shared_out = name.find("coopB") != std::string_view::npos;  // among two groups of warps
  return std::min<double>(tile->columns / (shared_out ? 2.0 : 1.0), kMost);
}

double energy_of(const Kernel& kernel, const Counters& counters, const Gpu& gpu) {
  const Power& p = gpu.power;
  const double dram = counters.dram_read_bytes.value_or(0) + counters.dram_write_bytes.value_or(0);
  double sum = counters.warp_instructions.value_or(0) * p.warp_instruction_pj + dram * p.dram_byte_pj;
  if (is_named_as(kernel.name, "wgmma"))
    sum += counters.tensor_instructions.value_or(0) * wgmma_columns(kernel.name) * p.wgmma_column_pj;
  return sum;
}

}  // namespace corun::sim
