#include "traces/import/profiler_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace corun {
namespace {

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_letter(char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Whether such marks part digits in groups of three.
bool groups(std::string_view number, char mark) {
  const std::size_t before = number.substr(0, number.find(mark)).size();
  if (before == 0 || before > 3 || number.front() == '0') return false;
  for (std::size_t at = number.find(mark); at != std::string_view::npos;) {
    const std::size_t next = number.find_first_not_of("0123456789", at + 1);
    if (std::min(next, number.size()) - at != 4) return false;
    at = number.find(mark, at + 1);
  }
  return true;
}

/// Apostrophes and spaces, which part digits in groups and nothing else.
struct Grouped {
  std::string rest;
  bool apostrophes = false, spaces = false;
};
Grouped without_groups(std::string_view number) {
  constexpr std::array<std::string_view, 3> kApostrophes = {"'", "\u2019", "\u02BC"};
  constexpr std::array<std::string_view, 4> kSpaces = {" ", "\u00A0", "\u202F", "\u2009"};
  Grouped grouped;
  for (std::size_t i = 0; i < number.size();) {
    const std::string_view here = number.substr(i);
    const auto is = [&](std::string_view mark) {
      return here.starts_with(mark) && !grouped.rest.empty() && is_digit(grouped.rest.back()) && here.size() > mark.size() + 2 &&
             std::ranges::all_of(here.substr(mark.size(), 3), is_digit);
    };
    const auto skip = [&](const auto& marks, bool& seen) {
      const auto mark = std::ranges::find_if(marks, is);
      if (mark == marks.end()) return false;
      i += mark->size();
      return seen = true;
    };
    if (!skip(kApostrophes, grouped.apostrophes) && !skip(kSpaces, grouped.spaces)) grouped.rest += number[i++];
  }
  return grouped;
}

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return all;
}

std::optional<double> scale(char prefix) {
  switch (prefix) {
    case 'k':
      return 1e3;
    case 'm':
      return 1e6;
    case 'g':
      return 1e9;
    case 't':
      return 1e12;
    default:
      return std::nullopt;
  }
}

std::optional<double> time_factor(std::string_view unit) {
  constexpr std::array<std::pair<std::string_view, double>, 15> kTimes = {{{"ns", 1},
                                                                           {"nsecond", 1},
                                                                           {"nseconds", 1},
                                                                           {"nsec", 1},
                                                                           {"us", 1e3},
                                                                           {"usecond", 1e3},
                                                                           {"useconds", 1e3},
                                                                           {"usec", 1e3},
                                                                           {"ms", 1e6},
                                                                           {"msecond", 1e6},
                                                                           {"mseconds", 1e6},
                                                                           {"msec", 1e6},
                                                                           {"s", 1e9},
                                                                           {"second", 1e9},
                                                                           {"sec", 1e9}}};
  for (const auto& [name, factor] : kTimes)
    if (unit == name) return factor;
  return std::nullopt;
}

std::optional<double> bytes_factor(std::string_view unit) {
  if (unit == "sector" || unit == "sectors") return 32;
  if (unit == "byte" || unit == "bytes" || unit == "b") return 1;
  if (unit.size() > 1)
    if (const auto factor = scale(unit.front())) {
      const std::string_view rest = unit.substr(1);
      if (rest == "byte" || rest == "bytes" || rest == "b") return factor;
      if (rest == "ib" || rest == "ibyte") return std::pow(1024, std::round(std::log10(*factor) / 3));
    }
  return std::nullopt;
}

}  // namespace

std::optional<Marks> marks_of(std::string_view text) {
  const Grouped grouped = without_groups(trimmed(text));
  const std::string_view number = grouped.rest;
  if (number.find_first_not_of("0123456789.,") != std::string_view::npos) return std::nullopt;  // "(8, 7, 1)"
  const std::size_t comma = number.rfind(','), point = number.rfind('.');
  const bool commas = comma != std::string_view::npos, points = point != std::string_view::npos;
  if (grouped.apostrophes || grouped.spaces)
    return commas || (grouped.spaces && !points) ? Marks::decimal_comma : Marks::english;
  if (commas && points) return comma > point ? Marks::decimal_comma : Marks::english;
  if (commas) {
    if (!groups(number, ',')) return Marks::decimal_comma;
    if (number.find(',') != comma) return Marks::english;
  }
  if (points) {
    if (!groups(number, '.')) return Marks::english;
    if (number.find('.') != point) return Marks::decimal_comma;
  }
  return std::nullopt;
}

std::optional<double> profiler_number(std::string_view text, Marks marks) {
  std::string plain;
  for (const char c : without_groups(trimmed(text)).rest) {
    if (c == (marks == Marks::english ? ',' : '.')) continue;
    plain += c == ',' ? '.' : c;
  }
  double value = 0;
  const char* end = plain.data() + plain.size();
  const auto read = std::from_chars(plain.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> unit_factor(std::string_view unit, Quantity quantity) {
  const std::string all = lower(trimmed(unit.substr(0, unit.find('/'))));
  if (all.empty()) return 1;
  switch (quantity) {
    case Quantity::nanoseconds:
      return time_factor(all);
    case Quantity::bytes:
      return bytes_factor(all);
    case Quantity::percent:
      if (all == "%" || all == "percent") return 1;
      return all == "ratio" ? std::optional(100.0) : std::nullopt;
    case Quantity::count:
      for (const std::string_view name : {"inst", "warp", "thread", "register", "block", "cycle"}) {
        if (all == name) return 1;
        if (all.size() == name.size() + 1 && all.ends_with(name)) return scale(all.front());
      }
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Dim3> dimensions(std::string_view printed) {
  std::string text(printed);
  std::erase(text, '\'');  // parts thousands
  std::array<std::uint32_t, 3> size{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (is_letter(text[i]) || text[i] == '-' || text[i] == '.') return std::nullopt;
    if (!is_digit(text[i])) {
      ++i;
      continue;
    }
    if (n == 3) return std::nullopt;
    const auto read = std::from_chars(text.data() + i, text.data() + text.size(), size[n]);
    if (read.ec != std::errc{} || size[n] == 0) return std::nullopt;
    ++n;
    i = static_cast<std::size_t>(read.ptr - text.data());
  }
  if (n != 3) return std::nullopt;
  return Dim3{size[0], size[1], size[2]};
}

}  // namespace corun
