// Does a service outlive clients that are wrong, silent or many?  The service is what is shipped; clients are this file's, and do
// what the library never does.
#include "hw/live/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "hw/live/limits.h"
#include "tests/hw/live/welcome.h"
#include "tests/support/build.h"
#include "tests/support/in_folder.h"
#include "tests/support/shell.h"

namespace corun::live {
namespace {

using testing::HasSubstr;

/// A connection that says what it likes.
class Peer {
 public:
  explicit Peer(const std::string& folder) : socket_(connected_to(folder)), there_(socket_ >= 0) {}
  Peer(Peer&& other) noexcept : socket_(std::exchange(other.socket_, -1)), page_(std::exchange(other.page_, -1)), memory_(std::exchange(other.memory_, nullptr)), there_(other.there_) {}
  ~Peer() {
    if (memory_ != nullptr) munmap(memory_, sizeof(Memory));
    for (const int fd : {page_, socket_})
      if (fd >= 0) close(fd);
  }

  bool there() const { return there_; }
  void says(const void* bytes, std::size_t count) const { (void)!send(socket_, bytes, count, MSG_NOSIGNAL); }
  /// Waits for the end of the other side's; what it said before.
  std::string heard(int patience_ms = 10'000) const {
    std::string all;
    for (pollfd look{socket_, POLLIN, 0}; poll(&look, 1, patience_ms) > 0;) {
      char part[4096];
      const ssize_t n = recv(socket_, part, sizeof part, 0);
      if (n <= 0) return all + "[end]";
      all.append(part, static_cast<std::size_t>(n));
    }
    return all;
  }
  /// Empty: it has joined.
  std::string joins(const std::string& name, bool real_time = false) {
    Hello hello;
    std::strncpy(hello.name, name.c_str(), sizeof hello.name - 1);
    hello.real_time = real_time;
    says(&hello, sizeof hello);
    return is_answered();
  }
  std::string is_answered() {
    const auto answer = receive_answer(socket_, MSG_WAITALL);
    if (!answer) return "no answer";
    if (answer->welcome.accepted == 0) return answer->welcome.reason;
    page_ = answer->page, memory_ = answer->memory;
    return "";
  }
  /// As the library does.
  void asks(const Message& message) {
    const std::uint32_t said = memory_->said.load();
    while (said - memory_->heard.load() >= kMessageRing && !is_gone()) std::this_thread::yield();
    memory_->messages[said % kMessageRing] = message;
    memory_->said.store(said + 1);
    const char ring = 1;
    (void)!send(socket_, &ring, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  bool is_gone() const {
    pollfd look{socket_, POLLRDHUP, 0};
    return poll(&look, 1, 0) > 0;
  }
  Memory& memory() { return *memory_; }
  int page() const { return page_; }
  int socket_of() const { return socket_; }

 private:
  int socket_ = -1, page_ = -1;
  Memory* memory_ = nullptr;
  bool there_ = false;
};

class LiveService : public InFolder {
 protected:
  ~LiveService() override { end(); }
  void serve(const std::string& policy, BooksOptions options = {}) {
    end();
    stop_ = false;
    service_ = std::make_unique<Service>(policy, sim::small_gpu(2), at_, std::move(options));
    service_->invite({});
    thread_ = std::thread([this] { service_->run([this] { return stop_.load(); }, [](const std::string&) {}); });
  }
  void end() {
    stop_ = true;
    if (service_ != nullptr) const Peer wakes(at_);
    if (thread_.joinable()) thread_.join();
    service_.reset();
  }
  nlohmann::json state() const { return state_at(at_); }
  std::size_t programs() const { return state().value("programs", nlohmann::json::array()).size(); }
  template <class Condition>
  static bool comes(Condition condition) {
    for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      if (condition()) return true;
    return false;
  }

  const std::string at_ = (folder_ / "service").string();
  std::unique_ptr<Service> service_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
};

TEST_F(LiveService, ThePageOfAProgramCanBeMadeNeitherShorterNorLongerAndItsSealsStay) {
  serve("wait");
  Peer peer(at_);
  ASSERT_EQ(peer.joins("one"), "");
  EXPECT_EQ(fcntl(peer.page(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  for (const off_t bytes : {off_t{0}, off_t{sizeof(Memory)} - 1, off_t{sizeof(Memory)} + 1}) EXPECT_EQ(ftruncate(peer.page(), bytes), -1) << bytes;
  EXPECT_EQ(programs(), 1u);
}

TEST_F(LiveService, HalfAHelloIsNotUnderstoodAndAnotherVersionsIsCalledThat) {
  serve("wait");
  Hello hello;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, sizeof hello - 1}) {
    Peer peer(at_);
    peer.says(&hello, bytes);
    EXPECT_THAT(peer.is_answered(), HasSubstr("not understood")) << bytes;
  }
  hello.version = kVersion + 1;
  for (const std::size_t bytes : {std::size_t{8}, sizeof hello}) {
    Peer peer(at_);
    peer.says(&hello, bytes);
    EXPECT_THAT(peer.is_answered(), HasSubstr("another version")) << bytes;
  }
  hello.version = kVersion;
  hello.wish = static_cast<Hello::Wish>(7);
  Peer peer(at_);
  peer.says(&hello, sizeof hello);
  EXPECT_THAT(peer.is_answered(), HasSubstr("not understood"));
}

TEST_F(LiveService, AnotherUsersProgramIsRefusedAlsoWhereItReachesTheSocket) {
  if (geteuid() != 0) GTEST_SKIP() << "nobody else can be played here";
  serve("wait");
  for (const std::string& path : {folder_.string(), at_, at_ + "/socket"}) std::filesystem::permissions(path, std::filesystem::perms::all);
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setuid(12345) != 0) _exit(1);
    Peer peer(at_);
    _exit(peer.there() && peer.joins("theirs") == "it is another user's" ? 0 : 2);
  }
  int status = 0;
  waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(programs(), 0u);
}

TEST_F(LiveService, AsManyProgramsAsTheLimitJoinAndOneMoreIsRefusedUntilOneLeaves) {
  serve("fcfs");
  std::vector<Peer> all;
  for (std::size_t i = 0; i < limits::kPrograms; ++i) ASSERT_EQ(all.emplace_back(at_).joins("one"), "") << i;
  EXPECT_THAT(Peer(at_).joins("more"), HasSubstr("no more can be"));
  EXPECT_EQ(programs(), limits::kPrograms) << "all of the state, which is longer than what a socket takes at once";
  all.pop_back();
  EXPECT_TRUE(comes([&] { return programs() == limits::kPrograms - 1; }));
  EXPECT_EQ(Peer(at_).joins("more"), "");
}

TEST_F(LiveService, AProgramWhoseProcessHasEndedIsGoneThoughAChildOfItHasTheSocket) {
  serve("wait");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t program = fork();
  if (program == 0) {
    Peer peer(at_);
    const bool joined = peer.joins("one").empty();
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    const pid_t says = joined ? child : -1;
    (void)!::write(ends[1], &says, sizeof says);
    pause();
  }
  pid_t child = -1;
  ASSERT_EQ(read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ASSERT_GT(child, 0);
  EXPECT_EQ(programs(), 1u);
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  EXPECT_EQ(kill(child, 0), 0);
  EXPECT_TRUE(comes([&] { return programs() == 0; }));
  kill(child, SIGKILL);
  close(ends[0]), close(ends[1]);
}

TEST_F(LiveService, WhoAsksForMoreLaunchesThanTheLimitIsLetGoAndOthersAreNot) {
  serve("wait");
  Peer flood(at_), other(at_);
  ASSERT_EQ(flood.joins("flood"), "");
  ASSERT_EQ(other.joins("other"), "");
  Message launch;
  std::uint32_t asked = 0;
  for (; asked < 2 * limits::kUnfinished && !flood.is_gone(); ++asked) launch.number = asked + 1, flood.asks(launch);
  EXPECT_GE(asked, limits::kUnfinished);
  EXPECT_TRUE(comes([&] { return programs() == 1; }));
  EXPECT_EQ(state()["programs"][0]["name"], "other");
}

/// What is in the page and said through it is any bytes.
TEST_F(LiveService, NothingThatAProgramWritesIntoItsPageEndsTheServiceOrKeepsOthersFromIt) {
  struct Case {
    const char* policy;
    BooksOptions options;
  };
  const Case cases[] = {{"wait", {}}, {"wait:beside=on,backfill=on", {.persistent = true}}, {"reef-n", {}}, {"smguard", {.persistent = true}},
                        {"tpc-mask", {}}, {"flexgpu:turn=4", {.memory = std::uint64_t{64} << 20}}, {"memory-wait", {.memory = std::uint64_t{64} << 20}}};
  for (const Case& each : cases) {
    serve(each.policy, each.options);
    std::mt19937 random(7);
    const auto any = [&](std::uint32_t most) { return std::uniform_int_distribution<std::uint32_t>(0, most)(random); };
    for (int round = 0; round < 6; ++round) {
      Peer peer(at_);
      ASSERT_EQ(peer.joins("any", round % 2 == 0), "") << each.policy;
      Memory& m = peer.memory();
      for (KernelEntry& k : m.kernels) {
        k.registers = any(round % 3 == 0 ? ~0u : 256), k.static_shared_bytes = any(~0u), k.shared_bytes = any(~0u);
        for (int i = 0; i < 3; ++i) k.grid[i] = any(round % 3 == 0 ? ~0u : 8), k.block[i] = any(round % 3 == 0 ? ~0u : 32);
        std::memset(k.name, static_cast<int>(any(255)), sizeof k.name);
      }
      for (int i = 0; i < 600 && !peer.is_gone(); ++i) {
        // Half of them by their form, so that more than the first check is reached.
        const bool wild = any(1) == 0;
        peer.asks({static_cast<Message::What>(any(wild ? ~0u : 7)), any(wild ? ~0u : 3), any(wild ? ~0u : 40), any(wild ? ~0u : 5), any(wild ? ~0u : 7)});
        const std::uint32_t stream = any(3);
        m.words.ended[stream].store(any(wild ? ~0u : 40));
        m.words.resumed[stream].store(any(~0u));
        for (int word = 0; word < 4; ++word) std::atomic_ref(m.words.reports[stream][word]).store(any(wild ? ~0u : 400));
        if (i % 50 == 0) m.groups.store(any(~0u)), m.taken.store(any(~0u)), m.commanded.store(any(~0u)), m.touches.fetch_add(1), m.version.store(any(~0u));
        if (i % 100 == 99) m.said.fetch_add(any(~0u));
      }
      EXPECT_TRUE(state().is_object()) << each.policy;
    }
    EXPECT_TRUE(comes([&] { return programs() == 0; })) << each.policy << ": and nothing is left of them";
  }
}

TEST_F(LiveService, TopSaysWhatOfAProgramIsNotSteeredAndWhoseTimesAreNotToldApart) {
  serve("wait");
  Peer all(at_), some(at_);
  ASSERT_EQ(all.joins("all"), "");
  ASSERT_EQ(some.joins("some"), "");
  some.memory().counted.store(3), some.memory().crowded.store(5);
  const std::string said = shell(fmt::format("{} top --at {}", std::getenv("CORUN_SIM"), at_)).out;
  EXPECT_THAT(said, HasSubstr("some: 3 driver calls launched or accessed memory unsteered\n"));
  EXPECT_THAT(said, HasSubstr("some: 5 launches were of kernels beyond the first 4095, whose times are not told apart\n"));
  EXPECT_THAT(said, testing::Not(HasSubstr("all: ")));
}

}  // namespace
}  // namespace corun::live
