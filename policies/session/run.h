// A run from trace to result, once for every backend.  A Plan says what is asked; `execute` lists its runs,
// of the clients together under the policy, on each instance where the policy divides the GPU, and of each
// client alone under fcfs; a Player plays each of them; the numbers follow from what came of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "policies/api/registry.h"
#include "policies/session/made_once.h"
#include "policies/session/profile_file.h"
#include "policies/session/session.h"
#include "traces/model/error.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// What it points to must outlive the run.
struct RunOptions {
  std::string policy;                                                  // "name" or "name:key=value"
  std::vector<Sink*> sinks{};                                          // of the run together
  std::function<void(const char* stage, double fraction)> progress{};  // may be empty
  const Profiles* profiles = nullptr;  // in the place of what the backend's own would be
  bool resources = false;              // tell running time by the resource that kernels lack; slower
  bool alone = true;                   // false: no slowdown, progress, STP and ANTT
  std::function<void()> interrupt{};   // called now and then, may throw to end the run; may be empty
  std::function<bool()> stop{};        // asked now and then: true ends the window here; may be empty
};

/// The clients wait for each other, or for the policy, for ever; problem() says which for what.
class StuckError : public InputError {
 public:
  using InputError::InputError;
};

/// A question for a run: the clients of a trace on a GPU under a policy, which serves one run.  Trace and GPU must
/// outlive it.
struct Plan {
  const Trace& recorded;  // which clients run alone
  const Gpu& gpu;
  std::string named;
  std::shared_ptr<Policy> policy = make_policy(named);
  bool is_registered = true;  // false: `named` is no more than what the policy is called
  Requirements needed = policy->requirements();
  std::optional<Trace> on_parts{};  // what they run together instead, where each has a part of the GPU

  /// The trace that the clients run together.
  const Trace& trace() const { return on_parts ? *on_parts : recorded; }
};

/// One of the runs of a plan.
struct Run {
  const Trace& trace;
  const Gpu& gpu;  // the plan's, or an instance of it
  const std::string& named;
  Policy& policy;
  bool together;  // false: of a client alone, or to find out how long the others take
  Requirements needed = policy.requirements();
};

/// One session on a backend, from the start of its clock until nothing of it is on the GPU.  `audit`: of the
/// session's books.  Throws as Session does; the backend is then not closed.
struct PlayOptions {
  bool audit = false;
  std::function<void(Time)> progress{};
  std::function<bool()> stop{};
};
SessionOutcome play(const Trace& trace, Policy& policy, Backend& backend, Timeline& timeline,
                    ProfileSource profiles, const PlayOptions& options = {});

/// A player plays runs: on a simulated GPU or on a real one.
class Player {
 public:
  using Requests = std::vector<RequestRecord>;
  virtual ~Player() = default;
  /// Plays it on a backend made for it.
  virtual SessionOutcome play(const Run& run, Timeline& timeline, const PlayOptions& options) = 0;
  /// Requests of a client alone, where they are known without playing it.  `already`: what it did as the only
  /// client of the run of all, under the same policy and for as long; else null.
  virtual std::optional<Requests> foretell(const Run& /*alone*/, const Requests* /*already*/,
                                           const std::function<void(Time)>& /*progress*/) {
    return std::nullopt;
  }
  /// Calls job(0) to job(count - 1), which play clients alone: side by side, where that is possible.
  virtual void each(std::size_t count, const std::function<void(std::size_t)>& job) {
    for (std::size_t i = 0; i < count; ++i) job(i);
  }
};

/// A result and what it was made of, for what the caller adds, as the time that it took.
struct Ran {
  RunResult result;
  Window window;
  SessionOutcome outcome;  // of the clients together, as their requests
  std::vector<RequestRecord> requests;
};

/// The key of a client's run alone: all that decides how it goes.
struct AloneRun {
  AloneRun(const Trace& one, const Gpu& on)
      : client(one.clients.front()),
        run{one.run.duration, Time{}, one.run.seed},
        gpu(on),
        kernels(one.kernels),
        programs(one.programs) {}
  bool operator==(const AloneRun&) const = default;

  Client client;
  RunControl run;  // without its warm-up
  Gpu gpu;
  std::vector<Kernel> kernels;
  std::vector<Program> programs;
};
using AloneRuns = MadeOnce<AloneRun, std::vector<RequestRecord>>;

/// `known`: runs of clients alone that this player need not play again.  Of the options the plan has the
/// policy.  Throws InputError for a trace, GPU or policy that do not fit each other, StuckError for a run
/// that cannot go on.  What policy, player, sinks, progress and interrupt throw comes through.
Ran execute(const Plan& plan, const RunOptions& options, Player& player, AloneRuns& known);

}  // namespace corun
