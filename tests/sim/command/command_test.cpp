// Does the command tell what is wrong, where, and what to do, with exit code 2?  And the same bytes for the
// same input?
#include "tests/sim/command/command_files.h"
#include "tests/support/shell.h"
#include "tests/support/sim_file.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace corun {
namespace {

TEST(Command, AGoodTraceRuns) {
  const Folder folder;
  const Ran ran = sim(folder.write("t.json", trace("", kLaunch)));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("STP"), std::string::npos);
}

TEST(Command, TwoTracesAreToldHowToShareAGpu) {
  const std::string example = "traces/h200/examples/realtime-resnet50-beside-resnet152.json";
  for (const char* command : {"", "compare ", "advise "}) {
    const Ran ran = sim(fmt::format("{}{} {}", command, example, example));
    EXPECT_EQ(ran.code, 2) << command;
    EXPECT_NE(ran.out.find("--client NAME=FILE"), std::string::npos) << command << ran.out;
  }
}

TEST(Command, BadInputNamesFilePlaceAndRemedyWithExitCode2) {
  const Folder folder;
  const auto bad = [&](const std::string& text, const std::vector<std::string>& said) {
    std::vector<std::string> all = said;
    all.push_back("t.json");
    expect_refused(folder.write("t.json", text), all);
  };
  bad(trace("", kLaunch).substr(0, 100), {"line"});
  bad(trace(R"(, "gird": 1)", kLaunch), {"/kernels/0", "gird"});
  std::string negative = trace("", kLaunch);
  negative.replace(negative.find("[8,1,1]"), 7, "[-8,1,1]");
  bad(negative, {"/kernels/0/grid"});
  bad(trace("", R"({"launch": "k", "stream": "a", "name": "x", "after": ["y"]},
                   {"launch": "k", "stream": "b", "name": "y", "after": ["x"]})"),
      {"/programs/0/ops/0", "wait for each other", "x -> y -> x"});
  bad(trace(R"(, "dynamic_shared_memory_bytes": 300000)", kLaunch),
      {"/kernels/0", "fits no SM", "shared memory"});
  bad(trace("", kLaunch, R"("priority": -6)"), {"/clients/0/priority"});
  expect_refused(folder.path("absent.json"), {"absent.json"});
  const std::string whole = folder.write("whole.json", trace("", kLaunch));
  ASSERT_EQ(std::system(fmt::format("gzip -c {0} | head -c 150 > {0}.gz", whole).c_str()), 0);
  expect_refused(whole + ".gz", {"whole.json.gz"});
  ASSERT_EQ(std::system(fmt::format("head -c 100000000 /dev/zero | tr '\\0' '[' | gzip -1 > {}",
                                    folder.path("deep.json.gz"))
                            .c_str()),
            0);
  expect_refused(folder.path("deep.json.gz"), {"deep.json.gz", "nest"});
}

TEST(Command, BadArgumentsAreRefusedWithExitCode2) {
  const Folder folder;
  const std::string good = folder.write("t.json", trace("", kLaunch));
  expect_refused("", {"no trace"});
  expect_refused("--policy=gredy " + good, {"gredy", "greedy"});
  expect_refused("--policy=tpc-mask:split=odd " + good, {"split", "even"});
  expect_refused("--policy=fcfs:x=1 " + good, {"fcfs", "x=1"});
  expect_refused("--policy=mps-static:chunks=0 " + good, {"t.json", "/clients/0", "no partition", "chunks=0"});
  expect_refused("--policy=mps-static --gpu=v100 " + good, {"v100", "no static partitions"});
  expect_refused("--gpu=h300 " + good, {"h300"});
  expect_refused("--duration=5parsec " + good, {"--duration"});
  expect_refused("--trace-window=5ms --out " + folder.path("o") + " " + good, {"--trace-window"});
  expect_refused("--out /proc/nowhere " + good, {"/proc/nowhere"});
  expect_refused("--nonsense " + good, {"--nonsense"});
  expect_refused("compare --policies=fcfs,nope " + good, {"nope"});
  expect_refused("schema nothing", {"nothing"});
  expect_refused("import vtune x", {"vtune"});
  const std::string profile =
      "import kineto experiments/h200/networks/recordings/decode_4k.graph.json.gz --request-time ";
  expect_refused(profile + "0ms", {"--request-time", "0ms"});
}

TEST(Command, OptionsThatAreNotOfWhatIsValidatedAreRefused) {
  const std::string networks = "validate experiments/h200/networks --mixes decode-bert --modes mps ";
  for (const char* option : {"--policies fcfs", "--pairs a+b", "--inputs curve", "--solo"})
    expect_refused(networks + option, {std::string(option).substr(0, 6), "not of measured networks"});
  expect_refused("validate experiments/h200/networks --timeline decode-prefill.streams --json",
                 {"--json", "not of --timeline"});
  for (const char* option : {"--modes mps", "--pairs a+b", "--inputs curve", "--solo"})
    expect_refused(std::string("validate experiments/h200/policies --mixes four ") + option,
                   {"not of recorded runs"});
  for (const char* option : {"--mixes four", "--policies fcfs", "--duration 1ms", "--timeline a.b"})
    expect_refused(std::string("validate --reference experiments/reference/h200-corun.json.gz ") + option,
                   {"not of measured pairs"});
  // In which no request ends.
  for (const char* duration : {"0ms", "1ns", "1ms"})
    expect_refused(networks + "--duration " + duration, {"--duration"});
}

TEST(Command, AsServedTakesThePoliciesThatTheServiceTakes) {
  const Folder folder;
  const std::string good = folder.write("t.json", trace("", kLaunch));
  for (const char* policy : {"fcfs", "wait", "reef-n", "smguard", "lookahead"})
    EXPECT_EQ(sim(fmt::format("--as-served=8 --policy={} {}", policy, good)).code, 0) << policy;
  for (const char* policy : {"greedy", "slate", "flexgpu"})
    expect_refused(fmt::format("--as-served=8 --policy={} {}", policy, good), {policy, "sim serve"});
  EXPECT_EQ(sim("--as-served=8 --look-us=1600 --policy=lookahead " + good).code, 0);
  expect_refused("--look-us=1600 --policy=lookahead " + good, {"--look-us", "--as-served=8"});
  expect_refused("--as-served=8 --look-us=-1 --policy=lookahead " + good, {"--look-us"});
}

TEST(Command, ARecordingThatSaysItsTimeWithoutTheProfilerIsFittedToItAsByOption) {
  const Folder folder;
  const auto in = [&](const std::string& name) {
    std::filesystem::create_directory(folder.path(name));
    return name + "/r.json";
  };
  std::string text = read("tests/data/kineto_small.json");
  const std::string plain = folder.write(in("plain"), text);
  text.insert(text.find("\"displayTimeUnit\""), "\"corun_request_time_us\": 92.5, ");
  const std::string timed = folder.write(in("timed"), text);
  const auto imported = [&](const std::string& file, const std::string& options) {
    const Ran ran = sim(fmt::format("import kineto {} {} -o {}", file, options, folder.path("t.json")));
    EXPECT_EQ(ran.code, 0) << ran.out;
    return nlohmann::json::parse(read(folder.path("t.json")));
  };
  const auto by_option = imported(plain, "--request-time 92.5us"), by_file = imported(timed, "");
  EXPECT_EQ(by_option["programs"], by_file["programs"]);
  EXPECT_NE(imported(plain, "")["programs"], by_file["programs"]);
  EXPECT_NE(by_file["notes"].dump().find("The recording says that a request takes 0.0925 ms without the profiler"), std::string::npos);
  EXPECT_EQ(imported(timed, "--request-time 94us")["programs"], imported(plain, "--request-time 94us")["programs"]) << "an option counts more";
  EXPECT_EQ(imported(timed, "--host-time 60us")["programs"], imported(plain, "--host-time 60us")["programs"]) << "an option counts more";
  const auto p50 = [&](const std::string& file) {
    const Ran ran = sim("--json " + file);
    return nlohmann::json::parse(ran.out.substr(ran.out.find('{')))["clients"][0]["p50_ms"];
  };
  imported(timed, "");
  EXPECT_EQ(p50(timed), p50(folder.path("t.json"))) << "also run directly";
  EXPECT_NE(p50(timed), p50(plain));
}

TEST(Command, HostGapsGrowToTheTimeWithoutTheProfilerByNoMoreThanWhatCallsTook) {
  const Folder folder;
  std::string events;
  for (int i = 0; i < 20; ++i) {  // calls of 20 us, 5 us between, kernels of 2 us
    events += fmt::format(R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":{},"dur":20,"tid":1,"args":{{"correlation":{}}}}},)", 25 * i, i + 1);
    events += fmt::format(
        R"({{"ph":"X","cat":"kernel","name":"k","ts":{},"dur":2,"args":{{"device":0,"context":1,"stream":7,"correlation":{},"grid":[132,1,1],"block":[128,1,1]}}}},)",
        25 * i + 21, i + 1);
  }
  events += R"({"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","ts":497,"dur":3,"tid":1,"args":{"correlation":99}})";
  const std::string file = folder.write("r.json", R"({"schemaVersion":1,"traceEvents":[)" + events + "]}");
  const auto replayed_ms = [&](const std::string& request_time) {
    EXPECT_EQ(sim(fmt::format("import kineto {} --gpu h200 --request-time {} -o {}", file, request_time, folder.path("t.json"))).code, 0);
    const Ran ran = sim("--json " + folder.path("t.json"));
    return nlohmann::json::parse(ran.out.substr(ran.out.find('{')))["clients"][0]["p50_ms"].get<double>();
  };
  EXPECT_NEAR(replayed_ms("120us"), 0.12, 0.002) << "gaps shrink";
  EXPECT_NEAR(replayed_ms("300us"), 0.3, 0.002) << "and grow";
  EXPECT_NEAR(replayed_ms("10ms"), 0.5, 0.01) << "the host takes no longer than it was recorded to";
}

/// A step of 20 calls of 20 us, 30 us apart, whose last kernel takes 300 us.  Its time was measured in a row,
/// so it is that from one step's end to the next one's, and what the GPU does behind the step's last call
/// costs nothing.
TEST(Command, WhereTheHostWaitsForNothingTheTimeWithoutTheProfilerIsThatOfRequestsInARow) {
  const Folder folder;
  std::string events;
  for (int i = 0; i < 20; ++i) {
    events += fmt::format(
        R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":{},"dur":20,"tid":1,"args":{{"correlation":{}}}}},)",
        50 * i, i + 1);
    events += fmt::format(
        R"({{"ph":"X","cat":"kernel","name":"k{}","ts":{},"dur":{},"args":{{"device":0,"context":1,"stream":7,"correlation":{},"grid":[132,1,1],"block":[128,1,1]}}}},)",
        i / 19, 50 * i + 21, i == 19 ? 300 : 2, i + 1);
  }
  events.pop_back();
  const std::string file = folder.write("r.json", R"({"schemaVersion":1,"traceEvents":[)" + events + "]}");
  EXPECT_EQ(
      sim(fmt::format("import kineto {} --gpu h200 --request-time 450us -o {}", file, folder.path("t.json")))
          .code,
      0);
  auto trace = nlohmann::json::parse(read(folder.path("t.json")));
  EXPECT_NE(trace["notes"].dump().find("in a row, as its host waits for nothing"), std::string::npos);
  const auto requests_in_ms = [&](int in_flight, int ms) {
    trace["clients"][0]["arrivals"] = {{"type", "closed_loop"}, {"in_flight", in_flight}};
    trace["run"] = {{"duration_ns", ms * 1'000'000}};
    const Ran ran = sim("--json " + folder.write("row.json", trace.dump()));
    return nlohmann::json::parse(ran.out.substr(ran.out.find('{')))["clients"][0]["finished"].get<double>();
  };
  EXPECT_NEAR(requests_in_ms(8, 90), 200, 3);
  EXPECT_NEAR(requests_in_ms(1, 75), 100, 3) << "one by one each takes 300 us longer";
}

TEST(Command, CountersJoinAnImport) {
  const Folder folder;
  const std::string recording = folder.write(
      "profile.json", R"([{"name": "k", "ts": 1, "dur": 5, "grid": [8, 1, 1], "block": [128, 1, 1]}])");
  const std::string header =
      R"("ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value")"
      "\n";
  const auto profile = [&](const std::string& kernel) {
    return folder.write(kernel + ".csv",
                        header + R"csv("0",")csv" + kernel +
                            R"csv(","(128, 1, 1)","(8, 1, 1)","lts__t_bytes.sum","Mbyte","1.5")csv");
  };
  const std::string import =
      "import kineto " + recording + " --gpu h200 -o " + folder.path("t.json") + " --counters ";
  const Ran ran = sim(import + profile("k"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("Counters of 1 of 1 launch are from k.csv: 1 by the order of all."),
            std::string::npos)
      << ran.out;
  EXPECT_NE(read(folder.path("t.json")).find("\"l2_bytes\": 1500000"), std::string::npos);
  expect_refused(import + profile("other"),
                 {"other.csv", "line 2", "none of its 1 profiled launch", "remedy"});
  expect_refused(import + recording, {"no row of column names", "ncu --csv"});
  expect_refused(import + folder.path("none.csv"), {"none.csv", "No such file"});
  expect_refused(import + profile("k") + " --host-time soon", {"--host-time", "'soon' is not a duration"});
  expect_refused(import + profile("k") + " --host-time 1ms", {"--host-time", "no launch calls", "remedy"});
}

TEST(Command, ASecondRecordingOnAPartOfTheGpuIsJoinedOrRefusedWithItsFile) {
  const Folder folder;
  const std::string whole = "tests/data/kineto_small.json", text = read(whole);
  const auto changed = [&](const std::string& name, const std::vector<std::pair<std::string, std::string>>& changes) {
    std::string part = text;
    for (const auto& [from, to] : changes)
      for (std::size_t at = 0; (at = part.find(from, at)) != std::string::npos; at += to.size()) part.replace(at, from.size(), to);
    EXPECT_NE(part, text) << name;
    return folder.write(name, part);
  };
  const std::pair<std::string, std::string> sms = {"\"numSms\": 132", "\"numSms\": 32"};
  const std::string quarter = changed("quarter.json", {sms}), other = changed("other.json", {sms, {"sgemm_128x64_tn", "sgemm_64x32_tn"}});
  const std::string import = "import kineto " + whole + " -o " + folder.path("t.json") + " --by-sms ";
  const Ran same = sim(import + quarter);
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_NE(same.out.find("note: On 32 of 132 SMs 4 of 4 launches are the same"), std::string::npos) << same.out;
  EXPECT_NE(read(folder.path("t.json")).find("\"solo_time_by_sms_ns\": {\"32\": "), std::string::npos);
  const Ran two = sim(import + other + " --by-sms 66=" + whole);
  EXPECT_NE(two.out.find("On 32 of 132 SMs 1 of 4"), std::string::npos) << two.out;
  EXPECT_NE(two.out.find("On 66 of 132 SMs 4 of 4"), std::string::npos) << two.out;
  EXPECT_NE(read(folder.path("t.json")).find("\"on_sms\": {\"32\": \"kineto_small on 32 SMs\"}"), std::string::npos);
  const std::string gemm = "--policy=mps:percentages=25 --duration 5ms ", none = changed("none.json", {sms, {"sgemm_128x64_tn", "x"}, {"relu", "y"}, {"reduce", "z"}});
  EXPECT_NE(sim(gemm + folder.path("t.json")).out.find("'kineto_small on 32 SMs'"), std::string::npos);
  EXPECT_NE(sim(gemm + "--client a=" + whole + ",by-sms=" + other).out.find("a 'kineto_small on 32 SMs'"), std::string::npos);
  EXPECT_EQ(sim(gemm + "--client a=" + whole + ",by-sms=" + quarter).out.find("on 32 SMs'"), std::string::npos);

  expect_refused(import + whole, {whole, "--by-sms", "does not say on how many SMs", "33=" + whole});
  expect_refused(import + folder.path("no.json"), {"no.json", "No such file"});
  expect_refused(import + "133=" + quarter, {"quarter.json", "133 SMs are no part of the 132"});
  expect_refused("--client a=" + whole + ",by-sms=" + whole, {whole, "by-sms", "does not say on how many SMs"});
  expect_refused("--client a=" + folder.path("t.json") + ",by-sms=" + quarter, {"quarter.json", "t.json is no recording"});
}

/// Two kernels of two clients, which policies that size kernels give parts of the GPU.
const char* const kTwoKernels = R"({"corun_trace": 1, "name": "t", "gpu": "h200", "kernels": [
  {"name": "a", "grid": [4000,1,1], "block": [256,1,1], "registers_per_thread": 32, "solo_time_ns": 200000},
  {"name": "b", "grid": [100,1,1], "block": [128,1,1], "registers_per_thread": 64, "solo_time_ns": 50000}],
  "programs": [{"name": "p", "ops": [{"launch": "a"}]}, {"name": "q", "ops": [{"launch": "b"}]}],
  "clients": [{"name": "x", "program": "p", "arrivals": {"type": "once"}},
              {"name": "y", "program": "q", "arrivals": {"type": "once"}}]})";

TEST(Command, AProfileFileTakesThePlaceOfSimulatedProfiles) {
  const Folder folder;
  const std::string file = folder.write("t.json", kTwoKernels), profiles = folder.path("p.json");
  Ran ran = sim(fmt::format("profile {} -o {}", file, profiles));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.out, "");
  auto printed = nlohmann::ordered_json::parse(sim("profile " + file).out), written = nlohmann::ordered_json::parse(read(profiles));
  printed.erase("$schema"), written.erase("$schema");
  EXPECT_EQ(printed, written);
  // Profiles that say otherwise are believed: one CTA is the best that there is.
  std::string poor = R"({"corun_profile": 1, "gpu": "h200", "source": "by hand", "kernels": [)";
  for (const char* kernel : {"a", "b"})
    poor +=
        fmt::format(R"({}{{"kernel": "{}", "points": [{{"sms": 1, "ctas_per_sm": 1, "time_ns": 1000}}]}})",
                    *kernel == 'a' ? "" : ", ", kernel);
  const std::string other = folder.write("poor.json", poor + "]}");
  for (const char* policy : {"greedy", "slate", "smcompactor"}) {
    const std::string command = fmt::format("--json --policy={} {}", policy, file);
    const Ran without = sim(command), with = sim(command + " --profiles " + profiles);
    EXPECT_EQ(without.code, 0) << without.out;
    EXPECT_EQ(without.out, with.out) << policy;
    ran = sim(command + " --profiles " + other);
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out, with.out) << policy;
  }
  const Ran compared = sim(fmt::format("compare --json --policies=greedy --profiles {} {}", other, file));
  EXPECT_EQ(compared.code, 0) << compared.out;
  EXPECT_NE(compared.out, sim("compare --json --policies=greedy " + file).out);
}

TEST(Command, ProfilesThatDoNotFitTheRunAreRefused) {
  const Folder folder;
  const std::string file = folder.write("t.json", kTwoKernels);
  const std::string one = folder.write("one.json", R"({"corun_profile": 1, "gpu": "h200", "source": "by hand",
    "kernels": [{"kernel": "a", "points": [{"sms": 1, "ctas_per_sm": 1, "time_ns": 1000}]}]})");
  expect_refused(fmt::format("--policy=greedy --profiles {} {}", one, file), {"one.json", "/kernels", "'b'"});
  expect_refused(fmt::format("--gpu=a100 --policy=greedy --profiles {} {}", one, file),
                 {"one.json", "/gpu", "h200", "a100"});
  expect_refused(fmt::format("--policy=greedy --profiles {} {}", file, file), {"t.json", "corun_profile"});
  expect_refused("profile " + folder.path("none.json"), {"none.json"});
  expect_refused("profile --gpu=h300 " + file, {"h300"});
  expect_refused("profile " + file + " -o /proc/nowhere", {"/proc/nowhere"});
  std::string large = kTwoKernels;
  large.replace(large.find("[256,1,1]"), 9, "[2048,1,1]");
  expect_refused("profile " + folder.write("large.json", large), {"large.json", "/kernels/0", "2048"});
}

TEST(Command, TheSameInputGivesTheSameBytesTwice) {
  const Folder folder;
  const std::string example = "traces/h200/examples/realtime-resnet50-beside-resnet152.json";
  for (const char* policy : {"fcfs", "priority", "timeslice", "tpc-mask:split=even", "greedy"}) {
    for (const char* out : {"a", "b"})
      ASSERT_EQ(sim(fmt::format("--policy={} --duration=2ms --trace-level=cta --out {} {}", policy,
                                folder.path(out), example))
                    .code,
                0);
    for (const char* file :
         {"summary.json", "requests.csv", "kernels.csv", "timeline.pftrace", "occupancy.svg"}) {
      const std::string a = read(folder.path("a") + "/" + file);
      EXPECT_FALSE(a.empty()) << file;
      EXPECT_EQ(a, read(folder.path("b") + "/" + file)) << policy << " " << file;
    }
  }
}

// The golden files were written by a gcc build; the clang preset runs this test too.
// tests/golden/regenerate.sh
TEST(Command, EveryCompilerGivesTheCommittedBytes) {
  const std::string example = "traces/h200/examples/six-clients.json";
  for (const char* policy : {"fcfs", "priority", "timeslice", "tpc-mask", "greedy"})
    EXPECT_EQ(sim(fmt::format("--json --duration=5ms --policy={}{} {}", policy,
                              std::string(policy) == "tpc-mask" ? ":split=even" : "", example))
                  .out,
              read(fmt::format("tests/golden/six-clients.{}.json", policy)));
}

/// A list ends with its commas: what follows is the trace.
TEST(Command, OptionsWithListsMayStandBeforeTheTrace) {
  const std::string trace = " traces/h200/examples/realtime-resnet50-beside-resnet152.json";
  EXPECT_EQ(sim("compare --policies fcfs,priority" + trace + " --duration=5ms").code, 0);
  EXPECT_EQ(sim("compare --duration=5ms --policies=fcfs --gpus=h200,l40s" + trace).code, 0);
}

TEST(Command, EveryOptionOfHelpExists) {
  EXPECT_EQ(sim("--help").code, 0);
  EXPECT_EQ(sim("--version").code, 0);
  const Ran help = sim("--policy=help");
  for (const char* policy : {"fcfs", "priority", "timeslice", "tpc-mask", "greedy"})
    EXPECT_NE(help.out.find(policy), std::string::npos);
  for (const char* operators_word : {"equal-slices", "gpucores", "static-partitioning", "green-contexts"})
    EXPECT_NE(help.out.find(operators_word), std::string::npos);
  EXPECT_NE(help.out.find("unverified: no driver here has it"), std::string::npos);
  EXPECT_NE(sim("gpus").out.find("gtx-1060-3gb"), std::string::npos);
  for (const char* name : {"trace", "gpu", "reference"})
    EXPECT_EQ(sim(std::string("schema ") + name).out.substr(0, 1), "{");
}

TEST(Command, AMisspeltOptionOrSubcommandIsAnsweredWithTheRightOne) {
  expect_refused("--polcy=greedy t.json", {"did you mean '--policy'"});
  expect_refused("compare --polices=greedy t.json", {"did you mean '--policies'"});
  expect_refused("compar t.json", {"did you mean 'compare'"});
}

TEST(Command, InterruptedItGivesTheResultsSoFarWithExitCode130) {
  const Folder folder;
  const std::string file = folder.write("t.json", trace("", kLaunch));
  const std::string command = fmt::format(
      "timeout --preserve-status -s INT 0.5 {} --duration=100000s --json --client a={},closed --client b={},closed",
      sim_file(), file, file);
  const Ran ran = shell(command);
  EXPECT_EQ(ran.code, 130);
  const auto result = nlohmann::json::parse(ran.out);
  EXPECT_GT(result["clients"][0]["finished"], 0);
  EXPECT_NE(result["notes"].dump().find("interrupted at"), std::string::npos);
}

}  // namespace
}  // namespace corun
