// Where decisions become work: the simulator, the CUDA runtime, or a script in a test.
//
// A decision that is not possible is Refused.  What wait(), apply(), pad() and copy() throw ends the run:
// std::runtime_error where a GPU fails, stands still or is interrupted, std::logic_error for a defect here.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "policies/api/decision.h"
#include "policies/api/forecast.h"
#include "policies/api/notice.h"
#include "policies/api/snapshot.h"
#include "policies/api/topology.h"

namespace corun {

/// A kernel or copy of a graph.
struct GraphNode {
  LaunchId id;
  OpId op;
  Time solo_time{};                      // of a kernel, alone on the whole GPU
  std::span<const LaunchId> follows{};  // unfinished ones of other streams that must end first
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// The same from the beginning; valid as long as this.
  virtual const Topology& topology() const = 0;
  /// The host's time since start(), in ps.  It passes in wait() only.
  virtual Time now() const = 0;

  /// Before the first wait: time 0 is now.
  virtual void start() {}
  /// After the last: nothing of it is on the GPU any more, and the timeline has what was under way.
  virtual void close() {}

  /// Runs until `until`, or until the first instant with something to tell, whichever is earlier, and appends
  /// all notices of that instant.  Afterwards now() is that instant, or later where the host was at something
  /// else.  `until` == kNever and nothing under way: returns without notices and now() unchanged.
  virtual void wait(Time until, std::vector<Notice>& notices) = 0;

  /// Carries out a decision on a launch whose stream and identity `launch` describes, now.  WakeAt and
  /// LaunchPadded never get here. `follows` are the unfinished launches of other streams that must end first;
  /// for Preempt, what comes off with the launch: all that is behind it in its stream or waits for any of it,
  /// copies too.  For Allocate `launch` is the allocation (also where no policy decides about memory); for Checkpoint and Restore it has the buffer's
  /// client and bytes, and BufferMoved answers.  Refused: nothing has changed.
  /// `launch` and `follows` are valid during the call.  What `launch` points to stays until its end is
  /// told, but for the `uses` of an allocation.
  virtual Outcome apply(const Decision& decision, const LaunchView& launch,
                        std::span<const LaunchId> follows) = 0;

  /// Carries out a LaunchPadded on these two launches.  The same contract.
  virtual Outcome pad(const decide::LaunchPadded&, const LaunchView& /*launch*/,
                      const LaunchView& /*padding*/, std::span<const LaunchId> /*follows*/) {
    return Refused{"padding is not possible here"};
  }

  /// The backend can do graph().
  virtual bool takes_graphs() const { return false; }
  /// Carries out a Launch of a graph, whose nodes are in the order in which they are to be handed over, and stay where they are
  /// until its end has been told, by one KernelFinished.  The same contract.
  virtual Outcome graph(const decide::Launch&, const LaunchView& /*graph*/, std::span<const GraphNode> /*nodes*/) {
    return Refused{"graphs are not possible here"};
  }
  /// The host knows that this node of a graph on the GPU has ended.
  virtual bool node_ended(LaunchId) const { return false; }

  /// A buffer that was allocated is its client's no longer, and nothing on the GPU uses it.  Its number may be
  /// given to another.
  virtual void freed(BufferId) {}

  /// Hands a copy to the copy engines, in its stream's order.  The same contract.
  virtual Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) = 0;

  /// For a policy that looks ahead; null: nobody has offered one.  Valid as long as this.
  virtual Forecast* forecast() { return forecast_.get(); }
  /// Before the session is made.
  void offer(std::unique_ptr<Forecast> forecast) { forecast_ = std::move(forecast); }

 private:
  std::unique_ptr<Forecast> forecast_;
};

}  // namespace corun
