// Is what the simulator predicts true?  105 pairs of 14 kernels on an H200, six ways each
// (experiments/reference), against the simulation from what is known of each kernel alone.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "sim/validate/replay.h"
#include "sim/validate/score.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr const char* kPairs = "experiments/reference/h200-corun.json.gz";
constexpr double kKnownGap = 0.15;

Comparison compared(const char* file, Inputs inputs, bool pairs) {
  const Gpu gpu = read_gpu("h200");
  Reference reference = read_reference(file, gpu, inputs);
  if (!pairs) reference.rows.clear();
  return compare(reference, replay(reference, gpu, {}));
}

/// The first column of the table: "a+b/mode/client".
std::set<std::string> known_gaps() {
  std::set<std::string> names;
  std::ifstream file("DEVIATIONS.md");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `")) names.insert(line.substr(3, line.find('`', 3) - 3));
  return names;
}

TEST(Accuracy, OfAnH200sPairsIsWithinItsBoundsAndEveryKnownGapIsStillOne) {
  const Comparison c = compared(kPairs, Inputs::curve, true);
  ASSERT_EQ(c.rows.size(), 630u);
  for (const auto& [mode, errors] : c.modes) {
    SCOPED_TRACE(to_string(mode));
    EXPECT_LE(errors.slowdown_mean, 0.035);
    EXPECT_LE(errors.slowdown_median, 0.02);
    if (mode == Mode::half) {  // DEVIATIONS.md: the bound of 10 % is not met here
      EXPECT_GT(errors.slowdown_p95, 0.10) << "met at last: apply the bound of the other modes";
      EXPECT_LE(errors.slowdown_p95, 0.11);
    } else {
      EXPECT_LE(errors.slowdown_p95, 0.10);
    }
    EXPECT_LE(errors.stp_mean, 0.03);
  }
  EXPECT_GE(c.kendall_tau, 0.85);
  EXPECT_GE(c.best_mode_picked, 0.90);

  std::set<std::string> gaps;
  std::ostringstream table;
  const auto look = [&](const ComparedRow& row, const char* client, double measured, double simulated) {
    if (std::abs(simulated / measured - 1) <= kKnownGap) return;
    const std::string name = row.pair + "/" + std::string(to_string(row.mode)) + "/" + client;
    gaps.insert(name);
    table << "| `" << name << "` | " << measured << " | " << simulated << " | " << simulated / measured
          << " |\n";
  };
  for (const ComparedRow& row : c.rows) {
    look(row, "a", row.measured.a, row.simulated.a);
    look(row, "b", row.measured.b, row.simulated.b);
  }
  EXPECT_EQ(gaps, known_gaps())
      << "rows off by more than 15 % now; list them in DEVIATIONS.md with the reason:\n"
      << table.str();
}

TEST(Accuracy, OfSoloTimesOnFewerSmsFromCountersAloneIsWithinSixPercent) {
  const Comparison c = compared(kPairs, Inputs::counters, false);
  double sum = 0;
  std::size_t n = 0;
  for (const auto& [sms, errors] : c.solo)
    if (sms >= 8 && sms <= 100) sum += errors.mean * static_cast<double>(errors.times), n += errors.times;
  ASSERT_EQ(n, 70u);
  EXPECT_LE(sum / static_cast<double>(n), 0.06);
}

}  // namespace
}  // namespace corun::sim
