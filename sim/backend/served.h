// Programs as they are under `sim serve`, before the simulated GPU: of a best-effort client that the policy may stop a launch
// goes when what is before it in its stream ends within `ahead`, in the order in which they were decided; what has gone runs to
// its end, and an order to stop takes back the rest at once (hw/live/books.h has the same rule).  A graph goes as a whole.  Of a policy that looks ahead the
// forecast is the service's: of programs that nobody knows, and heard when it has taken its time.
//
// Leaves out: what a wait on the GPU and a grant cost, 2 us each (experiments/h200/live); that times are known from the second
// launch on only; how far the host may run ahead, 64 launches of a stream there, here without a limit.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "sim/backend/later_forecast.h"
#include "traces/model/trace.h"

namespace corun::sim {

class Served final : public Backend {
 public:
  struct Options {
    Time ahead{};                                   // `--ahead-us`
    std::unique_ptr<LaterForecast> forecast = {};  // null: that of the GPU
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
    LaunchId id;
    StreamId stream;
    Time at{}, solo{};
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
  void heard(const Notice& notice);

  bool goes_with_last(const Program& p) const;

  Backend& gpu_;
  const Trace& trace_;
  Options options_;
  std::vector<Program> programs_;  // by ClientId
  std::deque<Notice> told_;
};

}  // namespace corun::sim
