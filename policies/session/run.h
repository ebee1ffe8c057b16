// A run from trace to result, once for every backend: the clients together under a policy, then each alone,
// and the numbers that follow from both.
//
// Leaves out: where the runs take place.  That is the caller's Testbed, which also adds what only its backend
// knows, as how busy the GPU was or whether results were right.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
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
  const Trace* alone_of = nullptr;     // whose clients are run alone; null: the run's own, of which it has as many
  std::function<void()> interrupt{};   // called now and then, may throw to end the run; may be empty
  std::function<bool()> stop{};        // asked now and then: true ends the window here; may be empty
};

/// The clients wait for each other, or for the policy, for ever; problem() says which for what.
class StuckError : public InputError {
 public:
  using InputError::InputError;
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

/// What one of the runs is: `trace` has all clients, or the one that is alone.  All of it outlives the setup.
struct Setting {
  const Trace& trace;
  const std::string& policy;  // as it was asked for
  const Requirements& needed;
  Timeline& timeline;  // with its sinks
  bool together;
  const std::string& profile;  // of the instance where it takes place; empty: on the whole GPU
};

/// A backend made for one run, and what goes with it.
class Setup {
 public:
  virtual ~Setup() = default;
  virtual Backend& backend() = 0;
  /// What the session asks in the place of the policy: itself, or what shows it the run as others would.
  virtual Policy& asked(Policy& policy) { return policy; }
  virtual Profile profile(KernelId kernel) = 0;
  virtual bool audited() const { return false; }
  /// After the run, whose outcome it may add to; `outcome.stuck` says if it was not complete.
  virtual void ended(SessionOutcome& /*outcome*/) {}
};

/// Where the runs of one result take place.
class Testbed {
 public:
  using Requests = std::vector<RequestRecord>;
  virtual ~Testbed() = default;
  /// Before the first run: the GPU is divided so.  Returns how many SMs each instance has.  Throws InputError
  /// where it cannot be.
  virtual std::vector<std::uint32_t> divide(const std::vector<Instance>& instances);
  virtual std::unique_ptr<Setup> set_up(const Setting& setting) = 0;
  /// Requests of a client alone, `run` to find them, unless that is known from an earlier result.  What takes the
  /// place of `run` tells `progress` the time now and then.  `already`: not null where the client was the only one of the
  /// run of all, under the same policy and for as long; what it did there.
  virtual Requests alone(std::size_t client, const Trace& trace, const Requests* already, const std::function<void(Time)>& progress,
                         const std::function<Requests()>& run) = 0;
  /// Calls job(0) to job(count - 1), which are the runs of clients alone: side by side, where the testbed can.
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

/// `object`, where not null, is the policy, which `options.policy` then only names.  Throws InputError for a
/// trace, GPU or policy that do not fit each other, StuckError for a run that cannot go on.  What policy,
/// testbed, sinks, progress and interrupt throw comes through.
Ran run(const Trace& trace, const Gpu& gpu, const RunOptions& options, Testbed& testbed,
        Policy* object = nullptr);

}  // namespace corun
