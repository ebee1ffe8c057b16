// The committed traces of the six networks against their sources, and the examples made of them; CORUN_UPDATE=1 writes the
// former instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/traces/import/kineto_text.h"
#include "traces/import/kineto.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

using namespace kineto_text;
using std::filesystem::path;
using testing::HasSubstr;

TEST(H200Traces, EqualAFreshImportOfTheirSources) {
  for (const Network& network : kNetworks) {
    const std::string fresh = written(import_kineto(source_of(network), "h200"));
    const path committed = path("traces/h200") / (std::string(network.name) + ".json");
    if (std::getenv("CORUN_UPDATE") != nullptr) std::ofstream(committed, std::ios::binary) << fresh;
    // Not EXPECT_EQ: a difference of two long texts takes gtest minutes to print.
    EXPECT_TRUE(text_of(committed) == fresh) << committed << " is not what its source imports to";
  }
}

TEST(H200Traces, RunAlone) {
  for (const Network& network : kNetworks) {
    const Trace trace = read_trace(path("traces/h200") / (std::string(network.name) + ".json"));
    EXPECT_EQ(trace.name, network.name);
    EXPECT_EQ(trace.gpu, "h200");
    EXPECT_THAT(trace.about, HasSubstr(std::to_string(network.kernels) + " launches"));
    ASSERT_EQ(trace.programs.size(), 1u);
    EXPECT_EQ(trace.programs[0].name, network.name);
    EXPECT_EQ(trace.programs[0].ops.size(), network.kernels);
    EXPECT_EQ(trace.clients.size(), 1u);
  }
}

TEST(H200Traces, EveryExampleReads) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("traces/h200/examples")) {
    SCOPED_TRACE(entry.path());
    const Trace trace = read_trace(entry.path());
    names.insert(entry.path().stem());
    EXPECT_EQ(trace.gpu, "h200");
    EXPECT_GE(trace.clients.size(), 2u);
    for (const Client& client : trace.clients) {
      EXPECT_EQ(client.issue, Issue::graph);
      EXPECT_EQ(client.priority, client.service_class == ServiceClass::real_time ? -5 : 0);
    }
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"realtime-resnet50-beside-resnet152", "three-best-effort",
                                            "six-clients", "disb-2024-a", "disb-2024-b", "disb-2024-c",
                                            "disb-2024-d", "disb-2024-e"}));
}

}  // namespace
}  // namespace corun
