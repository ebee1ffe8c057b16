// Stream priorities: every launch goes to the GPU at once, on a stream of the priority that the trace gives
// its stream or client.  The hardware serves higher priorities first and never takes an SM away from a
// running block.
#include "policies/api/registry.h"

namespace corun {
namespace {

class Priority final : public Policy {
 public:
  std::string_view name() const override { return "priority"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::priority}, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId id : now.pending) {
      const LaunchView& launch = now.launch(id);
      const Client& client = now.client_of(launch);
      decisions.push_back(
          decide::Launch{id, client.streams[launch.stream.value].priority.value_or(client.priority), {}, 0});
    }
  }
};

const Registered priority_policy{
    {"priority",
     "streams of the priorities in the trace, one context",
     "Bakita and Anderson 2023, section V",
     {},
     {.immediate = true},
     {"stream-priorities"}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return std::make_unique<Priority>(); }};

}  // namespace
}  // namespace corun
