// What Nsight Compute's CSV says, in all the ways in which it is printed, cut and surrounded.
#include "traces/import/nsight_compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <random>
#include <string>

#include "tests/support/in_folder.h"
#include "traces/import/kernel_name.h"
#include "traces/import/profiler_number.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using std::filesystem::path;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kLongHeader =
    R"("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",)"
    R"("Device","CC","Section Name","Metric Name","Metric Unit","Metric Value")"
    "\n";

/// A row of the long form.
std::string row(int id, const std::string& metric, const std::string& unit, const std::string& value,
                const std::string& kernel = "void relu<float, 4>(int, float*)",
                const std::string& process = "7") {
  return '"' + std::to_string(id) + "\",\"" + process + "\",\"python\",\"127.0.0.1\",\"" + kernel +
         R"csv(","1","7","(128, 1, 1)","(8, 7, 1)","0","9.0","Command line profiler metrics",")csv" + metric +
         "\",\"" + unit + "\",\"" + value + "\"\n";
}

class NsightCompute : public InFolder {
 protected:
  path write(const std::string& text, const std::string& name = "ncu.csv") const {
    return InFolder::write(name, text);
  }
  ProfiledLaunches read(const std::string& text) const { return read_nsight_compute(write(text)); }
  ProfiledLaunch only(const std::string& text) const {
    const ProfiledLaunches all = read(text);
    EXPECT_EQ(all.launches.size(), 1u);
    return all.launches.empty() ? ProfiledLaunch{} : all.launches.front();
  }
  InputError refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const InputError& error) {
      return error;
    }
    ADD_FAILURE() << "read what should be refused";
    return {"", "", "", ""};
  }
};

TEST_F(NsightCompute, RowsOfOneLaunchAreOneLaunch) {
  const ProfiledLaunches all =
      read(kLongHeader + row(0, "smsp__inst_executed.sum", "inst", "4,963,609,951") +
           row(0, "dram__bytes_read.sum", "byte", "1000") + row(1, "dram__bytes_read.sum", "byte", "2000"));
  ASSERT_EQ(all.launches.size(), 2u);
  const ProfiledLaunch& first = all.launches[0];
  EXPECT_EQ(first.kernel, "void relu<float, 4>(int, float*)");
  EXPECT_EQ(first.grid, (Dim3{8, 7, 1}));
  EXPECT_EQ(first.block, (Dim3{128, 1, 1}));
  EXPECT_EQ(first.process, "7");
  EXPECT_EQ(first.line, 2u);
  EXPECT_EQ(first.counters.warp_instructions, 4963609951.0);
  EXPECT_EQ(first.counters.dram_read_bytes, 1000);
  EXPECT_EQ(all.launches[1].line, 4u);
}

TEST_F(NsightCompute, ALaunchThatLacksWhatOthersHaveKeepsOnlyItsDuration) {
  const ProfiledLaunches all =
      read(kLongHeader + row(0, "smsp__inst_executed.sum", "inst", "5000") +
           row(0, "dram__bytes_read.sum", "byte", "1000") + row(1, "dram__bytes_read.sum", "byte", "2000") +
           row(1, "gpu__time_duration.sum", "ns", "70"));
  ASSERT_EQ(all.launches.size(), 2u);
  EXPECT_FALSE(all.launches[0].cut);
  EXPECT_TRUE(all.launches[1].cut);
  EXPECT_EQ(all.launches[1].counters.dram_read_bytes, std::nullopt);
  EXPECT_EQ(all.launches[1].counters.duration_ns, 70);
  EXPECT_EQ(all.lacking, (std::map<std::string, std::size_t>{{"smsp__inst_executed.sum", 1}}));
}

TEST_F(NsightCompute, AClusterThatNoGpuHasIsLeftOut) {
  const std::string counted = kLongHeader + row(0, "smsp__inst_executed.sum", "inst", "5000");
  EXPECT_EQ(only(counted + row(0, "launch__cluster_size", "", "16")).cluster_blocks, 16u);
  const ProfiledLaunches all = read(counted + row(0, "launch__cluster_size", "", "64"));
  EXPECT_EQ(all.launches.at(0).cluster_blocks, std::nullopt);
  EXPECT_EQ(all.impossible, 1u);
}

TEST_F(NsightCompute, EveryCounterHasItsMetric) {
  std::string text = kLongHeader;
  const char* metrics[] = {"gpu__time_duration.sum",
                           "smsp__inst_executed.sum",
                           "smsp__issue_active.avg.pct_of_peak_sustained_active",
                           "dram__bytes_read.sum",
                           "dram__bytes_write.sum",
                           "lts__t_bytes.sum",
                           "l1tex__t_bytes.sum",
                           "sm__warps_active.avg.pct_of_peak_sustained_active",
                           "sm__inst_executed_pipe_tensor.sum",
                           "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"};
  int value = 1;
  for (const char* metric : metrics) {
    EXPECT_THAT(nsight_compute_metrics(), HasSubstr(metric));
    text += row(0, metric, "", std::to_string(value++));
  }
  for (const char* pipe : {"sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
                           "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"}) {
    EXPECT_THAT(nsight_compute_metrics(), HasSubstr(pipe));
    text += row(0, pipe, "%", "11.5");
  }
  text += row(0, "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", "%", "12.5");
  text += row(0, "launch__registers_per_thread", "register/thread", "40");
  text += row(0, "launch__shared_mem_per_block_static", "byte/block", "1,024");
  text += row(0, "launch__shared_mem_per_block_dynamic", "Kbyte/block", "16.38");
  text += row(0, "launch__cluster_dim_x", "", "2") + row(0, "launch__cluster_dim_y", "", "1") +
          row(0, "launch__cluster_dim_z", "", "1") + row(0, "launch__cluster_size", "", "2");
  const ProfiledLaunch launch = only(text);
  const Counters& c = launch.counters;
  EXPECT_EQ(c.duration_ns, 1);
  EXPECT_EQ(c.warp_instructions, 2);
  EXPECT_EQ(c.issue_active_pct, 3);
  EXPECT_EQ(c.dram_read_bytes, 4);
  EXPECT_EQ(c.dram_write_bytes, 5);
  EXPECT_EQ(c.l2_bytes, 6);
  EXPECT_EQ(c.l1_bytes, 7);
  EXPECT_EQ(c.warps_active_pct, 8);
  EXPECT_EQ(c.tensor_instructions, 9);
  EXPECT_EQ(c.fp64_active_pct, 10);
  EXPECT_THAT(c.pipes_pct, ElementsAre(std::pair("alu", 11.5), std::pair("hmma_cycles", 12.5), std::pair("l1_data", 11.5)));
  EXPECT_EQ(launch.registers_per_thread, 40u);
  EXPECT_EQ(launch.static_shared_memory_bytes, 1024u);
  EXPECT_EQ(launch.dynamic_shared_memory_bytes, 16380u);
  EXPECT_EQ(launch.cluster, (Dim3{2, 1, 1}));
  EXPECT_EQ(launch.cluster_blocks, 2u);
}

TEST_F(NsightCompute, ScaledUnitsAreMadeBaseUnits) {
  const auto bytes = [&](const char* unit) {
    return only(kLongHeader + row(0, "lts__t_bytes.sum", unit, "1.5")).counters.l2_bytes;
  };
  EXPECT_EQ(bytes("byte"), 1.5);
  EXPECT_EQ(bytes("Kbyte"), 1.5e3);
  EXPECT_EQ(bytes("Mbyte"), 1.5e6);
  EXPECT_EQ(bytes("Gbyte"), 1.5e9);
  EXPECT_EQ(bytes("Tbyte"), 1.5e12);
  EXPECT_EQ(bytes("sector"), 48);
  const auto duration = [&](const char* unit) {
    return only(kLongHeader + row(0, "gpu__time_duration.sum", unit, "2.5")).counters.duration_ns;
  };
  for (const char* unit : {"ns", "nsecond"}) EXPECT_EQ(duration(unit), 2.5);
  for (const char* unit : {"us", "usecond"}) EXPECT_EQ(duration(unit), 2.5e3);
  for (const char* unit : {"ms", "msecond"}) EXPECT_EQ(duration(unit), 2.5e6);
  for (const char* unit : {"s", "second"}) EXPECT_EQ(duration(unit), 2.5e9);
}

TEST_F(NsightCompute, UnknownUnitIsLeftOutAndKept) {
  const ProfiledLaunches all = read(kLongHeader + row(0, "lts__t_bytes.sum", "furlong", "1") +
                                    row(0, "smsp__inst_executed.sum", "Kinst", "1"));
  EXPECT_EQ(all.launches.at(0).counters.l2_bytes, std::nullopt);
  EXPECT_EQ(all.launches.at(0).counters.warp_instructions, 1000);
  EXPECT_THAT(all.unknown_units, ElementsAre("furlong"));
}

TEST_F(NsightCompute, SeparatorsAreReadAsTheFileUsesThem) {
  EXPECT_EQ(only(kLongHeader + row(0, "lts__t_bytes.sum", "byte", "4,963,609,951.19")).counters.l2_bytes,
            4963609951.19);
  // One number that shows a decimal comma tells how to read the others.
  const ProfiledLaunch european = only(kLongHeader + row(0, "lts__t_bytes.sum", "byte", "1.234") +
                                       row(0, "dram__bytes_read.sum", "byte", "1.234,5"));
  EXPECT_EQ(european.counters.l2_bytes, 1234);
  EXPECT_EQ(european.counters.dram_read_bytes, 1234.5);
  EXPECT_EQ(marks_of("1,234"), std::nullopt);
  EXPECT_EQ(marks_of("1,234,567"), Marks::english);
  EXPECT_EQ(marks_of("0,5"), Marks::decimal_comma);
  EXPECT_EQ(marks_of("1234,567"), Marks::decimal_comma);
}

TEST_F(NsightCompute, ApostrophesAndSpacesPartThousands) {
  const ProfiledLaunch swiss = only(kLongHeader + row(0, "smsp__inst_executed.sum", "inst", "1'234'567") + row(0, "dram__bytes_read.sum", "byte", "12.50") +
                                    row(0, "dram__bytes_write.sum", "byte", "1’234.567"));
  EXPECT_EQ(swiss.counters.warp_instructions, 1234567);
  EXPECT_EQ(swiss.counters.dram_read_bytes, 12.5);
  EXPECT_EQ(swiss.counters.dram_write_bytes, 1234.567) << "a point is its decimal mark";
  const ProfiledLaunch french = only(kLongHeader + row(0, "smsp__inst_executed.sum", "inst", "1\u202F234\u202F567") +
                                     row(0, "dram__bytes_read.sum", "byte", "1\u00A0234,5") + row(0, "dram__bytes_write.sum", "byte", "1,234"));
  EXPECT_EQ(french.counters.warp_instructions, 1234567);
  EXPECT_EQ(french.counters.dram_read_bytes, 1234.5);
  EXPECT_EQ(french.counters.dram_write_bytes, 1.234);
  EXPECT_EQ(marks_of("1'234'567"), Marks::english);
  EXPECT_EQ(profiler_number("12'34", Marks::english), std::nullopt) << "no group of three";
  EXPECT_EQ(profiler_number("'123", Marks::english), std::nullopt);
}

/// Three counters as locales and tools print them: 100.25 us, 12.5 MB, 1,234,567 instructions.
TEST_F(NsightCompute, TheSameNumbersAreReadInEachWayOfPrintingThem) {
  struct {
    const char *time_unit, *time, *bytes_unit, *bytes, *instructions;
  } const kWays[] = {{"us", "100.25", "Mbyte", "12.50", "1'234'567"},
                     {"us", "100,25", "Mbyte", "12,50", "1.234.567"},
                     {"us", "100,25", "Mbyte", "12,50", "1\u2009234\u2009567"},
                     {"us", "100.25", "Mbyte", "12.50", "12,34,567"},  // India's groups
                     {"ns", "100'250", "Kbyte", "12'500.00", "1'234'567"},
                     {"ns", "100\u2019250", "byte", "12\u2019500\u2019000", "1\u2019234\u2019567"},
                     {"ns", "1.0025e+05", "Mbyte", "1.25e1", "1.234567e+06"},
                     {"us", "100,25", "Mbyte", "12,500", "1234567"}};  // not 12,500 MB, by the row before
  for (const auto& [time_unit, time, bytes_unit, bytes, instructions] : kWays) {
    const ProfiledLaunch read = only(kLongHeader + row(0, "gpu__time_duration.sum", time_unit, time) + row(0, "dram__bytes_read.sum", bytes_unit, bytes) +
                                     row(0, "smsp__inst_executed.sum", "inst", instructions));
    EXPECT_EQ(read.counters.duration_ns, 100250) << time;
    EXPECT_EQ(read.counters.dram_read_bytes, 12.5e6) << bytes;
    EXPECT_EQ(read.counters.warp_instructions, 1234567) << instructions;
  }
  std::string grouped = kLongHeader + row(0, "smsp__inst_executed.sum", "inst", "5");
  grouped.replace(grouped.find("(8, 7, 1)"), 9, "(1'024, 7, 1)");
  EXPECT_EQ(only(grouped).grid, (Dim3{1024, 7, 1}));
}

TEST_F(NsightCompute, OtherSeparatorsOfColumnsAreTold) {
  for (const auto& [separator, is] : {std::pair{";", "semicolons"}, std::pair{"\t", "tabs"}}) {
    std::string text = kLongHeader + row(0, "smsp__inst_executed.sum", "inst", "5");
    for (std::size_t at = 0; (at = text.find("\",\"", at)) != std::string::npos;) text.replace(at, 3, std::string("\"") + separator + "\"");
    EXPECT_THAT(refusal(text).problem(), HasSubstr(std::string("its columns are parted by ") + is));
  }
}

TEST_F(NsightCompute, TextBeforeAndBetweenRowsIsSkipped) {
  const ProfiledLaunch launch = only(
      "==PROF== Connected to process 7 (/usr/bin/python)\nstep 1, loss \"0.3\nbatch, \"a\", b\n"
      "==PROF== Profiling \"relu\" - 0: 0%....100% - 9 passes\n" +
      kLongHeader + "hello, world\n\n" + row(0, "lts__t_bytes.sum", "byte", "7") + "==PROF== done\r\n");
  EXPECT_EQ(launch.counters.l2_bytes, 7);
  EXPECT_EQ(launch.line, 8u);
}

TEST_F(NsightCompute, ShortRowsRuleRowsAndMissingValuesAreTolerated) {
  const std::string rule =
      R"csv("0","7","python","127.0.0.1","void relu<float, 4>(int, float*)","1","7","(128, 1, 1)",)csv"
      R"csv("(8, 7, 1)","0","9.0","SpeedOfLight","","","","SOLBottleneck","OPT","Use ""more"" blocks,
and fewer lines.","global","12")csv"
      "\n";
  const ProfiledLaunch launch = only(
      kLongHeader.substr(0, kLongHeader.size() - 1) + ",\"Rule Name\",\"Rule Type\",\"Rule Description\"\n" +
      rule + row(0, "lts__t_bytes.sum", "byte", "n/a") + row(0, "dram__bytes_read.sum", "byte", "nan") +
      row(0, "dram__bytes_write.sum", "byte", "-1") + "\"0\",\"7\",\"python\"\n" +
      row(0, "smsp__inst_executed.sum", "inst", "5"));
  EXPECT_EQ(launch.counters.l2_bytes, std::nullopt);
  EXPECT_EQ(launch.counters.dram_read_bytes, std::nullopt);
  EXPECT_EQ(launch.counters.dram_write_bytes, std::nullopt);
  EXPECT_EQ(launch.counters.warp_instructions, 5);
}

TEST_F(NsightCompute, WideFormHasARowOfUnits) {
  const ProfiledLaunches all = read(
      R"csv("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",)csv"
      R"csv("Grid Size","Device","CC","dram__bytes_read.sum","gpu__time_duration.sum","launch__cluster_size","x"
"","","","","","","","","","","","Mbyte","usecond","",""
"0","7","python","127.0.0.1","relu","1","7","(128, 1, 1)","(8, 7, 1)","0","9.0","1.5","3.25","(2, 1, 1)","x"
"1","7","python","127.0.0.1","relu","1","7","(128, 1, 1)","(9, 7, 1)","0","9.0","2.5"
)csv");
  ASSERT_EQ(all.launches.size(), 2u);
  EXPECT_EQ(all.launches[0].counters.dram_read_bytes, 1.5e6);
  EXPECT_EQ(all.launches[0].counters.duration_ns, 3250);
  EXPECT_EQ(all.launches[0].cluster, (Dim3{2, 1, 1}));
  EXPECT_EQ(all.launches[1].grid, (Dim3{9, 7, 1}));
  EXPECT_EQ(all.launches[1].counters.dram_read_bytes, 2.5e6);
  EXPECT_EQ(all.launches[1].counters.duration_ns, std::nullopt);
}

TEST_F(NsightCompute, ProcessesAndTablesWithTheSameNumbersAreApart) {
  const std::string counter = "lts__t_bytes.sum";
  EXPECT_EQ(read(kLongHeader + row(0, counter, "byte", "1") + row(0, counter, "byte", "2", "relu", "8") +
                 kLongHeader + row(0, counter, "byte", "3"))
                .launches.size(),
            3u);
}

TEST_F(NsightCompute, TensorInstructionsAreThoseOfTheVariantsWhereThereIsNoSum) {
  const std::string variants = row(0, "sm__inst_executed_pipe_tensor_op_hmma.sum", "inst", "10") +
                               row(0, "sm__inst_executed_pipe_tensor_op_hmma_type_bf16.sum", "inst", "4") +
                               row(0, "sm__inst_executed_pipe_tensor_op_imma.sum", "inst", "5");
  EXPECT_EQ(only(kLongHeader + variants).counters.tensor_instructions, 15);
  EXPECT_EQ(only(kLongHeader + variants + row(0, "sm__inst_executed_pipe_tensor.sum", "inst", "16"))
                .counters.tensor_instructions,
            16);
}

// Versions before 2023 print no columns of the grid and the block.
TEST_F(NsightCompute, GridAndBlockMayBeMetrics) {
  const std::string header = R"("ID","Kernel Name","Kernel Time","Metric Name","Metric Unit","Metric Value")"
                             "\n";
  const auto metric = [](const std::string& name, const std::string& value) {
    return R"("0","relu","now",")" + name + R"(","",")" + value + "\"\n";
  };
  const std::string counter = header + metric("lts__t_bytes.sum", "1");
  const ProfiledLaunch numbers =
      only(counter + metric("launch__grid_size", "1,056") + metric("Block Size", "128"));
  EXPECT_FALSE(numbers.dimensions_known);
  EXPECT_EQ(numbers.grid, (Dim3{1056, 1, 1}));
  EXPECT_EQ(numbers.block, (Dim3{128, 1, 1}));
  const ProfiledLaunch dimensions =
      only(counter + metric("launch__grid_dim_x", "8") + metric("launch__grid_dim_y", "7") +
           metric("launch__grid_dim_z", "1") + metric("launch__block_dim_x", "32") +
           metric("launch__block_dim_y", "4") + metric("launch__block_dim_z", "1"));
  EXPECT_TRUE(dimensions.dimensions_known);
  EXPECT_EQ(dimensions.grid, (Dim3{8, 7, 1}));
  EXPECT_EQ(dimensions.block, (Dim3{32, 4, 1}));
  EXPECT_THAT(refusal(counter).problem(), HasSubstr("a grid, a block"));
}

TEST_F(NsightCompute, PercentagesEndAtAHundred) {
  EXPECT_EQ(only(kLongHeader + row(0, "smsp__issue_active.avg.pct_of_peak_sustained_active", "%", "100.4"))
                .counters.issue_active_pct,
            100);
}

TEST_F(NsightCompute, PipesHaveNamesThatATraceCanHave) {
  EXPECT_THAT(
      only(kLongHeader + row(0, "sm__inst_executed_pipe_a\xFF.avg.pct_of_peak_sustained_active", "%", "1") +
           row(0, "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", "%", "2"))
          .counters.pipes_pct,
      ElementsAre(std::pair("xu", 2.0)));
}

TEST_F(NsightCompute, GzipIsReadToo) {
  const path file = folder_ / "ncu.csv.gz";
  const std::string text = kLongHeader + row(0, "lts__t_bytes.sum", "byte", "7");
  gzFile out = gzopen(file.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  EXPECT_EQ(read_nsight_compute(file).launches.size(), 1u);
}

TEST_F(NsightCompute, FileWithoutATableIsRefusedWithTheCommandThatWritesOne) {
  const InputError error = refusal("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n");
  EXPECT_THAT(error.problem(), HasSubstr("no row of column names"));
  EXPECT_THAT(error.problem(), HasSubstr("ERR_NVGPUCTRPERM"));
  EXPECT_THAT(error.remedy(), HasSubstr("ncu --csv"));
  EXPECT_THAT(refusal("").problem(), HasSubstr("no row of column names"));
  EXPECT_THAT(refusal("\xFF\xFE\"\0I\0").problem(), HasSubstr("UTF-16"));
}

TEST_F(NsightCompute, TableWithoutAUsableLaunchIsRefusedWhereItBegins) {
  const InputError error = refusal("hello\n" + kLongHeader + row(0, "something__else.sum", "byte", "1"));
  EXPECT_EQ(error.place(), "line 2");
  EXPECT_THAT(error.problem(), HasSubstr("a metric that is used"));
}

TEST_F(NsightCompute, WhateverIsCutOrSpoiltIsReadOrRefused) {
  std::mt19937 random(1);
  std::string text = "==PROF== x\n" + kLongHeader;
  for (int id = 0; id < 3; ++id)
    for (const char* metric : {"lts__t_bytes.sum", "gpu__time_duration.sum", "launch__cluster_size"})
      text += row(id, metric, "", "12,345.6");
  const auto accept_or_refuse = [&](const std::string& spoilt) {
    try {
      read(spoilt);
    } catch (const InputError&) {
    }
  };
  for (std::size_t length = 0; length < text.size(); length += 7) accept_or_refuse(text.substr(0, length));
  for (int i = 0; i < 300; ++i) {
    std::string spoilt = text;
    for (int n = 1 + static_cast<int>(random() % 20); n > 0; --n)
      spoilt[random() % spoilt.size()] = static_cast<char>(random());
    accept_or_refuse(spoilt);
  }
  std::string noise(100'000, 0);
  for (char& c : noise) c = static_cast<char>(random());
  accept_or_refuse(noise);
  accept_or_refuse(kLongHeader + noise);
}

TEST(FunctionName, IsWhatAllToolsCallIt) {
  for (const char* name :
       {"void at::native::elementwise_kernel<128, 2, "
        "at::native::gpu_kernel_impl<at::native::relu(float)::{lambda(int)#1}>"
        "(at::TensorIteratorBase&)::{lambda(int)#1}>(int, at::native::f)",
        "void at::native::elementwise_kernel<(int)128, (int)2, ...", "elementwise_kernel",
        "at::native::elementwise_kernel", "at::native::(anonymous namespace)::elementwise_kernel<float>(int)",
        "void (anonymous namespace)::elementwise_kernel<float>(int)",
        "_ZN2at6native18elementwise_kernelILi128ELi2EEEviT_",
        "void at::native::<unnamed>::elementwise_kernel<float>(int)",
        "std::enable_if<(1 > 0), void>::type at::native::elementwise_kernel<int (*)(int)>(int)"})
    EXPECT_EQ(function_name(name), "elementwise_kernel") << name;
  EXPECT_EQ(function_name("nvjet_hsh_64x8_64x16_4x1_v_bz_TNN"), "nvjet_hsh_64x8_64x16_4x1_v_bz_TNN");
  EXPECT_EQ(function_name("_Z4relu"), "relu");
  EXPECT_EQ(function_name("_ZL4relui"), "relu");
  for (const char* odd : {"", "_Z", "_ZN", "_Z99relu", "<", "::", "(", "void", ">>", "a<b", "(a)"})
    function_name(odd);
  EXPECT_FALSE(function_name("()").empty());
}

TEST(FunctionName, MayBeCutShort) {
  EXPECT_TRUE(may_be_one_function("elementwise_ker", "elementwise_kernel"));
  EXPECT_FALSE(may_be_one_function("elem", "elementwise_kernel"));
  EXPECT_FALSE(may_be_one_function("elementwise_other", "elementwise_kernel"));
}

}  // namespace
}  // namespace corun
