// Can a trace include what a profiler recorded, as it is?
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/in_folder.h"
#include "tests/support/sim_command.h"

namespace corun {
namespace {

constexpr const char* kRecording = R"([{"name": "k", "ts": 1, "dur": 5, "grid": [8, 1, 1], "block": [128, 1, 1]}])";

class Include : public InFolder {
 protected:
  std::string including(const std::string& file, const std::string& program) const {
    return write("t.json", fmt::format(R"({{"corun_trace": 1, "gpu": "h200", "include": ["{}"], "run": {{"duration_ns": 1000000}},
      "clients": [{{"name": "c", "program": "{}"}}]}})", file, program))
        .string();
  }
  void nsight_systems(const std::string& name) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ / name).c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, R"(
      CREATE TABLE StringIds (id INTEGER, value TEXT);
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT,
        demangledName INT, shortName INT, registersPerThread INT, gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT,
        blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT);
      CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, smCount INT, cuDevice INT);
      INSERT INTO StringIds VALUES (1, 'k');
      INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132, 0);
      INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 6000, 0, 7, 1, 1, 1, 1, 32, 8, 1, 1, 128, 1, 1, 0, 0);)",
                           nullptr, nullptr, nullptr),
              SQLITE_OK);
    sqlite3_close(db);
  }
  void expect_runs(const std::string& trace) const {
    const Ran ran = sim("--json " + trace);
    ASSERT_EQ(ran.code, 0) << ran.out;
    EXPECT_GT(nlohmann::json::parse(ran.out)["clients"][0]["finished"], 50);
  }
};

TEST_F(Include, ARecordingOfKinetoIsImportedCompressedOrNot) {
  write("camera.json", kRecording);
  expect_runs(including("camera.json", "camera"));
  ASSERT_EQ(std::system(("gzip " + (folder_ / "camera.json").string()).c_str()), 0);
  expect_runs(including("camera.json.gz", "camera"));
}

TEST_F(Include, ARecordingOfNsightSystemsIsImported) {
  nsight_systems("camera.sqlite");
  expect_runs(including("camera.sqlite", "camera"));
}

TEST_F(Include, ATraceWithARecordingIsProfiledToo) {
  write("camera.json", kRecording);
  EXPECT_EQ(sim("profile " + including("camera.json", "camera")).code, 0);
}

TEST_F(Include, WhatIsWrongWithARecordingNamesItsFileAndPlace) {
  write("camera.json", R"([{"name": "k", "ts": 1, "dur": 5, "grid": [8, 1, 1], "block": [)");
  const Ran cut = sim(including("camera.json", "camera"));
  EXPECT_EQ(cut.code, 2);
  for (const char* word : {"camera.json", "line 1", "remedy: "}) EXPECT_NE(cut.out.find(word), std::string::npos) << cut.out;
  const Ran absent = sim(including("none.sqlite", "camera"));
  EXPECT_EQ(absent.code, 2);
  for (const char* word : {"t.json", "/include/0", "none.sqlite"}) EXPECT_NE(absent.out.find(word), std::string::npos) << absent.out;
  write("camera.json", kRecording);
  const Ran misspelt = sim(including("camera.json", "camra"));
  EXPECT_EQ(misspelt.code, 2);
  for (const char* word : {"/clients/0/program", "did you mean 'camera'"})
    EXPECT_NE(misspelt.out.find(word), std::string::npos) << misspelt.out;
}

}  // namespace
}  // namespace corun
