// Which launches of a PyTorch profiler trace get the counters of which launches that Nsight Compute profiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/in_folder.h"
#include "traces/import/kineto.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using std::filesystem::path;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Recorded {
  std::string name;
  double us;
  std::uint32_t grid = 8;
};

struct Profiled {
  std::string name;
  double us;
  double instructions;
  std::uint32_t grid = 8;
  std::string process = "7";
  std::string more = ",,,";  // static and dynamic shared memory, cluster size
};

class KinetoCounters : public InFolder {
 protected:
  path recording(const std::vector<Recorded>& launches) const {
    std::ostringstream out;
    double ts = 1000;
    for (const Recorded& r : launches) {
      out << (ts == 1000 ? "[" : ",") << R"({"name": ")" << r.name << R"(", "ts": )" << ts << R"(, "dur": )"
          << r.us << R"(, "grid": [)" << r.grid
          << R"(, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 3072, "stream": 7})";
      ts += r.us + 10;
    }
    return write("profile.json", out.str() + "]");
  }

  path profile(const std::vector<Profiled>& launches, const std::string& metrics = {}) const {
    std::ostringstream out;
    out << R"("ID","Process ID","Kernel Name","Block Size","Grid Size","Device","gpu__time_duration.sum",)"
        << (metrics.empty() ? "\"smsp__inst_executed.sum\"" : metrics)
        << ",launch__shared_mem_per_block_static,launch__shared_mem_per_block_dynamic,launch__cluster_size\n"
        << R"("","","","","","","usecond","","Kbyte/block","Kbyte/block","")"
        << "\n";
    int id = 0;
    for (const Profiled& p : launches)
      out << '"' << id++ << "\",\"" << p.process << "\",\"" << p.name << "\",\"(128, 1, 1)\",\"(" << p.grid
          << ", 1, 1)\",\"0\",\"" << (p.us > 0 ? std::to_string(p.us) : "n/a") << "\",\"" << p.instructions
          << "\"," << p.more << "\n";
    return write("ncu.csv", out.str());
  }

  Trace import(const std::vector<Recorded>& recorded, const std::vector<Profiled>& profiled) const {
    Trace trace = import_kineto(recording(recorded), "h200", profile(profiled));
    std::ostringstream out;  // what an import makes can be read
    write_trace(trace, out);
    EXPECT_NO_THROW(read_trace(write("trace.json", out.str())));
    return trace;
  }
};

/// Of each launch, 0: none.
std::vector<double> instructions(const Trace& trace) {
  std::vector<double> all;
  for (const Op& op : trace.programs.at(0).ops)
    all.push_back(
        trace.kernels[std::get<Launch>(op.what).kernel.value].counters.warp_instructions.value_or(0));
  return all;
}

std::vector<std::string> names(const Trace& trace) {
  std::vector<std::string> all;
  for (const Kernel& k : trace.kernels) all.push_back(k.name);
  return all;
}

TEST_F(KinetoCounters, SameSequenceIsJoinedByItsOrderWhateverElseIsAroundIt) {
  const std::vector<Recorded> recorded = {{"a", 10}, {"b", 10}, {"a", 10}, {"b", 10}};
  const Trace trace = import(
      recorded,
      {{"warm_up", 10, 1}, {"a", 10, 1000}, {"b", 10, 2000}, {"a", 10, 3000}, {"b", 10, 4000}, {"a", 10, 5}});
  EXPECT_THAT(instructions(trace), ElementsAre(1000, 2000, 3000, 4000));
  EXPECT_THAT(trace.notes,
              Contains(AllOf(HasSubstr("Counters of 4 of 4 launches are from ncu.csv: 4 by the order"),
                             HasSubstr("2 launches of the profile match none"))));
  EXPECT_THAT(trace.notes, Each(Not(HasSubstr("No hardware counters"))));
}

TEST_F(KinetoCounters, OfSeveralPassesTheOneOfLikeDurationsCounts) {
  EXPECT_THAT(instructions(import({{"a", 10}, {"b", 20}},
                                  {{"a", 90, 1000}, {"b", 20, 2000}, {"a", 11, 3000}, {"b", 21, 4000}})),
              ElementsAre(3000, 4000));
}

TEST_F(KinetoCounters, AsManyLaunchesOfAShapeAreJoinedInTheirOrder) {
  // Another kernel in between parts the sequences.
  const Trace trace = import({{"a", 10}, {"lost", 5}, {"a", 10}}, {{"a", 10, 1000}, {"a", 10, 3000}});
  EXPECT_THAT(instructions(trace), ElementsAre(1000, 0, 3000));
  EXPECT_THAT(trace.notes,
              Contains(HasSubstr("Counters of 2 of 3 launches are from ncu.csv: 2 by name and shape.")));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("1 launch has no hardware counters")));
}

TEST_F(KinetoCounters, PartOfTheLaunchesGivesEachTheNearestDuration) {
  // Two of four layers; the profiler's clocks make all 1.5 times as long.
  const std::vector<Recorded> recorded = {{"head", 20},  {"gemm", 66}, {"gemm", 250}, {"gemm", 64},
                                          {"gemm", 255}, {"gemm", 66}, {"gemm", 252}};
  const Trace trace = import(recorded, {{"head", 30, 500}, {"gemm", 99, 1000}, {"gemm", 375, 4000}});
  EXPECT_THAT(instructions(trace), ElementsAre(500, 1000, 4000, 1000, 4000, 1000, 4000));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("6 by name, shape and nearest duration")));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("1.50 times as long under Nsight Compute")));
}

TEST_F(KinetoCounters, WhereDurationsContradictTheOrderTheNearestCounts) {
  // The same two gemms, profiled in the other order, and sorted.
  const Trace reversed = import({{"gemm", 66}, {"gemm", 250}}, {{"gemm", 251, 4000}, {"gemm", 67, 1000}});
  EXPECT_THAT(instructions(reversed), ElementsAre(1000, 4000));
  EXPECT_THAT(reversed.notes,
              Contains(HasSubstr("For 2 launches what ncu.csv has at that place took clearly")));
  const Trace sorted =
      import({{"gemm", 66}, {"gemm", 250}, {"gemm", 66}, {"gemm", 250}},
             {{"gemm", 100, 1000}, {"gemm", 100, 1001}, {"gemm", 375, 4000}, {"gemm", 375, 4001}});
  EXPECT_THAT(names(sorted), ElementsAre("gemm", "gemm #2"));
  EXPECT_THAT(instructions(sorted), ElementsAre(1000, 4000, 1000, 4000));
  // By name and shape, as the rest is in another order.
  EXPECT_THAT(instructions(import({{"gemm", 66}, {"a", 5}, {"gemm", 250}, {"b", 30}},
                                  {{"gemm", 251, 4000}, {"gemm", 67, 1000}, {"b", 31, 300}, {"a", 5, 50}})),
              ElementsAre(1000, 50, 4000, 300));
}

TEST_F(KinetoCounters, WhatStretchesAllLaunchesOfAKernelContradictsNothing) {
  // Cold caches: short kernels take 2.4 times as long, long ones 1.5.
  const Trace trace = import({{"a", 5}, {"gemm", 66}, {"a", 6}, {"gemm", 100}},
                             {{"a", 12, 1}, {"gemm", 99, 1000}, {"a", 14, 2}, {"gemm", 150, 2000}});
  EXPECT_THAT(trace.notes,
              Contains(HasSubstr("Counters of 4 of 4 launches are from ncu.csv: 4 by the order of all.")));
  EXPECT_THAT(trace.notes, Each(Not(HasSubstr("clearly"))));
  // Three embeddings of train_bert: the short one tells another ratio, by which the third would be the
  // second.
  EXPECT_THAT(instructions(import({{"e", 4.67}, {"e", 127.7}, {"e", 93.06}, {"x", 100}},
                                  {{"e", 7.17, 1}, {"e", 143.8, 2}, {"e", 91.6, 3}, {"x", 150, 9}})),
              ElementsAre(1, 2, 3, 9));
}

TEST_F(KinetoCounters, ALaunchThatNoneInTheProfileCanBeHasNoCounters) {
  const Trace trace =
      import({{"head", 20}, {"gemm", 66}, {"gemm", 250}}, {{"head", 20, 10}, {"gemm", 251, 4000}});
  EXPECT_THAT(instructions(trace), ElementsAre(10, 0, 4000));
  EXPECT_THAT(trace.notes,
              Contains(HasSubstr("1 launch took clearly more or less time than any of the name")));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("1 launch has no hardware counters")));
}

TEST_F(KinetoCounters, OfACutLaunchNoCounterIsUsed) {
  const std::string metrics = R"("smsp__inst_executed.sum","lts__t_bytes.sum")";
  const auto counters = [&](const std::string& l2, const std::vector<Recorded>& recorded) {
    std::ostringstream out;
    out << R"("ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum",)" << metrics << "\n"
        << R"("","","","","ns","","")"
        << "\n";
    int id = 0;
    for (const Recorded& r : recorded) {
      out << id << "," << r.name << R"x(,"(128, 1, 1)","(8, 1, 1)",)x" << r.us * 1000 << ",1000,"
          << (id == 0 ? l2 : "64000") << "\n";
      ++id;
    }
    return import_kineto(recording(recorded), "h200", write("ncu.csv", out.str()));
  };
  for (const char* l2 : {"n/a", "", "-5", "inf", "1e30"}) {
    SCOPED_TRACE(l2);
    const Trace alone = counters(l2, {{"a", 10}, {"b", 10}});
    EXPECT_FALSE(alone.kernels[0].counters.warp_instructions);
    EXPECT_EQ(alone.kernels[1].counters.l2_bytes, 64000);
    EXPECT_THAT(alone.notes, Contains(HasSubstr("ncu.csv lacks lts__t_bytes.sum of 1 launch")));
    EXPECT_THAT(alone.notes, Contains(HasSubstr("Counters of 1 of 2 launches")));
    EXPECT_THAT(alone.notes, Contains(HasSubstr("1 launch has no hardware counters")));
    // Another launch of the same kernel has them.
    const Trace lent = counters(l2, {{"a", 10}, {"a", 10}});
    ASSERT_EQ(lent.kernels.size(), 1u);
    EXPECT_EQ(lent.kernels[0].counters.l2_bytes, 64000);
    EXPECT_THAT(lent.notes, Each(Not(HasSubstr("no hardware counters"))));
  }
  EXPECT_THAT(counters("-5", {{"a", 10}, {"b", 10}}).notes, Contains(HasSubstr("1 value that is negative")));
}

TEST_F(KinetoCounters, WithoutDurationsAPartIsRepeated) {
  EXPECT_THAT(
      instructions(import({{"a", 10}, {"a", 30}, {"a", 10}, {"a", 30}}, {{"a", 0, 1000}, {"a", 0, 3000}})),
      ElementsAre(1000, 3000, 1000, 3000));
}

TEST_F(KinetoCounters, LaunchesOfOneShapeThatDifferAreKernelsOfTheirOwn) {
  const Trace trace =
      import({{"gemm", 66}, {"gemm", 250}, {"gemm", 68}, {"gemm", 251}},
             {{"gemm", 66, 1000}, {"gemm", 250, 4000}, {"gemm", 66, 1050}, {"gemm", 250, 4000}});
  EXPECT_THAT(names(trace), ElementsAre("gemm", "gemm #2"));
  EXPECT_EQ(trace.kernels[0].solo_time, from_ns(66e3));
  EXPECT_EQ(trace.kernels[1].solo_time, from_ns(250e3));
  EXPECT_EQ(trace.kernels[1].counters.warp_instructions, 4000);
  EXPECT_EQ(std::get<Launch>(trace.programs[0].ops[2].what).kernel, KernelId{0});
  EXPECT_EQ(std::get<Launch>(trace.programs[0].ops[2].what).solo_time, from_ns(68e3));
  // Counters alone, and times alone, part them too; a tenth does not.
  EXPECT_THAT(names(import({{"a", 10}, {"a", 10}}, {{"a", 10, 1000}, {"a", 10, 2000}})),
              ElementsAre("a", "a #2"));
  EXPECT_THAT(names(import({{"a", 10}, {"a", 20}}, {{"a", 10, 1000}, {"a", 20, 1000}})),
              ElementsAre("a", "a #2"));
  EXPECT_THAT(names(import({{"a", 10}, {"a", 10.9}}, {{"a", 10, 1000}, {"a", 10, 1090}})), ElementsAre("a"));
}

TEST_F(KinetoCounters, WithoutCountersAShapeIsOneKernel) {
  EXPECT_THAT(names(import_kineto(recording({{"gemm", 66}, {"gemm", 250}}), "h200")), ElementsAre("gemm"));
}

TEST_F(KinetoCounters, NamesNeedNotBePrintedAlike) {
  const char* full =
      "void at::native::elementwise_kernel<128, at::native::relu(float)::{lambda(int)#1}>(int)";
  for (const char* printed :
       {"elementwise_kernel", "at::native::elementwise_kernel<(int)128, ...",
        "_ZN2at6native18elementwise_kernelILi128EEEvi", "void at::native::elementwise_ker"})
    EXPECT_THAT(instructions(import({{full, 10}, {"b", 10}}, {{printed, 10, 1000}, {"b", 10, 2000}})),
                ElementsAre(1000, 2000))
        << printed;
}

TEST_F(KinetoCounters, OneFunctionWithOtherArgumentsIsToldByItsName) {
  // Two of each in the recording, one in the profile: the same shape, and as long.
  EXPECT_THAT(instructions(
                  import({{"void f<1>()", 10}, {"void f<2>()", 10}, {"void f<2>()", 10}, {"void f<1>()", 10}},
                         {{"void f<2>()", 10, 2000}, {"void f<1>()", 10, 1000}, {"g", 1, 1}})),
              ElementsAre(1000, 2000, 2000, 1000));
}

TEST_F(KinetoCounters, OtherGridsNeverMatch) {
  const Trace trace = import({{"a", 10, 8}, {"a", 10, 9}}, {{"a", 10, 1000, 8}, {"a", 10, 2000, 10}});
  EXPECT_THAT(instructions(trace), ElementsAre(1000, 0));
}

TEST_F(KinetoCounters, WhereOnlyNumbersOfBlocksAreKnownTheyMustBeTheSame) {
  const std::string rows =
      R"csv("ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","a","launch__grid_size","","8"
"0","a","launch__block_size","","128"
"0","a","smsp__inst_executed.sum","inst","1000"
"1","b","launch__grid_size","","9"
"1","b","launch__block_size","","128"
"1","b","smsp__inst_executed.sum","inst","2000"
)csv";
  EXPECT_THAT(instructions(import_kineto(recording({{"a", 10}, {"b", 10}}), "h200", write("ncu.csv", rows))),
              ElementsAre(1000, 0));
}

TEST_F(KinetoCounters, OneProcessOfSeveralIsTaken) {
  const Trace trace = import({{"a", 10}, {"b", 10}},
                             {{"a", 10, 1, 8, "7"}, {"a", 10, 1000, 8, "8"}, {"b", 10, 2000, 8, "8"}});
  EXPECT_THAT(instructions(trace), ElementsAre(1000, 2000));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("2 processes and devices")));
}

TEST_F(KinetoCounters, WhatNsightComputeKnowsOfALaunchIsTakenOver) {
  const Trace trace = import({{"a", 10}, {"b", 10}}, {{"a", 10, 1000, 8, "7", R"("1.02","2.05","2")"},
                                                      {"b", 10, 1000, 8, "7", R"("9.99","2.05","3")"}});
  EXPECT_EQ(trace.kernels[0].static_shared_memory_bytes, 1020u);
  EXPECT_EQ(trace.kernels[0].shared_memory_bytes(), 3072u);
  EXPECT_EQ(trace.kernels[0].cluster, (Dim3{2, 1, 1}));
  // What contradicts the recording is left: other shared memory, a cluster that does not divide the grid.
  EXPECT_EQ(trace.kernels[1].static_shared_memory_bytes, 0u);
  EXPECT_EQ(trace.kernels[1].cluster, (Dim3{1, 1, 1}));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("1 kernel has no cluster dimensions")));
  EXPECT_THAT(trace.notes, Each(Not(HasSubstr("No cluster dimensions"))));
}

TEST_F(KinetoCounters, MissingMetricsAreSaid) {
  EXPECT_THAT(import({{"a", 10}}, {{"a", 10, 1000}}).notes,
              Contains(AllOf(HasSubstr("Metrics that ncu.csv lacks"), HasSubstr("lts__t_bytes.sum"),
                             Not(HasSubstr("smsp__inst_executed.sum")))));
}

TEST_F(KinetoCounters, ProfileOfAnotherProgramIsRefused) {
  try {
    import({{ "a", 10 }}, {{"b", 10, 1000}, { "a", 10, 1000, 9 }});
    ADD_FAILURE() << "joined what has nothing in common";
  } catch (const InputError& error) {
    EXPECT_THAT(error.file(), HasSubstr("ncu.csv"));
    EXPECT_EQ(error.place(), "line 3");
    EXPECT_THAT(error.problem(), HasSubstr("none of its 2 profiled launches"));
    EXPECT_THAT(error.problem(), HasSubstr("'b' <<<(8, 1, 1), (128, 1, 1)>>>"));
    EXPECT_THAT(error.remedy(), HasSubstr("the program that was recorded"));
  }
}

}  // namespace
}  // namespace corun
