// Jobs of the Python module for the command: `--report FILE`, one page of what a run, an advice or a comparison wrote
// (`corun.report`), and `sim validate --public` (`corun.public`).
#pragma once

#include <string>
#include <vector>

namespace corun::sim {

/// Throws InputError if there is no Python with the module, before anything is simulated.
void check_report_can_be_made();
/// Of a run's folder or a comparison's JSON.  Throws InputError.
void make_report(const std::string& source, const std::string& file);
/// Of what `--json` prints.  The same.
void make_report_of(const std::string& document, const std::string& file);

/// `python3 -m corun.public` with these arguments and this command as the simulator.  Returns its exit code.  Throws InputError
/// if there is no Python with the module.
int score_public(std::vector<std::string> arguments);

}  // namespace corun::sim
