// Stream priorities: every launch goes to the GPU at once, on a stream of the priority that the trace gives
// its stream or client.  The hardware serves higher priorities first and never takes an SM away from a
// running block.  Under MPS, clients of a priority may have active thread percentages besides.
//
// NVIDIA Multi-Process Service documentation: CUDA_MPS_CLIENT_PRIORITY, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE.
#include "policies/api/registry.h"
#include "policies/shares.h"

namespace corun {
namespace {

class Priority final : public Policy {
 public:
  explicit Priority(const Parameters& parameters)
      : text_(parameters.text("percentages")), percentages_(thread_percentages("priority", text_)) {}
  std::string_view name() const override { return "priority"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order, Capability::priority}, Contexts::one, false};
    needed.thread_percentages = percentages_;
    return needed;
  }
  void start(const Topology&, std::span<const ClientView> clients) override {
    expect_percentage_of_each("priority", text_, percentages_.size(), clients.size());
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId id : now.pending) {
      const LaunchView& launch = now.launch(id);
      const Client& client = now.client_of(launch);
      decisions.push_back(
          decide::Launch{id, client.streams[launch.stream.value].priority.value_or(client.priority), {}, 0});
    }
  }

 private:
  std::string text_;
  std::vector<double> percentages_;  // of MPS; empty: streams of one process
};

const Registered priority_policy{
    {"priority",
     "streams of the priorities in the trace, one context",
     "Bakita and Anderson 2023, section V",
     {{"percentages", "active thread percentages of MPS, by client, as 100/50; one for all; none: streams of one process", ""}},
     {.immediate = true},
     {"stream-priorities"}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<Priority>(p); }};

}  // namespace
}  // namespace corun
