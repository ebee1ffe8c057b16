// Does `sim serve` steer programs that know nothing of it, whichever way they come by the driver, and does nothing hang when
// one of the two is gone?  The driver is a fake, a GPU for each process; service, library, sockets and processes are not.
#include <functional>
#include <map>
#include <sstream>

#include "hw/live/recording.h"
#include "sim/backend/forecast.h"
#include "tests/hw/live/live.h"
#include "tests/support/replaced.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

using testing::HasSubstr;

class EachWay : public Live, public testing::WithParamInterface<const char*> {};

TEST_P(EachWay, AProgramThatComesByTheDriverInThisWayAsksForEachLaunch) {
  serve("wait");
  const Ended ended = shell(joins(fmt::format("{} 40 50 10", GetParam()), "--name one --class=real_time") + " & sleep 0.01; wait");
  EXPECT_THAT(ended.said, HasSubstr("done 40"));
  EXPECT_EQ(kernels().size(), 40u);
  end_service(SIGTERM);
  std::ifstream served(folder_ / "served");
  std::stringstream text;
  text << served.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\"waits_for_grants\": true"));
  // A decision for each launch at least: a real-time program's host waits for each.
  const std::size_t decided = text.str().find("\"decisions\": ");
  ASSERT_NE(decided, std::string::npos) << text.str();
  EXPECT_GE(std::stoi(text.str().substr(decided + 13)), 40);
}
INSTANTIATE_TEST_SUITE_P(Ways, EachWay, testing::Values("linked", "dlsym", "address", "address-of-thread", "address-of-11", "context", "graph", "stream", "later-same"),
                         [](const auto& way) { return replaced(way.param, "-", "_"); });

TEST_F(Live, WhatALaterCudaMeansByANameIsTheDriversAndTheProgramIsToldAtItsEnd) {
  serve("wait");
  const Ended ended = shell(joins("later 3 50", "--name one"));
  EXPECT_THAT(ended.said, testing::AllOf(HasSubstr("done 3"), HasSubstr("not steered, as they are of a later CUDA than 13.0: cuLaunchKernel 1 time\n")));
  EXPECT_EQ(kernels().size(), 3u);
  EXPECT_THAT(shell(joins("later-same 3 50", "--name one")).said, testing::Not(HasSubstr("later CUDA"))) << "the driver means the same by both";
}

TEST_F(Live, CallsThatLaunchButAreNotSteeredAreCountedAndToldAtTheProgramsEnd) {
  serve("wait");
  const Ended ended = shell(joins("counted 3 50", "--name one"));
  EXPECT_THAT(ended.said, testing::AllOf(HasSubstr("done 3"), HasSubstr("corun: not steered: cuLaunchGrid 3 times\n")));
  EXPECT_EQ(kernels().size(), 3u);
  EXPECT_THAT(shell(joins("dlsym 3 50", "--name one")).said, testing::Not(HasSubstr("not steered")));
}

// The library's dlsym is the first there is, and behind the program: behind the library is the C library's.
TEST_F(Live, WhatAProgramLooksUpBehindItselfIsLookedUpBehindItAndNotBehindTheLibrary) {
  serve("fcfs");
  EXPECT_EQ(shell(joins("next 0 0")).said, "the first\n");
}

TEST_F(Live, ALaunchOfAnImmediatePolicyIsCountedAndGoesAtOnce) {
  serve("fcfs");
  const std::string there = joins("dlsym 30 100 30", "--name one");
  EXPECT_EQ(shell(there + " & " + fmt::format("sleep 0.1; wait")).code, 0);
  EXPECT_EQ(kernels().size(), 30u);
  EXPECT_EQ(state()["decisions"], 1) << "the standing one";
}

TEST_F(Live, TopSaysWhoIsThereAndWhatItDoes) {
  serve("wait");
  const auto top = [&] { return shell(fmt::format("{} top --at {}", sim(), at())).said; };
  EXPECT_THAT(top(), HasSubstr("no program has joined"));
  std::thread running([&] { shell(joins("dlsym 300 1000 20", "--name cam --class=real_time")); });
  EXPECT_TRUE(comes([&] { return top().find("cam") != std::string::npos; }));
  EXPECT_THAT(top(), testing::AllOf(HasSubstr("policy wait"), HasSubstr("real_time")));
  running.join();
}

TEST_F(Live, WhatIsLaunchedIntoAStreamThatIsCapturedIsNotHeld) {
  serve("wait");
  const Ended ended = shell(joins("capture 10 100", "--name one"));
  EXPECT_THAT(ended.said, HasSubstr("done 10"));
  EXPECT_EQ(kernels().size(), 10u) << "of a graph's ten launches, and nothing of its capture";
}

// None: the driver's own answer.
constexpr std::pair<const char*, int> kCaptures[] = {
    {"capture", 0}, {"capture-first", 0}, {"capture-to-graph", 0}, {"capture-of-thread", 0}, {"capture-to-graph-of-thread", 0},
    {"capture-asked-for", 0}, {"capture-forked", 0}, {"capture-beside-thread", 0}, {"capture-beside-legacy", 0}, {"capture-forked-unjoined", 904}};

class EachCapture : public Live, public testing::WithParamInterface<std::pair<const char*, int>> {};

// 904: CUDA_ERROR_STREAM_CAPTURE_UNJOINED, which is the program's own.
TEST_P(EachCapture, EndsAsWithoutTheLibraryAndItsGraphIsSteered) {
  const auto [way, error] = GetParam();
  const std::size_t alone = std::string(way) == "capture-beside-thread" ? 1 : 0;
  for (const char* policy : {"wait", "reef-n", "fcfs", "priority", "static-split:tpcs=16/50"}) {
    files::remove(log());
    serve(policy, "--programs=one,two");
    const Ended ended = shell(joins(fmt::format("{} 10 100", way), "--name one --priority=-5"));
    EXPECT_THAT(ended.said, testing::AllOf(HasSubstr(fmt::format("captured: {}\n", error)), HasSubstr("done 10"))) << policy;
    EXPECT_THAT(ended.said, testing::Not(testing::AnyOf(HasSubstr("refused"), HasSubstr("taken"), HasSubstr("another graph")))) << policy;
    EXPECT_EQ(kernels().size(), 10u + alone) << "of a graph's ten launches, and nothing of its capture, under " << policy;
    if (error == 0) {
      std::ifstream graphs(log() + ".edges");
      int nodes = 0;
      graphs >> nodes;
      EXPECT_EQ(nodes, 5) << "and none of the library's, under " << policy;
      files::remove(log() + ".edges");
    }
    end_service(SIGTERM);
  }
}
INSTANTIATE_TEST_SUITE_P(Ways, EachCapture, testing::ValuesIn(kCaptures), [](const auto& way) { return replaced(way.param.first, "-", "_"); });

TEST_F(Live, APriorityGoesWithLaunchesStreamsAndGraphs) {
  serve("priority");
  for (const char* way : {"dlsym", "stream", "graph"}) shell(joins(fmt::format("{} 3 10 3", way), fmt::format("--name {} --priority=-5", way)));
  shell(joins("dlsym 3 10", "--name plain"));
  std::map<std::string, std::vector<int>> priorities;
  for (const Kernel& k : kernels()) priorities[k.program].push_back(k.priority);
  for (const char* way : {"dlsym", "stream", "graph"}) EXPECT_THAT(priorities[way], testing::ElementsAre(-5, -5, -5)) << way;
  EXPECT_THAT(priorities["plain"], testing::ElementsAre(0, 0, 0));
}

TEST_F(Live, AMaskConfinesLaunchesAndTheGraphsThatAreCapturedUnderIt) {
  serve("static-split:tpcs=16/50", "--programs=cam,work");
  for (const char* way : {"dlsym", "stream", "capture"}) {
    std::filesystem::remove(log());
    const Ended ended = shell(joins(fmt::format("{} 3 10 3", way), "--name cam") + " & " +
                              joins(fmt::format("{} 3 10 3", way), "--name work") + "; wait");
    std::map<std::string, std::vector<int>> groups;
    for (const Kernel& k : kernels()) groups[k.program].push_back(k.groups);
    EXPECT_THAT(groups["cam"], testing::ElementsAre(0x000f, 0x000f, 0x000f)) << way << ended.said;
    EXPECT_THAT(groups["work"], testing::ElementsAre(0xfff0, 0xfff0, 0xfff0)) << way << ended.said;
  }
}

TEST_F(Live, TopSaysHowManySmsTheDriversGroupsGiveAProgram) {
  serve("tpc-mask:split=even,tpcs=22/44", "--programs=cam,work");
  std::thread running([&] { shell(joins("stream 300 1000 20", "--name cam")); });
  EXPECT_TRUE(comes([&] { const nlohmann::json cam = program("cam"); return cam.is_object() && cam.value("sms", 0) == 48; })) << "half of the sixth group has its first TPC: " << state().dump();
  EXPECT_THAT(shell(fmt::format("{} top --at {}", sim(), at())).said, HasSubstr("cam runs on 48 SMs"));
  running.join();
}

TEST_F(Live, AKernelCapturedUnderAMaskDependsOnTheOneBeforeIt) {
  serve("static-split:tpcs=16/50", "--programs=cam,work");
  const Ended ended = shell(joins("capture 1 10", "--name cam"));
  std::ifstream graphs(log() + ".edges");
  int nodes = 0, edges = 0;
  graphs >> nodes >> edges;
  EXPECT_EQ(nodes, 5) << ended.said;
  EXPECT_EQ(edges, 4) << "and not on all before it, each of which the GPU would look after";
}

TEST_F(Live, AProgramAloneUnderASplitThatNamesTwoIsNotToldOfItsMaskUntilBothAreKnown) {
  serve("static-split:tpcs=16/50");
  shell(joins("dlsym 3 10 3", "--name cam"));
  for (const Kernel& k : kernels()) EXPECT_EQ(k.groups, 0xffff) << "the policy does not fit one program, so that it runs as it comes";
  EXPECT_THAT(state().dump(), HasSubstr("tpcs"));
}

class EachLimitInFlight : public Live, public testing::WithParamInterface<const char*> {};

TEST_P(EachLimitInFlight, NoBestEffortLaunchBeginsWhileARealTimeRequestIsUnderWay) {
  serve("wait", fmt::format("--in-flight={}", GetParam()));
  // The real-time program's requests are of 20 launches of 1 ms each, the other's launches of 1 ms.
  const Ended ended = shell(joins("dlsym 300 1000 300", "--name work") + " & sleep 0.1; " +
                            joins("dlsym 60 1000 20", "--name cam --class=real_time") + "; wait");
  EXPECT_THAT(ended.said, HasSubstr("done 300"));
  EXPECT_THAT(ended.said, HasSubstr("done 60"));
  std::vector<Kernel> cam, work;
  for (const Kernel& k : kernels()) (k.program == "cam" ? cam : work).push_back(k);
  ASSERT_EQ(cam.size(), 60u);
  ASSERT_EQ(work.size(), 300u);
  for (std::size_t request = 0; request < 3; ++request) {
    const long long begin = cam[20 * request].begin, end = cam[20 * request + 19].end;
    EXPECT_EQ(std::ranges::count_if(work, [&](const Kernel& k) { return k.begin > begin && k.begin < end; }), 0)
        << "within request " << request;
  }
}

INSTANTIATE_TEST_SUITE_P(InFlight, EachLimitInFlight, testing::Values("0", "1", "64"), [](const auto& limit) { return std::string(limit.param); });

class HeldBack : public Live {
 protected:
  /// `way` launches 12 times beside a real-time launch of 1 s, which is on the GPU before.  On a busy machine the program takes half of it to begin.
  Ended beside(const std::string& way, const std::string& environment = {}, const std::function<void()>& then = [] {}, int us = 1000) {
    std::thread cam([&] { shell(joins("dlsym 1 1000000", "--name cam --class=real_time")); });
    EXPECT_TRUE(comes([&] {
      const nlohmann::json now = program("cam");
      return !now.is_null() && now["on_gpu"] == 1;
    }));
    std::thread next([&] { then(); });
    Ended work = shell(environment + joins(fmt::format("{} 12 {}", way, us), "--name work"));
    cam.join(), next.join();
    std::vector<Kernel> all = kernels();
    std::ranges::sort(all, {}, &Kernel::begin);
    begun_in_it_ = 0;
    for (const Kernel& k : all) begun_in_it_ += k.program == "work" && k.begin < cam_end(all);
    of_work_ = std::ranges::count(all, "work", &Kernel::program);
    return work;
  }
  static long long cam_end(const std::vector<Kernel>& all) {
    const auto cam = std::ranges::find(all, "cam", &Kernel::program);
    return cam != all.end() ? cam->end : 0;
  }
  std::ptrdiff_t begun_in_it_ = 0, of_work_ = 0;  // launches of the work
};

TEST_F(HeldBack, LaunchesOnASecondDeviceArePassedThroughAndCounted) {
  serve("wait");
  std::size_t unsteered = 0;
  const Ended ended = beside("dlsym", "CORUN_FAKE_DEVICE=1 ", [&] {
    comes([&] {
      const nlohmann::json now = program("work");
      if (!now.is_null()) unsteered = std::max(unsteered, now["unsteered"].get<std::size_t>());
      return unsteered == 12;
    });
  }, kLonger * 15'000);
  EXPECT_THAT(ended.said, HasSubstr("done 12"));
  EXPECT_GT(begun_in_it_, 0);
  EXPECT_EQ(unsteered, 12u);
}

TEST_F(HeldBack, OfTwoDevicesTheFirstIsSteered) {
  serve("wait");
  EXPECT_THAT(beside("dlsym", "CORUN_FAKE_DEVICE=0 ").said, HasSubstr("done 12"));
  EXPECT_EQ(of_work_, 12);
  EXPECT_EQ(begun_in_it_, 0);
}

class EachWait : public Live, public testing::WithParamInterface<const char*> {};

TEST_P(EachWait, ARequestEndsWhereItsHostWaits) {
  serve("wait");
  std::string lasts;
  std::thread running([&] { lasts = shell(joins(fmt::format("{} 400 1000 10", GetParam()), "--name cam --class=real_time")).said; });
  // Its next launch follows each wait sooner than a request ends for want of launches, but for what the machine adds.
  EXPECT_TRUE(comes([&] {
    const nlohmann::json cam = program("cam");
    return !cam.is_null() && cam["requests"] >= 20;
  }));
  running.join();
  EXPECT_THAT(lasts, HasSubstr("done 400"));
}
INSTANTIATE_TEST_SUITE_P(Ways, EachWait, testing::Values("dlsym", "address", "context"), [](const auto& way) { return std::string(way.param); });

TEST_F(Live, AnotherUsersProgramIsRefused) {
  serve("wait");
  if (geteuid() != 0 || shell("setpriv --reuid=65534 --clear-groups true").code != 0) GTEST_SKIP() << "nobody else can be played here";
  const std::string asks = fmt::format("setpriv --reuid=65534 --clear-groups {} top --at {}", sim(), at());
  EXPECT_THAT(shell(asks).said, HasSubstr("no folder of yours")) << "the folder is not to be entered";
  for (const auto& path : {folder_, files::path(at()), files::path(at() + "/socket")}) files::permissions(path, files::perms::all);
  const Ended ended = shell(asks);
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.said, HasSubstr("belongs to another user"));
}

TEST_F(Live, AProgramWhoseServiceIsKilledGoesOnUnsteered) {
  serve("wait");
  std::thread killer([&] {
    comes([&] { return !kernels().empty(); });
    kill(service_, SIGKILL);
  });
  const Ended ended = shell(joins("dlsym 400 500 50", "--name one"));
  killer.join();
  EXPECT_THAT(ended.said, HasSubstr("done 400"));
  EXPECT_THAT(ended.said, HasSubstr("the service has ended"));
  EXPECT_EQ(kernels().size(), 400u);
}

TEST_F(Live, AProgramThatIsKilledIsGoneFromTheService) {
  serve("wait");
  const Ended ended =
      shell(joins("dlsym 100000 1000 20", "--name cam --class=real_time") + " & P=$!; " +
            fmt::format("until {} top --at {} | grep -q cam; do sleep 0.01; done; ", sim(), at()) + "sleep 0.05; kill -9 $P; " +
            joins("dlsym 20 100", "--name work"));
  EXPECT_THAT(ended.said, HasSubstr("done 20"));
  EXPECT_TRUE(comes([&] { return state()["programs"].empty(); }));
}

TEST_F(Live, MoreMemoryThanIsLeftIsRefusedByTheDriverAndTheProgramGoesOnSteered) {
  serve("wait");
  const Ended ended = shell(joins("allocate 10 50", "--name one"));
  EXPECT_THAT(ended.said, HasSubstr("allocated 0 2\n")) << "out of memory, as the driver says it";
  EXPECT_THAT(ended.said, HasSubstr("done 10"));
  EXPECT_EQ(kernels().size(), 10u);
}

TEST_F(Live, APolicyThatLooksAheadSteersProgramsThatNobodyKnows) {
  for (const char* policy : {"lookahead", "lookahead:ways=now/hold,budget_events=500"}) {
    files::remove(log());
    serve(policy);
    const Ended ended = shell(joins("two-streams 100 500 10", "--name work") + " & " + joins("graph 20 2000 5", "--name cam --class=real_time") + "; wait");
    EXPECT_THAT(ended.said, testing::AllOf(HasSubstr("done 100"), HasSubstr("done 20"), testing::Not(HasSubstr("not steered")))) << policy;
    EXPECT_EQ(kernels().size(), 120u) << policy;
    end_service(SIGTERM);
  }
}

TEST_F(Live, AForkedChildIsNotSteered) {
  serve("wait");
  const Ended ended = shell(joins("fork 10 50", "--name one"));
  EXPECT_THAT(ended.said, HasSubstr("child 0"));
  EXPECT_THAT(ended.said, HasSubstr("done 10"));
}

TEST_F(Live, ALaunchThatTheDriverRefusesHoldsNothingUp) {
  serve("wait");
  const Ended ended = shell(joins("bad 10 50", "--name one"));
  EXPECT_THAT(ended.said, HasSubstr("refused"));
  EXPECT_THAT(ended.said, HasSubstr("done 10"));
  EXPECT_EQ(kernels().size(), 9u);
}

TEST_F(Live, ManyConnectsLeaveNothingBehind) {
  serve("wait");
  const auto open = [&] {
    return std::distance(files::directory_iterator(fmt::format("/proc/{}/fd", service_)), files::directory_iterator());
  };
  shell(joins("dlsym 2 10"));
  ASSERT_TRUE(comes([&] { return state()["programs"].empty(); }));
  const auto before = open();
  for (int i = 0; i < 24; ++i) EXPECT_EQ(shell(joins("dlsym 2 10")).code, 0);
  EXPECT_TRUE(comes([&] { return state()["programs"].empty(); }));
  EXPECT_EQ(open(), before);
  end_service(SIGINT);
  EXPECT_FALSE(files::exists(at())) << "the service's folder is gone with it";
}

TEST_F(Live, WithoutAServiceAProgramIsNotStarted) {
  const Ended ended = shell(joins("dlsym 1 10"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.said, HasSubstr("no service is there"));
  files::create_directories(at());
  files::permissions(at(), files::perms::owner_all);
  std::ofstream(at() + "/environment") << "CUDA_MPS_LOG_DIRECTORY=log\n";
  files::create_directories(at() + "/log");
  const Ended unnamed = shell(joins("dlsym 1 10"));
  EXPECT_EQ(unnamed.code, 2) << "a file that does not name the service's socket";
  EXPECT_THAT(unnamed.said, HasSubstr("no service is there"));
}

TEST_F(Live, ASecondServiceInTheSameFolderIsRefused) {
  serve("wait");
  const Ended ended = shell(fmt::format("{} serve --gpu=h200 --no-mps --at {}", sim(), at()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.said, HasSubstr("another service is there"));
}

TEST_F(Live, APolicyThatNeedsMoreIsRefusedBeforeAnythingRuns) {
  const Ended ended = shell(fmt::format("{} serve --policy=slate --gpu=h200 --no-mps --at {}", sim(), at()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.said, HasSubstr("sm_quota"));
  EXPECT_FALSE(files::exists(at()));
}

const char* const kDaemon = "#!/bin/sh\n[ \"$1\" = -f ] || exit 1\necho $$ > {0}/pid\n: > $CUDA_MPS_PIPE_DIRECTORY/control\nexec sleep 60\n";

TEST_F(Live, WhereTheMpsServersDaemonEndsProgramsThatAreThereGoOnSteeredAndNoFurtherOneJoins) {
  const files::path control = folder_ / "nvidia-cuda-mps-control";
  std::ofstream(control) << fmt::format(fmt::runtime(kDaemon), folder_.string());
  files::permissions(control, files::perms::owner_all);
  std::thread program([&] {
    comes([&] { return files::exists(at() + "/environment"); });
    const Ended ended = shell(joins("dlsym 3000 1000 20", "--name one"));
    EXPECT_THAT(ended.said, testing::AllOf(testing::Not(HasSubstr("the service has ended")), HasSubstr("done 3000")));
  });
  std::thread killer([&] {
    EXPECT_TRUE(comes([&] { return kernels().size() > 20; }));
    shell(fmt::format("kill -9 $(cat {})", (folder_ / "pid").string()));
    EXPECT_TRUE(comes([&] { return !files::exists(at() + "/environment"); }));
    EXPECT_LT(kernels().size(), 3000u) << "while the program runs";
    EXPECT_EQ(program_count(), 1u);
    const Ended late = shell(joins("dlsym 1 10"));
    EXPECT_EQ(late.code, 2);
    EXPECT_THAT(late.said, HasSubstr("no service is there"));
  });
  const Ended service = shell(fmt::format("PATH={}:$PATH {} serve --policy=wait --gpu=h200 --at {}", folder_.string(), sim(), at()));
  killer.join(), program.join();
  EXPECT_EQ(service.code, 2);
  EXPECT_THAT(service.said, HasSubstr("the MPS server's control daemon has ended"));
  EXPECT_EQ(kernels().size(), 3000u);
}

TEST_F(Live, AProgramUsesTheMpsServerOfTheServicesFolder) {
  const files::path control = folder_ / "nvidia-cuda-mps-control";
  std::ofstream(control) << fmt::format(fmt::runtime(kDaemon), folder_.string());
  files::permissions(control, files::perms::owner_all);
  service_ = fork();
  if (service_ == 0) {
    setenv("PATH", (folder_.string() + ":" + std::getenv("PATH")).c_str(), 1);
    (void)!freopen("/dev/null", "w", stderr), (void)!freopen("/dev/null", "w", stdout);
    execl(sim().c_str(), "sim", "serve", "--policy=wait", "--gpu=h200", "--at", at().c_str(), nullptr);
    _exit(127);
  }
  ASSERT_TRUE(comes([&] { return files::exists(at() + "/environment"); }));
  const std::string said = shell(fmt::format("{} run --at {} -- sh -c 'echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY; test -p $CUDA_MPS_PIPE_DIRECTORY/control || test -e $CUDA_MPS_PIPE_DIRECTORY/control && echo there'", sim(), at())).said;
  EXPECT_THAT(said, testing::AllOf(HasSubstr(at() + "/mps-"), HasSubstr("/pipe "), HasSubstr("/log\n"), HasSubstr("there")));
}

TEST_F(Live, WhoJoinsAndLeavesIsSaidWithJournaldsLevels) {
  serve("wait");
  shell(joins("dlsym 2 10", "--name one --class=real_time"));
  shell(joins("dlsym 2 10", "--name two"));
  ASSERT_TRUE(comes([&] { return state()["programs"].empty(); }));
  end_service(SIGTERM);
  std::ifstream in(folder_ / "served");
  const std::string served(std::istreambuf_iterator<char>(in), {});
  EXPECT_THAT(served, testing::ContainsRegex("<5>wait on h200: sim run .*\n<6>one joins: client 0, pid [0-9]+, real time\n<6>one has left: client 0, pid [0-9]+\n<6>two joins: client 1, .*best effort\n<6>two has left"));
}

TEST_F(Live, AServiceWhoseErrorsNobodyTakesServes) {
  // The reader of its standard error is gone, and standard output is a full disk.
  const std::string served = fmt::format("( {} serve --policy=wait --gpu=h200 --no-mps --at {} 2>&1 >/dev/full & echo $! > {}/pid; wait $!; echo $? > {}/code ) | true", sim(), at(), folder_.string(), folder_.string());
  std::thread service([&] { shell(served); });
  ASSERT_TRUE(comes([&] { return files::exists(at() + "/environment"); }));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(shell(joins("dlsym 3 10")).said, testing::AllOf(HasSubstr("done 3"), testing::Not(HasSubstr("not steered"))));
  shell(fmt::format("kill $(cat {}/pid)", folder_.string()));
  service.join();
  EXPECT_TRUE(comes([&] { return files::exists(folder_ / "code"); }));
  std::ifstream in(folder_ / "code");
  int code = -1;
  EXPECT_TRUE(in >> code);
  EXPECT_EQ(code, 0);
}

TEST_F(Live, AMetricsFileThatCannotBeWrittenAnyMoreEndsNothing) {
  files::create_directory(folder_ / "metrics");
  const std::string metrics = (folder_ / "metrics/corun.prom").string();
  serve("wait", "--metrics=" + metrics);
  ASSERT_TRUE(files::exists(metrics));
  files::remove_all(folder_ / "metrics");
  const auto served = [&] {
    std::ifstream in(folder_ / "served");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_TRUE(comes([&] { return served().find("cannot be written") != std::string::npos; }));
  EXPECT_THAT(shell(joins("dlsym 10 50", "--name one")).said, testing::AllOf(HasSubstr("done 10"), testing::Not(HasSubstr("not steered"))));
  files::create_directory(folder_ / "metrics");
  EXPECT_TRUE(comes([&] { return files::exists(metrics); }));
  EXPECT_TRUE(comes([&] { return served().find("written again") != std::string::npos; }));
}

TEST_F(Live, AMetricsFileThatCouldNeverBeWrittenIsRefusedBeforeAnythingRuns) {
  const Ended ended = shell(fmt::format("{} serve --gpu=h200 --no-mps --at {} --metrics={}/none/corun.prom", sim(), at(), folder_.string()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.said, HasSubstr("cannot be written"));
  EXPECT_FALSE(files::exists(at()));
}

TEST_F(Live, WhatWasDecidedOfRunningProgramsIsDecidedAgainOfTheRecording) {
  for (const char* policy : {"wait", "wait:beside=on,backfill=on", "priority", "lookahead:ways=now/hold,budget_events=500"}) {
    const std::string file = (folder_ / "recorded.jsonl").string();
    serve(policy, "--record=" + file);
    shell(joins("two-streams 200 300", "--name work") + " & sleep 0.05; " + joins("dlsym 60 500 10", "--name cam --class=real_time --priority=-5") +
          "; " + joins("bad 10 50", "--name late") + "; wait");
    end_service(SIGTERM);
    const hw::Replayed r = live::replay(file, read_gpu("h200"), [](const Gpu& gpu, const Requirements& needed) { return sim::make_forecast(gpu, needed); });
    EXPECT_EQ(r.difference, "") << policy;
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const bool asks = std::string(policy) != "priority";
    EXPECT_THAT(text, HasSubstr(asks ? "\"asked\"" : "\"standing\"")) << policy;
    if (asks) {
      EXPECT_GE(r.decisions, 270u) << policy << ": one for each launch";
    }
    EXPECT_EQ(text.find("\"foretold\"") != std::string::npos, std::string(policy).starts_with("lookahead")) << policy;
  }
}

TEST_F(Live, AServiceThatIsKilledLeavesWhatItHasRecorded) {
  const std::string file = (folder_ / "recorded.jsonl").string();
  serve("wait", "--record=" + file);
  shell(joins("two-streams 200 100", "--name work"));
  ASSERT_TRUE(comes([&] { return state()["programs"].empty(); }));
  EXPECT_TRUE(comes([&] { return shell(fmt::format("grep -c leave {}", file)).said == "1\n"; }));
  end_service(SIGKILL);
  const hw::Replayed r = live::replay(file, read_gpu("h200"));
  EXPECT_THAT(r.difference, testing::AnyOf("", HasSubstr("the recording ends before")));
  EXPECT_GE(r.decisions, 200u);
}

TEST_F(Live, ARecordingThatCannotBeWrittenAnyMoreEndsNothing) {
  serve("wait", "--record=/dev/full");
  EXPECT_THAT(shell(joins("dlsym 10 50", "--name one")).said, testing::AllOf(HasSubstr("done 10"), testing::Not(HasSubstr("not steered"))));
  EXPECT_TRUE(comes([&] { return shell(fmt::format("cat {}/served", folder_.string())).said.find("<4>/dev/full: nothing more is written") != std::string::npos; }));
  EXPECT_THAT(shell(joins("dlsym 10 50", "--name one")).said, HasSubstr("done 10"));
}

TEST_F(Live, ARecordingThatCannotBeWrittenIsRefusedBeforeAnythingRuns) {
  const Ended ended = shell(fmt::format("{} serve --gpu=h200 --no-mps --at {} --record={}/none/r.jsonl", sim(), at(), folder_.string()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.said, HasSubstr("cannot be written"));
}

TEST_F(Live, WhatIsServedIsWrittenForPrometheus) {
  service_ = fork();
  const std::string metrics = (folder_ / "corun.prom").string();
  if (service_ == 0) {
    freopen("/dev/null", "w", stderr);
    freopen("/dev/null", "w", stdout);
    execl(sim().c_str(), "sim", "serve", "--policy=fcfs", "--gpu=h200", "--no-mps", "--at", at().c_str(), "--metrics", metrics.c_str(), nullptr);
    _exit(127);
  }
  ASSERT_TRUE(comes([&] { return files::exists(at() + "/environment"); }));
  std::thread running([&] { shell(joins("dlsym 2000 1000 20", "--name one")); });
  EXPECT_TRUE(comes([&] {
    std::ifstream in(metrics);
    std::stringstream text;
    text << in.rdbuf();
    return text.str().find("corun_launches_total{program=\"one\",client=\"0\"}") != std::string::npos;
  }));
  running.join();
}

}  // namespace
}  // namespace corun
