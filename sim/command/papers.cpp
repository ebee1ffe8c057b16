#include "sim/command/papers.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/command/progress.h"
#include "sim/papers/report.h"
#include "traces/json/print.h"
#include "traces/model/error.h"

namespace corun::sim {

CLI::App* add_papers(CLI::App& app, PapersArguments& a) {
  CLI::App* command = app.add_subcommand("papers", "simulate published figures and compare");
  command->add_option("folder", a.folder,
                      "folder with figure files (`sim schema figure`; default: the built-in ones)");
  command->add_option("--only,--figure", a.only, "only these figures (names of their files) or systems")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--threads", a.threads, "runs simulated at once (default: one a core)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--markdown", a.markdown, "write the table to this file");
  command->add_flag("--json", a.json, "print the result as JSON");
  return command;
}

int papers(const PapersArguments& a) {
  const std::vector<Figure> figures = read_figures(a.folder, a.only);
  std::ofstream markdown;
  if (!a.markdown.empty()) {
    // In place only once it is complete: a run that fails must not cost the table that was there.
    markdown.open(a.markdown, std::ios::binary | std::ios::app);
    if (!markdown)
      throw InputError(a.markdown, "", "cannot be written", "choose another place with --markdown");
    markdown.close();
  }
  std::vector<ScoredRow> rows;
  {
    ProgressBar bar;
    ScoreOptions options;
    options.engine = {true, std::getenv("CORUN_AUDIT") != nullptr};
    options.threads = a.threads;
    options.progress = [&](const char* stage, double done) { bar.show(stage, done); };
    rows = score(figures, options);
  }
  if (!a.markdown.empty()) {
    markdown.open(a.markdown, std::ios::binary | std::ios::trunc);
    markdown << scoreboard_markdown(rows) << std::flush;
    if (!markdown) throw InputError(a.markdown, "", "could not be written to the end", "is the disk full?");
  }
  if (a.json)
    print_json(scoreboard_json(rows), std::cout);
  else
    std::cout << format_scoreboard(rows);
  return 0;
}

}  // namespace corun::sim
