// Allocations wait (ConVGPU; "allocation wait" in Chen): a cudaMalloc that does not fit waits until others
// have freed enough, instead of failing.  Nothing else changes: launches go in the order of the calls.
// Clients that hold some memory and wait for more can wait for each other for good, and nothing here prevents
// it.
//
// Kang, Jun, Kim, Kim and Kim, "ConVGPU: GPU Management Middleware in Container Based Virtualized
// Environment" (IEEE CLUSTER 2017); Chen 2020, sections 3.1 and 3.4.4, which show the deadlock.
//
// Left open there, chosen here: which of several waiting calls goes first.  By default whichever fits, in the
// order of the calls; `order=fifo` lets none pass an earlier one.
#include "policies/api/registry.h"

namespace corun {
namespace {

class MemoryWait final : public Policy {
 public:
  explicit MemoryWait(const Parameters& parameters)
      : strict_(parameters.choice("order", {"fit", "fifo"}) == "fifo") {}
  std::string_view name() const override { return "memory-wait"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order}, Contexts::one, false};
    needed.memory = true;
    return needed;
  }
  void start(const Topology& topology, std::span<const ClientView>) override {
    capacity_ = topology.gpu.memory_bytes;
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId launch : now.pending) decisions.push_back(decide::Launch{launch, 0, {}, 0});
    std::uint64_t left = capacity_ - now.memory_used;
    for (LaunchId allocation : now.allocating) {
      const std::uint64_t bytes = now.launch(allocation).bytes;
      if (bytes <= left) {
        left -= bytes;
        decisions.push_back(decide::Allocate{allocation});
      } else if (strict_) {
        break;
      }
    }
  }

 private:
  bool strict_;
  std::uint64_t capacity_ = 0;
};

const Registered memory_wait_policy{
    {"memory-wait",
     "allocations wait for memory instead of failing; clients can wait for each other for good",
     "Kang et al. 2017 (ConVGPU); Chen 2020, section 3.1",
     {{"order", "fit: the first of the waiting calls that fits; fifo: strictly in the order of the calls",
       "fit"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<MemoryWait>(p); }};

}  // namespace
}  // namespace corun
