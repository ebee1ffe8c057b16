// Does a client that is made of a file have the stalls that the file's host had?
#include <gtest/gtest.h>

#include <fstream>

#include "sim/input/compose.h"
#include "traces/json/temporary_folder.h"

namespace corun::sim {
namespace {

class StallsOfClients : public testing::Test {
 protected:
  StallsOfClients() {
    std::ofstream(file_) << R"({"corun_trace": 1, "name": "t", "gpu": "h200",
      "kernels": [{"name": "k", "grid": [8,1,1], "block": [128,1,1], "registers_per_thread": 32, "solo_time_ns": 1000}],
      "programs": [{"name": "prefill", "ops": [{"launch": "k"}]}, {"name": "decode", "ops": [{"launch": "k"}, {"launch": "k"}]}],
      "clients": [{"name": "main", "program": "prefill", "host_stalls": {"observed_ns": 1000, "stalls": [[10, 20]]}}]})";
    std::ofstream(arrivals_) << "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,64,2\n2023-11-16 18:15:47.6805900,64,2\n";
  }
  std::optional<HostStalls> of(const std::string& settings) const {
    return compose({"c=" + file_ + settings}, "").clients.front().host_stalls;
  }

  TemporaryFolder folder_{"stalls"};
  std::string file_ = (folder_.path() / "t.json").string(), arrivals_ = (folder_.path() / "a.csv").string();
  std::string serve_ = ",serve=prefill:64+decode:1x64,times=" + arrivals_;
  const HostStalls record_{from_ns(1000), {{from_ns(10), from_ns(20)}}};
};

TEST_F(StallsOfClients, AClientHasThoseOfTheFilesClient) { EXPECT_EQ(of(",rate=50"), record_); }
TEST_F(StallsOfClients, AServerOfTheFilesProgramsHasThemToo) { EXPECT_EQ(of(serve_), record_); }
TEST_F(StallsOfClients, ASteadyClientHasNone) {
  EXPECT_EQ(of(",rate=50,steady"), std::nullopt);
  EXPECT_EQ(of(serve_ + ",steady"), std::nullopt);
}

}  // namespace
}  // namespace corun::sim
