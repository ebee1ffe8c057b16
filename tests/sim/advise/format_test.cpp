// Does what is to be pasted say what the setting is, and is a setting refused that a system cannot express?
#include "sim/advise/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/advise/advised_traces.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

Setting plain(SharingMode mode, const Trace& trace) {
  for (const Setting& s : plain_settings(trace))
    if (s.mode == mode) return s;
  throw std::logic_error("no such setting");
}

Setting instances(const Trace& trace) { return mig_settings(trace, read_gpu("h200")).front(); }

Setting shared_instances(Trace& trace) {
  trace.clients.push_back(trace.clients[1]);
  trace.clients.back().name = "Third_Client";
  return shared_mig_settings(trace, read_gpu("h200")).front();
}

std::string in(const char* format, const Setting& setting, const Trace& trace = two_clients()) {
  return configuration(parse_format(format), setting, trace);
}

std::string refused(const char* format, const Setting& setting, const Trace& trace = two_clients()) {
  try {
    in(format, setting, trace);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Format, TimeSlicingIsWhatEachSystemCallsIt) {
  const Setting turns = plain(SharingMode::time_slicing, two_clients());
  EXPECT_THAT(in("k8s-device-plugin", turns), HasSubstr("sharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 2\n"));
  EXPECT_THAT(in("dra", turns), HasSubstr("strategy: TimeSlicing"));
  EXPECT_THAT(in("kai", turns), HasSubstr("gpu-fraction: \"0.50\""));
  EXPECT_THAT(in("hami", turns), HasSubstr("nvidia.com/gpumem-percentage: 50"));
  EXPECT_THAT(in("gpu-operator", turns), HasSubstr("      timeSlicing:\n"));
  EXPECT_THAT(in("slurm", turns), HasSubstr("Name=shard Count=2 File=/dev/nvidia0"));
  EXPECT_THAT(in("nvidia-smi", turns), HasSubstr("--set-timeslice=default"));
  EXPECT_THAT(refused("mps", turns), HasSubstr("without MPS"));
}

TEST(Format, PercentagesAndPrioritiesStandInTheEnvironmentOfTheirClients) {
  const Setting ranked = percentage_setting(two_clients(), {40, 100}, true);
  for (const char* format : {"dra", "kai"}) {
    EXPECT_THAT(in(format, ranked), HasSubstr("name: batch\n    image: \"<image of batch>\"\n    env:\n    - name: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE\n      value: \"40\"\n"
                                              "    - name: CUDA_MPS_CLIENT_PRIORITY\n      value: \"1\"\n"));
    EXPECT_THAT(in(format, ranked), HasSubstr("image: \"<image of camera>\"\n    ")) << "which has no limit";
    EXPECT_THAT(in(format, ranked), Not(HasSubstr("value: \"100\"")));
  }
  EXPECT_THAT(in("slurm", ranked), HasSubstr("--export=ALL,CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40,CUDA_MPS_CLIENT_PRIORITY=1 <script of batch>"));
  EXPECT_THAT(in("mps", ranked), HasSubstr("\nCUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40 CUDA_MPS_CLIENT_PRIORITY=1 '<command of batch>' &\n'<command of camera>' &\n"));
  EXPECT_THAT(in("mps", plain(SharingMode::priority, two_clients())), HasSubstr("\nCUDA_MPS_CLIENT_PRIORITY=1 '<command of batch>'"));
  EXPECT_THAT(in("mps", percentage_setting(two_clients(), {60, 60}, false)), HasSubstr("echo set_default_active_thread_percentage 60 | nvidia-cuda-mps-control\n"));
  EXPECT_THAT(in("dra", percentage_setting(two_clients(), {30, 60}, false)), HasSubstr("defaultActiveThreadPercentage: 60")) << "which the clients lower";
}

TEST(Format, ASystemThatCannotExpressTheSettingSaysWhy) {
  const Setting ranked = percentage_setting(two_clients(), {40, 100}, true);
  EXPECT_THAT(refused("k8s-device-plugin", percentage_setting(two_clients(), {40, 100}, false)), HasSubstr("each 50 % of the threads"));
  EXPECT_THAT(refused("gpu-operator", ranked), HasSubstr("no priorities"));
  EXPECT_THAT(refused("k8s-device-plugin", plain(SharingMode::mps, two_clients())), HasSubstr("each 50 %"));
  EXPECT_THAT(refused("hami", ranked), HasSubstr("limits time"));
  EXPECT_THAT(refused("nvidia-smi", ranked), HasSubstr("--format mps"));
  const Setting contexts = green_context_setting(two_clients(), read_gpu("h200"), {8, 8});
  for (const std::string& format : format_names()) EXPECT_THAT(refused(format.c_str(), contexts), HasSubstr("green contexts")) << format;
  EXPECT_EQ(in("k8s-device-plugin", percentage_setting(two_clients(), {50, 50}, false)).find("sharing:\n  mps:"), 12u);
  EXPECT_THROW(parse_format("kubernetes"), InputError);
}

TEST(Format, InstancesAreThoseOfTheSettingAndEachClientHasItsOwn) {
  const Trace two = two_clients();
  const Setting mig = instances(two);
  ASSERT_EQ(mig.profiles, (std::vector<std::string>{"3g.71gb", "4g.71gb"}));
  EXPECT_THAT(in("nvidia-smi", mig), HasSubstr("nvidia-smi mig -i 0 -cgi 3g.71gb,4g.71gb -C\n"));
  EXPECT_THAT(in("k8s-device-plugin", mig), HasSubstr("migStrategy: mixed\n# batch requests nvidia.com/mig-3g.71gb: 1\n# camera requests nvidia.com/mig-4g.71gb: 1\n"));
  EXPECT_THAT(in("dra", mig), HasSubstr("profile == '4g.71gb'\""));
  EXPECT_THAT(in("dra", mig), HasSubstr("request: instance-1"));
  EXPECT_THAT(in("gpu-operator", mig), HasSubstr("          \"3g.71gb\": 1\n          \"4g.71gb\": 1\n"));
  EXPECT_THAT(in("slurm", mig), HasSubstr("Gres=gpu:3g.71gb:1,gpu:4g.71gb:1\n"));
  for (const char* format : {"kai", "hami"}) EXPECT_THAT(in(format, mig), HasSubstr("nvidia.com/mig-4g.71gb: 1")) << format;
  Trace three = two;
  const Setting shared = shared_instances(three);
  EXPECT_THAT(in("dra", shared, three), HasSubstr("kind: MigDeviceConfig\n          sharing:\n            strategy: MPS\n"));
  EXPECT_THAT(in("mps", shared, three), HasSubstr("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps-"));
  for (const char* format : {"k8s-device-plugin", "gpu-operator", "kai", "hami", "slurm", "nvidia-smi"})
    EXPECT_NE(refused(format, shared, three), "") << format;
}

TEST(Format, NamesAreThoseThatKubernetesTakesAndMemoryIsInMebibytes) {
  Trace trace = two_clients();
  trace.clients[0].name = "LLM (8B) / chat_";
  trace.clients[1].name = "llm-8b--chat";
  trace.clients[0].memory_bytes = 1024 * 1024 * 1000 + 1;
  const std::string pods = in("kai", plain(SharingMode::time_slicing, trace), trace);
  EXPECT_THAT(pods, HasSubstr("  name: llm--8b----chat\n"));
  EXPECT_THAT(pods, HasSubstr("gpu-memory: \"1001\""));
  trace.clients[1].name = "llm  8b    chat";
  EXPECT_THAT(in("hami", plain(SharingMode::time_slicing, trace), trace), HasSubstr("name: llm--8b----chat-1\n")) << "two pods have two names";
  EXPECT_THAT(in("hami", plain(SharingMode::time_slicing, trace), trace), HasSubstr("nvidia.com/gpumem: 1001\n"));
}

}  // namespace
}  // namespace corun::sim
