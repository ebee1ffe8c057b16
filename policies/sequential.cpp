// One request at a time, without preemption: the sequential baseline of REEF's evaluation (Han et al., OSDI
// 2022, sections 2.2 and 7.1; Clockwork, Gujarati et al., OSDI 2020). When a request has ended, the next is a
// real-time one if any waits; among equals the client whose request came first.
#include <algorithm>
#include <optional>

#include "policies/api/registry.h"

namespace corun {
namespace {

class Sequential final : public Policy {
 public:
  std::string_view name() const override { return "sequential"; }
  Requirements requirements() const override { return {{Capability::order}, Contexts::one, false}; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const Notice& notice : now.notices)
      if (const auto* done = std::get_if<RequestFinished>(&notice);
          done != nullptr && served_ == done->client)
        served_.reset();
    if (served_ && !now.clients[served_->value].busy) served_.reset();
    if (!served_)
      for (LaunchId id : now.pending) {  // in the order of readiness
        const LaunchView& l = now.launch(id);
        const bool real_time = now.client_of(l).service_class == ServiceClass::real_time;
        if (!served_ || real_time) served_ = l.client;
        if (real_time) break;
      }
    for (LaunchId id : now.pending)
      if (served_ == now.launch(id).client) decisions.push_back(decide::Launch{id, 0, {}, 0});
  }

 private:
  std::optional<ClientId> served_;
};

const Registered sequential_policy{
    {"sequential", "one request at a time, real-time ones first", "Han et al., OSDI 2022, section 7.1", {}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return std::make_unique<Sequential>(); }};

}  // namespace
}  // namespace corun
