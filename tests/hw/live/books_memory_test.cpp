// Do the books of a service show a policy where programs' memory is, and is what it decides about it carried out?  No process, no GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/service/books.h"
#include "tests/hw/live/random_memory.h"
#include "tests/support/build.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Time at_ms(double ms) { return Time{static_cast<std::int64_t>(ms * 1e9)}; }

/// A GPU of 64 bytes, as it were.
struct MemoryScene {
  explicit MemoryScene(const std::string& policy = "flexgpu:patience=0")
      : books(policy, sim::small_gpu(2), {.memory = 64}) {}

  std::uint32_t program() { return books.join({"work", ServiceClass::best_effort, 0}); }
  void allocates(std::uint32_t client, std::uint32_t block, std::uint64_t bytes) {
    books.allocates(client, block, ++generation[{client, block}], bytes, at_ms(now));
  }
  void frees(std::uint32_t client, std::uint32_t block) {
    books.frees(client, block, generation[{client, block}], at_ms(now));
  }
  void moved(std::uint32_t client, std::uint32_t block, bool done = true) {
    books.moved(client, block, generation[{client, block}], done, at_ms(now));
  }
  void asks(std::uint32_t client) { books.asked(client, 0, ++asked[client], kernel, at_ms(now)); }
  void ended(std::uint32_t client) { books.ended(client, 0, asked[client], at_ms(now)); }
  /// What is ordered and what goes: "out 0.1" is to the host with block 1 of program 0, "launch 0.2" its second launch.
  std::vector<std::string> happens() {
    constexpr const char* kWhat[] = {"allocate", "refuse", "out", "in", "go"};
    std::vector<Granted> granted;
    books.decide(at_ms(now), granted);
    std::vector<std::string> all;
    for (const AddressedCommand& o : books.take_commands())
      all.push_back(fmt::format("{} {}.{}", kWhat[static_cast<int>(o.command.what)], o.client, o.command.block));
    for (const Granted& g : granted) all.push_back(fmt::format("launch {}.{}", g.client, g.number));
    return all;
  }
  /// It has so much from the beginning, and has used it at `now`.
  std::uint32_t with(std::uint64_t bytes) {
    const std::uint32_t client = program();
    allocates(client, 0, bytes);
    EXPECT_THAT(happens(), ElementsAre(fmt::format("allocate {}.0", client)));
    asks(client);
    EXPECT_THAT(happens(), ElementsAre(fmt::format("launch {}.1", client)));
    ended(client);
    EXPECT_THAT(happens(), IsEmpty());
    return client;
  }

  Books books;
  double now = 0;  // ms
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> generation;
  std::map<std::uint32_t, std::uint32_t> asked;
  Kernel kernel;
};

TEST(BooksMemory, OnlyAPolicyThatDecidesAboutItHasItSteeredAndACapUnderAnotherIsRefused) {
  EXPECT_EQ(Books("wait", sim::small_gpu(2)).memory(), nullptr);
  EXPECT_THROW(Books("wait", sim::small_gpu(2), {.memory = 64}), InputError);
  Gpu gpu = sim::small_gpu(2);
  gpu.memory_bytes = 1000;
  EXPECT_EQ(Books("flexgpu", gpu).memory()->accounts().capacity(), 900u)
      << "the rest is for what is not steered";
  EXPECT_EQ(Books("flexgpu", gpu, {.memory = 64}).memory()->accounts().capacity(), 64u);
}

TEST(BooksMemory, AProgramMayHaveAllThatThereIsAndNoByteMore) {
  MemoryScene s;
  const auto one = s.program();
  s.allocates(one, 0, 40), s.allocates(one, 1, 24);
  EXPECT_THAT(s.happens(), ElementsAre("allocate 0.0", "allocate 0.1"));
  s.allocates(one, 2, 1);
  EXPECT_THAT(s.happens(), ElementsAre("refuse 0.2"));
  s.frees(one, 1), s.allocates(one, 3, 24);
  EXPECT_THAT(s.happens(), ElementsAre("allocate 0.3"));
}

TEST(BooksMemory, WhatLacksMemoryGetsThatOfOneThatHasNotUsedItForAWhileAndWaitsUntilItIsAway) {
  MemoryScene s;
  s.with(40);
  const auto two = s.program();
  s.now = 1, s.allocates(two, 0, 32);
  EXPECT_THAT(s.happens(), IsEmpty());
  EXPECT_EQ(s.books.next_wish(), ProgramMemory::kLinger) << "since the end of its launch at 0";
  s.now = 1.999999;
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 2;
  EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
  s.now = 3, s.moved(0, 0);
  EXPECT_THAT(s.happens(), ElementsAre("allocate 1.0"));
  EXPECT_EQ(s.books.state().front().host_bytes, 40u);
  EXPECT_EQ(s.books.state().front().device_bytes, 0u);
}

/// The first program's memory is on the host since `now`, the second has all.
struct Away : MemoryScene {
  explicit Away(double begin = 2) {
    with(40);
    program();
    now = begin, allocates(1, 0, 32);
    EXPECT_THAT(happens(), ElementsAre("out 0.0"));
    moved(0, 0);
    EXPECT_THAT(happens(), ElementsAre("allocate 1.0"));
  }
};

TEST(BooksMemory, ALaunchGoesWhenAllOfItsProgramsMemoryIsBack) {
  Away s;
  s.now = 10, s.asks(0);
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
  s.now = 11, s.moved(1, 0);
  EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 12, s.moved(0, 0);
  EXPECT_THAT(s.happens(), ElementsAre("launch 0.2"));
}

TEST(BooksMemory, ACallThatWaitsGoesOnWhenTheProgramThatHasTheMemoryLeaves) {
  Away s;
  s.asks(1);
  EXPECT_THAT(s.happens(), ElementsAre("launch 1.1"));
  s.now = 500, s.books.wants(0, 7, at_ms(s.now));
  EXPECT_THAT(s.happens(), IsEmpty()) << "the other's is on the GPU";
  s.books.leave(1);
  EXPECT_EQ(s.books.next_wish(), Time{});
  EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
  s.moved(0, 0);
  EXPECT_THAT(s.happens(), ElementsAre("go 0.7"));
}

TEST(BooksMemory, MemoryOfALaunchOnTheGpuStays) {
  Away s;
  s.asks(1);
  EXPECT_THAT(s.happens(), ElementsAre("launch 1.1"));
  s.now = 500, s.asks(0);
  EXPECT_THAT(s.happens(), IsEmpty());
  s.ended(1);
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 502;
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
}

TEST(BooksMemory, ACallThatTouchesMemoryGoesWhenAllIsBackAndUntilItIsWithTheDriverNothingMoves) {
  Away s;
  s.now = 10, s.books.wants(0, 7, at_ms(s.now));
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
  s.moved(1, 0);
  EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
  s.now = 12, s.moved(0, 0);
  EXPECT_THAT(s.happens(), ElementsAre("go 0.7"));
  s.now = 900, s.asks(1);
  EXPECT_THAT(s.happens(), IsEmpty()) << "what was let go has not said that the driver has it";
  s.books.has(0, 7, at_ms(s.now));
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 902;
  EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
}

TEST(BooksMemory, WhatCameStaysAsLongAsItTookToComeButOnlyAMomentWhereItsProgramWaitsForSomethingElse) {
  for (const bool more : {false, true}) {
    Away s;
    s.now = 10, s.asks(0);
    EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
    s.moved(1, 0);
    EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
    s.now = 40, s.moved(0, 0);  // 30 ms
    EXPECT_THAT(s.happens(), ElementsAre("launch 0.2"));
    s.now = 50, s.ended(0);
    EXPECT_THAT(s.happens(), IsEmpty());
    s.now = 51, s.asks(1);
    EXPECT_THAT(s.happens(), IsEmpty());
    EXPECT_EQ(s.books.next_wish(), at_ms(80));
    if (more) {  // a launch behind the other's, which is passed by none
      s.now = 52, s.asks(0);
      EXPECT_THAT(s.happens(), IsEmpty());
      EXPECT_EQ(s.books.next_wish(), at_ms(52));
      EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
    } else {
      s.now = 79.999;
      EXPECT_THAT(s.happens(), IsEmpty());
      s.now = 80;
      EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
    }
  }
}

TEST(BooksMemory, WhatGoesIsOneProgramsAndNotPartsOfTwo) {
  MemoryScene s;
  const auto grows =
      [&](std::uint32_t client) {  // by a block that is there before the launches, and one after
        s.allocates(client, 1, 16);
        EXPECT_THAT(s.happens(), ElementsAre(fmt::format("allocate {}.1", client)));
      };
  const auto one = s.with(16);
  s.now = 1;
  const auto two = s.with(16);
  grows(one), grows(two);
  const auto three = s.program();
  s.now = 10, s.allocates(three, 0, 32);
  EXPECT_THAT(s.happens(), ElementsAre("out 0.0", "out 0.1"));
}

TEST(BooksMemory, WhatDidNotComeToRestCountsAsUsedForASecond) {
  Away s;
  s.now = 10, s.asks(0);
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
  s.now = 20, s.moved(1, 0, false);
  EXPECT_THAT(s.happens(), IsEmpty());
  EXPECT_EQ(s.books.state().back().device_bytes, 32u);
  s.now = 1019.999;
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 1020;
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
}

TEST(BooksMemory, WhereTheDriverHadNoMemoryItIsAskedAgainAMomentLater) {
  Away s;
  s.now = 10, s.asks(0);
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
  s.moved(1, 0);
  EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
  s.moved(0, 0, false);
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 29.999;
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 30;
  EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
}

TEST(BooksMemory, WhatIsSaidOfABlockThatWasFreedMeanwhileIsAboutNone) {
  Away s;
  s.now = 10, s.asks(0);
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
  s.frees(1, 0);
  EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
  s.allocates(1, 0, 24);
  s.books.moved(1, 0, 1, true, at_ms(s.now));
  EXPECT_THAT(s.happens(), IsEmpty()) << "the block of the same number came later";
  s.moved(0, 0);
  EXPECT_THAT(s.happens(), ElementsAre("allocate 1.0", "launch 0.2"));
  EXPECT_EQ(s.books.memory()->accounts().used(), 64u);
}

TEST(BooksMemory, WhatIsSaidToHaveMovedAndWasNotOrderedToIsWhereItWas) {
  for (const bool done : {true, false}) {
    Away s;
    const auto three = s.program();
    s.asks(1);
    EXPECT_THAT(s.happens(), ElementsAre("launch 1.1"));
    s.allocates(three, 0, 48);
    EXPECT_THAT(s.happens(), IsEmpty());
    for (const std::uint32_t client : {0u, 1u, three}) s.moved(client, 0, done);
    EXPECT_THAT(s.happens(), IsEmpty());
    EXPECT_EQ(s.books.state()[0].host_bytes, 40u);
    EXPECT_EQ(s.books.state()[1].device_bytes, 32u);
    EXPECT_EQ(s.books.memory()->accounts().used(), 32u);
    s.books.leave(three), s.ended(1);
    s.now = 100, s.asks(0);
    EXPECT_THAT(s.happens(), ElementsAre("out 1.0")) << "nobody has said that it stays";
  }
}

TEST(BooksMemory, ACallThatIsWithTheDriverThoughNobodyLetItGoWaitsNoLonger) {
  Away s;
  s.now = 10, s.books.wants(0, 7, at_ms(s.now));
  EXPECT_THAT(s.happens(), ElementsAre("out 1.0"));
  s.books.has(0, 7, at_ms(s.now));
  s.now = 11, s.moved(1, 0);
  EXPECT_THAT(s.happens(), IsEmpty());
}

TEST(BooksMemory, WhoHasGoneIsCommandedNothing) {
  Away s;
  std::vector<Granted> granted;
  s.now = 10, s.asks(0), s.books.decide(at_ms(s.now), granted);  // the other's is to go out
  s.books.leave(1);
  EXPECT_TRUE(s.books.take_commands().empty());
}

TEST(BooksMemory, AProgramThatGoesLeavesItsMemoryToThoseThatWait) {
  Away s;
  s.asks(1);
  EXPECT_THAT(s.happens(), ElementsAre("launch 1.1"));
  s.asks(0);
  EXPECT_THAT(s.happens(), IsEmpty());
  s.books.leave(1);
  EXPECT_THAT(s.happens(), ElementsAre("in 0.0"));
  s.books.leave(0);
  EXPECT_THAT(s.happens(), IsEmpty());
  EXPECT_EQ(s.books.memory()->accounts().used(), 0u);
  EXPECT_TRUE(s.books.idle());
}

TEST(BooksMemory, AnAllocationThatWaitsIsForgottenWithItsProgram) {
  Away s;
  s.asks(1);
  EXPECT_THAT(s.happens(), ElementsAre("launch 1.1"));
  const auto three = s.program();
  s.allocates(three, 0, 48);
  EXPECT_THAT(s.happens(), IsEmpty());
  s.books.leave(three);
  s.ended(1);
  s.now = 100;
  EXPECT_THAT(s.happens(), IsEmpty());
}

TEST(BooksMemory, ProgramsAtRandomKeepTheCapAndAllThatTheyAskForComes) {
  std::uint64_t checkpoints = 0;
  for (const char* policy : {"flexgpu", "flexgpu:patience=0", "flexgpu:patience=2,turn=4"})
    for (unsigned seed = 1; seed <= 6 && !HasFailure(); ++seed) {
      SCOPED_TRACE(fmt::format("{} {}", policy, seed));
      RandomMemory world(policy, seed, false);
      world.run(4000);
      world.end(20000);
      checkpoints += world.checkpoints();
    }
  EXPECT_GT(checkpoints, 500u);
}

constexpr double kMove_ms = 5000;  // limits::kMove; what blocks of bytes add is nothing

TEST(BooksMemory, AProgramThatDoesNotMoveWhatItWasOrderedToIsOverdueAndItsGoingLetsOthersOn) {
  MemoryScene s;
  const auto one = s.with(40), two = s.program();
  s.now = 1, s.allocates(two, 0, 32), s.happens();
  s.now = 2;
  EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
  EXPECT_LE(s.books.next_wish(), at_ms(2 + kMove_ms)) << "nobody needs to say anything for it";
  EXPECT_THAT(s.books.overdue(at_ms(1.999999 + kMove_ms)), IsEmpty());
  s.now = 2 + kMove_ms;
  EXPECT_THAT(s.happens(), IsEmpty());
  EXPECT_THAT(s.books.overdue(at_ms(s.now)), ElementsAre(one));
  s.books.leave(one);
  EXPECT_THAT(s.happens(), ElementsAre("allocate 1.0"));
  EXPECT_THAT(s.books.overdue(at_ms(1e6)), IsEmpty());
}

TEST(BooksMemory, EachBlockThatHasMovedGivesThoseBehindItTheirTime) {
  MemoryScene s;
  const auto one = s.program(), two = s.program();
  s.allocates(one, 0, 20), s.allocates(one, 1, 20), s.happens();
  s.asks(one), s.happens(), s.ended(one), s.happens();
  s.now = 1, s.allocates(two, 0, 60), s.happens();
  s.now = 2;
  EXPECT_THAT(s.happens(), testing::UnorderedElementsAre("out 0.0", "out 0.1"));
  s.now = 2 + 0.9 * kMove_ms, s.moved(one, 0), s.happens();
  EXPECT_THAT(s.books.overdue(at_ms(1 + 1.9 * kMove_ms)), IsEmpty());
  EXPECT_THAT(s.books.overdue(at_ms(3 + 1.9 * kMove_ms)), ElementsAre(one));
  s.moved(one, 1, false);
  EXPECT_THAT(s.books.overdue(at_ms(1e6)), IsEmpty()) << "that it could not be is an answer";
}

TEST(BooksMemory, AGibTakesLonger) {
  constexpr std::uint64_t kGib = 1u << 30;
  for (const std::uint64_t gib : {1, 10}) {
    Books books("flexgpu:patience=0", sim::small_gpu(2), {.memory = 16 * kGib});
    std::vector<Granted> granted;
    const auto one = books.join({"one"}), two = books.join({"two"});
    books.allocates(one, 0, 1, gib * kGib, Time{}), books.decide(Time{}, granted);
    books.allocates(two, 0, 1, 16 * kGib, Time{}), books.decide(at_ms(1), granted);
    books.decide(at_ms(100), granted);
    EXPECT_EQ(books.take_commands().back().command.what, MemoryCommand::What::checkpoint);
    const double due_ms = 100 + kMove_ms + 2000 * static_cast<double>(gib);
    EXPECT_THAT(books.overdue(at_ms(due_ms - 1)), IsEmpty()) << gib;
    EXPECT_THAT(books.overdue(at_ms(due_ms)), ElementsAre(one)) << gib;
  }
}

TEST(BooksMemory, AProgramWhoseLaunchNeverEndsIsOrderedToMoveItsMemoryAfterItsTime) {
  MemoryScene s;
  const auto one = s.program(), two = s.program();
  s.allocates(one, 0, 40), s.happens();
  s.asks(one), s.happens();  // it is on the GPU, and the process is stopped
  s.now = 1, s.allocates(two, 0, 32);
  EXPECT_THAT(s.happens(), IsEmpty());
  constexpr double kOnGpu_ms = 5000;  // limits::kOnGpu
  EXPECT_LE(s.books.next_wish(), at_ms(kOnGpu_ms));
  s.now = kOnGpu_ms - 0.000001;
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = kOnGpu_ms;
  EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
  s.moved(one, 0, false);
  s.now += 500;
  EXPECT_THAT(s.happens(), IsEmpty()) << "it says that a kernel uses it";
  s.ended(one);
  s.now += 1000;
  EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
}

// Of a process that was stopped, with launches that waited.  What they waited for ends before they count as too long, or never.
TEST(BooksMemory, AGrantToAProgramWhoseLaunchDoesNotEndGivesItNoFurtherTime) {
  constexpr double kOnGpu_ms = 5000;  // limits::kOnGpu
  for (const double goes : {3000.0, kOnGpu_ms}) {
    MemoryScene s("flexgpu");
    s.kernel.registers_per_thread = 16, s.kernel.counters.warps_active_pct = 40;  // two fit
    const auto one = s.program(), two = s.program(), three = s.program();
    s.allocates(one, 0, 40), s.happens();
    s.asks(one), s.asks(two);
    EXPECT_THAT(s.happens(), ElementsAre("launch 0.1", "launch 1.1"));
    s.books.asked(one, 1, 1, s.kernel, at_ms(0)), s.books.asked(one, 1, 2, s.kernel, at_ms(0));
    s.now = 1, s.allocates(three, 0, 32);
    EXPECT_THAT(s.happens(), IsEmpty());
    s.now = goes;
    if (goes < kOnGpu_ms) {
      s.ended(two);
      EXPECT_THAT(s.happens(), ElementsAre("launch 0.1", "launch 0.2"));
      s.now = kOnGpu_ms - 0.000001;
      EXPECT_THAT(s.happens(), IsEmpty());
      s.now = kOnGpu_ms;
    } else {
      EXPECT_THAT(s.happens(), ElementsAre("launch 0.1", "launch 0.2"));
    }
    EXPECT_LE(s.books.next_wish(), at_ms(kOnGpu_ms));
    EXPECT_THAT(s.happens(), ElementsAre("out 0.0")) << goes;
  }
}

// A program that is alive says so by the ends of what it has.
TEST(BooksMemory, AnEndGivesWhatIsStillOnTheGpuItsTimeAgain) {
  MemoryScene s;
  const auto one = s.program(), two = s.program();
  s.allocates(one, 0, 40), s.happens();
  s.asks(one), s.happens();
  s.books.asked(one, 1, 1, s.kernel, at_ms(0));
  EXPECT_THAT(s.happens(), IsEmpty()) << "both have all of the GPU";
  s.now = 1, s.allocates(two, 0, 32);
  s.now = 4000, s.ended(one);
  EXPECT_THAT(s.happens(), ElementsAre("launch 0.1"));
  s.now = 8999;
  EXPECT_THAT(s.happens(), IsEmpty());
  s.now = 9000;
  EXPECT_THAT(s.happens(), ElementsAre("out 0.0"));
}

}  // namespace
}  // namespace corun::live
