#include "sim/command/sweep.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "hw/run/signal_guard.h"
#include "policies/api/registry.h"
#include "sim/command/compare.h"
#include "sim/command/progress.h"
#include "sim/input/compose.h"
#include "sim/input/load.h"
#include "sim/sweep/sweep.h"
#include "traces/json/output_file.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr const char* kComposed = "clients of the command line";

struct SweepEnded {};  // by Ctrl-C

/// Lines of an earlier sweep, by their hash.  A last line that was cut short is left out: its point runs again.
class KnownLines {
 public:
  explicit KnownLines(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::string line;
    for (std::uint64_t number = 1; std::getline(in, line); ++number) {
      if (line.empty()) continue;
      const auto document = nlohmann::json::parse(line, nullptr, false);
      if (document.is_object() && document.contains("hash") && document["hash"].is_string() &&
          (document.contains("result") || document.contains("error"))) {
        const auto hash = document["hash"].get<std::string>();
        if (by_hash_.emplace(hash, line).second) order_.push_back(hash);
      } else if (!in.eof()) {
        throw InputError(file, fmt::format("line {}", number), "is no line of a sweep",
                         "give another file with --out, or remove the line");
      }
    }
  }
  std::optional<std::string> find(const std::string& hash) const {
    const auto known = by_hash_.find(hash);
    return known == by_hash_.end() ? std::nullopt : std::optional(known->second);
  }
  const std::vector<std::string>& order() const { return order_; }
  const std::string& line(const std::string& hash) const { return by_hash_.at(hash); }

 private:
  std::map<std::string, std::string> by_hash_;
  std::vector<std::string> order_;
};

std::string hash_in(const std::string& line) { return nlohmann::json::parse(line)["hash"].get<std::string>(); }

/// In the order of the grid, then what the file had from other grids.
void write_in_order(const std::string& file, const std::vector<std::string>& lines, const KnownLines& known) {
  OutputFile out(file, Compress::never);  // the next sweep appends to it
  std::set<std::string> written;
  for (const std::string& line : lines) {
    out.stream() << line << '\n';
    written.insert(hash_in(line));
  }
  for (const std::string& hash : known.order())
    if (!written.contains(hash)) out.stream() << known.line(hash) << '\n';
  out.close();
}

/// What is done, as it gets done: to the file at once, to standard output in the order of the grid.
class Lines {
 public:
  Lines(std::size_t count, const std::string& file) : file_(file), lines_(count) {
    if (file.empty()) return;
    // A line that was cut short must not be the beginning of the next one.
    bool cut = false;
    {
      std::ifstream in(file, std::ios::binary | std::ios::ate);
      if (in && in.tellg() > 0) in.seekg(-1, std::ios::end), cut = in.get() != '\n';
    }
    out_.open(file, std::ios::binary | std::ios::app);
    if (cut) out_ << '\n';
    if (!out_) throw InputError(file, "", "cannot be written", "choose another place with --out");
  }
  void add(std::size_t index, const std::string& line, bool is_new) {
    lines_[index] = line;
    if (is_new) ++new_;
    ++done_;
    if (!file_.empty()) {
      if (is_new) out_ << line << '\n' << std::flush;
      return;
    }
    for (; shown_ < lines_.size() && !lines_[shown_].empty(); ++shown_) std::cout << lines_[shown_] << '\n' << std::flush;
  }
  std::size_t done() const { return done_; }
  std::size_t fresh() const { return new_; }
  std::size_t failed() const {
    std::size_t n = 0;
    for (const std::string& line : lines_) n += line.empty() || !nlohmann::json::parse(line).contains("error") ? 0 : 1;
    return n;
  }
  const std::vector<std::string>& all() const { return lines_; }

 private:
  std::string file_;
  std::ofstream out_;
  std::vector<std::string> lines_;
  std::size_t done_ = 0, new_ = 0, shown_ = 0;
};

Grid grid_of(const SweepArguments& a) {
  if (!a.grid.empty()) {
    if (!a.traces.empty() || !a.clients.empty() || !a.policies.empty() || !a.changes.empty() || !a.seeds.empty() ||
        !a.gpus.empty() || !a.duration.empty())
      throw InputError("", "", "a grid both in a file and by options", "write it in the file, or give options only");
    return read_grid(a.grid);
  }
  Grid grid;
  grid.traces = a.traces;
  if (!a.clients.empty()) grid.traces.push_back(kComposed);
  grid.gpus = a.gpus;
  CompareArguments named;
  named.policies = a.policies;
  grid.policies = specs_of(named);
  for (const std::string& change : a.changes) grid.changes.push_back(parse_change(change));
  if (!a.seeds.empty()) grid.seeds = parse_seeds(a.seeds);
  grid.duration = a.duration;
  return grid;
}

}  // namespace

CLI::App* add_sweep(CLI::App& app, SweepArguments& a) {
  CLI::App* command = app.add_subcommand("sweep", "a grid of runs, a JSON line each; interrupted, it goes on");
  command->add_option("grid", a.grid, "the grid as a file (`sim schema sweep`), in the place of the options");
  command->add_option("--trace", a.traces, "trace or recording; once for each")->allow_extra_args(false);
  command->add_option("--client", a.clients, "one more trace, of clients, as in `sim --client`")->allow_extra_args(false);
  command->add_option("--policies", a.policies, "policies with their parameters; all: every one")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--only", a.only, "of the policies only these, by name")->delimiter(',')->allow_extra_args(false);
  command->add_option("--set", a.changes, "values of a client's setting, as cam.rate=50,100,150; once for each setting")
      ->allow_extra_args(false);
  command->add_option("--gpus", a.gpus, "GPUs, each as with --gpu (default: each trace's)")->delimiter(',')->allow_extra_args(false);
  command->add_option("--seeds", a.seeds, "seeds of the arrivals, as 1..5 (default: each trace's)");
  command->add_option("--duration", a.duration, "length of each run, as 200ms (default: each trace's)");
  command->add_option("-o,--out", a.output, "file of lines; what is there already is not run again");
  command->add_option("--jobs", a.jobs, "runs at a time (default: one a core)");
  return command;
}

int sweep(const SweepArguments& a) {
  Grid grid = grid_of(a);
  grid.policies = only_these(grid.policies, a.only);
  for (const std::string& policy : grid.policies) make_policy(policy);
  const std::vector<Point> points = points_of(grid);
  const KnownLines known(a.output);
  Lines lines(points.size(), a.output);
  const auto read = [&](const std::string& file) {
    if (file != kComposed || a.clients.empty()) return read_input(file, "");
    return compose(a.clients, a.gpus.size() == 1 ? a.gpus.front() : "");  // of several each point puts it on its own
  };
  const auto began = std::chrono::steady_clock::now();
  try {
    ProgressBar bar;
    const hw::SignalGuard guard;
    SweepOptions options;
    options.threads = a.jobs;
    options.known = [&](const std::string& hash) { return known.find(hash); };
    options.done = [&](std::size_t index, const std::string& line, bool is_new) {
      lines.add(index, line, is_new);
      const std::string stage = fmt::format("{} of {} points", lines.done(), points.size());
      bar.show(stage.c_str(), static_cast<double>(lines.done()) / static_cast<double>(points.size()));
    };
    options.interrupt = [] {
      if (hw::SignalGuard::flag()) throw SweepEnded{};
    };
    sim::sweep(points, read, options);
  } catch (const SweepEnded&) {
    fmt::print(stderr, "sim: interrupted; {} of {} points are done{}\n", lines.done(), points.size(),
               a.output.empty() ? "" : fmt::format(" and in {}: the same command goes on from there", a.output));
    return 130;
  }
  if (a.output.empty()) return 0;
  write_in_order(a.output, lines.all(), known);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  fmt::print(stderr, "{}: {} points, {} of them run in {:.1f} s, {} known; {} ended with an error\n", a.output,
             points.size(), lines.fresh(), took, points.size() - lines.fresh(), lines.failed());
  return 0;
}

}  // namespace corun::sim
