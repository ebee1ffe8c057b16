// Simulates the runs of published figures and sets our numbers beside the papers'.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/papers/figure.h"
#include "sim/stages/compute_engine.h"

namespace corun::sim {

struct ScoredRow {
  const Figure* figure = nullptr;
  const FigureRow* row = nullptr;
  double simulated = 0;
  double ratio = 0;  // simulated over published; not finite where the published number is 0 and ours is not
  /// On the published side of the baseline, and in the published order with each row of its lists; where
  /// there is neither, or the published number is the baseline: within kClose.
  bool direction_ok = false;

  static constexpr double kClose = 0.2;
  bool close() const { return ratio >= 1 - kClose && ratio <= 1 + kClose; }
};

struct ScoreOptions {
  EngineOptions engine;
  unsigned threads = 0;  // 0: one a core
  std::function<void(const char* stage, double fraction)>
      progress;  // may be empty; from one thread at a time
};

/// The rows of all figures, in their order; runs that are the same in all figures are simulated once.  Throws
/// InputError for what a run or an expression cannot be.
std::vector<ScoredRow> score(const std::vector<Figure>& figures, const ScoreOptions& options);

/// An expression's value; `summary` gives a run's by name.  Throws InputError naming `file` and `place`.
using Summaries = std::function<const nlohmann::json&(const std::string& run)>;
double evaluate(const nlohmann::json& expression, const Summaries& summary, const std::string& file,
                const std::string& place);

/// Fills in ratio and direction of rows of one figure, in its order, whose simulated numbers are known.
void judge(const Figure& figure, std::vector<ScoredRow>& rows);

}  // namespace corun::sim
