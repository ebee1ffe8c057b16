// NVIDIA's Multi-Process Service: the clients of all processes share one context, first come first served,
// each (since Volta) through channels of its own.  An active thread percentage caps how many SMs a client may
// use; it reserves none.
//
// NVIDIA Multi-Process Service documentation, "Volta MPS Execution Resource Provisioning"; Chen 2020,
// section 2.6.
//
// Left open there: which SMs a capped client uses (the backend's matter), and that the cap holds per client,
// not per process: clients of one process would share one.
#include <limits>

#include "policies/api/registry.h"
#include "policies/shares.h"

namespace corun {
namespace {

std::vector<double> numbers(const std::string& text) {
  const auto refuse = [&] {
    throw InputError("", "--policy", "mps:percentages=" + text + " is not a list of percentages",
                     "write one for each client, above 0 and up to 100, as in 50/30");
  };
  std::vector<double> all = read_shares(text, std::numeric_limits<double>::min(), 100.0, refuse);
  if (all.empty()) refuse();
  return all;
}

class Mps final : public Policy {
 public:
  explicit Mps(const Parameters& parameters)
      : text_(parameters.text("percentages")), percentages_(numbers(text_)) {}
  std::string_view name() const override { return "mps"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order}, Contexts::one, false};
    needed.thread_percentages = percentages_;
    return needed;
  }
  void start(const Topology&, std::span<const ClientView> clients) override {
    if (percentages_.size() > 1 && percentages_.size() != clients.size())
      throw InputError("", "--policy",
                       "mps:percentages=" + text_ + " has " + std::to_string(percentages_.size()) +
                           " percentages for " + std::to_string(clients.size()) + " clients",
                       "give one for all clients, or one for each, in their order in the trace");
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
