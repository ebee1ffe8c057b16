// `--report FILE`: one page of what a run, an advice or a comparison wrote, made by the Python module
// `corun.report`.
#pragma once

#include <string>

namespace corun::sim {

/// Throws InputError if there is no Python with the module, before anything is simulated.
void check_report_can_be_made();
/// Of a run's folder or a comparison's JSON.  Throws InputError.
void make_report(const std::string& source, const std::string& file);
/// Of what `--json` prints.  The same.
void make_report_of(const std::string& document, const std::string& file);

}  // namespace corun::sim
