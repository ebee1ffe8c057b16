// Are results the same with shortcuts, without, and where files are written, which turns them off?
#include "tests/sim/command/command_files.h"

namespace corun {
namespace {

TEST(Command, ResultsDependNeitherOnShortcutsNorOnWhatIsWritten) {
  const Folder folder;
  for (const char* run : {"tests/data/one_kernel_two_classes.json", "--duration=4ms experiments/h200/policies/mixes/poisson.json"})
    for (const char* policy : {"wait", "reef", "reef-n"}) {
      const std::string asked = fmt::format("--json --policy={} {}", policy, run);
      const Ran quick = sim_unaudited(asked);
      EXPECT_EQ(quick.code, 0) << quick.out;
      EXPECT_EQ(quick.out, sim_unaudited("--no-shortcuts " + asked).out) << asked;
      EXPECT_EQ(quick.out, sim_unaudited(fmt::format("--out {} {}", folder.path("out"), asked)).out) << asked;
      EXPECT_EQ(quick.out, read(folder.path("out") + "/summary.json")) << asked;
      EXPECT_EQ(quick.out, sim(asked).out) << asked << ", audited";
    }
}

}  // namespace
}  // namespace corun
