// What an import of a Kineto trace keeps, what it assumes and says, and what it refuses.
#include "traces/import/kineto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tests/traces/import/kineto_text.h"
#include "traces/json/input_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using namespace kineto_text;
using std::filesystem::path;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

InputError refusal(const std::string& text) {
  try {
    import_text(text);
  } catch (const InputError& error) {
    return error;
  }
  ADD_FAILURE() << "imported what should be refused";
  return {"", "", "", ""};
}

/// "sgemm@7", "copy@7", "sync"
std::vector<std::string> outline(const Trace& trace) {
  std::vector<std::string> all;
  const Program& program = trace.programs.at(0);
  for (const Op& op : program.ops) {
    const std::string stream = "@" + program.streams.at(op.stream.value).name;
    if (std::holds_alternative<Launch>(op.what)) {
      all.push_back(kernel_name(trace, op) + stream);
    } else {
      all.push_back(std::holds_alternative<Copy>(op.what) ? "copy" + stream : "sync");
    }
  }
  return all;
}

/// When kernels start as the host and one stream play them: an independent, minimal model.
std::vector<Time> replayed_starts(const Trace& trace, const Gpu& gpu) {
  std::vector<Time> starts;
  Time host{};
  std::vector<Time> free(trace.programs[0].streams.size(), -gpu.stream_gap);
  for (const Op& op : trace.programs[0].ops) {
    const Time call = host + op.host_gap;
    host = call + gpu.launch_call;
    Time& stream = free[op.stream.value];
    starts.push_back(std::max(call + gpu.launch_latency, stream + gpu.stream_gap));
    stream = starts.back() + solo_time(trace, std::get<Launch>(op.what));
  }
  return starts;
}

TEST(KinetoImport, StreamsAndOrderAreKept) {
  const Trace trace = import_kineto(kSmall);
  EXPECT_EQ(trace.name, "kineto_small");
  EXPECT_EQ(trace.gpu, "h200");
  EXPECT_THAT(outline(trace),
              ElementsAre("copy@7", "sgemm_128x64_tn@7", "void relu<float, 4>(int, float*)@20",
                          "sgemm_128x64_tn@7", "copy@20", "sgemm_128x64_tn@7", "sync", "copy@7", "sync"));
  const auto& ops = trace.programs[0].ops;
  EXPECT_EQ(std::get<Copy>(ops[0].what).direction, CopyDirection::host_to_device);
  EXPECT_EQ(std::get<Copy>(ops[0].what).bytes, 602112u);
  EXPECT_EQ(std::get<Copy>(ops[4].what).direction, CopyDirection::device_to_device);
  EXPECT_EQ(std::get<Copy>(ops[7].what).direction, CopyDirection::device_to_host);
  ASSERT_EQ(trace.clients.size(), 1u);
  EXPECT_EQ(trace.clients[0].name, "main");
  EXPECT_TRUE(std::holds_alternative<ClosedLoop>(trace.clients[0].arrivals));
  EXPECT_FALSE(trace.run.duration);
}

TEST(KinetoImport, SameLaunchesAreOneKernel) {
  const Trace trace = import_kineto(kSmall);
  ASSERT_EQ(trace.kernels.size(), 2u);
  EXPECT_EQ(trace.kernels[0].solo_time, from_ns(20500));  // median of 20, 20.5 and 21 us
  EXPECT_EQ(trace.kernels[0].grid, (Dim3{196, 1, 1}));
  EXPECT_EQ(trace.kernels[0].block, (Dim3{128, 1, 1}));
  EXPECT_EQ(trace.kernels[0].registers_per_thread, 122u);
  const auto& ops = trace.programs[0].ops;
  EXPECT_EQ(std::get<Launch>(ops[1].what).solo_time, from_ns(20000));
  EXPECT_EQ(std::get<Launch>(ops[3].what).solo_time, from_ns(21000));
  EXPECT_EQ(std::get<Launch>(ops[5].what).solo_time, std::nullopt);
}

TEST(KinetoImport, OneNameInTwoShapesIsTwoKernels) {
  const Trace trace =
      import_text("[" + record("k", 100, 5) + "," + replaced(record("k", 200, 5), "[32,", "[64,") + "]");
  ASSERT_EQ(trace.kernels.size(), 2u);
  EXPECT_NE(trace.kernels[0].name, trace.kernels[1].name);
}

TEST(KinetoImport, HostGapsComeFromLaunchCalls) {
  std::vector<Time> gaps;
  const Trace trace = import_kineto(kSmall);
  for (const Op& op : trace.programs[0].ops) gaps.push_back(op.host_gap);
  EXPECT_THAT(gaps, ElementsAre(from_ns(900), from_ns(8500), from_ns(12200), from_ns(4200), from_ns(3200),
                                from_ns(9200), from_ns(5000), from_ns(8400), from_ns(1800)));
}

/// What the host's calls and its gaps between them take.
std::pair<Time, Time> host_of(const Trace& trace) {
  Time calls{}, gaps{};
  for (const Op& op : trace.programs[0].ops) {
    gaps += op.host_gap;
    if (!std::holds_alternative<Sync>(op.what)) calls += read_gpu(trace.gpu).launch_call;
  }
  return {calls, gaps};
}

TEST(KinetoImport, HostGapsShrinkAlikeToTheTimeOfTheHostWithoutTheProfiler) {
  const Trace recorded = import_kineto(kSmall, "h200");
  const auto [calls, gaps] = host_of(recorded);
  const Trace trace = import_kineto(kSmall, "h200", {}, calls + gaps / 2);
  for (std::size_t i = 0; i < recorded.programs[0].ops.size(); ++i)
    EXPECT_EQ(trace.programs[0].ops[i].host_gap, recorded.programs[0].ops[i].host_gap / 2) << i;
  EXPECT_THAT(trace.notes, Contains(HasSubstr("Host gaps are 0.500 of the recorded ones")));
  EXPECT_THAT(trace.notes, Not(Contains(HasSubstr("the profiler's own cost"))));
}

TEST(KinetoImport, TheProfilerOnlySlowsTheHostSoGapsNeverGrow) {
  const Trace recorded = import_kineto(kSmall, "h200");
  const auto [calls, gaps] = host_of(recorded);
  for (const Time longer : {Time{}, from_ns(1000)}) {
    const Trace trace = import_kineto(kSmall, "h200", {}, calls + gaps + longer);
    EXPECT_EQ(host_of(trace).second, gaps);
    EXPECT_THAT(trace.notes, Contains(HasSubstr("its gaps are as recorded")));
  }
}

TEST(KinetoImport, ATimeInWhichTheHostCannotIssueTheRequestIsRefused) {
  const auto [calls, gaps] = host_of(import_kineto(kSmall, "h200"));
  EXPECT_EQ(host_of(import_kineto(kSmall, "h200", {}, calls)).second, Time{});
  const auto refused = [](const path& file, Time host_time, const char* why) {
    try {
      import_kineto(file, "h200", {}, host_time);
      ADD_FAILURE() << why;
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), "--host-time");
      EXPECT_THAT(error.problem(), HasSubstr(why));
    }
  };
  refused(kSmall, calls - from_ns(1), "less than its 7 calls take the host");
  refused(TestFile("[" + record("k", 100, 5) + "]"), from_ns(1e6), "no launch calls");
  refused("experiments/h200/networks/recordings/dlrm_b2048.graph.json.gz", from_ns(1e6), "CUDA graph");
}

TEST(KinetoImport, WithoutLaunchCallsStartsAreReproduced) {
  const Gpu gpu = read_gpu("h200");
  // 10 us apart; the third starts 1 us (about the stream gap) after the second's end, for which the host must
  // have run ahead.
  const Trace trace = import_text(
      "[" + record("a", 1000, 4) + "," + record("b", 1010, 0.5) + "," + record("c", 1011.5, 4) + "]", "h200");
  EXPECT_THAT(replayed_starts(trace, gpu),
              ElementsAre(gpu.launch_latency, gpu.launch_latency + from_ns(11500) - gpu.launch_call,
                          gpu.launch_latency + from_ns(11500)));

  for (const Network& network : kNetworks) {
    const Trace whole = import_kineto(source_of(network), "h200");
    ASSERT_EQ(whole.programs[0].ops.size(), network.kernels);
    std::vector<Time> recorded;
    const std::string text = text_of(source_of(network));
    for (std::size_t at = 0; (at = text.find("\"ts\": ", at)) != std::string::npos; ++at) {
      const std::string digits = text.substr(at + 6, text.find(',', at) - at - 6);
      const std::size_t point = digits.find('.');
      const std::string fraction = point == std::string::npos ? "" : digits.substr(point + 1);
      recorded.push_back(std::chrono::microseconds{std::stoll(digits.substr(0, point))} %
                             std::chrono::hours{1} +
                         std::chrono::nanoseconds{std::stoll((fraction + "000").substr(0, 3))});
    }
    const std::vector<Time> starts = replayed_starts(whole, gpu);
    ASSERT_EQ(recorded.size(), starts.size());
    const Time most = from_ns(1000);
    std::size_t exact = 0;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const Time off = (starts[i] - starts.back()) - (recorded[i] - recorded.back());
      EXPECT_LE(std::chrono::abs(off), most) << network.name << " " << i;
      exact += off == Time{} ? 1 : 0;
    }
    EXPECT_GE(exact * 20, starts.size() * 19) << network.name;
  }
}

TEST(KinetoImport, ProfilerStepsBecomeRequests) {
  const auto step = [](int n, double start, double duration) {
    std::ostringstream out;
    out.precision(17);
    out << R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#)" << n
        << R"(", "pid": 1, "tid": 1, "ts": )" << start << R"(, "dur": )" << duration << "},";
    return out.str();
  };
  const auto traced = [](double start) {
    return replaced(record("k", start, 4), R"("name")", R"("ph": "X", "cat": "kernel", "name")");
  };
  const Trace trace = import_text(R"({"traceEvents": [)" + step(1, 1000, 50) + step(2, 1050, 20) +
                                  step(3, 1070, 30) + step(4, 2000, 1) + traced(1010) + "," + traced(1055) +
                                  "," + traced(1080) + "," + traced(1090) + "]}");
  // Step 4 has no kernels; of 20, 30 and 50 us the median is step 3.
  EXPECT_THAT(trace.notes,
              Contains(HasSubstr("ProfilerStep#3 (0.030 ms), the median of 3 steps (0.020 to 0.050 ms)")));
  ASSERT_EQ(trace.programs[0].ops.size(), 2u);
  // 10 us into the step, less the assumed latency of 5 us.
  EXPECT_EQ(trace.programs[0].ops[0].host_gap, from_ns(5000));
}

TEST(KinetoImport, OneGraphLaunchIsOneRequestInOneCall) {
  std::string text = text_of(kSmall);
  for (const char* id : {"11", "14", "15", "16", "17", "19"})
    text = replaced(text, std::string("\"correlation\": ") + id, "\"correlation\": 10");
  text = replaced(text, "cudaMemcpyAsync", "cudaGraphLaunch");
  text = replaced(text, R"("name": "cudaStreamSynchronize")", R"("name": "cudaMalloc")");
  text = replaced(text, R"("cat": "cuda_sync")", R"("cat": "other")");
  EXPECT_EQ(import_text(text).programs[0].issue, Issue::graph);
  EXPECT_EQ(import_kineto(kSmall).programs[0].issue, Issue::eager);
}

TEST(KinetoImport, AMemsetIsACopyOfHalfAsManyBytes) {
  const Trace trace = import_kineto(kSmall);
  EXPECT_EQ(std::get<Copy>(trace.programs[0].ops[4].what).bytes, 2048u);
}

TEST(KinetoImport, SharedMemoryIsKept) {
  const Trace trace = import_kineto(kSmall);
  EXPECT_EQ(trace.kernels[0].shared_memory_bytes(), 12544u);
  EXPECT_EQ(trace.kernels[1].shared_memory_bytes(), 0u);
  EXPECT_THAT(trace.notes, Contains(HasSubstr("one sum")));
}

TEST(KinetoImport, WhatWasMissingIsSaid) {
  const Trace full = import_kineto(kSmall);
  EXPECT_THAT(full.notes, Contains(HasSubstr("hardware counters")));
  EXPECT_THAT(full.notes, Contains(HasSubstr("cluster")));
  EXPECT_THAT(full.notes, Contains(HasSubstr("single blocks")));
  EXPECT_THAT(full.notes, Contains(HasSubstr("1 copy uses pageable memory")));
  EXPECT_THAT(full.notes, Contains(HasSubstr("1 memset is")));
  EXPECT_THAT(full.notes, Contains(HasSubstr("beside another stream's")));
  EXPECT_THAT(full.notes, Each(Not(HasSubstr("No copies"))));
  EXPECT_THAT(full.notes, Each(Not(HasSubstr("No launch calls"))));

  const Trace bare = import_text(
      "[" + replaced(record("k", 100, 5), R"("registers per thread")", R"("other")") + "]", "h200");
  EXPECT_THAT(bare.notes, Contains(HasSubstr("No launch calls")));
  EXPECT_THAT(bare.notes, Contains(HasSubstr("No copies")));
  EXPECT_THAT(bare.notes, Contains(HasSubstr("without a register count")));
  EXPECT_THAT(bare.notes, Contains(HasSubstr("No ProfilerStep")));
}

TEST(KinetoImport, OneDeviceIsImportedAndTheOthersAreSaid) {
  const std::string kernel =
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"grid": [1, 1, 1],
      "block": [32, 1, 1], "registers per thread": 32, "shared memory": 0, "stream": 7, "device": )";
  const Trace trace =
      import_text(R"({"traceEvents": [)" + kernel + "0}}," + kernel + "1}}," + kernel + "1}}]}");
  EXPECT_EQ(trace.programs[0].ops.size(), 2u);
  EXPECT_THAT(trace.notes, Contains(HasSubstr("Only device 1 is imported; the other 1 device")));
}

TEST(KinetoImport, TimesSince1970KeepTheirNanoseconds) {
  const Trace trace = import_text(R"([
    {"name": "a", "ts": 1759276800000000.123, "dur": 1.001, "grid": [1, 1, 1], "block": [32, 1, 1]},
    {"name": "b", "ts": 1759276800000100.456, "dur": 1, "grid": [1, 1, 1], "block": [32, 1, 1]}])",
                                  "h200");
  const Gpu gpu = read_gpu("h200");
  EXPECT_EQ(trace.kernels[0].solo_time, from_ns(1001));
  EXPECT_EQ(trace.programs[0].ops[1].host_gap + gpu.launch_call, from_ns(100333));
}

TEST(KinetoImport, GzipImportsTheSame) {
  const path compressed = source_of(kNetworks[0]);
  const TestFile plain(text_of(compressed), "resnet50_b1.kernels.json");
  Trace from_plain = import_kineto(plain, "h200"), from_gzip = import_kineto(compressed, "h200");
  EXPECT_NE(from_plain.about, from_gzip.about);  // names the file
  from_plain.about = from_gzip.about;
  EXPECT_EQ(written(from_plain), written(from_gzip));
  EXPECT_TRUE(looks_like_kineto(plain));
  EXPECT_TRUE(looks_like_kineto(compressed));
}

TEST(KinetoImport, UnknownGpuIsSaid) {
  const Trace unknown = import_text(replaced(text_of(kSmall), "NVIDIA H200", "NVIDIA H9000"));
  EXPECT_EQ(unknown.gpu, "");
  EXPECT_THAT(unknown.notes,
              Contains(testing::AllOf(HasSubstr("H9000"), HasSubstr("132 SMs"), HasSubstr("--gpu"))));

  const Trace part = import_text(replaced(text_of(kSmall), R"("numSms": 132)", R"("numSms": 16)"));
  EXPECT_EQ(part.gpu, "") << "a slice of an H200 is not an H200";

  const Trace other = import_kineto(kSmall, "v100");
  EXPECT_EQ(other.gpu, "v100");
  EXPECT_THAT(other.notes, Contains(HasSubstr("Recorded on a GPU of 132 SMs")));
}

TEST(KinetoImport, AClientOfMpsWasRecordedOnItsPartWithoutWhatMpsAdds) {
  const Gpu gpu = read_gpu("h200");
  const TestFile file(replaced(text_of(kSmall), R"("numSms": 132)", R"("numSms": 78)"));
  const Trace whole = import_kineto(kSmall, "h200"), part = import_kineto(file, "h200");
  EXPECT_THAT(part.notes, Contains(HasSubstr("Recorded on 78 of the GPU's 132 SMs")));
  ASSERT_EQ(part.kernels.size(), whole.kernels.size());
  for (std::size_t i = 0; i < whole.kernels.size(); ++i) {
    const Time solo = *whole.kernels[i].solo_time;
    EXPECT_EQ(whole.kernels[i].solo_time_sms, 0u);
    EXPECT_EQ(part.kernels[i].solo_time_sms, 78u);
    EXPECT_EQ(*part.kernels[i].solo_time, std::max(solo / 2, solo - gpu.mps_kernel));
  }
}

TEST(KinetoImport, APartThatTheRecordingDoesNotShowIsTold) {
  const Trace part = import_kineto(kSmall, "h200", {}, {}, 66);
  for (const Kernel& k : part.kernels) EXPECT_EQ(k.solo_time_sms, 66u);
  EXPECT_EQ(part.kernels[0].solo_time, import_kineto(kSmall, "h200").kernels[0].solo_time);
  EXPECT_NO_THROW(import_kineto(kSmall, "h200", {}, {}, 132));
  EXPECT_THROW(import_kineto(kSmall, "h200", {}, {}, 133), InputError);
}

TEST(KinetoImport, GpuIsFoundByItsName) {
  const std::string text = text_of(kSmall);
  const auto gpu = [&](const char* name, const char* sms) {
    return import_text(replaced(replaced(text, "NVIDIA H200", name), R"("numSms": 132)",
                                std::string(R"("numSms": )") + sms));
  };
  EXPECT_EQ(gpu("Tesla V100-SXM2-32GB", "80").gpu, "v100-sxm2");
  EXPECT_EQ(gpu("NVIDIA A100-SXM4-80GB", "108").gpu, "a100-80gb");
  EXPECT_EQ(gpu("NVIDIA TITAN V", "80").gpu, "titan-v");
  EXPECT_THAT(gpu("Tesla V100-SXM2-32GB", "80").notes, Contains(HasSubstr("is simulated as")));
}

TEST(KinetoImport, TruncatedTraceNamesThePlace) {
  const std::string text = text_of(kSmall);
  for (const std::size_t cut : {text.size() / 3, text.size() / 2, text.size() - 3}) {
    const InputError error = refusal(text.substr(0, cut));
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(cut), '\n');
    EXPECT_THAT(error.place(),
                HasSubstr("line " + std::to_string(lines + 1) + " (byte " + std::to_string(cut)));
    EXPECT_THAT(error.problem(), HasSubstr("ends in the middle"));
    EXPECT_THAT(error.file(), HasSubstr("trace.json"));
    EXPECT_THAT(error.remedy(), Not(IsEmpty()));
  }
}

/// kSmall with such a time, as PyTorch's add_metadata_json writes it.
std::string with_request_time(const std::string& value) {
  return replaced(text_of(kSmall), "\"displayTimeUnit\"", "\"corun_request_time_us\": " + value + ", \"displayTimeUnit\"");
}

std::optional<Time> request_time(const std::string& value, const std::string& range = {}) {
  std::string text = with_request_time(value);
  if (!range.empty()) text = replaced(text, "\"traceEvents\": [", R"("traceEvents": [{"ph": "X", "cat": "user_annotation", "name": ")" + range + R"(", "ts": 4404001950900.000, "dur": 1000},)");
  ImportOptions options;
  options.range = range;
  RecordedTimes recorded;
  import_kineto(TestFile(text), options, &recorded);
  return recorded.without_profiler.empty() ? std::nullopt : std::optional{recorded.without_profiler.front()->request};
}

TEST(KinetoImport, TheRecordingCanSayWhatARequestTakesWithoutTheProfiler) {
  using std::chrono::microseconds;
  EXPECT_EQ(request_time("3214.5"), Time{std::chrono::nanoseconds{3'214'500}});
  EXPECT_EQ(request_time("80"), Time{microseconds{80}});
  EXPECT_EQ(request_time(R"({"ProfilerStep": 80, "decode": 70})"), Time{microseconds{80}});
  EXPECT_EQ(request_time(R"({"prefill": 80, "decode": 70})", "decode"), Time{microseconds{70}});
  EXPECT_EQ(request_time("80", "decode"), Time{microseconds{80}}) << "of any range";
  EXPECT_EQ(request_time(R"({"prefill": 80})", "decode"), std::nullopt);
  EXPECT_EQ(request_time("{}"), std::nullopt);
  RecordedTimes none;
  import_kineto(kSmall, ImportOptions{}, &none);
  EXPECT_TRUE(none.without_profiler.empty());
}

TEST(KinetoImport, ATimeWithoutTheProfilerThatIsNoneIsRefused) {
  EXPECT_EQ(request_time("0.001"), Time{std::chrono::nanoseconds{1}});
  EXPECT_EQ(request_time("3600000000"), Time{std::chrono::hours{1}});
  for (const char* value : {"0", "-5", "3600000001", "1e300", "\"80\"", "null", "true", "[80]", R"({"a": "80"})", R"({"a": {"b": 80}})", R"({"a": null})"}) {
    const InputError error = refusal(with_request_time(value));
    EXPECT_THAT(error.problem(), HasSubstr("`corun_request_time_us` is neither a number of microseconds")) << value;
    EXPECT_THAT(error.remedy(), HasSubstr("add_metadata_json"));
    EXPECT_THAT(error.place(), HasSubstr("line "));
  }
}

TEST(KinetoImport, CutGzipNamesThePlace) {
  std::ifstream in(source_of(kNetworks[0]), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  const InputError error = refusal(bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(error.problem(), HasSubstr("cut short"));
  EXPECT_THAT(error.place(), HasSubstr("line 1 (byte "));
}

TEST(KinetoImport, NestingBombIsRefused) {
  const std::string bomb(1000000, '[');
  for (const std::string& text : {bomb, R"({"traceEvents": [{"args": {"x": )" + bomb})
    EXPECT_THAT(refusal(text).problem(), HasSubstr("nested more than 64 levels"));
  EXPECT_FALSE(looks_like_kineto(TestFile(bomb)));
}

TEST(KinetoImport, BrokenRecordsAreRefused) {
  const std::string good = record("k", 100, 5);
  const auto problem = [&](std::string_view from, std::string_view to) {
    return refusal("[\n" + good + ",\n" + replaced(good, from, to) + "]");
  };
  EXPECT_THAT(problem("[1, 1, 1]", "[1, 1]").problem(), HasSubstr("`grid`"));
  EXPECT_THAT(problem("[1, 1, 1]", "[0, 1, 1]").problem(), HasSubstr("`grid`"));
  EXPECT_THAT(problem("[1, 1, 1]", "[65536, 65535, 2]").problem(), HasSubstr("`grid`"));
  EXPECT_THAT(problem("[32, 1, 1]", "[32, 1, -1]").problem(), HasSubstr("`block`"));
  EXPECT_THAT(problem("[32, 1, 1]", "[32, 33, 1]").problem(), HasSubstr("1056 in all"));
  EXPECT_THAT(problem("\"dur\": 5", "\"dur\": -5").problem(), HasSubstr("negative"));
  EXPECT_THAT(problem("\"dur\": 5", "\"dur\": \"5\"").problem(), HasSubstr("`dur`"));
  EXPECT_THAT(problem("\"ts\": 100", "\"ts\": 1e300").problem(), HasSubstr("`ts`"));
  EXPECT_THAT(problem("\"ts\": 100", "\"ts\": 1e14").problem(), HasSubstr("30 days"));
  EXPECT_THAT(problem("\"shared memory\": 0", "\"shared memory\": -1").problem(), HasSubstr("shared memory"));
  EXPECT_THAT(problem("[1, 1, 1]", "[1, 1]").place(), HasSubstr("line 3"));
  EXPECT_THAT(problem("\"k\"", "\"\xff\"").problem(), HasSubstr("UTF-8"));
  EXPECT_THAT(problem("\"dur\": 5", "\"dur\" 5").problem(), HasSubstr("not JSON"));
}

// Found by fuzzing.
TEST(KinetoImport, CopiesWithoutKernelsAreNothingToImport) {
  EXPECT_THAT(refusal(R"({"traceEvents":[{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","ts":1,"dur":2,"args":{"bytes":9}}]})")
                  .problem(),
              HasSubstr("no GPU kernels"));
}

TEST(KinetoImport, WithoutKernelsThereIsNothingToImport) {
  for (const char* text : {"[]", "{}", R"({"traceEvents": []})", "7"})
    EXPECT_THAT(refusal(text).problem(), HasSubstr("it has no events")) << text;
}

TEST(KinetoImport, IsRecognisedByContent) {
  EXPECT_TRUE(looks_like_kineto(kSmall));
  EXPECT_TRUE(looks_like_kineto(TestFile(R"([{"ph": "X", "ts": 1}])", "any.name")));
  for (const char* other :
       {"", "[]", "{}", R"({"corun_trace": 1})", R"({"time": 60, "tasks": []})", "[1, 2]", "[[{\"ts\"",
        R"([{"a": 1}, {"ph": "X", "ts": 1}])", "ID,\"Kernel Name\"\n1,\"k\"\n"})
    EXPECT_FALSE(looks_like_kineto(TestFile(other))) << other;
  EXPECT_FALSE(looks_like_kineto("tests/data/no such file"));
  EXPECT_FALSE(looks_like_kineto("tests/data"));
}

}  // namespace
}  // namespace corun
