// JSON as people like to read it: two spaces, and what fits on a line stays on one.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

namespace corun {

/// Keys in the order of the document, lines of at most 110 columns, a line break at the end.
void print_json(const nlohmann::ordered_json& document, std::ostream& out);

}  // namespace corun
