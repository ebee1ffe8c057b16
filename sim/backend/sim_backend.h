// The simulated GPU as a Backend, and the only place that wires the stages:
//   apply -> host channels -> TMU -> WDU -> SMs -> notices (after the time a host needs to learn of them).
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "sim/backend/shapes.h"
#include "sim/engine/event_queue.h"
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
             EngineOptions options, Shapes* shapes = nullptr);

  const Topology& topology() const override { return topology_; }
  Time now() const override { return now_; }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch,
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
    enum class Kind : std::uint32_t { channel, copy_end, resize, sample_progress, report_progress } kind;
    std::uint32_t a, b;  // channel: context, channel; others: an index into `errands_`
  };
  struct Errand {
    LaunchId launch;
    std::uint32_t context = 0, ctas = 0;
    std::uint64_t blocks = 0;
    Time as_of{};
    CopyRecord copy;
  };
  struct Told {
    Time at;
    Notice notice;
  };

  void handle(const Event& event);
  void pump(std::uint32_t context, std::uint32_t channel);
  void ended(LaunchId launch, std::uint32_t context, std::uint32_t stream);
  void tell_later(const Notice& notice) { told_.push_back({now_ + topology_.gpu.completion_notice, notice}); }
  void turn();
  bool has_work(std::uint32_t context) const;
  Time ended_at(LaunchId launch) const;
  StreamPlace place(const LaunchView& l) const { return places_[l.client.value][l.stream.value]; }
  Shape shape_of(const LaunchView& launch, std::uint32_t sms);
  Outcome launch(const decide::Launch& decision, const LaunchView& launch, std::span<const LaunchId> follows);
  template <class What>
  void submit(const LaunchView& launch, std::span<const LaunchId> follows, What what);
  std::uint32_t errand(Errand e);
  void check_trace(const Trace& trace) const;

  const Trace& trace_;
  Topology topology_;
  Timeline& timeline_;
  Time now_{};
  std::vector<Context> contexts_;
  std::vector<std::vector<StreamPlace>> places_;  // by client, stream
  TimeSlicer slicer_;
  CopyEngines copy_engines_;
  EventQueue<Event> queue_;
  std::deque<Told> told_;  // facts on their way to the host, in order
  std::vector<Errand> errands_;
  std::vector<std::uint32_t> free_errands_;
  struct Fate {
    LaunchId launch;
    std::uint32_t context = 0, stream = 0;
    std::uint64_t blocks = 0;
    Time end = kNever;
  };
  std::vector<Fate> fates_;  // by LaunchId::slot
  std::vector<EngineNotice> engine_notices_;
  std::unordered_map<ShapeKey, Shape, ShapeHash> shapes_;  // as all_shapes_ gave them
  std::unique_ptr<Shapes> own_shapes_;
  Shapes& all_shapes_;
};

}  // namespace corun::sim
