// The simulated GPU as a Backend, and the only place that wires the stages:
//   apply -> host channels -> TMU -> WDU -> SMs -> notices (after the time a host needs to learn of them).
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "policies/session/host_queue.h"
#include "policies/session/profile_file.h"
#include "sim/backend/contexts.h"
#include "sim/backend/host_thread.h"
#include "sim/backend/launch_fates.h"
#include "sim/backend/mps_limits.h"
#include "sim/backend/notices.h"
#include "sim/backend/shapes.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/slots.h"
#include "sim/stages/clock_governor.h"
#include "sim/stages/compute_engine.h"
#include "sim/stages/copy_engines.h"
#include "sim/stages/host.h"
#include "sim/stages/sm_array.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

class SimBackend final : public Backend {
 public:
  /// `trace`, `timeline` and `shapes` must outlive the backend; the others are copied.  `shapes`: shared by several runs, made with
  /// the same `options.contention`; null: the backend makes its own.  `host`: costs of a single host thread that issues all
  /// launches; null: each client has its own thread, at no cost.
  /// Throws InputError for a kernel that fits no SM, and for a priority or MPS that the GPU does not have.
  SimBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
             EngineOptions options, Shapes* shapes = nullptr, const HostCosts* host = nullptr);
  /// The same of a trace that is known to fit, with what launches are like as others know it.
  SimBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
             EngineOptions options, std::shared_ptr<LaunchShapes> shapes, const HostCosts* host);

  const Topology& topology() const override { return topology_; }
  Time now() const override { return now_; }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch,
                std::span<const LaunchId> follows) override;
  Outcome pad(const decide::LaunchPadded& decision, const LaunchView& launch, const LaunchView& padding,
              std::span<const LaunchId> follows) override;
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;
  /// A single host thread that issues for all takes graphs apart.
  bool takes_graphs() const override { return !thread_.takes_time(); }
  Outcome graph(const decide::Launch& decision, const LaunchView& graph, std::span<const GraphNode> nodes) override;
  bool node_ended(LaunchId node) const override { return fates_.ended_at(node) <= now_ - topology_.gpu.completion_notice; }

  void close() override { contexts_.close(now_); }

  /// Of the launch, which was not here yet, its `blocks_done` are done, and it reaches the GPU then or, where that
  /// has passed, at once.
  void expect(const LaunchView& launch, Time reaches);
  /// The launch, which is about to be handed over, reaches the GPU then and not a latency after, and its stream has a wait before it.
  void let_reach(const LaunchView& launch, Time at, Time wait) {
    Fate& fate = fates_.renew(launch, place(launch).context, place(launch).stream);
    fate.reaches = at, fate.wait = wait;
  }
  /// From that number of events() on wait() returns at once.
  void stop_after(std::uint64_t events);
  std::uint64_t blocks_done(const LaunchView& launch) {
    return contexts_[place(launch).context].engine->blocks_done(launch.id);
  }
  std::uint64_t blocks_run() const;
  std::uint64_t events() const;
  /// Integrals over the run: SMs with a block x ps, resident warps x ps.
  SmArray::Integral sm_ps() const;
  SmArray::Integral warp_ps() const;

 private:
  // ---- events: small ones in the queue, what else an errand needs in `errands_` ----
  struct ChannelReady {
    std::uint32_t context, channel;
  };
  struct PreemptionDue {
    enum class Step : std::uint32_t { evict_host, stop, kill } step;
    std::uint32_t preemption;
  };
  struct ErrandDue {
    std::uint32_t errand;
  };
  using Event = std::variant<ChannelReady, PreemptionDue, ErrandDue>;

  struct CopyEnd {
    LaunchId launch;
    std::uint32_t context, stream;
    CopyRecord record;
  };
  struct MoveEnd {
    MoveRecord record;
  };
  struct NewCtas {
    LaunchId launch;
    std::uint32_t context, ctas;
  };
  /// The workers see their new numbers per SM; `grow`: and those that come in addition reach the TMU.
  struct NewCtasPerSm {
    LaunchId launch;
    std::uint32_t context;
    decide::CtasPerSm ctas_per_sm;
    bool grow;
  };
  struct ProgressSample {
    LaunchId launch;
    std::uint32_t context;
  };
  struct ProgressReport {
    ProgressReported what;
  };
  /// An evicted launch has passed the GPU.
  struct EvictedPassed {
    LaunchId launch;
    std::uint32_t context, stream;
  };
  using Errand = std::variant<CopyEnd, MoveEnd, NewCtas, NewCtasPerSm, ProgressSample, ProgressReport, EvictedPassed>;

  void schedule(Time at, Errand&& errand) { queue_.schedule(at, 0, ErrandDue{errands_.add(std::move(errand))}); }
  void handle(const ChannelReady& event) { pump(event.context, event.channel); }
  void handle(const PreemptionDue& event);
  void handle(const ErrandDue& event);
  void carry_out(const CopyEnd& end);
  void carry_out(const MoveEnd& end);
  void carry_out(const NewCtas& size) { contexts_[size.context].engine->resize(size.launch, size.ctas); }
  void carry_out(const NewCtasPerSm& size) { contexts_[size.context].engine->resize(size.launch, size.ctas_per_sm, size.grow); }
  void carry_out(const ProgressSample& sample);
  void carry_out(const ProgressReport& report) { told_.tell_now(report.what); }
  void carry_out(const EvictedPassed& launch);
  void pump(std::uint32_t context, std::uint32_t channel);
  void ended(LaunchId launch, std::uint32_t context, std::uint32_t stream);
  void leave(LaunchId launch, std::uint32_t context, std::uint32_t stream, Time late);
  Time next_late(std::uint32_t context, std::uint32_t stream);
  void tell_later(const Notice& notice) { told_.tell(now_ + topology_.gpu.completion_notice, notice); }
  void turn();
  void pump_all(std::uint32_t context);
  void set_clock();
  const StreamPlace& place(const LaunchView& l) const { return contexts_.place(l.client, l.stream); }
  Outcome resize(const decide::Resize& decision, const LaunchView& launch);
  std::optional<std::string> impossible(const decide::CtasPerSm& ctas_per_sm, std::uint32_t ctas,
                                        const LaunchView& launch, const SmMask& allowed) const;
  /// Whether it runs as a kernel that can be stopped, which is known to take longer.  Those of real-time
  /// clients never are.
  bool stoppable(const LaunchView& l) const {
    return preemptive_ && l.stoppable && l.kernel->stoppable &&
           trace_.clients[l.client.value].service_class == ServiceClass::best_effort;
  }
  Outcome launch(const decide::Launch& decision, const LaunchView& launch, std::span<const LaunchId> follows);
  static Submission::CopyJob copy_of(const LaunchView& launch);
  Submission node(std::uint32_t graph, std::uint32_t number);
  SmMask allowed(const decide::Launch& decision, const LaunchView& launch) const;
  void prepare(Submission::Kernel& kernel, const decide::Launch& decision, const LaunchView& launch, const SmMask& allowed,
               Time handed_over);
  Fate& address(const LaunchView& launch, std::span<const LaunchId> follows, Submission& submission);
  void tell_end(LaunchId launch, const Notice& end);
  Outcome preempt(const decide::Preempt& decision, const LaunchView& launch,
                  std::span<const LaunchId> behind);
  void prepare(Submission::Kernel& kernel, const LaunchView& launch, const Shape& shape,
               std::int32_t priority, const SmMask& allowed, Time handed_over);
  Time flag_delay(std::uint32_t context, LaunchId launch) const;
  void evict_host(std::uint32_t preemption);
  void stop(std::uint32_t preemption);
  void kill(std::uint32_t preemption);
  void taken_off(LaunchId launch);
  void cleared(LaunchId launch);
  std::vector<LaunchId> still_of(std::uint32_t preemption) const;
  void release(std::uint32_t preemption);
  Outcome move(BufferId buffer, const Copy& copy, ClientId client);
  Time graph_gap() const;
  void submit(const LaunchView& launch, std::span<const LaunchId> follows, Submission&& submission);
  void hand_over(Submission&& submission, std::uint32_t context, Time called);
  // The host's thread (host_thread.cpp).
  Time call(const LaunchView& l) { return thread_.decide(now_, l.client, held_on_host(l)); }
  bool may_be_stopped(ClientId client) const {
    return preemptive_ && trace_.clients[client.value].service_class == ServiceClass::best_effort;
  }
  bool full(const LaunchView& l) const { return contexts_[place(l).context].host->full(place(l).stream); }
  bool held_on_host(const LaunchView& launch) const { return thread_.takes_time() && may_be_stopped(launch.client); }
  void hold(const LaunchView& launch, Submission&& submission);
  void hand_over_held(ClientId client, Submission submission);
  bool idle_before(Time until) const {
    return thread_.takes_time() && now_ < until && thread_.free() <= now_ && !told_.any_due(now_);
  }
  void heard(const Notice& notice);
  bool take_held(LaunchId launch);
  std::int32_t levels() const { return static_cast<std::int32_t>(topology_.gpu.priority_levels); }
  void check_trace(const Trace& trace) const;

  const Trace& trace_;
  bool preemptive_;  // the policy stops launches
  Topology topology_;
  Timeline& timeline_;
  Time now_{};
  GpuContexts contexts_;
  MpsLimits limits_;
  ClockGovernor governor_;
  CopyEngines copy_engines_;
  EventQueue<Event> queue_;
  Notices told_;
  HostThread thread_;
  HostQueue<Submission> held_{[this](LaunchId id) { return fates_.ended_at(id) == kNever; },
                              [this](ClientId c, Submission s) { hand_over_held(c, std::move(s)); }};
  Slots<Errand> errands_;
  /// A Preempt under way.
  struct Preemption {
    std::vector<LaunchId> launches;
    PreemptionRecord record;
    std::uint32_t context = 0;
    std::uint32_t left = 0;    // launches neither off nor ended
    std::uint32_t events = 0;  // of it, in the queue
  };
  LaunchFates fates_;
  /// A graph that has been handed over.
  struct GraphRun {
    decide::Launch decision;
    LaunchView launch;  // as the node made last
    std::span<const GraphNode> nodes;
    std::size_t left;                 // nodes that have not ended
    std::vector<std::uint32_t> next;  // by node: the one behind it in its channel, or Fate::kNone
    SmMask allowed;
    Time handed_over{};  // by the host
    Time reaches{};      // the GPU
  };
  Slots<GraphRun> graphs_;
  Slots<Preemption> preemptions_;
  std::vector<EngineNotice> engine_notices_;
  std::shared_ptr<LaunchShapes> shapes_;
};

}  // namespace corun::sim
