// The trace format and the GPU descriptions: what is read is what was written, and every default is as
// FORMAT.md says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "traces/embedded.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/print.h"
#include "traces/json/gpu_document.h"
#include "traces/json/schema.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/model/serving.h"

namespace corun {
namespace {

using nlohmann::json;
using std::filesystem::path;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;

std::string text_of(const path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

class TraceFormat : public ::testing::Test {
 protected:
  TraceFormat() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("corun_" + std::string(test->name()) + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(folder_);
  }
  ~TraceFormat() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  path write_gzip(const std::string& name, const std::string& text) const {
    const gzFile file = gzopen((folder_ / name).c_str(), "wb");
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return folder_ / name;
  }
  Trace read(const std::string& text) const { return read_trace(write("trace.json", text)); }

  path folder_;
};

std::string written(const Trace& trace) {
  std::ostringstream text;
  write_trace(trace, text);
  return text.str();
}

/// The example of FORMAT.md: its first block of JSON.
std::string documented_example() {
  const std::string text = text_of("traces/FORMAT.md");
  const auto begin = text.find("```json\n") + 8;
  return text.substr(begin, text.find("```", begin) - begin);
}

constexpr const char* kIncludedByTheExample = R"({"corun_trace": 1,
  "kernels": [{"name": "conv", "grid": [1, 1, 1], "block": [32, 1, 1], "registers_per_thread": 40, "solo_time_ns": 5}],
  "programs": [{"name": "resnet", "ops": [{"launch": "conv"}]}]})";

/// A trace with nothing but what is required, around one more key of its only kernel, op or client.
std::string minimal(const std::string& kernel = "", const std::string& op = "",
                    const std::string& client = "") {
  return R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [2, 3, 4], "block": [32, 1, 1], "solo_time_ns": 10)" +
         kernel + R"(}], "programs": [{"name": "p", "ops": [{"launch": "k")" + op +
         R"(}]}], "clients": [{"name": "c", "program": "p")" + client + "}]}";
}

// --- Equality of traces.  Structured bindings name every member, so a new one does not compile until it is
// compared.

bool same(const Counters& a, const Counters& b) {
  const auto all = [](const Counters& counters) {
    const auto& [read, write, l2, l1, warp, tensor, issue, warps, fp64, pipes, duration] = counters;
    return std::tie(read, write, l2, l1, warp, tensor, issue, warps, fp64, pipes, duration);
  };
  return all(a) == all(b);
}

bool same(const Kernel& a, const Kernel& b) {
  const auto all = [](const Kernel& kernel) {
    const auto& [name, origin, grid, block, cluster, registers, fixed, dynamic, idempotent, solo, solo_sms,
                 by_sms, by_ctas, stoppable, blocks, counters, code] = kernel;
    static_cast<void>(counters), static_cast<void>(code), static_cast<void>(stoppable);
    return std::tie(name, origin, grid, block, cluster, registers, fixed, dynamic, idempotent, solo, solo_sms,
                    by_sms, by_ctas, blocks);
  };
  const auto code = [](const Kernel& kernel) {
    const DeviceCode none;
    const auto& [file, library, function, arguments] = kernel.code ? *kernel.code : none;
    return std::tuple(kernel.code.has_value(), file, library, function, arguments);
  };
  const auto stops = [](const Kernel& kernel) {
    const Kernel::Stoppable none;
    const auto& [time, stay] = kernel.stoppable ? *kernel.stoppable : none;
    return std::tuple(kernel.stoppable.has_value(), time, stay);
  };
  return all(a) == all(b) && same(a.counters, b.counters) && code(a) == code(b) && stops(a) == stops(b);
}

bool same(const Op& a, const Op& b) {
  const auto all = [](const Op& op) {
    const auto& [what, stream, gap, after, name, uses] = op;
    static_cast<void>(what);
    return std::tie(stream, gap, after, name, uses);
  };
  const auto same_what = [&](const auto& what) {
    using What = std::decay_t<decltype(what)>;
    const What& other = std::get<What>(b.what);
    if constexpr (std::is_same_v<What, Launch>) {
      return what.kernel == other.kernel && what.solo_time == other.solo_time &&
             what.tpc_mask == other.tpc_mask;
    } else if constexpr (std::is_same_v<What, Copy>) {
      return what.direction == other.direction && what.bytes == other.bytes;
    } else if constexpr (std::is_same_v<What, Alloc>) {
      return what.buffer == other.buffer && what.bytes == other.bytes;
    } else if constexpr (std::is_same_v<What, Free>) {
      return what.buffer == other.buffer;
    } else {
      return true;
    }
  };
  return all(a) == all(b) && a.what.index() == b.what.index() && std::visit(same_what, a.what);
}

bool same(const Stream& a, const Stream& b) {
  const auto& [a_name] = a;
  const auto& [b_name] = b;
  return a_name == b_name;
}

bool same(const Program& a, const Program& b);
bool same(const ClientStream& a, const ClientStream& b);
bool same(const Client& a, const Client& b);

template <class Item>
bool all_same(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Item& x, const Item& y) { return same(x, y); });
}

bool same(const Program& a, const Program& b) {
  const auto& [name, issue, streams, ops, buffers, parts] = a;
  return name == b.name && issue == b.issue && all_same(streams, b.streams) && all_same(ops, b.ops) &&
         buffers == b.buffers && parts == b.parts;
}

bool same(const Serving& a, const Serving& b) {
  const auto& [steps, most, sequences, first, between] = a;
  const auto same_step = [](const ServingStep& x, const ServingStep& y) {
    const auto& [program, batch, context, tokens] = x;
    return program == y.program && batch == y.batch && context == y.context && tokens == y.tokens;
  };
  const auto same_sequence = [](const Sequence& x, const Sequence& y) {
    const auto& [at, prompt, generated] = x;
    return at == y.at && prompt == y.prompt && generated == y.generated;
  };
  return std::equal(steps.begin(), steps.end(), b.steps.begin(), b.steps.end(), same_step) && most == b.most_at_once &&
         std::equal(sequences.begin(), sequences.end(), b.sequences.begin(), b.sequences.end(), same_sequence) &&
         first == b.first_token_slo && between == b.between_tokens_slo;
}

bool same(const Arrivals& a, const Arrivals& b) {
  const auto same_type = [&](const auto& from) {
    using Type = std::decay_t<decltype(from)>;
    const Type& other = std::get<Type>(b);
    if constexpr (std::is_same_v<Type, Periodic>) {
      return from.period == other.period && from.offset == other.offset;
    } else if constexpr (std::is_same_v<Type, Poisson>) {
      return from.rate_per_s == other.rate_per_s && from.seed == other.seed;
    } else if constexpr (std::is_same_v<Type, ClosedLoop>) {
      return from.think_time == other.think_time && from.in_flight == other.in_flight;
    } else {
      const auto& [mine] = from;
      const auto& [yours] = other;
      return mine == yours;
    }
  };
  return a.index() == b.index() && std::visit(same_type, a);
}

bool same(const ClientStream& a, const ClientStream& b) {
  const auto& [priority, mask] = a;
  return priority == b.priority && mask == b.tpc_mask;
}

bool same(const Client& a, const Client& b) {
  const auto all = [](const Client& client) {
    const auto& [name, origin, program, process, issue, service, priority, mask, streams, memory, quota,
                 reservation, deadline, arrivals, stale, serving] = client;
    static_cast<void>(serving);
    static_cast<void>(streams);
    static_cast<void>(arrivals);
    return std::tie(name, origin, program, process, issue, service, priority, mask, memory, quota,
                    reservation, deadline, stale);
  };
  return all(a) == all(b) && all_same(a.streams, b.streams) && same(a.arrivals, b.arrivals) &&
         a.serving.has_value() == b.serving.has_value() && (!a.serving || same(*a.serving, *b.serving));
}

bool same(const Trace& a, const Trace& b) {
  const auto& [name, about, gpu, kernels, programs, clients, run, notes] = a;
  const auto& [duration, warm_up, seed] = run;
  return name == b.name && about == b.about && gpu == b.gpu && all_same(kernels, b.kernels) &&
         all_same(programs, b.programs) && all_same(clients, b.clients) && duration == b.run.duration &&
         warm_up == b.run.warm_up && seed == b.run.seed && notes == b.notes;
}

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
    for (std::uint32_t i = 0, n = below(4); i < n; ++i)
      trace.clients.push_back(client("c" + std::to_string(i), trace));
    if (coin()) trace.run.duration = time() + Time{2'000'000'000'000};
    if (coin()) trace.run.warm_up = Time{below(1'000'000)};
    trace.run.seed = below(1000);
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
    if (coin()) serving.first_token_slo = time();
    if (coin()) serving.between_tokens_slo = time();
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
  RC_ASSERT(same(trace, again));
}

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

TEST_F(TraceFormat, MissingRegistersAreAssumedWithANote) {
  EXPECT_THAT(read(minimal()).notes,
              ElementsAre(HasSubstr("no registers_per_thread for 1 kernel ('k'): 32 assumed")));
  EXPECT_THAT(read(minimal(R"(, "registers_per_thread": 40)")).notes, IsEmpty());
}

TEST_F(TraceFormat, GzipReadsTheSameAsPlain) {
  const std::string text = minimal(R"(, "registers_per_thread": 7)");
  const Trace zipped = read_trace(write_gzip("trace.json.gz", text));
  EXPECT_TRUE(same(zipped, read(text)));
  EXPECT_TRUE(same(read_trace(write_gzip("trace.json", text)), zipped))
      << "the content decides, not the name";
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
  EXPECT_TRUE(same(read(written(trace)), read(written(trace))));
}

TEST_F(TraceFormat, FileIncludedTwiceIsReadOnce) {
  write("shared.json", minimal());
  write("a.json", R"({"corun_trace": 1, "include": ["shared.json"]})");
  write("b.json", R"({"corun_trace": 1, "include": ["./shared.json"]})");
  EXPECT_EQ(read(R"({"corun_trace": 1, "include": ["a.json", "b.json"]})").programs.size(), 1u);
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

// --- GPU descriptions

class GpuDescription : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuDescription, IsValidAndConsistent) {
  const Gpu gpu = read_gpu(GetParam());
  EXPECT_EQ(gpu.name, GetParam()) << "the name is that of the file";
  EXPECT_EQ(gpu.placement_order.size(), gpu.sms);
  EXPECT_GT(gpu.dispatch_interval, Time{});
  EXPECT_GT(gpu.launch_call, Time{});
  EXPECT_GT(gpu.stream_gap, Time{});
  EXPECT_GT(gpu.time_slice, gpu.context_switch);
  EXPECT_GT(gpu.memory_bytes, gpu.l2_bytes);
  EXPECT_GT(gpu.dram_bytes_per_second, gpu.copy_bytes_per_second);
  const Contention& c = gpu.contention;
  EXPECT_LE(c.dram_read_bytes_per_second, gpu.dram_bytes_per_second);
  EXPECT_GT(c.l2_read_bytes_per_second, c.dram_read_bytes_per_second);
  EXPECT_GT(c.l2_write_bytes_per_second, c.dram_write_bytes_per_second);
  EXPECT_LT(c.sm_read_bytes_per_second, c.l2_read_bytes_per_second);
  EXPECT_GT(c.l2_shared_bytes, 0u);
  EXPECT_LT(c.l2_shared_bytes, c.l2_own_bytes);
  EXPECT_LE(c.l2_own_bytes, gpu.l2_bytes);
  EXPECT_GT(c.launch_cost, Time{});
}

TEST_P(GpuDescription, EveryValueNamesItsSource) {
  const json document = gpu_document(GetParam(), {}).json;
  std::size_t values = 0;
  for (const auto& [group, members] : document.items()) {
    if (!members.is_object()) continue;
    for (const auto& [key, leaf] : members.items()) {
      ASSERT_TRUE(leaf.is_object() && leaf.contains("value")) << group << "/" << key;
      EXPECT_GE(leaf.at("source").get<std::string>().size(), 10u) << group << "/" << key;
      EXPECT_TRUE(leaf.at("basis") == "assumed" || !leaf.contains("of")) << group << "/" << key;
      ++values;
    }
  }
  EXPECT_GE(values, 59u);
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, GpuDescription, ::testing::ValuesIn(gpu_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(GpuDescriptions, AllAreBuiltIn) {
  EXPECT_THAT(gpu_names(), IsSupersetOf({"a100", "gtx-1060-3gb", "h200", "mi50", "pascal-5sm", "titan-v",
                                         "titan-xp", "turing-68sm", "v100"}));
  const auto names = gpu_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(GpuDescriptions, H200IsAsMeasured) {
  const Gpu gpu = read_gpu("h200");
  EXPECT_EQ(gpu.product, "NVIDIA H200");
  EXPECT_EQ(gpu.sms, 132u);
  EXPECT_EQ(gpu.tpcs(), 66u);
  EXPECT_EQ(gpu.compute_capability_major, 9u);
  EXPECT_EQ(gpu.sm.max_threads, 2048u);
  EXPECT_EQ(gpu.sm.max_warps, 64u);
  EXPECT_EQ(gpu.sm.max_blocks, 32u);
  EXPECT_EQ(gpu.sm.registers, 65536u);
  EXPECT_EQ(gpu.sm.shared_memory_bytes, 233472u);
  EXPECT_EQ(gpu.sm.shared_memory_per_block_bytes, 232448u);
  EXPECT_EQ(gpu.sm.shared_memory_allocation_unit, 128u);
  EXPECT_EQ(gpu.sm.shared_memory_reserved_bytes, 1024u);
  EXPECT_EQ(gpu.task_slots, 128u);
  EXPECT_EQ(gpu.priority_levels, 6u);
  EXPECT_EQ(gpu.host_channels, 8u);
  EXPECT_EQ(gpu.copy_engines, 3u);
  // The file has the exact numbers; these are the ranges that several measurements gave.
  const auto within = [](Time value, double least_us, double most_us) {
    EXPECT_GE(value, from_ns(least_us * 1e3));
    EXPECT_LE(value, from_ns(most_us * 1e3));
  };
  within(gpu.dispatch_interval, 0.0006, 0.00061);
  within(gpu.launch_call, 2.5, 3.5);
  within(gpu.launch_latency, 4.5, 6);
  within(gpu.stream_gap, 0.8, 1.1);
  within(gpu.time_slice, 2000, 2200);
  within(gpu.context_switch, 150, 200);
  within(gpu.stop_flag, 4, 7);
  EXPECT_NEAR(gpu.copy_bytes_per_second, 55e9, 2e9);
}

TEST(GpuDescriptions, H200ContendsAsMeasured) {
  const Contention c = read_gpu("h200").contention;
  const auto within = [](auto value, decltype(value) least, decltype(value) most) {
    EXPECT_GE(value, least);
    EXPECT_LE(value, most);
  };
  // Ranges of experiments/h200/contention, or of what its numbers imply; the description says which.
  within(c.dram_read_bytes_per_second, 4.58e12, 4.70e12);
  within(c.dram_write_bytes_per_second, 3.54e12, 4.43e12);
  within(c.dram_latency, from_ns(336), from_ns(355));
  within(c.dram_over_l2_latency_ratio, 2.1, 2.5);
  within(c.dram_read_queueing_factor, 0.1, 0.14);
  within(c.dram_read_queueing_factor + c.dram_write_queueing_factor, 0.57, 0.61);
  within(c.dram_queue_full_use, 0.93, 0.98);
  within(c.dram_backlog_factor, 0.001, 0.1);
  within(c.l2_read_bytes_per_second, 9e12, 14.2e12);
  within(c.l2_write_bytes_per_second, 4.6e12, 5e12);
  within(c.l2_queueing_factor, 0.05, 0.5);
  within(c.l2_sector_cost_ratio, 1.8, 2);
  within(c.l2_wait, from_ns(143), from_ns(276));
  within(c.l2_own_bytes, std::uint64_t{56'000'000}, std::uint64_t{62'914'560});
  within(c.l2_shared_bytes, std::uint64_t{28'000'000}, std::uint64_t{45'000'000});
  within(c.l2_first_loss_bytes, std::uint64_t{10'000'000}, std::uint64_t{30'000'000});
  within(c.l2_dirty_bytes, std::uint64_t{15'000'000}, std::uint64_t{25'000'000});
  within(c.sm_read_bytes_per_second, 239e9, 244e9);
  within(c.sm_write_bytes_per_second, 63.3e9, 63.8e9);
  within(c.sm_sector_bytes_per_second, 62.9e9, 64.1e9);
  within(c.issue_by_age_share, 0.0, 1.0);
  within(c.tensor_clock_ratio, 1.08, 1.32);
  within(c.launch_cost, from_ns(620), from_ns(1270));
  within(c.launch_beside_others, from_ns(200), from_ns(400));
  within(c.launch_memory_accesses, 4, 18);
}

TEST(GpuDescriptions, H200PlacementOrderIsThatOfTheRecordedWalk) {
  std::istringstream lines(text_of("experiments/reference/h200-placement.txt"));
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("placement small blocks")) {
  }
  std::istringstream walk(line.substr(line.find(": ") + 2));
  std::vector<SmId> order;
  for (std::uint32_t sm = 0; walk >> sm;)
    if (std::find(order.begin(), order.end(), SmId{sm}) == order.end()) order.push_back(SmId{sm});
  EXPECT_EQ(read_gpu("h200").placement_order, order);
}

TEST(GpuDescriptions, CardsOfThePapersHaveTheirLimits) {
  const Gpu titan_xp = read_gpu("titan-xp"), gtx = read_gpu("gtx-1060-3gb"), v100 = read_gpu("v100"),
            mi50 = read_gpu("mi50");
  EXPECT_EQ(titan_xp.sms, 30u);
  EXPECT_EQ(titan_xp.sm.shared_memory_bytes, 98304u);
  EXPECT_EQ(titan_xp.sm.shared_memory_per_block_bytes, 49152u);
  EXPECT_EQ(titan_xp.sm.shared_memory_reserved_bytes, 0u);
  EXPECT_EQ(gtx.sms, 9u);
  EXPECT_EQ(gtx.tpcs(), 9u);
  EXPECT_EQ(gtx.task_slots, 32u);
  EXPECT_EQ(v100.sms, 80u);
  EXPECT_EQ(v100.task_slots, 128u);
  EXPECT_EQ(read_gpu("a100").sms, 108u);
  EXPECT_EQ(mi50.sms, 60u);
  EXPECT_EQ(mi50.sm.warp_size, 64u);
  EXPECT_EQ(mi50.sm.max_warps, 40u);
}

TEST(GpuDescriptions, CardsOfThePlacementExperimentsHaveTheirOrder) {
  const Gpu pascal = read_gpu("pascal-5sm"), turing = read_gpu("turing-68sm");
  EXPECT_THAT(pascal.placement_order, ElementsAre(SmId{0}, SmId{1}, SmId{2}, SmId{3}, SmId{4}));
  EXPECT_EQ(pascal.sm.max_blocks, 32u);
  EXPECT_EQ(pascal.sm.max_threads, 2048u);
  EXPECT_EQ(turing.sm.max_threads, 1024u);
  EXPECT_EQ(turing.sm.max_blocks, 16u);
  EXPECT_EQ(turing.sm.max_warps, 32u);
  EXPECT_EQ(turing.placement_order[1], SmId{2});
  EXPECT_EQ(turing.placement_order[33], SmId{66});
  EXPECT_EQ(turing.placement_order[34], SmId{1});
  EXPECT_EQ(turing.placement_order[67], SmId{67});
}

TEST_F(TraceFormat, GpuMayBeAFileBesideTheTrace) {
  write("mine.json", text_of("traces/gpus/titan-v.json"));
  EXPECT_EQ(read_gpu("mine.json", folder_).sms, 80u);
  EXPECT_EQ(read_gpu((folder_ / "mine.json").string(), "elsewhere").sms, 80u);
  EXPECT_EQ(read(R"({"corun_trace": 1, "gpu": "mine.json"})").gpu, "mine.json");
}

TEST_F(TraceFormat, GpuWithoutAPlacementOrderTakesSmsInTurn) {
  json document = json::parse(text_of("traces/gpus/pascal-5sm.json"));
  document["chip"].erase("placement_order");
  const path file = write("plain.json", document.dump());
  EXPECT_THAT(read_gpu(file.string()).placement_order,
              ElementsAre(SmId{0}, SmId{1}, SmId{2}, SmId{3}, SmId{4}));
  EXPECT_THAT(read_gpu(file.string()).gpc_of_tpc, IsEmpty());
}

}  // namespace
}  // namespace corun
