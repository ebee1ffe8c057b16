// What launches come to at the memory is the same whether it was kept or is computed.
#include "sim/stages/memory_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/launch_fields.h"
#include "tests/support/random_trace.h"
#include "tests/support/stages.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

BlockLoad load(double read) {
  BlockLoad l;
  l.sm.issue_ps = 1e6, l.memory.wait_ps = 2e6, l.memory.read_bytes = read, l.memory.l2_read_bytes = 2 * read, l.memory.l2_ps = 10;
  l.extent.residents = 4, l.extent.sms = 132, l.extent.blocks = 528, l.extent.places = 528;
  l.alone_ps = 3e6 + read;
  return l;
}

TEST(MemoryTable, ALoadHasItsOwnNumberNotZero) {
  MemoryTable table(limits_of(read_gpu("h200")));
  const std::uint32_t number = table.number_of(load(1000));
  EXPECT_NE(number, 0u);
  EXPECT_EQ(table.number_of(load(1000)), number);
  EXPECT_NE(table.number_of(load(1001)), number);
}

TEST(MemoryTable, ALoadOfWhichAnyFieldDiffersHasAnotherNumber) {
  MemoryTable table(limits_of(read_gpu("h200")));
  Launched usual;
  usual.work.load = load(1000), usual.work.record.blocks = 528, usual.allowed = mask({0, 1});
  std::set<std::uint32_t> seen{table.number_of(usual.work.load)};
  std::deque<std::vector<Time>> none;
  for (std::size_t at = 0;; ++at) {
    Launched other = usual;
    const std::string name = change_field(other, at, AnotherValue{usual, none});
    if (name.empty()) break;
    if (other.work.load == usual.work.load) continue;
    EXPECT_TRUE(seen.insert(table.number_of(other.work.load)).second) << name;
  }
  EXPECT_GT(seen.size(), 30u);
}

TEST(MemoryTable, GivesWhatShareMemoryFinds) {
  const MemoryLimits limits = limits_of(read_gpu("h200"));
  MemoryTable table(limits);
  Dice dice(3);
  std::vector<BlockLoad> loads;
  for (int i = 0; i < 5; ++i) loads.push_back(load(20'000.0 * (i + 1)));
  for (int i = 0; i < 3000; ++i) {
    std::vector<Contender> kept, computed;
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t n = dice.any(0, 4); n > 0; --n) {
      const BlockLoad& l = loads[dice.any(0, 4)];
      const std::uint32_t sms = dice.any(1, 4) * 33;
      kept.push_back({&l, 2.0 * sms, double(sms), 0, 0});
      numbers.push_back(table.number_of(l));
    }
    computed = kept;
    const MemoryUse a = table.share(kept, numbers), b = share_memory(computed, limits);
    ASSERT_EQ(a.dram, b.dram);
    ASSERT_EQ(a.latency_inflation, b.latency_inflation);
    for (std::size_t k = 0; k < kept.size(); ++k) {
      ASSERT_EQ(kept[k].delay_ps, computed[k].delay_ps);
      ASSERT_EQ(kept[k].issue_ps, computed[k].issue_ps);
    }
  }
}

TEST(MemoryTable, RefusesContendersWithoutNumbers) {
  MemoryTable table(limits_of(read_gpu("h200")));
  const BlockLoad l = load(1000);
  Contender one{&l, 4, 1, 0, 0};
  EXPECT_THROW(table.share({&one, 1}, {}), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
