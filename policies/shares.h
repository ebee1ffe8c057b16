// A parameter that has a number for each client, "50/30", and such of MPS, its active thread percentages.
#pragma once

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "policies/api/registry.h"

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

[[noreturn]] inline void refuse_percentages(const std::string& policy, const std::string& text) {
  throw InputError("", "--policy", policy + ":percentages=" + text + " is not a list of percentages",
                   "write one for each client, above 0 and up to 100, as in 50/30");
}

/// A percentage for each client, or one for all; empty where the text is.  Throws InputError.
inline std::vector<double> thread_percentages(const std::string& policy, const std::string& text) {
  return read_shares(text, std::numeric_limits<double>::min(), 100.0, [&] { refuse_percentages(policy, text); });
}

/// Throws InputError for several that are not as many as the clients.
inline void expect_percentage_of_each(const std::string& policy, const std::string& text, std::size_t given, std::size_t clients) {
  if (given > 1 && given != clients)
    throw InputError("", "--policy",
                     policy + ":percentages=" + text + " has " + std::to_string(given) + " percentages for " +
                         std::to_string(clients) + " clients",
                     "give one for all clients, or one for each, in their order in the trace");
}

}  // namespace corun
