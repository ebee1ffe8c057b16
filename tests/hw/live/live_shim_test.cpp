// Does a program go on whatever becomes of its service, its children, its contexts and its code?  The driver is a fake; where the service
// has to fail in its own way, it is played.
#include "hw/live/limits.h"
#include "tests/hw/live/live.h"
#include "tests/hw/live/played_service.h"

namespace corun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace limits = live::limits;

class Shim : public Live {
 protected:
  /// A shell's words for a program of a service that is played, or none.
  std::string steered(const std::string& program, const std::string& service) const {
    return fmt::format("LD_LIBRARY_PATH={} LD_PRELOAD={} CORUN_FAKE_LOG={} CORUN_NAME=one CORUN_SERVICE={} {} {}", CORUN_FAKE_DRIVER, CORUN_STEER, log(),
                       service, CORUN_STEERED_PROGRAM, program);
  }
  std::uint64_t launches_of_one() const {
    const nlohmann::json one = program("one");
    return one.is_object() ? one["launches"].get<std::uint64_t>() : 0;
  }
  static std::chrono::milliseconds takes(const std::function<void()>& what) {
    const auto begin = std::chrono::steady_clock::now();
    what();
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  }
  static std::size_t times(const std::string& what, const std::string& text) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  }
  static constexpr auto kSlack = std::chrono::milliseconds(1500 * kLonger);  // of a machine that does other work
};

TEST_F(Shim, AProgramThatIsKilledIsGoneFromTheBooksWhileAChildOfItLives) {
  serve("wait");
  Ended ended;
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

TEST_F(Shim, AServiceThatStandsStillHoldsNobodyForLongerThanItMayAndTheProgramJoinsAgainWhenItGoesOn) {
  for (const char* in_flight : {"--in-flight=0", "--in-flight=64"}) {
    files::remove(log());
    serve("wait", in_flight);
    Ended ended;
    std::chrono::milliseconds took{};
    const files::path enough = folder_ / "enough";
    files::remove(enough);
    std::thread running([&] { took = takes([&] { ended = shell(joins("dlsym 200 1000 20 " + enough.string(), "--name one")); }); });
    EXPECT_TRUE(comes([&] { return kernels().size() > 40; }));
    kill(service_, SIGSTOP);
    const auto stopped = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until it is held
    const std::size_t before = kernels().size();
    EXPECT_TRUE(comes([&] { return kernels().size() > before + 10; })) << in_flight;
    EXPECT_LT(std::chrono::steady_clock::now() - stopped, limits::kStandsStill + kSlack) << in_flight;
    kill(service_, SIGCONT);
    EXPECT_TRUE(comes([&] { return launches_of_one() > 20; })) << in_flight;
    std::ofstream(enough) << "\n";
    running.join();
    EXPECT_THAT(ended.said, AllOf(HasSubstr("done "), HasSubstr("steered again"))) << in_flight;
    EXPECT_EQ(times("the service stands still", ended.said), 1u) << ended.said;
    end_service(SIGTERM);
  }
}

TEST_F(Shim, AProgramJoinsTheServiceThatComesAfterItsOwn) {
  serve("wait");
  Ended ended;
  const files::path enough = folder_ / "enough";
  std::thread running([&] { ended = shell(joins("two-streams 200 1000 20 " + enough.string(), "--name one")); });
  EXPECT_TRUE(comes([&] { return kernels().size() > 40; }));
  for (const char* policy : {"wait", "fcfs"}) {
    end_service(SIGKILL);
    files::remove(at() + "/environment");
    serve(policy);
    EXPECT_TRUE(comes([&] { return launches_of_one() > 100; })) << policy;
  }
  std::ofstream(enough) << "\n";
  running.join();
  EXPECT_EQ(times("the service has ended", ended.said), 2u) << ended.said;
  EXPECT_EQ(times("steered again", ended.said), 2u) << ended.said;
}

TEST_F(Shim, AServiceThatDoesNotAnswerKeepsNoProgramFromItsStart) {
  PlayedService silent(folder_ / "socket", false);
  Ended ended;
  const auto took = takes([&] { ended = shell(steered("dlsym 10 50", silent.path())); });
  EXPECT_THAT(ended.said, AllOf(HasSubstr("corun: the service does not answer; this program is not steered\n"), HasSubstr("done 10")));
  EXPECT_LT(took, limits::kFirstAnswer + kSlack);
  EXPECT_GE(took, limits::kFirstAnswer) << "it may take its time";
}

TEST_F(Shim, AServiceThatTakesNoConnectionKeepsNoProgramFromItsStart) {
  const std::string path = (folder_ / "full").string();
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  const int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);  // whom it does not take either
  ASSERT_EQ(connect(first, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  Ended ended;
  const auto took = takes([&] { ended = shell(steered("dlsym 10 50", path)); });
  EXPECT_THAT(ended.said, AllOf(HasSubstr("the service does not answer"), HasSubstr("done 10")));
  EXPECT_LT(took, limits::kFirstAnswer + kSlack);
  close(first), close(listener);
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
    const Ended ended = shell(steered("dlsym 10 50", path));
    EXPECT_THAT(ended.said, AllOf(HasSubstr("corun: the service refused: it is of another version; "), HasSubstr("done 10"))) << more;
    service.join();
    close(listener);
  }
}

TEST_F(Shim, TermsThatAServiceHasBegunToWriteAndNeverEndsKeepNoLaunch) {
  PlayedService half(folder_ / "socket", true, [](live::Memory& m) { m.version = 1; });
  Ended ended;
  const auto took = takes([&] { ended = shell(steered("dlsym 100 50 10", half.path())); });
  EXPECT_THAT(ended.said, HasSubstr("done 100"));
  EXPECT_LT(took, limits::kStandsStill + kSlack);
}

TEST_F(Shim, AServiceThatHearsNothingHoldsNobodyWhoseWordsFindNoRoom) {
  PlayedService deaf(folder_ / "socket", true, [](live::Memory& m) { m.gate = live::Gate::asks, m.in_flight = 0, m.said = live::kMessageRing; });
  Ended ended;
  const auto took = takes([&] { ended = shell(steered("dlsym 100 50 10", deaf.path())); });
  EXPECT_THAT(ended.said, AllOf(HasSubstr("the service stands still"), HasSubstr("done 100")));
  EXPECT_LT(took, limits::kStandsStill + kSlack);
}

// It lets the program go and then writes, as one that was stopped in the middle of a grant.
TEST_F(Shim, WhatAServiceWritesAfterItsProgramHasGoneOnHoldsNothing) {
  PlayedService late(folder_ / "socket", true, [](live::Memory& m) { m.gate = live::Gate::asks, m.in_flight = 64; });
  Ended ended;
  std::thread running([&] { ended = shell("timeout 30 " + fmt::format("env {}", steered("dlsym 20 100000", late.path()))); });
  EXPECT_TRUE(comes([&] { return late.memory() != nullptr && late.memory()->words.granted[0] == 20; })) << "nobody else writes it";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  late.memory()->words.granted[0] = 1;
  running.join();
  EXPECT_THAT(ended.said, AllOf(HasSubstr("the service stands still"), HasSubstr("done 20")));
}

TEST_F(Shim, AProgramThatSeesAnotherGpuThanTheServicesIsRefusedAndTold) {
  serve("wait", "--device=00000000:02:00.0");
  const Ended other = shell(joins("dlsym 10 50", "--name one"));
  EXPECT_THAT(other.said, AllOf(HasSubstr("it decides about the GPU at 00000000:02:00.0, which this program does not see"), HasSubstr("done 10")));
  const Ended same = shell("CUDA_VISIBLE_DEVICES=1 " + joins("dlsym 10 50", "--name two"));
  EXPECT_THAT(same.said, AllOf(Not(HasSubstr("corun:")), HasSubstr("done 10")));
}

TEST_F(Shim, OfAProgramsGpusTheServicesIsSteeredWhicheverNumberItHas) {
  serve("wait", "--device=0000:02:00.0");
  const auto unsteered = [&](const std::string& environment) {
    std::string said;
    std::thread running([&] { said = shell(environment + joins("dlsym 300 1000 20", "--name one")).said; });
    std::size_t n = 0, launches = 0;
    comes([&] {
      const nlohmann::json one = program("one");
      if (one.is_object()) n = one["unsteered"], launches = one["launches"];
      return n + launches > 100;
    });
    running.join();
    return std::pair(n, launches);
  };
  EXPECT_EQ(unsteered("CORUN_FAKE_DEVICE=1 ").first, 0u) << "its second, which it uses";
  EXPECT_EQ(unsteered("CORUN_FAKE_DEVICE=0 ").second, 0u) << "it uses its first, which is another";
}

class EachReset : public Shim, public testing::WithParamInterface<const char*> {};

TEST_P(EachReset, NothingOfAContextThatIsResetIsUsedAfterwards) {
  for (const char* policy : {"wait", "priority", "static-split:tpcs=16/50"}) {
    for (const char* in_flight : {"--in-flight=64", "--in-flight=0"}) {
      files::remove(log());
      serve(policy, std::string(policy).starts_with("static") ? "--programs=one,two" : in_flight);
      const Ended ended = shell(joins(fmt::format("{} 20 100 5", GetParam()), "--name one --priority=-5"));
      EXPECT_THAT(ended.said, AllOf(HasSubstr("done 20"), Not(HasSubstr("stale")), Not(HasSubstr("corun:")))) << policy << in_flight;
      EXPECT_EQ(kernels().size(), 20u) << policy;
      EXPECT_TRUE(comes([&] { return state()["programs"].empty(); }));
      end_service(SIGTERM);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ways, EachReset, testing::Values("reset", "reset-graph", "reset-stream"),
                         [](const auto& way) { return std::string(way.param).substr(0, 5) + std::string(way.param).substr(std::min<std::size_t>(6, std::string(way.param).size())); });

// Five launches wait on the GPU behind another's request when the context is reset, after whose end the next five go.
TEST_F(Shim, LaunchesThatAContextTakesWithItHoldNobody) {
  serve("wait");
  std::thread cam([&] { shell(joins("dlsym 1 3000000", "--name cam --class=real_time")); });
  EXPECT_TRUE(comes([&] {
    const nlohmann::json now = program("cam");
    return now.is_object() && now["on_gpu"] == 1;
  }));
  const files::path enough = folder_ / "enough";
  Ended ended;
  std::thread one([&] { ended = shell(joins("reset-running 10 1000 10 " + enough.string(), "--name one")); });
  cam.join();
  EXPECT_TRUE(comes([&] {
    const nlohmann::json now = program("one");
    // Of 10 launches each context takes 5 with it: had they stayed in the books, at least 30 were there.
    return now.is_object() && now["launches"] > 60 && now["on_gpu"].get<int>() + now["waiting"].get<int>() <= 10;
  })) << state().dump();
  std::ofstream(enough) << "\n";
  one.join();
  EXPECT_THAT(ended.said, AllOf(HasSubstr("done "), Not(HasSubstr("stale"))));
  EXPECT_EQ(std::ranges::count(kernels(), "one", &Kernel::program) % 10, 5) << "what waited is gone with its context";
}

TEST_F(Shim, MoreKernelsThanThereAreEntriesAreCountedAndTold) {
  serve("wait");
  const Ended many = shell(joins("shapes 4400 0", "--name one"));
  EXPECT_THAT(many.said, HasSubstr("done 4400"));
  EXPECT_EQ(times("more than 4095 kernels", many.said), 1u) << many.said;
  for (const char* way : {"graphs 5000 1", "modules 5000 1", "shapes 4000 0"})
    EXPECT_THAT(shell(joins(way, "--name one")).said, Not(HasSubstr("more than"))) << way << ": they are gone, or fit";
}

TEST_F(Shim, WhatIsLaunchedWhileAProgramEndsIsLaunchedAsBefore) {
  for (const char* policy : {"wait", "priority"}) {
    files::remove(log());
    serve(policy);
    const Ended ended = shell("MALLOC_PERTURB_=165 " + joins("at-exit 5 50", "--name one --priority=-5"));
    EXPECT_EQ(ended.code, 0) << ended.said;
    EXPECT_THAT(ended.said, HasSubstr("launched at exit")) << policy;
    EXPECT_EQ(kernels().size(), 6u) << policy;
    end_service(SIGTERM);
  }
}

}  // namespace
}  // namespace corun
