// A real GPU shared by processes: each has some of the clients and a context of its own, and the GPU gives
// the contexts turns, or, under MPS, lets them run side by side.  Decisions go to the process of their
// client, which carries them out with a CudaBackend of its own; what it tells comes back as notices and
// records, in this run's time (all processes of a machine read one host clock).
//
// A process that fails or is killed takes only its clients with it.
//
// Leaves out: decisions about anything but order (sizes, masks, stops, priorities), turns in the timeline
// (nobody is told of them), memory moved to the host.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hw/backend/cuda_backend.h"
#include "hw/process/channel.h"
#include "hw/process/child.h"
#include "hw/process/messages.h"
#include "hw/process/mps_daemon.h"

namespace corun::hw {

struct ProcessOptions {
  CudaOptions cuda;
  std::string store;  // of compiled kernels, shared by the processes; empty: none
  /// Starts a process that serves the channel; by default this program again.
  std::function<Child(const Channel&, const std::vector<std::string>& environment)> start;
};

/// Whether a policy's clients are processes.
bool wants_processes(const Requirements& needed);

class ProcessBackend final : public MeasuredBackend {
 public:
  /// Starts the processes and waits until each has set up.  Throws InputError as CudaBackend does, and where
  /// MPS is wanted and not there.
  ProcessBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
                 ProcessOptions options);
  ~ProcessBackend() override;

  const Topology& topology() const override { return topology_; }
  Time now() const override { return now_; }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch,
                std::span<const LaunchId> follows) override;
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;
  void freed(BufferId buffer) override;

  void start() override;
  void close() override;
  std::vector<std::string> verify() override { return wrong_; }
  std::uint64_t kernels_verified() const override { return verified_; }
  std::uint64_t blocks_run() const override { return blocks_; }
  std::string why_lost(ClientId client) const override { return workers_[worker_of_[client.value]].why; }

  pid_t process_of(ClientId client) const { return workers_[worker_of_[client.value]].child->pid(); }
  const MpsDaemon* mps() const { return mps_.get(); }

 private:
  struct InFlight {  // what only this side knows of a launch
    ClientId client;
    Time ready{}, submitted{};
  };
  struct Worker {
    std::vector<std::uint32_t> clients;
    std::unique_ptr<Channel> channel;
    std::optional<Child> child;
    std::string why;  // it failed
    bool gone = false, ready = false, started = false, closed = false;
    Time epoch{};                                           // of the host's clock, at its time 0
    std::unordered_map<std::uint32_t, InFlight> in_flight;  // by LaunchId::serial
  };

  void setup(Worker& w, const Gpu& gpu, bool part_of_gpu, double percentage);
  void await(Worker& w, bool Worker::* what, const char* doing);
  Outcome submit(Kind kind, const LaunchView& l, std::int32_t priority, std::span<const LaunchId> follows);
  void look(Worker& w, std::vector<Notice>& notices);
  void handle(Worker& w, const Message& m, std::vector<Notice>& notices);
  void lost(Worker& w, std::vector<Notice>& notices);
  void send(Worker& w, const Message& m);
  Time from(const Worker& w, Time t) const { return t == kNever ? kNever : t + (w.epoch - epoch_); }
  Time clock() const;
  std::string what_it_waits_for() const;

  const Trace& trace_;
  Topology topology_;
  Timeline& timeline_;
  ProcessOptions options_;
  std::unique_ptr<MpsDaemon> mps_;
  std::vector<Worker> workers_;
  std::vector<std::uint32_t> worker_of_, number_of_;        // by client: its process, its number there
  std::unordered_map<std::uint32_t, std::uint32_t> owner_;  // of a buffer: its process
  Time epoch_{}, now_{}, last_event_{};
  std::vector<std::string> wrong_;
  std::uint64_t verified_ = 0, blocks_ = 0;
};

}  // namespace corun::hw
