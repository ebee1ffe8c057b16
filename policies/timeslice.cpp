// Time-slicing: what separate processes get without MPS.  Each process has its own context, and the GPU gives
// contexts turns of one time slice; within a context, order of arrival.
#include "policies/api/registry.h"

namespace corun {
namespace {

class Timeslice final : public Policy {
 public:
  std::string_view name() const override { return "timeslice"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::time_slice}, Contexts::per_process, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId launch : now.pending) decisions.emplace_back(std::in_place_type<decide::Launch>, launch);
  }
};

const Registered timeslice_policy{
    {"timeslice",
     "a context per process, in equal turns on the whole GPU, whatever share was asked for: CUDA without MPS",
     "experiments/h200/launch_path, question 10",
     {},
     {.no_starvation = true, .immediate = true},
     {"equal-slices", "time-slicing"}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return std::make_unique<Timeslice>(); }};

}  // namespace
}  // namespace corun
