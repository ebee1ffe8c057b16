#include "traces/import/mended_json.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace corun::kineto {
namespace {

/// A key is no longer, nor is a number.
constexpr std::size_t kLongestToken = 512;

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(int c) { return c >= '0' && c <= '9'; }

/// Number as JSON has it.
bool is_number(std::string_view t) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t from = i;
    while (i < t.size() && is_digit(t[i])) ++i;
    return i - from;
  };
  const auto is = [&](std::string_view any) { return i < t.size() && any.find(t[i]) != std::string_view::npos; };
  if (is("-")) ++i;
  const std::size_t whole = i;
  if (const std::size_t n = digits(); n == 0 || (n > 1 && t[whole] == '0')) return false;
  if (is(".") && (++i, digits() == 0)) return false;
  if (is("eE")) {
    ++i;
    if (is("+-")) ++i;
    if (digits() == 0) return false;
  }
  return i == t.size();
}

}  // namespace

int MendedJson::ahead(std::size_t i) {
  while (ahead_.size() <= i) {
    if (source_.at_end()) return kEnd;
    ahead_.push_back(source_.peek());
    source_.advance();
  }
  return static_cast<unsigned char>(ahead_[i]);
}

char MendedJson::take() {
  const char c = ahead_.front();
  ahead_.pop_front();
  return c;
}

std::size_t MendedJson::beyond_spaces(std::size_t i) {
  while (is_space(ahead(i))) ++i;
  return i;
}

/// What begins there reads `"key":`.
bool MendedJson::is_key(std::size_t i) {
  if (ahead(i) != '"') return false;
  for (const std::size_t last = i + kLongestToken; ++i < last;) {
    if (ahead(i) == kEnd) return true;  // cut short, which the parser tells
    if (ahead(i) == '\\') ++i;
    else if (ahead(i) == '"') return ahead(beyond_spaces(i + 1)) == ':';
  }
  return true;
}

/// True if a quote ends its string, by the text behind it.
bool MendedJson::closes(std::size_t i) {
  if (key_) return true;
  i = beyond_spaces(i);
  switch (ahead(i)) {
    case kEnd:
      return true;
    case ',':
      return open_.empty() || open_.back() == '[' || is_key(beyond_spaces(i + 1));
    case '}':
    case ']': {
      const int behind = ahead(beyond_spaces(i + 1));
      return behind == kEnd || behind == ',' || behind == '}' || behind == ']';
    }
    default:
      return false;
  }
}

bool MendedJson::refill() {
  ready_.clear(), next_ = 0;
  if (ahead(0) == kEnd) return false;
  if (in_string_) return in_string(), true;
  const int c = ahead(0);
  const bool of_structure = is_space(c) || std::string_view("{}[],:\"").find(static_cast<char>(c)) != std::string_view::npos;
  if (!of_structure) return token(), true;
  if (const int behind = c == ',' ? ahead(beyond_spaces(1)) : kEnd; behind == '}' || behind == ']') return take(), ++mended_, refill();  // ends a list
  ready_ += take();
  if (c == '{' || c == '[') open_.push_back(static_cast<char>(c));
  if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
  if (c == '"') in_string_ = true;
  if (c == '{' || c == ',') key_ = !open_.empty() && open_.back() == '{';
  if (c == ':' || c == '[') key_ = false;
  return true;
}

void MendedJson::in_string() {
  const char c = take();
  if (c == '"') {
    in_string_ = !closes(0);
    if (in_string_) ready_ += '\\', ++mended_;
    ready_ += c;
  } else if (c == '\\') {
    const int next = ahead(0);
    bool escapes = next != kEnd && std::string_view("\"\\/bfnrtu").find(static_cast<char>(next)) != std::string_view::npos;
    for (std::size_t i = 1; escapes && next == 'u' && i <= 4; ++i) escapes = ahead(i) != kEnd && std::isxdigit(ahead(i)) != 0;
    if (next == '"' && !key_ && closes(1)) escapes = false;  // of a path that ends in a backslash
    ready_ += c;
    if (escapes) ready_ += take();
    else ready_ += '\\', ++mended_;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    ready_ += ' ', ++mended_;
  } else {
    ready_ += c;
  }
}

void MendedJson::token() {
  const auto rest = [&] {
    std::string text;
    while (text.size() < kLongestToken && ahead(0) != kEnd && !is_space(ahead(0)) &&
           std::string_view("{}[],:\"").find(static_cast<char>(ahead(0))) == std::string_view::npos)
      text += take();
    return text;
  };
  ready_ = rest();
  if (ready_ == "true" || ready_ == "false" || ready_ == "null") return;
  if (is_number(ready_) && !open_.empty() && open_.back() == '{' && ahead(0) == ',' && is_digit(ahead(1))) {
    take();
    ready_ += "." + rest();
    ++mended_;
  }
  if (is_number(ready_)) return;
  ready_ = "null";
  ++mended_;
}

}  // namespace corun::kineto
