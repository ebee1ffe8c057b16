// A file that is no JSON, or no file: refused with the line and the column, and without being read to an end that
// never comes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/traces/json/bad_input.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"

namespace corun {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace corun
