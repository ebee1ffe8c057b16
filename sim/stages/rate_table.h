// What one to four launches come to on an SM.  The same few launches meet again and again: what makes their
// blocks' times has a number, and their rates are kept by those and by how many blocks each has.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "sim/engine/latest_table.h"
#include "sim/model/contention.h"
#include "traces/model/expects.h"

namespace corun::sim {

class RateTable {
 public:
  /// What makes the times of a launch's blocks, ps and a ratio.  Rates are found from kinds alone, so that nothing
  /// decides which their numbers do not tell.
  struct Kind {
    double delay = 0, issue = 0, alone = 0, arrival_randomness = 1;
    PipeUse uses = kSlotsAlone, accounted = kAllOfIt;
    bool operator==(const Kind&) const = default;
    SmShare share(std::uint32_t blocks) const { return {issue, delay, blocks, 0, arrival_randomness, uses, accounted}; }
    double alone_on_sm(std::uint32_t blocks) const { return sim::alone_on_sm(issue, blocks, delay, arrival_randomness); }
  };
  struct Company {
    std::uint32_t older = 0, younger = 0;  // numbers of their kinds, 0: none
    std::uint32_t blocks = 0;              // of both, and how far they are apart
    bool operator==(const Company&) const = default;
  };
  struct Rates {
    std::uint32_t older = 0, younger = 0;  // 0: not known yet
  };
  /// Three or four, the oldest first; what is not there is 0.
  static constexpr std::size_t kMost = 4;
  struct Several {
    std::array<std::uint32_t, kMost> kinds{}, blocks{};
    std::uint32_t apart = 0;
    bool operator==(const Several&) const = default;
  };
  using SeveralRates = std::array<std::uint32_t, kMost>;

  /// A number that it has for itself, not 0.
  std::uint32_t serial_of(const Kind& kind) {
    CORUN_EXPECTS(kind == kind);  // no NaN, which would be a new kind each time
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(kind.delay) ^
                               std::bit_cast<std::uint64_t>(kind.issue) << 1 ^
                               std::bit_cast<std::uint64_t>(kind.alone) << 2;
    bool found;
    std::uint32_t& serial = serials_.look(kind, bits, found);
    if (!found) serial = ++last_;
    return serial;
  }
  Rates& rates_of(const Company& of) {
    CORUN_EXPECTS_SLOW(of.older != 0 && of.blocks != 0);
    const std::uint64_t bits = (std::uint64_t{of.older} << 32 | of.younger) * 0xff51afd7ed558ccdu;
    bool found;
    return rates_.look(of, bits + of.blocks, found);
  }
  /// The first is 0 where they are not known yet.
  SeveralRates& rates_of_several(const Several& of) {
    CORUN_EXPECTS_SLOW(of.kinds.front() != 0 && of.blocks.front() != 0);
    std::uint64_t bits = of.apart;
    for (std::size_t i = 0; i < kMost; ++i)
      bits = (bits ^ (std::uint64_t{of.kinds[i]} << 8 | of.blocks[i])) * 0xff51afd7ed558ccdu;
    bool found;
    return several_.look(of, bits ^ bits >> 29, found);
  }

 private:
  LatestTable<Kind, std::uint32_t> serials_{7};
  std::uint32_t last_ = 0;
  LatestTable<Company, Rates> rates_{9};
  LatestTable<Several, SeveralRates> several_{9};
};

}  // namespace corun::sim
