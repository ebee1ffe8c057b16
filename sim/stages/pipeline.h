// One context's compute pipeline, in the context's own time: TMU -> WDU -> dispatcher -> SMs.  An instant is
// one `step`: what ends completes, slots are refilled, the dispatcher starts blocks, rates settle.
//
// Blocks of a launch that contends are in `ContentionModel`, which knows how fast they are: as fast as alone, unless several such
// launches have blocks on SMs or the last wave of one thins out.  Ends of other blocks are known when they start
// (`CompletionQueue`).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/stages/completion_queue.h"
#include "sim/stages/contention_model.h"
#include "sim/stages/dispatcher.h"
#include "sim/stages/engine_observer.h"
#include "sim/stages/fast_forward.h"
#include "sim/stages/gpu_condition.h"
#include "sim/stages/launch_table.h"
#include "sim/stages/quota_controller.h"
#include "sim/stages/sm_array.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"
#include "traces/model/gpu.h"

namespace corun::sim {

/// What the engine tells the backend: at now(), in order.
struct EngineNotice {
  enum class Kind : std::uint8_t { last_block_started, kernel_finished, taken_off } kind;
  LaunchId launch;
};

/// How a launch went that had the GPU to itself, counted from its arrival.
struct UndisturbedRun {
  Time started{}, last_block{}, end{}, dispatcher_free{};
  SmArray::Integral sm_ps = 0, warp_ps = 0;
};

class Pipeline {
 public:
  /// `shortcuts`: SMs in the same state are kept as one, and waves that repeat are skipped.
  Pipeline(const Gpu& gpu, EngineObserver observer, bool shortcuts, bool contention = true);

  // ---- launches ----
  /// A launch is about to be accepted: its load is as the clock and L2 have it.  Once for each.
  void condition(Work& work);
  void accept(Work&& work, std::uint32_t level, const SmMask& allowed, const SmResources& demand);
  /// A launch came at `since`, when nothing else was there, and went like that: it ends now.
  void pass(Work&& work, Time since, const UndisturbedRun& run);
  void resize(LaunchId launch, std::uint32_t ctas);
  void resize(LaunchId launch, const std::vector<std::uint16_t>& ctas_per_sm, bool grow);
  void pair_up(LaunchId launch, LaunchId padding);
  bool take_off(LaunchId launch, bool reset, bool kill);
  TakenOff collect(LaunchId launch) { return launches_.collect(launch); }

  // ---- time ----
  Time next_time() const;
  /// Runs up to `limit`, or the first instant with notices, whichever is earlier.
  void advance(Time limit, std::vector<EngineNotice>& notices);
  void pass_time(Time to);
  Time now() const { return now_; }
  /// Global time minus this context's time.
  Time offset() const { return offset_; }
  void shift(Time by) {
    CORUN_EXPECTS(by >= Time{});
    offset_ += by;
  }
  void set_clock(double clock_ratio) { condition_.set_clock(clock_ratio); }
  /// Writes the launches still under way to the timeline.
  void close();
  void write_to(Timeline& timeline) { observer_.write_to(timeline); }

  // ---- what can be asked ----
  bool busy() const { return launches_.unfinished() != 0; }
  /// Nothing is there or about to happen, and the dispatcher would start a block at once.
  bool at_rest() const { return !busy() && dispatcher_.free() <= now_ && next_time() == kNever; }
  Time dispatcher_rests() const { return dispatcher_.free(); }
  const SmArray& sms() const { return sms_; }
  std::uint64_t blocks_done(LaunchId launch) const;
  std::uint32_t resident_blocks(LaunchId launch) const;
  std::uint64_t threads_on(const SmMask& sms) const;
  std::size_t tmu_queue() const { return dispatcher_.waiting(); }
  Time launch_delay(bool in_graph, bool after_others) const;
  double energy() const;
  std::uint64_t blocks_run() const { return blocks_run_; }
  std::uint64_t steps() const { return steps_.taken; }
  /// Time stands still once that number of steps is reached, until this is called again.
  /// Returns the number before.
  std::uint64_t stop_after(std::uint64_t steps) { return std::exchange(steps_.most, steps); }
  bool out_of_steps() const { return steps_.spent(); }
  /// How the launch went that ended last, counted from `since`, when these were the SMs' integrals.
  UndisturbedRun last_run(Time since, SmArray::Integral sm_ps, SmArray::Integral warp_ps) const;

 private:
  // complete
  void step(Time t);
  void complete(Time t);
  void complete_in_order(bool leading);
  void complete_fifo(TaskId id);
  void part_what_ends();
  void part_workers(WorkId work);
  void part_ended(std::uint32_t head, const SmMask& part);
  void end_blocks(TaskId id, std::uint32_t head, std::uint32_t block, std::uint16_t place,
                  std::uint32_t count);
  void vacate(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t count);
  void vacate_all(WorkId work);
  void retire(TaskId id);
  void finish(WorkId id);
  // refill
  void refill();
  TaskId add_task(WorkId work, std::uint32_t level, const SmMask& allowed, const SmResources& demand,
                  std::uint64_t ctas);
  void add_instance(WorkId work);
  bool place_left(const Spread& spread) const;
  void seek(WorkId work);
  // dispatch
  void dispatch();
  std::uint32_t start(const Dispatcher::Choice& choice);
  void start_blocks(TaskId id, std::uint32_t head, std::uint32_t each);
  void occupy(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t each, bool stays);
  void residents_changed(std::uint32_t rank, TaskId by, int difference);
  // settle
  void settle();
  void observe();
  // cohorts
  std::uint32_t single_out(std::uint32_t head, const SmMask& part);
  void part_all(std::uint32_t head);
  void merge_alike();

  bool shortcuts() const { return sms_.cohorts().together(); }
  void skip_waves(Time limit);
  void skip_rounds(Time limit);
  void tell(EngineNotice::Kind kind, LaunchId launch) {
    if (notices_ != nullptr) notices_->push_back({kind, launch});
  }
  void audit_end(const Work& work) const;

  const Gpu& gpu_;
  bool contends_;
  EngineObserver observer_;
  Time now_{}, offset_{};

  LaunchTable launches_;
  TaskTable tasks_;
  Dispatcher dispatcher_;
  QuotaController quotas_;
  SmArray sms_;
  CompletionQueue completions_;
  ContentionModel contention_;
  GpuCondition condition_;
  ResidencyHistory history_;

  /// What this instant has made necessary.
  struct ToDo {
    bool refill = false;  // a slot became free
    bool merge = false;   // SMs may have become alike
    bool judge = false;   // launches contend, or no longer
  } to_do_;
  std::uint64_t blocks_run_ = 0;
  /// Instants that it has stepped through, and how many it may.
  struct Steps {
    std::uint64_t taken = 0, most = ~std::uint64_t{0};
    bool spent() const { return taken >= most; }
  } steps_;
  std::vector<EngineNotice>* notices_ = nullptr;
};

}  // namespace corun::sim
