// Greedy CTA allocation: "Adaptive Simultaneous Multi-Tenancy for GPUs", Bashizade, Li and Lebeck, JSSPP
// 2018, sections 3.2 to 3.6.  Every kernel runs as a persistent kernel; when a kernel arrives or starts its
// last block, all running kernels are asked how many blocks they have done, and Algorithm 1 gives each its
// number of CTAs.
//
// What the paper leaves open: "fits the device" is judged by the sums of warps, block places, registers and
// shared memory over the whole device, not SM by SM; kernels that have started their last block keep what
// they hold and are not counted; if not even one CTA of each kernel fits, the kernels that arrived last wait;
// a kernel arrives when all that it must follow (its stream, its events) has ended.
#include <algorithm>

#include "policies/api/registry.h"

namespace corun {
namespace {

/// Sums over the device, which do not fit the 32 bits of one SM's.
struct DeviceUse {
  std::uint64_t blocks = 0, warps = 0, threads = 0, registers = 0, shared_memory = 0;
  void add(const SmResources& one, std::int64_t times) {
    const auto n = static_cast<std::uint64_t>(times);  // wraps around for negative ones, and back
    blocks += one.blocks * n, warps += one.warps * n, threads += one.threads * n;
    registers += one.registers * n, shared_memory += one.shared_memory * n;
  }
  bool fits(const DeviceUse& device) const {
    return blocks <= device.blocks && warps <= device.warps && threads <= device.threads &&
           registers <= device.registers && shared_memory <= device.shared_memory;
  }
};

class Greedy final : public Policy {
 public:
  std::string_view name() const override { return "greedy"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::cta_quota, Capability::progress}, Contexts::one, true};
  }
  void start(const Topology& topology, std::span<const ClientView>) override {
    sm_ = topology.gpu.sm;
    device_.add(capacity_of(sm_), topology.gpu.sms);
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const Notice& notice : now.notices) {
      if (std::holds_alternative<LastBlockStarted>(notice)) due_ = true;
      if (const auto* p = std::get_if<ProgressReported>(&notice)) std::erase(asked_, p->launch);
    }
    std::erase_if(asked_, [&](LaunchId id) { return !adjustable(now, id); });
    // Beside arrivals: a launch that was held because it did not fit, or whose predecessor has ended, is one
    // too.
    const bool arrival = std::any_of(now.streams.begin(), now.streams.end(), [&](const StreamView& s) {
      if (s.pending.empty()) return false;
      const LaunchId id = s.pending.front();  // what is behind it waits for it
      return now.launch(id).waits_for == 0 && std::find(held_.begin(), held_.end(), id) == held_.end();
    });
    due_ = due_ || arrival;
    if (!asked_.empty()) return;  // the round under way takes in what has come since
    if (round_) {
      round_ = false;
      return allocate(now, decisions);
    }
    if (!due_) return;
    due_ = false;
    for (LaunchId id : now.running)
      if (adjustable(now, id)) asked_.push_back(id);
    if (asked_.empty()) return allocate(now, decisions);
    round_ = true;
    for (LaunchId id : asked_) decisions.push_back(decide::Query{id});
  }

 private:
  struct Candidate {
    LaunchId launch;
    bool pending;
    const Profile* profile;
    SmResources demand;
    double scale;           // this launch's length over the profile's, times the share of blocks not done
    std::size_t point = 0;  // its configuration
    double remaining = 0;   // time

    void go_to(std::size_t next) {
      point = next;
      remaining = static_cast<double>((*profile)[point].time.count()) * scale;
    }
    std::int64_t ctas() const { return (*profile)[point].ctas; }
  };

  /// A persistent launch whose number of CTAs can still be changed.
  static bool adjustable(const Snapshot& now, LaunchId id) {
    const LaunchView& l = now.launch(id);
    return l.id == id && l.state == LaunchState::submitted && l.ctas != 0;
  }

  const Profile& pruned(const Snapshot& now, KernelId kernel) {
    if (pruned_.size() < now.profiles.size()) pruned_.resize(now.profiles.size());
    Profile& profile = pruned_[kernel.value];
    if (profile.empty())
      for (const ProfilePoint& point : now.profiles[kernel.value])
        if (profile.empty() || point.time < profile.back().time) profile.push_back(point);
    return profile;
  }

  void allocate(const Snapshot& now, std::vector<Decision>& decisions) {
    due_ = false;
    std::vector<Candidate> kernels;
    DeviceUse used;
    held_.clear();
    const auto consider = [&](LaunchId id, bool pending) {
      const LaunchView& l = now.launch(id);
      const Profile& profile = pruned(now, l.kernel_id);
      const double blocks = static_cast<double>(l.kernel->blocks());
      const double left = (blocks - static_cast<double>(l.blocks_done)) / blocks;
      const double length =
          static_cast<double>(l.solo_time.count()) / static_cast<double>(profile.back().time.count());
      Candidate k{id, pending, &profile, demand_of(*l.kernel, sm_), left * length};
      used.add(k.demand, k.ctas());
      if (pending && !used.fits(device_)) {
        used.add(k.demand, -k.ctas());
        held_.push_back(id);
        return;
      }
      k.go_to(0);
      kernels.push_back(k);
    };
    for (LaunchId id : now.running)
      if (adjustable(now, id)) consider(id, false);
    for (LaunchId id : now.first_pending([](const StreamView&) { return 1; }))
      if (now.launch(id).waits_for == 0) consider(id, true);

    // Algorithm 1.  A heap instead of sorting again: the same order; of equally long ones the first comes
    // first. Who is marked leaves the heap.
    const auto shorter = [&](std::uint32_t a, std::uint32_t b) {
      return kernels[a].remaining != kernels[b].remaining ? kernels[a].remaining < kernels[b].remaining
                                                          : a > b;
    };
    unmarked_.clear();
    for (std::uint32_t i = 0; i < kernels.size(); ++i) unmarked_.push_back(i);
    std::make_heap(unmarked_.begin(), unmarked_.end(), shorter);
    while (!unmarked_.empty()) {
      std::pop_heap(unmarked_.begin(), unmarked_.end(), shorter);
      Candidate& longest = kernels[unmarked_.back()];
      if (longest.point + 1 < longest.profile->size()) {
        const std::int64_t before = longest.ctas();
        longest.go_to(longest.point + 1);
        used.add(longest.demand, longest.ctas() - before);
        if (used.fits(device_)) {
          std::push_heap(unmarked_.begin(), unmarked_.end(), shorter);
          continue;
        }
        used.add(longest.demand, before - longest.ctas());
        longest.go_to(longest.point - 1);
      }
      unmarked_.pop_back();
    }

    for (const Candidate& k : kernels) {
      const auto ctas = static_cast<std::uint32_t>(k.ctas());
      if (k.pending) {
        decisions.push_back(decide::Launch{k.launch, 0, {}, ctas});
      } else if (now.launch(k.launch).ctas != ctas) {
        decisions.push_back(decide::Resize{k.launch, ctas});
      }
    }
  }

  SmLimits sm_;
  DeviceUse device_;
  std::vector<Profile> pruned_;          // by KernelId
  std::vector<LaunchId> asked_;          // queries not answered yet
  std::vector<LaunchId> held_;           // pending, did not fit at the last allocation
  std::vector<std::uint32_t> unmarked_;  // of allocate(), kept for its memory
  bool round_ = false;                   // queries are out
  bool due_ = false;                     // something happened that calls for a new allocation
};

const Registered greedy_policy{
    {"greedy",
     "persistent kernels; the kernel with the longest remaining time gets more CTAs while all fit",
     "Bashizade, Li and Lebeck 2018, Algorithm 1",
     {},
     {.no_starvation = true}},
    [](const Parameters&) -> std::unique_ptr<Policy> { return std::make_unique<Greedy>(); }};

}  // namespace
}  // namespace corun
