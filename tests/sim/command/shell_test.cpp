// Do shells and man learn of every subcommand, option and name from the command itself?
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/support/replaced.h"
#include "tests/support/sim_command.h"
#include "traces/json/temporary_folder.h"

namespace corun {
namespace {

const std::vector<std::string> kSubcommands = {"compare", "advise",  "sweep",     "validate", "papers", "import",      "capture",
                                               "profile", "record",  "calibrate", "schema",   "gpus",   "gpus compare"};

bool have(const std::string& program) { return shell("command -v " + program).code == 0; }

std::set<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// Of the options that --help lists.
std::set<std::string> options_of(const std::string& subcommand) {
  const std::string help = sim(subcommand + " --help").out;
  std::set<std::string> options;
  std::istringstream in(help);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("  -") && !line.starts_with("  - "))
      options.merge(words(replaced(line.substr(2, line.find(' ', 2) - 2), ",", " ")));
  return options;
}

/// What bash offers after these words; readline would have split them at `=`.
std::set<std::string> completed(const std::string& typed) {
  const Ran ran = shell("exec bash -c '. <($CORUN_SIM completion bash); COMP_WORDS=(" + typed +
                        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sim; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  EXPECT_EQ(ran.code, 0) << ran.out;
  return words(ran.out);
}

TEST(Completion, BashOffersSubcommandsOptionsPoliciesAndGpus) {
  if (!have("bash")) GTEST_SKIP() << "no bash";
  using Offered = std::set<std::string>;
  EXPECT_EQ(completed("sim comp"), (Offered{"compare", "completion"}));
  EXPECT_EQ(completed("sim gpus \"\""), Offered{"compare"});
  EXPECT_EQ(completed("sim import \"\""), (Offered{"kineto", "nsys", "rocprof", "capture", "table"}));
  EXPECT_EQ(completed("sim --policy gree"), (Offered{"greedy", "green-contexts"}));
  EXPECT_EQ(completed("sim --policy = gree"), (Offered{"greedy", "green-contexts"}));
  EXPECT_TRUE(completed("sim --policy =").contains("fcfs"));
  EXPECT_EQ(completed("sim --policy=gree"), (Offered{"--policy=greedy", "--policy=green-contexts"}));
  EXPECT_EQ(completed("sim compare --policies fcfs,timesl"), Offered{"fcfs,timeslice"});
  EXPECT_EQ(completed("sim compare --policies = fcfs,timesl"), Offered{"fcfs,timeslice"});
  EXPECT_EQ(completed("sim compare --gpu h2"), Offered{"h200"});
  EXPECT_EQ(completed("sim gpus compare h100-p"), Offered{"h100-pcie"});
  EXPECT_EQ(completed("sim compare --issue \"\""), (Offered{"eager", "graph"}));
  EXPECT_EQ(completed("sim compare --profiles \"\""), Offered{}) << "files, which bash offers by itself";
  EXPECT_EQ(completed("sim compare traces/h"), Offered{});
}

TEST(Completion, BashOffersEveryOptionOfEverySubcommand) {
  if (!have("bash")) GTEST_SKIP() << "no bash";
  EXPECT_GT(options_of("").size(), 15u);
  for (const std::string& subcommand : kSubcommands) {
    std::set<std::string> offered = completed("sim " + subcommand + " -");
    EXPECT_GE(offered.size(), 2u) << subcommand;
    EXPECT_EQ(offered, options_of(subcommand)) << subcommand;
  }
}

TEST(Completion, EveryShellReadsItsScript) {
  for (const std::string name : {"bash", "zsh", "fish"}) {
    const Ran script = sim("completion " + name);
    EXPECT_EQ(script.code, 0) << script.out;
    EXPECT_NE(script.out.find("greedy"), std::string::npos) << name;
    if (!have(name)) continue;
    const TemporaryFolder folder("completion");
    const std::string file = (folder.path() / "script").string();
    const Ran read = shell("$CORUN_SIM completion " + name + " >" + file + "; " + name + " -n " + file);
    EXPECT_EQ(read.code, 0) << read.out;
    EXPECT_EQ(read.out, "") << name;
  }
  EXPECT_EQ(sim("completion tcsh").code, 2);
}

TEST(Completion, FishOffersWhatBashOffers) {
  if (!have("fish")) GTEST_SKIP() << "no fish";
  const auto offered = [](const std::string& typed) {
    return shell("exec fish --no-config -c '$CORUN_SIM completion fish | source; complete -C \"" + typed + "\" | cut -f 1'").out;
  };
  EXPECT_EQ(offered("sim compare --policies fcfs,timesl"), "fcfs,timeslice\n");
  EXPECT_EQ(offered("sim compare --gpu h20"), "h200\n");
  EXPECT_EQ(offered("sim compare --orac"), "--oracle\n");
}

TEST(Manual, HasEveryOptionOfEverySubcommandUnderItsName) {
  const std::string page = replaced(sim("man").out, R"(\-)", "-");
  std::size_t found = 0;
  const auto has = [&](const std::string& subcommand, std::size_t begin) {
    ASSERT_NE(begin, std::string::npos) << subcommand;
    const std::string section = page.substr(begin, page.find("\n.S", begin + 4) - begin);
    for (const std::string& option : options_of(subcommand)) {
      EXPECT_NE(section.find("\\fB" + option + "\\fR"), std::string::npos) << subcommand << ' ' << option;
      ++found;
    }
  };
  has("", page.find("\n.SH OPTIONS\n"));
  for (const std::string& subcommand : kSubcommands) has(subcommand, page.find("\n.SS sim " + subcommand + "\n"));
  EXPECT_GT(found, 100u);
}

TEST(Manual, IsRenderedWithoutAWarning) {
  EXPECT_EQ(sim("man").out.substr(0, 11), ".TH SIM 1 \"");
  if (have("groff")) {
    const Ran ran = shell("$CORUN_SIM man | groff -man -ww -T ascii -z");
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.out, "");
  }
  if (have("mandoc")) {
    // Without a date it is the same page every day.
    EXPECT_EQ(shell("$CORUN_SIM man | mandoc -T lint -W warning | grep -v 'missing date'").out, "");
  }
  if (!have("groff") && !have("mandoc")) GTEST_SKIP() << "neither groff nor mandoc";
}

}  // namespace
}  // namespace corun
