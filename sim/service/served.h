// Programs as they are under `sim serve`, before the simulated GPU: of a best-effort client that the policy may stop a launch
// goes when what is before it in its stream ends within `ahead`, in the order in which they were decided; what has gone runs to
// its end, and an order to stop takes back the rest at once (hw/live/books.h has the same rule).  A graph goes as a whole.  Of a policy that looks ahead the
// forecast is the service's: of programs that nobody knows, and heard when it has taken its time.
//
// Launches that are persistent (persistent_launches.h) can be stopped while they have an attempt left: of each stream the last that
// has gone.  Further workers come with another attempt: what there is of the launch stops, and goes on at once.  The attempts that
// are left find nothing to do when its blocks are done, and only then is its end known.  Where the policy sizes launches, one of a stream is on
// the GPU at a time.
//
// A best-effort launch is with the driver when it is granted, behind a wait of its stream on the GPU. So it begins sooner after its grant
// than another launch after its call, also where a request has begun since, but later after what is before it in its stream.
//
// Leaves out: that times are known from the second
// launch on only; how far the host may run ahead, 64 launches of a stream there, here without a limit.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "sim/forecast/later_forecast.h"
#include "sim/service/persistent_launches.h"
#include "traces/model/trace.h"

namespace corun::sim {

class Served final : public Backend {
 public:
  struct Options {
    Time ahead{};                                   // `--ahead-us`
    std::unique_ptr<LaterForecast> forecast = {};  // null: that of the GPU
    PersistentLaunches* persistent = nullptr;      // null: there are none
    /// The launch that is about to go reaches the GPU then, and its stream has a wait before it.  None: as any launch.
    std::function<void(const LaunchView&, Time at, Time wait)> let_reach = {};
  };
  Served(Backend& gpu, const Trace& trace, const Requirements& needed, Options options);

  const Topology& topology() const override { return gpu_.topology(); }
  Time now() const override { return gpu_.now(); }
  void start() override { gpu_.start(); }
  void close() override { gpu_.close(); }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch, std::span<const LaunchId> follows) override;
  Outcome pad(const decide::LaunchPadded& d, const LaunchView& l, const LaunchView& padding,
              std::span<const LaunchId> follows) override {
    return gpu_.pad(d, l, padding, follows);
  }
  void freed(BufferId buffer) override { gpu_.freed(buffer); }
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;
  Forecast* forecast() override { return options_.forecast ? options_.forecast.get() : gpu_.forecast(); }

 private:
  struct Held {
    LaunchView launch;
    Decision decision;  // of a kernel
    std::vector<LaunchId> follows;
  };
  struct Gone {
    Held what;
    Time at{}, solo{};
    bool stopping = false;
    std::optional<Decision> goes_on{};  // as which, when it has stopped
    std::optional<Time> ends_at{};      // its blocks are done, and this is when its last attempt ends
  };
  using GraphLaunch = std::pair<std::uint64_t, std::uint32_t>;  // request, number of the graph
  struct Program {
    bool stoppable = false;
    std::deque<Held> held;
    std::vector<Gone> gone;        // not known to have ended
    std::optional<GraphLaunch> last{};  // that went; none: it was no graph
    std::vector<Time> ended_at{};  // by stream
  };

  Time may_go_at(const Program& p) const;
  /// What may go now goes.  When the next may.
  Time hand_over();
  Time reaches_gpu(const LaunchView& l) const;
  Outcome go(const Held& h, bool of_graph);
  Outcome resize(const decide::Resize& decision, const LaunchView& l);
  void order_stops(Program& p, const LaunchView& first, std::span<const LaunchId> follows);
  bool persistent(LaunchId id) const { return options_.persistent != nullptr && options_.persistent->are(id); }
  std::uint32_t left(LaunchId id) const { return options_.persistent == nullptr ? 0 : options_.persistent->left(id); }
  Gone* gone(LaunchId id);
  void over(LaunchId id);
  /// False: the session is not to know of it, or not yet.
  bool heard(const Notice& notice);

  bool goes_with_last(const Program& p) const;

  Backend& gpu_;
  const Trace& trace_;
  Options options_;
  std::vector<Program> programs_;  // by ClientId
  std::deque<Notice> told_;
  std::vector<std::pair<Time, LaunchId>> late_;  // persistent launches whose blocks are done, and when that is known
};

}  // namespace corun::sim
