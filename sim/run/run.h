// A run in the simulator: what its backends are made of, what the results of one trace share, and the numbers
// and warnings that only the simulator has.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "policies/api/policy.h"
#include "policies/session/run.h"
#include "sim/backend/shapes.h"
#include "sim/stages/compute_engine.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// What runs of one trace on one GPU share, whatever their policies, their lengths, seeds and arrivals: what its
/// kernels are like, their profiles, and each client alone.  May be used from threads.
class Common {
 public:
  explicit Common(const Gpu& gpu, bool contention = true) : shapes(std::make_shared<Shapes>(gpu, contention)) {}
  /// With shapes that runs of other traces on this GPU use too.
  explicit Common(std::shared_ptr<Shapes> shared) : shapes(std::move(shared)) {}
  using Requests = std::vector<RequestRecord>;
  /// A run of a client alone, by what may differ between runs of one trace.
  struct Alone {
    std::size_t client = 0;
    Time duration = kNever;  // kNever: to its end
    std::uint64_t seed = 0;
    std::string arrivals;  // as bytes
    auto operator<=>(const Alone&) const = default;
  };
  /// `one`: the trace, of which only this client is left.
  static Alone alone_of(std::size_t client, const Trace& one);
  /// Requests of such a run, simulated by `simulate` if nobody asked yet; who asks meanwhile waits.  What `simulate`
  /// throws comes through, and the next who asks simulates.
  Requests alone(const Alone& which, const std::function<Requests()>& simulate);
  /// Simulated by `simulate` if nobody asked yet.
  Profile profile(KernelId kernel, bool by_sm, const std::function<Profile()>& simulate);
  const std::shared_ptr<Shapes> shapes;

 private:
  template <class Key, class Made>
  using Known = std::map<Key, std::shared_future<Made>>;
  template <class Key, class Made>
  Made once(Known<Key, Made>& known, const Key& key, const std::function<Made()>& make);
  std::mutex mutex_;
  Known<Alone, Requests> alone_;
  Known<std::pair<std::uint32_t, bool>, Profile> profiles_;
};

/// What it points to must outlive the run.
struct RunOptions : corun::RunOptions {
  EngineOptions engine{};
  unsigned threads = 0;      // for the runs of clients alone; 0: as many as there are cores
  Common* common = nullptr;  // null: the run has its own
  Policy* object = nullptr;  // not null: this policy, which `policy` then only names
  std::optional<Time> served_ahead{};  // there: the clients are programs under `sim serve`, with this --ahead-us (served.h)
  bool served_persistent = false;      // and kernels that bring their PTX are persistent, as under --persistent (persistent_launches.h)
  bool served_waits = true;            // whether launches wait on the GPU for their grants, which takes time; tests of the rest have none
  std::optional<Time> served_look{};   // there: of those the forecast is the service's, and takes this time (later_forecast.h)
};

/// Throws InputError for a trace, GPU or policy that do not fit each other, StuckError for a run that cannot
/// go on, std::logic_error for an invariant that is broken (`engine.audit`).  What policy, sinks, progress
/// and interrupt throw comes through.
RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options);

}  // namespace corun::sim
