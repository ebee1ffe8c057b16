// Does a table of latencies become a program that does as the table says, and is a bad one refused with its line?
#include "traces/import/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/in_folder.h"
#include "traces/import/recording.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class TableImport : public InFolder {
 protected:
  Trace read(const std::string& text, ImportOptions options = {.gpu = "h200"}) const {
    return import_table(InFolder::write("net.csv", text), options);
  }
  InputError refusal(const std::string& text, ImportOptions options = {.gpu = "h200"}) const {
    try {
      read(text, options);
    } catch (const InputError& error) {
      return error;
    }
    ADD_FAILURE() << "accepted: " << text;
    return InputError("", "", "", "");
  }
  static double gap_ms(const Trace& trace, std::size_t program) { return static_cast<double>(trace.programs[program].ops.front().host_gap.count()) / 1e9; }
  static double kernels_ms(const Trace& trace, std::size_t program) {
    double sum = 0;
    for (const Op& op : trace.programs[program].ops)
      if (const auto* launch = std::get_if<Launch>(&op.what)) sum += static_cast<double>(trace.kernels[launch->kernel.value].solo_time->count()) / 1e9;
    return sum;
  }
};

TEST_F(TableImport, EachShareBecomesAProgramOfTheSameRequestFromTheMostSmsOn) {
  const Trace trace = read("sms,latency_ms,kernels\n33,38,20\n132,10,20\n66,19.5,20\n");
  ASSERT_EQ(trace.programs.size(), 3u);
  EXPECT_THAT(trace.programs[0].on_sms, ElementsAre(std::pair(33u, ProgramId{2}), std::pair(66u, ProgramId{1})));
  EXPECT_EQ(trace.programs[0].ops.size(), 20u);
  EXPECT_EQ(trace.kernels[0].solo_time_sms, 0u);
  EXPECT_EQ(trace.kernels[2].solo_time_sms, 33u);
  EXPECT_NEAR(kernels_ms(trace, 2), 37, 0.1) << "18.5 of 38 ms more than on twice the SMs";
  ASSERT_EQ(trace.clients.size(), 1u);
  EXPECT_EQ(trace.clients[0].program, ProgramId{0});
}

TEST_F(TableImport, APercentageIsAsManySmsAsMpsGives) {
  const Trace trace = read("percentage,latency_ms\n100,10\n25,35\n");
  EXPECT_THAT(trace.programs[0].on_sms, ElementsAre(std::pair(read_gpu("h200").mps_sms(25), ProgramId{1})));
}

TEST_F(TableImport, WhatDoesNotShrinkWithTheSmsLeavesThemIdleUnlessItMovesBytes) {
  EXPECT_NEAR(gap_ms(read("sms,latency_ms\n132,10\n66,20\n"), 0), 0, 0.01) << "all of it goes with the SMs";
  EXPECT_NEAR(gap_ms(read("sms,latency_ms\n132,10\n66,14\n"), 0), 6, 0.1) << "4 of 10 ms do";
  EXPECT_NEAR(gap_ms(read("sms,latency_ms,dram_pct\n132,10,80\n66,14,60\n"), 0), 2, 0.1) << "its bytes take 8 ms";
  EXPECT_NEAR(gap_ms(read("sms,latency_ms,busy_pct\n132,10,70\n"), 0), 3, 0.1) << "as given";
  EXPECT_NEAR(gap_ms(read("sms,latency_ms\n132,10\n66,9\n"), 0), 10, 0.1) << "faster on fewer: the host decides";
}

TEST_F(TableImport, SharesOfBandwidthBecomeBytesOfTheRequestsTime) {
  const Gpu gpu = read_gpu("h200");
  const Trace trace = read("sms,latency_ms,dram_pct,l2_pct,kernels\n132,10,50,40,4\n");
  EXPECT_NEAR(*trace.kernels[0].counters.dram_read_bytes * 4, 0.5 * gpu.dram_bytes_per_second * 0.01, 1e6);
  EXPECT_NEAR(*trace.kernels[0].counters.l2_bytes * 4, 0.4 * gpu.contention.l2_read_bytes_per_second * 0.01, 1e6);
  EXPECT_FALSE(read("sms,latency_ms\n132,10\n").kernels[0].counters.dram_read_bytes) << "nothing is said of the memory";
}

TEST_F(TableImport, CopiesStandAroundTheKernelsAndTheirTimeIsNotTheirs) {
  const Trace trace = read("sms,latency_ms,copy_in_bytes,copy_out_bytes,kernels\n132,10,100000000,1000,1\n");
  ASSERT_EQ(trace.programs[0].ops.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Copy>(trace.programs[0].ops[0].what));
  EXPECT_TRUE(std::holds_alternative<Copy>(trace.programs[0].ops[2].what));
  EXPECT_NEAR(kernels_ms(trace, 0), 10 - 1e8 / read_gpu("h200").copy_bytes_per_second * 1e3, 0.1);
}

TEST_F(TableImport, IsMarkedAsCoarseAlsoWhenWrittenAndReadAgainAndSaysWhatWasAssumed) {
  const Trace trace = read("sms,latency_ms\n132,10\n66,14\n");
  ASSERT_EQ(trace.notes.size(), 1u);
  EXPECT_THAT(trace.notes[0], HasSubstr("net is coarse"));
  EXPECT_THAT(trace.notes[0], HasSubstr("no use of the memory"));
  std::ostringstream text;
  write_trace(trace, text);
  const Trace again = read_trace(InFolder::write("again.json", text.str()));
  for (const Program& program : again.programs) EXPECT_TRUE(program.coarse);
  EXPECT_EQ(again.programs, trace.programs);
  const Trace known = read("sms,latency_ms,kernels,dram_pct,issue_pct,occupancy_pct\n132,10,5,20,50,50\n66,14,5,20,50,50\n");
  EXPECT_THAT(known.notes[0], Not(HasSubstr("assumed")));
}

TEST_F(TableImport, IsToldByItsHeaderAndMayNameItsGpu) {
  const auto file = InFolder::write("t.csv", "percentage,latency_ms,gpu\n100,10,a100-80gb\n50,19,\n");
  EXPECT_TRUE(looks_like_table(file));
  const std::optional<Trace> trace = import_recording(file);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->gpu, "a100-80gb");
  EXPECT_FALSE(looks_like_table(InFolder::write("arrivals.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n")));
}

TEST_F(TableImport, BadInputIsRefusedWithFileAndLine) {
  struct Bad {
    const char *text, *line, *problem;
  };
  for (const Bad& bad : {Bad{"", "line 1", "is empty"},
                         {"sms,latency_ms\n", "line 1", "no rows"},
                         {"sms,latency\n132,10\n", "line 1", "no column 'latency'"},
                         {"sms,percentage,latency_ms\n132,100,10\n", "line 1", "a share of the GPU is"},
                         {"kernels,latency_ms\n5,10\n", "line 1", "a share of the GPU is"},
                         {"sms,busy_pct\n132,10\n", "line 1", "no column `latency_ms`"},
                         {"sms,latency_ms,sms\n132,10,132\n", "line 1", "stands twice"},
                         {"sms,latency_ms\n132,10\n66\n", "line 3", "has 1 fields, the header 2"},
                         {"sms,latency_ms\n132,10\n\n66,-4\n", "line 4", "`latency_ms` is '-4'"},
                         {"sms,latency_ms\n132,10\n66,\n", "line 3", "`latency_ms` is empty"},
                         {"sms,latency_ms\n132,10\n,14\n", "line 3", "`sms` is empty"},
                         {"sms,latency_ms\n132,10\n66.5,14\n", "line 3", "expected a whole number"},
                         {"sms,latency_ms\n132,10\n1000,9\n", "line 3", "h200 has 132 SMs"},
                         {"sms,latency_ms\n132,10\n66,14\n66,15\n", "line 4", "as many SMs, 66, as line 3"},
                         {"sms,latency_ms,dram_pct\n132,10,130\n", "line 2", "`dram_pct` is '130'"},
                         {"sms,latency_ms,copy_in_bytes\n132,1,1000000000000\n", "line 2", "copies alone take"},
                         {"sms,latency_ms,dram_pct\n132,1e400,1\n", "line 2", "`latency_ms`"}}) {
    const InputError error = refusal(bad.text);
    EXPECT_THAT(error.file(), HasSubstr("net.csv")) << bad.text;
    EXPECT_EQ(error.place(), bad.line) << bad.text << error.what();
    EXPECT_THAT(error.problem(), HasSubstr(bad.problem)) << bad.text;
    EXPECT_FALSE(error.remedy().empty());
  }
  EXPECT_THAT(refusal("sms,latency_ms\n132,10\n", {}).remedy(), HasSubstr("--gpu"));
  EXPECT_THAT(refusal("sms,latency_ms,gpu\n132,10,h200\n66,20,l4\n", {}).problem(), HasSubstr("rows before are of 'h200'"));
}

}  // namespace
}  // namespace corun
