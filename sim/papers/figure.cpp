#include "sim/papers/figure.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/api/registry.h"
#include "traces/embedded.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/schema.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using nlohmann::json;
using std::filesystem::path;

constexpr const char* kFolder = "experiments/papers";

void find_runs(const json& expression, const std::string& place,
               std::vector<std::pair<std::string, std::string>>& found) {
  if (!expression.is_object()) return;
  if (const auto run = expression.find("run"); run != expression.end()) {
    found.emplace_back(run->get<std::string>(), place + "/run");
    return;
  }
  const std::string& operation = expression.begin().key();
  const json& terms = expression.begin().value();
  for (std::size_t i = 0; i < terms.size(); ++i)
    find_runs(terms[i], fmt::format("{}/{}/{}", place, operation, i), found);
}

class Reader {
 public:
  explicit Reader(const path& file) : file_(file.string()) { figure_.file = file; }

  Figure read(const json& document) {
    figure_.system = document["system"].get<std::string>();
    figure_.figure = document["figure"].get<std::string>();
    figure_.source = document["source"].get<std::string>();
    figure_.about = document.value("about", "");
    figure_.fitted = document.value("fitted", std::vector<std::string>{});
    for (const auto& [name, run] : document["runs"].items()) read_run(name, run);
    const json& rows = document["rows"];
    for (std::size_t i = 0; i < rows.size(); ++i) read_row(rows[i], fmt::format("/rows/{}", i));
    const json orders = document.value("order", json::array());
    for (std::size_t i = 0; i < orders.size(); ++i) read_order(orders[i], fmt::format("/order/{}", i));
    return std::move(figure_);
  }

 private:
  [[noreturn]] void fail(std::string place, std::string problem, std::string remedy) const {
    throw InputError(file_, std::move(place), std::move(problem), std::move(remedy));
  }

  void read_run(const std::string& name, const json& from) {
    FigureRun run;
    run.name = name;
    run.trace = from["trace"];
    run.gpu = from.value("gpu", "");
    run.policy = from["policy"].get<std::string>();
    if (const auto ns = from.find("duration_ns"); ns != from.end()) run.duration = from_ns(ns->get<double>());
    if (const auto seed = from.find("seed"); seed != from.end()) run.seed = seed->get<std::uint64_t>();
    const std::string place = (json::json_pointer() / "runs" / name).to_string();
    if (run.trace.is_string() && !input_exists(figure_.file.parent_path() / run.trace.get<std::string>()))
      fail(place + "/trace", fmt::format("no file {}", in_quotes(run.trace.get<std::string>())),
           "paths are relative to the figure's file");
    try {
      make_policy(run.policy);
    } catch (const InputError& error) {
      fail(place + "/policy", error.problem(), error.remedy());
    }
    figure_.runs.push_back(std::move(run));
  }

  void read_row(const json& from, const std::string& place) {
    FigureRow row;
    row.name = from["name"].get<std::string>();
    row.published = from["published"].get<double>();
    row.unit = from.value("unit", "");
    row.simulated = from["simulated"];
    row.why = from.value("why", "");
    if (const auto baseline = from.find("baseline"); baseline != from.end())
      row.baseline = baseline->get<double>();
    for (const FigureRow& other : figure_.rows)
      if (other.name == row.name)
        fail(place + "/name", fmt::format("a row called {} exists already", in_quotes(row.name)),
             "give each row a name of its own");
    std::vector<std::string> names;
    for (const FigureRun& run : figure_.runs) names.push_back(run.name);
    for (const auto& [run, where] : runs_of(row.simulated))
      if (std::ranges::find(names, run) == names.end())
        fail(place + "/simulated" + where,
             fmt::format("unknown run {}{}", in_quotes(run), did_you_mean(run, names)),
             names.empty() ? "add it to `runs`"
                           : fmt::format("use one of {}, or add it to `runs`", list_names(names)));
    figure_.rows.push_back(std::move(row));
  }

  void read_order(const json& from, const std::string& place) {
    std::vector<std::string> names;
    for (const FigureRow& row : figure_.rows) names.push_back(row.name);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto& name = from[i].get_ref<const std::string&>();
      const auto found = std::ranges::find(names, name);
      if (found == names.end())
        fail(fmt::format("{}/{}", place, i),
             fmt::format("unknown row {}{}", in_quotes(name), did_you_mean(name, names)),
             fmt::format("use one of {}", list_names(names)));
      order.push_back(static_cast<std::size_t>(found - names.begin()));
      if (i > 0 && figure_.rows[order[i]].published < figure_.rows[order[i - 1]].published)
        fail(fmt::format("{}/{}", place, i),
             fmt::format("the published number of {} is below that of {}", in_quotes(name),
                         in_quotes(names[order[i - 1]])),
             "list rows by rising published numbers");
    }
    figure_.orders.push_back(std::move(order));
  }

  std::string file_;
  Figure figure_;
};

std::vector<path> files_of(const path& folder) {
  std::vector<path> files;
  if (folder.empty()) {
    for (const EmbeddedFile& each : embedded_tree())
      if (path(each.name).parent_path() == kFolder) files.push_back(path(kBuiltIn) / each.name);
    return files;
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  if (error)
    throw InputError(folder.string(), "", "cannot be read: " + error.message(),
                     "name a folder with figure files (`sim schema figure`)");
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> runs_of(const json& expression) {
  std::vector<std::pair<std::string, std::string>> found;
  find_runs(expression, "", found);
  return found;
}

Figure read_figure(const path& file) {
  const json document = parse_json(*open_input(file), file.string());
  check_schema(document, "figure", file.string());
  return Reader(file).read(document);
}

std::vector<Figure> read_figures(const path& folder, const std::vector<std::string>& only) {
  std::vector<Figure> figures;
  std::vector<std::string> names;
  for (const path& file : files_of(folder)) {
    Figure figure = read_figure(file);
    for (const std::string& name : {figure.name(), figure.system})
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    const auto named = [&](const std::string& one) { return figure.name() == one || figure.system == one; };
    if (only.empty() || std::ranges::any_of(only, named)) figures.push_back(std::move(figure));
  }
  if (names.empty())
    throw InputError(folder.string(), "", "no figure files",
                     "name a folder with *.json of `sim schema figure`");
  for (const std::string& one : only)
    if (std::ranges::find(names, one) == names.end())
      throw InputError("", "--only", fmt::format("no figure or system is called {}{}", in_quotes(one), did_you_mean(one, names)),
                       fmt::format("use one of {}", list_names(names, 40)));
  return figures;
}

}  // namespace corun::sim
