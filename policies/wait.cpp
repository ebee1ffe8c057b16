// Block-level preemption, the baseline of REEF's evaluation: GPES (Zhou, Tong and Liu, RTAS 2015) and Basaran
// and Kang (ECRTS 2012), as Han et al., OSDI 2022, sections 2.2 and 7.3, extend it. Best-effort launches go
// to the GPU as they come. A real-time request sets the flag that every block reads first and waits until all
// of them are off: running blocks end, and every launch in the queues has to pass the GPU.
//
// What the papers leave open: real-time requests are served one at a time, in the order in which they come.
#include "policies/api/registry.h"
#include "policies/real_time_mode.h"

namespace corun {
namespace {

class Wait final : public Policy {
 public:
  std::string_view name() const override { return "wait"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::preempt_at_block}, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    mode_.look(now);
    if (mode_.active())
      take_off_best_effort(now, decisions, decide::Stop::at_block, [](const LaunchView&) { return true; });
    const bool clear = std::none_of(now.running.begin(), now.running.end(), [&](LaunchId id) {
      const LaunchView& l = now.launch(id);
      return l.kernel != nullptr && !is_real_time(now, l);
    });
    if (mode_.active() && !clear) return;
    for (LaunchId id : now.pending) {
      const LaunchView& l = now.launch(id);
      if (mode_.active() ? mode_.has_turn(l.client) : !is_real_time(now, l))
        decisions.push_back(decide::Launch{id, 0, {}, 0});
    }
  }

 private:
  RealTimeMode mode_;
};

const Registered registered{
    {"wait",
     "real-time requests stop best-effort kernels at their next blocks",
     "Zhou, Tong and Liu, RTAS 2015; Han et al., OSDI 2022, section 2.2",
     {}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return std::make_unique<Wait>(); }};

}  // namespace
}  // namespace corun
