// Recorded runs on a GPU (`sim record`, `sim schema runs`) beside what the simulator makes of them from the
// solo profiles taken on the same card.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace corun::sim {

struct RunNumbers {
  double stp = 0, antt = 0;
  std::vector<double> p99_ms, progress;  // by client; NaN: undefined
};

struct ComparedRun {
  std::string mix, policy;
  std::vector<std::string> clients;
  RunNumbers measured, simulated;
  std::vector<double> repeats;  // STP, as measured
  double stp_error() const { return simulated.stp / measured.stp - 1; }
};

struct RunErrors {                                // |simulated / measured - 1|, mean
  std::size_t runs = 0, antt_of = 0, p99_of = 0;  // of how many; ANTT and p99 where both are defined
  double stp = 0, antt = 0, p99 = 0, stp_worst = 0;
};

struct Ordered {  // pairs of policies whose measured STP differs by more than kDiffer
  std::size_t pairs = 0, right = 0;
  double share() const { return pairs == 0 ? 1 : static_cast<double>(right) / static_cast<double>(pairs); }
};
inline constexpr double kDiffer = 0.03;

struct RunsComparison {
  std::vector<std::string> sets;  // files, with what they say of themselves
  std::vector<ComparedRun> runs;
  RunErrors all;
  std::map<std::string, RunErrors> by_policy, by_mix;
  Ordered order;
  std::map<std::string, Ordered> order_by_mix;
  double repeat_spread = 0;  // mean over runs: largest over smallest measured STP, less 1
};

struct RunsOptions {
  std::vector<std::string> mixes, policies;                          // only these; empty: all
  unsigned threads = 0;                                              // 0: as many as the machine has
  std::function<void(const char* stage, double fraction)> progress;  // may be empty
  std::vector<std::string> only{};                                   // names of either kind
  std::string gpu{};                                                 // instead of the traces' own
  bool contention = true;                                            // false: blocks take as long as alone
};

/// Every runs.json in this folder and below, or this file.  Throws InputError if there is none.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& place);

/// The same whatever the number of threads.  Throws InputError for files that cannot be read.
RunsComparison compare_runs(const std::vector<std::filesystem::path>& files, const RunsOptions& options);

}  // namespace corun::sim
