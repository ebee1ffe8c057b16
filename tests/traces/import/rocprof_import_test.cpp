// Is what rocprofv3 writes read as ROCm means it, in the versions that there are, and is what is wrong told?
#include "traces/import/rocprof.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/in_folder.h"
#include "traces/import/nsys.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// As tests/data/make_rocprof.py wrote them.
constexpr const char* kRocm7 = "tests/data/rocprof_rocm7.json";
constexpr const char* kRocm62 = "tests/data/rocprof_rocm62.json";

class RocprofImport : public InFolder {
 protected:
  std::filesystem::path write(const std::string& text) const {
    return InFolder::write("results.json", text);
  }
  static std::string content(const char* file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  static std::string changed(const char* file, const std::string& from, const std::string& to) {
    std::string text = content(file);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  InputError refusal(const std::string& text, const ImportOptions& options = {}) const {
    try {
      import_rocprof(write(text), options);
    } catch (const InputError& error) {
      return error;
    }
    ADD_FAILURE() << "accepted";
    return InputError("", "", "", "");
  }
  static Trace server(ImportOptions options = {}) { return import_rocprof(kRocm7, options, "server-4242"); }
};

TEST_F(RocprofImport, AGridOfWorkItemsBecomesBlocksAndTheLastOneMayBeSmaller) {
  const Trace trace = server();
  ASSERT_EQ(trace.kernels.size(), 1u) << "65500 work-items in groups of 256 are as many groups as 65536";
  EXPECT_EQ(trace.kernels[0].grid.x, 256u);
  EXPECT_EQ(trace.kernels[0].grid.y, 3u);
  EXPECT_EQ(trace.kernels[0].block.x, 256u);
  EXPECT_EQ(trace.kernels[0].solo_time, from_ns(20000));
}

TEST_F(RocprofImport, RegistersAreThoseOfBothKindsAndLocalMemoryIsSplit) {
  const Kernel kernel = server().kernels[0];
  EXPECT_EQ(kernel.name, "gemm()");
  EXPECT_EQ(kernel.registers_per_thread, 96u);
  EXPECT_EQ(kernel.static_shared_memory_bytes, 512u);
  EXPECT_EQ(kernel.dynamic_shared_memory_bytes, 2048u);
}

TEST_F(RocprofImport, MoreRegistersThanATraceCanSayAreCutWithANote) {
  const Trace trace = import_rocprof(kRocm7, {}, "python3-5252");
  EXPECT_EQ(trace.kernels[0].registers_per_thread, 256u);
  EXPECT_THAT(trace.notes, Contains(HasSubstr("more than 256 vector registers")));
}

TEST_F(RocprofImport, CallsAreThoseOfHipAndACopyThatWaitsBlocksTheHost) {
  const Program program = server().programs[0];
  ASSERT_EQ(program.ops.size(), 6u);
  EXPECT_EQ(std::get<Copy>(program.ops[0].what).direction, CopyDirection::host_to_device);
  EXPECT_TRUE(std::holds_alternative<Sync>(program.ops[1].what)) << "hipMemcpy";
  EXPECT_EQ(program.ops[2].host_gap, from_ns(1000)) << "from the end of hipMemcpy to hipLaunchKernel";
  EXPECT_TRUE(std::holds_alternative<Sync>(program.ops[4].what)) << "hipStreamSynchronize";
  EXPECT_EQ(program.streams.size(), 2u);
}

TEST_F(RocprofImport, ProcessesBecomeClientsOrOneIsChosen) {
  const Trace both = import_rocprof(kRocm7, {});
  ASSERT_EQ(both.clients.size(), 2u);
  EXPECT_EQ(both.clients[0].name, "server-4242");
  EXPECT_EQ(both.clients[1].name, "python3-5252");
  EXPECT_THROW(import_rocprof(kRocm7, {}, "server"), InputError);
}

TEST_F(RocprofImport, ProcessesOfOneNameBecomeClientsOfTwo) {
  std::string text = changed(kRocm7, "5252", "4242");
  text.replace(text.find("\"python3\""), 9, "\"server\"");
  const Trace both = import_rocprof(write(text), {});
  EXPECT_EQ(both.clients[0].name, "server-4242");
  EXPECT_EQ(both.clients[1].name, "server-4242 #2");
}

TEST_F(RocprofImport, ARangeOfRoctxIsARequest) {
  ImportOptions options;
  options.range = "step";
  options.step = 1;
  EXPECT_EQ(server(options).programs[0].ops.size(), 1u);
  options.range = "stop";
  EXPECT_THAT(refusal(content(kRocm7), options).problem(), HasSubstr("did you mean 'step'"));
  options.range = "step";
  EXPECT_THROW(import_rocprof(kRocm7, options, "python3-5252"), InputError) << "which has none";
}

TEST_F(RocprofImport, TheGpuIsFoundByProductElseByInstructionSetWhereTheComputeUnitsAreAsMany) {
  EXPECT_EQ(server().gpu, "mi250x");
  EXPECT_EQ(import_rocprof(kRocm62, {}).gpu, "mi300x-xcd") << "gfx942, 38 compute units";
  const auto with_units = [&](const char* units) {
    return import_rocprof(write(changed(kRocm62, "\"cu_count\": 38", fmt::format("\"cu_count\": {}", units))), {});
  };
  EXPECT_EQ(with_units("304").gpu, "mi300x");
  const Trace neither = with_units("303");
  EXPECT_EQ(neither.gpu, "");
  EXPECT_THAT(neither.notes, Contains(HasSubstr("303 SMs")));
  const Trace other = import_rocprof(
      write(changed(kRocm62, "\"product_name\": \"\"", "\"product_name\": \"AMD Instinct MI355X\"")), {});
  EXPECT_EQ(other.gpu, "") << "the maker's name and as many compute units do not make it the same card";
}

TEST_F(RocprofImport, OldVersionsWriteKeysTwiceAndHaveQueuesForStreams) {
  const Trace trace = import_rocprof(kRocm62, {});
  EXPECT_EQ(trace.programs[0].streams.size(), 2u);
  EXPECT_EQ(trace.kernels[0].registers_per_thread, 48u) << "of the records of counters";
  EXPECT_EQ(std::get<Copy>(trace.programs[0].ops.back().what).direction, CopyDirection::device_to_host);
  EXPECT_THAT(trace.notes, Contains(HasSubstr("a stream is a hardware queue")));
  EXPECT_THAT(server().notes, Not(Contains(HasSubstr("hardware queue"))));
}

TEST_F(RocprofImport, ADeviceIsChosen) {
  ImportOptions options;
  options.device = 0;
  EXPECT_EQ(server(options).programs[0].ops.size(), 6u);
  options.device = 1;
  EXPECT_THAT(refusal(content(kRocm7), options).problem(), HasSubstr("no kernels of device 1"));
}

TEST_F(RocprofImport, IsRecognisedByContent) {
  EXPECT_TRUE(looks_like_rocprof(kRocm7));
  EXPECT_TRUE(looks_like_rocprof(kRocm62));
  EXPECT_FALSE(looks_like_rocprof("tests/data/kineto_small.json"));
  EXPECT_FALSE(looks_like_rocprof("tests/data/none.json"));
  EXPECT_FALSE(looks_like_nsys(kRocm7));
}

TEST_F(RocprofImport, WhatCannotBeImportedIsRefusedWithTheReason) {
  EXPECT_THAT(refusal("{}").problem(), HasSubstr("has no 'rocprofiler-sdk-tool'"));
  EXPECT_THAT(refusal(content("tests/data/kineto_small.json")).remedy(), HasSubstr("sim import kineto"));
  EXPECT_THAT(refusal(R"({"rocprofiler-sdk-tool": []})").problem(), HasSubstr("no kernel dispatches"));
  EXPECT_THAT(refusal(R"({"rocprofiler-sdk-tool": [{"buffer_records": {"hip_api": [
      {"start_timestamp": 1, "end_timestamp": 2}]}}]})").problem(),
              HasSubstr("there are HIP calls"));
  const std::string whole = content(kRocm7);
  EXPECT_THAT(refusal(whole.substr(0, whole.size() / 2)).remedy(), HasSubstr("cut short"));
  ImportOptions options;
  options.counters = "ncu.csv";
  EXPECT_THAT(refusal(whole, options).problem(), HasSubstr("NVIDIA"));
}

TEST_F(RocprofImport, ABrokenRecordIsNamed) {
  const auto dispatch = [&](const std::string& from, const std::string& to) { return refusal(changed(kRocm7, from, to)); };
  const InputError late = dispatch("\"end_timestamp\": 32000", "\"end_timestamp\": 11999");
  EXPECT_EQ(late.place(), "/rocprofiler-sdk-tool/0/buffer_records/kernel_dispatch/0");
  EXPECT_THAT(late.problem(), HasSubstr("end_timestamp after it"));
  EXPECT_THAT(dispatch("\"x\": 256", "\"x\": 0").problem(), HasSubstr("at least 1 in x"));
  EXPECT_THAT(dispatch("\"x\": 256", "\"x\": 1025").problem(), HasSubstr("groups of 1025"));
  EXPECT_THAT(dispatch("\"x\": 256,\n        \"y\": 1", "\"x\": 256,\n        \"y\": 5").problem(), HasSubstr("1024 work-items"));
  EXPECT_THAT(dispatch("\"bytes\": 4096", "\"bytes\": -1").problem(), HasSubstr("bytes"));
  EXPECT_THAT(dispatch("\"group_segment_size\": 2560", "\"group_segment_size\": -1").problem(), HasSubstr("group_segment_size"));
}

}  // namespace
}  // namespace corun
