// A static split of the GPU among the clients, fixed before they start: of its TPCs, as masks or green
// contexts divide it, or of the places for blocks, as persistent kernels of a fixed size do.  The splits that
// `sim compare --oracle` searches; what a policy that adapts must beat.
//
// tpcs: each client's TPCs are neighbours, in the order of the clients.  No priorities: they would let a
// client hold the task slots against another whose TPCs are free (Bakita and Anderson 2023, Fig. 12).
//
// ctas: each kernel of a client runs as a persistent kernel of the client's percentage of the CTAs that the
// whole GPU holds of it, rounded down, at least one.  Blocks of several streams of a client add up.
#include <algorithm>

#include "policies/api/registry.h"
#include "policies/shares.h"

namespace corun {
namespace {

class StaticSplit final : public Policy {
 public:
  explicit StaticSplit(const Parameters& p)
      : tpcs_(read(p, "tpcs", kMaxTpcs)), percent_of_ctas_(read(p, "ctas", 100)) {
    if (!tpcs_.empty() && !percent_of_ctas_.empty())
      throw InputError("", "--policy", "static-split divides either TPCs or CTAs",
                       "give one of tpcs and ctas");
  }

  std::string_view name() const override { return "static-split"; }
  Requirements requirements() const override {
    if (!percent_of_ctas_.empty()) return {{Capability::order, Capability::cta_quota}, Contexts::one, false};
    return {{Capability::order, Capability::tpc_mask}, Contexts::one, false};
  }

  void start(const Topology& topology, std::span<const ClientView> clients) override {
    gpu_ = topology.gpu;
    const auto n = static_cast<std::uint32_t>(clients.size());
    const std::uint32_t there = gpu_.tpcs();
    if (!percent_of_ctas_.empty()) return expect(percent_of_ctas_, "ctas", n, 100);
    if (tpcs_.empty())
      // More clients than TPCs: they share, one TPC each.
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint32_t first = n <= there ? i * there / n : i % there;
        masks_.push_back(TpcMask::range(first, n <= there ? (i + 1) * there / n : first + 1));
      }
    else
      expect(tpcs_, "tpcs", n, there);
    std::uint32_t first = 0;
    for (const std::uint32_t share : tpcs_) {
      masks_.push_back(TpcMask::range(first, first + share));
      first += share;
    }
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId id : now.pending) {
      const LaunchView& l = now.launch(id);
      decide::Launch launch{id, 0, {}, 0};
      if (percent_of_ctas_.empty())
        launch.tpc_mask = masks_[l.client.value];
      else
        launch.ctas = ctas(*l.kernel, percent_of_ctas_[l.client.value]);
      decisions.push_back(launch);
    }
  }

 private:
  static std::vector<std::uint32_t> read(const Parameters& p, const char* key, std::uint32_t most) {
    const std::string& text = p.text(key);
    return read_shares(text, 1u, most, [&] {
      throw InputError("", "--policy", "static-split:" + std::string(key) + "=" + text + " is not a split",
                       "write the clients' shares, each from 1 to " + std::to_string(most) + ", as 40/26");
    });
  }

  static void expect(const std::vector<std::uint32_t>& shares, const char* key, std::uint32_t clients,
                     std::uint32_t most) {
    std::uint64_t sum = 0;
    for (const std::uint32_t share : shares) sum += share;
    if (shares.size() != clients || sum > most)
      throw InputError("", "--policy",
                       "static-split: expected " + std::to_string(clients) +
                           " shares that add up to at most " + std::to_string(most) + ", got " +
                           std::to_string(shares.size()) + " that add up to " + std::to_string(sum),
                       std::string("correct ") + key + ": a share for each client, in the trace's order");
  }

  std::uint32_t ctas(const Kernel& kernel, std::uint32_t percent) const {
    const std::uint64_t places = std::uint64_t{gpu_.sms} *
                                 max_active_blocks(capacity_of(gpu_.sm), demand_of(kernel, gpu_.sm)) *
                                 percent / 100;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(places, 1, kernel.blocks()));
  }

  std::vector<std::uint32_t> tpcs_, percent_of_ctas_;  // by client; empty: not given
  Gpu gpu_;
  std::vector<TpcMask> masks_;  // by client
};

const Registered static_split_policy{
    {"static-split",
     "each client on a fixed share of the GPU",
     "the oracle's search space, sim/oracle/DECISIONS.md",
     {{"tpcs", "TPCs of each client, as 40/26; empty: equal shares", ""},
      {"ctas", "instead: percentage of the CTAs that the GPU holds, of each client, as 60/40", ""}},
     {.no_starvation = true, .immediate = true}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<StaticSplit>(p); }};

}  // namespace
}  // namespace corun
