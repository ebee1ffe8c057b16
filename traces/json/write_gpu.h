// A GPU description made of a built-in one and of values that were measured.
#pragma once

#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace corun {

struct MeasuredValue {
  std::string group, key;  // "latencies", "stream_gap_ns"
  std::vector<double> values;
  bool is_list = false;
  std::string source;
};
struct MeasuredGpu {
  std::string name, product, architecture, about;
  std::string like;      // built in; what is not measured is inherited from it
  std::string measured;  // begins the source of each value: when, on what
  std::vector<MeasuredValue> values;
};

/// What a built-in description says; empty where it says nothing, or no number.
std::vector<double> described_value(const std::string& name, const std::string& group, const std::string& key);

/// Why a description may not hold such a value, by the schema; "" if it may.
std::string refused_value(const MeasuredValue& value);

/// Writes the description.  Returns what it inherits, as "sm/warp_size".
std::vector<std::string> write_gpu(const MeasuredGpu& gpu, std::ostream& out);

}  // namespace corun
