// What the backend asks of a GPU driver, every call checked: a failure is a DriverError that names the call.
// The real one is cuda_driver.h; tests have one that plays a GPU in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::hw {

class DriverError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using DevicePointer = std::uint64_t;

template <class Tag>
struct Handle {
  std::uint64_t value = 0;
  explicit operator bool() const { return value != 0; }
  bool operator==(const Handle&) const = default;
};
struct StreamTag;  // ours, not that of the model's ids
struct EventTag;
struct FunctionTag;
struct PartitionTag;
struct GraphTag;
using Stream = Handle<StreamTag>;
using Event = Handle<EventTag>;
using Function = Handle<FunctionTag>;
using Partition = Handle<PartitionTag>;  // of the SMs; 0: all of them
using Graph = Handle<GraphTag>;          // ready to be launched

struct DeviceFacts {
  std::string name, driver;  // "NVIDIA H200", "CUDA 13.0"
  std::uint32_t sms = 0, capability_major = 0, capability_minor = 0;
  std::uint32_t sm_clock_khz = 0, memory_clock_khz = 0;
  std::uint64_t memory_bytes = 0, l2_bytes = 0;
  std::int32_t highest_priority = 0;  // numerically least
  std::uint32_t copy_engines = 0;
  struct Sm {
    std::uint32_t threads = 0, blocks = 0, registers = 0, shared_bytes = 0;
    std::uint32_t block_threads = 0, block_registers = 0, block_shared_bytes = 0;  // most of one block
    std::uint32_t reserved_shared_bytes = 0;                                       // of each block
  } sm;
};

struct FunctionFacts {
  std::uint32_t registers = 0, static_shared_bytes = 0, local_bytes = 0, most_threads = 0;
};

/// Host memory that the GPU reads and writes.
struct HostMemory {
  void* host = nullptr;
  DevicePointer device = 0;
  std::size_t bytes = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual DeviceFacts facts() const = 0;
  virtual Time now() = 0;    // of a monotonic clock
  virtual void pause() = 0;  // between two looks at memory that the GPU writes

  virtual Function load(std::string_view code, const std::string& entry) = 0;
  virtual FunctionFacts facts(Function f) = 0;
  virtual void allow_shared_memory(Function f, std::uint32_t dynamic_bytes) = 0;
  virtual std::uint32_t blocks_per_sm(Function f, std::uint32_t threads, std::uint32_t dynamic_bytes) = 0;

  /// The SMs come in groups, the smallest that can be partitioned off; this many.
  virtual std::uint32_t sm_groups() = 0;
  virtual Partition partition(std::span<const std::uint32_t> groups) = 0;
  virtual void destroy(Partition p) = 0;
  virtual Stream stream(std::int32_t priority, Partition p) = 0;
  virtual void destroy(Stream s) = 0;

  virtual void launch(Function f, Dim3 grid, Dim3 block, std::uint32_t dynamic_bytes, Stream s,
                      std::span<void* const> parameters) = 0;
  /// A 4-byte store by the GPU, in the stream's order, after all that went before it.
  virtual void write(Stream s, DevicePointer at, std::uint32_t value) = 0;
  virtual void write(Stream s, std::span<const std::pair<DevicePointer, std::uint32_t>> all) = 0;
  virtual void copy_to_device(Stream s, DevicePointer to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(Stream s, void* to, DevicePointer from, std::size_t bytes) = 0;
  virtual void copy_on_device(Stream s, DevicePointer to, DevicePointer from, std::size_t bytes) = 0;
  virtual void fill(Stream s, DevicePointer at, std::uint8_t value, std::size_t bytes) = 0;
  /// What `calls` puts into the stream, to be launched as a whole.
  virtual Graph capture(Stream s, const std::function<void()>& calls) = 0;
  virtual void launch(Graph g, Stream s) = 0;
  virtual void destroy(Graph g) = 0;
  virtual void synchronize(Stream s) = 0;
  virtual bool idle(Stream s) = 0;

  virtual Event event() = 0;
  virtual void destroy(Event e) = 0;
  virtual void record(Event e, Stream s) = 0;
  virtual void wait(Stream s, Event e) = 0;
  virtual double milliseconds(Event from, Event to) = 0;

  /// Addresses without memory, and memory behind them; sizes in multiples of the unit.
  virtual std::size_t memory_unit() = 0;
  virtual std::uint64_t memory_free() = 0;
  virtual DevicePointer reserve(std::size_t bytes) = 0;
  virtual void unreserve(DevicePointer at, std::size_t bytes) = 0;
  virtual void back(DevicePointer at, std::size_t bytes) = 0;
  virtual void unback(DevicePointer at, std::size_t bytes) = 0;

  virtual DevicePointer allocate(std::size_t bytes) = 0;
  virtual void free(DevicePointer p) = 0;
  virtual HostMemory allocate_host(std::size_t bytes) = 0;
  virtual void free(const HostMemory& m) = 0;
};

}  // namespace corun::hw
