// CapSM / SMGuard: "A fine-grained GPU resource management method for mixed workloads" (patent, 2017), steps
// 1 to 14, and Yu et al., "SMGuard: A Flexible and Fine-Grained Resource Management Framework for GPUs" (TPDS
// 2018).  One SM is one unit of capacity; a kernel of which M blocks fit an SM sees it as M slices of 1/M,
// and any M slices are one CapSM, so that a share of the GPU is a number of blocks.  Offline tasks have a
// quota, the most they get; online tasks a reservation, the least.  A task is admitted with its request if
// what is free covers it; else an offline task takes what is left, and for an online task offline ones
// release the difference at their next block.  Released blocks go on on what their task keeps: persistent
// kernels.
//
// What the sources leave open, above all which SMs the slices are on: free slices scattered over SMs hold no
// block of a kernel that needs more of an SM, and then a reservation is not there when offline blocks have
// ended.  So each reservation is a set of SMs (beginning on one of its own while there are enough; the last
// may be shared), a task's blocks are given SM by SM, elsewhere before on reserved SMs, and those who must
// release do so where the reservation is.  They are launched with the highest priority, past workers of
// others that wait for an SM.  A task that has nothing left is taken off the GPU at its next block and waits.
// And an SM in use is full for a kernel that needs another shared-memory carveout, larger than those
// of the kernels there (`carveout_of`): what makes way for it leaves the SM until it has ended.
//
// A launch that cannot be sized (LaunchView::sizable) goes plainly: `pass_on`.
//
// Further: online is the trace's real-time class; a client without quota or reservation asks for the whole
// GPU, and an online one without a reservation comes before offline ones, which have what it leaves, and
// gives way to reservations; shares hold for a client, whatever its launches; the task admitted last releases
// first; an offline task for which nothing is left waits; tasks that released or took less grow back, first
// admitted first, when a task ends (`restore`).  There must be task slots for all that run.
#include <algorithm>
#include <cmath>
#include <optional>

#include "policies/api/registry.h"

namespace corun {
namespace {

class SmGuard final : public Policy {
 public:
  explicit SmGuard(const Parameters& parameters)
      : restore_(parameters.choice("restore", {"yes", "no"}) == "yes") {}
  std::string_view name() const override { return "smguard"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::priority, Capability::sm_quota, Capability::preempt_at_block},
            Contexts::one,
            false};
  }

  void start(const Topology& topology, std::span<const ClientView> clients) override {
    sm_ = topology.gpu.sm;
    sms_ = topology.gpu.sms;
    highest_ = 1 - static_cast<std::int32_t>(topology.gpu.priority_levels);
    reserved_on_.assign(sms_, 0);
    double whole = 0;
    for (const ClientView& c : clients)
      if (is_reserved(*c.client)) whole += std::ceil(*c.client->reservation * sms_ - kTiny);
    double end = sms_;
    for (const ClientView& c : clients) {
      std::vector<double> share;
      if (is_reserved(*c.client)) {
        share.resize(sms_);
        double left = *c.client->reservation * sms_;
        if (left > end + kTiny)
          throw InputError(c.client->origin.file, c.client->origin.place + "/reservation",
                           "the clients' reservations are more than the GPU", "promise at most 1 in all");
        if (whole <= sms_ + kTiny) end = std::floor(end + kTiny);
        for (std::uint32_t sm = sms_; sm-- > 0 && left > kTiny;) {
          const double top = std::min(end, sm + 1.0);
          if (top <= sm + kTiny) continue;
          const double here = std::min(left, top - sm);
          share[sm] = here;
          reserved_on_[sm] += here;
          left -= here;
          end = top - here;
        }
      }
      reserved_.push_back(std::move(share));
    }
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    free_.assign(sms_, capacity_of(sm_));
    holds_.assign(sms_, {});
    claimed_.assign(sms_, {});
    leave_.assign(sms_, {});
    too_large_.clear();
    recall(now);
    pass_on(now, decisions);

    // Reservations first, then what online tasks without one and offline tasks have, in order of admission.
    for (Task& t : tasks_)
      if (t.reserved) keep(t, t.had);
    const std::size_t admitted_before = tasks_.size();
    for (LaunchId id : candidates_)
      if (std::optional<Task> t = asks(now, id, Rank::reserved); t) claim(*t);
    for (Task& t : tasks_)
      if (!t.reserved && t.online) keep(t, t.had);
    for (LaunchId id : candidates_)
      if (std::optional<Task> t = asks(now, id, Rank::online); t) admit(*t);
    for (std::size_t i = 0; i < admitted_before; ++i)
      if (Task& t = tasks_[i]; !t.online) keep(t, t.had);
    for (LaunchId id : candidates_)
      if (std::optional<Task> t = asks(now, id, Rank::offline); t) admit(*t);
    const bool ended = std::any_of(now.notices.begin(), now.notices.end(),
                                   [](const Notice& n) { return std::holds_alternative<KernelFinished>(n); });
    if (ended && restore_) grow_back();

    granted_.clear();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const Task& t = tasks_[i];
      if (i >= admitted_before && t.plain)
        continue_plain(now, t, decisions);
      else if (i >= admitted_before)
        decisions.push_back(decide::Launch{t.launch, priority_of(t), {}, 0, t.ctas});
      else if (t.adjustable && t.total == 0)
        decisions.push_back(decide::Preempt{t.launch, decide::Stop::at_block});
      else if (t.adjustable && t.ctas != t.had)
        decisions.push_back(decide::Resize{t.launch, 0, t.ctas});
      granted_.push_back({t.launch, t.had, t.adjustable && t.total != 0 ? t.ctas : t.had, t.took_over});
      if (i >= admitted_before) granted_.back().now = t.ctas;
    }
  }

 private:
  static constexpr double kTiny = 1e-9;

  struct Task {
    LaunchId launch;
    ClientId client;
    bool online = false, reserved = false, adjustable = false;
    bool plain = false;  // it cannot be sized
    SmResources demand;
    std::uint32_t carveout = 0;   // of shared memory
    double slices = 1;            // M
    std::uint32_t most = 0;       // CTAs that it asks for
    double share = 0;             // of its client, units of capacity
    decide::CtasPerSm had, ctas;  // before this decision, and from now on
    std::uint32_t total = 0;      // of `ctas`
    std::uint32_t had_total = 0;
    std::vector<bool> took_over;  // by SM: from launches that need a smaller carveout
  };
  struct Granted {
    LaunchId launch;
    decide::CtasPerSm before, now;
    std::vector<bool> took_over;
  };

  static bool is_reserved(const Client& c) {
    return c.service_class == ServiceClass::real_time && c.reservation.has_value();
  }
  enum class Rank : std::uint8_t { reserved, online, offline };
  static Rank rank_of(const Client& c) {
    if (is_reserved(c)) return Rank::reserved;
    return c.service_class == ServiceClass::real_time ? Rank::online : Rank::offline;
  }
  static std::uint32_t sum(const decide::CtasPerSm& ctas) {
    std::uint32_t n = 0;
    for (const std::uint16_t each : ctas) n += each;
    return n;
  }

  /// Those that run, in order of admission, with what they have: of a refused decision, what they had.
  void recall(const Snapshot& now) {
    tasks_.clear();
    for (LaunchId id : now.running) {
      const LaunchView& l = now.launch(id);
      const auto g = std::find_if(granted_.begin(), granted_.end(),
                                  [&](const Granted& each) { return each.launch == id; });
      if (l.kernel == nullptr || g == granted_.end()) continue;
      Task t = task(now, l);
      t.ctas.resize(sms_);
      const bool sized = l.sizable || l.ctas != 0;
      t.adjustable = l.state == LaunchState::submitted && sized;
      t.had = !sized || sum(g->now) == l.ctas ? g->now : g->before;
      t.had_total = sum(t.had);
      t.took_over = g->took_over;
      for (std::uint32_t sm = 0; sm < sms_; ++sm) {
        if (t.had[sm] == 0) continue;
        holds_[sm] = std::max(holds_[sm].value_or(0), t.carveout);
        if (t.took_over[sm]) claimed_[sm] = t.carveout;
      }
      tasks_.push_back(std::move(t));
    }
  }

  /// Launches that cannot be sized.  Offline ones wait while an online request is under way; else they go, with what
  /// the GPU gives them, and count for nothing.  Online ones go with those before them in their stream, and are given
  /// places when these have ended.
  void pass_on(const Snapshot& now, std::vector<Decision>& decisions) {
    candidates_.assign(now.pending.begin(), now.pending.end());
    const bool online = std::ranges::any_of(now.clients, [](const ClientView& c) {
      return c.busy && c.client->service_class == ServiceClass::real_time;
    });
    std::erase_if(candidates_, [&](LaunchId id) {
      const LaunchView& l = now.launch(id);
      if (l.sizable) return false;
      if (rank_of(now.client_of(l)) != Rank::offline) {
        if (l.waits_for != 0) decisions.push_back(decide::Launch{id, priority_of(task(now, l))});
        return l.waits_for != 0;
      }
      if (!online) decisions.push_back(decide::Launch{id});
      return true;
    });
    for (LaunchId id : now.running) {
      const LaunchView& l = now.launch(id);
      const bool known = std::ranges::any_of(granted_, [&](const Granted& g) { return g.launch == id; });
      if (l.kernel != nullptr && !l.sizable && l.waits_for == 0 && !known && rank_of(now.client_of(l)) != Rank::offline)
        candidates_.push_back(id);
    }
  }
  /// It goes, if it has not gone before its turn.
  void continue_plain(const Snapshot& now, const Task& t, std::vector<Decision>& decisions) const {
    if (now.launch(t.launch).state == LaunchState::pending) decisions.push_back(decide::Launch{t.launch, priority_of(t)});
  }

  Task task(const Snapshot& now, const LaunchView& l) const {
    const Client& client = now.client_of(l);
    Task t;
    t.launch = l.id, t.client = l.client;
    t.online = client.service_class == ServiceClass::real_time;
    t.reserved = is_reserved(client);
    t.plain = !l.sizable;
    t.demand = demand_of(*l.kernel, sm_);
    t.carveout = carveout_of(t.demand, sm_);
    t.slices = std::max(1u, max_active_blocks(capacity_of(sm_), t.demand));
    t.share = (t.online ? client.reservation : client.quota).value_or(1.0) * sms_;
    t.most = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(l.kernel->blocks() - l.blocks_done, blocks(t.share, t)));
    return t;
  }
  /// A pending launch's request, within what its client may still have under its share.
  std::optional<Task> asks(const Snapshot& now, LaunchId id, Rank rank) const {
    const LaunchView& l = now.launch(id);
    if (l.waits_for != 0 || rank_of(now.client_of(l)) != rank) return {};
    Task t = task(now, l);
    const double allowed = allowance(t);
    if (allowed * t.slices < 1 - kTiny) {  // its client's other launches have all of it
      if (allowed < t.share) return {};
      t.most = 1;  // a share smaller than a block
    } else {
      t.most = std::min(t.most, blocks(allowed, t));
    }
    return t;
  }
  /// Whole blocks in `units` of capacity; a share of the GPU is at least one.
  static std::uint32_t blocks(double units, const Task& t) {
    return static_cast<std::uint32_t>(std::max(1.0, std::floor(units * t.slices + kTiny)));
  }
  double allowance(const Task& of) const {
    double left = of.share;
    for (const Task& t : tasks_)
      if (t.client == of.client && t.launch != of.launch) left -= held(t);
    return left;
  }
  /// What it has, whether it has been looked at in this decision or not.
  static double held(const Task& t) { return std::max(t.total, t.had_total) / t.slices; }

  void give(Task& t, std::uint32_t sm, std::uint32_t n) {
    if (n == 0) return;
    if (holds_[sm] < t.carveout) {
      leave_[sm] = t.carveout;
      if (holds_[sm]) t.took_over[sm] = true;
    }
    for (std::uint32_t i = 0; i < n; ++i) free_[sm] -= t.demand;
    t.ctas[sm] = static_cast<std::uint16_t>(t.ctas[sm] + n);
    t.total += n;
  }
  /// Places for blocks of the task that the SM has, of the free resources.  `take_over`: others may have to
  /// leave it.
  std::uint32_t free_places_at(const Task& t, std::uint32_t sm, const SmResources& free,
                               bool take_over = false) const {
    return may_be_at(t, sm, take_over) ? max_active_blocks(free, t.demand) : 0;
  }
  bool may_be_at(const Task& t, std::uint32_t sm, bool take_over) const {
    const std::optional<std::uint32_t>& only = leave_[sm] ? leave_[sm] : claimed_[sm];
    const bool there = !leave_[sm] && !t.had.empty() && t.had[sm] != 0;
    const bool shares = there || (only ? *only == t.carveout : !holds_[sm] || *holds_[sm] >= t.carveout);
    return shares || (take_over && !leave_[sm] && free_[sm] == capacity_of(sm_));
  }
  /// Whether a block of a task that has not begun finds a place.  What is free only shrinks during a decision:
  /// a demand that no SM had the resources for is not looked for again.
  bool finds_place(const Task& t, bool take_over) {
    if (std::find(too_large_.begin(), too_large_.end(), t.demand) != too_large_.end()) return false;
    bool free = false;
    for (std::uint32_t sm = 0; sm < sms_; ++sm) {
      if (!fits(free_[sm], t.demand)) continue;
      if (may_be_at(t, sm, take_over)) return true;
      free = true;
    }
    if (!free) too_large_.push_back(t.demand);
    return false;
  }
  void keep(Task& t, const decide::CtasPerSm& had) {
    for (std::uint32_t sm = 0; sm < sms_; ++sm)
      if (had[sm] > t.ctas[sm])
        give(t, sm, std::min(had[sm] - t.ctas[sm] + 0u, free_places_at(t, sm, free_[sm])));
  }
  /// `n` more CTAs, at most one a place, where most places are free, as the hardware would place them.
  void spread(Task& t, std::uint32_t n, const std::vector<std::uint32_t>& free_places) {
    std::uint32_t level = *std::max_element(free_places.begin(), free_places.end());  // of those left
    const auto above = [&](std::uint32_t l) {
      std::uint64_t count = 0;
      for (const std::uint32_t places : free_places) count += places > l ? places - l : 0;
      return count;
    };
    while (level > 0 && above(level - 1) <= n) --level;
    std::uint64_t rest = n - std::min<std::uint64_t>(n, above(level));
    for (std::uint32_t sm = 0; sm < sms_; ++sm) {
      std::uint32_t take = free_places[sm] > level ? free_places[sm] - level : 0;
      if (rest > 0 && level > 0 && free_places[sm] >= level) ++take, --rest;
      give(t, sm, take);
    }
  }
  /// Up to `n` more: on reserved SMs only if the others are full.
  void extend(Task& t, std::uint32_t n, const std::vector<SmResources>& free, bool take_over = false) {
    const std::uint32_t goal = t.total + n;
    for (const bool reserved : {false, true}) {
      std::vector<std::uint32_t> free_places = free_places_of(t, free, take_over);
      for (std::uint32_t sm = 0; sm < sms_; ++sm)
        if ((reserved_on_[sm] > 0) != reserved) free_places[sm] = 0;
      spread(t, goal - t.total, free_places);
    }
  }
  std::vector<std::uint32_t> free_places_of(const Task& t, const std::vector<SmResources>& free,
                                            bool take_over) const {
    std::vector<std::uint32_t> free_places(sms_);
    for (std::uint32_t sm = 0; sm < sms_; ++sm) free_places[sm] = free_places_at(t, sm, free[sm], take_over);
    return free_places;
  }

  /// A reservation is on SMs of its own; what its client's other launches have of them is gone.
  void claim(Task t) {
    if (!finds_place(t, true)) return;
    t.ctas.resize(sms_), t.took_over.resize(sms_);
    std::vector<double> share = reserved_[t.client.value];
    for (const Task& other : tasks_)
      if (other.client == t.client)
        for (std::uint32_t sm = 0; sm < sms_; ++sm) share[sm] -= other.ctas[sm] / other.slices;
    std::vector<std::uint32_t> free_places = free_places_of(t, free_, true);
    std::uint32_t there = 0;
    for (std::uint32_t sm = 0; sm < sms_; ++sm) {
      const double fit = std::floor(std::max(0.0, share[sm]) * t.slices + kTiny);
      free_places[sm] = std::min(free_places[sm], static_cast<std::uint32_t>(fit));
      there += free_places[sm];
    }
    if (there == 0) {  // less than a block on each: one, where most of it is
      std::uint32_t best = 0;
      const std::vector<std::uint32_t> any = free_places_of(t, free_, true);
      for (std::uint32_t sm = 0; sm < sms_; ++sm)
        if (any[sm] != 0 && (any[best] == 0 || share[sm] > share[best])) best = sm;
      if (any[best] == 0) return;
      give(t, best, 1);
    } else {
      spread(t, std::min(t.most, there), free_places);
    }
    tasks_.push_back(std::move(t));
  }

  /// What is left; for an online task without a reservation, also what offline tasks have.
  void admit(Task t) {
    if (!finds_place(t, t.online)) return;
    t.ctas.resize(sms_), t.took_over.resize(sms_);
    std::vector<SmResources> left = free_;
    for (const Task& other : tasks_)
      if (!other.had.empty())
        for (std::uint32_t sm = 0; sm < sms_; ++sm)
          for (std::uint32_t n = other.ctas[sm];
               n < other.had[sm] && max_active_blocks(left[sm], other.demand) != 0; ++n)
            left[sm] -= other.demand;
    extend(t, t.most, left);
    if (t.online) extend(t, t.most - t.total, free_, true);
    if (t.total != 0) tasks_.push_back(std::move(t));
  }

  void grow_back() {
    for (Task& t : tasks_) {
      if (t.reserved || !t.adjustable || t.total < t.had_total) continue;
      const double more = allowance(t) - held(t);
      if (t.most <= t.total || more * t.slices < 1 - kTiny) continue;
      extend(t, std::min(t.most - t.total, blocks(more, t)), free_);
    }
  }

  /// Workers that find no place hold up those of launches behind them: nobody's are before a reservation's,
  /// only these before other online ones'.
  std::int32_t priority_of(const Task& t) const {
    return t.reserved ? highest_ : t.online ? std::min(0, highest_ + 1) : 0;
  }

  bool restore_;
  SmLimits sm_;
  std::uint32_t sms_ = 0;
  std::int32_t highest_ = 0;                   // priority
  std::vector<std::vector<double>> reserved_;  // by client, SM: of the SM; empty: none
  std::vector<double> reserved_on_;            // by SM
  std::vector<Granted> granted_;               // as of the last decision
  std::vector<Task> tasks_;
  std::vector<LaunchId> candidates_;    // to be admitted, in this decision
  std::vector<SmResources> free_;       // by SM
  std::vector<SmResources> too_large_;  // demands that no SM has the resources for, in this decision
  // Carveouts, by SM: the largest of what has blocks there; of who made others leave, as long as it runs; of
  // who does so, or comes first to an empty SM, in this decision.  Only launches with the same share these.
  std::vector<std::optional<std::uint32_t>> holds_, claimed_, leave_;
};

const Registered smguard_policy{
    {"smguard",
     "offline clients within quotas, reservations for online ones: offline kernels give way at their next "
     "block",
     "CapSM patent 2017; Yu et al. 2018 (SMGuard)",
     {{"restore",
       "yes: what offline kernels gave comes back when a kernel ends; no: they keep what they have", "yes"}},
     {.reservations = true}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<SmGuard>(p); }};

}  // namespace
}  // namespace corun
