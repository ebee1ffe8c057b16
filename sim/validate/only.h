// What --only names.
#pragma once

#include <string>
#include <vector>

namespace corun::sim {

/// One kind of names, as mixes or policies.
struct Names {
  std::vector<std::string> known;
  std::vector<std::string>* wanted = nullptr;  // gets those of this kind; left empty: all
};

/// Names of one kind are alternatives; one of each kind that is named must hold.  Throws InputError for a name that there
/// is not.  One that several kinds have is of the first.
void sort_only(const std::string& file, const std::vector<std::string>& only, const std::vector<Names>& kinds);

}  // namespace corun::sim
