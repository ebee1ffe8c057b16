// A real GPU as a Backend: library kernels for a trace's, each client with buffers of its own, decisions as
// streams, green contexts and persistent kernels, and notices read from memory that the GPU writes.
//
// Launches and copies go through the host's queue (policies/session/host_queue.h).
//
// Leaves out: contexts in turns, graphs (a request is issued call by
// call).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hw/backend/measured_backend.h"
#include "hw/backend/trace_memory.h"
#include "hw/kernels/workbench.h"
#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "policies/session/host_queue.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun::hw {

struct CudaOptions {
  Time patience = std::chrono::seconds(20);
  const std::atomic<bool>* interrupted = nullptr;
  bool part_of_gpu = false;  // this process sees fewer SMs than there are
  bool verify = false;       // results before their memory is given back, and what comes back from the host
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

class CudaBackend final : public MeasuredBackend {
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
  Outcome pad(const decide::LaunchPadded& d, const LaunchView& launch, const LaunchView& padding,
              std::span<const LaunchId> follows) override;
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;
  void freed(BufferId buffer) override;

  void start() override;
  void close() override;
  /// After close(), without allocations in the trace: as before start(), but what a first launch waits for
  /// (streams, partitions, code on the device) is there.
  void reset();
  /// Where it writes from now on.
  void record_to(Timeline& timeline) { timeline_ = &timeline; }
  /// When its time began, on the driver's clock.
  Time epoch() const { return epoch_; }
  /// Until reset(): outputs are cleared before a launch begins and compared when it has ended, so that none
  /// passes for what an earlier one made.  Times are then no measurement.
  void check_each_launch() { checks_each_ = true; }
  std::vector<std::string> verify() override;
  std::uint64_t kernels_verified() const override { return verified_; }
  std::uint64_t moves_verified() const override { return memory_->moves_compared(); }
  std::uint64_t blocks_run() const override { return blocks_; }

 private:
  static constexpr std::uint32_t kControls = 1024;
  // Workers sent for seats that stay empty, because other launches' workers have the room, come again after
  // this long, twice as long each time that they have found none.
  static constexpr Time kLeastPatience = std::chrono::microseconds(50),
                        kMostPatience = std::chrono::microseconds(400);

  struct Code {  // of a kernel of the trace
    const LibraryKernel* kernel = nullptr;
    Way sized;      // workers that stay, whose number can be changed
    Way whole;      // the same, where all chunks are taken at once
    Way seated;     // workers that stay, whose number on each SM can be changed
    Way stoppable;  // as many as the GPU likes
  };
  struct Buffers {                  // of a client's kernel
    Instance* instance = nullptr;   // the workbench's, or
    std::unique_ptr<Instance> own;  // with its data in buffers of the trace
    std::uint64_t expected = 0, launches = 0;
  };
  /// One grid or copy that is on the device's queue, and how the host learns of its end.
  struct Piece {
    std::uint32_t ticket = 0;  // index of its word
    std::uint32_t number = 0;  // grids that may run at once have streams of their own
    bool ended = false;
  };
  struct InFlight {  // a launch or copy that the policy has handed over and that has not ended
    enum class State : std::uint8_t { waiting, on_device, over } state = State::waiting;
    LaunchView launch;
    std::vector<LaunchId> follows;
    bool is_copy = false;
    std::int32_t priority = 0;
    std::vector<std::uint32_t> groups;  // of SMs; empty: all
    decide::CtasPerSm per_sm;
    bool controlled = false;         // it takes its blocks from a counter
    const Way* way = nullptr;        // of the workers; null: plain, or padded
    const Padded* padded = nullptr;  // as one grid with the launch at `padding`
    std::uint32_t padding = 0, padded_sms = 0, padded_on_each = 0;
    bool pads = false;
    std::uint32_t workers = 0;               // launched so far
    std::uint32_t seats_taken = 0;           // when more workers were last sent for seats
    Time sent{}, patience = kLeastPatience;  // and how long they are waited for
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
  struct Tail {  // of a client's stream: what was last handed over
    Stream stream;
    Event ended;
  };
  using StreamKey = std::tuple<std::uint32_t, std::uint32_t, std::int32_t, std::vector<std::uint32_t>>;

  Outcome launch(const decide::Launch& d, const LaunchView& l, std::span<const LaunchId> follows);
  Outcome resize(const decide::Resize& d, const LaunchView& l);
  Outcome preempt(const decide::Preempt& d, const LaunchView& l, std::span<const LaunchId> behind);
  Outcome query(const LaunchView& l);
  Outcome checkpoint(BufferId buffer);
  void check_results_in(BufferId buffer);
  void check_results(std::uint32_t client, Buffers& b);
  void begin_check(const InFlight& f, Stream s);
  void end_check(const InFlight& f);
  Buffers& buffers_of(const LaunchView& l) {
    return buffers_[l.client.value].at(key_of_op_[l.client.value][l.op.value]);
  }

  /// Whether its launches may be stopped.  Those of real-time clients never are: they are plain kernels.
  bool stoppable(const LaunchView& l) const {
    return preemptive_ && trace_.clients[l.client.value].service_class == ServiceClass::best_effort;
  }
  void clear_controls();
  std::uint32_t places_for(const InFlight& f) const;
  Tail& tail(const LaunchView& l) { return tails_[l.client.value][l.stream.value]; }
  void begin_record(InFlight& f) const;
  std::uint32_t add(InFlight f);
  InFlight* find(LaunchId id);
  void hold(InFlight f);
  void submit(InFlight& f);
  void submit_workers(InFlight& f, Stream s, std::uint32_t workers);
  void end_of_piece(InFlight& f, Stream s, std::uint32_t number = 0);
  void send_workers(InFlight& f, std::uint32_t workers);
  void fill_seats(InFlight& f);
  void look(std::vector<Notice>& notices);
  bool pieces_ended(InFlight& f);
  bool left_unseated(const InFlight& f) const;
  void submit_again(InFlight& f);
  void over(std::uint32_t index, std::vector<Notice>& notices);
  void command(InFlight& f, std::uint32_t value);
  void control(InFlight& f);
  void submit_padded(InFlight& f, InFlight& g, Stream s);
  void load_padded();
  void prepare_ways(Code& code, Instance& instance, Time solo);
  std::uint64_t blocks_taken(const InFlight& f) const;
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
  volatile Progress& progress(std::uint32_t i) const {
    return static_cast<volatile Progress*>(progress_.host)[i];
  }
  void free_all();
  void check_gpu() const;
  void load_kernels();
  void release() noexcept;
  std::string what_it_waits_for() const;

  const Trace& trace_;
  Topology topology_;
  Timeline* timeline_;
  Workbench& work_;
  Driver& driver_;
  CudaOptions options_;
  bool preemptive_ = false, sizes_ = false, seats_ = false, checks_each_ = false;

  Time epoch_{}, now_{}, last_event_{};
  Event base_;
  Time base_at_{};
  Stream control_stream_;
  std::vector<Code> code_;  // by KernelId
  std::unique_ptr<TraceMemory> memory_;
  std::vector<std::map<std::uint32_t, Buffers>> buffers_;  // by client, key
  std::vector<std::vector<std::uint32_t>> key_of_op_;      // by client, OpId
  std::vector<std::string> wrong_;
  // Where each launch is checked: those that may have written, by serial.
  std::map<const Instance*, std::map<std::uint32_t, StreamId>> begun_;
  std::vector<DevicePointer> scratch_;  // by client: for copies
  std::vector<HostMemory> host_scratch_;
  HostQueue<std::uint32_t> held_{[this](LaunchId id) { return find(id) != nullptr; },
                                 [this](ClientId, std::uint32_t index) { submit(in_flight_[index]); }};
  std::vector<std::vector<Tail>> tails_;  // by client, stream
  std::vector<InFlight> in_flight_;
  std::vector<std::uint32_t> free_indices_, active_;  // of in_flight_; active: in order of launching
  std::map<std::uint32_t, std::uint32_t> index_of_;   // by LaunchId::serial
  struct Pair {
    const Padded* looping = nullptr;
    const Padded* once = nullptr;  // where that is faster; there must be room for all of the first's blocks
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Pair> padded_;  // by KernelId
  std::map<StreamKey, Stream> streams_;
  std::vector<std::uint32_t> group_of_tpc_;
  DevicePointer controls_ = 0;
  HostMemory tickets_, progress_;
  std::vector<std::uint32_t> free_tickets_, free_controls_;
  std::vector<std::uint32_t> used_controls_, clearing_;
  std::uint32_t clearing_ticket_ = 0;
  std::vector<Event> events_, free_events_;
  std::vector<Notice> told_;  // to be told at the next wait
  std::uint64_t verified_ = 0, blocks_ = 0;
};

}  // namespace corun::hw
