// A policy must run on a simulated GPU and on a real one: it may see nothing but policies/api, what stands
// beside it in policies/ (under the same rule) and the standard library.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace corun {
namespace {

/// What a C++20 program may include of the standard library, as far as the code here does or may.
bool is_standard(const std::string& header) {
  return header.find('/') == std::string::npos && header.find('.') == std::string::npos;
}

std::set<std::string> foreign_includes(std::istream& text) {
  static const std::regex include(R"(^\s*#\s*(include|import)\s*([<"])([^>"]*)[>"])");
  std::set<std::string> foreign;
  for (std::string line; std::getline(text, line);) {
    std::smatch m;
    if (!std::regex_search(line, m, include)) {
      if (line.find("include") != line.npos && line.find_first_not_of(" \t") == line.find('#') &&
          line.find('#') != line.npos)
        foreign.insert(line);  // a macro, or a form that this test cannot read
      continue;
    }
    const std::string header = m[3];
    const bool allowed = m[2] == "<" ? is_standard(header)
                                     : header.starts_with("policies/api/") ||
                                           std::filesystem::path(header).parent_path() == "policies";
    if (!allowed) foreign.insert(header);
  }
  return foreign;
}

TEST(PolicyIncludes, NothingButTheInterfaceAndTheStandardLibrary) {
  std::size_t scanned = 0;
  for (const auto& entry : std::filesystem::directory_iterator("policies")) {
    const std::string file = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || (extension != ".cpp" && extension != ".h") ||
        file.ends_with("_bench.cpp") || file.ends_with("_test.cpp"))
      continue;
    ++scanned;
    std::ifstream text(entry.path());
    for (const std::string& header : foreign_includes(text))
      ADD_FAILURE() << entry.path() << " includes " << header;
  }
  EXPECT_GE(scanned, 6u);
}

TEST(PolicyIncludes, WhatIsForeignIsFound) {
  std::istringstream text(R"(#include "policies/api/registry.h"
#include <algorithm>
  #  include <thread>
#include "sim/backend/run.h"
#include "traces/model/gpu.h"
#include <fmt/format.h>
#include <unistd.h>
#include "policies/session/session.h"
#include "policies/kernel_padding.h"
#include HEADER
// #include "sim/not.h"
)");
  EXPECT_EQ(foreign_includes(text),
            (std::set<std::string>{"sim/backend/run.h", "traces/model/gpu.h", "fmt/format.h", "unistd.h",
                                   "policies/session/session.h", "#include HEADER"}));
}

}  // namespace
}  // namespace corun
