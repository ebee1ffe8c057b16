// Is what Prometheus reads well-formed whatever programs are called, and does nothing end because a file cannot be written?
#include "hw/live/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/in_folder.h"

namespace corun::live {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

nlohmann::json program(const std::string& name, int client, int launches) {
  return {{"name", name}, {"client", client}, {"launches", launches}, {"graphs", 0}, {"unsteered", 0}, {"counted", 0}, {"crowded", 0}, {"requests", 0},
          {"memory", {{"gpu_bytes", 1}, {"host_bytes", 2}}}};
}
std::string state_of(const std::vector<nlohmann::json>& programs) {
  return nlohmann::json{{"policy", "flexgpu"}, {"decisions", 3}, {"decision_us", {{"p50", 0.2}, {"p99", 3.1}}},
                        {"memory", {{"cap_bytes", 64}, {"moved_bytes", 0}}}, {"programs", programs}}
      .dump();
}
/// Each line of a sample without its value.
std::vector<std::string> series(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("#")) all.push_back(line.substr(0, line.rfind(' ')));
  return all;
}

TEST(Metrics, ALabelsValueIsEscapedByPrometheusRules) {
  EXPECT_EQ(label_value("plain"), "plain");
  EXPECT_EQ(label_value("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
  EXPECT_THAT(metrics_of(state_of({program("the \"best\" \\ one", 0, 7)})),
              HasSubstr("corun_launches_total{program=\"the \\\"best\\\" \\\\ one\",client=\"0\"} 7\n"));
}

TEST(Metrics, TwoProgramsOfOneNameAreTwoSeriesOfEachMetric) {
  const std::vector<std::string> all = series(metrics_of(state_of({program("python", 0, 1), program("python", 1, 2)})));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(all.size(), 2u + 2 * 6 + 2 * 2 + 2);
}

TEST(Metrics, EachMetricIsExplainedOnceBeforeItsSamples) {
  const std::string text = metrics_of(state_of({program("a", 0, 1), program("b", 1, 2)}));
  std::set<std::string> known;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::string name = line.substr(line.starts_with("#") ? 7 : 0, line.find_first_of("{ ", line.starts_with("#") ? 7 : 0) - (line.starts_with("#") ? 7 : 0));
    if (line.starts_with("# HELP")) {
      EXPECT_TRUE(known.insert(name).second) << name;
    } else {
      EXPECT_TRUE(known.contains(name)) << line;
    }
  }
  EXPECT_EQ(known.size(), 11u);
}

std::set<std::string> metrics_in(const std::string& text) {
  static const std::regex name("corun_[a-z_]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), name), std::sregex_token_iterator()};
}

std::string whole_text(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Metrics, ThePageListsEachMetricWithItsTypeAndItsLabels) {
  std::map<std::string, std::pair<std::string, std::set<std::string>>> written, listed;
  const std::string text = metrics_of(state_of({program("a", 0, 1)}));
  static const std::regex label("([a-z]+)=\"");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = *metrics_in(line).begin();
    if (line.starts_with("# TYPE")) written[name].first = line.substr(line.rfind(' ') + 1);
    if (line.starts_with("#")) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), label); at != std::sregex_iterator(); ++at) written[name].second.insert((*at)[1]);
  }
  std::istringstream page(whole_text("docs/howto/live.md"));
  static const std::regex quoted("`([a-z]+)`");
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `corun_")) continue;
    const std::size_t names = line.find(" |", 2), type = names + 3, labels = line.find(" |", type);
    std::set<std::string> of;
    const std::string rest = line.substr(labels + 2);
    for (std::sregex_iterator at(rest.begin(), rest.end(), quoted); at != std::sregex_iterator(); ++at) of.insert((*at)[1]);
    for (const std::string& name : metrics_in(line.substr(0, names))) listed[name] = {line.substr(type, labels - type), of};
  }
  EXPECT_EQ(written, listed);
}

TEST(Metrics, AlertsAskForMetricsAndLabelsThatThereAre) {
  const std::string rules = whole_text("packaging/corun.rules.yaml"), text = metrics_of(state_of({program("a", 0, 1)}));
  const std::set<std::string> known = metrics_in(text);
  EXPECT_GE(metrics_in(rules).size(), 4u);
  for (const std::string& name : metrics_in(rules)) EXPECT_TRUE(known.contains(name)) << name;
  EXPECT_THAT(text, HasSubstr("corun_decision_seconds{quantile=\"0.99\"} "));
  EXPECT_THAT(rules, HasSubstr("corun_decision_seconds{quantile=\"0.99\"} >"));
  // Prometheus adds `instance`; two metrics are added up by labels that both have.
  EXPECT_EQ(rules.find("by (instance, program, client) (rate(corun_unsteered_total"), rules.find("by (instance, "));
  for (const char* name : {"corun_unsteered_total", "corun_launches_total", "corun_graphs_total"})
    EXPECT_THAT(text, HasSubstr(fmt::format("{}{{program=\"a\",client=\"0\"}} ", name)));
}

class MetricsFileTest : public InFolder {
 protected:
  static std::string read(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static constexpr Time at(int s) { return std::chrono::seconds(s); }
};

TEST_F(MetricsFileTest, AFileThatCannotBeWrittenIsToldOfOnceAMinuteAndWrittenAsSoonAsItCanBe) {
  const fs::path below = folder_ / "below";
  MetricsFile file(below / "corun.prom");
  EXPECT_THAT(file.write("1", at(0)), HasSubstr("No such file or directory"));
  EXPECT_NE(file.error(), 0);
  for (int s = 1; s < 60; ++s) EXPECT_THAT(file.write("1", at(s)), IsEmpty()) << s;
  EXPECT_THAT(file.write("1", at(60)), HasSubstr("cannot be written"));
  fs::create_directory(below);
  EXPECT_THAT(file.write("2", at(61)), HasSubstr("written again, after 61 times"));
  EXPECT_EQ(read(below / "corun.prom"), "2");
  EXPECT_EQ(file.error(), 0);
  EXPECT_THAT(file.write("3", at(62)), IsEmpty());
}

TEST_F(MetricsFileTest, WhereTheDiskIsFullTheFileIsAsItWasAndNoOtherIsLeft) {
  const fs::path path = write("corun.prom", "before");
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit bytes{10, 10};
    setrlimit(RLIMIT_FSIZE, &bytes);
    MetricsFile file(path);
    const bool told = !file.write(std::string(100, 'x'), at(0)).empty();
    _exit(told && file.error() == EFBIG ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(path), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(MetricsFileTest, ALinkThatSomebodyHasPutThereIsNotWrittenThrough) {
  const fs::path other = write("other", "theirs");
  fs::create_symlink(other, folder_ / "corun.prom.new");
  MetricsFile file(folder_ / "corun.prom");
  EXPECT_THAT(file.write("mine", at(0)), IsEmpty());
  EXPECT_EQ(read(other), "theirs");
  EXPECT_FALSE(fs::is_symlink(folder_ / "corun.prom"));
}

}  // namespace
}  // namespace corun::live
