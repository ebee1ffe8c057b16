// REEF-N, for GPUs whose driver kills no running blocks: Han et al., OSDI 2022, section 4.4. Launches wait in
// virtual host queues before the streams, a limited number is outstanding, those in the device's queues are
// evicted by a flag that every kernel reads first, and running blocks end by themselves.
//
// What the paper leaves open: as in `reef`. The paper's port has no padding; `padding` adds it.
#include "policies/reef_scheduler.h"

namespace corun {
namespace {

class ReefN final : public ReefScheduler {
 public:
  explicit ReefN(Options options) : ReefScheduler(options), padding_on_(options.padding) {}
  std::string_view name() const override { return "reef-n"; }
  Requirements requirements() const override {
    CapabilitySet needed{Capability::order, Capability::preempt_at_block};
    if (padding_on_) needed = {Capability::order, Capability::preempt_at_block, Capability::padding};
    return {needed, Contexts::one, false};
  }

 private:
  bool padding_on_;
};

const Registered reef_n_policy{
    {"reef-n",
     "as reef, but running blocks end by themselves",
     "Han et al., OSDI 2022, section 4.4",
     {{"depth", "launches of a best-effort stream on the GPU at a time; 0: no limit", "4"},
      {"padding", "on: best-effort blocks pad real-time kernels", "off"},
      {"lead_us", "real-time work that is launched ahead, in us of its time alone, when padding", "20"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> {
      return std::make_unique<ReefN>(ReefScheduler::Options{
          decide::Stop::at_block, static_cast<std::uint32_t>(p.number("depth", 0, 1e6)),
          p.choice("padding", {"off", "on"}) == "on",
          Time{static_cast<std::int64_t>(p.number("lead_us", 0, 1e6) * 1e6)}});
    }};

}  // namespace
}  // namespace corun
