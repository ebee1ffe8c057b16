// A GPU that is played, and its driver: streams, events, captures, graphs, contexts, and memory of the host that the GPU writes.  All
// kernels run beside each other.  What programs launch is in a ledger, against which it holds what runs.
//
// A stream or an event of a context that has ended is stale, and so is memory that was registered in it: who uses one is told, and
// the world is wrong.  Leaves out: green contexts, what is in modules, blocking streams, device memory (device_memory.h).
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/hw/world/machine.h"

namespace corun::world {

/// Of a program, as it sees it.
struct Launch {
  int pid = 0;
  std::uint32_t stream = 0, number = 0;  // of the stream, from 1
  Ns asked{}, answered = kForever, begun = kForever, ended = kForever;
  CUresult said = CUDA_SUCCESS;
  bool captured = false, dropped = false;  // with its process, or its context
  int runs = 0;
  int priority = 0;  // that it was launched with
};

class Gpu {
 public:
  explicit Gpu(Machine& machine);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  static Gpu& the() { return *the_; }

  /// The calling thread is about to make it.
  std::uint32_t asks(std::uint32_t stream, bool captured = false);
  void answered(std::uint32_t launch, CUresult said);
  void has_priority(int priority) { ledger_[machine.thread()->launch].priority = priority; }
  const std::vector<Launch>& ledger() const { return ledger_; }
  /// What of it is not done.
  std::size_t unfinished(int pid) const;
  /// How long all kernels of others would take, one behind the other.
  Ns given_to_others(int pid) const;

  /// The driver is to refuse this call, as asked for.
  bool fails();
  void fail_in(std::uint32_t calls) { fail_in_ = calls; }
  /// So far.
  std::uint64_t refused() const { return refused_; }
  /// What the GPU waits for may have come.
  void look();
  void ended(const Process& process);

  // Of the driver, below.
  struct Capture;
  struct Op {
    enum class What : std::uint8_t { kernel, record, wait, write, wait_value, call } what = What::kernel;
    std::uint32_t launch = 0;
    Ns takes{};
    std::uint32_t event = 0;
    std::uint64_t ticket = 0;
    CUdeviceptr at = 0;
    std::uint32_t value = 0;
    std::function<void()> call{};
  };
  struct Stream {
    int pid = 0;
    std::uint32_t life = 0;
    int priority = 0;
    bool gone = false, busy = false;
    std::deque<Op> ops{};
    Capture* capture = nullptr;
    std::uint64_t turn = 0;
  };
  struct Event {
    int pid = 0;
    std::uint32_t life = 0;
    std::uint64_t recorded = 0, done = 0;
    Capture* capture = nullptr;
    std::uint32_t of = 0;  // the stream that it was recorded in, in a capture
  };
  struct Capture {
    std::uint32_t origin = 0;
    std::set<std::uint32_t> open{};  // streams of which the origin does not depend
    Ns takes{};
    std::uint32_t kernels = 0;
    bool foreign = false;  // it has what the program did not ask for
  };
  struct Graph {
    int pid = 0;
    Ns takes{};
    std::uint32_t kernels = 0;
  };
  struct Context {
    bool there = false;
    std::uint32_t life = 1;
    std::uint32_t common = 0;  // the null stream
    std::map<CUdeviceptr, std::size_t> registered{};
  };
  Context& context();
  Stream* stream(CUstream handle, std::uint32_t* number = nullptr);
  Event* event(CUevent handle);
  CUresult enqueue(CUstream stream, Op op);
  CUstream new_stream(int priority);
  CUresult capture_end(CUstream stream, CUgraph* graph);
  CUgraph add(const Graph& graph);
  void end_context(int pid);
  bool idle(int pid, const Stream* one = nullptr) const;
  static CUstream handle_of_stream(std::uint32_t number) { return reinterpret_cast<CUstream>(std::uintptr_t{0x10000} + std::uintptr_t{16} * number); }
  std::vector<std::unique_ptr<Event>> events;
  std::vector<std::unique_ptr<Capture>> captures;
  std::vector<Graph> graphs;
  Machine& machine;
  bool waits = true;  // for values in memory
  std::set<int> refuses_reset;  // the next one of these processes
  std::uint32_t modules = 0;  // so far

 private:
  bool go(std::uint32_t number);
  void begin_kernel(std::uint32_t number, const Op& op);
  void stale(const char* what);

  static Gpu* the_;
  std::vector<Launch> ledger_{1};
  std::map<std::pair<int, std::uint32_t>, std::vector<std::uint32_t>> of_stream_;  // launches that are not captured, in their order
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<int, Context> contexts_;
  std::set<std::uint32_t> full_;  // streams with something in them
  std::uint32_t fail_in_ = 0;
  std::uint64_t refused_ = 0;
  bool looks_ = false;
};

}  // namespace corun::world
