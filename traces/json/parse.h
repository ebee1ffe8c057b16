// Text to JSON, refusing what a careless or hostile file may hold: deep nesting, duplicate keys, other
// encodings.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace corun {

inline constexpr unsigned kMaxNesting = 64;
inline constexpr std::uint64_t kMaxDocumentBytes = std::uint64_t{1} << 32;

/// Throws InputError with line and column (counted in bytes) where the text is not JSON, or is nested deeper
/// than kMaxNesting or longer than kMaxDocumentBytes; with a JSON pointer where an object has a key twice. An
/// integer beyond 64 bits, signed, becomes a floating-point number.  `file` is only named in messages.
nlohmann::json parse_json(std::istream& text, const std::string& file);

}  // namespace corun
