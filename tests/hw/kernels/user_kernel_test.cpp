#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "hw/backend/cuda_backend.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "tests/support/fake_driver.h"
#include "tests/support/nvrtc.h"
#include "tests/support/whole.h"
#include "traces/json/temporary_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json code() {
  return Json::parse(R"({"file": "mine.cu", "function": "spin",
                         "arguments": [{"buffer": "u32", "elements": 42240}, {"u32": 10000}]})");
}
Json document(const Json& code) {
  Json all = Json::parse(R"({"corun_trace": 1, "name": "mine", "gpu": "h200",
    "kernels": [{"name": "mine", "grid": [42240, 1, 1], "block": [256, 1, 1], "registers_per_thread": 16,
                 "solo_time_ns": 400000}],
    "programs": [{"name": "p", "streams": ["main"], "ops": [{"launch": "mine"}, {"launch": "mine"}]}],
    "clients": [{"name": "c", "program": "p", "arrivals": {"type": "once"}}]})");
  all["kernels"][0]["code"] = code;
  return all;
}

/// Of this process: ctest runs others of these tests meanwhile.
std::string folder_of_all() {
  static const TemporaryFolder own("user_kernel");
  return own.path().string() + "/";
}
/// A trace of this code beside a file with spin.cu's kernel.
Trace trace_of(const Json& code) {
  const std::string folder = folder_of_all();
  std::ofstream(folder + "mine.cu") << "extern \"C\" __global__ void spin(unsigned* out, unsigned ns) {\n"
                                       "  out[blockIdx.x] = ns;\n}\n";
  std::ofstream(folder + "mine.json") << document(code).dump();
  return read_trace(folder + "mine.json");
}
std::string refusal_of_code(const Json& code) {
  try {
    const Trace trace = trace_of(code);
    FakeDriver driver;
    FakeCompiler compiler;
    Workbench work(driver, compiler);
    work.device_kernel(trace.kernels[0]);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(UserKernel, ATraceMayNameASourceFileBesideIt) {
  const Trace trace = trace_of(code());
  const std::unique_ptr<Policy> policy = make_policy("wait");
  FakeDriver driver;
  FakeCompiler compiler;
  Workbench work(driver, compiler);
  Timeline timeline;
  CudaBackend backend(trace, read_gpu("h200"), policy->requirements(), timeline, work, {});
  Session session(trace, *policy, backend, timeline, {});
  backend.start();
  EXPECT_EQ(session.run().stuck, "");
  backend.close();
  EXPECT_EQ(backend.blocks_run(), 2u * 42240);
  EXPECT_THAT(backend.verify(), testing::IsEmpty());
  EXPECT_EQ(backend.kernels_verified(), 1u);
}

TEST(UserKernel, WhatATraceSaysOfItIsWrittenAsItWasRead) {
  Json all = code();
  all["arguments"] = Json::parse(R"([{"buffer": "f32", "elements": 5, "fill": {"low": -1.0, "high": 2.5}},
    {"buffer": "u32", "elements": 6, "fill": {"below": 7}}, {"buffer": "f16", "elements": 8},
    {"buffer": "f64", "elements": 9, "fill": {}}, {"u32": 4000000000}, {"i32": -3}, {"f32": 0.5}, {"f64": 0.25}])");
  const Trace once = trace_of(all);
  std::ostringstream text;
  write_trace(once, text);
  const std::string again_file = folder_of_all() + "again.json";
  std::ofstream(again_file) << text.str();
  const Trace again = read_trace(again_file);
  ASSERT_TRUE(again.kernels[0].code);
  EXPECT_EQ(again.kernels[0].code->arguments, once.kernels[0].code->arguments);
  EXPECT_EQ(again.kernels[0].code->function, "spin");
  const auto& first = std::get<DeviceCode::Buffer>(again.kernels[0].code->arguments[0]);
  EXPECT_EQ(first.low, -1);
  EXPECT_EQ(first.high, 2.5);
  EXPECT_EQ(std::get<std::int32_t>(again.kernels[0].code->arguments[5]), -3);
}

TEST(UserKernel, BadCodeIsNamedWithItsPlace) {
  Json c = code();
  c["file"] = "not_there.cu";
  EXPECT_THAT(refusal_of_code(c), HasSubstr("not_there.cu cannot be read"));
  c = code(), c["function"] = "other";
  EXPECT_THAT(refusal_of_code(c), HasSubstr("there is no kernel other in it"));
  c = code(), c["arguments"].erase(1);
  EXPECT_THAT(refusal_of_code(c), testing::AllOf(HasSubstr("/kernels/0/code/arguments"),
                                                 HasSubstr("spin takes 2 arguments, here are 1")));
  c = code(), c["library"] = "spin";
  EXPECT_THAT(refusal_of_code(c), HasSubstr("both a file and the library's"));
  c = code(), c.erase("file"), c["library"] = "spine";
  EXPECT_THAT(refusal_of_code(c), HasSubstr("the library has no spine"));
  c = code(), c["arguments"][1] = Json{{"u32", 1}, {"i32", 2}};
  EXPECT_THAT(refusal_of_code(c), HasSubstr("an argument is one thing"));
  c = code(), c["arguments"][0].erase("elements");
  EXPECT_THAT(refusal_of_code(c), HasSubstr("a buffer of unknown size"));
  c = code(), c["arguments"][0]["fill"] = Json{{"low", 1}};
  EXPECT_THAT(refusal_of_code(c), HasSubstr("integers are not filled like that"));
  c = code(), c["arguments"][1] = Json{{"u32", -1}};
  EXPECT_THAT(refusal_of_code(c), HasSubstr("/kernels/0/code/arguments/1"));
  EXPECT_EQ(refusal_of_code(code()), "");
  c = code(), c.erase("file"), c["library"] = "spin";
  EXPECT_EQ(refusal_of_code(c), "");
}

/// What is set aside is named before it is measured, and the rest has a mix of its own.
TEST(UserKernel, OfTheExperimentsKernelsTwoAreSetAsideAndAMixHoldsNeither) {
  const std::filesystem::path folder = "experiments/h200/user_kernels";
  std::set<std::string> all, used, set_aside;
  for (const Kernel& k : read_trace((folder / "kernels-source.json").string()).kernels) all.insert(k.name);
  std::ifstream names(folder / "set-aside.txt");
  for (std::string name; names >> name;) set_aside.insert(name);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(set_aside.size(), 2u);
  EXPECT_TRUE(std::ranges::includes(all, set_aside));
  std::size_t open = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "mixes")) {
    const Trace trace = read_trace(entry.path().string());
    std::set<std::string> here;
    for (const Program& program : trace.programs)
      for (const Op& op : program.ops)
        here.insert(trace.kernels[std::get<corun::Launch>(op.what).kernel.value].name);
    open += std::ranges::none_of(here, [&](const std::string& name) { return set_aside.contains(name); });
    used.insert(here.begin(), here.end());
  }
  EXPECT_EQ(used, all);
  EXPECT_GE(open, 1u);
}

TEST(UserKernel, TheExperimentsKernelsCompileInEveryWay) {
  const auto [compiler, why_not] = nvrtc_if_there();
  if (!compiler) GTEST_SKIP() << why_not;
  const std::filesystem::path folder = "experiments/h200/user_kernels";
  std::vector<Kernel> kernels = read_trace((folder / "kernels-source.json").string()).kernels;
  for (const Kernel& kernel : read_trace((folder / "second/kernels-source.json").string()).kernels)
    if (std::ranges::find(kernels, kernel.name, &Kernel::name) == kernels.end()) kernels.push_back(kernel);
  EXPECT_EQ(kernels.size(), 10u);
  FakeDriver driver;
  Workbench work(driver, *compiler);
  for (const Kernel& kernel : kernels) {
    SCOPED_TRACE(kernel.name);
    const LibraryKernel& k = work.device_kernel(kernel);
    for (const Taking& taking : part<Taking>({Taking{1, true, false, true}, Taking{}, Taking{1, true}, Taking{4, true},
                                              Taking{1, false, true}, Taking{1, false, false, true}}, 4))
      EXPECT_GT(work.persistent(k, taking).workers_per_sm, 0u);
  }
}

TEST(UserKernel, ACompilersComplaintIsShown) {
  const auto [compiler, why_not] = nvrtc_if_there();
  if (!compiler) GTEST_SKIP() << why_not;
  try {
    compiler->compile("__global__ void k(int* a) {\n  a[0] = nothing;\n}", "mine.cu", {});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("mine.cu(2)"), HasSubstr("\"nothing\" is undefined")));
  }
}

}  // namespace
}  // namespace corun::hw
