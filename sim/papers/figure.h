// A published figure, the runs that mirror it, and how its numbers follow from theirs, as `sim schema figure`
// describes the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/model/time.h"

namespace corun::sim {

struct FigureRun {
  std::string name;
  nlohmann::json trace;  // a path from the file's folder, or a document
  std::string gpu;       // empty: the trace's
  std::string policy;
  std::optional<Time> duration;
  std::optional<std::uint64_t> seed;
};

struct FigureRow {
  std::string name, unit, why;
  double published = 0;
  nlohmann::json simulated;  // an expression
  std::optional<double> baseline;
};

struct Figure {
  std::filesystem::path file;
  std::string system, figure, source, about;
  std::vector<std::string> fitted;
  std::vector<FigureRun> runs;
  std::vector<FigureRow> rows;
  std::vector<std::vector<std::size_t>> orders;  // rows whose published numbers rise

  /// "reef-fig9" of reef-fig9.json
  std::string name() const { return file.stem().string(); }
};

/// Throws InputError.
Figure read_figure(const std::filesystem::path& file);

/// Those of a folder, or the built-in ones where `folder` is empty; only those whose name or system `only` has,
/// unless that is empty.  By file name.
std::vector<Figure> read_figures(const std::filesystem::path& folder, const std::vector<std::string>& only = {});

/// Runs that an expression uses, each with the place in `expression` where it stands.
std::vector<std::pair<std::string, std::string>> runs_of(const nlohmann::json& expression);

}  // namespace corun::sim
