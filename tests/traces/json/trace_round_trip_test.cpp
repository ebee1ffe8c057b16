// What is read is what was written, for any trace; and what is written is what a person would write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/traces/json/trace_format.h"
#include "traces/json/print.h"
#include "traces/model/serving.h"

namespace corun {
namespace {

using ::testing::ElementsAre;

/// Any valid trace.
class AnyTrace {
 public:
  explicit AnyTrace(std::uint64_t seed) : random_(seed) {}

  Trace make() {
    Trace trace;
    trace.name = text();
    if (coin()) trace.about = text();
    if (coin()) trace.gpu = coin() ? "h200" : "titan-xp";
    for (std::uint32_t i = 0, n = below(4) + 1; i < n; ++i)
      trace.kernels.push_back(kernel("k" + std::to_string(i)));
    for (std::uint32_t i = 0, n = below(3) + 1; i < n; ++i)
      trace.programs.push_back(program("p" + std::to_string(i), trace));
    for (std::uint32_t i = 1; i < trace.programs.size(); ++i)
      if (coin()) trace.programs.front().on_sms[below(132) + 1] = ProgramId{i};
    for (std::uint32_t i = 0, n = below(4); i < n; ++i)
      trace.clients.push_back(client("c" + std::to_string(i), trace));
    if (coin()) trace.run.duration = time() + Time{2'000'000'000'000};
    if (coin()) trace.run.warm_up = Time{below(1'000'000)};
    trace.run.seed = below(1000);
    if (coin()) trace.run.cpu_slice = Time{below(1'000'000) + 1'000'000ll};
    if (coin())
      for (std::uint32_t i = 0; i < trace.clients.size(); ++i) trace.clients[i].replica = {"server", i, static_cast<std::uint32_t>(trace.clients.size())};
    for (Client& client : trace.clients)
      if (below(3) == 0) serve(client, trace);
    make_servers(trace);
    for (std::uint32_t i = below(3); i > 0; --i) trace.notes.push_back(std::to_string(i) + text());
    return trace;
  }

 private:
  std::uint32_t below(std::uint32_t end) {
    return std::uniform_int_distribution<std::uint32_t>(0, end - 1)(random_);
  }
  bool coin() { return below(2) == 0; }
  Time time() { return Time{below(4'000'000'000) + 1ll}; }  // with picoseconds
  std::string text() {
    static const std::vector<std::string> all = {
        "plain", "void f<int, 3>(float*)", "quote \" and \\", "\xC3\xA4\xE2\x82\xAC", "a/b~c", "line\nbreak"};
    return all[below(static_cast<std::uint32_t>(all.size()))] + std::to_string(below(100));
  }
  std::optional<TpcMask> mask() {
    if (coin()) return std::nullopt;
    TpcMask mask;
    for (std::uint32_t i = below(5) + 1; i > 0; --i) {
      const std::uint32_t first = below(kMaxTpcs - 10);
      for (std::uint32_t tpc = first; tpc <= first + below(10); ++tpc) mask.enable(TpcId{tpc});
    }
    return mask;
  }
  std::optional<double> number() { return coin() ? std::nullopt : std::optional(below(1000) / 7.0); }

  Kernel kernel(const std::string& name) {
    Kernel kernel;
    kernel.name = name + text();
    kernel.cluster = {below(2) + 1, 1, 1};
    kernel.grid = {kernel.cluster.x * (below(3) + 1), below(3) + 1, below(3) + 1};
    kernel.block = {below(32) + 1, below(4) + 1, below(4) + 1};
    kernel.registers_per_thread = below(256);
    kernel.static_shared_memory_bytes = coin() ? 0 : below(50000);
    kernel.dynamic_shared_memory_bytes = coin() ? 0 : below(50000);
    kernel.idempotent = coin();
    kernel.ptx = coin();
    kernel.solo_time = time();
    for (std::uint32_t i = below(3); i > 0; --i) kernel.solo_time_by_sms[below(132) + 1] = time();
    for (std::uint32_t i = below(3); i > 0; --i) kernel.persistent_time_by_ctas[below(32) + 1] = time();
    if (below(2) != 0) kernel.stoppable = {time(), below(2) != 0};
    if (below(2) == 0) kernel.counters.pipes_pct["alu"] = below(101);
    const std::uint64_t times = std::vector<std::uint64_t>{0, 1, kernel.blocks()}[below(3)];
    for (std::uint64_t i = 0; i < times; ++i) kernel.block_times.push_back(time());
    Counters& c = kernel.counters;
    for (auto* counter : {&c.dram_read_bytes, &c.dram_write_bytes, &c.l2_bytes, &c.l1_bytes,
                          &c.warp_instructions, &c.tensor_instructions, &c.duration_ns})
      *counter = number();
    if (coin()) c.issue_active_pct = 12.5;
    if (coin()) c.warps_active_pct = 100;
    if (coin()) c.fp64_active_pct = 62.5;
    if (coin()) kernel.code = device_code();
    return kernel;
  }

  DeviceCode device_code() {
    DeviceCode code;
    (coin() ? code.library : code.file = "/folder/") += text();
    code.function = text();
    for (std::uint32_t i = below(8); i > 0; --i) {
      DeviceCode::Buffer buffer;
      buffer.type = static_cast<DeviceCode::Buffer::Type>(below(4));
      buffer.elements = below(1000) + 1;
      if ((buffer.filled = coin()) && buffer.type == DeviceCode::Buffer::Type::u32)
        buffer.below = below(1000);
      else if (buffer.filled)
        buffer.low = below(100) / -7.0, buffer.high = below(100) / 7.0;
      const std::vector<DeviceCode::Argument> any{buffer, below(~0u),
                                                  -static_cast<std::int32_t>(below(1u << 31)),
                                                  static_cast<float>(below(1000)) / 7.0f, below(1000) / 7.0};
      code.arguments.push_back(any[below(5)]);
    }
    return code;
  }

  Program program(const std::string& name, const Trace& trace) {
    Program program;
    program.name = name;
    program.issue = coin() ? Issue::eager : Issue::graph;
    for (std::uint32_t i = 0, n = below(3) + 1; i < n; ++i)
      program.streams.push_back({i == 0 && coin() ? "main" : "s" + std::to_string(i)});
    std::vector<std::uint32_t> held;
    for (std::uint32_t i = 0, n = below(12) + 1; i < n; ++i) {
      Op op;
      op.name = "op " + std::to_string(i);
      if (coin()) op.host_gap = time();
      const std::uint32_t what = i == 0 ? 0 : below(6);
      if (what <= 1) {
        Launch launch{KernelId{below(static_cast<std::uint32_t>(trace.kernels.size()))}, std::nullopt,
                      mask()};
        if (coin()) launch.solo_time = time();
        launch.dependent = coin();
        op.what = launch;
      } else if (what == 2) {
        op.what = Copy{static_cast<CopyDirection>(below(3)), below(1000) + 1};
      } else if (what == 3 || (what == 5 && held.empty())) {
        op.what = Sync{};
      } else if (what == 4) {
        const auto buffer = static_cast<std::uint32_t>(program.buffers.size());
        program.buffers.push_back("b" + std::to_string(buffer) + text());
        held.push_back(buffer);
        op.what = Alloc{buffer, below(1000) + 1};
      } else {
        op.what = Free{held.back()};
        held.pop_back();
      }
      if (what <= 2) {
        if (coin()) op.uses = held;
        op.stream = StreamId{below(static_cast<std::uint32_t>(program.streams.size()))};
        if (program.issue == Issue::eager) op.graph = below(3);
        if (i > 0 && coin()) op.after.push_back(OpId{below(i)});
      }
      program.ops.push_back(op);
    }
    return program;
  }

  Client client(const std::string& name, const Trace& trace) {
    Client client;
    client.name = name;
    client.program = ProgramId{below(static_cast<std::uint32_t>(trace.programs.size()))};
    client.process = coin() ? name : text();
    if (coin()) client.issue = coin() ? Issue::graph : Issue::eager;
    client.service_class = coin() ? ServiceClass::real_time : ServiceClass::best_effort;
    client.priority = -static_cast<std::int32_t>(below(6));
    client.tpc_mask = mask();
    client.streams.resize(trace.programs[client.program.value].streams.size());
    for (ClientStream& stream : client.streams) {
      if (coin()) stream.priority = -static_cast<std::int32_t>(below(6));
      stream.tpc_mask = mask();
    }
    client.memory_bytes = coin() ? 0 : std::uint64_t{below(1000)} << 30;
    if (coin()) client.quota = 0.75;
    if (coin()) client.reservation = 1.0 / 3;
    if (coin()) client.deadline = time();
    if (coin()) stalls(client);
    if (coin()) client.cpus.emplace().set(below(kMaxCpus)).set(below(kMaxCpus));
    client.blocking = coin();
    switch (below(5)) {
      case 0:
        client.arrivals = ClosedLoop{coin() ? Time{} : time()};
        break;
      case 1:
        client.arrivals = Periodic{time(), coin() ? Time{} : time()};
        break;
      case 2:
        client.arrivals = Poisson{0.1 + below(1000), below(10)};
        break;
      case 3:
        client.arrivals = ExplicitTimes{{Time{1}, Time{1}, time()}};
        break;
      default:
        client.arrivals = Once{coin() ? Time{} : time()};
    }
    if (!std::holds_alternative<ClosedLoop>(client.arrivals) &&
        !std::holds_alternative<Once>(client.arrivals) && coin())
      client.stale = Stale::queue;
    return client;
  }

  void stalls(Client& client) {
    HostStalls& record = client.host_stalls.emplace();
    Time over{};
    for (std::uint32_t i = below(4); i > 0; --i) {
      record.stalls.push_back({over + (coin() ? Time{} : Time{below(1'000'000'000)}), Time{1 + below(1'000'000'000)}});
      over = record.stalls.back().at + record.stalls.back().lasting;
    }
    record.observed = over + Time{1 + below(1'000'000'000)};
  }

  /// Where it can: of two programs that allocate nothing.
  void serve(Client& client, const Trace& trace) {
    Serving serving;
    for (std::uint32_t i = 0; i < trace.programs.size(); ++i)
      if (trace.programs[i].buffers.empty() && serving.steps.size() < 2)
        serving.steps.push_back({ProgramId{i}, serving.steps.empty() ? 0 : below(8) + 1, below(1000) + 1,
                                 serving.steps.empty() ? below(512) + 1 : 0});
    if (serving.steps.size() < 2) return;
    serving.steps[0].context = 0;
    serving.most_at_once = coin() ? 0 : below(16) + 1;
    for (std::uint32_t n = below(4) + 1; n > 0; --n) serving.sequences.push_back({Time{1000 * (5 - n)}, below(99) + 1, below(99) + 1});
    serving.padded = coin();
    if (coin()) {
      serving.prefix_block = below(512) + 1;
      for (Sequence& s : serving.sequences) s.blocks.assign(below(3), below(1000));
      if (coin()) serving.prefix_cache = below(100'000) + 1;
    }
    if (coin()) serving.first_token_slo = time();
    if (coin()) serving.between_tokens_slo = time();
    if (coin()) serving.end_to_end_slo = time();
    client.issue = Issue::eager;
    client.streams.clear();
    client.stale = Stale::keep_newest;
    client.serving = std::move(serving);
  }

  std::mt19937_64 random_;
};

RC_GTEST_FIXTURE_PROP(TraceFormat, ReadingWhatWasWrittenGivesTheSameTrace, (std::uint64_t seed)) {
  const Trace trace = AnyTrace(seed).make();
  const Trace again = read(written(trace));
  RC_ASSERT(written(again) == written(trace));
  RC_ASSERT(trace == again);
}

TEST_F(TraceFormat, WritingOmitsDefaultsExceptAssumedRegisters) {
  EXPECT_EQ(written(read(minimal(R"(, "registers_per_thread": 32)"))), R"({
  "$schema": "trace.schema.json",
  "corun_trace": 1,
  "name": "trace",
  "kernels": [
    {"name": "k", "grid": [2, 3, 4], "block": [32, 1, 1], "registers_per_thread": 32, "solo_time_ns": 10}
  ],
  "programs": [{"name": "p", "ops": [{"launch": "k"}]}],
  "clients": [{"name": "c", "program": "p"}]
}
)");
}

TEST_F(TraceFormat, LinesStayWithinTheLimitAndNumbersFillThem) {
  nlohmann::ordered_json document;
  for (int i = 0; i < 1000; ++i) document["numbers"].push_back(i * 1000);
  document["text"] = std::string(200, 'x');
  std::ostringstream text;
  print_json(document, text);
  std::istringstream lines(text.str());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_TRUE(line.size() <= 110 || line.find("xxx") != line.npos) << line;
  EXPECT_LT(count, 100u);
  EXPECT_EQ(nlohmann::ordered_json::parse(text.str()), document);
}

TEST_F(TraceFormat, WriterMakesNamesDistinctWhereAnImporterDidNot) {
  Trace trace = read(minimal());
  trace.kernels.push_back(trace.kernels[0]);
  trace.programs[0].ops.push_back({Launch{KernelId{1}, {}, {}}, {}, {}, {OpId{0}}, "", {}});
  const Trace again = read(written(trace));
  EXPECT_EQ(again.kernels[1].name, "k#2");
  EXPECT_EQ(std::get<Launch>(again.programs[0].ops[1].what).kernel, KernelId{1});
  EXPECT_THAT(again.programs[0].ops[1].after, ElementsAre(OpId{0}));
}

TEST_F(TraceFormat, NamesThatAreNotUtf8AreWrittenReadably) {
  Trace trace = read(minimal());
  trace.kernels[0].name = "bad \xFF name";
  EXPECT_EQ(read(written(trace)).kernels[0].name, "bad \xEF\xBF\xBD name");
}

}  // namespace
}  // namespace corun
