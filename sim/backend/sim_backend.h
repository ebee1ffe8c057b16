// The simulated GPU as a Backend, and the only place that wires the stages:
//   apply -> host channels -> TMU -> WDU -> SMs -> notices (after the time a host needs to learn of them).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "policies/session/profile_file.h"
#include "sim/backend/shapes.h"
#include "sim/engine/event_queue.h"
#include "sim/stages/clock_governor.h"
#include "sim/stages/compute_engine.h"
#include "sim/stages/copy_engines.h"
#include "sim/stages/host.h"
#include "sim/stages/time_slicer.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

class SimBackend final : public Backend {
 public:
  /// Throws InputError for a kernel that fits no SM, a priority or mask that the GPU does not have.
  SimBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
             EngineOptions options, Shapes* shapes = nullptr, const HostCosts* host = nullptr);

  const Topology& topology() const override { return topology_; }
  Time now() const override { return now_; }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch,
                std::span<const LaunchId> follows) override;
  Outcome pad(const decide::LaunchPadded& decision, const LaunchView& launch, const LaunchView& padding,
              std::span<const LaunchId> follows) override;
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;

  /// Writes what is still under way to the timeline.
  void close();

  std::uint64_t blocks_run() const;
  std::uint64_t events() const;
  /// Integrals over the run: SMs with a block x ps, resident warps x ps.
  std::int64_t sm_ps() const;
  std::int64_t warp_ps() const;

 private:
  struct Context {
    std::unique_ptr<Host> host;
    std::unique_ptr<ComputeEngine> engine;
    std::vector<Time> looked_at;  // by channel: when the latest event for it is due
    Time paused_at{};
    Time turn_began{};
  };
  struct StreamPlace {  // of a client's stream
    std::uint32_t context, stream;
  };
  struct ShapeKey {
    std::uint32_t kernel;
    std::int64_t solo;
    std::uint32_t sms;  // that it may use
    bool operator==(const ShapeKey&) const = default;
  };
  struct ShapeHash {
    std::size_t operator()(const ShapeKey& k) const {
      return static_cast<std::size_t>(
          (static_cast<std::uint64_t>(k.solo) ^ std::uint64_t{k.kernel} << 40 ^ std::uint64_t{k.sms} << 56) *
          0x9e3779b97f4a7c15u);
    }
  };
  struct Event {
    enum class Kind : std::uint32_t {
      channel,
      copy_end,
      resize,
      shrink,  // the workers see their new numbers per SM
      spread,  // and those that come in addition reach the TMU
      sample_progress,
      report_progress,
      evict_host,
      stop,
      kill,
      passed,
      move_end
    } kind;
    std::uint32_t a, b;  // channel: context, channel; the three of a preemption: an index into
                         // `preemptions_`; others: an index into `errands_`
  };
  struct Errand {
    LaunchId launch;
    std::uint32_t context = 0, ctas = 0;
    std::uint64_t blocks = 0;
    Time as_of{};
    CopyRecord copy;
    MoveRecord move;
    decide::CtasPerSm ctas_per_sm{};
  };
  /// A client's stream on the host: what is held there, and what of it has been handed over and, as far as
  /// the host knows, has not ended.
  struct Lane {
    struct OnDevice {
      LaunchId launch;
      Time solo;
      bool copy;
    };
    std::deque<std::pair<OnDevice, Submission>> held;
    std::vector<OnDevice> device;
  };
  struct Told {
    Time at;
    Notice notice;
  };

  void handle(const Event& event);
  void pump(std::uint32_t context, std::uint32_t channel);
  void ended(LaunchId launch, std::uint32_t context, std::uint32_t stream);
  void leave(LaunchId launch, std::uint32_t context, std::uint32_t stream, Time late);
  void tell_later(const Notice& notice) { told_.push_back({now_ + topology_.gpu.completion_notice, notice}); }
  void turn();
  bool has_work(std::uint32_t context) const;
  void set_clock();
  void read_ahead(std::uint32_t context);
  bool others_have_work(std::uint32_t context) const;
  Time ended_at(LaunchId launch) const;
  StreamPlace place(const LaunchView& l) const { return places_[l.client.value][l.stream.value]; }
  const Shape& shape_of(const LaunchView& launch, std::uint32_t sms);
  Outcome resize(const decide::Resize& decision, const LaunchView& launch);
  std::optional<std::string> impossible(const decide::CtasPerSm& ctas_per_sm, std::uint32_t ctas,
                                        const LaunchView& launch, const SmMask& allowed) const;
  /// Whether it runs as a kernel that can be stopped, which is known to take longer.  Those of real-time
  /// clients never are.
  bool stoppable(const LaunchView& l) const {
    return preemptive_ && l.kernel->stoppable &&
           trace_.clients[l.client.value].service_class == ServiceClass::best_effort;
  }
  SmResources demand_of_worker(const Kernel& kernel) const;
  Outcome launch(const decide::Launch& decision, const LaunchView& launch, std::span<const LaunchId> follows);
  Outcome preempt(const decide::Preempt& decision, const LaunchView& launch,
                  std::span<const LaunchId> behind);
  Submission::Kernel prepare(const LaunchView& launch, std::int32_t priority, const SmMask& allowed);
  Time flag_delay(std::uint32_t context, LaunchId launch) const;
  void evict_host(std::uint32_t preemption);
  void stop(std::uint32_t preemption);
  void kill(std::uint32_t preemption);
  void passed(const Event& event);
  void taken_off(LaunchId launch);
  void cleared(LaunchId launch);
  std::vector<LaunchId> still_of(std::uint32_t preemption) const;
  void release(std::uint32_t preemption);
  Outcome move(BufferId buffer, const Copy& copy, ClientId client);
  Time graph_gap() const;
  template <class What>
  void submit(const LaunchView& launch, std::span<const LaunchId> follows, What what);
  void hand_over(Submission submission, std::uint32_t context, Time called);
  // The host's thread (host_thread.cpp).
  Time call(const LaunchView& launch);
  bool may_be_stopped(ClientId client) const {
    return preemptive_ && trace_.clients[client.value].service_class == ServiceClass::best_effort;
  }
  bool held_on_host(const LaunchView& launch) const { return thread_ && may_be_stopped(launch.client); }
  bool may_go(const Lane& lane) const;
  bool can_wait(const Lane& lane) const;
  void hand_over(std::uint32_t client, Lane& lane);
  void hand_over_what_is_needed(std::uint32_t client);
  bool hand_over_one();
  bool idle_before(Time until) const {
    return !lanes_.empty() && now_ < until && host_free_ <= now_ &&
           (told_.empty() || told_.front().at > now_);
  }
  void heard(const Notice& notice);
  bool take_held(LaunchId launch);
  std::int32_t levels() const { return static_cast<std::int32_t>(topology_.gpu.priority_levels); }
  std::uint32_t errand(Errand e);
  void check_trace(const Trace& trace) const;
  void settle_within_limit(ComputeEngine& engine, Submission::Kernel& kernel) const;
  void limit_clients(const Trace& trace, const std::vector<double>& percentages);

  const Trace& trace_;
  bool preemptive_;  // the policy stops launches
  bool mps_;         // its clients are clients of MPS
  Topology topology_;
  Timeline& timeline_;
  Time now_{};
  std::vector<Context> contexts_;
  std::vector<std::vector<StreamPlace>> places_;  // by client, stream
  std::vector<std::vector<SmMask>> limits_;  // by client, of MPS: its places; empty: none
  TimeSlicer slicer_;
  ClockGovernor governor_;
  std::vector<bool> kernels_alone_;  // by program: no copies
  CopyEngines copy_engines_;
  EventQueue<Event> queue_;
  std::deque<Told> told_;            // facts on their way to the host, in order
  std::optional<HostCosts> thread_;  // of the one thread that issues for all; none: one for each client
  Time host_free_{};                 // when it has done what it is at
  std::vector<Time> process_free_;   // the same by client, where each is a process that hands over itself
  std::vector<std::vector<Lane>> lanes_;  // by client, stream
  std::vector<Errand> errands_;
  std::vector<std::uint32_t> free_errands_;
  /// A Preempt under way.
  struct Preemption {
    std::vector<LaunchId> launches;
    PreemptionRecord record;
    std::uint32_t context = 0;
    std::uint32_t left = 0;    // launches neither off nor ended
    std::uint32_t events = 0;  // of it, in the queue
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Fate {  // of a launch
    LaunchId launch;
    const Kernel* kernel = nullptr;  // null: a copy
    std::uint32_t context = 0, stream = 0;
    std::uint64_t blocks = 0;
    Time end = kNever;
    bool spreads = false;  // it has a number of CTAs per SM
    SmMask allowed;
    std::uint32_t preemption = kNone;
    bool padded = false;    // part of a padded launch
    bool was_held = false;  // taken back before it was handed over
    std::uint32_t preemptions = 0;
    std::unique_ptr<KernelRecord> record;  // of earlier runs, if it was on the GPU before
    std::uint64_t done = 0;                // in those
  };
  Fate& new_fate(const LaunchView& launch);
  std::vector<Fate> fates_;  // by LaunchId::slot
  std::vector<Preemption> preemptions_;
  std::vector<std::uint32_t> free_preemptions_;
  std::vector<EngineNotice> engine_notices_;
  std::unordered_map<ShapeKey, Shape, ShapeHash> shapes_;  // as all_shapes_ gave them
  std::unique_ptr<Shapes> own_shapes_;
  Shapes& all_shapes_;
};

}  // namespace corun::sim
