// Does the command put policies, GPUs, clients, settings and the points of a sweep side by side, as asked?
#include "tests/sim/command/command_files.h"
#include "tests/support/shell.h"
#include "tests/support/sim_file.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace corun {
namespace {

TEST(Command, AdviceForOneClientSaysThatNobodySharesWithIt) {
  const Ran ran = sim("advise traces/h200/resnet50_b1.json");
  EXPECT_EQ(ran.code, 0);
  for (const char* line : {"\nsetting  the whole GPU, shared with nobody\n", "\nnext     MIG, ",
                           "\nsaves    nothing: main has one h200 to itself\n", "\ndo       nothing to set\n",
                           "main shares with nobody: give each program"})
    EXPECT_NE(ran.out.find(line), std::string::npos) << line << " not in " << ran.out;
  EXPECT_EQ(ran.out.find("instead of 1"), std::string::npos) << ran.out;
}

TEST(Command, ComparesPoliciesWithParameters) {
  const Folder folder;
  const std::string good = folder.write("t.json", trace("", kLaunch));
  const Ran ran = sim("compare --policies=fcfs,tpc-mask:split=even,greedy " + good);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("split=even"), std::string::npos) << ran.out;
  expect_refused("compare --policies=fcfs,tpc-mask:split=even,x=1 " + good, {"tpc-mask", "x=1"});
}

TEST(Command, ComparesEveryPolicyThatCanRunAndNamesTheOthersWithTheReason) {
  const Folder folder;
  const std::string good = folder.write("t.json", trace("", kLaunch));
  const Ran all = sim("compare --policies=all " + good);
  EXPECT_EQ(all.code, 0) << all.out;
  for (const char* policy : {"fcfs", "greedy", "priority", "static-split", "timeslice", "tpc-mask", "BE/s"})
    EXPECT_NE(all.out.find(policy), std::string::npos) << policy << " not in: " << all.out;
  EXPECT_EQ(all.out.find("not run"), std::string::npos) << all.out;
  // No TPC of the H200 is in this mask, so that tpc-mask alone cannot run.
  const std::string masked = folder.write("m.json", trace("", kLaunch, R"("tpc_mask": "200")"));
  const Ran some = sim("compare --policies=all " + masked);
  EXPECT_EQ(some.code, 0) << some.out;
  EXPECT_NE(some.out.find("not run  tpc-mask: "), std::string::npos) << some.out;
  EXPECT_NE(sim("compare --json --policies=all " + masked).out.find("\"not_run\""), std::string::npos);
  expect_refused("compare --policies=tpc-mask " + masked, {"tpc-mask"});
}

TEST(Command, PrintsEveryPolicysRegretFromTheBestFixedDivision) {
  const std::string example = "traces/h200/examples/realtime-resnet50-beside-resnet152.json";
  const Ran ran = sim("compare --policies=fcfs,timeslice --oracle --objective=p99 --duration=3ms " + example);
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* word : {"oracle   static-split:", "regret", "fixed divisions"})
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << " not in: " << ran.out;
  expect_refused("compare --oracle --objective=speed " + example, {"--objective"});
}

TEST(Command, GpusAreListedAsJsonWithWhatTheyRestOn) {
  const nlohmann::json all = nlohmann::json::parse(sim("gpus --json").out);
  const auto h100 = std::ranges::find(all["gpus"], "h100-pcie", [](const auto& g) { return g["name"]; });
  ASSERT_NE(h100, all["gpus"].end());
  EXPECT_EQ((*h100)["product"], "NVIDIA H100 PCIe");
  EXPECT_EQ((*h100)["compute_capability"], "9.0");
  EXPECT_GT((*h100)["values"]["assumed_of"]["h200"], 0);
}

TEST(Command, ATraceRunsOnSeveralGpusInOneTable) {
  const std::string example = "traces/h200/examples/six-clients.json";
  const Ran ran = sim("compare --json --gpus=h200,h100-sxm,l40s --policies=fcfs --duration=5ms " + example);
  ASSERT_EQ(ran.code, 0) << ran.out;
  const nlohmann::json document = nlohmann::json::parse(ran.out);
  EXPECT_EQ(document["recorded_on"], "h200");
  ASSERT_EQ(document["results"].size(), 3u);
  EXPECT_FALSE(document["cards"][0].contains("carried_over"));
  // DRAM of an H100 is a third slower; most of these kernels are too short to be bound by it.
  const nlohmann::json& longer = document["cards"][1]["carried_over"]["time_ratio"];
  EXPECT_GT(longer["least"].get<double>(), 0.95);
  EXPECT_NEAR(longer["median"].get<double>(), 1, 0.05);
  EXPECT_GT(longer["most"].get<double>(), 1.2);
  const nlohmann::json one =
      nlohmann::json::parse(sim("compare --json --policies=fcfs --seeds=1 --duration=5ms " + example).out);
  EXPECT_EQ(document["results"][0], one["results"][0]) << "on the card of the recording nothing is carried over";
  EXPECT_EQ(sim("compare --gpus=h200 --memory=1GB " + example).code, 2);
  EXPECT_EQ(sim("compare --gpus=h200 --seeds=1..3 " + example).code, 2);
}

TEST(Command, SeveralSeedsAreRunWhereArrivalsAreRandom) {
  const auto compared = [](const std::string& more) { return nlohmann::json::parse(sim("compare --json --policies=fcfs --duration=40ms " + more).out); };
  const std::string random = "--client cam=traces/h200/resnet50_b1.json,graph,rt,poisson=200", periodic = "--client cam=traces/h200/resnet50_b1.json,graph,rt,rate=200";
  EXPECT_EQ(compared(random)["seeds"], nlohmann::json({1, 2, 3, 4, 5}));
  EXPECT_FALSE(compared(periodic).contains("seeds"));
  EXPECT_EQ(compared("--seeds=4,7 " + periodic)["seeds"], nlohmann::json({4, 7}));
  const nlohmann::json until = compared("--until=p99:90% " + random);
  const nlohmann::json& p99 = until["results"][0]["over_seeds"]["cam p99"];
  EXPECT_LE(p99["least"], p99["mean"]);
  EXPECT_EQ(until["seeds"].size(), 5u) << "five tell enough";
  EXPECT_GT(compared("--until=p99:4% " + random)["seeds"].size(), 5u);
  EXPECT_EQ(sim("compare --until=p99 " + random).code, 2);
  EXPECT_EQ(sim("compare --until=latency:2% " + random).code, 2);
}

TEST(Command, ContentionIsLeftOutWhereThatIsAskedForAndTheResultSaysSo) {
  const std::string example = " traces/h200/examples/realtime-resnet50-beside-resnet152.json",
                    pair = "validate --modes half --pairs add256M+add256M --reference experiments/reference/h200-corun.json.gz";
  const Ran with = sim("--duration=5ms" + example), without = sim("--duration=5ms --contention=none" + example);
  EXPECT_EQ(without.code, 0) << without.out;
  EXPECT_EQ(with.out.find("contention is not modelled"), std::string::npos) << with.out;
  EXPECT_NE(without.out.find("contention is not modelled"), std::string::npos) << without.out;
  const auto slowdown_error = [&](const std::string& choice) {
    const nlohmann::json said = nlohmann::json::parse(sim_unaudited(pair + " --json" + choice).out);
    EXPECT_EQ(said.value("contention", ""), choice.empty() ? "" : "none");
    return said["all"]["slowdown_error_mean"].get<double>();
  };
  EXPECT_LT(slowdown_error(""), 0.05);
  EXPECT_GT(slowdown_error(" --contention=none"), 0.4) << "two sums share the memory's bandwidth";
  EXPECT_NE(sim_unaudited(pair + " --contention=none").out.find("contention  not modelled"), std::string::npos);
  const auto advised = nlohmann::json::parse(sim("--contention=none advise --slo=camera:p99=5ms --duration=5ms --json" + example).out);
  const auto run = nlohmann::json::parse(sim("--contention=none --policy=timeslice --duration=5ms --json" + example).out);
  ASSERT_EQ(advised["tried"][0]["policy"], "timeslice");
  EXPECT_EQ(advised["tried"][0]["stp"], run["stp"]);
  expect_refused("--contention=some" + example, {"--contention"});
  expect_refused("--contention=none --backend=cuda" + example, {"--contention", "simulator"});
  expect_refused("compare --contention=none --gpus=h200" + example, {"--contention=none"});
}

/// An MI300X has 304 compute units, and three levels of priority where an H200 has six.
TEST(Command, PrioritiesAreTranslatedToACardThatHasFewer) {
  const std::string example = " traces/h200/examples/realtime-resnet50-beside-resnet152.json";
  const Ran ran = sim("compare --json --gpus=h200,mi300x --policies=priority --duration=5ms" + example);
  ASSERT_EQ(ran.code, 0) << ran.out;
  const nlohmann::json document = nlohmann::json::parse(ran.out);
  EXPECT_EQ(document["results"].size(), 2u) << ran.out;
  EXPECT_EQ(document["cards"][1]["carried_over"]["priorities"],
            nlohmann::json::parse(R"([{"was":-5,"is":-2},{"was":0,"is":0}])"));
  EXPECT_NE(sim("compare --gpus=mi300x --policies=priority --duration=5ms" + example).out.find("-5 is -2, 0 is 0"),
            std::string::npos);
}

/// A client that asks for 30 GB beside one that does not, and a mask of the upper half of an H200's TPCs.
std::string two_clients(const char* setting) {
  return fmt::format(
      R"({{"corun_trace": 1, "name": "t", "gpu": "h200", "run": {{"duration_ns": 2000000}}, "kernels": [{{"name": "k",
      "grid": [528,1,1], "block": [256,1,1], "cluster": [2,1,1], "registers_per_thread": 32, "solo_time_ns": 100000}}], "programs": [{{"name": "p",
      "ops": [{{"launch": "k"}}]}}], "clients": [{{"name": "cam", "program": "p", {}}}, {{"name": "llm", "program": "p"}}]}})",
      setting);
}

TEST(Command, WhatFailedOrIsLeftOutOnACardIsToldBesideTheOthers) {
  const Folder folder;
  const std::string large = folder.write("large.json", two_clients(R"("memory_bytes": 30000000000)"));
  const std::string told = sim("compare --gpus=h200,l4 --policies=fcfs " + large).out;
  EXPECT_NE(told.find("failed   cam on l4 under fcfs: out of memory"), std::string::npos) << told;
  EXPECT_EQ(told.find("cam on h200"), std::string::npos) << told;
  EXPECT_NE(told.find("1 of 1 kernels launch clusters of blocks, which l4 does not have"), std::string::npos) << told;
  EXPECT_EQ(told.find("clusters of blocks, which h200"), std::string::npos) << told;
  const std::string masked = folder.write("masked.json", two_clients(R"("tpc_mask": "40-65")"));
  EXPECT_EQ(sim("--policy=tpc-mask " + masked).code, 0);
  expect_refused("--gpu=l4 --policy=tpc-mask " + masked, {"client cam", "only TPCs that l4 lacks", "0-28"});
  EXPECT_NE(sim("compare --gpus=h200,l4 --policies=tpc-mask " + masked).out.find("not run  l4 under tpc-mask: "), std::string::npos);
}

TEST(Command, ResultsOnAnAmdCardSayThatItsQueuesAreAssumed) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  constexpr const char* kSaid = "is an AMD card: its queues and all waits are assumed";
  for (const char* how : {"--gpu=mi300x ", "--json --gpu=mi300x ", "compare --policies=fcfs --gpu=mi250x ", "compare --policies=fcfs --gpus=h200,mi300x "}) {
    const Ran ran = sim(how + file);
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find(kSaid), std::string::npos) << ran.out;
  }
  EXPECT_EQ(sim("--json --gpu=l4 " + file).out.find(kSaid), std::string::npos);
}

TEST(Command, TwoCardsOfOneNameAreToldApartByTheirFile) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  const std::string other = folder.write("h200.json", R"({"corun_gpu": 1, "name": "h200", "extends": "l4"})");
  const auto document = nlohmann::json::parse(sim("compare --json --policies=fcfs --gpus=h200," + other + " " + file).out);
  EXPECT_EQ(document["cards"][0]["gpu"], "h200");
  EXPECT_FALSE(document["cards"][0].contains("carried_over"));
  EXPECT_EQ(document["cards"][1]["gpu"], "h200 (" + other + ")");
  EXPECT_TRUE(document["cards"][1].contains("carried_over"));
}

TEST(Command, ErrorsAreMeasuredOnlyForTheCardsOnWhichTheyWere) {
  const std::string said = sim("compare --policies=fcfs --duration=3ms --gpus=h100-sxm,a100 traces/h200/examples/realtime-resnet50-beside-resnet152.json").out;
  const std::size_t a100 = said.find("gpu      a100");
  ASSERT_NE(a100, std::string::npos) << said;
  EXPECT_NE(said.substr(0, a100).find("off by 1 % in the median"), std::string::npos) << said;
  EXPECT_EQ(said.find("off by 1 % in the median", a100), std::string::npos) << said;
  EXPECT_NE(said.find("tensor throughput of an SM is not carried", a100), std::string::npos) << said;
  EXPECT_EQ(said.substr(0, a100).find("tensor throughput"), std::string::npos) << said;
}

TEST(Command, AllWrongGpusAreToldAndAnOptionWithoutItsValueIsNamed) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  expect_refused("compare --gpus=l4,bogus,l5 " + file, {"'bogus'", "'l5'; did you mean 'l4'"});
  expect_refused("--gpu= " + file, {"--gpu", "no value follows"});
  expect_refused("compare --gpus= " + file, {"--gpus", "no value follows"});
  expect_refused("calibrate -o ''", {"names no file"});
}

/// Ctrl-C, `seconds` after `arguments` began to listen for it, as /proc tells: a slow machine may take its time until then.  Before it is `sim`, the process is a
/// shell that listens too.
Ran interrupted(const std::string& arguments, const char* seconds) {
  return shell(fmt::format("{} {} & pid=$!; "
                           "for i in $(seq 3000); do if [ /proc/$pid/exe -ef {} ] && grep -q '^SigCgt:.*[2367abef]$' /proc/$pid/status; then break; fi; sleep 0.01; "
                           "done; sleep {}; kill -INT $pid; wait $pid",
                           sim_file(), arguments, sim_file(), seconds));
}

TEST(Command, TheOraclesSearchEndsAtCtrlCWithWhatItHas) {
  for (const char* seconds : {"0", "0.1", "2"}) {
    const Ran ran = interrupted("compare --policies=fcfs --oracle --duration=40ms traces/h200/examples/six-clients.json", seconds);
    EXPECT_EQ(ran.code, 130) << ran.out;
    EXPECT_NE(ran.out.find("interrupted"), std::string::npos) << ran.out;
  }
}

TEST(Command, TwoGpusAreComparedValueByValue) {
  const Ran ran = sim("gpus compare h200 a100");
  EXPECT_NE(ran.out.find("memory/dram_bytes_per_second"), std::string::npos);
  EXPECT_EQ(ran.out.find("latencies/stream_gap_ns"), std::string::npos) << "the same in both";
  EXPECT_NE(sim("gpus compare h200 h200").out.find("no value differs"), std::string::npos);
  EXPECT_EQ(sim("gpus compare h200 nothing").code, 2);
}

TEST(Command, ClientsAreComposedWithoutATrace) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  const std::string one = "--json --duration=10ms --client a=" + file;
  const Ran ran = sim(one + ",rt,rate=1000,slo=1ms --client b=" + file + ",closed,be,priority=0");
  ASSERT_EQ(ran.code, 0) << ran.out;
  const auto result = nlohmann::json::parse(ran.out);
  EXPECT_EQ(result["clients"][0]["name"], "a");
  EXPECT_EQ(result["clients"][0]["class"], "real_time");
  EXPECT_EQ(result["clients"][0]["finished"], 10);
  EXPECT_EQ(result["clients"][1]["class"], "best_effort");
  EXPECT_GT(result["clients"][1]["finished"], 100);
  EXPECT_EQ(result["gpu"], "h200") << "where all were recorded on one GPU, it is simulated";
  EXPECT_EQ(sim("--client a=" + file + " " + file).code, 2) << "a trace and clients";
  const std::string names = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n2023-11-16 18:15:47,1,1\n";
  const std::string times = folder.write("arrivals.csv", names);
  const auto of = [&](const std::string& settings) {
    const Ran r = sim(one + settings);
    EXPECT_EQ(r.code, 0) << r.out;
    return nlohmann::json::parse(r.out)["clients"][0]["finished"];
  };
  EXPECT_EQ(of(",times=" + times), 1) << "the other comes a second later";
  EXPECT_EQ(of(",speed=1000,times=" + times), 2);
}

TEST(Command, AClientOnTheCommandLineIsToldWhatIsWrongWithIt) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  const auto bad = [&](const std::string& client, const std::vector<std::string>& said) {
    expect_refused("--client " + client, said);
  };
  bad("a", {"NAME=FILE"});
  bad("a=", {"no file"});
  bad("a=" + folder.path("absent.json"), {"absent.json"});
  bad("a=" + file + ",rates=5", {"rates", "did you mean 'rate'"});
  bad("a=" + file + ",rate", {"rate has no value", "rate=50"});
  bad("a=" + file + ",rate=0", {"rate=0", "requests a second"});
  bad("a=" + file + ",rt=1", {"takes no value"});
  bad("a=" + file + ",rt,be", {"exclude each other"});
  bad("a=" + file + ",rate=1,closed", {"exclude each other"});
  bad("a=" + file + ",slo=5", {"slo", "duration"});
  bad("a=" + file + ",speed=2", {"speed= goes with times="});
  bad("a=" + file + ",program=q", {"no program 'q'"});
  bad("a=" + file + ",client=x", {"no client 'x'"});
  bad("a=" + file + " --client a=" + file, {"two clients"});
}

TEST(Command, ReplicasAreAsManyClientsAndOneLine) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  const Ran ran = sim("compare --policies mps,timeslice --duration=20ms --client cam=" + file + ",rt,poisson=3000,replicas=3,cpus=0-1");
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* line : {"\ncam-1 ", "\ncam-3 ", "\nall replicas ", "\ncam ×3 ", "cam Poisson, 3000 /s, queued, dealt in turn"})
    EXPECT_NE(ran.out.find(line), std::string::npos) << line << ran.out;
  const auto document = nlohmann::json::parse(sim("--json --policy mps --duration=20ms --client cam=" + file + ",rt,poisson=3000,replicas=3,cpus=0-1").out);
  ASSERT_EQ(document["servers"].size(), 1u);
  EXPECT_EQ(document["servers"][0]["name"], "cam");
  EXPECT_EQ(document["servers"][0]["replicas"], 3);
  EXPECT_EQ(document["clients"][1]["replica_of"], "cam");
  const auto bad = [&](const std::string& settings, const std::vector<std::string>& words) { expect_refused("--client cam=" + file + settings, words); };
  bad(",replicas=0", {"replicas=0", "1 to 1000"});
  bad(",replicas=1.5", {"replicas=1.5", "whole number"});
  bad(",cpus=3-1", {"cpus=3-1", "no range of CPU cores"});
  bad(",cpus=1024", {"cpus=1024"});
  bad(",blocking=1", {"blocking takes no value"});
  EXPECT_NE(sim("sweep --policies fcfs --client cam=" + file + ",rt,rate=1000 --set cam.replicas=2,4").out.find("replicas= makes clients, which are there already"), std::string::npos);
  bad(",replicas=2 --client cam-2=" + file, {"'cam-2'", "another name"});
}

TEST(Command, AClientRecordedOnAnotherGpuIsCarriedOver) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  std::string other = trace("", kLaunch);
  other.replace(other.find("h200"), 4, "l40s");
  const std::string second = folder.write("u.json", other);
  expect_refused("--client a=" + file + " --client b=" + second, {"--gpu", "l40s", "h200"});
  const Ran ran = sim("--notes --gpu h200 --client a=" + file + " --client b=" + second);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("u.json: recorded on l40s"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("t.json: recorded on"), std::string::npos) << ran.out;
}

TEST(Command, AdviceNamesASettingAndWhatToTypeOrEndsWithExitCode3) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  const std::string clients = fmt::format("--duration=5ms --client cam={},rt,rate=1000 --client llm={},closed ", file, file);
  const Ran good = sim("advise --slo cam:p99=10ms --maximize llm:throughput --highest-rate cam --all " + clients);
  EXPECT_EQ(good.code, 0) << good.out;
  for (const char* line : {"\nsetting  ", "\nholds    cam:p99 ", "\nnext     ", "\nsaves    ", "\ndo       ", "\nsame     ", "Poisson arrivals with queues", "\nrate     cam"})
    EXPECT_NE(good.out.find(line), std::string::npos) << line << good.out;
  const Ran none = sim("advise --slo cam:p99=1us " + clients);
  EXPECT_EQ(none.code, 3) << none.out;
  EXPECT_NE(none.out.find("no setting holds"), std::string::npos);
  const Ran two = sim("advise --json --gpus l4,h200 --slo cam:p99=10ms " + clients);
  ASSERT_EQ(two.code, 0) << two.out;
  const auto document = nlohmann::json::parse(two.out);
  EXPECT_EQ(document["tried"][document["best"].get<std::size_t>()]["gpu"], "l4");
  expect_refused("advise --slo cam:p98=1ms " + clients, {"p98", "did you mean"});
  expect_refused("advise --highest-rate llm " + clients, {"llm", "no rate"});
  expect_refused("advise --slo cam:ttft=1ms " + clients, {"cam", "no server", "p99"});
}

TEST(Command, ASweepThatWasKilledGoesOnAndEndsInTheSameBytes) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch, R"("priority": 0)"));
  const std::string grid = fmt::format(
      "--client a={0},rt,rate=1000 --client b={0},closed --policies fcfs,timeslice,mps --set a.rate=1000,2000 --seeds 1..16 "
      "--duration=30ms ",
      file);
  const std::string whole = folder.path("whole.jsonl"), part = folder.path("part.jsonl");
  ASSERT_EQ(sim("sweep " + grid + "--jobs 2 -o " + whole).code, 0);
  const std::string expected = read(whole);
  ASSERT_EQ(std::count(expected.begin(), expected.end(), '\n'), 96);
  for (const char* signal : {"KILL", "INT"}) {
    std::filesystem::remove(part);
    std::size_t lines = 0;
    for (double wait = 0.1; lines == 0 && wait < 5; wait *= 1.5) {  // until it is caught between first and last
      const std::string command = fmt::format("timeout -s {} {} {} sweep {} --jobs 1 -o {} >/dev/null 2>&1", signal, wait,
                                              sim_file(), grid, part);
      (void)!std::system(command.c_str());
      const std::string text = read(part);
      lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    }
    EXPECT_GT(lines, 0u);
    const Ran ran = sim("sweep " + grid + "-o " + part);
    EXPECT_EQ(ran.code, 0) << ran.out;
    if (lines < 96) {
      EXPECT_EQ(ran.out.find(" 0 known"), std::string::npos) << ran.out;
    }
    EXPECT_EQ(read(part), expected) << signal;
  }
  EXPECT_EQ(sim("sweep " + grid + "--jobs 1").out, expected) << "to standard output, on one core";
  const std::string torn = folder.write("torn.jsonl", expected.substr(0, expected.size() / 2));
  EXPECT_EQ(sim("sweep " + grid + "-o " + torn).code, 0);
  EXPECT_EQ(read(torn), expected);
  expect_refused("sweep " + grid + "-o " + folder.write("other.txt", "hello\nworld\n"), {"other.txt", "line 1"});
}

}  // namespace
}  // namespace corun
