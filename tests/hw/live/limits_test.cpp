// Does docs/trust.md have every limit and deadline, as the code has it?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "tests/support/sim_file.h"
#include "traces/json/temporary_folder.h"

namespace corun::live {
namespace {

struct Row {
  std::string value, text;
  bool operator==(const Row&) const = default;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.value << " | " << row.text; }
using Rows = std::map<std::string, Row>;

std::string text_of_file(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A duration or a number of the code, as the page writes it.
std::string shown(const std::string& value) {
  std::smatch part;
  if (std::regex_match(value, part, std::regex(R"(std::chrono::(milli)?seconds\((\d+)\))"))) return part[2].str() + (part[1].matched ? " ms" : " s");
  if (std::regex_match(value, part, std::regex(R"((\d+)u? << (1|2|3)0)"))) return fmt::format("{} {}", part[1].str(), std::array{"KiB", "MiB", "GiB"}[static_cast<std::size_t>(part[2].str()[0] - '1')]);
  return value;
}

Rows of_header(const std::string& file) {
  Rows all;
  const std::string text = text_of_file(file);
  const std::regex line(R"(^inline constexpr \S+ (k\w+) = ([^,;]+);\s+// (.+)$)", std::regex::multiline);
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) all[(*at)[1]] = {shown((*at)[2]), (*at)[3]};
  return all;
}

Rows of_page() {
  Rows all;
  const std::string text = text_of_file("docs/trust.md");
  const std::regex line(R"(^\| `(k\w+)` \| (.+?) \| (.+) \|$)", std::regex::multiline);
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at)
    EXPECT_TRUE(all.emplace((*at)[1], Row{(*at)[2], (*at)[3]}).second) << (*at)[1];
  return all;
}

TEST(Limits, ThePageHasEachWithItsValueAndWhatItIsAndNoOther) {
  Rows limits = of_header("hw/live/limits.h");
  limits.merge(of_header("policies/service/terms.h"));
  const Rows wire = of_header("hw/live/wire.h"), page = of_page();
  ASSERT_GE(limits.size(), 10u);
  for (const auto& [name, row] : limits) {
    ASSERT_TRUE(page.contains(name)) << name << " | " << row.value << " | " << row.text;
    EXPECT_EQ(page.at(name), row) << name;
  }
  for (const auto& [name, row] : page) {
    if (limits.contains(name)) continue;
    ASSERT_TRUE(wire.contains(name)) << name;
    EXPECT_EQ(wire.at(name), row) << name;
  }
  for (const char* name : {"kMessageRing", "kStreams", "kKernels", "kBlocks"}) EXPECT_TRUE(page.contains(name)) << name;
}

TEST(Limits, EachLineOfTheHeaderIsReadSoThatNoneIsLeftOut) {
  const std::string text = text_of_file("hw/live/limits.h");
  std::size_t lines = 0;
  for (std::size_t at = text.find("inline constexpr"); at != std::string::npos; at = text.find("inline constexpr", at + 1)) ++lines;
  EXPECT_EQ(of_header("hw/live/limits.h").size(), lines) << "a limit without a comment, or over two lines";
}

TEST(Limits, SystemdTakesTheUnitAsItIs) {
  const TemporaryFolder folder("unit");
  std::string unit = text_of_file("packaging/corun.service");
  const std::string command = "/usr/local/bin/sim";
  ASSERT_NE(unit.find(command), std::string::npos);
  unit.replace(unit.find(command), command.size(), sim_file());
  const std::filesystem::path file = folder.path() / "corun.service", said = folder.path() / "said";
  std::ofstream(file) << unit;
  if (std::system("command -v systemd-analyze >/dev/null") != 0) GTEST_SKIP() << "no systemd-analyze";
  EXPECT_EQ(std::system(fmt::format("systemd-analyze verify --recursive-errors=no {} >{} 2>&1", file.string(), said.string()).c_str()), 0);
  EXPECT_EQ(text_of_file(said.string()), "");
}

}  // namespace
}  // namespace corun::live
