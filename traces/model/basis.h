// What the values of a GPU description rest on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace corun {

/// Number of values by their basis.
struct Basis {
  std::uint32_t published = 0;   // said of such a card or of its architecture by a document or by others
  std::uint32_t calibrated = 0;  // measured on such a card
  std::uint32_t assumed = 0;     // carried over from another card, or judged
  std::map<std::string, std::uint32_t> assumed_of;  // of those, by the card that they are of

  bool operator==(const Basis&) const = default;
};

/// "31 values published, 12 calibrated, 40 assumed (38 of h200, 2 of mi50)".
std::string in_words(const Basis& basis);

}  // namespace corun
