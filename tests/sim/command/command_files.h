// Traces for the `sim` command, in a folder that goes with the test, and what it says of bad ones.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/sim_command.h"
#include "traces/json/temporary_folder.h"

namespace corun {

class Folder {
 public:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string path(const std::string& name) const { return (own_.path() / name).string(); }

 private:
  TemporaryFolder own_{"test"};
};

inline std::string read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline std::string trace(const std::string& kernel, const std::string& ops,
                  const std::string& client = R"("priority": 0)") {
  return fmt::format(
      R"({{"corun_trace": 1, "name": "t", "gpu": "h200", "kernels": [{{"name": "k", "grid": [8,1,1], "block": [128,1,1],
      "registers_per_thread": 32, "solo_time_ns": 1000{}}}], "programs": [{{"name": "p", "streams": ["a", "b"],
      "ops": [{}]}}], "clients": [{{"name": "c", "program": "p", {}, "arrivals": {{"type": "once"}}}}]}})",
      kernel, ops, client);
}
inline const std::string kLaunch = R"({"launch": "k"})";

inline void expect_refused(const std::string& arguments, const std::vector<std::string>& said) {
  const Ran ran = sim(arguments);
  EXPECT_EQ(ran.code, 2) << arguments << "\n" << ran.out;
  for (const std::string& word : said)
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << " not in: " << ran.out;
  EXPECT_NE(ran.out.find("remedy: "), std::string::npos) << ran.out;
}

}  // namespace corun
