#include "traces/json/spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace corun {
namespace {

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

/// Length of the UTF-8 character that starts here, 0 if none does.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80                       ? 1
                             : byte(0) >= 0xC2 && byte(0) <= 0xDF ? 2
                             : (byte(0) & 0xF0) == 0xE0           ? 3
                             : byte(0) >= 0xF0 && byte(0) <= 0xF4 ? 4
                                                                  : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string did_you_mean(std::string_view wrong, std::span<const std::string> candidates) {
  constexpr std::size_t kLongest =
      200;  // beyond that it is not a misspelt name, and the distance is quadratic
  if (wrong.empty() || wrong.size() > kLongest) return "";
  const std::string* best = nullptr;
  std::size_t best_distance = (wrong.size() + 1) / 3 + 1;  // more than this apart is another word
  for (const std::string& candidate : candidates) {
    const std::size_t apart =
        std::max(candidate.size(), wrong.size()) - std::min(candidate.size(), wrong.size());
    if (apart >= best_distance) continue;
    const std::size_t distance = edit_distance(wrong, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : fmt::format("; did you mean {}?", in_quotes(*best));
}

std::string list_names(std::span<const std::string> names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  return text + (names.size() > most ? ", ..." : "");
}

std::string printable(std::string_view text, std::size_t most) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= most) return shown + "...";
    const std::size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0 || first < 0x20 || first == 0x7F) {
      shown += fmt::format("\\x{:02x}", first);
      text.remove_prefix(1);
    } else {
      shown += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return shown;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace corun
