// What one to three launches come to at the memory that they share (`share_memory`).  The same few launches
// meet again and again, with the same numbers of blocks: what they ask for has a number, and how long they
// wait is kept by those.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "sim/engine/latest_table.h"
#include "sim/model/contention.h"
#include "traces/model/expects.h"

namespace corun::sim {

class MemoryTable {
 public:
  explicit MemoryTable(const MemoryLimits& limits) : limits_(limits) {}

  const MemoryLimits& limits() const { return limits_; }
  /// A number that it has for itself, not 0.
  std::uint32_t number_of(const BlockLoad& load) {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(load.alone_ps) ^
                               std::bit_cast<std::uint64_t>(load.delay_alone_ps) << 1 ^
                               std::bit_cast<std::uint64_t>(load.extent.blocks) << 2;
    bool found;
    std::uint32_t& number = numbers_.look(load, bits, found);
    if (!found) number = ++last_;
    return number;
  }
  /// As `share_memory`; `numbers` are those of the contenders' loads.
  MemoryUse share(std::span<Contender> contenders, std::span<const std::uint32_t> numbers) {
    CORUN_EXPECTS(contenders.size() == numbers.size());
    if (contenders.size() > kMost) return share_memory(contenders, limits_);
    Company company;
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      // All that a contender is: its load, which has the number, blocks and SMs; the others are what is found.
      const auto& [load, blocks, sms, delay_found, issue_found] = contenders[i];
      CORUN_EXPECTS_SLOW(numbers[i] != 0);
      company[i] = {blocks, sms, numbers[i]};
      bits ^= (std::bit_cast<std::uint64_t>(blocks) ^ std::bit_cast<std::uint64_t>(sms) << 3) + numbers[i];
      bits = (bits ^ bits >> 31) * 0xff51afd7ed558ccdu;
    }
    bool found;
    Shared& shared = shared_.look(company, bits ^ bits >> 29, found);
    if (!found) {
      shared.use = share_memory(contenders, limits_);
      for (std::size_t i = 0; i < contenders.size(); ++i)
        shared.waits[i] = {contenders[i].delay_ps, contenders[i].issue_ps};
    } else {
      for (std::size_t i = 0; i < contenders.size(); ++i)
        contenders[i].delay_ps = shared.waits[i].delay, contenders[i].issue_ps = shared.waits[i].issue;
    }
    return shared.use;
  }

 private:
  static constexpr std::size_t kMost = 3;  // of more, hardly any company comes again
  struct Asks {
    double blocks = 0, sms = 0;
    std::uint32_t number = 0;
    bool operator==(const Asks&) const = default;
  };
  using Company = std::array<Asks, kMost>;
  struct Waits {
    double delay = 0, issue = 0;
  };
  struct Shared {
    std::array<Waits, kMost> waits;
    MemoryUse use;
  };

  MemoryLimits limits_;
  LatestTable<BlockLoad, std::uint32_t> numbers_{8};
  std::uint32_t last_ = 0;
  LatestTable<Company, Shared> shared_{10};
};

}  // namespace corun::sim
