// Checks a document against a built-in JSON Schema.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace corun {

/// Throws one InputError for the first thing in `document` that the schema ("trace", "gpu", "reference", "figure") does
/// not allow: the JSON pointer of the deepest value at fault, what was expected there and what was found.
void check_schema(const nlohmann::json& document, std::string_view schema_name, const std::string& file);

/// What a schema does not allow, and where.
struct Violation {
  std::string place;  // a JSON pointer
  std::string problem;
};
/// All of them, at most `most`.
std::vector<Violation> violations(const nlohmann::json& document, std::string_view schema_name,
                                  std::size_t most);
std::string how_to_see_the_schema(std::string_view name);

}  // namespace corun
