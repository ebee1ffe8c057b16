#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/papers/scoreboard.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {

using nlohmann::json;

namespace {

double number_at(const json& expression, const Summaries& summary, const std::string& file,
                 const std::string& place) {
  const auto& run = expression["run"].get_ref<const std::string&>();
  const auto& at = expression["at"].get_ref<const std::string&>();
  const json& document = summary(run);
  if (document["stuck"] != 0 && at != "/stuck")
    throw InputError(
        file, place,
        fmt::format("run {} could not go on: {}", in_quotes(run), document["why_stuck"].get<std::string>()),
        "correct the run; only /stuck can be asked of one that is meant to end so");
  const json* found = nullptr;
  try {
    found = &document.at(json::json_pointer(at));
  } catch (const json::exception&) {
    throw InputError(file, place + "/at",
                     fmt::format("the summary of run {} has no {}", in_quotes(run), in_quotes(at)),
                     "`sim --json` shows what there is");
  }
  if (!found->is_number())
    throw InputError(file, place + "/at",
                     fmt::format("{} of run {} is {}, not a number", in_quotes(at), in_quotes(run),
                                 found->is_null() ? "undefined" : found->type_name()),
                     "is the run long enough for a request to end?");
  return found->get<double>();
}

}  // namespace

double evaluate(const json& expression, const Summaries& summary, const std::string& file,
                const std::string& place) {
  if (expression.is_number()) return expression.get<double>();
  if (expression.contains("run")) return number_at(expression, summary, file, place);
  const std::string& operation = expression.begin().key();
  const json& terms = expression.begin().value();
  std::vector<double> values;
  for (std::size_t i = 0; i < terms.size(); ++i)
    values.push_back(evaluate(terms[i], summary, file, fmt::format("{}/{}/{}", place, operation, i)));
  if (operation == "max") return std::ranges::max(values);
  if (operation == "min") return std::ranges::min(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (operation == "add") return sum;
  if (operation == "mean") return sum / static_cast<double>(values.size());
  double value = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (operation == "sub") value -= values[i];
    if (operation == "mul") value *= values[i];
    if (operation == "div") {
      if (values[i] == 0)
        throw InputError(file, fmt::format("{}/div/{}", place, i), "is 0, and something is divided by it",
                         "divide by a number that the run makes larger than 0");
      value /= values[i];
    }
  }
  return value;
}

}  // namespace corun::sim
