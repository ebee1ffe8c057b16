// Do service and library keep what docs/trust.md promises, whatever befalls them?  Each seed is a world (world.h).
//
// By hand: CORUN_WORLD_SEEDS=1000000 looks at so many, from CORUN_WORLD_FROM on; CORUN_WORLD_SEED=7 plays that one and tells what happens.
#include "tests/hw/world/world.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace corun::world {
namespace {

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 800;  // each takes twenty times as long
#else
constexpr std::uint64_t kSeeds = 10'000;
#endif
constexpr std::uint64_t kParts = 4;

/// A part of the seeds, so that several cores can look at them.
class World : public testing::TestWithParam<std::uint64_t> {};

TEST_P(World, NothingGoesWrongByAnySeed) {
  const std::uint64_t each = number_of("CORUN_WORLD_SEEDS", kSeeds) / kParts;
  const std::uint64_t from = number_of("CORUN_WORLD_FROM", 1) + GetParam() * each;
  std::map<std::string, std::uint64_t> counts;
  std::uint64_t wrong = 0, launches = 0, calm = 0;
  for (std::uint64_t seed = from; seed < from + each && wrong < 10; ++seed) {
    const Outcome o = play(seed);
    EXPECT_EQ(o.wrong, "") << "CORUN_WORLD_SEED=" << seed << " tells what happened, under " << o.policy;
    wrong += !o.wrong.empty();
    launches += o.launches;
    calm += o.befell == 0;
    for (const auto& [what, n] : o.counts) counts[what] += n;
  }
  if (each < 1000) return;
  // Else it looks at nothing.
  std::string all;
  for (const auto& [what, n] : counts) all += fmt::format("\n{}: {}", what, n);
  EXPECT_GT(launches, 20 * each) << all;
  EXPECT_GT(calm, each / 16);
  for (const char* what : {"joined", "steered again", "stands still", "has ended; this", "has not ended for", "is refused", "connections are closed", "forked", "stopped",
                           "killed", "captured", "reset", "the driver did not reset", "the driver refused", "the system failed", "allocated", "moved to the host", "moved back", "decided again"})
    EXPECT_GT(counts[what], each / 200) << what << all;
}
INSTANTIATE_TEST_SUITE_P(Part, World, testing::Range<std::uint64_t>(0, kParts));

TEST(OneWorld, IsToldBySeedAndHappensAgainAsItDid) {
  if (const std::uint64_t seed = number_of("CORUN_WORLD_SEED", 0); seed != 0) {
    const Outcome o = play(seed, {}, true);
    std::puts(fmt::format("{}: {} launches, {} ms", o.policy, o.launches, o.lasted.count() / 1'000'000).c_str());
    EXPECT_EQ(o.wrong, "");
    return;
  }
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Outcome first = play(seed), again = play(seed);
    EXPECT_EQ(first.digest, again.digest) << seed;
    EXPECT_EQ(first.lasted, again.lasted) << seed;
    EXPECT_NE(first.digest, play(seed + 1).digest);
  }
}

struct Planted {
  const char* name;
  Plants plants;
  const char* found;
};

class Plant : public testing::TestWithParam<Planted> {};

TEST_P(Plant, IsFoundWithinAThousandSeeds) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed)
    if (const Outcome o = play(seed, GetParam().plants); !o.wrong.empty()) {
      EXPECT_THAT(o.wrong, testing::ContainsRegex(GetParam().found)) << seed;
      RecordProperty("seed", static_cast<int>(seed));
      return;
    }
  ADD_FAILURE() << "nobody missed it";
}
INSTANTIATE_TEST_SUITE_P(
    Each, Plant,
    testing::Values(Planted{"capture", {.nobody_asks_for_captures = true}, "capture|a graph has|does not end"}, Planted{"stale", {.contexts_end_unseen = true}, "stale"},
                    Planted{"fork", {.children_keep_sockets = true}, "has its parent's socket"},
                    Planted{"process", {.children_keep_sockets = true, .no_process_descriptors = true}, "the service has not seen it"},
                    Planted{"standing", {.nobody_watches = true}, "was held|does not end"}, Planted{"page", {.no_seals = true}, "cut off"},
                    Planted{"descriptors", {.no_spare_descriptor = true, .listeners_never_rest = true}, "calls of accept"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace corun::world
