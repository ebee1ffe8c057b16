// Where a GPU description is found, and what it takes from the one that it extends.
//
// A value that is taken from the description of another card counts as assumed, and says of which card it is.
// Values that stand for a clock, a bandwidth, a cache or a number of SMs are carried over by the ratio of
// these (traces/DECISIONS.md, 71).  What is left out: any rule for the host's latencies and for waits in
// memory, which stay as they are.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace corun {

struct GpuDocument {
  nlohmann::json json;   // with all that it inherits, without `extends`; not checked by itself
  nlohmann::json given;  // as it stands in its file
  std::string file;      // for messages
};

/// By name, built in, or by path, which starts at `beside`.  What it extends is checked as read_gpu() checks
/// it.
GpuDocument gpu_document(const std::string& name_or_path, const std::filesystem::path& beside);

/// The built-in description of that name, or of that product as nvidia-smi and profilers print it; "" if
/// there is none.  Case, blanks, hyphens and the maker's name do not matter.
std::string find_gpu(const std::string& name);

/// The leaf as a description of another card takes it over from `parent`.  `child`: the other description.
nlohmann::json inherited_leaf(const std::string& group, const std::string& key, const nlohmann::json& parent,
                              const nlohmann::json& child);

/// Places of the values by which such a value is carried over from another card; none: it stays as it is.
std::vector<std::string> carried_by(const std::string& group, const std::string& key);

/// Throws InputError for all that is wrong with it at once.
void check_gpu_document(const GpuDocument& document);

}  // namespace corun
