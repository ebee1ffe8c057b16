// smCompactor: Chen, "FlexGPU and smCompactor" (thesis, 2020), chapter 4.  A dispatch table says how many
// CTAs of each persistent kernel each SM holds.  A kernel gets the fewest SMs, and on these the fewest CTAs,
// with which its profile is within `threshold` of its best; the next kernel is filled into what is left on
// the SMs in use (bin packing in blocks, warps, threads, registers and shared memory), then gets further SMs,
// one at a time, until it is near its best too.  Equation 4.2 (throughput = SMs x start x CTAs ^ improve)
// says how fast an uneven spread is.
//
// What the thesis leaves open: `start` and `improve` come from the profile's points on one SM, or on the
// fewest SMs it has; kernels are filled in in the order of their arrival; of the configurations of the first
// that are near its best, that is taken with which all others get near theirs on the fewest SMs, or else the
// worst-off gets furthest; the table is made anew when a kernel comes or goes; a kernel that has started its
// last block keeps its places until it ends; a kernel for which not one place is left waits.
#include <algorithm>
#include <cmath>

#include "policies/api/registry.h"

namespace corun {
namespace {

class SmCompactor final : public Policy {
 public:
  explicit SmCompactor(const Parameters& parameters)
      : threshold_(parameters.number("threshold", 0.01, 1)),
        fixed_{static_cast<std::uint32_t>(parameters.number("sms", 0, 65535)),
               static_cast<std::uint32_t>(parameters.number("ctas", 1, 64))} {}
  std::string_view name() const override { return "smcompactor"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::sm_quota}, Contexts::one, true};
  }
  void start(const Topology& topology, std::span<const ClientView>) override {
    sms_ = topology.gpu.sms;
    sm_ = topology.gpu.sm;
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    std::erase_if(granted_, [&](const Granted& g) {
      return std::find(now.running.begin(), now.running.end(), g.launch) == now.running.end();
    });
    std::vector<LaunchId> ready;
    for (LaunchId id : now.pending)
      if (now.launch(id).waits_for == 0) ready.push_back(id);
    // A new table: when a kernel has ended, or one comes that was not waiting for room at the last table.
    bool due = std::any_of(now.notices.begin(), now.notices.end(),
                           [](const Notice& n) { return std::holds_alternative<KernelFinished>(n); });
    for (LaunchId id : ready) due = due || std::find(held_.begin(), held_.end(), id) == held_.end();
    if (!due) return;

    std::vector<Kernel> kernels;
    Table empty{std::vector<SmResources>(sms_, capacity_of(sm_)), std::vector<bool>(sms_)};
    for (const Granted& g : granted_) {
      const LaunchView& l = now.launch(g.launch);
      if (l.state == LaunchState::submitted)
        kernels.push_back(kernel(now, l, false));
      else
        for (std::uint32_t sm = 0; sm < sms_; ++sm) empty.take(sm, demand_of(*l.kernel, sm_), g.ctas[sm]);
    }
    for (LaunchId id : ready) kernels.push_back(kernel(now, now.launch(id), true));
    held_.clear();
    if (kernels.empty()) return;

    const Plan plan = best_plan(kernels, empty);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const decide::CtasPerSm& ctas = plan.ctas[i];
      const bool none = std::all_of(ctas.begin(), ctas.end(), [](std::uint16_t n) { return n == 0; });
      if (kernels[i].pending && none) {
        held_.push_back(kernels[i].launch);
      } else if (kernels[i].pending) {
        decisions.push_back(decide::Launch{kernels[i].launch, 0, {}, 0, ctas});
        granted_.push_back({kernels[i].launch, ctas});
      } else if (const auto g = find(kernels[i].launch); g->ctas != ctas && !none) {
        decisions.push_back(decide::Resize{kernels[i].launch, 0, ctas});
        g->ctas = ctas;
      }
    }
  }

 private:
  struct Configuration {
    std::uint32_t sms, each;
  };
  struct Kernel {
    LaunchId launch;
    bool pending;
    SmResources demand;
    std::vector<Configuration> near_best;  // fewest SMs first, then fewest CTAs on each
    std::uint32_t each = 1;                // CTAs on an SM that it gets for itself
    double saturated = 0, start = 0, improve = 0;
    double on_sm(std::uint32_t ctas) const { return ctas == 0 ? 0 : start * std::pow(ctas, improve); }
  };
  struct Table {
    std::vector<SmResources> free;  // by SM
    std::vector<bool> used;
    void take(std::uint32_t sm, const SmResources& demand, std::uint32_t n) {
      for (std::uint32_t i = 0; i < n; ++i) free[sm] -= demand;
      used[sm] = used[sm] || n != 0;
    }
  };
  struct Plan {
    std::vector<decide::CtasPerSm> ctas;  // by kernel
    double worst = 0;                     // of the kernels: throughput over what is near its best, at most 1
    std::size_t sms = 0, total = 0;       // in use; CTAs
    bool better_than(const Plan& o) const {
      if (worst != o.worst) return worst > o.worst;
      return sms != o.sms ? sms < o.sms : total < o.total;
    }
  };
  struct Granted {
    LaunchId launch;
    decide::CtasPerSm ctas;
  };

  std::vector<Granted>::iterator find(LaunchId id) {
    return std::find_if(granted_.begin(), granted_.end(), [&](const Granted& g) { return g.launch == id; });
  }

  Kernel kernel(const Snapshot& now, const LaunchView& l, bool pending) const {
    const Profile& profile = now.profiles[l.kernel_id.value];
    Kernel k;
    k.launch = l.id, k.pending = pending, k.demand = demand_of(*l.kernel, sm_);
    const ProfilePoint* fewest = nullptr;  // on the fewest SMs: with the fewest and the most CTAs
    const ProfilePoint* most = nullptr;
    for (const ProfilePoint& p : profile) {
      k.saturated = std::max(k.saturated, throughput(p));
      if (fewest == nullptr || p.sms < fewest->sms) fewest = most = &p;
      if (p.sms == fewest->sms && p.ctas_per_sm < fewest->ctas_per_sm) fewest = &p;
      if (p.sms == fewest->sms && p.ctas_per_sm > most->ctas_per_sm) most = &p;
    }
    if (most->ctas_per_sm > fewest->ctas_per_sm)
      k.improve = std::max(0.0, std::log(throughput(*most) / throughput(*fewest)) /
                                    std::log(double{1} * most->ctas_per_sm / fewest->ctas_per_sm));
    k.start = throughput(*fewest) / fewest->sms / std::pow(fewest->ctas_per_sm, k.improve);
    for (const ProfilePoint& p : profile)
      if (throughput(p) >= threshold_ * k.saturated) k.near_best.push_back({p.sms, p.ctas_per_sm});
    std::sort(k.near_best.begin(), k.near_best.end(), [](const Configuration& a, const Configuration& b) {
      return a.sms != b.sms ? a.sms < b.sms : a.each < b.each;
    });
    if (fixed_.sms != 0) k.near_best = {fixed_};
    k.each = k.near_best.front().each;
    return k;
  }
  static double throughput(const ProfilePoint& p) { return 1 / static_cast<double>(p.time.count()); }

  Plan best_plan(const std::vector<Kernel>& kernels, const Table& empty) const {
    Plan best;
    for (const Configuration& c : kernels.front().near_best) {
      Plan plan;
      Table table = empty;
      plan.worst = 1;
      for (const Kernel& k : kernels) {
        double reached = 0;
        plan.ctas.push_back(fill(k, &k == &kernels.front() ? &c : nullptr, table, reached));
        plan.worst = std::min(plan.worst, reached);
        for (const std::uint16_t n : plan.ctas.back()) plan.total += n;
      }
      plan.sms = static_cast<std::size_t>(std::count(table.used.begin(), table.used.end(), true));
      if (best.ctas.empty() || plan.better_than(best)) best = std::move(plan);
    }
    return best;
  }

  /// Its CTAs by SM; with a configuration, that if the SMs have room for it.
  decide::CtasPerSm fill(const Kernel& k, const Configuration* c, Table& table, double& reached) const {
    decide::CtasPerSm ctas(sms_);
    const double enough = threshold_ * k.saturated;
    double sum = 0;
    const auto give = [&](std::uint32_t sm, std::uint32_t most) {
      const std::uint32_t n = std::min(most, max_active_blocks(table.free[sm], k.demand));
      ctas[sm] = static_cast<std::uint16_t>(n);
      table.take(sm, k.demand, n);
      sum += k.on_sm(n);
      return n != 0;
    };
    if (c != nullptr) {
      std::uint32_t given = 0;
      for (std::uint32_t sm = 0; sm < sms_ && given < c->sms; ++sm)
        if (max_active_blocks(table.free[sm], k.demand) >= c->each) given += give(sm, c->each);
      if (given == c->sms) {
        reached = 1;  // as profiled
        return ctas;
      }
    }
    for (const bool used : {true, false})  // first what is left on SMs in use, then further ones
      for (std::uint32_t sm = 0; sm < sms_ && sum < enough; ++sm)
        if (table.used[sm] == used && ctas[sm] == 0) give(sm, k.each);
    reached = std::min(1.0, sum / enough);
    return ctas;
  }

  double threshold_;
  Configuration fixed_;
  std::uint32_t sms_ = 0;
  SmLimits sm_;
  std::vector<Granted>
      granted_;                 // in order of launching; one that was refused is forgotten at the next notice
  std::vector<LaunchId> held_;  // found no place in the last table
};

const Registered smcompactor_policy{
    {"smcompactor",
     "a table of CTAs per SM: each kernel on the fewest SMs that keep it near its best, the next in what is "
     "left",
     "Chen 2020, chapter 4",
     {{"threshold", "share of a kernel's best throughput that counts as near it", "0.9"},
      {"sms", "SMs of the first kernel of a table; 0: as its profile says (section 4.5.3)", "0"},
      {"ctas", "CTAs on each of these SMs", "1"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<SmCompactor>(p); }};

}  // namespace
}  // namespace corun
