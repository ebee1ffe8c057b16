// What `sim validate FOLDER` prints and writes of recorded runs.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/validate/runs.h"

namespace corun::sim {

std::string format_runs(const RunsComparison& c);
nlohmann::ordered_json runs_json(const RunsComparison& c);
/// mix,policy,measured_stp,simulated_stp,ratio,...
void write_runs_csv(const RunsComparison& c, std::ostream& out);

}  // namespace corun::sim
