// Block-level preemption, the baseline of REEF's evaluation: GPES (Zhou, Tong and Liu, RTAS 2015) and Basaran
// and Kang (ECRTS 2012), as Han et al., OSDI 2022, sections 2.2 and 7.3, extend it. Best-effort launches go
// to the GPU as they come. A real-time request sets the flag that every block reads first and waits until all
// of them are off: running blocks end, and every launch in the queues has to pass the GPU.  With `beside` it does not
// wait: its launches go at once, with their clients' priorities, beside the blocks that end.  With `backfill` best-effort
// launches go only where they end before the next request is expected (backfill.h): for programs as they are, whose kernels
// run to their ends.
//
// What the papers leave open: real-time requests are served one at a time, in the order in which they come.
#include "policies/api/registry.h"
#include "policies/backfill.h"
#include "policies/real_time_mode.h"

namespace corun {
namespace {

class Wait final : public Policy {
 public:
  Wait(bool beside, bool backfill) : beside_(beside), backfill_on_(backfill) {}
  std::string_view name() const override { return "wait"; }
  Requirements requirements() const override {
    CapabilitySet needed{Capability::order, Capability::preempt_at_block};
    if (beside_) needed.add(Capability::priority);
    return {needed, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    mode_.look(now);
    if (backfill_on_) backfill_.look(now);
    if (mode_.active())
      take_off_best_effort(now, decisions, decide::Stop::at_block, [](const LaunchView&) { return true; });
    const bool clear = std::none_of(now.running.begin(), now.running.end(), [&](LaunchId id) {
      const LaunchView& l = now.launch(id);
      return l.kernel != nullptr && !is_real_time(now, l);
    });
    if (mode_.active() && !clear && !beside_) return;
    for (LaunchId id : now.pending) {
      const LaunchView& l = now.launch(id);
      if (mode_.active() ? mode_.has_turn(l.client)
                         : !is_real_time(now, l) && (!backfill_on_ || backfill_.may_go(l)))
        decisions.push_back(decide::Launch{id, beside_ ? now.client_of(l).priority : 0, {}, 0});
    }
    if (backfill_on_ && backfill_.until() != kNever) decisions.push_back(decide::WakeAt{backfill_.until()});
  }

 private:
  bool beside_, backfill_on_;
  RealTimeMode mode_;
  Backfill backfill_;
};

const Registered wait_policy{
    {"wait",
     "real-time requests stop best-effort kernels at their next blocks",
     "Zhou, Tong and Liu, RTAS 2015; Han et al., OSDI 2022, section 2.2",
     {{"beside", "on: real-time launches do not wait for best-effort blocks to end", "off"},
      {"backfill", "on: no best-effort kernel that would not end before the next request of a regular client", "off"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> {
      return std::make_unique<Wait>(p.choice("beside", {"off", "on"}) == "on", p.choice("backfill", {"off", "on"}) == "on");
    }};

}  // namespace
}  // namespace corun
