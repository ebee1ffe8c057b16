// First come, first served: the hardware's own policy.  Every launch goes to the GPU as soon as its client
// calls it, in the order of the calls, all clients in one context (streams of one process, or MPS without
// percentages).
#include "policies/api/registry.h"

namespace corun {
namespace {

class Fcfs final : public Policy {
 public:
  std::string_view name() const override { return "fcfs"; }
  Requirements requirements() const override { return {{Capability::order}, Contexts::one, false}; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId launch : now.pending) decisions.emplace_back(std::in_place_type<decide::Launch>, launch);
  }
};

const Registered fcfs_policy{
    {"fcfs",
     "in order of arrival, one context: plain streams, or MPS without percentages",
     "Chen 2020, section 2.6",
     {},
     {.no_starvation = true, .immediate = true},
     {"streams"}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return std::make_unique<Fcfs>(); }};

}  // namespace
}  // namespace corun
