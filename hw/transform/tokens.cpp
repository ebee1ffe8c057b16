#include "hw/transform/tokens.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace corun::hw {
namespace {

bool begins_identifier(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_identifier(char c) {
  return begins_identifier(c) || std::isdigit(static_cast<unsigned char>(c));
}

/// The end of a literal that opens at `at` with `quote`.
std::size_t end_of_quoted(std::string_view s, std::size_t at, char quote) {
  for (++at; at < s.size() && s[at] != quote && s[at] != '\n'; ++at)
    if (s[at] == '\\') ++at;
  return std::min(at + 1, s.size());
}

/// The end of R"x(...)x", `at` being at the quote.
std::size_t end_of_raw(std::string_view s, std::size_t at) {
  const std::size_t open = s.find('(', at);
  if (open == s.npos) return s.size();
  const std::string close = ")" + std::string(s.substr(at + 1, open - at - 1)) + "\"";
  const std::size_t end = s.find(close, open);
  return end == s.npos ? s.size() : end + close.size();
}

}  // namespace

std::vector<Token> tokens_of(std::string_view s) {
  std::vector<Token> tokens;
  bool line_begins = true, directive = false;
  for (std::size_t at = 0; at < s.size();) {
    const char c = s[at];
    if (c == '\n') {
      if (at == 0 || s[at - 1] != '\\') directive = false;
      line_begins = true;
      ++at;
    } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\\') {
      ++at;
    } else if (s.substr(at, 2) == "//") {
      at = std::min(s.find('\n', at), s.size());
    } else if (s.substr(at, 2) == "/*") {
      const std::size_t end = s.find("*/", at + 2);
      at = end == s.npos ? s.size() : end + 2;
    } else {
      if (c == '#' && line_begins) directive = true;
      line_begins = false;
      std::size_t end = at + 1;
      Token::Kind kind = Token::Kind::punctuation;
      if (begins_identifier(c)) {
        kind = Token::Kind::identifier;
        while (end < s.size() && continues_identifier(s[end])) ++end;
        if (end < s.size() && s[end] == '"') {  // a prefix of a literal
          kind = Token::Kind::literal;
          end = s[end - 1] == 'R' ? end_of_raw(s, end) : end_of_quoted(s, end, '"');
        }
      } else if (std::isdigit(static_cast<unsigned char>(c))) {
        kind = Token::Kind::number;
        while (end < s.size() && (continues_identifier(s[end]) || s[end] == '.' || s[end] == '\'' ||
                                  ((s[end] == '+' || s[end] == '-') &&
                                   std::string_view("eEpP").find(s[end - 1]) != std::string_view::npos)))
          ++end;
      } else if (c == '"' || c == '\'') {
        kind = Token::Kind::literal;
        end = end_of_quoted(s, at, c);
      }
      tokens.push_back({kind, s.substr(at, end - at), at, directive});
      at = end;
    }
  }
  return tokens;
}

}  // namespace corun::hw
