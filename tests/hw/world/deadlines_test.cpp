// Are deadlines (hw/live/limits.h) kept to the moment, in virtual time?  What befalls a program or its service is written down here;
// world_test.cpp has it by chance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "hw/live/limits.h"
#include "hw/live/system.h"
#include "hw/shim/client.h"
#include "tests/hw/world/stage.h"

namespace corun::world {
namespace {

namespace limits = live::limits;
namespace os = live::os;

constexpr Ns kSlack = 100ms;  // of a service that looks ten times a second

class Deadline : public testing::Test {
 protected:
  ~Deadline() override { EXPECT_EQ(stage_.machine.wrong(), ""); }

  Ns now() const { return stage_.machine.now(); }
  std::uint64_t times(const char* what) { return stage_.machine.count(what); }
  /// A program that launches 200 us and waits for it, until `ends` or `n` times.
  std::shared_ptr<Process> steady(const std::string& name, int n = 1 << 30) {
    return stage_.program(name, false, [this, n] {
      cuInit(0);
      for (int i = 0; i < n && !ends_; ++i) {
        launch(200us);
        cuStreamSynchronize(nullptr);
        os::sleep_for(2ms);
      }
    });
  }
  std::ptrdiff_t begun(int pid, Ns since) const {
    return std::ranges::count_if(stage_.gpu.ledger(), [&](const Launch& l) { return l.pid == pid && l.begun != kForever && l.begun >= since; });
  }
  Ns next_begun(int pid, Ns since) const {
    Ns first = kForever;
    for (const Launch& l : stage_.gpu.ledger())
      if (l.pid == pid && l.begun >= since) first = std::min(first, l.begun);
    return first;
  }

  Stage stage_;
  bool ends_ = false;
};

TEST_F(Deadline, AProgramThatIsStoppedHoldsOthersForItsTimeAndNoLonger) {
  for (const bool real_time : {true, false}) {
    Stage stage;
    stage.serve_now("wait", {.in_flight = 0});
    const auto hangs = stage.program("hangs", real_time, [] {
      cuInit(0);
      launch(30s);
      cuCtxSynchronize();
    });
    ASSERT_TRUE(stage.comes([&] { return stage.gpu.ledger().size() == 2 && stage.gpu.ledger()[1].begun != kForever; }));
    const Ns since = stage.machine.now();
    stage.machine.stop(*hangs);
    const auto other = stage.program("other", !real_time, [] {
      cuInit(0);
      for (int i = 0; i < 20; ++i) launch(100us);
      cuCtxSynchronize();
    });
    ASSERT_TRUE(stage.comes([&] { return !other->alive; }));
    EXPECT_GE(stage.machine.now() - since, limits::kOnGpu - 2ms) << real_time;
    EXPECT_LE(stage.machine.now() - since, limits::kOnGpu + kSlack) << real_time;
    EXPECT_EQ(stage.machine.count("has not ended for"), 1u);
    EXPECT_EQ(stage.machine.count("is let go"), 0u) << "it only counts as late";
    stage.machine.go_on(*hangs);
    EXPECT_TRUE(stage.comes([&] { return !hangs->alive && stage.programs() == 0; }));
    EXPECT_EQ(stage.machine.wrong(), "");
  }
}

TEST_F(Deadline, AServiceThatStandsStillHoldsNobodyForLongerThanItMayAndTheProgramJoinsAgainWhenItGoesOn) {
  for (const std::uint32_t in_flight : {0u, 64u}) {
    ends_ = false;
    stage_.serve_now("wait", {.in_flight = in_flight});
    const auto one = steady("one");
    ASSERT_TRUE(stage_.comes([&] { return begun(one->pid, 0s) > 40; }));
    const Ns stopped = now();
    const std::uint64_t before = times("stands still");
    stage_.machine.stop(*stage_.served);
    ASSERT_TRUE(stage_.comes([&] { return begun(one->pid, stopped + 50ms) > 10; }));
    EXPECT_GE(next_begun(one->pid, stopped + 50ms) - stopped, limits::kStandsStill - 3 * limits::kLookAtService) << in_flight;
    EXPECT_LE(next_begun(one->pid, stopped + 50ms) - stopped, limits::kStandsStill + 4 * limits::kLookAtService) << in_flight;
    stage_.machine.go_on(*stage_.served);
    const Ns goes_on = now();
    EXPECT_TRUE(stage_.comes([&] { return stage_.programs() == 1; }));
    EXPECT_LE(now() - goes_on, 4 * limits::kRejoin + limits::kFirstAnswer) << "the second or third time that it asks";
    EXPECT_EQ(times("stands still") - before, 1u);
    ends_ = true;
    EXPECT_TRUE(stage_.comes([&] { return !one->alive && stage_.programs() == 0; }));
    stage_.kill_service();
  }
}

TEST_F(Deadline, AProgramJoinsEachServiceThatComesAfterItsOwn) {
  stage_.serve_now("wait");
  const auto one = steady("one");
  ASSERT_TRUE(stage_.comes([&] { return begun(one->pid, 0s) > 40; }));
  std::uint64_t joined = 1;
  for (const char* policy : {"wait", "fcfs", "reef-n"}) {
    stage_.kill_service();
    const Ns killed = now();
    stage_.run_for(200ms);
    EXPECT_GT(begun(one->pid, killed), 60) << "unsteered";
    EXPECT_LE(next_begun(one->pid, killed) - killed, 2 * limits::kLookAtService);
    stage_.serve_now(policy);
    EXPECT_TRUE(stage_.comes([&] { return stage_.programs() == 1; }));
    EXPECT_LE(now() - killed, limits::kRejoin + kSlack) << policy;
    EXPECT_EQ(times("steered again"), joined++);
  }
  ends_ = true;
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

/// A service that says hello late or never, and leaves the page as the test makes it.
class Played : public Deadline {
 protected:
  void play(bool welcomes, const std::function<void(live::Memory&)>& prepare = [](live::Memory&) {}) {
    played_ = stage_.machine.begin("service", [this, welcomes, prepare] {
      const int listener = os::socket(AF_UNIX, SOCK_STREAM, 0);
      os::bind(listener, nullptr, 0), os::listen(listener, 8);
      for (pollfd look{listener, POLLIN, 0}; os::poll(&look, 1, -1) > 0;) {
        const int fd = os::accept4(listener, nullptr, nullptr, 0);
        live::Hello hello;
        os::recv(fd, &hello, sizeof hello, 0);
        if (!welcomes) continue;
        const int page = os::memfd_create("played", 0);
        os::ftruncate(page, sizeof(live::Memory));
        memory_ = static_cast<live::Memory*>(os::mmap(nullptr, sizeof(live::Memory), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0));
        prepare(*memory_);
        live::Welcome welcome;
        welcome.accepted = 1;
        iovec part{&welcome, sizeof welcome};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        msghdr message{};
        message.msg_iov = &part, message.msg_iovlen = 1;
        message.msg_control = control, message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof page);
        std::memcpy(CMSG_DATA(header), &page, sizeof page);
        os::sendmsg(fd, &message, 0);
      }
    });
  }
  /// How long 100 launches of 50 us take.
  Ns takes(Ns each = 50us, int n = 100) {
    const Ns begin = now();
    const auto one = stage_.program("one", false, [each, n] {
      cuInit(0);
      for (int i = 0; i < n; ++i) launch(each);
      cuCtxSynchronize();
    });
    EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
    EXPECT_EQ(begun(one->pid, begin), n);
    return now() - begin;
  }
  std::shared_ptr<Process> played_;
  live::Memory* memory_ = nullptr;
};

TEST_F(Played, AServiceThatDoesNotAnswerKeepsNoProgramFromItsStart) {
  play(false);
  const Ns took = takes();
  EXPECT_GE(took, limits::kFirstAnswer) << "it may take its time";
  EXPECT_LE(took, limits::kFirstAnswer + kSlack);
}

TEST_F(Played, AServiceThatTakesNoConnectionKeepsNoProgramFromItsStart) {
  std::vector<std::shared_ptr<Process>> others;
  played_ = stage_.machine.begin("service", [] {
    const int listener = os::socket(AF_UNIX, SOCK_STREAM, 0);
    os::bind(listener, nullptr, 0), os::listen(listener, 8);
    os::sleep_for(3600s);
  });
  stage_.run_for(10ms);
  for (int i = 0; i < 64; ++i)
    others.push_back(stage_.machine.begin("other", [] {
      os::connect(os::socket(AF_UNIX, SOCK_STREAM, 0), nullptr, 0);
      os::sleep_for(3600s);
    }));
  stage_.run_for(10ms);
  EXPECT_LE(takes(), limits::kFirstAnswer + kSlack);
}

TEST_F(Played, TermsThatAServiceHasBegunToWriteAndNeverEndsKeepNoLaunch) {
  play(true, [](live::Memory& m) { m.version = 1, m.priority = -4; });
  EXPECT_LE(takes(), 100ms);
  EXPECT_TRUE(std::ranges::all_of(stage_.gpu.ledger(), [](const Launch& l) { return l.priority == 0; })) << "what was known stands";
}

TEST_F(Played, AServiceThatHearsNothingHoldsNobodyWhoseWordsFindNoRoom) {
  play(true, [](live::Memory& m) { m.gate = live::Gate::asks, m.in_flight = 0, m.said = live::kMessageRing; });
  const Ns took = takes();
  EXPECT_GE(took, limits::kStandsStill - 3 * limits::kLookAtService);
  EXPECT_LE(took, limits::kStandsStill + kSlack);
  EXPECT_EQ(times("stands still"), 1u);
}

// It lets the program go and then writes, as one that was stopped in the middle of a grant.
TEST_F(Played, WhatAServiceWritesAfterItsProgramHasGoneOnHoldsNothing) {
  play(true, [](live::Memory& m) { m.gate = live::Gate::asks, m.in_flight = 64; });
  stage_.machine.at(limits::kStandsStill + 1s, [this] { memory_->words.granted[0] = 1; });
  EXPECT_LE(takes(100ms, 20), limits::kStandsStill + 20 * 100ms + kSlack);
  EXPECT_EQ(times("stands still"), 1u);
}

TEST_F(Played, ACommandAboutABlockThatWasThereBeforeIsAboutNone) {
  play(true, [](live::Memory& m) { m.memory_cap = 64 * live::kBlockUnit; });
  CUresult said = CUDA_ERROR_UNKNOWN;
  const auto one = stage_.program("one", false, [&] {
    cuInit(0);
    CUdeviceptr at = 0;
    said = cuMemAlloc_v2(&at, live::kBlockUnit);
    cuMemFree_v2(at);
  });
  stage_.run_for(50ms);
  ASSERT_NE(memory_, nullptr);
  ASSERT_EQ(memory_->said.load(), 1u);
  const live::Message& asks = memory_->messages[0];
  const auto command = [&](live::MemoryCommand::What what, std::uint32_t generation) {
    memory_->commands[memory_->commanded.load()] = {what, asks.stream, generation};
    ++memory_->commanded;
    stage_.run_for(50ms);
  };
  for (const auto what : {live::MemoryCommand::What::allocate, live::MemoryCommand::What::refuse, live::MemoryCommand::What::restore}) command(what, asks.kernel - 1);
  EXPECT_TRUE(one->alive);
  EXPECT_TRUE(stage_.memory.physical.empty());
  command(live::MemoryCommand::What::allocate, asks.kernel);
  EXPECT_EQ(said, CUDA_SUCCESS);
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

/// A connection that says so many bytes of a hello, and how long it is kept.
TEST_F(Deadline, WhoSaysNothingIsClosedAtTheDeadlineAndOthersJoinMeanwhile) {
  stage_.serve_now("wait");
  stage_.run_for(10ms);
  Ns closed{};
  const auto silent = stage_.machine.begin("silent", [&closed, this] {
    const int fd = os::socket(AF_UNIX, SOCK_STREAM, 0);
    os::connect(fd, nullptr, 0);
    char any = 0;
    for (pollfd look{fd, POLLIN, 0}; os::poll(&look, 1, -1) == 0 || os::recv(fd, &any, 1, 0) > 0;) {
    }
    closed = stage_.machine.now();
  });
  const auto one = steady("one", 10);
  ASSERT_TRUE(stage_.comes([&] { return !silent->alive; }));
  EXPECT_FALSE(one->alive);
  EXPECT_EQ(begun(one->pid, 0s), 10);
  EXPECT_GE(closed, limits::kHello);
  EXPECT_LE(closed, limits::kHello + 2 * kSlack);
}

TEST_F(Deadline, WithoutDescriptorsTheServiceRestsRefusesAndComesBack) {
  stage_.serve_now("wait");
  stage_.run_for(10ms);
  stage_.served->most_files = static_cast<std::size_t>(std::ranges::count_if(stage_.served->files, [](const auto& f) { return f != nullptr; })) + 2;
  std::vector<std::shared_ptr<Process>> silent;
  int closed = 0;
  for (int i = 0; i < 60; ++i)
    silent.push_back(stage_.machine.begin("silent", [&closed] {
      pollfd look{os::socket(AF_UNIX, SOCK_STREAM, 0), POLLRDHUP, 0};
      os::connect(look.fd, nullptr, 0);
      closed += os::poll(&look, 1, 5000) > 0;
      os::sleep_for(5s);
    }));
  stage_.run_for(900ms);
  EXPECT_GE(closed, 50) << "those for which there is no descriptor, by the one to spare";
  EXPECT_LE(times("accept"), 80u) << "it does not look all the time";
  EXPECT_GE(times("connections are closed"), 1u);
  const auto one = steady("one", 10);
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
  stage_.run_for(2s);
  const auto two = steady("two", 10);
  EXPECT_TRUE(stage_.comes([&] { return stage_.programs() == 1; })) << "when the silent ones are gone";
}

}  // namespace
}  // namespace corun::world
