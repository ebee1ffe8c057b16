// Does a program go on whatever becomes of its children and its contexts?  The driver is a fake.  What becomes of its service and its
// code is in tests/hw/world.
#include <sys/socket.h>
#include <sys/un.h>

#include "hw/live/wire.h"
#include "tests/hw/live/live.h"

namespace corun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Shim : public Live {
 protected:
  /// A shell's words for a program of a service that is played.
  std::string steered(const std::string& program, const std::string& service) const {
    return fmt::format("LD_LIBRARY_PATH={} LD_PRELOAD={} CORUN_FAKE_LOG={} CORUN_NAME=one CORUN_SERVICE={} {} {}", CORUN_FAKE_DRIVER, CORUN_STEER, log(),
                       service, CORUN_STEERED_PROGRAM, program);
  }
};

TEST_F(Shim, AProgramThatIsKilledIsGoneFromTheBooksWhileAChildOfItLives) {
  serve("wait");
  Ran ended;
  std::thread running([&] { ended = shell(joins("fork-stays 100000 1000 20", "--name one") + " | tee " + (folder_ / "said").string()); });
  int child = 0;
  EXPECT_TRUE(comes([&] {
    std::ifstream in(folder_ / "said");
    std::string word;
    return program("one").is_object() && in >> word >> child;
  }));
  std::ifstream in(fmt::format("/proc/{}/status", child));
  int parent = 0;
  for (std::string word; in >> word;)
    if (word == "PPid:") in >> parent;
  ASSERT_GT(parent, 1);
  kill(parent, SIGKILL);
  EXPECT_TRUE(comes([&] { return state()["programs"].empty(); }));
  EXPECT_EQ(kill(child, SIGKILL), 0) << "it is there all the time";
  running.join();
}

// Of a later service the answer may be longer, of an earlier one shorter.
TEST_F(Shim, AProgramOfAnotherVersionIsToldAndGoesOn) {
  for (const std::ptrdiff_t more : {0, 40, -40}) {
    const std::string path = (folder_ / fmt::format("other{}", more)).string();
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    std::thread service([&] {
      live::Welcome welcome;
      welcome.version = live::kVersion + 1;
      std::strcpy(welcome.reason, "it is of another version");
      std::string answer(reinterpret_cast<const char*>(&welcome), sizeof welcome);
      answer.resize(static_cast<std::size_t>(static_cast<std::ptrdiff_t>(answer.size()) + more));
      const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      (void)!send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      char hello[sizeof(live::Hello)];
      (void)!recv(fd, hello, sizeof hello, MSG_WAITALL);
      close(fd);
    });
    const Ran ended = shell(steered("dlsym 10 50", path));
    EXPECT_THAT(ended.out, AllOf(HasSubstr("corun: the service refused: it is of another version; "), HasSubstr("done 10"))) << more;
    service.join();
    close(listener);
  }
}

TEST_F(Shim, AProgramThatSeesAnotherGpuThanTheServicesIsRefusedAndTold) {
  serve("wait", "--device=00000000:02:00.0");
  const Ran other = shell(joins("dlsym 10 50", "--name one"));
  EXPECT_THAT(other.out, AllOf(HasSubstr("it decides about the GPU at 00000000:02:00.0, which this program does not see"), HasSubstr("done 10")));
  const Ran same = shell("CUDA_VISIBLE_DEVICES=1 " + joins("dlsym 10 50", "--name two"));
  EXPECT_THAT(same.out, AllOf(Not(HasSubstr("corun:")), HasSubstr("done 10")));
}

class EachReset : public Shim, public testing::WithParamInterface<const char*> {};

TEST_P(EachReset, NothingOfAContextThatIsResetIsUsedAfterwards) {
  for (const char* policy : {"wait", "priority", "static-split:tpcs=16/50"}) {
    files::remove(log());
    serve(policy, "--programs=one,two");
    const Ran ended = shell(joins(fmt::format("{} 20 100 5", GetParam()), "--name one --priority=-5"));
    EXPECT_THAT(ended.out, AllOf(HasSubstr("done 20"), Not(HasSubstr("stale")), Not(HasSubstr("corun:")))) << policy;
    EXPECT_EQ(kernels().size(), 20u) << policy;
    EXPECT_TRUE(comes([&] { return state()["programs"].empty(); }));
    end_service(SIGTERM);
  }
}
INSTANTIATE_TEST_SUITE_P(Ways, EachReset, testing::Values("reset", "reset-graph", "reset-stream"),
                         [](const auto& way) { return std::string(way.param).substr(0, 5) + std::string(way.param).substr(std::min<std::size_t>(6, std::string(way.param).size())); });

TEST_F(Shim, WhatIsLaunchedWhileAProgramEndsIsLaunchedAsBefore) {
  for (const char* policy : {"wait", "priority"}) {
    files::remove(log());
    serve(policy);
    const Ran ended = shell("MALLOC_PERTURB_=165 " + joins("at-exit 5 50", "--name one --priority=-5"));
    EXPECT_EQ(ended.code, 0) << ended.out;
    EXPECT_THAT(ended.out, HasSubstr("launched at exit")) << policy;
    EXPECT_EQ(kernels().size(), 6u) << policy;
    end_service(SIGTERM);
  }
}

}  // namespace
}  // namespace corun
