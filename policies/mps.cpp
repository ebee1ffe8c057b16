// NVIDIA's Multi-Process Service: the clients of all processes share one context, first come first served,
// each (since Volta) through channels of its own.  An active thread percentage caps how many SMs a client may
// use; it reserves none.
//
// NVIDIA Multi-Process Service documentation, "Volta MPS Execution Resource Provisioning"; Chen 2020,
// section 2.6.
//
// Left open there: which SMs a capped client uses (the backend's matter), and that the cap holds per client,
// not per process: clients of one process would share one.
#include "policies/api/registry.h"
#include "policies/shares.h"

namespace corun {
namespace {

class Mps final : public Policy {
 public:
  explicit Mps(const Parameters& parameters)
      : text_(parameters.text("percentages")), percentages_(thread_percentages("mps", text_)) {
    if (percentages_.empty()) refuse_percentages("mps", text_);
  }
  std::string_view name() const override { return "mps"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order}, Contexts::one, false};
    needed.thread_percentages = percentages_;
    return needed;
  }
  void start(const Topology&, std::span<const ClientView> clients) override {
    expect_percentage_of_each("mps", text_, percentages_.size(), clients.size());
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId launch : now.pending) decisions.emplace_back(std::in_place_type<decide::Launch>, launch);
  }

 private:
  std::string text_;
  std::vector<double> percentages_;
};

const Registered mps_policy{
    {"mps",
     "one context for all processes, each client capped to a percentage of the SMs",
     "NVIDIA Multi-Process Service documentation; Chen 2020, section 2.6",
     {{"percentages", "active thread percentages, by client, as 50/30; one for all", "100"}},
     {.no_starvation = true},
     {"multi-process-service"}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<Mps>(p); }};

}  // namespace
}  // namespace corun
