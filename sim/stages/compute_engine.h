// The compute side of one context: its pipeline (`Pipeline`), and a shortcut before it.  A launch that comes
// when nothing else is there, and that has been seen to go undisturbed before, waits at the door: if nobody
// comes or looks until its end, it goes as it did then, and the pipeline never sees it.  Otherwise the
// pipeline takes it in as of when it came.  Exact to the tick; off under audit and when blocks are recorded.
//
// Times are the context's own, which stands still while another context has the GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/stages/pipeline.h"
#include "sim/stages/solo_replay.h"
#include "sim/stages/task.h"
#include "traces/model/gpu.h"
#include "traces/model/tpc_mask.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

struct EngineOptions {
  bool shortcuts = true;
  bool audit = false;
  bool contention = true;  // false: blocks take as long as alone
};

class ComputeEngine {
 public:
  /// Both references must outlive the engine.
  ComputeEngine(const Gpu& gpu, Timeline& timeline, EngineOptions options);
  /// A copy goes on as the other one would.  It writes to `timeline`.
  ComputeEngine(const ComputeEngine& other, Timeline& timeline);

  // ---- launches: at now() ----
  /// A launch reaches the TMU.  `work.record` has all but what happens from here on.  For a persistent
  /// launch, work.ctas workers are dispatched.
  void accept(Work&& work, std::uint32_t level, const SmMask& allowed, const SmResources& demand);
  /// Gives a persistent launch another number of CTAs: fewer retreat at their next block; for more, a further
  /// instance reaches the TMU.  Ignored once the launch has ended.
  void resize(LaunchId launch, std::uint32_t ctas) { pipeline().resize(launch, ctas); }
  /// The same with a number per SM (by SmId).  `grow` false: only takes, what is more comes later.
  void resize(LaunchId launch, const std::vector<std::uint16_t>& ctas_per_sm, bool grow) {
    pipeline().resize(launch, ctas_per_sm, grow);
  }
  /// The two launches, both accepted at this instant, are one grid.
  void pair_up(LaunchId launch, LaunchId padding) { pipeline().pair_up(launch, padding); }
  /// No further block of the launch starts; with `reset` what it has done is void.  True: it is off at once.
  /// Else a notice follows: taken_off when its running blocks have ended, or kernel_finished if all had
  /// started.
  bool stop(LaunchId launch, bool reset) { return pipeline().take_off(launch, reset, false); }
  /// Its running blocks vanish, what it has done is void.  False: it has ended or was taken off before.
  bool kill(LaunchId launch) { return pipeline().take_off(launch, true, true); }
  /// What is to be known of a launch that was taken off; once.
  TakenOff collect(LaunchId launch) { return pipeline().collect(launch); }

  // ---- time ----
  /// When something happens next (kNever: nothing unless told).
  Time next_time() const;
  /// Runs up to `limit`, or the first instant with notices, whichever is earlier; now() is then that instant.
  void advance(Time limit, std::vector<EngineNotice>& notices);
  Time now() const { return door_ ? door_->now : pipeline_.now(); }
  /// From when on a launch finds it as if none had been there, if none is.
  Time rests() const { return std::max(now(), pipeline_.dispatcher_rests()); }
  /// Global time minus this context's time; changes while another context runs.
  Time offset() const { return pipeline_.offset(); }
  void shift(Time by) { pipeline_.shift(by); }
  /// The highest clock of the GPU over its present clock, for launches from now on, so the door need not open.  A change to blocks
  /// on SMs must go through pipeline(), which opens the door.
  void set_clock(double clock_ratio) { pipeline_.set_clock(clock_ratio); }
  /// Another context is about to take the GPU.
  void pause() { pipeline(); }
  /// Ends the run: writes the launches still under way to the timeline.
  void close() { pipeline().close(); }

  // ---- what can be asked ----
  bool busy() const { return door_ || pipeline_.busy(); }
  /// SMs with blocks now.
  std::uint32_t busy_sms() { return pipeline().sms().busy(); }
  /// On these SMs, or about to come there as far as there is room, if each launch spreads evenly over its
  /// SMs.
  std::uint64_t threads_on(const SmMask& sms) { return pipeline().threads_on(sms); }
  std::uint64_t blocks_done(LaunchId launch) { return pipeline().blocks_done(launch); }
  std::uint32_t resident_blocks(LaunchId launch) { return pipeline().resident_blocks(launch); }
  /// How much later than usual the next launch of a stream starts, for what runs now.
  Time launch_delay(bool in_graph, bool after_others) {
    return pipeline().launch_delay(in_graph, after_others);
  }
  /// pJ that its blocks have taken, at the highest clock.
  double energy() { return pipeline().energy(); }
  SmMask mask_of(const TpcMask& tpcs) const { return pipeline_.sms().mask_of(tpcs); }
  const SmMask& all_sms() const { return pipeline_.sms().all(); }
  std::size_t tmu_queue() const { return pipeline_.tmu_queue(); }
  std::uint64_t blocks_run() const { return pipeline_.blocks_run(); }
  std::uint64_t events() const { return pipeline_.steps(); }
  /// From that number of events on time stands still; one more may be that of a launch at the door.
  void stop_after(std::uint64_t events) { pipeline_.stop_after(events); }
  bool out_of_events() const { return pipeline_.out_of_steps(); }
  /// Integrals over context time, for utilisation: SMs with a block x ps, and resident warps x ps.
  SmArray::Integral sm_ps() const { return pipeline_.sms().sm_ps(); }
  SmArray::Integral warp_ps() const { return pipeline_.sms().warp_ps(); }

 private:
  /// A launch that the pipeline has not seen.
  struct Door {
    Work work;
    std::uint32_t level;
    SmMask allowed;
    SmResources demand;
    UndisturbedRun run;  // as it went before
    Time now;
    bool advanced = false;   // time has been asked to pass since it came
    bool last_told = false;  // that its last block has started, or nobody is to know
  };
  /// A launch that has had the pipeline to itself since it came.
  struct Watched {
    LaunchId launch;
    SoloMemory::Key key;
    Time since{};
    SmArray::Integral sm_ps = 0, warp_ps = 0;
  };

  /// The pipeline as of now: the only way to it for all that comes from outside.
  Pipeline& pipeline();
  void open_door();
  void advance_at_door(Time limit, std::vector<EngineNotice>& notices);

  Pipeline pipeline_;
  bool shortcuts_;
  SoloMemory memory_;
  std::optional<Door> door_;
  std::optional<Watched> watched_;
};

/// How long a launch takes that has the engine, where nothing is, to itself from its rest on.
Time length_alone(ComputeEngine& engine, const Work& work, const SmMask& allowed, const SmResources& demand);

}  // namespace corun::sim
