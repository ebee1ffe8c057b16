// Text to JSON, refusing what a careless or hostile file may hold: deep nesting, duplicate keys, other
// encodings.
#pragma once

#include <cstdint>
#include <functional>
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

/// For documents larger than memory: called for each object or array in an array once it is read.  `keys`: those on
/// the way to the array, as "buffer_records/kernel_dispatch".  Where it returns true, the document is left without it.
/// Of a key that stands twice, as some tools write, the last one counts.
using TakeElement = std::function<bool(const std::string& keys, nlohmann::json& element)>;
nlohmann::json parse_json(std::istream& text, const std::string& file, const TakeElement& take,
                          std::uint64_t most_bytes = kMaxDocumentBytes);

}  // namespace corun
