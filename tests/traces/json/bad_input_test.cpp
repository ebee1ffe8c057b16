// Bad input is refused with the file, the place in it, what is wrong and what to do; and what is just inside
// a bound is accepted.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using nlohmann::json;
using std::filesystem::path;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kValid = R"({
  "corun_trace": 1,
  "gpu": "h200",
  "kernels": [{"name": "gemm", "grid": [8, 7, 1], "block": [128, 1, 1], "registers_per_thread": 88, "solo_time_ns": 3424}],
  "programs": [{"name": "infer", "streams": ["main", "side"], "ops": [
    {"launch": "gemm", "name": "first"},
    {"launch": "gemm", "stream": "side", "after": ["first"], "tpc_mask": "0-32,40"},
    {"copy": "device_to_host", "bytes": 100}, {"sync": true}]}],
  "clients": [{"name": "camera", "program": "infer", "streams": {"side": {"priority": -1}},
               "arrivals": {"type": "periodic", "period_ns": 100}}],
  "run": {"duration_ns": 1000}
})";

class BadInput : public ::testing::Test {
 protected:
  BadInput() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("corun_" + std::string(test->name()) + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(folder_);
  }
  ~BadInput() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static std::string gzip(const std::string& text) {
    const path file =
        std::filesystem::temp_directory_path() / ("corun_gzip" + std::to_string(std::random_device{}()));
    const gzFile out = gzopen(file.c_str(), "wb6");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    gzclose(out);
    std::ostringstream zipped;
    zipped << std::ifstream(file, std::ios::binary).rdbuf();
    std::filesystem::remove(file);
    return zipped.str();
  }

  template <class Read>
  static void expect_error(Read&& read, const std::string& file, const std::string& place,
                           const std::string& word) {
    try {
      read();
      ADD_FAILURE() << "accepted; expected an error about " << word;
    } catch (const InputError& error) {
      EXPECT_EQ(error.file(), file) << error.what();
      EXPECT_EQ(error.place(), place) << error.what();
      EXPECT_THAT(error.problem(), HasSubstr(word)) << error.what();
      EXPECT_NE(error.remedy(), "") << error.what();
      EXPECT_LT(std::string(error.what()).size(), 1200u) << error.what();
    }
  }

  void expect_refused(const path& file, const std::string& place, const std::string& word) const {
    expect_error([&] { read_trace(file); }, file.string(), place, word);
  }
  void expect_refused(const std::string& text, const std::string& place, const std::string& word) const {
    expect_refused(write("bad.json", text), place, word);
  }

  /// The valid trace with one value replaced (or removed, or added with "/-").
  static std::string with(const std::string& place, const json& value) {
    json document = json::parse(kValid);
    document = document.patch({{{"op", "add"}, {"path", place}, {"value", value}}});
    return document.dump();
  }
  static std::string with_replaced(const std::string& place, const json& value) {
    json document = json::parse(kValid);
    document[json::json_pointer(place)] = value;
    return document.dump();
  }
  static std::string without(const std::string& place) {
    return json::parse(kValid).patch({{{"op", "remove"}, {"path", place}}}).dump();
  }
  void expect_accepted(const std::string& text) const {
    EXPECT_NO_THROW(read_trace(write("good.json", text))) << text;
  }

  path folder_;
};

TEST_F(BadInput, TheTraceThatTheseTestsSpoilIsValid) { expect_accepted(kValid); }

// --- Files

TEST_F(BadInput, MissingFileIsRefused) { expect_refused(folder_ / "none.json", "", "No such file"); }

TEST_F(BadInput, DirectoryIsRefused) { expect_refused(folder_, "", "is a directory"); }

TEST_F(BadInput, EmptyFileIsRefused) {
  expect_refused(std::string(), "", "the file is empty");
  expect_refused(write("empty.gz", gzip("")), "", "the file is empty");
}

TEST_F(BadInput, BlankFileIsRefused) {
  expect_refused(std::string(" \n \n"), "line 3, column 0", "unexpected end of input");
}

TEST_F(BadInput, GzipCutShortAnywhereIsRefused) {
  const std::string zipped = gzip(kValid);
  for (std::size_t length : {zipped.size() - 1, zipped.size() - 8, zipped.size() / 2, std::size_t{20}})
    expect_refused(write("cut.gz", zipped.substr(0, length)), "", "cut short");
}

TEST_F(BadInput, CorruptGzipIsRefused) {
  std::string zipped = gzip(kValid);
  zipped[zipped.size() - 6] ^= 1;  // of the checksum
  expect_refused(write("checksum.gz", zipped), "", "corrupt");
  zipped = gzip(kValid);
  zipped[zipped.size() / 2] ^= 0x55;
  expect_refused(write("data.gz", zipped), "", "corrupt");
}

TEST_F(BadInput, GzipErrorReachesWhoeverReadsTheStream) {
  const std::string zipped = gzip(std::string(100'000, 'x') + "\n" + kValid);
  const auto input = open_input(write("cut.gz", zipped.substr(0, zipped.size() - 9)));
  const auto read_all = [&] {
    for (std::string line; std::getline(*input, line);) {
    }
  };
  EXPECT_THROW(read_all(), InputError);
}

TEST_F(BadInput, OtherCompressionIsNamed) {
  expect_refused(write("t.json.zst", "\x28\xB5\x2F\xFD____"), "", "zstd-compressed");
  expect_refused(write("t.zip", "PK\x03\x04____"), "", "zip-compressed");
}

// --- JSON

TEST_F(BadInput, TruncatedJsonIsRefusedWhereItEnds) {
  const std::string text = kValid;
  for (std::size_t length = 1; length < text.size(); ++length) {
    const std::string cut = text.substr(0, length);
    const auto line = 1 + std::count(cut.begin(), cut.end(), '\n');
    const auto column = line == 1 ? length : length - cut.rfind('\n') - 1;
    try {
      std::istringstream stream(cut);
      parse_json(stream, "cut");
      FAIL() << "accepted: " << cut;
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), "line " + std::to_string(line) + ", column " + std::to_string(column));
      EXPECT_THAT(error.remedy(), HasSubstr("ends too early")) << error.what() << "\n" << cut;
    }
  }
}

TEST_F(BadInput, SyntaxErrorIsRefusedWithLineAndColumn) {
  expect_refused(std::string("{\"corun_trace\": 1,\n  \"name\" 7}"), "line 2, column 11", "not valid JSON");
  expect_refused(std::string("{\"corun_trace\": 1} x"), "line 1, column 20", "not valid JSON");
  expect_refused(std::string("{\"corun_trace\": 1,}"), "line 1, column 19", "not valid JSON");
  expect_refused(std::string("{'corun_trace': 1}"), "line 1, column 2", "not valid JSON");
}

TEST_F(BadInput, DuplicateKeyIsRefused) {
  expect_refused(
      std::string(
          R"({"corun_trace": 1, "kernels": [{"name": "a"}, {"name": "b", "grid": [1], "name": "c"}]})"),
      "/kernels/1/name", "duplicate key 'name'");
  expect_refused(std::string(R"({"corun_trace": 1, "corun_trace": 1})"), "/corun_trace", "duplicate key");
  expect_refused(std::string(R"({"a/b": {"~": 1, "~": 2}})"), "/a~1b/~0", "duplicate key");
}

TEST_F(BadInput, SameKeyInTwoObjectsIsAccepted) {
  std::istringstream text(R"({"a": {"x": 1}, "b": {"x": 1}, "c": [{"x": 1}, {"x": 2}]})");
  EXPECT_NO_THROW(parse_json(text, ""));
}

TEST_F(BadInput, TextThatIsNotUtf8IsRefused) {
  expect_refused(std::string("{\"corun_trace\": 1, \"name\": \"\xFF\"}"), "line 1, column 29", "UTF-8");
  expect_refused(std::string("{\"corun_trace\": 1, \"name\": \"\xC3\"}"), "line 1, column 30", "UTF-8");
  expect_refused(std::string("\xFF\xFE{\0", 4), "line 1, column 1", "not valid JSON");
}

TEST_F(BadInput, NotANumberIsRefused) {
  for (const char* text : {"NaN", "nan", "Infinity", "-Infinity"}) try {
      read_trace(
          write("nan.json", std::string("{\"corun_trace\": 1, \"run\": {\"duration_ns\": ") + text + "}}"));
      FAIL() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.place(), HasSubstr("line 1, column 4")) << error.what();
      EXPECT_THAT(error.remedy(), HasSubstr("no NaN or Infinity")) << error.what();
    }
  expect_refused(with_replaced("/run/duration_ns", "NaN"), "/run/duration_ns", "expected a number >= 0.001");
}

TEST_F(BadInput, NumberBeyondAnyRangeIsRefused) {
  expect_refused(std::string(R"({"corun_trace": 1, "run": {"duration_ns": 1e400}})"), "line 1, column 48",
                 "number overflow");
}

// Text without end: what refuses it has not read it all.
class EndlessText : public std::streambuf {
 public:
  explicit EndlessText(std::string unit) : unit_(std::move(unit)) {
    while (block_.size() < 4096) block_ += unit_;
  }
  std::size_t given() const { return given_; }

 protected:
  int_type underflow() override {
    given_ += block_.size();
    setg(block_.data(), block_.data(), block_.data() + block_.size());
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::string unit_, block_;
  std::size_t given_ = 0;
};

TEST_F(BadInput, NestingWithoutEndIsRefusedAtOnce) {
  for (const auto& [unit, column] :
       std::map<std::string, std::string>{{"[", "65"}, {"{\"a\":", "321"}, {"[{\"a\":", "193"}}) {
    EndlessText text(unit);
    std::istream stream(&text);
    expect_error([&] { parse_json(stream, "endless"); }, "endless", "line 1, column " + column,
                 "nested deeper than 64 levels");
    EXPECT_LE(text.given(), 8192u);
  }
}

TEST_F(BadInput, GigabyteOfNestingIsRefusedInConstantMemoryAlsoCompressed) {
  const std::string member = gzip(std::string(std::size_t{16} << 20, '['));
  {
    std::ofstream file(folder_ / "deep.json.gz", std::ios::binary);
    for (int i = 0; i < 64; ++i) file << member;  // gzip files may be joined
  }
  const auto memory_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const auto before = memory_kib();
  const auto start = std::chrono::steady_clock::now();
  expect_refused(folder_ / "deep.json.gz", "line 1, column 65", "nested deeper");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_LT(memory_kib() - before, 64 * 1024);
}

TEST_F(BadInput, NestingIsAcceptedUpToTheLimit) {
  const auto nested = [](unsigned depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  std::istringstream fits(nested(kMaxNesting)), exceeds(nested(kMaxNesting + 1));
  EXPECT_NO_THROW(parse_json(fits, ""));
  EXPECT_THROW(parse_json(exceeds, ""), InputError);
}

TEST_F(BadInput, LongTokenIsNotRepeatedInTheMessage) {
  expect_refused("{\"corun_trace\": 1, \"name\": \"" + std::string(1'000'000, 'x'), "line 1, column 1000028",
                 "missing closing quote");
  expect_refused("{\"" + std::string(1'000'000, 'y') + "\": 1}", "/" + std::string(299, 'y') + "...",
                 "unknown key");
}

// --- Structure

TEST_F(BadInput, UnknownKeyIsRefusedWithTheOneMeant) {
  expect_refused(with("/kernels/0/gird", 1), "/kernels/0/gird", "unknown key 'gird'; did you mean 'grid'?");
  expect_refused(with("/clinets", json::array()), "/clinets", "did you mean 'clients'?");
  expect_refused(with("/programs/0/ops/0/afer", json::array()), "/programs/0/ops/0/afer",
                 "did you mean 'after'?");
  expect_refused(with("/clients/0/arrivals/periode_ns", 3), "/clients/0/arrivals/periode_ns",
                 "did you mean 'period_ns'?");
  expect_refused(with("/zzzzzz", 1), "/zzzzzz", "known are '$schema'");
  expect_refused(with("/programs/0/ops/3/stream", "main"), "/programs/0/ops/3/stream",
                 "unknown key 'stream'");
  expect_refused(with("/clients/0/streams/side/priorty", 0), "/clients/0/streams/side/priorty",
                 "did you mean 'priority'?");
  expect_refused(with("/kernels/0/solo_time_by_sms_ns", {{"eight", 1}}),
                 "/kernels/0/solo_time_by_sms_ns/eight", "unknown key");
}

TEST_F(BadInput, MissingKeyIsRefused) {
  expect_refused(without("/corun_trace"), "", "missing key 'corun_trace'");
  expect_refused(without("/kernels/0/block"), "/kernels/0", "missing key 'block'");
  expect_refused(without("/programs/0/ops/2/bytes"), "/programs/0/ops/2", "missing key 'bytes'");
  expect_refused(without("/clients/0/arrivals/type"), "/clients/0/arrivals", "missing key 'type'");
  expect_refused(without("/clients/0/arrivals/period_ns"), "/clients/0/arrivals", "missing key 'period_ns'");
  expect_refused(without("/programs/0/ops"), "/programs/0", "missing key 'ops'");
}

TEST_F(BadInput, MisspeltRequiredKeyIsNamedRatherThanTheMissingOne) {
  expect_refused(
      std::string(R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [1,1,1], "blok": [1,1,1]}]})"),
      "/kernels/0/blok", "did you mean 'block'?");
  expect_refused(std::string(R"({"corun_trace": 1, "programs": [{"name": "p", "ops": [{"lunch": "k"}]}]})"),
                 "/programs/0/ops/0/lunch", "did you mean 'launch'?");
}

TEST_F(BadInput, WrongTypeIsRefused) {
  expect_refused(std::string("[]"), "", "expected an object, got an empty array");
  expect_refused(std::string("7"), "", "expected an object, got 7");
  expect_refused(with_replaced("/kernels", "gemm"), "/kernels", "expected an array, got \"gemm\"");
  expect_refused(with_replaced("/kernels/0/grid", 8), "/kernels/0/grid", "expected an array, got 8");
  expect_refused(with_replaced("/kernels/0/grid/1", "7"), "/kernels/0/grid/1",
                 "expected an integer >= 1 and <= 65535, got \"7\"");
  expect_refused(with_replaced("/kernels/0/grid/1", 7.5), "/kernels/0/grid/1", "got 7.5");
  expect_refused(with_replaced("/kernels/0/grid/1", nullptr), "/kernels/0/grid/1", "got null");
  expect_refused(with("/kernels/0/idempotent", 1), "/kernels/0/idempotent", "expected a boolean, got 1");
  expect_refused(with_replaced("/programs/0/ops/3/sync", false), "/programs/0/ops/3/sync",
                 "expected true, got false");
  expect_refused(with_replaced("/programs/0/ops/3", "sync"), "/programs/0/ops/3",
                 "expected an object, got \"sync\"");
  expect_refused(with_replaced("/gpu", ""), "/gpu", "expected a text");
}

TEST_F(BadInput, WrongVersionIsRefused) {
  expect_refused(with_replaced("/corun_trace", 2), "/corun_trace", "expected 1, got 2");
  expect_refused(with_replaced("/corun_trace", "1"), "/corun_trace", "expected 1, got \"1\"");
}

TEST_F(BadInput, ArrayOfTheWrongLengthIsRefused) {
  expect_refused(with_replaced("/kernels/0/grid", {8, 7}), "/kernels/0/grid",
                 "expected an array of 3, got an array of 2");
  expect_refused(with_replaced("/kernels/0/grid", {8, 7, 1, 1}), "/kernels/0/grid", "expected an array of 3");
  expect_refused(with_replaced("/programs/0/streams", json::array()), "/programs/0/streams", "at least 1");
}

TEST_F(BadInput, WordThatIsNoChoiceIsRefused) {
  expect_refused(with("/programs/0/issue", "egaer"), "/programs/0/issue",
                 "expected one of 'eager', 'graph', got \"egaer\"; did you mean 'eager'?");
  expect_refused(with("/clients/0/class", "realtime"), "/clients/0/class", "did you mean 'real_time'?");
  expect_refused(with_replaced("/clients/0/arrivals/type", "perodic"), "/clients/0/arrivals/type",
                 "did you mean 'periodic'?");
  expect_refused(with_replaced("/clients/0/arrivals/type", 3), "/clients/0/arrivals/type",
                 "expected one of 'closed_loop'");
  expect_refused(with_replaced("/programs/0/ops/2/copy", "up"), "/programs/0/ops/2/copy",
                 "expected one of 'host_to_device'");
}

TEST_F(BadInput, OpThatIsNotExactlyOneThingIsRefused) {
  expect_refused(with_replaced("/programs/0/ops/0", json::object()), "/programs/0/ops/0",
                 "exactly one of the keys 'launch', 'copy', 'sync', 'alloc', 'free'; got none");
  expect_refused(with("/programs/0/ops/0/sync", true), "/programs/0/ops/0",
                 "exactly one of the keys 'launch', 'copy', 'sync', 'alloc', 'free'; got 2");
}

TEST_F(BadInput, BufferThatIsNotAllocatedThereIsRefused) {
  const auto ops = [](const char* text) { return with_replaced("/programs/0/ops", json::parse(text)); };
  expect_accepted(ops(R"([{"alloc": "a", "bytes": 1}, {"launch": "gemm", "uses": ["a"]}, {"free": "a"},
                          {"alloc": "a", "bytes": 9007199254740991}, {"launch": "gemm", "uses": []}])"));
  expect_refused(ops(R"([{"launch": "gemm", "uses": ["a"]}, {"alloc": "a", "bytes": 1}])"),
                 "/programs/0/ops/0/uses/0", "'a' is not allocated here");
  expect_refused(ops(R"([{"alloc": "images", "bytes": 1}, {"launch": "gemm", "uses": ["image"]}])"),
                 "/programs/0/ops/1/uses/0", "did you mean 'images'?");
  expect_refused(ops(R"([{"alloc": "a", "bytes": 1}, {"free": "a"}, {"free": "a"}, {"launch": "gemm"}])"),
                 "/programs/0/ops/2/free", "not allocated here");
  expect_refused(ops(R"([{"alloc": "a", "bytes": 1}, {"alloc": "a", "bytes": 1}, {"launch": "gemm"}])"),
                 "/programs/0/ops/1/alloc", "'a' is allocated already");
}

TEST_F(BadInput, AllocationOfNothingOrTooMuchIsRefused) {
  const auto ops = [](const char* text) { return with_replaced("/programs/0/ops", json::parse(text)); };
  expect_refused(ops(R"([{"alloc": "a", "bytes": 0}, {"launch": "gemm"}])"), "/programs/0/ops/0/bytes",
                 ">= 1");
  expect_refused(ops(R"([{"alloc": "a", "bytes": 9007199254740992}, {"launch": "gemm"}])"),
                 "/programs/0/ops/0/bytes", "9007199254740991");
  expect_refused(ops(R"([{"alloc": "a"}, {"launch": "gemm"}])"), "/programs/0/ops/0", "missing key 'bytes'");
  expect_refused(ops(R"([{"alloc": "a", "bytes": 1}, {"free": "a"}])"), "/programs/0/ops", "nothing to do");
}

TEST_F(BadInput, OpThatMustRunBeforeAnAllocationAndAfterIsRefused) {
  expect_refused(with_replaced("/programs/0/ops", json::parse(R"([{"launch": "gemm", "after": ["late"]},
      {"alloc": "a", "bytes": 1}, {"launch": "gemm", "name": "late"}])")),
                 "/programs/0/ops/0", "wait for each other");
}

TEST_F(BadInput, MessageIsForPeople) {
  try {
    read_trace(write("bad.json", with_replaced("/kernels/0/grid/0", -3)));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              (folder_ / "bad.json").string() +
                  ": at /kernels/0/grid/0: expected an integer >= 1 and <= 2147483647, got -3\n"
                  "  remedy: `sim schema trace` prints what is allowed, key by key");
  }
}

// --- Whatever comes

TEST_F(BadInput, SpoiltTraceIsAcceptedOrRefusedInOurWords) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const json flat = json::parse(kValid).flatten();
  const std::vector<json> values = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    7,
                                    2.5,
                                    1e300,
                                    "",
                                    "gemm",
                                    "x",
                                    json::array(),
                                    {1, 2},
                                    json::object(),
                                    {{"launch", "gemm"}},
                                    {{"type", "once"}},
                                    {{"name", "x"}}};
  for (int i = 0; i < 1000; ++i) {
    json document = json::parse(kValid);
    auto place =
        json::json_pointer(std::next(flat.begin(), static_cast<std::ptrdiff_t>(below(flat.size()))).key());
    for (std::size_t up = below(4); up > 0 && !place.empty(); --up) place.pop_back();
    const bool removes = below(3) == 0 && !place.empty();
    if (removes)
      document = document.patch({{{"op", "remove"}, {"path", place.to_string()}}});
    else
      document[place] = values[below(values.size())];
    try {
      read_trace(write("spoilt.json", document.dump()));
    } catch (const InputError& error) {
      EXPECT_NE(error.remedy(), "") << error.what();
      EXPECT_THAT(error.problem(),
                  AllOf(Not(HasSubstr("constraint")), Not(HasSubstr("Failed to")), Not(HasSubstr("Value "))))
          << document.dump();
      EXPECT_THAT(error.place(), AnyOf("", ::testing::StartsWith("/")));
    }
  }
}

TEST_F(BadInput, SpoiltBytesAreAcceptedOrRefused) {
  std::mt19937 random(2);
  const std::string plain = kValid, zipped = gzip(kValid);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = i % 2 == 0 ? plain : zipped;
    for (auto spoilt = 1 + random() % 3; spoilt > 0; --spoilt)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      read_trace(write("spoilt.json", bytes));
    } catch (const InputError& error) {
      EXPECT_NE(error.remedy(), "") << error.what();
    }
  }
}

// --- Bounds, from both sides

struct Bound {
  const char* place;
  json inside, outside;
};

class Bounds : public BadInput, public ::testing::WithParamInterface<Bound> {};

TEST_P(Bounds, InsideIsAcceptedAndOutsideRefused) {
  expect_accepted(with_replaced(GetParam().place, GetParam().inside));
  expect_refused(with_replaced(GetParam().place, GetParam().outside), GetParam().place, "expected");
}

INSTANTIATE_TEST_SUITE_P(
    Trace, Bounds,
    ::testing::Values(
        Bound{"/kernels/0/grid/0", 1, 0}, Bound{"/kernels/0/grid/0", 1, -3},
        Bound{"/kernels/0/grid/0", 2147483, 2147483648}, Bound{"/kernels/0/grid/1", 65535, 65536},
        Bound{"/kernels/0/block/0", 1, 0}, Bound{"/kernels/0/block/0", 1024, 1025},
        Bound{"/kernels/0/block/2", 8, 65}, Bound{"/kernels/0/registers_per_thread", 256, 257},
        Bound{"/kernels/0/registers_per_thread", 0, -1}, Bound{"/kernels/0/registers_per_thread", 32, 32.0},
        Bound{"/kernels/0/static_shared_memory_bytes", 16777216, 16777217},
        Bound{"/kernels/0/solo_time_ns", 0.001, 0}, Bound{"/kernels/0/solo_time_ns", 0.001, 0.0009},
        Bound{"/kernels/0/solo_time_ns", 8639999999999999, 8640000000000000},
        Bound{"/kernels/0/solo_time_ns", 1e15, 1e300},
        Bound{"/kernels/0/solo_time_ns", 1, 18446744073709551615u}, Bound{"/kernels/0/solo_time_ns", 1, -1},
        Bound{"/programs/0/ops/0/host_gap_ns", 0, -0.001}, Bound{"/programs/0/ops/2/bytes", 1, 0},
        Bound{"/programs/0/ops/2/bytes", 9007199254740991, 9007199254740992},
        Bound{"/programs/0/ops/2/bytes", 1, 18446744073709551615u},
        Bound{"/programs/0/ops/2/bytes", 1, 1.8446744073709552e19}, Bound{"/clients/0/priority", 0, 1},
        Bound{"/clients/0/priority", -99, -100}, Bound{"/clients/0/priority", -1, 18446744073709551615u},
        Bound{"/clients/0/quota", 1, 1.01}, Bound{"/clients/0/quota", 0.001, 0},
        Bound{"/clients/0/reservation", 1, 1.5}, Bound{"/clients/0/deadline_ns", 0.001, 0},
        Bound{"/clients/0/memory_bytes", 0, -1}, Bound{"/clients/0/arrivals/period_ns", 0.001, 0},
        Bound{"/clients/0/arrivals/offset_ns", 0, -1}, Bound{"/run/duration_ns", 0.001, 0},
        Bound{"/run/warm_up_ns", 0, -1}, Bound{"/run/seed", 0, -1},
        Bound{"/run/seed", 9223372036854775807, 9223372036854775808u}));

TEST_F(BadInput, PoissonRateHasBounds) {
  const auto rate = [](double value) {
    return with_replaced("/clients/0/arrivals", {{"type", "poisson"}, {"rate_per_s", value}});
  };
  expect_accepted(rate(1e-6));
  expect_refused(rate(1e-7), "/clients/0/arrivals/rate_per_s", "expected a number >= 1e-06");
  expect_accepted(rate(1e9));
  expect_refused(rate(2e9), "/clients/0/arrivals/rate_per_s", "expected a number");
}

TEST_F(BadInput, BlockOfTooManyThreadsIsRefused) {
  expect_accepted(with_replaced("/kernels/0/block", {16, 16, 4}));
  expect_refused(with_replaced("/kernels/0/block", {16, 16, 5}), "/kernels/0/block",
                 "at most 1024 threads in all, got 1280");
}

TEST_F(BadInput, GridOfTooManyBlocksIsRefused) {
  expect_accepted(with_replaced("/kernels/0/grid", {65537, 65535, 1}));
  expect_refused(with_replaced("/kernels/0/grid", {65538, 65535, 1}), "/kernels/0/grid", "2^32 - 1 blocks");
  expect_refused(with_replaced("/kernels/0/grid", {2147483647, 65535, 65535}), "/kernels/0/grid",
                 "2^32 - 1 blocks");
}

TEST_F(BadInput, GridThatIsNotWholeClustersIsRefused) {
  expect_accepted(with("/kernels/0/cluster", {4, 7, 1}));
  expect_refused(with("/kernels/0/cluster", {3, 1, 1}), "/kernels/0/cluster", "not made of whole clusters");
}

TEST_F(BadInput, BlockTimesOfTheWrongNumberAreRefused) {
  expect_accepted(with("/kernels/0/block_times_ns", {1}));
  expect_accepted(with("/kernels/0/block_times_ns", std::vector<int>(56, 1)));
  expect_refused(with("/kernels/0/block_times_ns", std::vector<int>(55, 1)), "/kernels/0/block_times_ns",
                 "expected 1 time or 56");
  expect_refused(with("/kernels/0/block_times_ns", json::array()), "/kernels/0/block_times_ns", "at least 1");
}

TEST_F(BadInput, TpcMaskMustBeAscendingRangesWithinTheLimit) {
  const std::string place = "/programs/0/ops/1/tpc_mask";
  expect_accepted(with_replaced(place, "0,2-3,255"));
  expect_refused(with_replaced(place, "256"), place, "expected TPCs from 0 to 255, got 256");
  expect_refused(with_replaced(place, "5-3"), place, "runs backwards");
  for (const char* text : {"a", "1,", "-3", "1-2-3", "1 2", "0x1"})
    expect_refused(with_replaced(place, text), place, "expected something like \"0-32,40\"");
  expect_refused(with_replaced(place, ""), place, "expected a text, got an empty one");
  std::string all = "1";
  for (int i = 0; i < 30'000; ++i) all += ",1";  // the pattern's recursion took all of the stack
  expect_refused(with(place, all), place, "at most 2048 characters");
  expect_refused(with("/clients/0/tpc_mask", "300"), "/clients/0/tpc_mask", "got 300");
  expect_refused(with("/clients/0/streams/side/tpc_mask", "300"), "/clients/0/streams/side/tpc_mask",
                 "got 300");
}

// --- Meaning

TEST_F(BadInput, UnknownNameIsRefusedWithTheOneMeant) {
  expect_refused(with_replaced("/programs/0/ops/0/launch", "gem"), "/programs/0/ops/0/launch",
                 "unknown kernel 'gem'; did you mean 'gemm'?");
  expect_refused(with_replaced("/programs/0/ops/1/stream", "sid"), "/programs/0/ops/1/stream",
                 "unknown stream 'sid'; did you mean 'side'?");
  expect_refused(with_replaced("/programs/0/ops/1/after/0", "frist"), "/programs/0/ops/1/after/0",
                 "unknown op 'frist'; did you mean 'first'?");
  expect_refused(with_replaced("/clients/0/program", "inferr"), "/clients/0/program",
                 "unknown program 'inferr'; did you mean 'infer'?");
  expect_refused(with_replaced("/clients/0/streams", {{"s/de", json::object()}}), "/clients/0/streams/s~1de",
                 "unknown stream 's/de'; did you mean 'side'?");
  expect_refused(with_replaced("/gpu", "h20"), "/gpu", "unknown GPU 'h20'; did you mean 'h200'?");
}

TEST_F(BadInput, NameWithoutAnyCandidateIsRefused) {
  expect_refused(std::string(R"({"corun_trace": 1, "programs": [{"name": "p", "ops": [{"launch": "k"}]}]})"),
                 "/programs/0/ops/0/launch", "unknown kernel 'k'");
}

TEST_F(BadInput, NameThatExistsTwiceIsRefused) {
  const json document = json::parse(kValid);
  expect_refused(with("/kernels/-", document["kernels"][0]), "/kernels/1/name",
                 "a kernel called 'gemm' exists already");
  expect_refused(with("/programs/-", document["programs"][0]), "/programs/1/name",
                 "a program called 'infer' exists already");
  expect_refused(with("/clients/-", document["clients"][0]), "/clients/1/name",
                 "a client called 'camera' exists already");
  expect_refused(with("/programs/0/ops/1/name", "first"), "/programs/0/ops/1/name",
                 "an op called 'first' exists already");
  expect_refused(with_replaced("/programs/0/streams", {"side", "side"}), "/programs/0/streams/1",
                 "\"side\" stands there twice");
}

TEST_F(BadInput, LaunchOfUnknownDurationIsRefused) {
  expect_refused(without("/kernels/0/solo_time_ns"), "/programs/0/ops/0", "how long it takes is unknown");
}

TEST_F(BadInput, ProgramWithoutWorkIsRefused) {
  expect_refused(with_replaced("/programs/0/ops", json::array()), "/programs/0/ops", "at least 1");
  expect_refused(with_replaced("/programs/0/ops", {{{"sync", true}}}), "/programs/0/ops", "nothing to do");
}

TEST_F(BadInput, OpsThatWaitForEachOtherAreRefusedWithTheCycle) {
  const auto ops = [](const char* text) {
    return R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [1,1,1], "block": [1,1,1], "solo_time_ns": 1}],
      "programs": [{"name": "p", "streams": ["main", "side"], "ops": )" +
           std::string(text) + "}]}";
  };
  expect_accepted(ops(
      R"([{"launch": "k", "name": "a"}, {"launch": "k", "name": "b", "after": ["a"], "stream": "side"}])"));
  expect_refused(
      ops(R"([{"launch": "k", "name": "a", "after": ["b"]}, {"launch": "k", "name": "b", "after": ["a"], "stream": "side"}])"),
      "/programs/0/ops/0", "a -> b -> a");
  expect_refused(ops(R"([{"launch": "k", "name": "a", "after": ["a"]}])"), "/programs/0/ops/0", "a -> a");
  expect_refused(ops(R"([{"launch": "k", "after": ["b"]}, {"launch": "k", "name": "b"}])"),
                 "/programs/0/ops/0", "ops/0 -> b -> ops/0");
  expect_refused(
      ops(R"([{"launch": "k", "after": ["b"]}, {"sync": true}, {"launch": "k", "name": "b", "stream": "side"}])"),
      "/programs/0/ops/0", "ops/0 -> b -> ops/1 -> ops/0");
}

TEST_F(BadInput, IncludeThatDoesNotExistIsRefusedInTheFileThatIncludes) {
  expect_refused(with("/include", {"none.json"}), "/include/0", "no file");
  const path inner = write("inner.json", R"({"corun_trace": 1, "include": ["x.json"]})");
  expect_error([&] { read_trace(write("outer.json", R"({"corun_trace": 1, "include": ["inner.json"]})")); },
               inner.string(), "/include/0", "no file");
}

TEST_F(BadInput, ErrorInAnIncludedFileNamesThatFile) {
  const path inner = write("inner.json", R"({"corun_trace": 1, "kernel": []})");
  expect_error([&] { read_trace(write("outer.json", R"({"corun_trace": 1, "include": ["inner.json"]})")); },
               inner.string(), "/kernel", "did you mean 'kernels'?");
  expect_error([&] { read_trace(write("outer.json", R"({"corun_trace": 1, "include": ["."]})")); },
               (folder_ / ".").string(), "", "is a directory");
}

TEST_F(BadInput, FilesThatIncludeEachOtherAreRefusedWithTheCycle) {
  write("b.json", R"({"corun_trace": 1, "include": ["a.json"]})");
  const path a = write("a.json", R"({"corun_trace": 1, "include": ["b.json"]})"), b = folder_ / "b.json";
  expect_error([&] { read_trace(a); }, b.string(), "/include/0",
               a.string() + " -> " + b.string() + " -> " + a.string());
  const path self = write("self.json", R"({"corun_trace": 1, "include": ["self.json"]})");
  expect_refused(self, "/include/0", "the files include each other");
}

TEST_F(BadInput, ProgramNameOfAnIncludedFileIsTaken) {
  write("inner.json", kValid);
  expect_error([&] { read_trace(write("outer.json", with("/include", {"inner.json"}))); },
               (folder_ / "inner.json").string(), "/programs/0/name",
               "a program called 'infer' exists already (included files count)");
}

TEST_F(BadInput, KernelNameThatTwoIncludedFilesHaveIsAmbiguous) {
  const char* kernels =
      R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [1,1,1], "block": [1,1,1], "solo_time_ns": 1}]})";
  write("a.json", kernels);
  write("b.json", kernels);
  expect_refused(
      std::string(
          R"({"corun_trace": 1, "include": ["a.json", "b.json"], "programs": [{"name": "p", "ops": [{"launch": "k"}]}]})"),
      "/programs/0/ops/0/launch", "ambiguous");
}

TEST_F(BadInput, TimesOfArrivalMustAscend) {
  expect_refused(with_replaced("/clients/0/arrivals", {{"type", "explicit"}, {"times_ns", {1, 3, 2}}}),
                 "/clients/0/arrivals/times_ns/2", "expected ascending times, got 2 after 3");
}

TEST_F(BadInput, ReservationBeyondTheQuotaIsRefused) {
  json document = json::parse(kValid);
  document["clients"][0]["quota"] = 0.25;
  document["clients"][0]["reservation"] = 0.25;
  expect_accepted(document.dump());
  document["clients"][0]["reservation"] = 0.26;
  expect_refused(document.dump(), "/clients/0/reservation", "exceeds the quota");
}

TEST_F(BadInput, WarmUpAsLongAsTheRunIsRefused) {
  expect_accepted(with("/run/warm_up_ns", 999));
  expect_refused(with("/run/warm_up_ns", 1000), "/run/warm_up_ns", "leaves nothing");
}

// --- GPU descriptions and schemas

class BadGpu : public BadInput {
 protected:
  static json valid() {
    std::ifstream file("traces/gpus/pascal-5sm.json");
    return json::parse(file);
  }
  void expect_gpu_refused(const json& document, const std::string& place, const std::string& word) const {
    const path file = write("gpu.json", document.dump());
    expect_error([&] { read_gpu(file.string()); }, file.string(), place, word);
  }
};

TEST_F(BadGpu, UnknownNameIsRefusedWithTheOneMeant) {
  expect_error([] { read_gpu("h20"); }, "h20", "", "no GPU is called 'h20'; did you mean 'h200'?");
  expect_error([&] { read_gpu("none.json", folder_); }, (folder_ / "none.json").string(), "", "no such file");
}

TEST_F(BadGpu, ValueWithoutASourceIsRefused) {
  json document = valid();
  document["sm"]["max_warps"].erase("source");
  expect_gpu_refused(document, "/sm/max_warps", "missing key 'source'");
  document["sm"]["max_warps"] = 64;
  expect_gpu_refused(document, "/sm/max_warps", "expected an object, got 64");
  document["sm"]["max_warps"] = {{"value", 64}, {"source", "?"}, {"basis", "assumed"}};
  expect_gpu_refused(document, "/sm/max_warps/source", "10 characters or more");
  document = valid();
  document["sm"]["max_warps"].erase("basis");
  expect_gpu_refused(document, "/sm/max_warps", "missing key 'basis'");
  document["sm"]["max_warps"]["basis"] = "guessed";
  expect_gpu_refused(document, "/sm/max_warps/basis", "expected one of 'calibrated', 'published', 'assumed'");
}

TEST_F(BadGpu, MissingOrUnknownValueIsRefused) {
  json document = valid();
  document["sm"].erase("registers");
  expect_gpu_refused(document, "/sm", "missing key 'registers'");
  document = valid();
  document["latencies"]["launch_call_us"] = document["latencies"]["launch_call_ns"];
  expect_gpu_refused(document, "/latencies/launch_call_us", "did you mean 'launch_call_ns'?");
  document = valid();
  document.erase("contention");
  expect_gpu_refused(document, "", "missing key 'contention'");
  document = valid();
  document["contention"].erase("l2_own_bytes");
  expect_gpu_refused(document, "/contention", "missing key 'l2_own_bytes'");
  document = valid();
  document["memory"].erase("l2_bytes");
  expect_gpu_refused(document, "/memory", "missing key 'l2_bytes'");
}

TEST_F(BadGpu, InconsistentValuesAreRefused) {
  const auto with_value = [](const char* group, const char* key, const json& value) {
    json document = valid();
    document[group][key] = {{"value", value}, {"source", "made up for this test"}, {"basis", "assumed"}};
    return document;
  };
  expect_gpu_refused(with_value("chip", "placement_order", {0, 1, 2, 3}), "/chip/placement_order/value",
                     "expected all 5 SMs, got 4");
  expect_gpu_refused(with_value("chip", "placement_order", {0, 1, 2, 3, 3}), "/chip/placement_order/value",
                     "SM 3 stands there twice");
  expect_gpu_refused(with_value("chip", "placement_order", {0, 1, 2, 3, 5}), "/chip/placement_order/value",
                     "SM 5 does not exist");
  expect_gpu_refused(with_value("chip", "sms_per_tpc", 2), "/chip/sms_per_tpc/value", "whole TPCs");
  expect_gpu_refused(with_value("chip", "gpc_of_tpc", {0, 0}), "/chip/gpc_of_tpc/value",
                     "expected one GPC for each of 5 TPCs, got 2");
  expect_gpu_refused(with_value("chip", "sms", 0), "/chip/sms/value", "expected an integer >= 1");
  // Of whole TPCs, but more SMs than the engine's masks hold.
  json wide = with_value("chip", "sms", 258);
  wide["chip"]["sms_per_tpc"]["value"] = 2;
  wide["chip"]["placement_order"]["value"] = json::array();
  for (int sm = 0; sm < 258; ++sm) wide["chip"]["placement_order"]["value"].push_back(sm);
  expect_gpu_refused(wide, "/chip/sms/value", "and <= 256, got 258");
  expect_gpu_refused(with_value("sm", "registers_per_block", 70000), "/sm/registers_per_block/value",
                     "at most 65536");
  expect_gpu_refused(with_value("sm", "max_threads", 2080), "/sm/max_threads/value", "at most 2048");
  expect_gpu_refused(with_value("latencies", "dispatch_interval_ns", 0),
                     "/latencies/dispatch_interval_ns/value", "expected a number >= 0.001");
}

TEST_F(BadGpu, AbsurdContentionIsRefused) {
  const auto expect_refused_value = [&](const char* key, const json& value, const std::string& word) {
    json document = valid();
    document["contention"][key]["value"] = value;
    expect_gpu_refused(document, fmt::format("/contention/{}/value", key), word);
  };
  const json pascal = valid();
  const auto own = pascal["contention"]["l2_own_bytes"]["value"].get<std::uint64_t>();
  const auto l2 = pascal["memory"]["l2_bytes"]["value"].get<std::uint64_t>();
  const auto dram = pascal["memory"]["dram_bytes_per_second"]["value"].get<std::uint64_t>();
  expect_refused_value("l2_own_bytes", l2 + 1, fmt::format("expected at most {} (memory/l2_bytes)", l2));
  expect_refused_value("l2_own_bytes", 0, "expected an integer >= 1");
  expect_refused_value("l2_shared_bytes", own, fmt::format("expected less than {} (l2_own_bytes)", own));
  expect_refused_value("l2_first_loss_bytes", own, "expected less than");
  expect_refused_value("dram_read_bytes_per_second", dram + 1, "(memory/dram_bytes_per_second)");
  expect_refused_value("dram_read_bytes_per_second", 4.64, "expected a number >= 1000000000");
  expect_refused_value("dram_write_bytes_per_second", 0, "expected a number >= 1000000000");
  expect_refused_value("l2_read_bytes_per_second", 2e15, "and <= 1000000000000000");
  expect_refused_value("dram_latency_ns", 0, "expected a number >= 1");
  expect_refused_value("dram_over_l2_latency_ratio", 0.9, "expected a number >= 1");
  expect_refused_value("dram_queue_full_use", 1, "expected a number");
  expect_refused_value("dram_backlog_factor", -0.01, "expected a number >= 0");
  expect_refused_value("issue_by_age_share", 1.1, "expected a number");
  expect_refused_value("launch_memory_accesses", "6.2", "expected a number");
}

TEST_F(BadGpu, BrokenFileIsRefused) {
  expect_error([&] { read_gpu(folder_.string()); }, folder_.string(), "", "is a directory");
  const path file = write("gpu.json", "{");
  expect_error([&] { read_gpu(file.string()); }, file.string(), "line 1, column 1", "not valid JSON");
}

TEST_F(BadInput, UnknownSchemaIsRefused) {
  expect_error([] { schema("traces"); }, "", "", "no schema 'traces'; did you mean 'trace'?");
}

TEST_F(BadInput, OnlyCloseNamesAreOffered) {
  const std::vector<std::string> names = {"grid", "block", "k"};
  EXPECT_EQ(did_you_mean("gird", names), "; did you mean 'grid'?");
  EXPECT_EQ(did_you_mean("Block", names), "; did you mean 'block'?");
  EXPECT_EQ(did_you_mean("blcko", names), "; did you mean 'block'?");
  EXPECT_EQ(did_you_mean("grand", names), "; did you mean 'grid'?");
  EXPECT_EQ(did_you_mean("brand", names), "");
  EXPECT_EQ(did_you_mean("x", names), "");
  EXPECT_EQ(did_you_mean("", names), "");
  EXPECT_EQ(did_you_mean(std::string(10'000'000, 'g'), names), "");
}

TEST_F(BadInput, MessagesNeverCarryControlCharacters) {
  EXPECT_EQ(printable("a\x1B[31m\xFF\xC3\xA4"), "a\\x1b[31m\\xff\xC3\xA4");
  EXPECT_EQ(printable(std::string(100, 'x')), std::string(60, 'x') + "...");
  expect_refused(std::string("{\"corun_trace\": 1, \"\\u001b[31m\": 1}"), "/\\x1b[31m",
                 "unknown key '\\x1b[31m'");
}

}  // namespace
}  // namespace corun
