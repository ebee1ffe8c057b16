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
#include <map>
#include <memory>

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
    shapes_.clear();
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    std::erase_if(granted_, [&](const Granted& g) {
      return std::find(now.running.begin(), now.running.end(), g.launch) == now.running.end();
    });
    std::vector<LaunchId> ready;
    for (LaunchId id : now.pending)
      if (now.launch(id).waits_for == 0) ready.push_back(id);
    // A new table: when a kernel has ended, or one comes that was not waiting for places at the last table.
    bool due = std::any_of(now.notices.begin(), now.notices.end(),
                           [](const Notice& n) { return std::holds_alternative<KernelFinished>(n); });
    for (LaunchId id : ready) due = due || std::find(held_.begin(), held_.end(), id) == held_.end();
    if (!due) return;

    std::vector<Kernel> kernels;
    std::vector<SmResources> free(sms_, capacity_of(sm_));
    std::vector<bool> used(sms_);
    for (const Granted& g : granted_) {
      const LaunchView& l = now.launch(g.launch);
      if (l.state == LaunchState::submitted) {
        kernels.push_back(kernel(now, l, false));
        continue;
      }
      for (std::uint32_t sm = 0; sm < sms_; ++sm) {
        for (std::uint32_t i = 0; i < g.ctas[sm]; ++i) free[sm] -= demand_of(*l.kernel, sm_);
        used[sm] = used[sm] || g.ctas[sm] != 0;
      }
    }
    for (LaunchId id : ready) kernels.push_back(kernel(now, now.launch(id), true));
    held_.clear();
    if (kernels.empty()) return;

    const Plan plan = best_plan(kernels, table_of(free, used));
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const decide::CtasPerSm& ctas = plan[i];
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
  /// What a profile says.
  struct Shape {
    std::vector<Configuration> near_best;  // fewest SMs first, then fewest CTAs on each
    std::uint32_t each = 1;                // CTAs on an SM that it gets for itself
    double saturated = 0, start = 0, improve = 0;
    double on_sm(std::uint32_t ctas) const { return ctas == 0 ? 0 : start * std::pow(ctas, improve); }
  };
  struct Kernel {
    LaunchId launch;
    bool pending;
    SmResources demand;
    const Shape* shape;
  };
  /// SMs beside each other that are alike.  A table has a few of them, which makes a decision fast: while one
  /// is made, nothing comes to the GPU.
  struct Alike {
    std::uint32_t first, count;
    std::uint16_t ctas;  // of the kernel that is being filled in
    bool used;
    SmResources free;
  };
  using Table = std::vector<Alike>;
  using Plan = std::vector<decide::CtasPerSm>;  // by kernel
  struct Score {
    double worst = 1;               // of the kernels: throughput over what is near its best, at most 1
    std::size_t sms = 0, ctas = 0;  // in use
    bool better_than(const Score& o) const {
      if (worst != o.worst) return worst > o.worst;
      return sms != o.sms ? sms < o.sms : ctas < o.ctas;
    }
  };
  struct Granted {
    LaunchId launch;
    decide::CtasPerSm ctas;
  };

  std::vector<Granted>::iterator find(LaunchId id) {
    return std::find_if(granted_.begin(), granted_.end(), [&](const Granted& g) { return g.launch == id; });
  }

  Kernel kernel(const Snapshot& now, const LaunchView& l, bool pending) {
    auto& shape = shapes_[l.kernel_id.value];  // profiles do not change during a run
    if (!shape) shape = std::make_unique<Shape>(shape_of(now.profiles[l.kernel_id.value]));
    return {l.id, pending, demand_of(*l.kernel, sm_), shape.get()};
  }

  Shape shape_of(const Profile& profile) const {
    Shape k;
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

  Table table_of(const std::vector<SmResources>& free, const std::vector<bool>& used) const {
    Table table;
    for (std::uint32_t sm = 0; sm < sms_; ++sm)
      if (sm > 0 && free[sm] == free[sm - 1] && used[sm] == used[sm - 1])
        ++table.back().count;
      else
        table.push_back({sm, 1, 0, used[sm], free[sm]});
    return table;
  }

  Plan best_plan(const std::vector<Kernel>& kernels, const Table& empty) {
    const Configuration* best = nullptr;
    Score least;
    for (const Configuration& c : kernels.front().shape->near_best) {
      Score score;
      table_ = empty;
      for (const Kernel& k : kernels) {
        score.worst = std::min(score.worst, fill(k, &k == &kernels.front() ? &c : nullptr, table_));
        if (best != nullptr && score.worst < least.worst) break;  // no more can make it better
        for (const Alike& a : table_) score.ctas += std::size_t{a.ctas} * a.count;
      }
      for (const Alike& a : table_) score.sms += a.used ? a.count : 0;
      if (best == nullptr || score.better_than(least)) best = &c, least = score;
    }
    Plan plan;
    table_ = empty;
    for (const Kernel& k : kernels) {
      fill(k, &k == &kernels.front() ? best : nullptr, table_);
      decide::CtasPerSm& ctas = plan.emplace_back(sms_);
      for (const Alike& a : table_) std::fill_n(ctas.begin() + a.first, a.count, a.ctas);
    }
    return plan;
  }

  /// Leaves its CTAs in the table, of the SMs with a configuration as that says if they have the places for it.  How
  /// much it reaches of what is near its best.
  double fill(const Kernel& k, const Configuration* c, Table& table) const {
    const Shape& shape = *k.shape;
    const double enough = threshold_ * shape.saturated;
    double sum = 0;
    for (Alike& a : table) a.ctas = 0;
    /// `n` CTAs on each of at most `most` of the SMs, as long as they are not enough; what is left of them
    /// comes next in the table.
    const auto give = [&](std::size_t at, std::uint32_t n, std::uint32_t most, bool until_enough) {
      if (n == 0) return std::uint32_t{0};
      const double each = shape.on_sm(n);
      std::uint32_t count = 0;
      for (; count < std::min(most, table[at].count) && !(until_enough && sum >= enough); ++count) sum += each;
      if (count == 0) return count;
      if (count < table[at].count) {
        Alike rest = table[at];
        rest.first += count, rest.count -= count;
        table.insert(table.begin() + static_cast<std::ptrdiff_t>(at) + 1, rest);
        table[at].count = count;
      }
      table[at].ctas = static_cast<std::uint16_t>(n);
      table[at].used = true;
      for (std::uint32_t i = 0; i < n; ++i) table[at].free -= k.demand;
      return count;
    };
    if (c != nullptr) {
      std::uint32_t left = c->sms;
      for (std::size_t i = 0; i < table.size() && left > 0; ++i)
        if (max_active_blocks(table[i].free, k.demand) >= c->each) left -= give(i, c->each, left, false);
      if (left == 0) return 1;  // as profiled
    }
    for (const bool used : {true, false})  // first what is left on SMs in use, then further ones
      for (std::size_t i = 0; i < table.size() && sum < enough; ++i)
        if (table[i].used == used && table[i].ctas == 0)
          give(i, std::min(shape.each, max_active_blocks(table[i].free, k.demand)), table[i].count, true);
    return std::min(1.0, sum / enough);
  }

  double threshold_;
  Configuration fixed_;
  std::uint32_t sms_ = 0;
  SmLimits sm_;
  std::map<std::uint32_t, std::unique_ptr<Shape>> shapes_;  // by kernel
  Table table_;
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
