// A parameter that has a number for each client: "50/30".
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

namespace corun {

/// The numbers of `text`, none if it is empty; `refuse` is called, and must throw, where it is no list of
/// numbers from `least` to `most`.
template <class Number, class Refuse>
std::vector<Number> read_shares(const std::string& text, Number least, Number most, Refuse&& refuse) {
  std::vector<Number> all;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    Number number{};
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, number);
    if (error != std::errc{} || stop != text.data() + end || !(number >= least && number <= most)) refuse();
    all.push_back(number);
    at = end + 1;
  }
  return all;
}

}  // namespace corun
