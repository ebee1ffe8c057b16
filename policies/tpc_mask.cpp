// TPC masks (libsmctrl): each launch is kept to a set of TPCs, by the mask of the operation, its stream or
// its client, the finest that the trace gives; or a share of the TPCs for each client.  Order and priority as
// in `priority`.
//
// Bakita and Anderson, "Hardware Compute Partitioning on NVIDIA GPUs" (RTAS 2023): masks in section IV, GPC
// borders in IV-C, and the two ways of choosing TPCs that are compared in fig. 13 (from Otterness and
// Anderson 2021): packed takes whole GPCs, one after the other, so that partitions share as few as possible;
// distributed takes a TPC from each GPC in turn.  Left open there: which GPC comes first (here the one with
// the lowest number, and within a GPC the TPC with the lowest number).
#include <algorithm>
#include <numeric>

#include "policies/api/registry.h"
#include "policies/shares.h"

namespace corun {
namespace {

[[noreturn]] void refuse(const std::string& problem, const std::string& remedy) {
  throw InputError("", "--policy", "tpc-mask: " + problem, remedy);
}

std::vector<std::uint32_t> counts(const std::string& text) {
  return read_shares(text, 1u, std::uint32_t{kMaxTpcs}, [&] {
    refuse("tpcs=" + text + " is not a list of numbers of TPCs", "write one for each client, as in 8/4");
  });
}

/// All TPCs in the order in which shares are cut from them.
std::vector<std::uint32_t> in_order(const std::string& split, const Gpu& gpu) {
  std::vector<std::uint32_t> tpcs(gpu.tpcs());
  std::iota(tpcs.begin(), tpcs.end(), 0u);
  if (split == "even") return tpcs;
  if (gpu.gpc_of_tpc.empty())
    refuse("the GPC of each TPC is unknown for " + gpu.name + ", so split=" + split + " means nothing",
           "describe it in the GPU's chip/gpc_of_tpc, or use split=even");
  std::vector<std::uint32_t> within(gpu.tpcs()),
      seen(gpu.tpcs() + *std::max_element(gpu.gpc_of_tpc.begin(), gpu.gpc_of_tpc.end()) + 1);
  for (std::uint32_t t = 0; t < gpu.tpcs(); ++t) within[t] = seen[gpu.gpc_of_tpc[t]]++;
  std::stable_sort(tpcs.begin(), tpcs.end(), [&](std::uint32_t a, std::uint32_t b) {
    return split == "packed"
               ? gpu.gpc_of_tpc[a] < gpu.gpc_of_tpc[b]
               : std::pair(within[a], gpu.gpc_of_tpc[a]) < std::pair(within[b], gpu.gpc_of_tpc[b]);
  });
  return tpcs;
}

class TpcMaskPolicy final : public Policy {
 public:
  explicit TpcMaskPolicy(const Parameters& parameters)
      : split_(parameters.choice("split", {"trace", "even", "packed", "distributed"})),
        counts_(counts(parameters.text("tpcs"))) {
    if (split_ == "trace" && !counts_.empty())
      refuse("tpcs says how to split, but the masks are the trace's",
             "add split=even, packed or distributed");
  }
  std::string_view name() const override { return "tpc-mask"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::priority, Capability::tpc_mask}, Contexts::one, false};
  }
  void start(const Topology& topology, std::span<const ClientView> clients) override {
    tpcs_ = TpcMask::range(0, topology.gpu.tpcs());
    gpu_ = topology.gpu.name;
    if (split_ == "trace") {
      for (const ClientView& view : clients) {
        check(view.client->tpc_mask, *view.client);
        for (const ClientStream& stream : view.client->streams) check(stream.tpc_mask, *view.client);
      }
      return;
    }
    const auto n = static_cast<std::uint32_t>(clients.size());
    const std::uint32_t tpcs = topology.gpu.tpcs();
    const std::vector<std::uint32_t> order = in_order(split_, topology.gpu);
    if (!counts_.empty() && counts_.size() != n)
      refuse("tpcs has " + std::to_string(counts_.size()) + " numbers for " + std::to_string(n) + " clients",
             "give one for each, in their order in the trace");
    if (const auto sum = std::accumulate(counts_.begin(), counts_.end(), 0u); sum > tpcs)
      refuse("tpcs adds up to " + std::to_string(sum) + ", and " + topology.gpu.name + " has " +
                 std::to_string(tpcs),
             "give less");
    for (std::uint32_t i = 0, next = 0; i < n; ++i) {
      // More clients than TPCs: they share, one TPC each.
      std::uint32_t first = n <= tpcs ? i * tpcs / n : i % tpcs;
      std::uint32_t end = std::max(first + 1, n <= tpcs ? (i + 1) * tpcs / n : 0);
      if (!counts_.empty()) first = next, end = next += counts_[i];
      TpcMask share;
      for (std::uint32_t t = first; t < end; ++t) share.enable(TpcId{order[t]});
      shares_.push_back(share);
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
  /// A launch with a mask of none would wait for ever.
  void check(const std::optional<TpcMask>& mask, const Client& client) const {
    if (mask && (*mask & tpcs_).empty())
      refuse("the mask of client " + client.name + " names only TPCs that " + gpu_ + " lacks: it has " +
                 std::to_string(tpcs_.count()),
             "name some of 0-" + std::to_string(tpcs_.count() - 1) + ", or use split=even");
  }

  std::optional<TpcMask> mask(const LaunchView& launch, const Client& client,
                              const ClientStream& stream) const {
    if (!shares_.empty()) return shares_[launch.client.value];
    if (const auto& of_op = std::get<Launch>(launch.operation->what).tpc_mask) {
      check(of_op, client);
      return of_op;
    }
    return stream.tpc_mask ? stream.tpc_mask : client.tpc_mask;
  }

  std::string split_;
  std::vector<std::uint32_t> counts_;  // of TPCs, by client; empty: equal shares
  std::vector<TpcMask> shares_;        // by client; empty: the trace's
  TpcMask tpcs_;                       // that the GPU has
  std::string gpu_;
};

const Registered tpc_mask_policy{
    {"tpc-mask",
     "each launch on its own set of TPCs",
     "Bakita and Anderson 2023, section IV",
     {{"split",
       "trace: the masks in the trace; else shares in the order of the clients: even, by number of the TPC; "
       "packed, GPC by GPC; distributed, over all GPCs",
       "trace"},
      {"tpcs", "how many TPCs each client gets, as 8/4; empty: equal shares", ""}},
     {.immediate = true},
     {"green-contexts"}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<TpcMaskPolicy>(p); }};

}  // namespace
}  // namespace corun
