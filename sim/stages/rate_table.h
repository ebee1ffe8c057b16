// What one launch, or two, come to on an SM.  The same few launches meet again and again: what makes their
// blocks' times has a number, and their rates are kept by those and by how many blocks each has.  A table of
// the latest, which forgets nothing that cannot be computed again.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "sim/engine/expects.h"

namespace corun::sim {

class RateTable {
 public:
  /// What makes the times of a launch's blocks, ps and a ratio.
  struct Kind {
    double delay = 0, issue = 0, alone = 0, fp64 = 0, chance = 1;
    bool operator==(const Kind&) const = default;
  };
  struct Rates {
    std::uint32_t older = 0, younger = 0;  // serials, 0: none
    std::uint32_t blocks = 0;              // of both, and how far they are apart
    std::uint32_t older_rate = 0, younger_rate = 0;
  };

  /// A number that it has for itself, not 0.
  std::uint32_t serial_of(const Kind& kind) {
    CORUN_EXPECTS(kind == kind);  // no NaN, which would be a new kind each time
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(kind.delay) ^
                               std::bit_cast<std::uint64_t>(kind.issue) << 1 ^
                               std::bit_cast<std::uint64_t>(kind.alone) << 2;
    if (known_.empty()) known_.resize(std::size_t{1} << kKnownBits);
    Known& known = known_[bits * kScatter >> (64 - kKnownBits)];
    if (known.serial == 0 || known.kind != kind) known = {kind, ++serials_};
    return known.serial;
  }
  /// The entry of this key, its rates 0 if they are not known.
  Rates& rates_of(const Rates& key) {
    CORUN_EXPECTS_SLOW(key.older != 0 && key.blocks != 0 && key.older_rate == 0 && key.younger_rate == 0);
    const std::uint64_t bits = (std::uint64_t{key.older} << 32 | key.younger) * kScatter + key.blocks;
    if (rates_.empty()) rates_.resize(std::size_t{1} << kRatesBits);
    Rates& rates = rates_[bits * kScatter >> (64 - kRatesBits)];
    if (rates.older != key.older || rates.younger != key.younger || rates.blocks != key.blocks) rates = key;
    return rates;
  }

 private:
  static constexpr int kKnownBits = 10, kRatesBits = 12;
  static constexpr std::uint64_t kScatter = 0x9e3779b97f4a7c15u;
  struct Known {
    Kind kind;
    std::uint32_t serial = 0;
  };
  std::vector<Known> known_;
  std::uint32_t serials_ = 0;
  std::vector<Rates> rates_;
};

}  // namespace corun::sim
