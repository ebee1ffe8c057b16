#include "sim/command/report_page.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "traces/json/output_file.h"
#include "traces/json/temporary_folder.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

std::string interpreter() {
  const char* chosen = std::getenv("CORUN_PYTHON");
  return chosen != nullptr ? chosen : "python3";
}

/// Exit code, -1 if it cannot be started.
int python(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), interpreter());
  std::vector<char*> raw;
  for (std::string& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, raw[0], nullptr, nullptr, raw.data(), environ) != 0) return -1;
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// True if it has these modules; else says on stderr which are missing.
bool has_modules(const char* names) {
  return python({"-c",
                 "import importlib, sys\n"
                 "missing = []\n"
                 "for module in sys.argv[1].split():\n"
                 "    try:\n"
                 "        importlib.import_module(module)\n"
                 "    except ImportError as error:\n"
                 "        error = error.__cause__ or error\n"
                 "        missing.append(f'{error.name} is missing' if isinstance(error, ModuleNotFoundError) else f'{module} cannot be imported: {error}')\n"
                 "print(*missing, sep='\\n', end='\\n' if missing else '', file=sys.stderr)\n"
                 "sys.exit(bool(missing))",
                 names}) == 0;
}

}  // namespace

void check_report_can_be_made() {
  if (has_modules("plotly corun.report")) return;
  throw InputError("", "--report", fmt::format("the page is made by the Python module with Plotly, which {} does not have", interpreter()),
                   "pip install 'corun[report]', or name the Python that has it: CORUN_PYTHON=/path/to/python");
}

void make_report(const std::string& source, const std::string& file) {
  if (python({"-c", "import sys, corun.report; sys.exit(corun.report.main())", source, "-o", file}) != 0)
    throw InputError(file, "", "the page was not made", "see the message above");
}

void make_report_of(const std::string& document, const std::string& file) {
  const TemporaryFolder folder("report");
  const std::string source = (folder.path() / "document.json").string();
  OutputFile out(source);
  out.stream() << document;
  out.close();
  make_report(source, file);
}

int score_public(std::vector<std::string> arguments) {
  if (!has_modules("corun.public"))
    throw InputError("", "--public", fmt::format("published data are read by the Python module, which {} does not have", interpreter()),
                     "pip install . in the repository, or PYTHONPATH=build/python, or name the Python that has it: CORUN_PYTHON=/path/to/python");
  arguments.insert(arguments.begin(), {"-m", "corun.public"});
  arguments.insert(arguments.end(), {"--sim", std::filesystem::read_symlink("/proc/self/exe").string()});
  return python(std::move(arguments));
}

}  // namespace corun::sim
