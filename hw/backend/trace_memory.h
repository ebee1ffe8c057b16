// The device memory that a trace's clients allocate, of a size that the policy may exceed: each buffer of a
// client has one range of addresses for the whole run, and physical memory comes and goes behind it, so that
// the pointers that a kernel was given stay right while the contents are on the host.
//
// A client's kernels have their inputs and outputs inside the buffers that their launches use; the rest of a
// buffer holds a pattern.  With checks on, what comes back from the host is compared with what left.
//
// Leaves out: what a program would copy into its buffers (they are filled when they are allocated), and the
// memory of copies, which have some of their own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hw/kernels/workbench.h"
#include "policies/api/backend.h"
#include "traces/model/trace.h"

namespace corun::hw {

class TraceMemory {
 public:
  /// moves: buffers are to be checkpointed, so that pinned memory for all of them is set aside.  Throws
  /// InputError if the trace's buffers, up to `capacity`, do not fit what the GPU has free.
  TraceMemory(const Trace& trace, std::uint64_t capacity, bool moves, bool checks, Workbench& work);
  ~TraceMemory();
  TraceMemory(const TraceMemory&) = delete;
  TraceMemory& operator=(const TraceMemory&) = delete;

  /// Whether the client's program allocates any.
  bool has(std::uint32_t client) const { return !clients_[client].empty(); }

  /// A kernel's buffers within those that the operation uses, filled anew whenever these are allocated; `key`
  /// is the same for operations that share them.  Throws InputError if they do not fit.
  struct Placed {
    std::uint32_t key = 0;
    std::vector<DevicePointer> at;
  };
  Placed place(std::uint32_t client, OpId op, const Kernel& named, const LibraryKernel& kernel);
  /// To be filled with the inputs of this seed.
  void fill_for(std::uint32_t key, Instance& instance, std::uint32_t seed);

  /// Instances with a part in the buffer.
  std::vector<std::uint32_t> instances_in(BufferId buffer) const;
  std::uint32_t client_of(BufferId buffer) const;
  /// All parts of the instance are on the device.
  bool complete(std::uint32_t key) const;

  Outcome allocate(const LaunchView& allocation);
  Outcome checkpoint(BufferId buffer);
  Outcome restore(BufferId buffer);
  void release(BufferId buffer);
  /// What a kernel in this stream uses is filled before it starts.
  void before(Stream s, std::span<const BufferId> uses);

  bool moving() const { return moving_ != 0; }
  /// Moves that have ended.
  void look(std::vector<Notice>& notices);
  std::string what_moves() const;
  /// Waits for what is under way, and brings back all that is on the host, whatever the capacity.
  void bring_back();

  std::uint64_t moves_compared() const { return compared_; }
  /// Moves after which a buffer was not what it had been, one line each.
  const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  enum class State : std::uint8_t { absent, device, to_host, host, to_device };
  struct Part {  // of an instance
    std::uint32_t region, buffer;
    std::uint64_t offset;
  };
  struct Set {  // an instance, or several launches of a kernel with the same uses
    std::uint32_t client, kernel;
    std::vector<std::uint32_t> uses;  // regions
    std::vector<Part> parts;
    Instance* instance = nullptr;
    std::uint32_t seed = 0;
  };
  struct Region {  // of a client: the buffers of its program, or the one that it holds throughout
    std::uint32_t client = 0;
    std::string name;
    std::uint64_t bytes = 0, least = 0;  // of its allocations: the most, the least
    std::uint64_t placed = 0;            // taken by instances
    std::size_t range = 0, backed = 0;
    DevicePointer at = 0;
    State state = State::absent;
    HostMemory host;
    BufferId buffer;
    std::uint64_t now_bytes = 0, digest = 0;
    Event filled;
  };

  std::uint32_t region_of(BufferId buffer) const { return region_of_.at(buffer.value); }
  std::vector<std::uint32_t> used_by(std::uint32_t client, OpId op) const;
  void back(Region& r);
  void unback(Region& r);
  volatile std::uint32_t& word(std::uint32_t region) const {
    return static_cast<volatile std::uint32_t*>(words_.host)[region];
  }
  void free_all() noexcept;

  const Trace& trace_;
  Workbench& work_;
  Driver& driver_;
  bool moves_, checks_;
  std::vector<Region> regions_;
  std::vector<std::vector<std::uint32_t>> clients_;  // regions by client: its program's, then its own
  std::vector<std::optional<std::uint32_t>> first_;  // by client: the region of memory_bytes
  std::vector<Set> sets_;
  std::vector<std::uint32_t> region_of_;  // by BufferId
  Stream fill_, out_, in_;
  HostMemory words_;
  std::uint32_t moving_ = 0, generation_ = 0;
  std::uint64_t compared_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace corun::hw
