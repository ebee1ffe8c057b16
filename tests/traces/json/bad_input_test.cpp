// A document that is no trace is refused with the file, the place in it, what is wrong and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "tests/traces/json/bad_input.h"
#include "traces/json/parse.h"
#include "traces/json/spelling.h"

namespace corun {
namespace {

using nlohmann::json;
using std::filesystem::path;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  expect_refused(with("/programs/0/on_sms", {{"eight", "infer"}}), "/programs/0/on_sms/eight", "unknown key");
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

TEST_F(BadInput, AGraphWithinAGraphIsRefused) {
  json graph = json::parse(with("/programs/0/ops/0/graph", 1));
  expect_accepted(graph.dump());
  graph["programs"][0]["issue"] = "graph";
  expect_refused(graph.dump(), "/programs/0/ops/0/graph", "one launch of a CUDA graph as a whole");
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

// --- Words of messages

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
