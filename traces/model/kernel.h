// A kernel as a launch sees it (the fields of CUPTI's activity record) and what is known of it alone on the
// GPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "traces/model/time.h"

namespace corun {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  constexpr std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  constexpr bool operator==(const Dim3&) const = default;
};

/// Hardware counters of one launch alone on the GPU, in Nsight Compute's units.
struct Counters {
  std::optional<double> dram_read_bytes, dram_write_bytes, l2_bytes, l1_bytes;
  std::optional<double> warp_instructions, tensor_instructions;
  std::optional<double> issue_active_pct, warps_active_pct, fp64_active_pct;
  std::map<std::string, double> pipes_pct;  // how busy each pipe of the SMs is
  std::optional<double> duration_ns;        // as the profiler saw it, at the clocks it had set
  bool operator==(const Counters&) const = default;
};

/// Where something was read, for messages about it.
struct Origin {
  std::string file, place;                               // a path and a JSON pointer
  bool operator==(const Origin&) const { return true; }  // no part of what a trace says
};

/// Device code for a kernel, where it is to run on a GPU: a function of a CUDA source file, and what it is
/// called with.
struct DeviceCode {
  struct Buffer {
    enum class Type : std::uint8_t { f32, f64, f16, u32 } type = Type::f32;
    std::uint64_t elements = 0;
    bool filled = false;       // else it is an output
    double low = 0, high = 1;  // of numbers: from low to high
    std::uint32_t below = 0;   // of integers; 0: all 32 bits
    bool operator==(const Buffer&) const = default;
  };
  using Argument = std::variant<Buffer, std::uint32_t, std::int32_t, float, double>;
  std::string file;     // a path; empty: of the library
  std::string library;  // its name there
  std::string function;
  std::vector<Argument> arguments;
  bool operator==(const DeviceCode&) const = default;
};

struct Kernel {
  std::string name;
  Origin origin;
  Dim3 grid, block, cluster;
  std::uint32_t registers_per_thread = 0;
  std::uint32_t static_shared_memory_bytes = 0;
  std::uint32_t dynamic_shared_memory_bytes = 0;
  bool idempotent = false;  // may be killed and run again from its inputs
  bool ptx = false;         // its program brings its PTX, by which a service can make it persistent

  std::optional<Time> solo_time;  // first block's start to last block's end, alone on the whole GPU
  /// The number of SMs that the program had when that and its launches' solo times were measured: libraries
  /// choose their kernels by it.  0: all.
  std::uint32_t solo_time_sms = 0;
  std::map<std::uint32_t, Time> solo_time_by_sms;  // by the number of SMs to which it is confined
  /// By the number of SMs: for how much of its solo time there its blocks are not on them, where that is known.
  /// Set by `sim validate` only, and not part of trace files.
  std::map<std::uint32_t, Time> places_free_by_sms;
  /// On the whole GPU as a persistent kernel, by the number of workers on each SM.
  std::map<std::uint32_t, Time> persistent_time_by_ctas;
  /// As it runs where a policy may stop it: on the whole GPU, by workers that take blocks until none is left,
  /// or by one for each few blocks.
  struct Stoppable {
    Time time{};
    bool workers_stay = false;
    bool operator==(const Stoppable&) const = default;
  };
  std::optional<Stoppable> stoppable;
  std::vector<Time> block_times;  // empty: unknown; one: every block's; else one per block, in order
  Counters counters;
  std::optional<DeviceCode> code;

  Time places_free(std::uint32_t sms) const {
    const auto found = places_free_by_sms.find(sms);
    return found == places_free_by_sms.end() ? Time{} : found->second;
  }
  std::uint64_t blocks() const { return grid.count(); }
  std::uint32_t threads_per_block() const { return static_cast<std::uint32_t>(block.count()); }
  std::uint32_t shared_memory_bytes() const {
    return static_shared_memory_bytes + dynamic_shared_memory_bytes;
  }
  bool operator==(const Kernel&) const = default;
};

}  // namespace corun
