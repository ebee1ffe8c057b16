// Coarse to fine: a grid of eighths, then moves of ever smaller amounts from one client to another.
#include <algorithm>
#include <map>

#include "sim/oracle/oracle.h"

namespace corun::sim {
namespace {

constexpr std::uint32_t kCoarse = 8;  // parts of the first grid, if the clients are not more

/// All divisions of `parts` into `clients` numbers of at least one.
void divide(std::uint32_t clients, std::uint32_t parts, Division& begun, std::vector<Division>& all) {
  if (clients == 1) {
    begun.push_back(parts);
    all.push_back(begun);
    begun.pop_back();
    return;
  }
  for (std::uint32_t first = 1; first + clients - 1 <= parts; ++first) {
    begun.push_back(first);
    divide(clients - 1, parts - first, begun, all);
    begun.pop_back();
  }
}

class Search {
 public:
  Search(std::uint32_t units, const Values& values) : units_(units), values_(values) {}

  /// Returns whether one of them is better than the best so far.
  bool consider(std::vector<Division> divisions) {
    std::erase_if(divisions, [&](const Division& d) { return !known_.emplace(d, 0).second; });
    const std::vector<double> values = values_(divisions);
    bool better = false;
    for (std::size_t i = 0; i < divisions.size(); ++i)
      if (best_.empty() || values[i] > value_) {
        best_ = divisions[i];
        value_ = values[i];
        better = true;
      }
    return better;
  }

  std::vector<Division> neighbours(std::uint32_t step) const {
    std::vector<Division> all;
    for (std::size_t from = 0; from < best_.size(); ++from)
      for (std::size_t to = 0; to < best_.size(); ++to)
        if (from != to && best_[from] > step) {
          all.push_back(best_);
          all.back()[from] -= step;
          all.back()[to] += step;
        }
    return all;
  }

  /// In units, of a division of `parts`: borders rounded down, which leaves each at least one unit.
  Division scaled(const Division& division, std::uint32_t parts) const {
    Division to;
    std::uint32_t border = 0, last = 0;
    for (const std::uint32_t share : division) {
      border += share;
      const std::uint32_t at = border * units_ / parts;
      to.push_back(at - last);
      last = at;
    }
    return to;
  }

  const Division& best() const { return best_; }

 private:
  const std::uint32_t units_;
  const Values& values_;
  std::map<Division, int> known_;
  Division best_;
  double value_ = 0;
};

}  // namespace

Division search(std::uint32_t clients, std::uint32_t units, std::uint32_t finest, const Values& values) {
  const std::uint32_t parts = std::min(units, std::max(kCoarse, clients));
  std::vector<Division> grid;
  Division begun;
  divide(clients, parts, begun, grid);
  Search state(units, values);
  for (Division& division : grid) division = state.scaled(division, parts);
  state.consider(std::move(grid));
  for (std::uint32_t step = std::max(units / parts / 2, finest);; step = std::max(step / 2, finest)) {
    while (state.consider(state.neighbours(step))) {
    }
    if (step == finest) return state.best();
  }
}

}  // namespace corun::sim
