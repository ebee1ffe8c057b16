// A trace is read as FORMAT.md says, and every default is as it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/traces/json/trace_format.h"
#include "traces/json/input_file.h"
#include "traces/json/schema.h"

namespace corun {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// The example of FORMAT.md: its first block of JSON.
std::string documented_example() {
  const std::string text = text_of("traces/FORMAT.md");
  const auto begin = text.find("```json\n") + 8;
  return text.substr(begin, text.find("```", begin) - begin);
}

constexpr const char* kIncludedByTheExample = R"({"corun_trace": 1,
  "kernels": [{"name": "conv", "grid": [1, 1, 1], "block": [32, 1, 1], "registers_per_thread": 40, "solo_time_ns": 5}],
  "programs": [{"name": "resnet", "ops": [{"launch": "conv"}]}]})";

TEST_F(TraceFormat, DocumentedExampleIsReadCompletely) {
  write("resnet50_b1.json", kIncludedByTheExample);
  const Trace trace = read(documented_example());
  EXPECT_EQ(trace.name, "two networks");
  EXPECT_EQ(trace.gpu, "h200");
  EXPECT_THAT(trace.notes, IsEmpty());

  ASSERT_THAT(trace.kernels, SizeIs(2));
  const Kernel& gemm = trace.kernels[0];
  EXPECT_EQ(gemm.name, "gemm");
  EXPECT_EQ(gemm.grid, (Dim3{8, 7, 1}));
  EXPECT_EQ(gemm.block, (Dim3{128, 1, 1}));
  EXPECT_EQ(gemm.cluster, (Dim3{1, 1, 1}));
  EXPECT_EQ(gemm.registers_per_thread, 88u);
  EXPECT_EQ(gemm.static_shared_memory_bytes, 0u);
  EXPECT_EQ(gemm.dynamic_shared_memory_bytes, 16384u);
  EXPECT_TRUE(gemm.idempotent);
  EXPECT_TRUE(gemm.ptx);
  EXPECT_EQ(gemm.solo_time, from_ns(3424));
  EXPECT_EQ(gemm.solo_time_by_sms,
            (std::map<std::uint32_t, Time>{{8, from_ns(20000)}, {132, from_ns(3424)}}));
  EXPECT_THAT(gemm.block_times, ElementsAre(from_ns(3000)));
  const Counters& counters = gemm.counters;
  for (const auto& counter :
       {counters.dram_read_bytes, counters.dram_write_bytes, counters.l2_bytes, counters.l1_bytes,
        counters.warp_instructions, counters.tensor_instructions, counters.issue_active_pct,
        counters.warps_active_pct, counters.fp64_active_pct, counters.duration_ns})
    EXPECT_EQ(counter, 1.0);
  EXPECT_EQ(trace.kernels[1].name, "conv");

  ASSERT_THAT(trace.programs, SizeIs(2));
  const Program& infer = trace.programs[0];
  EXPECT_EQ(infer.name, "infer");
  EXPECT_EQ(infer.issue, Issue::eager);
  ASSERT_THAT(infer.streams, SizeIs(2));
  EXPECT_EQ(infer.streams[1].name, "side");
  ASSERT_THAT(infer.ops, SizeIs(6));
  EXPECT_THAT(infer.buffers, ElementsAre("images"));
  EXPECT_EQ(std::get<Alloc>(infer.ops[0].what).bytes, 602112u);
  EXPECT_THAT(*infer.ops[1].uses, ElementsAre(0u));
  EXPECT_EQ(infer.ops[2].uses, std::nullopt);
  EXPECT_EQ(std::get<Free>(infer.ops[5].what).buffer, 0u);
  EXPECT_EQ(std::get<Copy>(infer.ops[1].what).direction, CopyDirection::host_to_device);
  EXPECT_EQ(std::get<Copy>(infer.ops[1].what).bytes, 602112u);
  EXPECT_EQ(infer.ops[2].name, "first");
  EXPECT_EQ(infer.ops[2].host_gap, from_ns(1200));
  EXPECT_EQ(std::get<Launch>(infer.ops[2].what).solo_time, from_ns(3500));
  EXPECT_EQ(infer.ops[3].stream, StreamId{1});
  EXPECT_THAT(infer.ops[3].after, ElementsAre(OpId{2}));
  TpcMask mask = TpcMask::range(0, 33);
  mask.enable(TpcId{40});
  EXPECT_EQ(std::get<Launch>(infer.ops[3].what).tpc_mask, mask);
  EXPECT_TRUE(std::get<Launch>(infer.ops[3].what).dependent);
  EXPECT_FALSE(std::get<Launch>(infer.ops[2].what).dependent);
  EXPECT_TRUE(std::holds_alternative<Sync>(infer.ops[4].what));

  ASSERT_THAT(trace.clients, SizeIs(1));
  const Client& camera = trace.clients[0];
  EXPECT_EQ(camera.name, "camera");
  EXPECT_EQ(camera.program, ProgramId{0});
  EXPECT_EQ(camera.process, "p0");
  EXPECT_EQ(camera.service_class, ServiceClass::real_time);
  EXPECT_EQ(camera.priority, -5);
  EXPECT_EQ(camera.deadline, from_ns(1e7));
  EXPECT_EQ(camera.memory_bytes, 1000000000u);
  EXPECT_EQ(camera.quota, 0.5);
  EXPECT_EQ(camera.reservation, 0.25);
  EXPECT_EQ(camera.tpc_mask, TpcMask::range(0, 66));
  ASSERT_THAT(camera.streams, SizeIs(2));
  EXPECT_EQ(camera.streams[0].priority, std::nullopt);
  EXPECT_EQ(camera.streams[1].priority, -1);
  EXPECT_EQ(camera.streams[1].tpc_mask, TpcMask::range(0, 4));
  EXPECT_EQ(std::get<Periodic>(camera.arrivals).period, from_ns(1e7));
  EXPECT_EQ(camera.stale, Stale::keep_newest);

  EXPECT_EQ(trace.run.duration, from_ns(1e9));
  EXPECT_EQ(trace.run.warm_up, Time{});
  EXPECT_EQ(trace.run.seed, 1u);
}

TEST_F(TraceFormat, EveryKeyOfTheDocumentedExampleIsInTheShippedSchema) {
  EXPECT_NO_THROW(check_schema(json::parse(documented_example()), "trace", "FORMAT.md"));
}

TEST_F(TraceFormat, SchemasDescribeEveryKey) {
  const std::function<void(const json&, const std::string&)> check = [&](const json& rule,
                                                                         const std::string& place) {
    if (!rule.is_structured()) return;
    for (const auto& [key, value] : rule.items()) {
      if (key == "properties") {
        EXPECT_TRUE(rule.contains("additionalProperties")) << place;
        for (const auto& [name, member] : value.items())
          EXPECT_TRUE(member.contains("description") || member.contains("$ref")) << place << "/" << name;
      }
      check(value, place + "/" + key);
    }
  };
  for (const char* name : {"trace", "gpu", "profile", "reference", "figure"})
    check(json::parse(schema(name)), name);
}

TEST_F(TraceFormat, DefaultsAreAsDocumented) {
  const Trace trace = read(minimal());
  EXPECT_EQ(trace.name, "trace");  // the file's
  EXPECT_EQ(trace.gpu, "");
  const Kernel& kernel = trace.kernels[0];
  EXPECT_EQ(kernel.cluster, (Dim3{1, 1, 1}));
  EXPECT_EQ(kernel.registers_per_thread, 32u);
  EXPECT_EQ(kernel.shared_memory_bytes(), 0u);
  EXPECT_FALSE(kernel.idempotent);
  EXPECT_FALSE(kernel.ptx);
  EXPECT_THAT(kernel.block_times, IsEmpty());
  EXPECT_EQ(kernel.counters.dram_read_bytes, std::nullopt);
  const Program& program = trace.programs[0];
  EXPECT_EQ(program.issue, Issue::eager);
  ASSERT_THAT(program.streams, SizeIs(1));
  EXPECT_EQ(program.streams[0].name, "main");
  EXPECT_EQ(program.ops[0].stream, StreamId{0});
  EXPECT_EQ(program.ops[0].host_gap, Time{});
  EXPECT_EQ(std::get<Launch>(program.ops[0].what).solo_time, std::nullopt);
  EXPECT_EQ(std::get<Launch>(program.ops[0].what).tpc_mask, std::nullopt);
  const Client& client = trace.clients[0];
  EXPECT_EQ(client.process, "c");
  EXPECT_EQ(client.issue, std::nullopt);
  EXPECT_EQ(client.service_class, ServiceClass::best_effort);
  EXPECT_EQ(client.priority, 0);
  EXPECT_EQ(client.memory_bytes, 0u);
  EXPECT_EQ(client.tpc_mask, std::nullopt);
  EXPECT_EQ(client.quota, std::nullopt);
  EXPECT_EQ(client.reservation, std::nullopt);
  EXPECT_EQ(client.deadline, std::nullopt);
  EXPECT_EQ(std::get<ClosedLoop>(client.arrivals).think_time, Time{});
  EXPECT_EQ(client.stale, Stale::keep_newest);
  EXPECT_THAT(client.streams, SizeIs(1));
  EXPECT_EQ(trace.run.duration, std::nullopt);
  EXPECT_EQ(trace.run.warm_up, Time{});
  EXPECT_EQ(trace.run.seed, 1u);
}

TEST_F(TraceFormat, MissingRegistersAreAssumedWithANote) {
  EXPECT_THAT(read(minimal()).notes,
              ElementsAre(HasSubstr("no registers_per_thread for 1 kernel ('k'): 32 assumed")));
  EXPECT_THAT(read(minimal(R"(, "registers_per_thread": 40)")).notes, IsEmpty());
}

TEST_F(TraceFormat, GzipReadsTheSameAsPlain) {
  const std::string text = minimal(R"(, "registers_per_thread": 7)");
  const Trace zipped = read_trace(write_gzip("trace.json.gz", text));
  EXPECT_TRUE(zipped == read(text));
  EXPECT_TRUE(read_trace(write_gzip("trace.json", text)) == zipped) << "the content decides, not the name";
}

TEST_F(TraceFormat, GzipOfSeveralMembersIsReadToTheEnd) {
  const std::string text = minimal();
  const std::string first = text_of(write_gzip("a.gz", text.substr(0, 50))),
                    second = text_of(write_gzip("b.gz", text.substr(50)));
  EXPECT_EQ(read_trace(write("both.json.gz", first + second)).kernels.size(), 1u);
}

TEST_F(TraceFormat, PipeIsReadLikeAFile) {
  const std::string text = minimal();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  EXPECT_EQ(read_trace("/dev/fd/" + std::to_string(ends[0])).kernels.size(), 1u);
  close(ends[0]);
}

TEST_F(TraceFormat, OpenedInputCanBeReadLineByLine) {
  const auto lines = open_input(write_gzip("lines.gz", "one\ntwo\n"));
  std::string line;
  EXPECT_TRUE(std::getline(*lines, line) && line == "one");
  EXPECT_TRUE(std::getline(*lines, line) && line == "two");
  EXPECT_FALSE(std::getline(*lines, line));
}

TEST_F(TraceFormat, TimesKeepPicosecondsAndRoundBeyond) {
  EXPECT_EQ(read(minimal(R"(, "block_times_ns": [0.001])")).kernels[0].block_times[0], Time{1});
  EXPECT_EQ(read(minimal(R"(, "block_times_ns": [1234.5678])")).kernels[0].block_times[0], Time{1234568});
  EXPECT_EQ(read(minimal(R"(, "block_times_ns": [8639999999999999])")).kernels[0].block_times[0],
            Time{8639999999999999000});
}

TEST_F(TraceFormat, EveryKindOfArrivalIsRead) {
  const auto arrivals = [&](const std::string& text) {
    return read(minimal("", "", R"(, "arrivals": )" + text)).clients[0];
  };
  EXPECT_EQ(
      std::get<ClosedLoop>(arrivals(R"({"type": "closed_loop", "think_time_ns": 5})").arrivals).think_time,
      from_ns(5));
  const auto periodic =
      std::get<Periodic>(arrivals(R"({"type": "periodic", "period_ns": 5, "offset_ns": 2})").arrivals);
  EXPECT_EQ(periodic.period, from_ns(5));
  EXPECT_EQ(periodic.offset, from_ns(2));
  const Client poisson = arrivals(R"({"type": "poisson", "rate_per_s": 20.5, "seed": 3, "stale": "queue"})");
  EXPECT_EQ(std::get<Poisson>(poisson.arrivals).rate_per_s, 20.5);
  EXPECT_EQ(std::get<Poisson>(poisson.arrivals).seed, 3u);
  EXPECT_EQ(poisson.stale, Stale::queue);
  EXPECT_THAT(
      std::get<ExplicitTimes>(arrivals(R"({"type": "explicit", "times_ns": [1, 1, 2]})").arrivals).times,
      ElementsAre(from_ns(1), from_ns(1), from_ns(2)));
  EXPECT_EQ(std::get<Once>(arrivals(R"({"type": "once", "at_ns": 9})").arrivals).at, from_ns(9));
}

TEST_F(TraceFormat, KernelsAndClientsKnowWhereTheyStand) {
  const Trace trace = read(minimal());
  EXPECT_EQ(trace.kernels[0].origin.file, (folder_ / "trace.json").string());
  EXPECT_EQ(trace.kernels[0].origin.place, "/kernels/0");
  EXPECT_EQ(trace.clients[0].origin.place, "/clients/0");
}

TEST_F(TraceFormat, SoloTimeMayBeGivenAtEveryLaunchInsteadOfTheKernel) {
  const Trace trace =
      read(R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [1, 1, 1], "block": [1, 1, 1]}],
    "programs": [{"name": "p", "ops": [{"launch": "k", "solo_time_ns": 1}, {"launch": "k", "solo_time_ns": 2}]}]})");
  EXPECT_EQ(std::get<Launch>(trace.programs[0].ops[1].what).solo_time, from_ns(2));
}

TEST_F(TraceFormat, IncludedFilesBringKernelsAndProgramsButNotClients) {
  write("inner.json", minimal());
  const Trace trace = read(R"({"corun_trace": 1, "include": ["inner.json"],
    "programs": [{"name": "q", "ops": [{"launch": "k"}]}], "clients": [{"name": "mine", "program": "p"}]})");
  EXPECT_EQ(trace.kernels.size(), 1u);
  ASSERT_THAT(trace.programs, SizeIs(2));
  EXPECT_EQ(trace.programs[0].name, "q");
  ASSERT_THAT(trace.clients, SizeIs(1));
  EXPECT_EQ(trace.programs[trace.clients[0].program.value].name, "p");
}

TEST_F(TraceFormat, KernelNamesBelongToTheirFile) {
  const auto file = [](const std::string& program, int time) {
    return R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "solo_time_ns": )" +
           std::to_string(time) + R"(}], "programs": [{"name": ")" + program +
           R"(", "ops": [{"launch": "k"}]}])";
  };
  write("one.json", file("p1", 1) + "}");
  write("two.json", file("p2", 2) + "}");
  const Trace trace = read(file("p0", 0 + 3) + R"(, "include": ["one.json", "two.json"]})");
  ASSERT_THAT(trace.programs, SizeIs(3));
  std::set<std::string> names;
  for (const auto& [program, time] : std::map<std::size_t, int>{{0, 3}, {1, 1}, {2, 2}}) {
    const Kernel& kernel = trace.kernels[std::get<Launch>(trace.programs[program].ops[0].what).kernel.value];
    EXPECT_EQ(kernel.solo_time, from_ns(time)) << trace.programs[program].name;
    names.insert(kernel.name);
  }
  EXPECT_THAT(names, ElementsAre("k", "one/k", "two/k"));
  EXPECT_TRUE(read(written(trace)) == read(written(trace)));
}

TEST_F(TraceFormat, FileIncludedTwiceIsReadOnce) {
  write("shared.json", minimal());
  write("a.json", R"({"corun_trace": 1, "include": ["shared.json"]})");
  write("b.json", R"({"corun_trace": 1, "include": ["./shared.json"]})");
  EXPECT_EQ(read(R"({"corun_trace": 1, "include": ["a.json", "b.json"]})").programs.size(), 1u);
}

TEST_F(TraceFormat, TensOfThousandsOfLaunchesAreReadInSeconds) {
  std::string ops = R"({"launch": "k"})";
  for (int i = 0; i < 30'000; ++i) ops += R"(, {"launch": "k", "host_gap_ns": 10})";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(
      read(
          R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "solo_time_ns": 1}],
    "programs": [{"name": "p", "ops": [)" +
          ops + "]}]}")
          .programs[0]
          .ops.size(),
      30'001u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace
}  // namespace corun
