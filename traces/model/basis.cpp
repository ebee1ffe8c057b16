#include "traces/model/basis.h"

namespace corun {

std::string in_words(const Basis& basis) {
  std::string of;
  for (const auto& [card, values] : basis.assumed_of)
    of += (of.empty() ? " (" : ", ") + std::to_string(values) + " of " + card;
  return std::to_string(basis.published) + " values published, " + std::to_string(basis.calibrated) +
         " calibrated, " + std::to_string(basis.assumed) + " assumed" + (of.empty() ? "" : of + ")");
}

}  // namespace corun
