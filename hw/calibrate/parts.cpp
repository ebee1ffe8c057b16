// Parts of the GPU: which TPCs are on one GPC, and how finely MPS divides SMs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "hw/calibrate/jobs.h"
#include "traces/model/error.h"

namespace corun::hw {

std::vector<double> gpc_of_tpcs(const std::vector<std::vector<std::uint32_t>>& clusters, std::uint32_t sms,
                                std::uint32_t sms_per_tpc, std::string& why) {
  std::vector<std::uint32_t> leader(sms / sms_per_tpc);  // of TPCs known to be on one GPC; those of a TPC are
  std::iota(leader.begin(), leader.end(), 0u);
  std::vector<bool> seen(leader.size());
  const auto find = [&](std::uint32_t tpc) {
    while (leader[tpc] != tpc) tpc = leader[tpc] = leader[leader[tpc]];
    return tpc;
  };
  for (const std::vector<std::uint32_t>& cluster : clusters)
    for (const std::uint32_t sm : cluster) {
      if (sm >= sms) return why = fmt::format("a block ran on SM {} of {}", sm, sms), std::vector<double>{};
      seen[sm / sms_per_tpc] = true;
      const std::uint32_t a = find(cluster.front() / sms_per_tpc), b = find(sm / sms_per_tpc);
      leader[std::max(a, b)] = std::min(a, b);
    }
  if (const auto unseen = std::count(seen.begin(), seen.end(), false); unseen != 0)
    return why = fmt::format("{} of {} TPCs got no block of a cluster", unseen, seen.size()), std::vector<double>{};
  std::vector<double> gpc(leader.size());
  double next = 0;
  for (std::uint32_t tpc = 0; tpc < leader.size(); ++tpc) gpc[tpc] = find(tpc) == tpc ? next++ : gpc[find(tpc)];
  if (2 * next > static_cast<double>(leader.size()))
    return why = fmt::format("clusters connect {} TPCs to {} groups", leader.size(), next), std::vector<double>{};
  return gpc;
}

/// Clusters of two, four and eight blocks with an SM each, many more than there is room for.
void measure_gpcs(Calibrating& c) {
  Bench& bench = c.bench;
  const DeviceFacts& f = bench.facts();
  if (f.capability_major < 9)
    return c.found.missing("chip", "gpc_of_tpc", "clusters begin with compute capability 9.0");
  const std::uint32_t blocks = 64 * f.sms / 8 * 8, shared = f.sm.block_shared_bytes - 1024;
  const DeviceArray at(bench.driver(), std::size_t{blocks} * 4);
  std::vector<std::vector<std::uint32_t>> clusters;
  for (const auto& [entry, size] : {std::pair{"cluster_of_8", 8u}, {"cluster_of_4", 4u}, {"cluster_of_2", 2u}}) {
    bench.driver().allow_shared_memory(bench.function(entry), shared);
    bench.launch(entry, blocks, 32, shared, bench.stream(0), at.at(), bench.cycles(3));
    const auto sm = bench.read<std::uint32_t>(at.at(), blocks);
    for (std::uint32_t first = 0; first < blocks; first += size)
      clusters.emplace_back(sm.begin() + first, sm.begin() + first + size);
  }
  std::string why;
  std::vector<double> gpc = gpc_of_tpcs(clusters, f.sms, c.like.sms_per_tpc, why);
  if (gpc.empty()) return c.found.missing("chip", "gpc_of_tpc", why);
  std::vector<std::uint32_t> tpcs(gpc.size());
  for (const double g : gpc) ++tpcs[static_cast<std::size_t>(g)];
  const auto single = std::ranges::count(tpcs, 1u), none = std::ranges::count(tpcs, 0u);
  c.found.list("chip", "gpc_of_tpc", std::move(gpc),
               fmt::format("TPCs whose SMs blocks of one cluster shared, {} clusters of 2, 4 and 8: {} GPCs, and {} TPCs each alone",
                           clusters.size(), static_cast<std::ptrdiff_t>(tpcs.size()) - none - single, single));
}

MpsGranularity mps_granularity(const std::vector<double>& percentages, const std::vector<std::uint32_t>& seen,
                               std::uint32_t sms) {
  if (seen.size() != percentages.size() || seen.empty()) return {};
  MpsGranularity g{*std::ranges::min_element(seen), 0};
  for (const std::uint32_t n : seen) g.step = std::gcd(g.step, n);
  if (g.step == 0) return {};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto steps = static_cast<std::uint32_t>(std::floor(percentages[i] * sms / (100.0 * g.step)));
    if (seen[i] != std::min(sms, std::max(g.least, steps * g.step))) return {};
  }
  return g;
}

void measure_mps(Calibrating& c) {
  const std::uint32_t sms = c.bench.facts().sms;
  const auto missing = [&](const std::string& why) {
    c.found.missing("scheduling", "mps_least_sms", why), c.found.missing("scheduling", "mps_sm_step", why);
  };
  if (!c.sms_under_mps) return missing("MPS was not asked");
  // One, and what ends with an odd SM: a step of two shows there.
  const std::vector<double> percentages{1, 4, 9, 14, 23, 37, 51, 68, 83, 99};
  std::vector<std::uint32_t> seen;
  try {
    seen = c.sms_under_mps(percentages);
  } catch (const InputError& e) {  // there is no MPS
    return missing(e.problem());
  } catch (const DriverError& e) {
    return missing(e.what());
  }
  const MpsGranularity g = mps_granularity(percentages, seen, sms);
  const std::string what = fmt::format("SMs that clients of MPS see with {} %: {}", fmt::join(percentages, ", "), fmt::join(seen, ", "));
  if (g.step == 0) return missing("no least number and step give this: " + what);
  c.found.set("scheduling", "mps_least_sms", g.least, what);
  c.found.set("scheduling", "mps_sm_step", g.step, what);
}

}  // namespace corun::hw
