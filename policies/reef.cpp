// REEF: "Microsecond-scale Preemption for Concurrent GPU-accelerated DNN Inferences", Han et al., OSDI 2022.
// Normal mode: best-effort launches run on all their streams, `depth` outstanding in each. A real-time
// request resets the GPU: the queues are emptied, what runs is killed and starts anew later (section 4); then
// real-time kernels run alone, padded with best-effort blocks (section 5).
//
// What the paper leaves open, or does otherwise: real-time requests are served one at a time in the order in
// which they come, as the released scheduler does, and start when all best-effort launches are off. A kernel
// that is not idempotent is stopped at its next blocks instead. The backend tells which kernels have ended,
// so only the one that ran is run again; REEF cannot know, and goes back `depth` kernels further. One launch
// of a best-effort stream pads at a time, and real-time launches go to the GPU `lead_us` of their time ahead
// so that paddings can be chosen late; REEF hands over the whole request. A padded launch that was refused
// is ordered again plain, a microsecond later.
#include "policies/reef_scheduler.h"

namespace corun {
namespace {

class Reef final : public ReefScheduler {
 public:
  using ReefScheduler::ReefScheduler;
  std::string_view name() const override { return "reef"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::preempt_reset, Capability::preempt_at_block, Capability::padding},
            Contexts::one,
            false};
  }
};

const Registered reef_policy{
    {"reef",
     "real-time requests kill best-effort kernels and run padded with their blocks",
     "Han et al., OSDI 2022, sections 4 and 5",
     {{"depth", "launches of a best-effort stream on the GPU at a time (device queue capacity); 0: no limit",
       "4"},
      {"padding", "on: best-effort blocks pad real-time kernels", "on"},
      {"lead_us", "real-time work that is launched ahead, in us of its time alone", "20"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> {
      return std::make_unique<Reef>(
          ReefScheduler::Options{decide::Stop::reset, static_cast<std::uint32_t>(p.number("depth", 0, 1e6)),
                                 p.choice("padding", {"on", "off"}) == "on",
                                 Time{static_cast<std::int64_t>(p.number("lead_us", 0, 1e6) * 1e6)}});
    }};

}  // namespace
}  // namespace corun
