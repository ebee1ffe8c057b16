// A program's side of `sim serve`: its connection to the service, its mailboxes, and the numbers of its streams and kernels.
// A launch waits in its own thread for its grant; the stream's order is kept by a lock on the stream until it is launched.
// A program whose service is gone, and a forked child, go on as if there were none.
//
// Leaves out: what a launch is (hooks.cpp), and devices but the first that the program sees.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "hw/library/marks.h"
#include "hw/live/wire.h"

namespace corun::live {

struct Work {
  const void* key = nullptr;  // the function or the graph
  bool graph = false;
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
};

/// A stream as the program knows it; `thread`: of the default stream of each thread, else 0.
struct StreamKey {
  CUstream stream = nullptr;
  std::uint64_t thread = 0;
  bool operator==(const StreamKey&) const = default;
};

class Client {
 public:
  /// Null: this program is not steered, or no longer.
  static Client* get();
  /// Where the environment names a service, and once.  Says on standard error why it could not.
  static void connect();

  bool asks() const { return memory_->gate.load(std::memory_order_relaxed) == Gate::asks; }
  std::int32_t standing_priority() const { return memory_->priority.load(std::memory_order_relaxed); }
  /// Of a launch that does not ask.
  const Terms& standing() const;
  void count(const Work& work) {
    (work.graph ? memory_->graphs : memory_->launches).fetch_add(1, std::memory_order_relaxed);
  }
  void count_unsteered() { memory_->unsteered.fetch_add(1, std::memory_order_relaxed); }

  struct Stream {
    std::mutex order;
    std::uint32_t index = 0, launched = 0;
    Mark mark;
  };
  /// Null: there are too many.
  Stream* stream(const StreamKey& key);

  /// Waits until the launch, the next of its stream, may go.  The stream's `order` is held.
  Terms ask(Stream& stream, const Work& work);
  /// Where the GPU is to write the number of a launch that it has done: an address on the device, 0 if there is none.
  CUdeviceptr ended(const Stream& stream);
  /// The driver refused a launch that was granted.
  void failed(const Stream& stream);
  void waits();

 private:
  Client(int socket, Memory* memory);
  Mailbox& box(std::unique_lock<std::mutex>& shared);
  void post(Mailbox& box);
  bool service_is_gone();
  std::uint32_t number_of(const Work& work);

  int socket_;
  Memory* memory_;
  std::mutex tables_;
  std::unordered_map<CUstream, std::unordered_map<std::uint64_t, Stream*>> streams_;
  std::array<Stream, kStreams> numbered_;
  std::uint32_t used_ = 0;
  std::unordered_map<const void*, std::uint32_t> kernels_;
  std::once_flag mapped_;
  CUdeviceptr on_device_ = 0;
  std::atomic<std::uint32_t> threads_{0};
  std::mutex last_box_;
};

}  // namespace corun::live
