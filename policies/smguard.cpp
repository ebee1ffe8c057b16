// CapSM / SMGuard: "A fine-grained GPU resource management method for mixed workloads" (patent, 2017), steps
// 1 to 14, and Yu et al., "SMGuard: A Flexible and Fine-Grained Resource Management Framework for GPUs" (TPDS
// 2018).  One SM is one unit of capacity; a kernel of which M blocks fit an SM sees it as M slices of 1/M,
// and any M slices are one CapSM, so that a share of the GPU is a number of blocks.  Offline tasks have a
// quota, the most they get; online tasks a reservation, the least.  A task is admitted with its request if
// what is free covers it; else an offline task takes what is left, and for an online task offline ones
// release the difference at their next block.  Released blocks go on on what their task keeps: persistent
// kernels.
//
// What the sources leave open: online is the trace's real-time class; a client without quota or reservation
// asks for the whole GPU; both hold for a client, whatever its launches; the offline task admitted last
// releases first, and each keeps a block; an offline task for which nothing is left waits; offline tasks that
// released or took less grow back, first admitted first, when a task ends (`restore`); a task counts until it
// has ended.
#include <algorithm>
#include <cmath>

#include "policies/api/registry.h"

namespace corun {
namespace {

class SmGuard final : public Policy {
 public:
  explicit SmGuard(const Parameters& parameters)
      : restore_(parameters.choice("restore", {"yes", "no"}) == "yes") {}
  std::string_view name() const override { return "smguard"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::cta_quota}, Contexts::one, false};
  }
  void start(const Topology& topology, std::span<const ClientView>) override {
    sm_ = topology.gpu.sm;
    capacity_ = topology.gpu.sms;
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    // In order of admission, with the CTAs that it is to have from now on.
    tasks_.clear();
    for (LaunchId id : now.running)
      if (const LaunchView& l = now.launch(id); l.kernel != nullptr) tasks_.push_back(task(now, l, l.ctas));
    const std::size_t admitted_before = tasks_.size();
    for (const bool online : {true, false}) {
      for (LaunchId id : now.pending) {
        const LaunchView& l = now.launch(id);
        if (l.waits_for != 0 || (now.client_of(l).service_class == ServiceClass::real_time) != online)
          continue;
        admit(task(now, l, 0));
      }
    }
    const bool ended = std::any_of(now.notices.begin(), now.notices.end(),
                                   [](const Notice& n) { return std::holds_alternative<KernelFinished>(n); });
    if (ended && restore_) grow_back();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const Task& t = tasks_[i];
      if (i >= admitted_before)
        decisions.push_back(decide::Launch{t.launch, 0, {}, t.ctas, {}});
      else if (t.adjustable && t.ctas != now.launch(t.launch).ctas)
        decisions.push_back(decide::Resize{t.launch, t.ctas, {}});
    }
  }

 private:
  struct Task {
    LaunchId launch;
    ClientId client;
    bool online = false, adjustable = false;
    double slices = 1;       // M
    std::uint32_t most = 0;  // CTAs that it asks for
    double share = 0;        // of its client, units of capacity
    std::uint32_t ctas = 0;  // that it has
    double held() const { return ctas / slices; }
  };

  Task task(const Snapshot& now, const LaunchView& l, std::uint32_t ctas) const {
    const Client& client = now.client_of(l);
    Task t;
    t.launch = l.id, t.client = l.client, t.ctas = ctas;
    t.online = client.service_class == ServiceClass::real_time;
    t.adjustable = l.state == LaunchState::submitted && l.ctas != 0;
    t.slices = std::max(1u, room(capacity_of(sm_), demand_of(*l.kernel, sm_)));
    t.share = (t.online ? client.reservation : client.quota).value_or(1.0) * capacity_;
    t.most = static_cast<std::uint32_t>(std::min<std::uint64_t>(l.kernel->blocks(), blocks(t.share, t)));
    return t;
  }
  /// Whole blocks in so many units of capacity; a share of the GPU is at least one.
  static std::uint32_t blocks(double units, const Task& t) {
    return static_cast<std::uint32_t>(std::max(1.0, std::floor(units * t.slices + 1e-9)));
  }
  double free() const {
    double left = capacity_;
    for (const Task& t : tasks_) left -= t.held();
    return left;
  }
  /// What its client may still have under its share.
  double allowance(const Task& of) const {
    double left = of.share;
    for (const Task& t : tasks_)
      if (t.client == of.client && t.launch != of.launch) left -= t.held();
    return left;
  }

  void admit(Task t) {
    const double allowed = allowance(t);
    if (allowed * t.slices < 1 - 1e-9) {  // its client's other launches have all of it
      if (allowed < t.share) return;
      t.most = 1;  // a share smaller than a block
    } else {
      t.most = std::min(t.most, blocks(allowed, t));
    }
    const double request = t.most / t.slices;
    double left = free();
    if (t.online && left < request - 1e-9) {
      release(request - left);
      left = free();
    }
    if (left * t.slices < 1 - 1e-9) return;  // not one block
    t.ctas = left >= request - 1e-9 ? t.most : blocks(left, t);
    tasks_.push_back(t);
  }

  void release(double units) {
    for (std::size_t i = tasks_.size(); i-- > 0 && units > 1e-9;) {
      Task& t = tasks_[i];
      if (t.online || !t.adjustable) continue;
      const auto wanted = static_cast<std::uint32_t>(std::ceil(units * t.slices - 1e-9));
      const std::uint32_t given = std::min(wanted, t.ctas - 1);
      t.ctas -= given;
      units -= given / t.slices;
    }
  }

  void grow_back() {
    for (Task& t : tasks_) {
      if (t.online || !t.adjustable) continue;
      const double more = std::min(free(), allowance(t) - t.held());
      if (more * t.slices < 1 - 1e-9) continue;
      t.ctas = std::min(t.most, t.ctas + blocks(more, t));
    }
  }

  bool restore_;
  SmLimits sm_;
  double capacity_ = 0;
  std::vector<Task> tasks_;
};

const Registered registered{
    {"smguard",
     "offline clients within quotas, reservations for online ones: offline kernels give way at their next "
     "block",
     "CapSM patent 2017; Yu et al. 2018 (SMGuard)",
     {{"restore",
       "yes: what offline kernels gave comes back when a kernel ends; no: they keep what they have", "yes"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<SmGuard>(p); }};

}  // namespace
}  // namespace corun
