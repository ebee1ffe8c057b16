// A program's side of `sim serve`: its connection to the service, what it says there, and the numbers of its streams and
// kernels.  A launch waits for its grant in its own thread, or, where the service lets the host run ahead, on the GPU.  The
// order of a stream is kept by a lock until it is launched, and where launches wait on the GPU the order of all: what waits
// holds up what comes behind it in a hardware channel, which must not be granted sooner.
// A program whose service is gone, or stands still, goes on as if there were none, and joins again when one is there; a thread of the
// library lets go what waits.  A forked child has nothing of it.  What is gone with a context is forgotten.
//
// Leaves out: what a launch is (hooks.cpp), and devices but the service's.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hw/live/system.h"
#include "hw/live/wire.h"
#include "hw/shim/end_marker.h"
#include "hw/shim/join.h"

namespace corun::live {

struct Work {
  const void* key = nullptr;  // the function or the graph
  bool graph = false;
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  bool operator==(const Work&) const = default;
};

/// A stream as the program knows it; `thread`: of the default stream of each thread, else 0.
struct StreamKey {
  CUstream stream = nullptr;
  std::uint64_t thread = 0;
  bool operator==(const StreamKey&) const = default;
};

class Client;

/// The program's client, for its hooks.
struct Steered {
  std::atomic<Client*> now{nullptr};
  std::atomic<Client*> latest{nullptr};  // also while its service is gone; null: none, or it is not to join again
};

class Client {
 public:
  /// Null: this program is not steered, or not now.
  static Client* get() { return os::of_process<Steered>().now.load(std::memory_order_acquire); }
  /// Also while its service is gone.
  static Client* last() { return os::of_process<Steered>().latest.load(std::memory_order_acquire); }
  /// False: its service is gone, whichever came after it.
  bool joined() const { return get() == this; }
  /// The program sees no other GPU.
  bool only_gpu() const { return only_gpu_; }
  /// Of the program's GPUs the service's.
  CUdevice device() const { return device_; }
  /// Where the environment names a service, and once.  Says on standard error why it could not.
  static void connect();

  bool asks() const { return memory_->gate.load(std::memory_order_relaxed) == Gate::asks; }
  std::int32_t standing_priority() const { return memory_->priority.load(std::memory_order_relaxed); }
  /// Of a launch that does not ask.
  const Terms& standing() const;
  void count(const Work& work) {
    (work.graph ? memory_->graphs : memory_->launches).fetch_add(1, std::memory_order_relaxed);
  }
  void count_counted() { memory_->counted.fetch_add(1, std::memory_order_relaxed); }
  void count_unsteered() { memory_->unsteered.fetch_add(1, std::memory_order_relaxed); }

  struct Stream {
    os::Mutex order;
    std::uint32_t index = 0;
    std::atomic<std::uint32_t> launched{0}, marked{0};  // so far; the last whose end the GPU will say
    EndMarker end_marker;
  };
  /// Null: there are too many.
  Stream* stream(const StreamKey& key);
  /// The program destroys it: another at its address has a number of its own, as attempts of the two may not share what they count in.
  void destroyed(CUstream stream);
  /// A graph that is destroyed, or kernels whose code is: another may be at its address.
  void forget_graph(const void* graph);
  void forget_kernels();
  /// Waits a while for what the GPU has of a context that is to be destroyed.  Afterwards nothing of it is on the GPU, nor will be.
  void context_ends(CUcontext context);
  void context_ended(CUcontext context);
  /// To be held from ask() until the launch and what is behind it are with the driver.
  os::Mutex& order(Stream& stream) { return in_flight() != 0 ? order_ : stream.order; }

  /// Whether kernels are to be made that can be stopped, and how often a launch may then be on the GPU; 0: it is to go plainly.
  bool persistent() const { return memory_->persistent.load(std::memory_order_relaxed) != 0 && in_flight() != 0; }
  std::uint32_t attempts(const Work& work) {
    return std::min(memory_->attempts[number_of(work)].load(std::memory_order_relaxed), kMostAttempts);
  }
  /// All attempts but the last keep to quotas.
  bool sized() const { return memory_->persistent.load(std::memory_order_relaxed) == kSized; }
  void count_stoppable() { memory_->stoppable.fetch_add(1, std::memory_order_relaxed); }
  void count_made(bool made) { (made ? memory_->made : memory_->refused).fetch_add(1, std::memory_order_relaxed); }
  void count_unreadable() { memory_->unreadable.fetch_add(1, std::memory_order_relaxed); }
  /// The groups of SMs that parts of the GPU are made of, by their TPCs: the service can say then how many SMs a part has.
  void has_groups(std::span<const std::uint32_t> tpcs_of_group);
  bool knows_groups() const { return memory_->groups.load(std::memory_order_relaxed) != 0; }

  /// Asks for the stream's next launch, and waits until the driver may have it.  False: it has to wait on the GPU.
  bool ask(Stream& stream, const Work& work, std::uint32_t attempts = 0);
  /// For the launch asked for last: the driver cannot let the GPU wait.
  void wait_for_grant(Stream& stream);
  /// Of the launch asked for last.
  Terms terms(const Stream& stream) const;
  /// Where the GPU is to write the number of a launch that it has done, and where it finds that of the last that may go:
  /// addresses on the device, 0 if there are none.
  CUdeviceptr ended(const Stream& stream);
  CUdeviceptr granted(const Stream& stream) const;
  /// Of launches that can be stopped, as Memory::Words has them.
  CUdeviceptr resumed(const Stream& stream) const;
  CUdeviceptr orders(const Stream& stream) const;
  CUdeviceptr report(const Stream& stream) const;
  CUdeviceptr quotas(const Stream& stream) const;
  /// The driver refused the launch asked for last.
  void failed(const Stream& stream);
  void waits();

  /// False: nobody hears it any more.
  bool say(const Message& message);
  bool service_is_gone();

 private:
  explicit Client(const Joined& joined);
  static void in_child();
  void begin();
  std::uint32_t in_flight() const { return memory_->in_flight.load(std::memory_order_relaxed); }
  bool has_grant(const Stream& stream, std::uint32_t number) const;
  void wait_until_granted(const Stream& stream, std::uint32_t number);
  void watch();
  void let_go();
  bool all_have_ended();
  void leave(const char* why);
  bool map();
  template <class What>
  void each_of(CUcontext context, What what);
  std::uint32_t number_of(const Work& work);
  std::string describe(KernelEntry& entry, const Work& work) const;

  int socket_;
  Memory* memory_;
  CUdevice device_;
  bool only_gpu_;
  std::atomic<bool> left_{false};
  os::Mutex tables_;
  std::unordered_map<CUstream, std::unordered_map<std::uint64_t, Stream*>> streams_;
  Stream numbered_[kStreams];
  std::uint32_t used_ = 0;
  std::vector<std::uint32_t> retired_;  // numbers of streams that were destroyed
  std::atomic<std::uint32_t> destroyed_{0};
  struct Hash {
    std::size_t operator()(const Work& work) const;
  };
  std::unordered_map<Work, std::uint32_t, Hash> kernels_;
  std::vector<std::string> described_;                              // by kernel number
  std::map<std::string, std::vector<std::uint32_t>> forgotten_;     // numbers that the next one of the same description takes over
  std::atomic<std::uint32_t> forgets_{0};
  os::Mutex mapping_;
  std::atomic<bool> mapped_{false};
  CUdeviceptr on_device_ = 0;
  os::Mutex order_, sending_;
};

}  // namespace corun::live
