// Values that no trace can have, from both sides of each bound; and names, orders and times that do not go together.
#include <gtest/gtest.h>

#include "tests/traces/json/bad_input.h"

namespace corun {
namespace {

using nlohmann::json;
using std::filesystem::path;

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
        Bound{"/clients/0/memory_bytes", 0, -1}, Bound{"/programs/0/ops/0/graph", 1, 0}, Bound{"/clients/0/arrivals/period_ns", 0.001, 0},
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
  expect_accepted(with_replaced(place, "0,2-3,383"));
  expect_refused(with_replaced(place, "384"), place, "expected TPCs from 0 to 383, got 384");
  expect_refused(with_replaced(place, "5-3"), place, "runs backwards");
  for (const char* text : {"a", "1,", "-3", "1-2-3", "1 2", "0x1"})
    expect_refused(with_replaced(place, text), place, "expected something like \"0-32,40\"");
  expect_refused(with_replaced(place, ""), place, "expected a text, got an empty one");
  std::string all = "1";
  for (int i = 0; i < 30'000; ++i) all += ",1";  // the pattern's recursion took all of the stack
  expect_refused(with(place, all), place, "at most 2048 characters");
  expect_refused(with("/clients/0/tpc_mask", "384"), "/clients/0/tpc_mask", "got 384");
  expect_refused(with("/clients/0/streams/side/tpc_mask", "384"), "/clients/0/streams/side/tpc_mask",
                 "got 384");
}

TEST_F(BadInput, StallsOfTheHostLieApartAndWithinTheTimeObserved) {
  const auto stalls = [](json observed, json all) {
    return with("/clients/0/host_stalls", {{"observed_ns", std::move(observed)}, {"stalls", std::move(all)}});
  };
  const std::string place = "/clients/0/host_stalls";
  const auto one = [](double at, double lasting) { return json::array({json::array({at, lasting})}); };
  expect_accepted(stalls(0.001, json::array()));
  expect_refused(stalls(0, json::array()), place + "/observed_ns", "expected a number >= 0.001");
  expect_refused(stalls(-1, json::array()), place + "/observed_ns", "expected a number >= 0.001");
  expect_accepted(stalls(86400000000000, json::array()));
  expect_refused(stalls(86400000000001, json::array()), place + "/observed_ns", "expected a number");
  expect_accepted(stalls(100, one(0, 0.001)));
  expect_refused(stalls(100, one(-0.001, 1)), place + "/stalls/0/0", "expected a number >= 0");
  expect_refused(stalls(100, one(0, 0)), place + "/stalls/0/1", "expected a number >= 0.001");
  expect_refused(stalls(100, one(1, -5)), place + "/stalls/0/1", "expected a number >= 0.001");
  expect_refused(stalls(100, json::array({json::array({1})})), place + "/stalls/0", "expected an array of 2");
  expect_accepted(stalls(100, one(90, 10)));
  expect_refused(stalls(100, one(90, 10.001)), place + "/stalls/0", "it ends at 100.001 ns, and the host was watched for 100");
  const auto two = [](double second) { return json::array({json::array({10, 20}), json::array({second, 5})}); };
  expect_accepted(stalls(100, two(30)));
  expect_refused(stalls(100, two(29.999)), place + "/stalls/1", "it begins at 29.999 ns, before the one before it ends, at 30");
  expect_refused(stalls(100, two(5)), place + "/stalls/1", "before the one before it ends");
  expect_accepted(stalls(100, one(0, 99.999)));
  expect_refused(stalls(100, one(0, 100)), place + "/stalls", "all the time that it was watched");
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

}  // namespace
}  // namespace corun
