// Does `sim serve` steer programs that know nothing of it, whichever way they come by the driver, and does nothing hang when
// one of the two is gone?  The driver is a fake, a GPU for each process; service, library, sockets and processes are not.
#include <map>

#include "hw/live/beside.h"
#include "hw/live/recording.h"
#include "sim/forecast/forecast.h"
#include "tests/hw/live/live.h"
#include "tests/support/replaced.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

using testing::HasSubstr;

class EachWay : public Live, public testing::WithParamInterface<const char*> {};

TEST_P(EachWay, AProgramThatComesByTheDriverInThisWayAsksForEachLaunchAndItsWaitsAreHeard) {
  const files::path file = folder_ / "recorded.jsonl";
  serve("wait", "--record=" + file.string());
  const Ran ended = shell(joins(fmt::format("{} 40 50 10", GetParam()), "--name one --class=real_time"));
  EXPECT_THAT(ended.out, HasSubstr("done 40"));
  EXPECT_EQ(kernels().size(), 40u);
  end_service(SIGTERM);
  const std::string text = served();
  EXPECT_THAT(text, HasSubstr("\"waits_for_grants\": true"));
  // A decision for each launch at least: a real-time program's host waits for each.
  const std::size_t decided = text.find("\"decisions\": ");
  ASSERT_NE(decided, std::string::npos) << text;
  EXPECT_GE(std::stoi(text.substr(decided + 13)), 40);
  const std::string recorded = text_of(file);
  EXPECT_GE(times("\"waits\"", recorded), 4u) << recorded;
}
INSTANTIATE_TEST_SUITE_P(Ways, EachWay, testing::Values("linked", "dlsym", "address", "address-of-thread", "address-of-11", "context", "graph", "stream", "later-same"),
                         [](const auto& way) { return replaced(way.param, "-", "_"); });

TEST_F(Live, WhatALaterCudaMeansByANameIsTheDriversAndTheProgramIsToldAtItsEnd) {
  serve("wait");
  const Ran ended = shell(joins("later 3 50", "--name one"));
  EXPECT_THAT(ended.out, testing::AllOf(HasSubstr("done 3"), HasSubstr("not steered, as they are of a later CUDA than 13.0: cuLaunchKernel 1 time\n")));
  EXPECT_EQ(kernels().size(), 3u);
  EXPECT_THAT(shell(joins("later-same 3 50", "--name one")).out, testing::Not(HasSubstr("later CUDA"))) << "the driver means the same by both";
}

TEST_F(Live, CallsThatLaunchButAreNotSteeredAreCountedAndToldAtTheProgramsEnd) {
  serve("wait");
  const Ran ended = shell(joins("counted 3 50", "--name one"));
  EXPECT_THAT(ended.out, testing::AllOf(HasSubstr("done 3"), HasSubstr("corun: not steered: cuLaunchGrid 3 times\n")));
  EXPECT_EQ(kernels().size(), 3u);
  EXPECT_THAT(shell(joins("dlsym 3 50", "--name one")).out, testing::Not(HasSubstr("not steered")));
}

// The library's dlsym is the first there is, and behind the program: behind the library is the C library's.
TEST_F(Live, WhatAProgramLooksUpBehindItselfIsLookedUpBehindItAndNotBehindTheLibrary) {
  serve("fcfs");
  EXPECT_EQ(shell(joins("next 0 0")).out, "the first\n");
}

TEST_F(Live, ALaunchOfAnImmediatePolicyIsCountedAndGoesAtOnce) {
  serve("fcfs");
  const std::string there = joins("dlsym 30 100 30", "--name one");
  EXPECT_EQ(shell(there).code, 0);
  EXPECT_EQ(kernels().size(), 30u);
  EXPECT_EQ(state()["decisions"], 1) << "the standing one";
}

TEST_F(Live, TopSaysWhoIsThereAndWhatItDoes) {
  serve("wait");
  const auto top = [&] { return shell(fmt::format("{} top --at {}", sim(), at())).out; };
  EXPECT_THAT(top(), HasSubstr("no program has joined"));
  const Going cam = going("dlsym 20 1000 20", "--name cam --class=real_time");
  EXPECT_TRUE(comes([&] { return program_count() == 1; }));
  EXPECT_THAT(top(), testing::AllOf(HasSubstr("policy wait"), HasSubstr("cam"), HasSubstr("real_time")));
}

TEST_F(Live, WhatIsLaunchedIntoAStreamThatIsCapturedIsNotHeld) {
  serve("wait");
  const Ran ended = shell(joins("capture 10 100", "--name one"));
  EXPECT_THAT(ended.out, HasSubstr("done 10"));
  EXPECT_EQ(kernels().size(), 10u) << "of a graph's ten launches, and nothing of its capture";
}

// None: the driver's own answer.
constexpr std::pair<const char*, int> kCaptures[] = {
    {"capture", 0}, {"capture-first", 0}, {"capture-to-graph", 0}, {"capture-of-thread", 0}, {"capture-to-graph-of-thread", 0},
    {"capture-asked-for", 0}, {"capture-forked", 0}, {"capture-beside-thread", 0}, {"capture-beside-legacy", 0}, {"capture-forked-unjoined", 904}};

class EachCapture : public Live, public testing::WithParamInterface<const char*> {};

// 904: CUDA_ERROR_STREAM_CAPTURE_UNJOINED, which is the program's own.
TEST_P(EachCapture, EndsAsWithoutTheLibraryAndItsGraphIsSteered) {
  serve(GetParam(), "--programs=one,two");
  for (const auto& [way, error] : kCaptures) {
    SCOPED_TRACE(way);
    EXPECT_TRUE(comes([&] { return program_count() == 0; }));
    files::remove(log());
    const std::size_t alone = std::string(way) == "capture-beside-thread" ? 1 : 0;
    const Ran ended = shell(joins(fmt::format("{} 10 100", way), "--name one --priority=-5"));
    EXPECT_THAT(ended.out, testing::AllOf(HasSubstr(fmt::format("captured: {}\n", error)), HasSubstr("done 10")));
    EXPECT_THAT(ended.out, testing::Not(testing::AnyOf(HasSubstr("refused"), HasSubstr("taken"), HasSubstr("another graph"))));
    EXPECT_EQ(kernels().size(), 10u + alone) << "of a graph's ten launches, and nothing of its capture";
    if (error != 0) continue;
    std::ifstream graphs(log() + ".edges");
    int nodes = 0;
    graphs >> nodes;
    EXPECT_EQ(nodes, 5) << "and none of the library's";
    files::remove(log() + ".edges");
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, EachCapture, testing::Values("wait", "priority", "static-split:tpcs=16/50"),
                         [](const auto& policy) { return "number_" + std::to_string(policy.index); });

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
    const Ran ended = shell(joins(fmt::format("{} 3 10 3", way), "--name cam") + " & " +
                              joins(fmt::format("{} 3 10 3", way), "--name work") + "; wait");
    std::map<std::string, std::vector<int>> groups;
    for (const Kernel& k : kernels()) groups[k.program].push_back(k.groups);
    EXPECT_THAT(groups["cam"], testing::ElementsAre(0x000f, 0x000f, 0x000f)) << way << ended.out;
    EXPECT_THAT(groups["work"], testing::ElementsAre(0xfff0, 0xfff0, 0xfff0)) << way << ended.out;
  }
}

TEST_F(Live, TopSaysHowManySmsTheDriversGroupsGiveAProgram) {
  serve("tpc-mask:split=even,tpcs=22/44", "--programs=cam,work");
  const Going running = going("stream 20 1000 20", "--name cam");
  EXPECT_TRUE(comes([&] { const nlohmann::json cam = program("cam"); return cam.is_object() && cam.value("sms", 0) == 48; })) << "half of the sixth group has its first TPC: " << state().dump();
  EXPECT_THAT(shell(fmt::format("{} top --at {}", sim(), at())).out, HasSubstr("cam runs on 48 SMs"));
}

TEST_F(Live, AKernelCapturedUnderAMaskDependsOnTheOneBeforeIt) {
  serve("static-split:tpcs=16/50", "--programs=cam,work");
  const Ran ended = shell(joins("capture 1 10", "--name cam"));
  std::ifstream graphs(log() + ".edges");
  int nodes = 0, edges = 0;
  graphs >> nodes >> edges;
  EXPECT_EQ(nodes, 5) << ended.out;
  EXPECT_EQ(edges, 4) << "and not on all before it, each of which the GPU would look after";
}

TEST_F(Live, AProgramAloneUnderASplitThatNamesTwoIsNotToldOfItsMaskUntilBothAreKnown) {
  serve("static-split:tpcs=16/50");
  shell(joins("dlsym 3 10 3", "--name cam"));
  for (const Kernel& k : kernels()) EXPECT_EQ(k.groups, 0xffff) << "the policy does not fit one program, so that it runs as it comes";
  EXPECT_THAT(state().dump(), HasSubstr("tpcs"));
}

TEST_F(Live, AnotherUsersProgramIsRefused) {
  serve("wait");
  if (geteuid() != 0 || shell("setpriv --reuid=65534 --clear-groups true").code != 0) GTEST_SKIP() << "nobody else can be played here";
  const std::string asks = fmt::format("setpriv --reuid=65534 --clear-groups {} top --at {}", sim(), at());
  EXPECT_THAT(shell(asks).out, HasSubstr("no folder of yours")) << "the folder is not to be entered";
  for (const auto& path : {folder_, files::path(at()), files::path(at() + "/socket")}) files::permissions(path, files::perms::all);
  const Ran ended = shell(asks);
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("belongs to another user"));
}

TEST_F(Live, AProgramWhoseServiceIsKilledGoesOnUnsteered) {
  serve("wait");
  Going one = going("dlsym 50 500 50", "--name one");
  EXPECT_TRUE(comes([&] { return !kernels().empty(); }));
  end_service(SIGKILL);
  const std::size_t before = kernels().size();
  EXPECT_TRUE(comes([&] { return kernels().size() > before + 100; }));
  one.end();
  EXPECT_THAT(one.end().out, testing::AllOf(HasSubstr("the service has ended"), HasSubstr(fmt::format("done {}\n", kernels().size()))));
}

TEST_F(Live, MoreMemoryThanIsLeftIsRefusedByTheDriverAndTheProgramGoesOnSteered) {
  serve("wait");
  const Ran ended = shell(joins("allocate 10 50", "--name one"));
  EXPECT_THAT(ended.out, HasSubstr("allocated 0 2\n")) << "out of memory, as the driver says it";
  EXPECT_THAT(ended.out, HasSubstr("done 10"));
  EXPECT_EQ(kernels().size(), 10u);
}

TEST_F(Live, APolicyThatLooksAheadSteersProgramsThatNobodyKnowsAndDecidesAgainOfTheRecording) {
  const std::string file = (folder_ / "recorded.jsonl").string();
  for (const char* policy : {"lookahead", "lookahead:ways=now/hold,budget_events=500"}) {
    files::remove(log());
    serve(policy, "--record=" + file);
    Going work = going("two-streams 20 200 10", "--name work");
    EXPECT_TRUE(comes([&] { return !kernels().empty(); }));
    const Ran cam = shell(joins("graph 20 500 5", "--name cam --class=real_time"));
    work.end();
    EXPECT_THAT(cam.out, testing::AllOf(HasSubstr("done 20"), testing::Not(HasSubstr("not steered")))) << policy;
    EXPECT_THAT(work.end().out, testing::AllOf(HasSubstr(fmt::format("done {}\n", kernels().size() - 20)), testing::Not(HasSubstr("not steered")))) << policy;
    end_service(SIGTERM);
    const hw::Replayed r = live::replay(file, read_gpu("h200"), [](const Gpu& gpu, const Requirements& needed) { return std::make_unique<live::ForecastBeside>(sim::make_forecast(gpu, needed)); });
    EXPECT_EQ(r.difference, "") << policy;
    EXPECT_GE(r.decisions, kernels().size()) << policy << ": one for each launch";
    EXPECT_THAT(text_of(file), HasSubstr("\"foretold\"")) << policy;
  }
}

TEST_F(Live, AForkedChildIsNotSteered) {
  serve("wait");
  const Ran ended = shell(joins("fork 10 50", "--name one"));
  EXPECT_THAT(ended.out, HasSubstr("child 0"));
  EXPECT_THAT(ended.out, HasSubstr("done 10"));
}

TEST_F(Live, ALaunchThatTheDriverRefusesHoldsNothingUp) {
  serve("wait");
  const Ran ended = shell(joins("bad 10 50", "--name one"));
  EXPECT_THAT(ended.out, HasSubstr("refused"));
  EXPECT_THAT(ended.out, HasSubstr("done 10"));
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
  for (int i = 0; i < 8; ++i) EXPECT_EQ(shell(joins("dlsym 2 10")).code, 0);
  EXPECT_TRUE(comes([&] { return state()["programs"].empty(); }));
  EXPECT_EQ(open(), before);
  end_service(SIGINT);
  EXPECT_FALSE(files::exists(at())) << "the service's folder is gone with it";
}

TEST_F(Live, WithoutAServiceAProgramIsNotStarted) {
  const Ran ended = shell(joins("dlsym 1 10"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("no service is there"));
  files::create_directories(at());
  files::permissions(at(), files::perms::owner_all);
  std::ofstream(at() + "/environment") << "CUDA_MPS_LOG_DIRECTORY=log\n";
  files::create_directories(at() + "/log");
  const Ran unnamed = shell(joins("dlsym 1 10"));
  EXPECT_EQ(unnamed.code, 2) << "a file that does not name the service's socket";
  EXPECT_THAT(unnamed.out, HasSubstr("no service is there"));
}

TEST_F(Live, ASecondServiceInTheSameFolderIsRefused) {
  serve("wait");
  const Ran ended = shell(fmt::format("{} serve --gpu=h200 --no-mps --at {}", sim(), at()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("another service is there"));
}

TEST_F(Live, APolicyThatNeedsMoreIsRefusedBeforeAnythingRuns) {
  const Ran ended = shell(fmt::format("{} serve --policy=slate --gpu=h200 --no-mps --at {}", sim(), at()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("sm_quota"));
  EXPECT_FALSE(files::exists(at()));
}

class WithMps : public Live {
 protected:
  WithMps() {
    const files::path control = folder_ / "nvidia-cuda-mps-control";
    std::ofstream(control) << "#!/bin/sh\n[ \"$1\" = -f ] || exec kill $(cat " << folder_.string() << "/pid)\necho $$ > " << folder_.string() << "/pid\n: > $CUDA_MPS_PIPE_DIRECTORY/control\nexec sleep 60\n";
    files::permissions(control, files::perms::owner_all);
    runs_ = std::thread([this] { ended_ = shell(fmt::format("PATH={0}:$PATH sh -c 'echo $$ > {0}/serves; exec {1} serve --policy=wait --gpu=h200 --at {2}'", folder_.string(), sim(), at())); });
    EXPECT_TRUE(comes([this] { return is_there(); }));
  }
  ~WithMps() override {
    if (runs_.joinable()) shell(fmt::format("kill $(cat {}/serves)", folder_.string())), runs_.join();
  }
  Ran ended_;
  std::thread runs_;
};

TEST_F(WithMps, WhereTheDaemonEndsProgramsThatAreThereGoOnSteeredAndNoFurtherOneJoins) {
  Going one = going("dlsym 20 1000 20", "--name one");
  EXPECT_TRUE(comes([&] { return kernels().size() > 20; }));
  shell(fmt::format("kill -9 $(cat {})", (folder_ / "pid").string()));
  EXPECT_TRUE(comes([&] { return !is_there(); }));
  EXPECT_EQ(program_count(), 1u);
  const Ran late = shell(joins("dlsym 1 10"));
  EXPECT_EQ(late.code, 2);
  EXPECT_THAT(late.out, HasSubstr("no service is there"));
  one.end();
  EXPECT_THAT(one.end().out, testing::AllOf(testing::Not(HasSubstr("the service has ended")), HasSubstr(fmt::format("done {}\n", kernels().size()))));
  runs_.join();
  EXPECT_EQ(ended_.code, 2);
  EXPECT_THAT(ended_.out, HasSubstr("the MPS server's control daemon has ended"));
}

TEST_F(WithMps, AProgramUsesTheServerOfTheServicesFolder) {
  const std::string said = shell(fmt::format("{} run --at {} -- sh -c 'echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY; test -p $CUDA_MPS_PIPE_DIRECTORY/control || test -e $CUDA_MPS_PIPE_DIRECTORY/control && echo there'", sim(), at())).out;
  EXPECT_THAT(said, testing::AllOf(HasSubstr(at() + "/mps-"), HasSubstr("/pipe "), HasSubstr("/log\n"), HasSubstr("there")));
}

TEST_F(Live, WhoJoinsAndLeavesIsSaidWithJournaldsLevels) {
  serve("wait");
  shell(joins("dlsym 2 10", "--name one --class=real_time"));
  shell(joins("dlsym 2 10", "--name two"));
  ASSERT_TRUE(comes([&] { return state()["programs"].empty(); }));
  end_service(SIGTERM);
  EXPECT_THAT(served(), testing::ContainsRegex("<5>wait on h200: sim run .*\n<6>one joins: client 0, pid [0-9]+, real time\n<6>one has left: client 0, pid [0-9]+\n<6>two joins: client 1, .*best effort\n<6>two has left"));
}

TEST_F(Live, AServiceWhoseErrorsNobodyTakesServes) {
  // The reader of its standard error is gone, and standard output is a full disk.
  const std::string served = fmt::format("( {} serve --policy=wait --gpu=h200 --no-mps --at {} 2>&1 >/dev/full & echo $! > {}/pid; wait $!; echo $? > {}/code ) | true", sim(), at(), folder_.string(), folder_.string());
  std::thread service([&] { shell(served); });
  ASSERT_TRUE(comes([&] { return files::exists(at() + "/environment"); }));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(shell(joins("dlsym 3 10")).out, testing::AllOf(HasSubstr("done 3"), testing::Not(HasSubstr("not steered"))));
  shell(fmt::format("kill $(cat {}/pid)", folder_.string()));
  service.join();
  EXPECT_TRUE(comes([&] { return files::exists(folder_ / "code"); }));
  std::ifstream in(folder_ / "code");
  int code = -1;
  EXPECT_TRUE(in >> code);
  EXPECT_EQ(code, 0);
}

// A second goes by until the service looks at its files.
TEST_F(Live, FilesThatCannotBeWrittenAnyMoreEndNothing) {
  files::create_directory(folder_ / "metrics");
  const files::path metrics = folder_ / "metrics/corun.prom";
  serve("wait", "--metrics=" + metrics.string(), "--record=/dev/full");
  ASSERT_TRUE(files::exists(metrics));
  files::remove_all(folder_ / "metrics");
  Going one = going("dlsym 10 1000 10", "--name one");
  EXPECT_TRUE(comes([&] { return served().find("<4>/dev/full: nothing more is written") != std::string::npos; }));
  EXPECT_THAT(served(), HasSubstr("corun.prom: cannot be written"));
  EXPECT_EQ(program_count(), 1u);
  EXPECT_THAT(one.end().out, testing::AllOf(HasSubstr("done"), testing::Not(HasSubstr("not steered"))));
}

TEST_F(Live, AServicesEndIsInItsMetrics) {
  const files::path metrics = folder_ / "corun.prom";
  serve("fcfs", "--metrics=" + metrics.string());
  const Going one = going("dlsym 10 1000 10", "--name one");
  EXPECT_TRUE(comes([&] { return program_count() == 1 && !kernels().empty(); }));
  end_service(SIGTERM);
  EXPECT_THAT(text_of(metrics), testing::ContainsRegex("corun_launches_total\\{program=\"one\",client=\"0\"\\} [1-9]"));
}

TEST_F(Live, AMetricsFileThatCouldNeverBeWrittenIsRefusedBeforeAnythingRuns) {
  const Ran ended = shell(fmt::format("{} serve --gpu=h200 --no-mps --at {} --metrics={}/none/corun.prom", sim(), at(), folder_.string()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("cannot be written"));
  EXPECT_FALSE(files::exists(at()));
}

TEST_F(Live, AServiceThatIsKilledLeavesWhatItHasRecorded) {
  const std::string file = (folder_ / "recorded.jsonl").string();
  serve("wait", "--record=" + file);
  shell(joins("two-streams 200 20", "--name work"));
  ASSERT_TRUE(comes([&] { return state()["programs"].empty(); }));
  EXPECT_TRUE(comes([&] { return text_of(file).find("leave") != std::string::npos; }));
  end_service(SIGKILL);
  const hw::Replayed r = live::replay(file, read_gpu("h200"));
  EXPECT_THAT(r.difference, testing::AnyOf("", HasSubstr("the recording ends before")));
  EXPECT_GE(r.decisions, 200u);
}

TEST_F(Live, ARecordingThatCannotBeWrittenIsRefusedBeforeAnythingRuns) {
  const Ran ended = shell(fmt::format("{} serve --gpu=h200 --no-mps --at {} --record={}/none/r.jsonl", sim(), at(), folder_.string()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace corun
