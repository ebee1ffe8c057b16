// Recordings of other tools, or in other forms: imported where launches and shapes are there, else refused with their own cause.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/traces/import/kineto_text.h"
#include "traces/import/foreign_file.h"
#include "traces/import/recording.h"
#include "traces/import/xla_details.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using namespace kineto_text;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refused_with(const std::string& text, const std::string& name) {
  const TestFile file(text, name);
  try {
    import_recording(file, {});
  } catch (const InputError& error) {
    return error.problem() + "\n" + error.remedy();
  }
  return "";
}

// --- XLA ---

std::string gpu_op(const char* name, int correlation, double ts, double dur, const std::string& details) {
  return fmt::format(R"(, {{"ph": "X", "pid": 1, "tid": 14, "ts": {}, "dur": {}, "name": "{}", "args": {{"correlation_id": "{}", {}}}}})", ts, dur, name, correlation, details);
}
std::string host_op(const char* name, int correlation, double ts, double dur) {
  return fmt::format(R"(, {{"ph": "X", "pid": 701, "tid": 5, "ts": {}, "dur": {}, "name": "{}", "args": {{"correlation_id": "{}"}}}})", ts, dur, name, correlation);
}
std::string kernel_details(const char* more = "") {
  return fmt::format(R"("kernel_details": "regs:32 static_shared:1024 dynamic_shared:2048 grid:264,2,1 block:256,1,1 occ_pct:100{}")", more);
}
std::string jax(const std::string& events) {
  return R"({"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": [)"
         R"({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}, )"
         R"x({"ph": "M", "pid": 1, "tid": 14, "name": "thread_name", "args": {"name": "Stream #14(Compute,Memcpy)"}}, )x"
         R"({"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}})" +
         events + "]}";
}

TEST(XlaImport, LaunchesHaveTheirShapesTheirStreamAndTheirCalls) {
  std::string events;
  for (int i = 0; i < 5; ++i)
    events += gpu_op(fmt::format("fusion_{}", i).c_str(), i + 1, 1000 + 50 * i, 40, kernel_details()) + host_op("cuLaunchKernel", i + 1, 990 + 50 * i, 4);
  events += gpu_op("fusion_0", 1, 1000, 40, R"("hlo_module": "jit_step")");  // a row of what was made of them
  const Trace trace = import_text(jax(events));
  ASSERT_EQ(trace.kernels.size(), 5u);
  const Kernel& k = trace.kernels.front();
  EXPECT_EQ(k.name, "fusion_0");
  EXPECT_EQ(k.grid, (Dim3{264, 2, 1}));
  EXPECT_EQ(k.block, (Dim3{256, 1, 1}));
  EXPECT_EQ(k.registers_per_thread, 32u);
  EXPECT_EQ(k.shared_memory_bytes(), 3072u);
  EXPECT_EQ(k.solo_time, from_ns(40000));
  const Program& program = trace.programs.front();
  ASSERT_EQ(program.ops.size(), 5u);
  EXPECT_EQ(program.streams.front().name, "14");
  EXPECT_GT(program.ops[1].host_gap, from_ns(40000)) << "by the calls, 50 us apart";
  EXPECT_EQ(trace.gpu, "") << "XLA does not say which card";
  EXPECT_THAT(trace.notes, Contains(HasSubstr("The GPU is not known")));
  EXPECT_THAT(trace.about, HasSubstr("XLA's profiler"));
}

TEST(XlaImport, CopiesAndMemsetsAreOfTheirDetails) {
  const std::string events = host_op("cuMemcpyHtoDAsync_v2", 1, 900, 4) +
                             gpu_op("MemcpyH2D", 1, 910, 20, R"("memcpy_details": "kind_src:pageable kind_dst:device size:4096 dest:0 async:1")") +
                             host_op("cuMemsetD32Async", 2, 940, 4) + gpu_op("Memset", 2, 950, 2, R"("memset_details": "kind:device size:512 async:1")") +
                             host_op("cuLaunchKernel", 3, 990, 4) + gpu_op("fusion", 3, 1000, 40, kernel_details()) +
                             host_op("cuMemcpyDtoHAsync_v2", 4, 1050, 4) +
                             gpu_op("MemcpyD2H", 4, 1060, 20, R"("memcpy_details": "kind_src:device kind_dst:pinned size:64 dest:0 async:1")");
  const Trace trace = import_text(jax(events), "h100-sxm");
  std::vector<Copy> copies;
  for (const Op& op : trace.programs.front().ops)
    if (const auto* copy = std::get_if<Copy>(&op.what)) copies.push_back(*copy);
  EXPECT_THAT(copies, ElementsAre(Copy{CopyDirection::host_to_device, 4096}, Copy{CopyDirection::device_to_device, 256}, Copy{CopyDirection::device_to_host, 64}));
}

TEST(XlaImport, ALaunchThatCannotBeIsRefused) {
  for (const char* grid : {"grid:0,1,1", "grid:264,1", "grid:x,1,1", "grid:"}) {
    const std::string text = jax(gpu_op("fusion", 1, 1000, 40, replaced(kernel_details(), "grid:264,2,1", grid)));
    EXPECT_THAT(refused_with(text, "t.json"), HasSubstr("has no `grid` of three integers")) << grid;
  }
}

TEST(XlaImport, DetailsAreFoundByTheirWholeKey) {
  using kineto::detail;
  EXPECT_EQ(detail("grid:1,2,3 block:4", "block"), "4");
  EXPECT_EQ(detail("my_grid:1\ngrid:2", "grid"), "2");
  EXPECT_EQ(detail("grid 1", "grid"), "");
  EXPECT_THAT(kineto::whole_numbers("1,22,-3"), ElementsAre(1, 22, -3));
  for (const char* none : {"", "1,", "1,,2", "a", "1 2", ",1"}) EXPECT_THAT(kineto::whole_numbers(none), IsEmpty()) << none;
  EXPECT_EQ(kineto::gpu_of_process("/device:GPU:3 (pid 4)"), 3);
  EXPECT_EQ(kineto::gpu_of_process("/host:CPU"), std::nullopt);
}

// --- refused ---

TEST(ForeignRecordings, AreToldByWhatTheyAre) {
  struct {
    const char* name;
    std::string text;
    const char *is, *remedy;
  } const kFiles[] = {
      {"r.nsys-rep", "NVTX\1binary", "a report of Nsight Systems in its own binary form", "nsys export --type sqlite r.nsys-rep"},
      {"r.qdrep", "QD\1", "a report of Nsight Systems", "nsys export"},
      {"r.ncu-rep", "NVR\1", "a report of Nsight Compute", "ncu --import r.ncu-rep --csv"},
      {"r.xplane.pb", "\n\1", "XLA's profile as protocol buffers", ".trace.json.gz"},
      {"kernel_trace.csv", "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\"\n\"KERNEL_DISPATCH\",1,1,\"work\"\n", "CSV of rocprofv3", "--output-format json"},
      {"results.csv", "Index,KernelName,gpu-id,queue-id\n0,\"work\",0,0\n", "CSV of rocprof", "--output-format json"},
      {"counters.csv", "==PROF== Connected to process 1\n\"ID\",\"Kernel Name\"\n", "what Nsight Compute printed", "--counters counters.csv"},
      {"sums.csv", "Time (%),Total Time (ns),Instances,Name\n", "a summary that nsys stats printed", "nsys export"},
      {"a.json", std::string("\xFF\xFE{\0\"\0", 6), "UTF-16 text, as PowerShell redirects", "iconv -f utf-16"},
      {"b.json", std::string("\xFE\xFF\0{", 4), "UTF-16 text", "iconv"},
      {"c.json", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS's pointer", "git lfs pull --include c.json"},
      {"d.json", "<!DOCTYPE html><html><title>Sign in</title></html>", "a page of the web", "raw address"},
      {"e.h5", "\x89HDF\r\n", "HDF5", "nsys export --type sqlite"},
      {"f.parquet", "PAR1\1", "Parquet", "nsys export --type sqlite"},
      {"g.arrow", "ARROW1\1", "Arrow", "nsys export --type sqlite"},
      {"h.jsonl", "{\"Type\":48,\"CudaEvent\":{\"startNs\":\"1\"}}\n{\"Type\":48}\n", "JSON lines, as nsys export", "nsys export --type sqlite"},
      {"i.pickle", "\x80\x04\x95 snapshot", "a pickle of Python", "export_chrome_trace"},
      {"j.csv", "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,Name\n1,2,3,1,1,1,32,1,1,16,k\n", "a list that nsys stats printed", "nsys export"},
      {"k.log", "==4096== NVPROF is profiling process 4096, command: ./a\n", "what nvprof printed", "nsys profile"},
      {"l.csv", "==4096== Profiling result:\n\"Start\",\"Duration\"\n", "what nvprof printed", "nsys profile"},
      {"m.json", std::string("trace.json").append(247, '\0').append("ustar  "), "an archive of tar", "tar -xf m.json"}};
  for (const auto& [name, text, is, remedy] : kFiles) {
    EXPECT_THAT(refused_with(text, name), HasSubstr(is)) << name;
    EXPECT_THAT(refused_with(text, name), HasSubstr(remedy)) << name;
  }
  EXPECT_EQ(refused_with("{\"corun_trace\": 1, \"name\": \"Agent_Id\"}", "t.json"), "") << "a trace";
}

TEST(ForeignRecordings, XlaWithoutAGpuSaysWhatItRanOn) {
  const auto of = [](const char* device) {
    return fmt::format(R"({{"displayTimeUnit": "ns", "metadata": {{}}, "traceEvents": [{{"ph": "M", "pid": 701, "name": "process_name", "args": {{"name": "/host:CPU"}}}},
        {{"ph": "M", "pid": 3, "name": "process_name", "args": {{"name": "{}"}}}}, {{"ph": "X", "pid": 3, "tid": 1, "ts": 1, "dur": 2, "name": "fusion"}}]}})",
                       device);
  };
  EXPECT_THAT(refused_with(of("/device:TPU:0"), "t.json"), HasSubstr("without a GPU: what it has is of '/device:TPU:0'"));
  EXPECT_THAT(refused_with(of("python3"), "t.json"), HasSubstr("without a GPU: what it has is of '/host:CPU'"));
}

/// Recordings by XLA in other forms of the same launch.
TEST(XlaImport, DetailsMayBePartedAndNumberedInOtherWays) {
  const std::string launch = gpu_op("fusion", 1, 1000, 40, kernel_details()) + host_op("cuLaunchKernel", 1, 990, 4);
  const Trace usual = import_text(jax(launch));
  const struct {
    const char *from, *to;
  } kForms[] = {{"grid:264,2,1 block:256,1,1", "grid:264,2,1\\nblock:256,1,1"},   // lines
                {"\"correlation_id\": \"1\"", "\"correlation_id\": 1"},          // a number
                {"occ_pct:100", "occ_pct:66.7"},                              // a fraction of what nobody reads
                {"regs:32 static_shared:1024", "static_shared:1024 regs:32"}};  // another order
  for (const auto& [from, to] : kForms) {
    const Trace other = import_text(jax(replaced(launch, from, to)));
    EXPECT_EQ(other.kernels, usual.kernels) << to;
    EXPECT_EQ(other.programs, usual.programs) << to;
  }
  const std::string second = replaced(replaced(jax(launch), "/device:GPU:0", "/device:GPU:3"), "\"pid\": 1,", "\"pid\": 9,");
  EXPECT_EQ(import_text(second).kernels, usual.kernels) << "another GPU of the host";
}

TEST(ForeignRecordings, PyTorchsLegacyProfilerRecordsNoKernels) {
  const char* text = R"([{"name":"add","ph":"X","ts":101.5,"dur":134.4,"tid":1,"pid":"CPU functions","args":{}},)"
                     R"({"name":"add","ph":"X","ts":102.9,"dur":134.1,"tid":0,"pid":"CUDA functions","args":{}}])";
  EXPECT_THAT(refused_with(text, "legacy.json"), HasSubstr("legacy profiler"));
}

TEST(ForeignRecordings, AnotherMakersKernelsAreNoHipGraphs) {
  const auto of = [](const char* runtime) {
    return fmt::format(R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "Intel(R) Data Center GPU Max 1550"}}], "traceEvents": [
        {{"ph": "X", "cat": "{}", "name": "urEnqueueKernelLaunch", "pid": 1, "tid": 1, "ts": 1000, "dur": 5, "args": {{"correlation": 1}}}},
        {{"ph": "X", "cat": "kernel", "name": "gemm_kernel", "pid": 0, "tid": 0, "ts": 1010, "dur": 100, "args": {{"device": 0, "sycl queue": 0, "correlation": 1}}}}]}})",
                       runtime);
  };
  EXPECT_THAT(refused_with(of("xpu_runtime"), "xpu.json"), HasSubstr("neither NVIDIA nor AMD (events of `xpu_runtime`)"));
  EXPECT_THAT(refused_with(of("mtia_runtime"), "mtia.json"), HasSubstr("mtia_runtime"));
  EXPECT_THAT(refused_with(of("cuda_runtime"), "hip.json"), HasSubstr("HIP graph"));
}

// --- the card ---

std::string on_card(const char* name, int sms, const char* more) {
  return fmt::format(R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "{}", "numSms": {}{}}}], "traceEvents": [{}]}})", name, sms, more,
                     replaced(record("k", 100, 5), R"("name")", R"("ph": "X", "cat": "kernel", "name")"));
}

TEST(CardWithoutDescription, IsOfferedTheNearest) {
  EXPECT_EQ(import_text(on_card("NVIDIA GeForce RTX 2080 Ti", 68, R"(, "computeMajor": 7, "computeMinor": 5)")).gpu, "turing-68sm");
  struct {
    const char* name;
    int sms;
    const char *more, *nearest;
  } const kCards[] = {
      {"NVIDIA H800", 132, R"(, "computeMajor": 9, "computeMinor": 0, "totalGlobalMem": 85029158912)", "h100-sxm"},
      {"NVIDIA A800-SXM4-80GB", 108, R"(, "computeMajor": 8, "computeMinor": 0, "totalGlobalMem": 85029158912)", "a100-80gb"},
      {"NVIDIA GeForce RTX 3080", 68, R"(, "computeMajor": 8, "computeMinor": 6, "totalGlobalMem": 10500000000)", "a10"},
      {"NVIDIA GeForce GTX 1080 Ti", 28, R"(, "computeMajor": 6, "computeMinor": 1)", "titan-xp"},
      {"AMD Instinct MI308X", 80, "", "mi50"},
      {"NVIDIA H20", 78, R"(, "computeMajor": 9, "computeMinor": 0)", "h100-pcie"},
      {"NVIDIA RTX A6000", 84, R"(, "computeMajor": 8, "computeMinor": 6)", "rtx-3090"},
      {"NVIDIA L20", 92, R"(, "computeMajor": 8, "computeMinor": 9)", "rtx-4090"},
      {"NVIDIA GB200", 152, R"(, "computeMajor": 10, "computeMinor": 0)", "b200"},
      {"NVIDIA GeForce RTX 5090", 170, R"(, "computeMajor": 12, "computeMinor": 0)", "b200"},
      {"Tesla P100-PCIE-16GB", 56, R"(, "computeMajor": 6, "computeMinor": 0)", "titan-xp"},
      {"AMD Instinct MI325X", 304, R"(, "computeMajor": 9, "computeMinor": 4)", "mi300x"},
      {"gfx1100", 48, R"(, "computeMajor": 11, "computeMinor": 0)", "mi50"}};
  for (const auto& [name, sms, more, nearest] : kCards) {
    const TestFile file(on_card(name, sms, more));
    RecordedTimes recorded;
    const Trace trace = import_kineto(file, ImportOptions{}, &recorded);
    EXPECT_EQ(trace.gpu, "") << name;
    EXPECT_EQ(recorded.nearest_gpu, nearest) << name;
    EXPECT_THAT(trace.notes, Contains(HasSubstr(fmt::format("the nearest described one is {}", nearest))));
  }
}

TEST(CardWithoutDescription, AnInstanceOfMigIsAPartOfItsCard) {
  for (const auto& [name, sms, card] : {std::tuple{"NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42, "a100"}, std::tuple{"NVIDIA H200 MIG 1g.18gb", 16, "h200"}}) {
    const Trace trace = import_text(on_card(name, sms, R"(, "computeMajor": 8, "computeMinor": 0)"));
    EXPECT_EQ(trace.gpu, card);
    EXPECT_EQ(trace.kernels[0].solo_time_sms, static_cast<std::uint32_t>(sms));
    EXPECT_THAT(trace.notes, Contains(HasSubstr("Recorded in an instance of MIG")));
  }
  EXPECT_EQ(import_text(on_card("NVIDIA H800 MIG 3g.40gb", 60, "")).gpu, "") << "of a card that nobody describes";
}

}  // namespace
}  // namespace corun
