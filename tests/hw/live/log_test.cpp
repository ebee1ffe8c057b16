// Does what the service says hold nothing up, whoever reads it, and does systemd hear that it is ready?
#include "hw/live/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/in_folder.h"

namespace corun::live {
namespace {

using testing::HasSubstr;

class LogOnPipe : public testing::Test {
 protected:
  LogOnPipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~LogOnPipe() override {
    for (const int end : ends_)
      if (end >= 0) close(end);
  }
  std::string said() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string all(1 << 20, '\0');
    std::size_t size = 0;
    for (ssize_t n; (n = read(ends_[0], all.data() + size, all.size() - size)) > 0;) size += static_cast<std::size_t>(n);
    all.resize(size);
    return all;
  }
  static constexpr Time at(double s) { return Time{static_cast<std::int64_t>(s * 1e12)}; }
  int ends_[2] = {-1, -1};
};

TEST_F(LogOnPipe, ALineHasItsLevelAsJournaldReadsIt) {
  Log log(ends_[1]);
  log.say(Level::info, "one joins", at(0));
  log.say(Level::warning, "one is let go", at(0));
  EXPECT_EQ(said(), "<6>one joins\n<4>one is let go\n");
}

TEST_F(LogOnPipe, MoreThanTheLimitIsCountedAndWhatIsUrgentIsSaid) {
  Log log(ends_[1]);
  for (std::uint32_t i = 0; i < limits::kMessages + 5; ++i) log.say(Level::info, "x", at(0));
  EXPECT_EQ(said().size(), limits::kMessages * 5u);
  log.say(Level::warning, "fault", at(9.9));
  EXPECT_EQ(said(), "<5>5 messages were left out\n<4>fault\n");
  log.say(Level::info, "x", at(9.99));
  EXPECT_EQ(said(), "");
  log.say(Level::info, "y", at(10));
  EXPECT_EQ(said(), "<5>1 messages were left out\n<6>y\n");
}

TEST_F(LogOnPipe, WhereNobodyReadsNothingWaitsAndWhatWasLostIsCounted) {
  Log log(ends_[1]);
  const std::string line(1000, 'x');
  for (int i = 0; i < 190; ++i) log.say(Level::info, line, at(0));  // a pipe takes 64 KiB
  const std::size_t taken = said().size() / (line.size() + 4);
  EXPECT_LT(taken, 70u);
  log.say(Level::info, "again", at(0));
  EXPECT_EQ(said(), fmt::format("<5>{} messages were left out\n<6>again\n", 190 - taken));
}

TEST_F(LogOnPipe, WhereTheReaderHasGoneTheServiceStays) {
  void (*before)(int) = signal(SIGPIPE, SIG_IGN);  // as sim serve has it
  Log log(ends_[1]);
  close(std::exchange(ends_[0], -1));
  log.say(Level::error, "nobody", at(0));
  signal(SIGPIPE, before);
}

class Notified : public InFolder {
 protected:
  std::string hears(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())), 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    notify("READY=1");
    unsetenv("NOTIFY_SOCKET");
    char text[64] = {};
    (void)!recv(fd, text, sizeof text - 1, 0);
    close(fd);
    return text;
  }
};

TEST_F(Notified, SystemdHearsByAFileOrByANameOfLinuxsOwn) {
  EXPECT_EQ(hears((folder_ / "notify").string()), "READY=1");
  EXPECT_EQ(hears(fmt::format("@corun-test-{}", getpid())), "READY=1");
  unsetenv("NOTIFY_SOCKET");
  notify("READY=1");
  for (const char* none : {"", "relative", "/none/there"}) {
    setenv("NOTIFY_SOCKET", none, 1);
    notify("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace corun::live
