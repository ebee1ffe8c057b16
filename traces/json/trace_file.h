// A trace's document in pieces: one file of those that include each other, and what reads its values.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "traces/model/host_stalls.h"
#include "traces/model/kernel.h"

namespace corun::reading {

using nlohmann::json;

inline constexpr std::uint32_t kAssumedRegisters = 32;

/// The names that messages offer, and what each stands for.
using Names = std::map<std::string, std::uint32_t, std::less<>>;

/// One file: its document and what its own programs can name.
struct TraceFile {
  std::string name;  // as messages show it
  std::filesystem::path location;
  json document;
  std::vector<const TraceFile*> includes;
  Names kernels;
};

[[noreturn]] void fail(const TraceFile& file, std::string place, std::string problem, std::string remedy);
[[noreturn]] void fail_unknown(const TraceFile& file, std::string place, const char* what,
                               const std::string& name, const Names& known);

/// Null where there is no such key.
const json* find(const json& object, const char* key);
/// Of a list; none where there is no such key.
const json& members(const json& object, const char* key);
/// Whole numbers exactly, also where a double has no picoseconds left.
Time time(const json& ns);
Time time(const json& object, const char* key, Time otherwise = Time{});
std::optional<Time> optional_time(const json& object, const char* key);
std::optional<double> optional_number(const json& object, const char* key);

/// One of the file's kernels, at `place`.  Throws InputError for what the schema cannot say.
Kernel read_kernel(const TraceFile& file, const json& from, const std::string& place);
/// Of a client; likewise.
HostStalls read_host_stalls(const TraceFile& file, const json& from, const std::string& place);

}  // namespace corun::reading
