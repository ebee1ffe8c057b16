// What `sim papers` prints and writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/papers/scoreboard.h"

namespace corun::sim {

std::string format_scoreboard(const std::vector<ScoredRow>& rows);
/// A list of {system, figure, published, simulated, ratio, direction_ok, fitted, name, unit, why}; `figure`
/// names the row too.
nlohmann::ordered_json scoreboard_json(const std::vector<ScoredRow>& rows);
/// The page experiments/papers/README.md.
std::string scoreboard_markdown(const std::vector<ScoredRow>& rows);

}  // namespace corun::sim
