// `sim record`: runs traces under policies on the GPU of this machine and keeps what `sim validate` and
// replays need: a folder with recordings, results and an index.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace corun::sim {

struct RecordArguments {
  std::vector<std::string> traces, policies;
  std::string profiles, directory, store;
  unsigned repeats = 3;
};

CLI::App* add_record(CLI::App& app, RecordArguments& arguments);
/// Returns the exit code.  Throws InputError.
int record(const RecordArguments& arguments);

}  // namespace corun::sim
