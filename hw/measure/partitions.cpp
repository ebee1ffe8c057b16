#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "hw/measure/jobs.h"

namespace corun::hw {
namespace {

/// The SMs on which blocks of a partition land.
std::set<std::uint32_t> sms_of(Bench& bench, Stream s, DevicePointer words, std::uint32_t blocks) {
  DevicePointer to = words;
  void* parameters[] = {&to};
  bench.driver.launch(bench.work.tool("where"), {blocks, 1, 1}, {1024, 1, 1}, 0, s, parameters);
  std::vector<std::uint32_t> seen(blocks);
  bench.driver.copy_to_host(s, seen.data(), words, 4 * blocks);
  bench.driver.synchronize(s);
  return {seen.begin(), seen.end()};
}

}  // namespace

Json measure_partitions(Bench& bench) {
  const DeviceFacts gpu = bench.driver.facts();
  const std::uint32_t groups = bench.driver.sm_groups();
  const DevicePointer words = bench.driver.allocate(4 * 4096);
  const auto us = [&] { return to_ns(bench.driver.now()) / 1000; };
  Json result;
  // Which SMs each group has.
  std::vector<std::set<std::uint32_t>> of_group;
  std::vector<double> create_us;
  for (std::uint32_t g = 0; g < groups; ++g) {
    const double begin = us();
    const Partition p = bench.driver.partition(std::span(&g, 1));
    const Stream s = bench.driver.stream(0, p);
    create_us.push_back(us() - begin);
    of_group.push_back(sms_of(bench, s, words, 64));
    bench.driver.destroy(s), bench.driver.destroy(p);
  }
  Json groups_json = Json::array();
  for (const auto& set : of_group) groups_json.push_back(set);
  std::uint32_t pairs = 0;
  for (const auto& set : of_group)
    pairs += set.size() == 2 && *set.begin() % 2 == 0 && *set.rbegin() == *set.begin() + 1;
  fmt::print("{} groups, {} of them SMs 2k and 2k+1; creating one takes {:.0f} us (p50)\n", groups, pairs,
             median(create_us));
  result["groups"] = groups_json;
  result["create_us"] = summary(create_us);

  // Several groups together, random and not consecutive ones among them: every block where it was told to be?
  std::uint32_t random = 99, runs = 0, strayed_runs = 0, refused = 0, unused_sms = 0;
  Json masks = Json::array();
  const char* kernels[] = {"copy_small", "sgemm_small", "traps", "softmax_small", "tpacf", "nn_small"};
  std::map<std::string, std::unique_ptr<Instance>> instances;
  const Stream plain = bench.driver.stream(0, {});
  for (const char* name : kernels) {
    instances[name] = std::make_unique<Instance>(bench.driver, *find_kernel(name));
    bench.work.prepare(*instances[name], 1, plain);
  }
  std::uint64_t most_blocks = 0;
  for (const char* name : kernels) most_blocks = std::max(most_blocks, find_kernel(name)->blocks());
  const DevicePointer log = bench.driver.allocate(most_blocks * sizeof(BlockLog));
  std::vector<BlockLog> seen(most_blocks);
  Controls controls(bench.driver, 1);
  for (std::uint32_t m = 0; m < 40 * bench.scale; ++m) {
    std::vector<std::uint32_t> chosen;
    std::string kind;
    if (m % 4 == 0) {
      random = random * 1664525 + 1013904223;
      const std::uint32_t first = (random >> 8) % groups, count = 1 + (random >> 16) % (groups - first);
      for (std::uint32_t g = first; g < first + count; ++g) chosen.push_back(g);
      kind = "range";
    } else if (m % 4 == 1) {
      chosen = {m % groups};
      kind = "one";
    } else {
      for (std::uint32_t g = 0; g < groups; ++g) {
        random = random * 1664525 + 1013904223;
        if ((random >> 16) % 4 < m % 4) chosen.push_back(g);
      }
      kind = "scattered";
    }
    if (chosen.empty()) chosen = {0};
    std::set<std::uint32_t> allowed;
    for (std::uint32_t g : chosen) allowed.insert(of_group[g].begin(), of_group[g].end());
    std::string problem;
    std::uint32_t strayed = 0, of_mask = 0;
    try {
      const Partition p = bench.driver.partition(chosen);
      const Stream s = bench.driver.stream(m % 2 == 0 ? 0 : gpu.highest_priority, p);
      std::set<std::uint32_t> used;
      for (const char* name : kernels) {
        Instance& instance = *instances[name];
        const LibraryKernel& k = instance.kernel();
        const Persistent& how = bench.work.persistent(k, {}, true);
        LaunchParameters parameters = launch_parameters(0, static_cast<std::uint32_t>(k.blocks()), {}, 1);
        parameters.log = log, parameters.control = controls.at(0), parameters.progress = controls.progress(0);
        parameters.grid_x = k.grid.x, parameters.grid_y = k.grid.y, parameters.grid_z = k.grid.z;
        std::vector<void*> all = instance.parameters();
        all.push_back(&parameters);
        bench.driver.fill(s, log, 0xff, k.blocks() * sizeof(BlockLog));
        bench.driver.launch(how.located, k.grid, k.block, k.dynamic_shared_bytes, s, all);
        bench.driver.copy_to_host(s, seen.data(), log, k.blocks() * sizeof(BlockLog));
        bench.driver.synchronize(s);
        std::uint32_t stray = 0;
        for (std::uint64_t b = 0; b < k.blocks(); ++b)
          stray += !allowed.contains(seen[b].sm), used.insert(seen[b].sm);
        ++runs, ++of_mask;
        strayed += stray, strayed_runs += stray != 0;
      }
      unused_sms += static_cast<std::uint32_t>(allowed.size() - std::min(used.size(), allowed.size()));
      bench.driver.destroy(s), bench.driver.destroy(p);
    } catch (const DriverError& e) {
      problem = e.what();
      ++refused;
    }
    masks.push_back({{"kind", kind},
                     {"groups", chosen},
                     {"runs", of_mask},
                     {"strayed_blocks", strayed},
                     {"refused", problem}});
  }
  fmt::print(
      "partitions: {} runs, {} with a block elsewhere, {} masks refused, {} allowed SMs without a block\n",
      runs, strayed_runs, refused, unused_sms);
  result["masks"] = masks;

  // Quotas per SM: fulfil and retreat.
  Taking seated;
  seated.seated = true;
  std::uint32_t quota_runs = 0, over = 0, elsewhere = 0, unfilled = 0;
  Json quotas = Json::array();
  for (std::uint32_t m = 0; m < 40 * bench.scale; ++m) {
    for (const char* name : {"softmax_small", "sgemm_small", "tpacf", "copy_small"}) {
      Instance& instance = *instances[name];
      const LibraryKernel& k = instance.kernel();
      const Persistent& how = bench.work.persistent(k, seated, true);
      Control c;
      std::uint32_t sum = 0, low = 0;
      for (std::uint32_t sm = 0; sm < gpu.sms; ++sm) {
        random = random * 1664525 + 1013904223;
        const std::uint32_t kind = m % 3;
        c.quota[sm] = kind == 0   ? (random >> 16) % (how.workers_per_sm + 1)
                      : kind == 1 ? (sm < gpu.sms / 2 ? how.workers_per_sm : 0)
                                  : (sm % 2 == 0 ? 1 : how.workers_per_sm);
        sum += c.quota[sm];
      }
      if (sum == 0) c.quota[0] = sum = 1;
      controls.put(0, c, plain);
      bench.work.poison(instance, 0x11, plain);
      LaunchParameters p = launch_parameters(0, static_cast<std::uint32_t>(k.blocks()), {}, 1);
      p.log = log, p.control = controls.at(0), p.progress = controls.progress(0), p.seated = 1, p.single = 0;
      bench.driver.fill(plain, log, 0xff, k.blocks() * sizeof(BlockLog));
      bench.driver.synchronize(plain);
      bench.work.launch(instance, how, gpu.sms * how.workers_per_sm, p, plain);
      bench.driver.copy_to_host(plain, seen.data(), log, k.blocks() * sizeof(BlockLog));
      bench.driver.synchronize(plain);
      std::map<std::uint32_t, std::set<std::uint32_t>> workers;
      std::uint32_t stray = 0;
      for (std::uint64_t b = 0; b < k.blocks(); ++b) {
        if (seen[b].sm >= gpu.sms) {
          ++stray;
          continue;
        }
        workers[seen[b].sm].insert(seen[b].worker);
        stray += c.quota[seen[b].sm] == 0;
      }
      std::uint32_t exceeded = 0;
      for (const auto& [sm, who] : workers) exceeded += who.size() > c.quota[sm];
      const Control after = controls.read(0, plain);
      for (std::uint32_t sm = 0; sm < gpu.sms; ++sm) low += after.present[sm] < c.quota[sm];
      ++quota_runs;
      over += exceeded != 0, elsewhere += stray != 0, unfilled += low != 0;
      quotas.push_back({{"kernel", name},
                        {"sum", sum},
                        {"sms_over_quota", exceeded},
                        {"blocks_elsewhere", stray},
                        {"sms_below_quota", low}});
    }
  }
  fmt::print(
      "quotas per SM: {} runs, {} with an SM over its quota, {} with blocks elsewhere, {} with an SM below "
      "its quota\n",
      quota_runs, over, elsewhere, unfilled);
  result["quotas"] = quotas;
  for (auto& [name, instance] : instances) instance.reset();
  bench.driver.free(log), bench.driver.free(words);
  bench.driver.destroy(plain);
  return result;
}

}  // namespace corun::hw
