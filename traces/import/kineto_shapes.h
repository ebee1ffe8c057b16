// The shapes of a recording's kernels.  Some of AMD's tools leave them to the launch calls.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "traces/import/kineto_records.h"

namespace corun::kineto {

class LaunchShapes {
 public:
  /// What a kernel's record says; its number in `records`, the same in every call.
  std::uint32_t of(Shape shape, Records& records) { return shapes_.of(std::move(shape), records.shapes); }
  /// What the launch call of that correlation says.
  void of_call(std::uint64_t correlation, Shape shape) { of_call_.try_emplace(correlation, std::move(shape)); }
  /// Its grid is in work-items.
  void in_work_items(std::uint64_t correlation) { in_work_items_.insert(correlation); }

  /// When all is read: kernels without a shape get one where it can be told, and grids are in blocks.  Throws
  /// InputError for one that no launch can have.
  void complete(Records& records, const std::string& file);

 private:
  void find_in_calls(Records& records);
  void count_blocks(Records& records);
  void find_in_names(Records& records) const;

  ShapeIndex shapes_;
  std::unordered_map<std::uint64_t, Shape> of_call_;  // by correlation
  std::unordered_set<std::uint64_t> in_work_items_;   // correlations
};

}  // namespace corun::kineto
