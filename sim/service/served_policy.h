// A policy as `sim serve` asks it, for a session: the service's books (policies/service/books.h) stand between the two, and do to
// launches what they do to those of live programs.  The policy's object is the same as anywhere.
//
// A program is known as its library tells of it: a kernel by its function and shape, a graph by the number of its nodes, and both
// by what they took the last times.  It has run before, alone, so that its kernels' times are known.  A host stays in its call until the launch is granted, but a best-effort program's that the
// policy may hold back.  It waits where the trace has a sync behind which it launches more, and at the end of a request.
//
// Persistent (`--persistent`) is a best-effort launch of which the books say so, of a kernel whose program brings its PTX
// (Kernel::ptx), with more blocks than workers fit the GPU, in no graph and without attributes, once a launch of it has ended: the
// rule of hw/shim/stoppable.h.
//
// A grant that the session refuses, as where a hardware channel is full, is decided again until the session takes it.
//
// Leaves out: memory that a policy decides about; how far the host may run ahead, 64 launches of a stream there, here without a
// limit; the time in which a kernel is made persistent, once, and kernels that the transform refuses.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "policies/api/policy.h"
#include "policies/service/books.h"
#include "sim/forecast/later_forecast.h"
#include "sim/service/served_launches.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

struct ServedOptions {
  Time ahead{};             // `--ahead-us`
  bool persistent = false;
  /// Makes a forecast from the service's knowledge of its programs, for a policy that looks ahead.
  std::function<std::unique_ptr<LaterForecast>(const Gpu&, const Requirements&)> forecast{};
};

class ServedPolicy final : public Policy {
 public:
  /// Throws InputError where the service refuses the policy, or the policy the clients.  All but the options must outlive it.
  ServedPolicy(Policy& policy, const Trace& trace, const Gpu& gpu, ServedOptions options, ServedLaunches& launches);

  std::string_view name() const override { return policy_.name(); }
  Requirements requirements() const override;
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override;

 private:
  struct Stream {
    std::uint32_t first = 1;  // number of the first of `launches`
    std::deque<LaunchId> launches;
  };
  struct Known {
    Kernel kernel;       // as the program's library tells of it
    bool ended = false;  // a launch of it has
  };
  struct Program {
    std::vector<Stream> streams;
    std::vector<bool> waits_behind;              // by operation: the host, before it launches more
    std::map<const corun::Kernel*, Known> kernels;  // the trace's, and graphs
  };

  /// Granted, and not known to be taken.
  struct Waiting {
    live::Granted granted;
    decide::Launch decision;
  };

  std::uint32_t& number(LaunchId id);
  std::uint32_t attempts(const LaunchView& l, const Known& known) const;
  void hear(const Notice& notice, const Snapshot& now);
  void called(const LaunchView& l, Time now);
  void carry_out(const live::Granted& granted, const Snapshot& now, std::vector<Decision>& decisions);
  void forget_taken(const Snapshot& now);

  Policy& policy_;
  const Trace& trace_;
  const Gpu& gpu_;
  ServedLaunches& launches_;
  LaterForecast* forecast_ = nullptr;
  std::exception_ptr unfit_;
  std::optional<live::Books> books_;
  std::vector<Program> programs_;       // by ClientId
  std::vector<std::uint32_t> numbers_;  // of launches in their streams, by slot
  std::vector<Waiting> waiting_;
  std::vector<live::Granted> grants_;
  Time wakes_at_ = kNever;
};

}  // namespace corun::sim
