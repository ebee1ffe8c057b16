// Slate: Allen, Feng and Ge, "Slate: Enabling Workload-Aware Efficient Multiprocessing for Modern GPGPUs"
// (IPDPS 2019), as Chen (2020, section 4.5) rebuilt it.  Persistent kernels, each on its own range of SMs;
// kernels are classed by how much of the GPU's compute and of its memory bandwidth they use alone; two that
// are complementary run at once; ranges are resized when a kernel comes or goes.  Chen: ranges in multiples
// of 5 SMs, the best of all splits.
//
// What the papers leave open: a use is high from `high` of the GPU's peak on, and two kernels are
// complementary unless the same use is high in both; use without counters counts as low; the best split is
// that with the smallest larger one of both kernels' times in the profile, at full residency, as if each
// began now; a kernel that has started its last block keeps its range until it ends.
#include <algorithm>
#include <map>
#include <utility>

#include "policies/api/registry.h"

namespace corun {
namespace {

class Slate final : public Policy {
 public:
  explicit Slate(const Parameters& parameters)
      : step_(static_cast<std::uint32_t>(parameters.number("step", 1, 65535))),
        high_(parameters.number("high", 0, 1)),
        resize_(parameters.choice("resize", {"yes", "no"}) == "yes") {}
  std::string_view name() const override { return "slate"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::sm_quota}, Contexts::one, true};
  }
  void start(const Topology& topology, std::span<const ClientView>) override {
    gpu_ = topology.gpu;
    splits_.clear();
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    std::erase_if(placed_, [&](const Placed& p) {
      return std::find(now.running.begin(), now.running.end(), p.launch) == now.running.end();
    });
    std::vector<LaunchId> ready;
    for (LaunchId id : now.pending)
      if (now.launch(id).waits_for == 0) ready.push_back(id);

    const LaunchView* first = placed_.empty() ? nullptr : &now.launch(placed_[0].launch);
    if (placed_.size() == 2) return;
    if (first == nullptr) {
      if (ready.empty()) return;
      first = &now.launch(ready.front());
      ready.erase(ready.begin());
    }
    const LaunchView* second = nullptr;
    for (LaunchId id : ready)
      if (complementary(*first, now.launch(id))) {
        second = &now.launch(id);
        break;
      }
    Range a{0, gpu_.sms}, b{};
    if (second != nullptr) {
      if (!placed_.empty() && !adjustable(*first)) {
        // Its range is fixed: the other gets the larger side of it.
        a = placed_[0].range;
        b = a.from >= gpu_.sms - a.to ? Range{0, a.from} : Range{a.to, gpu_.sms};
        if (b.empty()) return;
      } else {
        const std::uint32_t cut = split(now, *first, *second);
        a = {0, cut}, b = {cut, gpu_.sms};
        // The one that stays keeps its side.
        if (!placed_.empty() && placed_[0].range.from != 0)
          a = {gpu_.sms - cut, gpu_.sms}, b = {0, gpu_.sms - cut};
      }
      if (b.empty()) second = nullptr;
    }
    if (placed_.empty()) {
      place(*first, a, decisions);
    } else if (adjustable(*first) && placed_[0].range != a && (second != nullptr || resize_)) {
      decisions.push_back(decide::Resize{first->id, 0, ctas(*first, a)});
      placed_[0].range = a;
    }
    if (second != nullptr) place(*second, b, decisions);
  }

 private:
  struct Range {
    std::uint32_t from = 0, to = 0;
    bool empty() const { return from == to; }
    bool operator==(const Range&) const = default;
  };
  struct Placed {
    LaunchId launch;
    Range range;
  };
  struct Use {
    double compute, memory;  // of the GPU's peak
  };

  static bool adjustable(const LaunchView& l) { return l.state == LaunchState::submitted; }

  Use use(const LaunchView& l) const {
    const Counters& c = l.kernel->counters;
    const double seconds = to_seconds(l.kernel->solo_time.value_or(l.solo_time));
    const double bytes = c.dram_read_bytes.value_or(0) + c.dram_write_bytes.value_or(0);
    return {c.issue_active_pct.value_or(0) / 100,
            seconds > 0 ? bytes / seconds / gpu_.dram_bytes_per_second : 0};
  }
  bool complementary(const LaunchView& a, const LaunchView& b) const {
    const Use x = use(a), y = use(b);
    return !(x.compute >= high_ && y.compute >= high_) && !(x.memory >= high_ && y.memory >= high_);
  }

  /// Time on `sms` SMs at the best residency, between the profile's points by throughput.
  double time(const Snapshot& now, const LaunchView& l, std::uint32_t sms) const {
    double below_sms = 0, below = 0, above_sms = 0, above = 0;  // throughput
    for (const ProfilePoint& p : now.profiles[l.kernel_id.value]) {
      const double throughput = 1 / static_cast<double>(p.time.count());
      if (p.sms <= sms && (p.sms > below_sms || (p.sms == below_sms && throughput > below)))
        below_sms = p.sms, below = throughput;
      if (p.sms >= sms && (above_sms == 0 || p.sms < above_sms || (p.sms == above_sms && throughput > above)))
        above_sms = p.sms, above = throughput;
    }
    double throughput = above_sms == 0 ? below : above;
    if (above_sms > below_sms)
      throughput = below + (above - below) * (sms - below_sms) / (above_sms - below_sms);
    return throughput > 0 ? 1 / throughput : 1e300;
  }

  /// As the profiles do not change during a run, it is the same whenever the two kernels meet.
  std::uint32_t split(const Snapshot& now, const LaunchView& a, const LaunchView& b) {
    const auto [known, is_new] = splits_.emplace(std::pair(a.kernel_id.value, b.kernel_id.value), gpu_.sms);
    std::uint32_t& best = known->second;
    if (!is_new) return best;
    double least = 0;
    for (std::uint32_t cut = step_; cut < gpu_.sms; cut += step_) {
      const double longer = std::max(time(now, a, cut), time(now, b, gpu_.sms - cut));
      if (best == gpu_.sms || longer < least) best = cut, least = longer;
    }
    return best;  // the whole GPU: not to be split in such steps
  }

  decide::CtasPerSm ctas(const LaunchView& l, Range range) const {
    decide::CtasPerSm spread(gpu_.sms);
    const std::uint32_t most = max_active_blocks(capacity_of(gpu_.sm), demand_of(*l.kernel, gpu_.sm));
    std::fill(spread.begin() + range.from, spread.begin() + range.to, static_cast<std::uint16_t>(most));
    return spread;
  }
  void place(const LaunchView& l, Range range, std::vector<Decision>& decisions) {
    decisions.push_back(decide::Launch{l.id, 0, {}, 0, ctas(l, range)});
    placed_.push_back({l.id, range});
  }

  std::uint32_t step_;
  double high_;
  bool resize_;
  Gpu gpu_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> splits_;  // SMs of the first, by kernels
  std::vector<Placed> placed_;  // at most two; one that was refused is forgotten at the next notice
};

const Registered slate_policy{
    {"slate",
     "two complementary persistent kernels at once, each on its own range of SMs",
     "Allen, Feng and Ge 2019; Chen 2020, section 4.5",
     {{"step", "a range is a multiple of this number of SMs", "5"},
      {"high", "use of compute or bandwidth, of the peak, from which on two kernels do not share it", "0.7"},
      {"resize",
       "yes: a kernel left alone gets the whole GPU; no: it keeps its range, as Chen's rebuild does",
       "yes"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<Slate>(p); }};

}  // namespace
}  // namespace corun
