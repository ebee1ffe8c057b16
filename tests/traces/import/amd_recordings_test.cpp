// Do AMD's recordings by PyTorch's profiler mean what ROCm's tools meant?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/in_folder.h"
#include "traces/import/kineto.h"
#include "traces/model/error.h"

namespace corun {
namespace {

std::string call(const char* name, double ts, int correlation, const std::string& more = {}, double dur = 5) {
  return fmt::format(R"(,{{"ph":"X","cat":"cuda_runtime","name":"{}","ts":{},"dur":{},"tid":1,"args":{{"correlation":{}{}}}}})",
                     name, ts, dur, correlation, more);
}
std::string kernel(const char* name, double ts, int correlation, const std::string& shape = {}, int device = 2) {
  return fmt::format(
      R"(,{{"ph":"X","cat":"kernel","name":"{}","ts":{},"dur":20,"args":{{"device":{},"stream":0,"correlation":{}{}}}}})", name,
      ts, device, correlation, shape);
}
const std::string kGrid = R"(,"grid":[65536,1,1],"block":[256,1,1])";

class AmdRecording : public InFolder {
 protected:
  Trace import(const std::string& events, const ImportOptions& options = {}) const {
    const auto file = folder_ / "trace.json";
    std::ofstream(file) << R"({"deviceProperties":[{"id":0,"name":"AMD Instinct MI300X","numSms":304}],"traceEvents":[{"ph":"M"})"
                        << events << "]}";
    return import_kineto(file, options);
  }
  static bool says(const Trace& trace, const std::string& text) {
    for (const std::string& note : trace.notes)
      if (note.find(text) != std::string::npos) return true;
    return false;
  }
};

TEST_F(AmdRecording, LaunchCallsOfHipAreCalls) {
  for (const char* name : {"hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipExtLaunchKernel"}) {
    const Trace trace = import(call(name, 0, 1) + kernel("k", 10, 1, kGrid));
    EXPECT_FALSE(says(trace, "No launch calls")) << name;
  }
  EXPECT_TRUE(says(import(call("hipGetDevice", 0, 1) + kernel("k", 10, 1, kGrid)), "No launch calls"));
}

TEST_F(AmdRecording, AGridInWorkItemsIsDividedByTheBlock) {
  const Trace items = import(call("hipExtModuleLaunchKernel", 0, 1) + kernel("k", 10, 1, kGrid));
  EXPECT_EQ(items.kernels[0].grid.x, 256u);
  EXPECT_TRUE(says(items, "work-items"));
  const Trace blocks = import(call("hipLaunchKernel", 0, 1) + kernel("k", 10, 1, kGrid));
  EXPECT_EQ(blocks.kernels[0].grid.x, 65536u);
  EXPECT_FALSE(says(blocks, "work-items"));
  const Trace rest = import(call("hipExtModuleLaunchKernel", 0, 1) +
                            kernel("k", 10, 1, R"(,"grid":[257,100000,1],"block":[256,4,1])"));
  EXPECT_EQ(rest.kernels[0].grid.x, 2u) << "rounded up";
  EXPECT_EQ(rest.kernels[0].grid.y, 25000u) << "more than 65535 work-items are few blocks";
}

TEST_F(AmdRecording, AShapeIsTakenFromTheCallElseFromKernelsOfTheName) {
  const Trace of_call = import(call("hipLaunchKernel", 0, 1, R"(,"grid":[77,1,1],"block":[128,1,1],"shared memory":512)") +
                               kernel("k", 10, 1));
  EXPECT_EQ(of_call.kernels[0].grid.x, 77u);
  EXPECT_EQ(of_call.kernels[0].dynamic_shared_memory_bytes, 512u);
  EXPECT_TRUE(says(of_call, "taken from the launch call"));
  const Trace of_name = import(call("hipExtModuleLaunchKernel", 0, 1) + kernel("k", 10, 1, kGrid) + kernel("k", 40, 9));
  ASSERT_EQ(of_name.kernels.size(), 1u);
  EXPECT_EQ(of_name.kernels[0].grid.x, 256u) << "in blocks";
  EXPECT_TRUE(says(of_name, "as most kernels of the same name"));
}

TEST_F(AmdRecording, KernelsOfAGraphWithoutAnyShapeAreRefusedOrAssumedOnDemand) {
  const std::string events = call("hipGraphLaunch", 0, 1) + kernel("k", 10, 1) + kernel("l", 40, 1);
  try {
    import(events);
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(error.problem().find("HIP graph"), std::string::npos) << error.what();
    EXPECT_NE(error.remedy().find("--assume-shapes"), std::string::npos) << error.what();
  }
  ImportOptions options;
  options.assume_shapes = true, options.gpu = "h200";
  const Trace trace = import(events, options);
  EXPECT_EQ(trace.kernels[1].grid.x, 132u) << "a block an SM";
  EXPECT_TRUE(says(trace, "are assumed, as asked"));
}

TEST_F(AmdRecording, ALoneDeviceOfAnotherNumberIsTheOneOfTheList) {
  const Trace trace = import(call("hipLaunchKernel", 0, 1) + kernel("k", 10, 1, kGrid, 5));
  EXPECT_TRUE(says(trace, "which is not in its list")) << trace.notes.front();
}

TEST_F(AmdRecording, MarksAmongTheOperatorsAreSteps) {
  const std::string step =
      R"(,{"ph":"X","cat":"Operator","name":"ProfilerStep#3","ts":-1,"dur":100,"tid":1,"args":{}})";
  EXPECT_TRUE(says(import(step + call("hipLaunchKernel", 0, 1) + kernel("k", 10, 1, kGrid)), "The request is ProfilerStep#3"));
}

TEST_F(AmdRecording, ALongCallIsTimeOfTheHostAndIsSaid) {
  const auto gap = [&](double dur) {
    const Trace trace = import(call("hipLaunchKernel", 0, 1, "", dur) + kernel("k", 10, 1, kGrid) +
                               call("hipLaunchKernel", 1000, 2) + kernel("k", 1010, 2, kGrid));
    EXPECT_EQ(says(trace, "took over 0.1 ms"), dur >= 100) << dur;
    return to_ns(trace.programs[0].ops[1].host_gap);
  };
  EXPECT_GT(gap(99), 990e3) << "the call but for an ordinary one";
  EXPECT_NEAR(gap(100), gap(99), 1);
}

TEST_F(AmdRecording, WhyThereIsNothingToImportIsTold) {
  const auto reason = [&](const std::string& events) {
    try {
      import(events);
    } catch (const InputError& error) {
      return error.problem();
    }
    return std::string("accepted");
  };
  EXPECT_NE(reason(call("hipLaunchKernel", 0, 1)).find("launch calls, but no GPU kernels"), std::string::npos);
  EXPECT_NE(reason(R"(,{"ph":"X","cat":"cpu_op","name":"add","ts":0,"dur":1})").find("no calls that launch"), std::string::npos);
}

}  // namespace
}  // namespace corun
