// TPC masks (libsmctrl): each launch is kept to a set of TPCs, by the mask of the operation, its stream or
// its client, the finest that the trace gives; or an even split of the TPCs among the clients.  Order and
// priority as in `priority`.
#include <algorithm>

#include "policies/api/registry.h"

namespace corun {
namespace {

class TpcMaskPolicy final : public Policy {
 public:
  explicit TpcMaskPolicy(const Parameters& parameters)
      : even_(parameters.choice("split", {"trace", "even"}) == "even") {}
  std::string_view name() const override { return "tpc-mask"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::priority, Capability::tpc_mask}, Contexts::one, false};
  }
  void start(const Topology& topology, std::span<const ClientView> clients) override {
    const auto n = static_cast<std::uint32_t>(clients.size());
    const std::uint32_t tpcs = topology.gpu.tpcs();
    for (std::uint32_t i = 0; i < n; ++i) {
      // More clients than TPCs: they share, one TPC each.
      const std::uint32_t first = n <= tpcs ? i * tpcs / n : i % tpcs;
      shares_.push_back(TpcMask::range(first, std::max(first + 1, n <= tpcs ? (i + 1) * tpcs / n : 0)));
    }
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId id : now.pending) {
      const LaunchView& launch = now.launch(id);
      const Client& client = now.client_of(launch);
      const ClientStream& stream = client.streams[launch.stream.value];
      decisions.push_back(
          decide::Launch{id, stream.priority.value_or(client.priority), mask(launch, client, stream), 0});
    }
  }

 private:
  std::optional<TpcMask> mask(const LaunchView& launch, const Client& client,
                              const ClientStream& stream) const {
    if (even_) return shares_[launch.client.value];
    if (const auto& of_op = std::get<Launch>(launch.operation->what).tpc_mask) return of_op;
    return stream.tpc_mask ? stream.tpc_mask : client.tpc_mask;
  }

  bool even_;
  std::vector<TpcMask> shares_;  // by client, for split=even
};

const Registered registered{
    {"tpc-mask",
     "each launch on its own set of TPCs",
     "Bakita and Anderson 2023, section IV",
     {{"split", "trace: the masks in the trace; even: the TPCs in equal shares, in the order of the clients",
       "trace"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<TpcMaskPolicy>(p); }};

}  // namespace
}  // namespace corun
