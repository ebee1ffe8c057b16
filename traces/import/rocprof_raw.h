// What rocprofv3 wrote of one process, as its records stream by: handles and numbers, until the names come with which to
// understand them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/import/kineto_records.h"

namespace corun::rocprof {

inline constexpr const char* kTool = "rocprofiler-sdk-tool";

using kineto::Nanoseconds;
using nlohmann::json;

/// Null where there is no such key, or what should hold it is no object.
const json* find(const json& from, std::initializer_list<const char*> keys);
std::optional<std::int64_t> integer(const json& from, std::initializer_list<const char*> keys);
std::string text(const json& from, std::initializer_list<const char*> keys);
/// Elements of an array; none where there is no such array.
const json& items(const json& from, std::initializer_list<const char*> keys);

/// Handles are any 64 bits, which JSON does not keep as numbers: numbered in order of appearance.
class Numbering {
 public:
  std::int64_t of(const json* handle) {
    return handle == nullptr ? 0 : numbers_.try_emplace(handle->dump(), numbers_.size()).first->second;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

struct Raw {
  struct Dispatch {
    kineto::GpuOp op;
    std::int64_t kernel = 0;
    Dim3 grid, block;
    std::uint32_t shared_memory_bytes = 0;
  };
  struct Copy {
    kineto::GpuOp op;
    std::int64_t kind = 0, operation = 0;
    std::string source, target;  // agents
  };
  struct Api {
    kineto::Call call;
    std::int64_t kind = 0, operation = 0;
  };
  struct Marker {
    std::int64_t correlation = 0;
    Nanoseconds start{}, duration{};
  };
  std::vector<Dispatch> dispatches;
  std::vector<Copy> copies;
  std::vector<Api> calls;
  std::vector<Marker> markers;
  std::map<std::int64_t, std::int64_t> registers;  // of kernels, where only the counters' records say it
  std::vector<std::string> agents;                 // of dispatches, by number
  Numbering queues, streams, threads;
  bool stream_ids = false;
};

class RawReader {
 public:
  /// `ranges`: markers too.
  RawReader(std::string file, bool ranges) : file_(std::move(file)), ranges_(ranges) {}

  /// `array`: where in the process' object the record stands, as "buffer_records/hip_api".  Throws InputError.
  void take(std::string_view array, const json& record);
  /// What was taken of the process, whose number is `process()`; the next one begins.
  Raw end_process();
  std::size_t process() const { return process_; }
  bool any_dispatch() const { return any_dispatch_; }
  bool any_call() const { return any_call_; }

 private:
  [[noreturn]] void refuse(const char* array, std::size_t index, const std::string& problem) const;
  std::pair<Nanoseconds, Nanoseconds> times(const json& record, const char* array, std::size_t index) const;
  kineto::GpuOp gpu_op(kineto::GpuOp::Kind kind, const json& record, const char* array, std::size_t index);
  void take_dispatch(const json& record);
  /// Work-items become blocks; the last one of a row may be smaller.
  void read_shape(const json& info, std::size_t index, Raw::Dispatch& dispatch) const;
  void take_call(const json& record);
  void take_copy(const json& record);
  void take_marker(const json& record);

  std::string file_;
  bool ranges_;
  std::size_t process_ = 0;
  Raw raw_;
  bool any_dispatch_ = false, any_call_ = false;
};

}  // namespace corun::rocprof
