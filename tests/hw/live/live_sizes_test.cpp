// Do long kernels of programs that bring their PTX keep to the shares that smguard gives them, and does each of their blocks run
// once?  The fake driver plays the worker; that the worker itself does so on a GPU is `measure_gpu ptx`.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "tests/hw/live/live.h"

namespace corun {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kWhole = 132 * 16;  // workers of the fake driver's GPU

class Sizes : public Live {
 protected:
  /// Workers of the program's pieces that had a size; 0: the piece had none.
  std::vector<int> workers(const std::string& name) const {
    std::vector<int> all;
    for (const Kernel& k : kernels())
      if (k.program == name) all.push_back(std::max(0, k.groups - 1'000'000));
    return all;
  }
  std::set<int> sizes(const std::string& name) const {
    const std::vector<int> all = workers(name);
    std::set<int> some(all.begin(), all.end());
    some.erase(0);
    return some;
  }
};

TEST_F(Sizes, AProgramKeepsToItsQuota) {
  serve("smguard", "--persistent");
  const Ran ended = shell(joins("ptx 6 4000 2", "--name work --quota=0.25"));
  EXPECT_THAT(ended.out, testing::AllOf(HasSubstr("done 6"), HasSubstr("counted\n")));
  EXPECT_THAT(sizes("work"), ElementsAre(kWhole / 4));
  EXPECT_THAT(workers("work"), Contains(0)) << "the first was plain";
}

TEST_F(Sizes, TwoProgramsShareByTheirQuotas) {
  serve("smguard", "--persistent");
  Ran other;
  std::thread second([&] { other = shell(joins("ptx 8 8000 2", "--name other --quota=0.25")); });
  const Ran ended = shell(joins("ptx 8 8000 2", "--name work --quota=0.5"));
  second.join();
  EXPECT_THAT(ended.out, HasSubstr("counted\n"));
  EXPECT_THAT(other.out, HasSubstr("counted\n"));
  EXPECT_THAT(sizes("work"), ElementsAre(kWhole / 2));
  EXPECT_THAT(sizes("other"), ElementsAre(kWhole / 4));
  bool at_once = false;
  for (const Kernel& a : kernels())
    for (const Kernel& b : kernels())
      at_once |= a.groups > 1'000'000 && b.groups > 1'000'000 && a.program != b.program && a.begin < b.end && b.begin < a.end;
  EXPECT_TRUE(at_once);
}

TEST_F(Sizes, ARealTimeRequestTakesWorkersAndGivesThemBack) {
  serve("smguard", "--persistent");
  Going working = going("ptx 2 20000 2", "--name work");
  EXPECT_TRUE(comes([&] { return std::ranges::count(workers("work"), kWhole) >= 1; }));
  // Who comes finds launches under way of which the policy, which begins anew, knows nothing.
  shell(joins("dlsym 12 8000 3", "--name cam --class=real_time --priority=-5"));
  const std::size_t before = workers("work").size();
  EXPECT_TRUE(comes([&] {
    const std::vector<int> all = workers("work");
    return std::find(all.begin() + static_cast<std::ptrdiff_t>(before), all.end(), kWhole) != all.end();
  })) << "it had all of them again";
  const nlohmann::json last = program("work")["stoppable"];
  const Ran work = working.end();
  EXPECT_THAT(work.out, testing::AllOf(HasSubstr("counted\n"), Not(HasSubstr("refused"))));
  // A request's kernels have 8 blocks of 128 threads.
  const std::vector<int> all = workers("work");
  EXPECT_THAT(sizes("work"), Contains(kWhole));
  const auto fewer = std::ranges::find_if(all, [](int n) { return n != 0 && n < kWhole; });
  ASSERT_NE(fewer, all.end());
  EXPECT_GE(*fewer, kWhole - 132) << "no more than it takes";
  EXPECT_GE(last["resizes"].get<int>(), 1) << last.dump();
  std::vector<int> priorities;
  for (const Kernel& k : kernels())
    if (k.program == "cam") priorities.push_back(k.priority);
  EXPECT_EQ(priorities.size(), 12u);
  EXPECT_THAT(priorities, testing::Each(-4)) << "before offline workers that find no room";
}

TEST_F(Sizes, WhatCannotBeSizedGoesPlainlyAndNotBesideARequest) {
  serve("smguard", "--persistent");
  Going working = going("fat-unreadable 2 1000 2", "--name work --quota=0.25");
  EXPECT_TRUE(comes([&] { return std::ranges::count(kernels(), "work", &Kernel::program) >= 8; }));
  for (int i = 0; i < 2; ++i) shell(joins("dlsym 3 2000 3", "--name cam --class=real_time --priority=-5"));
  const Ran work = working.end();
  EXPECT_THAT(work.out, HasSubstr("counted\n"));
  EXPECT_THAT(sizes("work"), IsEmpty());
  std::vector<Kernel> cam, plain;
  for (const Kernel& k : kernels()) (k.program == "cam" ? cam : plain).push_back(k);
  ASSERT_EQ(cam.size(), 6u);
  EXPECT_THAT(work.out, HasSubstr(fmt::format("done {}\n", plain.size())));
  for (std::size_t r = 0; r < 2; ++r) {
    const auto within = [&](const Kernel& k) { return k.begin > cam[3 * r].begin && k.begin < cam[3 * r + 2].end; };
    // Three kernels of 2 ms, within which six of 1 ms would begin.  Some have their grant when the request comes.
    EXPECT_LE(std::ranges::count_if(plain, within), 3) << "in request " << r;
  }
}

TEST_F(Sizes, StreamsThatWaitForEachOtherDoNotStandStillWhereSomeLaunchesHaveSizesAndOthersAreStopped) {
  for (const char* policy : {"smguard", "wait", "reef-n"}) {
    serve(policy, "--persistent");
    std::atomic<bool> over{false};
    std::thread requests([&] {
      while (!over) shell("timeout -s KILL 120 env " + joins("dlsym 3 2000 3", "--name cam --class=real_time"));
    });
    const Ran ended = shell("timeout -s KILL 120 env " + joins("ring 32 1000 16", "--name work"));
    over = true;
    requests.join();
    EXPECT_THAT(ended.out, testing::AllOf(HasSubstr("done 32"), HasSubstr("counted\n"), Not(HasSubstr("refused")))) << policy;
    EXPECT_TRUE(policy != std::string("smguard") || !sizes("work").empty());
    end_service(SIGTERM);
  }
}

TEST_F(Sizes, WhatHasASizeGoesOnWhenTheServiceIsKilled) {
  serve("smguard", "--persistent");
  Going working = going("ptx 2 4000 2", "--name work --quota=0.125");
  EXPECT_TRUE(comes([&] { return std::ranges::count(workers("work"), kWhole / 8) >= 1; }));
  end_service(SIGKILL);
  const std::size_t before = workers("work").size();
  EXPECT_TRUE(comes([&] { return workers("work").size() > before + 4; }));
  const Ran ended = working.end();
  EXPECT_THAT(ended.out,
              testing::AllOf(HasSubstr("the service has ended"), HasSubstr("done "), HasSubstr("counted\n")));
}

TEST_F(Sizes, WithoutPersistentKernelsThereAreNone) {
  const Ran ended = shell(fmt::format("{} serve --policy=smguard --gpu=h200 --no-mps --at {}", sim(), at()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("--persistent"));
}

}  // namespace
}  // namespace corun
