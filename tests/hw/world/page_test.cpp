// Does what a program says of itself, writes into its page and says through it come to the books as it was written, within the limits,
// and what they decide into the page?  Programs are this file's, and do what the library never does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "hw/live/limits.h"
#include "hw/live/recording.h"
#include "hw/live/system.h"
#include "tests/hw/world/stage.h"

namespace corun::world {
namespace {

namespace os = live::os;
using live::Message;
using testing::ElementsAre;
using testing::IsEmpty;
using What = live::Message::What;
using Json = nlohmann::json;

constexpr Ns kPause = 20ms;

live::Hello hello_of(const std::string& name, bool real_time = false) {
  live::Hello hello;
  name.copy(hello.name, sizeof hello.name);
  hello.real_time = real_time;
  return hello;
}

/// A program with a page, of which the test is told.
struct Peer {
  live::Welcome welcome;
  live::Memory* page = nullptr;
  std::size_t descriptors = 0;  // that came with the answer
  int socket = -1;
  bool answered = false;

  void join(const live::Hello& hello) {
    socket = os::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(os::connect(socket, nullptr, 0), 0);
    os::send(socket, &hello, sizeof hello, MSG_NOSIGNAL);
    iovec part{&welcome, sizeof welcome};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    answered = os::recvmsg(socket, &message, MSG_WAITALL) == static_cast<ssize_t>(sizeof welcome);
    descriptors = message.msg_controllen != 0;
    if (!answered || welcome.accepted == 0 || descriptors == 0) return;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    page = static_cast<live::Memory*>(os::mmap(nullptr, sizeof(live::Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }
  bool is_gone() const {
    pollfd look{socket, POLLRDHUP, 0};
    return os::poll(&look, 1, 0) > 0;
  }
  /// As the library does; false: nobody hears it.
  bool says(const Message& message) const {
    const std::uint32_t said = page->said.load();
    for (int i = 0; said - page->heard.load() >= live::kMessageRing; ++i) {
      if (i == 100 || is_gone()) return false;
      os::sleep_for(1ms);
    }
    page->messages[said % live::kMessageRing] = message;
    page->said.store(said + 1);
    if (page->service_sleeps.load() != 0) os::send(socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return true;
  }
};
void wait_a_moment() { os::sleep_for(kPause); }

class Page : public testing::Test {
 protected:
  ~Page() override { EXPECT_EQ(stage_.machine.wrong(), ""); }

  void serve(const std::string& policy, const live::BooksOptions& options = {}) {
    stage_.serve(policy, options, true);
    stage_.comes([this] { return stage_.service() != nullptr; });
  }
  /// What it does, to its end.
  void does(const std::function<void()>& what) {
    const auto process = stage_.machine.begin("peer", what);
    ASSERT_TRUE(stage_.comes([&] { return !process->alive; }));
  }
  /// What the books were told, a line each, of these: [["waits",0], ...] without times.
  std::vector<Json> told(const std::vector<std::string>& of) {
    std::ostringstream out;
    stage_.service()->recording()->write(out);
    std::istringstream in(out.str());
    std::vector<Json> all;
    for (std::string line; std::getline(in, line);) {
      Json each = Json::parse(line);
      if (each.contains("corun_recording")) continue;
      each.erase("t");
      if (std::ranges::any_of(of, [&](const std::string& name) { return each.contains(name); })) all.push_back(std::move(each));
    }
    return all;
  }

  Stage stage_;
};

TEST_F(Page, WhatAProgramSaysOfItselfIsWhatTheBooksHaveWithinLimits) {
  struct Said {
    std::int32_t priority;
    double quota, reservation;
    std::uint64_t slo_us;
    std::int32_t has_priority;
    std::optional<double> has_quota, has_reservation;
    std::optional<Time> has_deadline;
  };
  const auto us = [](std::int64_t n) { return Time(std::chrono::microseconds(n)); };
  constexpr std::int64_t kDay_us = 86'400'000'000;
  const Said all[] = {{0, 0, 0, 0, 0, {}, {}, {}},
                      {-3, 0.25, 0.5, 1500, -3, 0.25, 0.5, us(1500)},
                      {-5, 1, 1, static_cast<std::uint64_t>(kDay_us), -5, 1.0, 1.0, us(kDay_us)},
                      {-6, 1.01, 1.01, static_cast<std::uint64_t>(kDay_us) + 1, -5, {}, {}, us(kDay_us)},
                      {1, -0.1, -0.1, ~std::uint64_t{0}, 0, {}, {}, us(kDay_us)}};
  serve("wait");
  for (const Said& said : all)
    for (const bool named : {true, false})
      does([&] {
        live::Hello hello = hello_of(named ? "one" : "", true);
        hello.priority = said.priority, hello.quota = said.quota, hello.reservation = said.reservation, hello.slo_us = said.slo_us;
        Peer peer;
        peer.join(hello);
        ASSERT_NE(peer.page, nullptr);
        const auto state = stage_.service()->books().state();
        ASSERT_EQ(state.size(), 1u);
        const live::ClientOptions& is = state[0].self;
        EXPECT_EQ(is.name, named ? "one" : "pid " + std::to_string(Machine::the().process()->pid));
        EXPECT_EQ(is.service_class, ServiceClass::real_time);
        EXPECT_EQ(is.priority, said.has_priority);
        EXPECT_EQ(is.quota, said.has_quota);
        EXPECT_EQ(is.reservation, said.has_reservation);
        EXPECT_EQ(is.deadline, said.has_deadline);
        os::close(peer.socket);
        stage_.machine.sleep_until(stage_.machine.now() + 300ms);
      });
}

TEST_F(Page, WhoIsRefusedIsToldWhyAndGetsNothing) {
  serve("wait");
  live::Hello other = hello_of("other"), wish = other;
  other.version = live::kVersion + 1, wish.wish = static_cast<live::Hello::Wish>(7);
  const std::pair<live::Hello, const char*> all[] = {{other, "it is of another version"}, {wish, "it was not understood"}};
  for (const auto& [hello, why] : all)
    does([&] {
      Peer peer;
      peer.join(hello);
      EXPECT_TRUE(peer.answered);
      EXPECT_EQ(peer.welcome.accepted, 0u);
      EXPECT_STREQ(peer.welcome.reason, why);
      EXPECT_EQ(peer.descriptors, 0u);
    });
  EXPECT_EQ(stage_.machine.count("is refused"), 2u);
}

TEST_F(Page, TheStandingTermsAreThePolicysForEach) {
  serve("static-split:tpcs=1/1");
  does([] {
    Peer one, two;
    one.join(hello_of("one")), two.join(hello_of("two"));
    wait_a_moment();
    EXPECT_EQ(one.page->tpcs[0].load(), 1u);
    EXPECT_EQ(two.page->tpcs[0].load(), 2u);
    for (const Peer* each : {&one, &two}) {
      EXPECT_GE(each->page->version.load(), 2u);
      EXPECT_EQ(each->page->version.load() % 2, 0u) << "it is written";
    }
  });
}

TEST_F(Page, AKernelIsReadAsItWasWrittenUpToTheLimitsOfCuda) {
  struct Written {
    live::KernelEntry entry;
    std::uint32_t said, grid[3], block[3], registers, shared[2];
    const char* name;
  };
  live::KernelEntry usual{77, 1234, 4321, {11, 12, 13}, {4, 5, 6}, "usual"}, last = usual, most{~0u, ~0u, ~0u, {~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}, "most"};
  live::KernelEntry at_limit{255, 1 << 20, 1 << 20, {0x7fffffff, 65535, 65535}, {1024, 1024, 64}, "limit"};
  std::strcpy(last.name, "last");
  std::memset(most.name, 'm', sizeof most.name);
  const Written all[] = {{usual, 0, {11, 12, 13}, {4, 5, 6}, 77, {1234, 4321}, "usual"},
                         {most, 5, {0x7fffffff, 65535, 65535}, {1024, 1024, 64}, 255, {1 << 20, 1 << 20}, nullptr},
                         {at_limit, 6, {0x7fffffff, 65535, 65535}, {1024, 1024, 64}, 255, {1 << 20, 1 << 20}, "limit"},
                         {last, live::kKernels - 1, {11, 12, 13}, {4, 5, 6}, 77, {1234, 4321}, "last"}};
  serve("wait");
  does([&] {
    Peer peer;
    peer.join(hello_of("one"));
    std::uint32_t number = 0;
    for (const Written& w : all) {
      peer.page->kernels[w.said] = w.entry;
      peer.says({What::launch, 0, ++number, w.said, 0});
    }
    // All that there is no entry for are the last one.
    for (const std::uint32_t beyond : {live::kKernels, live::kKernels + 1, ~0u}) peer.says({What::launch, 0, ++number, beyond, 0});
    wait_a_moment();
  });
  const std::vector<Json> kernels = told({"kernel"});
  ASSERT_EQ(kernels.size(), std::size(all));
  for (std::size_t i = 0; i < std::size(all); ++i) {
    const Written& w = all[i];
    EXPECT_EQ(kernels[i]["grid"], Json(w.grid)) << i;
    EXPECT_EQ(kernels[i]["block"], Json(w.block)) << i;
    EXPECT_EQ(kernels[i]["registers"], w.registers) << i;
    EXPECT_EQ(kernels[i]["shared_bytes"], Json(w.shared)) << i;
    EXPECT_EQ(kernels[i]["name"], w.name != nullptr ? std::string(w.name) : std::string(live::kKernelNameBytes, 'm')) << i;
  }
  const std::vector<Json> asked = told({"asked"});
  ASSERT_EQ(asked.size(), 7u);
  for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i]["asked"], Json({0, 0, i + 1, std::min<std::size_t>(i, 3)})) << "the last one is known from the fourth launch on";
}

TEST_F(Page, EachWordComesToTheBooksAsItWasSaidAndWithinLimits) {
  serve("flexgpu", {.memory = 64 * live::kBlockUnit});
  does([] {
    Peer peer;
    peer.join(hello_of("one"));
    for (const Message& m : {Message{What::launch, 3, 1, 0, 0}, Message{What::launch, 4, 9, 0, 99}, Message{What::failed, 4, 9, 0, 0}, Message{What::waits},
                             Message{What::allocates, 7, 5, 21, 0}, Message{What::moved, 7, 2, 21, 0}, Message{What::frees, 7, 0, 21, 0}, Message{What::wants, 0, 31, 0, 0},
                             Message{What::has, 0, 31, 0, 0}, Message{What::allocates, ~0u, 0, 22, 0}, Message{What::frees, live::kBlocks, 0, 22, 0}, Message{What::failed, live::kStreams, 1, 0, 0}})
      peer.says(m), wait_a_moment();
  });
  EXPECT_THAT(told({"asked", "failed", "waits", "memory"}),
              ElementsAre(Json{{"asked", {0, 3, 1, 0}}}, Json{{"asked", {0, 4, 9, 0, live::kMostAttempts}}}, Json{{"failed", {0, 4, 9}}}, Json{{"waits", 0}},
                          Json{{"memory", {"allocates", 0, 7, 21, 5 * live::kBlockUnit}}}, Json{{"memory", {"moved", 0, 7, 21, 1}}}, Json{{"memory", {"frees", 0, 7, 21, 0}}},
                          Json{{"memory", {"wants", 0, 31, 0, 0}}}, Json{{"memory", {"has", 0, 31, 0, 0}}},
                          Json{{"memory", {"allocates", 0, live::kBlocks - 1, 22, live::kBlockUnit}}}, Json{{"memory", {"frees", 0, live::kBlocks - 1, 22, 0}}},
                          Json{{"failed", {0, live::kStreams - 1, 1}}}));
}

TEST_F(Page, AStreamThatIsNoneIsTheLastOneInAllThatIsWritten) {
  serve("wait");
  does([] {
    Peer peer;
    peer.join(hello_of("one"));
    for (std::uint32_t n = 1; const std::uint32_t stream : {live::kStreams - 1, live::kStreams, live::kStreams + 1, ~0u}) {
      peer.says({What::launch, stream, n, 0, 0});
      wait_a_moment();
      EXPECT_EQ(peer.page->words.granted[live::kStreams - 1].load(), n) << stream;
      peer.page->words.ended[live::kStreams - 1].store(n++);
      wait_a_moment();
    }
    for (const auto& word : peer.page->words.resumed) EXPECT_EQ(word.load(), 0u);
  });
}

TEST_F(Page, WhoSaysThatItHasSaidMoreThanThereIsRoomForIsHeardOnceRound) {
  serve("wait");
  does([this] {
    Peer peer;
    peer.join(hello_of("one"));
    for (std::uint32_t i = 0; i < live::kMessageRing; ++i) peer.page->messages[i] = {What::launch, 0, i + 1, 0, 0};
    peer.page->said.store(3 * live::kMessageRing);
    os::send(peer.socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    wait_a_moment();
    EXPECT_EQ(peer.page->heard.load(), 3 * live::kMessageRing);
    EXPECT_EQ(stage_.service()->books().unfinished(0), live::kMessageRing);
  });
}

TEST_F(Page, SoManyLaunchesMayBeUnderWayAndWhoAsksForOneMoreIsLetGo) {
  stage_.serve_now("wait");
  does([this] {
    Peer peer;
    peer.join(hello_of("flood"));
    for (std::uint32_t i = 1; i <= live::limits::kUnfinished; ++i) ASSERT_TRUE(peer.says({What::launch, 0, i, 0, 0})) << i;
    wait_a_moment();
    EXPECT_FALSE(peer.is_gone());
    EXPECT_EQ(stage_.service()->books().unfinished(0), live::limits::kUnfinished);
    peer.says({What::launch, 0, live::limits::kUnfinished + 1, 0, 0});
    wait_a_moment();
    EXPECT_TRUE(peer.is_gone());
    EXPECT_EQ(stage_.machine.count("is let go"), 1u);
  });
}

TEST_F(Page, AKernelsTimeIsKeptAndItsAttemptsAreAtItsPlace) {
  serve("wait", {.persistent = true});
  does([] {
    Peer peer;
    peer.join(hello_of("one"));
    for (std::uint32_t n = 1; const std::uint32_t kernel : {3u, live::kKernels - 1, live::kKernels, ~0u}) {
      const std::uint32_t place = std::min(kernel, live::kKernels - 1);
      peer.says({What::launch, 0, n, kernel, 0});
      os::sleep_for(5ms);
      peer.page->words.ended[0].store(n++);
      wait_a_moment();
      EXPECT_EQ(peer.page->attempts[place].load(), live::kMostAttempts) << kernel << ": it took 5 ms";
      peer.page->attempts[place].store(0);
      peer.says({What::launch, 0, n, kernel, 0});
      wait_a_moment();
      EXPECT_EQ(peer.page->attempts[place].load(), live::kMostAttempts) << kernel << ": known from before";
      peer.page->attempts[place].store(0);
      peer.page->words.ended[0].store(n++);
      wait_a_moment();
    }
  });
}

/// The fifth launch of a best-effort program, which may be stopped, behind four that are done; then a real-time one comes.
class Stopped : public Page {
 protected:
  static constexpr std::uint32_t kNumber = 5, kAttempt = live::attempt_of(kNumber, 0);
  /// `then`: what the GPU says of it.
  void stop(const std::function<void(live::Memory::Words&)>& then) {
    serve("wait", {.persistent = true});
    does([&] {
      Peer work, cam;
      work.join(hello_of("work")), cam.join(hello_of("cam", true));
      live::Memory::Words& words = work.page->words;
      words.resumed[2].store(live::attempt_of(kNumber - 1, live::kAllAttempts));
      words.ended[2].store(kNumber - 1);
      work.says({What::launch, 2, kNumber, 0, 3});
      wait_a_moment();
      EXPECT_EQ(words.granted[2].load(), kNumber);
      EXPECT_EQ(words.orders[2].load(), 0u);
      cam.says({What::launch, 0, 1, 0, 0});
      wait_a_moment();
      EXPECT_EQ(words.orders[2].load(), std::uint64_t{1} << 63 | kAttempt);
      EXPECT_EQ(cam.page->words.granted[0].load(), 0u) << "until the GPU is free";
      then(words);
      wait_a_moment();
      EXPECT_EQ(cam.page->words.granted[0].load(), 1u);
      cam.page->words.ended[0].store(1);
      cam.says({What::waits});
      wait_a_moment();
      resumed_ = words.resumed[2].load();
    });
  }
  static void report(live::Memory::Words& words, std::uint32_t blocks) {
    for (std::uint32_t i = 0; i < 8; ++i) words.reports[2][i] = 100 + i;
    words.reports[2][3] = blocks;
    words.reports[2][2] = kAttempt;
  }
  std::uint32_t resumed_ = 0;
};

TEST_F(Stopped, ItGoesOnWhereItWasStopped) {
  stop([](live::Memory::Words& words) { report(words, 0); });
  EXPECT_THAT(told({"stopped"}), ElementsAre(Json{{"stopped", {0, 2, kNumber, 0}}}));
  EXPECT_EQ(resumed_, live::attempt_of(kNumber, 1));
}
TEST_F(Stopped, OneThatHasEndedIsNotStoppedThoughItsReportSaysSo) {
  stop([](live::Memory::Words& words) { words.ended[2].store(kNumber), report(words, 1); });
  EXPECT_THAT(told({"stopped"}), IsEmpty());
}
TEST_F(Stopped, OneOfWhichAllBlocksAreDoneWillEndAndIsNotStopped) {
  stop([](live::Memory::Words& words) {
    words.resumed[2].store(live::attempt_of(kNumber, live::kAllAttempts));
    report(words, 1);
    wait_a_moment();
    words.ended[2].store(kNumber);
  });
  EXPECT_THAT(told({"stopped"}), IsEmpty());
}

TEST_F(Page, QuotasAreWrittenForEachSmAndNoneBeyondThem) {
  serve("smguard", {.persistent = true});
  does([] {
    Peer peer;
    peer.join(hello_of("one"));
    peer.page->kernels[0] = {32, 0, 0, {1000, 1, 1}, {256, 1, 1}, "sized"};
    for (auto& quota : peer.page->words.quotas[1]) quota.workers.store(99);
    peer.says({What::launch, 1, 1, 0, 3});
    wait_a_moment();
    EXPECT_EQ(peer.page->words.granted[1].load(), 1u);
    for (std::uint32_t sm = 0; sm < live::kSms; ++sm) EXPECT_EQ(peer.page->words.quotas[1][sm].workers.load(), sm < 4 ? 8u : 0u) << sm;
  });
}

TEST_F(Page, WhoTakesNoCommandIsLetGoWhenThereIsNoRoomForMore) {
  stage_.serve_now("flexgpu", {.memory = 64 * live::kBlockUnit});
  does([this] {
    Peer peer;
    peer.join(hello_of("deaf"));
    for (std::uint32_t i = 1; i <= live::kCommands; ++i) {
      ASSERT_TRUE(peer.says({What::allocates, 0, 1, i, 0}));
      while (peer.page->commanded.load() != i) os::sleep_for(100us);
      ASSERT_TRUE(peer.says({What::frees, 0, 0, i, 0}));
    }
    wait_a_moment();
    EXPECT_FALSE(peer.is_gone());
    peer.says({What::allocates, 0, 1, ~0u, 0});
    wait_a_moment();
    EXPECT_TRUE(peer.is_gone());
    EXPECT_EQ(stage_.machine.count("is let go"), 1u);
  });
}

TEST_F(Page, TheStateComesAsAWholeHoweverSlowlyItIsRead) {
  stage_.serve_now("wait");
  does([] {
    std::vector<Peer> all(live::limits::kPrograms);
    for (Peer& each : all) each.join(hello_of(std::string(60, 'n')));
    const int fd = os::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(os::connect(fd, nullptr, 0), 0);
    live::Hello hello = hello_of("reader");
    hello.wish = live::Hello::Wish::state;
    os::send(fd, &hello, sizeof hello, MSG_NOSIGNAL);
    std::string text, part(10'000, '\0');
    for (ssize_t n = 1; n > 0; os::sleep_for(1ms))
      if (n = os::recv(fd, part.data(), part.size(), 0); n > 0) text.append(part, 0, static_cast<std::size_t>(n));
    const Json state = Json::parse(text, nullptr, false);
    ASSERT_TRUE(state.is_object()) << text.size();
    EXPECT_EQ(state["programs"].size(), live::limits::kPrograms);
  });
}

}  // namespace
}  // namespace corun::world
