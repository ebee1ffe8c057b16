#include "traces/json/print.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

namespace corun {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kColumns = 110;

/// Text that is not UTF-8 (names in traces of other tools) gets replacement characters.
std::string scalar(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string one_line(const json& value) {
  if (!value.is_structured()) return scalar(value);
  std::string text(1, value.is_object() ? '{' : '[');
  for (const auto& [key, member] : value.items()) {
    if (text.size() > 1) text += ", ";
    if (value.is_object()) text += scalar(key) + ": ";
    text += one_line(member);
    if (text.size() > kColumns) break;  // too long already, the rest does not matter
  }
  return text + (value.is_object() ? '}' : ']');
}

bool has_scalars_only(const json& array) {
  for (const json& item : array)
    if (item.is_structured()) return false;
  return array.is_array();
}

/// `used`: columns taken before and after the value on its line.
void print(const json& value, std::size_t indent, std::size_t used, std::ostream& out) {
  if (!value.is_structured() || value.empty()) {
    out << one_line(value);
    return;
  }
  if (indent > 0)
    if (const std::string line = one_line(value); used + line.size() <= kColumns) {
      out << line;
      return;
    }
  const std::string margin(indent + 2, ' ');
  out << (value.is_object() ? '{' : '[') << '\n' << margin;
  std::size_t column = margin.size();
  const bool fills_lines = has_scalars_only(value);
  bool is_first = true;
  for (const auto& [key, member] : value.items()) {
    if (fills_lines) {
      const std::string item = scalar(member);
      if (!is_first && column + item.size() + 3 > kColumns) {
        out << ",\n" << margin;
        column = margin.size();
      } else if (!is_first) {
        out << ", ";
        column += 2;
      }
      out << item;
      column += item.size();
    } else {
      if (!is_first) out << ",\n" << margin;
      const std::string label = value.is_object() ? scalar(key) + ": " : "";
      out << label;
      print(member, indent + 2, margin.size() + label.size() + 1, out);
    }
    is_first = false;
  }
  out << '\n' << std::string(indent, ' ') << (value.is_object() ? '}' : ']');
}

}  // namespace

void print_json(const json& document, std::ostream& out) {
  print(document, 0, 0, out);
  out << '\n';
}

}  // namespace corun
