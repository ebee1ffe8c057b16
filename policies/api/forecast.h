// What would become of the work that a Snapshot shows, if it were decided in a certain way: a policy that
// looks ahead asks this.  Whoever runs the policy hands it in (`Backend::forecast`).  It is a function of the
// Snapshot and of what was known before the run (GPU, kernels, programs), so that the same one serves a
// simulated and a real GPU.
//
// Leaves out: requests of open arrivals that have not come yet.  Closed loops go on with their next request.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policies/api/decision.h"
#include "policies/api/snapshot.h"

namespace corun {

/// What a policy would decide, asked at each instant of the future: the first time with the snapshot itself.
/// It must keep nothing in mind, or only what it may forget with the forecast.
using WayOfDeciding = std::function<void(const Snapshot&, std::vector<Decision>&)>;

struct ForecastBounds {
  Time until = kNever;  // kNever: until all that the snapshot shows has ended
  /// Of simulated events, which are what a forecast costs.
  std::uint64_t events = std::numeric_limits<std::uint64_t>::max();
};

/// The future, as far as it was looked at.
struct Outlook {
  struct LaunchEnd {
    LaunchId launch;
    Time at = kNever;  // on the GPU; kNever: not by `reached`
  };
  struct OfClient {
    /// When the request ends that is served now or, where none is, waits longest; kNever: not by `reached`.
    Time request_ends = kNever;
    Time work{};  // done from the snapshot to `reached`: time of kernels alone on the whole GPU
    std::uint64_t requests = 0;  // that end by then
  };
  std::vector<LaunchEnd> launches;  // those on the GPU in their order, then those that are pending
  std::vector<OfClient> clients;    // by ClientId
  Time reached{};                   // how far it was looked
  bool complete = false;            // all that the snapshot shows has ended, requests too
  bool used_up = false;             // the events were, before the rest was known
  std::uint64_t events = 0;
};

/// What would become of the work of a snapshot, in each of the ways that were asked about.
struct Foretold {
  Snapshot of;  // valid until the decision is over in which it was heard
  std::vector<Outlook> outlooks;
};

class Forecast {
 public:
  virtual ~Forecast() = default;

  /// The same snapshot, way and bounds give the same outlook.
  virtual Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) = 0;

  /// Asks about several ways.  The answer is there at once, or at a later decision, where time does not stand still
  /// meanwhile (hw/live/beside.h, sim/forecast/later_forecast.h): the ways must bear to be asked by another
  /// thread, and stay where they are until then.  False: not now.
  virtual bool ask(const Snapshot& now, std::span<const WayOfDeciding> ways, const ForecastBounds& each) {
    answer_.emplace(Foretold{now, {}});
    for (const WayOfDeciding& way : ways) answer_->outlooks.push_back(look(now, way, each));
    return true;
  }
  /// To what was asked last, once; to be used up before the decision is over.
  virtual std::optional<Foretold> answer() { return std::exchange(answer_, std::nullopt); }

 protected:
  std::optional<Foretold> answer_;
};

}  // namespace corun
