#include "traces/import/kernel_name.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace corun {
namespace {

constexpr std::size_t kLeastCommon = 8;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Of the Itanium ABI's `_Z[N]{length name}...`: the last of the names before template arguments.
std::string unmangled(std::string_view name) {
  std::string found;
  std::size_t i = 2;
  while (i < name.size()) {
    if (!is_digit(name[i])) {
      if (!found.empty() || std::string_view("NLKSt").find(name[i]) == std::string_view::npos) break;
      ++i;
      continue;
    }
    std::size_t length = 0;
    for (; i < name.size() && is_digit(name[i]) && length < name.size(); ++i)
      length = 10 * length + static_cast<std::size_t>(name[i] - '0');
    found = name.substr(std::min(i, name.size()), length);
    i += length;
  }
  return found;
}

}  // namespace

std::string function_name(std::string_view name) {
  if (name.ends_with("...")) name.remove_suffix(3);
  if (name.starts_with("_Z"))
    if (std::string found = unmangled(name); !found.empty()) return found;
  // What is not within brackets, up to the parameters.
  std::string open, plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    constexpr std::string_view kAnonymous[] = {"(anonymous namespace)", "<unnamed>", "{anonymous}"};
    const auto* anonymous =
        std::find_if(std::begin(kAnonymous), std::end(kAnonymous),
                     [&](std::string_view text) { return open.empty() && name.substr(i).starts_with(text); });
    if (anonymous != std::end(kAnonymous)) {
      i += anonymous->size() - 1;
    } else if (c == '(' && open.empty() && !plain.empty() && plain.back() != ':' && plain.back() != ' ') {
      break;
    } else if (c == '<' || c == '(' || c == '{' || c == '[') {
      open += c;
    } else if ((c == '>' || c == ')' || c == '}' || c == ']') && !open.empty()) {
      // "->" and a comparison among the arguments close nothing.
      const char opening = c == '>' ? '<' : c == ')' ? '(' : c == '}' ? '{' : '[';
      if (c == '>' && i > 0 && name[i - 1] == '-') continue;
      if (const std::size_t at = open.rfind(opening); at != std::string::npos) open.resize(at);
    } else if (open.empty()) {
      plain += c;
    }
  }
  while (!plain.empty() && plain.back() == ' ') plain.pop_back();
  if (const std::size_t at = plain.rfind("::"); at != std::string::npos && at + 2 < plain.size())
    plain.erase(0, at + 2);
  if (const std::size_t at = plain.rfind(' '); at != std::string::npos) plain.erase(0, at + 1);
  return plain.empty() ? std::string(name) : plain;
}

bool may_be_one_function(std::string_view a, std::string_view b) {
  if (a == b) return true;
  return std::min(a.size(), b.size()) >= kLeastCommon && (a.starts_with(b) || b.starts_with(a));
}

std::string without_number(const std::string& name) {
  const std::size_t at = name.rfind(" #");
  const bool numbered = at != std::string::npos && at + 2 < name.size() &&
                        name.find_first_not_of("0123456789", at + 2) == std::string::npos;
  return numbered ? name.substr(0, at) : name;
}

}  // namespace corun
