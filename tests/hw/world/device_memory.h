// Device memory of the played GPU: ranges of addresses, what is behind them, and one number for what is in it.  What is allocated goes
// with its context, and pinned memory of the host too; what is created and mapped is the process's until it is given back.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "tests/hw/world/machine.h"

namespace corun::world {

/// Null: there is none of that name.
void* memory_function(std::string_view name);

class DeviceMemory {
 public:
  static DeviceMemory& the() { return *the_; }
  DeviceMemory() { the_ = this; }
  ~DeviceMemory() { the_ = nullptr; }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  struct Physical {
    int pid = 0;
    std::uint64_t bytes = 0, content = 0;
  };
  struct Range {
    int pid = 0;
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle behind = 0;  // 0: nothing
    bool in_use = false;                      // the program's launches may use it
    bool of_context = false;                  // allocated
    bool open = false;                        // the GPU may use what is behind it
  };
  /// Null: there is nothing behind it.
  Physical* at(CUdeviceptr address);
  /// The same, by the GPU.
  Physical* used_at(CUdeviceptr address);
  /// Whether all that the program's launches may use is there.
  bool all_there(int pid) const;
  void context_ended(int pid);
  void ended(int pid);
  std::uint64_t used() const;
  bool has_any(int pid) const;

  /// Of programs, that waited for memory.
  struct Call {
    int pid;
    Ns from, until;
  };
  std::vector<Call> calls;
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUmemGenericAllocationHandle, Physical> physical;
  struct Pinned {
    int pid = 0;
    std::uint64_t content = 0;
  };
  std::map<void*, Pinned> pinned;
  std::uint64_t next = 1, cap = ~std::uint64_t{0};  // for what is made as it is asked for

 private:
  static DeviceMemory* the_;
};

}  // namespace corun::world
