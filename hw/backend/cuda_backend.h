// A real GPU as a Backend: library kernels for a trace's, each client with buffers of its own, decisions as
// streams, green contexts and persistent kernels, and notices read from memory that the GPU writes.
//
// A launch that its policy may stop waits on the host until few are before it in its stream, so that taking a
// stream off the GPU costs the same however long its queue is.
//
// Leaves out: padding, contexts in turns, device memory as a resource, graphs (a request is issued call by
// call).
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hw/kernels/workbench.h"
#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun::hw {

struct CudaOptions {
  std::uint32_t device_queue = 3;  // of a stream, under a policy that preempts
  Time patience = std::chrono::seconds(20);
  const std::atomic<bool>* interrupted = nullptr;
};

/// The run was ended from outside.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// The GPU stopped making progress.
class Stalled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What this backend can do, and can ever do.
CapabilitySet cuda_capabilities();

class CudaBackend final : public Backend {
 public:
  /// Allocates, compiles and runs each kernel once, plainly, for the results that it must have.  Throws
  /// InputError for a kernel that is not in the library or has another shape there, for a GPU that is not the
  /// trace's, and for what NVIDIA does not allow.
  CudaBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
              Workbench& work, CudaOptions options);
  ~CudaBackend() override;

  const Topology& topology() const override { return topology_; }
  Time now() const override { return now_; }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch,
                std::span<const LaunchId> follows) override;
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;

  /// Starts the clock: time 0 is now.
  void start();
  /// Takes everything off the GPU and waits until it is.
  void close();
  /// After close(): what is wrong with the results of kernels that ended, one line each.
  std::vector<std::string> verify();
  std::uint64_t kernels_verified() const { return verified_; }
  std::uint64_t blocks_run() const { return blocks_; }

 private:
  static constexpr std::uint32_t kControls = 1024;

  struct Code {  // of a kernel of the trace
    const LibraryKernel* kernel = nullptr;
    Taking taking;
    const Persistent* persistent = nullptr;
  };
  struct Buffers {  // of a client's kernel
    std::unique_ptr<Instance> instance;
    std::uint64_t expected = 0, launches = 0;
  };
  /// One grid or copy that is on the device's queue, and how the host learns of its end.
  struct Piece {
    std::uint32_t ticket = 0;  // index of its word
    bool ended = false;
  };
  struct Flight {
    enum class State : std::uint8_t { waiting, on_device, reading, over } state = State::waiting;
    LaunchView launch;
    std::vector<LaunchId> follows;
    bool is_copy = false;
    std::int32_t priority = 0;
    std::vector<std::uint32_t> groups;  // of SMs; empty: all
    decide::CtasPerSm per_sm;
    std::uint32_t workers = 0;  // 0: plain; else launched so far
    std::uint32_t asked_to_leave = 0, commands = 0;
    LaunchParameters parameters;
    std::uint32_t control = 0;
    bool stopping = false, last_told = false;
    std::vector<Piece> pieces;
    Stream stream;
    Event started, ended;
    KernelRecord record;
    CopyRecord copied;
  };
  struct Lane {                         // a client's stream
    std::deque<std::uint32_t> waiting;  // flights, on the host
    std::vector<std::uint32_t> device;  // in order
    Stream last;
    Event last_ended;
  };
  using StreamKey = std::tuple<std::uint32_t, std::uint32_t, std::int32_t, std::vector<std::uint32_t>>;

  Outcome launch(const decide::Launch& d, const LaunchView& l, std::span<const LaunchId> follows);
  Outcome resize(const decide::Resize& d, const LaunchView& l);
  Outcome preempt(const decide::Preempt& d, const LaunchView& l, std::span<const LaunchId> behind);
  Outcome query(const LaunchView& l);

  Lane& lane(const LaunchView& l) { return lanes_[l.client.value][l.stream.value]; }
  std::uint32_t add(Flight flight);
  Flight* find(LaunchId id);
  void pump(Lane& lane);
  bool may_go(const Flight& f, const Lane& lane) const;
  void submit(Flight& f, Lane& lane);
  void submit_workers(Flight& f, Stream s, std::uint32_t workers);
  void end_of_piece(Flight& f, Stream s);
  void look(std::vector<Notice>& notices);
  bool pieces_ended(Flight& f);
  void over(std::uint32_t index, std::vector<Notice>& notices);
  void command(Flight& f, std::uint32_t value);
  std::uint64_t blocks_taken(const Flight& f) const;
  Stream stream_for(const LaunchView& l, std::int32_t priority, const std::vector<std::uint32_t>& groups);
  std::vector<std::uint32_t> groups_of(const TpcMask& mask) const;
  Time gpu_time(Event e);
  Event take_event();
  std::uint32_t take_ticket();
  std::uint32_t take_control();
  DevicePointer control_at(std::uint32_t i) const { return controls_ + i * sizeof(Control); }
  volatile std::uint32_t& ticket(std::uint32_t i) const {
    return static_cast<volatile std::uint32_t*>(tickets_.host)[i];
  }
  volatile std::uint32_t& progress(std::uint32_t i) const {
    return static_cast<volatile std::uint32_t*>(progress_.host)[i];
  }
  void check_gpu() const;
  void map_groups();
  void load_kernels();
  void release() noexcept;
  std::string what_it_waits_for() const;

  const Trace& trace_;
  Topology topology_;
  Timeline& timeline_;
  Workbench& work_;
  Driver& driver_;
  CudaOptions options_;
  bool preemptive_ = false;

  Time epoch_{}, now_{}, last_event_{};
  Event base_;
  Time base_at_{};
  Stream control_stream_;
  std::vector<Code> code_;                                 // by KernelId
  std::vector<std::map<std::uint32_t, Buffers>> buffers_;  // by client, KernelId
  std::vector<DevicePointer> scratch_;                     // by client: for copies
  std::vector<HostMemory> host_scratch_;
  std::vector<std::vector<Lane>> lanes_;  // by client, stream
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_flights_, active_;  // active: in order of launching
  std::map<std::uint32_t, std::uint32_t> flight_of_;  // by LaunchId::serial
  std::map<StreamKey, Stream> streams_;
  std::map<std::vector<std::uint32_t>, Partition> partitions_;
  std::vector<Stream> spare_streams_;  // for further instances
  std::size_t next_spare_ = 0;
  std::vector<std::uint32_t> group_of_tpc_;
  DevicePointer controls_ = 0;
  HostMemory tickets_, progress_, read_back_;
  std::vector<std::uint32_t> free_tickets_, free_controls_;
  struct Clearing {
    std::uint32_t control, ticket;
  };
  std::vector<Clearing> clearing_;
  std::vector<Event> events_, free_events_;
  std::vector<Notice> told_;  // to be told at the next wait
  std::uint64_t verified_ = 0, blocks_ = 0;
};

}  // namespace corun::hw
