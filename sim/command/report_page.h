// `--report FILE`: one page of what a run wrote, made by the Python module `corun.report`.
#pragma once

#include <string>

namespace corun::sim {

/// Throws InputError if there is no Python with the module, before anything is simulated.
void check_report_can_be_made();
/// Throws InputError.
void make_report(const std::string& folder, const std::string& file);

}  // namespace corun::sim
