// Just enough of C++'s lexical grammar to tell identifiers from what is inside comments and literals.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace corun::hw {

struct Token {
  enum class Kind : std::uint8_t { identifier, number, literal, punctuation } kind;
  std::string_view text;
  std::size_t at = 0;      // offset in the source
  bool directive = false;  // part of a preprocessor line
};

/// Comments and blanks are left out; the views point into `source`.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace corun::hw
