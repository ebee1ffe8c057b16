// One context's compute pipeline: TMU -> WDU -> SMs, in the context's own time (which stands still while
// another context has the GPU).
//
// While one launch has the SMs to itself, its blocks take as long as alone.  Those whose ends come in the
// order of their starts, which is the rule, form one first-in-first-out row per task; only the row's head is
// an event.  A pending block is a number, a resident one 16 bytes.  While several launches that contend have
// blocks on SMs, or a single one's last wave thins out, theirs are in `SharedSms`, which knows how fast they
// are.
//
// Two shortcuts, both exact to the tick and both off under audit or when blocks are recorded:
//   waves: while a task refills exactly the places its own blocks leave and nothing else is due, whole waves
//   are skipped; solo:  a task that starts on an empty GPU and ends undisturbed ends as it did the last time
//   (`SoloMemo`).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/engine/event_queue.h"
#include "sim/stages/cohorts.h"
#include "sim/stages/placement.h"
#include "sim/stages/shared_sms.h"
#include "sim/stages/task.h"
#include "sim/stages/tmu.h"
#include "sim/stages/wdu.h"
#include "traces/model/gpu.h"
#include "traces/model/tpc_mask.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

struct EngineOptions {
  bool shortcuts = true;
  bool audit = false;
};

/// What the engine tells the backend: at now(), in order.
struct EngineNotice {
  enum class Kind : std::uint8_t { last_block_started, kernel_finished, taken_off } kind;
  LaunchId launch;
};

/// A launch that left the GPU with blocks not done.
struct TakenOff {
  KernelRecord record;  // so far
  std::uint64_t done = 0;
};

class ComputeEngine {
 public:
  ComputeEngine(const Gpu& gpu, Timeline& timeline, EngineOptions options);
  ComputeEngine(const ComputeEngine&) = delete;

  /// A launch reaches the TMU now.  `work.record` has all but what happens from here on.  For a persistent
  /// launch, work.ctas workers are dispatched.
  /// SMs with blocks now.
  std::uint32_t busy_sms();
  /// On these SMs, or about to come there as far as there is room, if each launch spreads evenly over its
  /// SMs.
  std::uint64_t threads_on(const SmMask& sms);
  void accept(Work work, std::uint32_t level, const SmMask& allowed, const SmResources& demand);
  /// Gives a persistent launch another number of CTAs: fewer retreat at their next block; for more, a further
  /// instance reaches the TMU now.  Ignored once the launch has ended.
  void resize(LaunchId launch, std::uint32_t ctas);
  /// The same with a number per SM (by SmId).  `grow` false: only takes, what is more comes later.
  void resize(LaunchId launch, const std::vector<std::uint16_t>& ctas_per_sm, bool grow);
  std::uint64_t blocks_done(LaunchId launch);
  std::uint32_t resident_blocks(LaunchId launch);

  /// The two launches, both accepted at this instant, are one grid.
  void join(LaunchId launch, LaunchId padding);
  /// No further block of the launch starts; with `reset` what it has done is void.  True: it is off at once.
  /// Else a notice follows: taken_off when its running blocks have ended, or kernel_finished if all had
  /// started.
  bool stop(LaunchId launch, bool reset);
  /// Its running blocks vanish, what it has done is void.  False: it has ended or was taken off before.
  bool kill(LaunchId launch);
  /// What is to be known of a launch that was taken off; once.
  TakenOff collect(LaunchId launch);

  /// When something happens next (kNever: nothing unless told).
  Time next_time();
  /// Runs up to `limit`, or the first instant with notices, whichever is earlier; now() is then that instant.
  void advance(Time limit, std::vector<EngineNotice>& notices);
  Time now() const { return now_; }

  /// How much later than usual the next launch of a stream starts, for what runs now.
  Time launch_delay();

  /// The highest clock of the GPU over its clock, for launches from now on.
  void set_clock(double stretch) { clock_stretch_ = stretch; }
  /// pJ that its blocks have taken, at the highest clock.
  double energy();

  /// Another context is about to take the GPU.
  void pause();
  /// Ends the run: writes the launches still under way to the timeline.
  void close();

  /// Global time minus this context's time; changes while another context runs.
  Time offset{};

  bool busy() const { return unfinished_ != 0; }
  std::uint64_t blocks_run() const { return blocks_run_; }
  std::uint64_t events() const { return events_; }
  /// Integrals over context time, for utilisation: SMs with a block x ps, and resident warps x ps.
  std::int64_t sm_ps() const { return sm_ps_; }
  std::int64_t warp_ps() const { return warp_ps_; }
  std::size_t tmu_queue() const { return tmu_.size(); }

  SmMask mask_of(const TpcMask& tpcs) const;

 private:
  static constexpr std::uint64_t kJournal = 64;
  struct Resident {
    std::int64_t end;  // context time
    std::uint32_t block;
    std::uint16_t rank;   // SM
    std::uint16_t place;  // which of the SM's block places, when blocks are recorded
  };
  /// Residents of one task in the order of their ends.
  class Row {
   public:
    bool empty() const { return head_ == tail_; }
    std::uint32_t size() const { return tail_ - head_; }
    const Resident& front() const { return ring_[head_ & mask_]; }
    const Resident& back() const { return ring_[(tail_ - 1) & mask_]; }
    Resident& at(std::uint32_t i) { return ring_[(head_ + i) & mask_]; }
    void pop() { ++head_; }
    void push(const Resident& r) {
      if (size() == ring_.size()) grow();
      ring_[tail_++ & mask_] = r;
    }
    void clear() { head_ = tail_ = 0; }

   private:
    void grow();
    std::vector<Resident> ring_;
    std::uint32_t head_ = 0, tail_ = 0, mask_ = 0;
  };
  struct Stray {
    TaskId task;
    Resident resident;
    bool gone = false;  // ended or taken off: then its event is stale
  };
  struct Event {
    enum class Kind : std::uint32_t { hot_head, row_head, stray, shared } kind;
    TaskId task;
    std::uint32_t number;  // row_head: generation of the row; else an index
  };
  /// How a task alone on an empty GPU goes, counted from its arrival.
  struct Solo {
    Time started{}, last_block{}, end{}, dispatcher_free{};
    std::int64_t sm_ps = 0, warp_ps = 0;
  };
  struct SoloKey {
    std::uint32_t kernel, ctas;
    std::int64_t block_alone;
    double load;  // its block time alone tells launches of different shares apart
    SmMask allowed;
    bool operator==(const SoloKey&) const = default;
  };
  struct SoloHash {
    std::size_t operator()(const SoloKey& key) const;
  };

  void dispatch();
  bool choose(TaskId& task, const SmMask*& ready);
  Time early(const Work& work) const;
  std::uint32_t sms_of(const SmMask& heads) const;
  std::uint32_t start(TaskId id, const SmMask* ready);
  static bool differ(const Work& work, std::uint64_t ctas);
  void start_blocks(TaskId id, std::uint32_t head, std::uint32_t each);
  void occupy(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t each, bool stays);
  void occupy_row(TaskId id, Time duration, std::uint32_t block, std::uint32_t rank, std::uint16_t place);
  void end_blocks(TaskId id, std::uint32_t head, std::uint32_t block, std::uint16_t place,
                  std::uint32_t count);
  void vacate(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t count);
  void vacate_all(WorkId work);
  bool take_off(LaunchId launch, bool reset, bool kill);
  void judge_contention();
  std::uint32_t single_out(std::uint32_t head, const SmMask& part);
  void scatter(std::uint32_t head);
  void scatter_what_ends();
  void gather();
  bool alike(std::uint32_t a, std::uint32_t b) const;
  void retire(TaskId id);
  void finish(WorkId id);
  void step(Time t);
  void end_several(Time t, bool hot);
  bool stale(const Event& event);
  void queue_head(TaskId id);
  void slow_down(Work& work);
  void cool(Work& work);
  bool in_tail() const;
  bool below_residency() const;
  bool uneven() const;
  void end_row(TaskId id);
  void skip_waves(Time limit);
  TaskId add_task(WorkId work, std::uint32_t level, const SmMask& allowed, const SmResources& demand,
                  std::uint64_t ctas);
  std::vector<std::uint16_t> by_rank(const std::vector<std::uint16_t>& by_sm) const;
  void add_spread(WorkId work);
  bool reachable(const Work& work) const;
  void seek_places(WorkId work, bool at_once = false);
  void look_again(std::uint32_t rank);
  void refill();
  void bring_up_to_date(TaskId id);
  std::uint32_t room_on(std::uint32_t rank, const Task& task) const;
  void changed(std::uint32_t rank, TaskId by, int difference);
  void note_change(std::uint32_t rank) {
    journal_[journal_end_++ % kJournal] = static_cast<std::uint16_t>(rank);
  }
  void wake_dispatcher() { dispatch_at_ = std::min(dispatch_at_, std::max(now_, dispatcher_free_)); }
  void pass_time(Time to);
  void tell(EngineNotice::Kind kind, LaunchId launch);
  void gauge();
  double dram_use() const;
  Work* find(LaunchId launch);

  void try_solo(TaskId task);
  void learn_solo(const Work& work);
  void advance_solo();
  void end_solo_early();

  void audit_block(Work& work, std::uint64_t block) const;
  void audit_sm(std::uint32_t rank) const;
  void audit_quota(Work& work, std::uint32_t rank) const;
  void audit_end(const Work& work) const;
  void audit_time(Time next) const;
  void audit_work_conserved();

  const Gpu& gpu_;
  Timeline& timeline_;
  EngineOptions options_;
  bool record_blocks_, record_gauges_, shortcuts_;
  Time now_{};
  bool refill_ = false;  // a slot became free at this instant

  std::vector<Task> tasks_;  // by TaskId
  std::vector<std::uint32_t> free_tasks_;
  std::vector<Row> rows_;                      // by TaskId
  std::vector<Placement> placements_;          // by TaskId
  std::vector<bool> row_queued_;               // by TaskId: its head is an event in the queue
  std::vector<std::uint32_t> row_generation_;  // by TaskId: heads queued for an older one are stale
  std::optional<TaskId> hot_;  // the row whose head is not in the queue because it is looked at first
  std::vector<Work> works_;    // by WorkId
  std::vector<std::uint32_t> free_works_;
  std::vector<std::uint32_t> work_of_slot_;  // by LaunchId::slot

  struct Further {  // an instance of a launch with a number of CTAs per SM
    Time at;
    WorkId work;
  };
  std::vector<Further> further_;  // in the order of their times, which is that of their making
  std::vector<WorkId> wanting_;   // launches that have fewer workers than they are to have, for want of room
  std::vector<WorkId> in_vain_;   // the newest instance of these came and went at this instant
  std::vector<TakenOff> taken_off_;

  Tmu tmu_;
  Wdu wdu_;
  std::uint64_t arrivals_ = 0;
  std::vector<TaskId> entered_, evicted_;

  Cohorts cohorts_;
  std::vector<SmResources> free_;        // by head
  std::vector<std::uint32_t> division_;  // of L1 and shared memory, by head
  std::vector<std::uint32_t> in_rows_;   // blocks of launches that do not contend, by head
  std::vector<std::uint64_t> places_;    // used block places as bits, by rank, when blocks are recorded
  std::vector<std::uint32_t> rank_of_sm_;
  SmMask all_sms_, ready_;
  std::uint32_t busy_sms_ = 0, resident_warps_ = 0, resident_blocks_ = 0;
  TaskId sole_;                         // whose block came or went last
  Time sole_since_{}, last_change_{};   // since when only its blocks did; when one did at all
  std::vector<std::uint16_t> journal_;  // ring of ranks whose residents changed
  std::uint64_t journal_end_ = 0;

  EventQueue<Event> queue_;
  std::vector<Event> due_;     // what ends at this instant
  std::vector<Stray> strays_;  // residents that end before one that started earlier
  std::vector<std::uint32_t> free_strays_;
  SharedSms shared_;
  std::uint32_t contenders_ = 0;  // launches that contend and have blocks on SMs
  bool contended_ = false;        // they slow each other, or one goes faster as it thins out
  bool gather_ = false;           // SMs may have become alike
  SmMask changed_sms_;            // since the last time that was looked at
  std::vector<std::uint16_t> gathered_;
  bool judge_contention_ = false;
  std::vector<SharedSms::Ended> ended_, scattered_;
  MemoryLimits memory_;
  double clock_stretch_ = 1, energy_ = 0;
  std::vector<Contender> residents_;
  struct Client {
    double moved = 0;   // bytes to and from DRAM, of launches that have ended
    double others = 0;  // what the other clients had moved when it launched last
    bool launched = false;
  };
  double moved_ = 0;
  std::vector<Client> clients_;
  Time dispatch_at_ = kNever;  // when the dispatcher looks again
  Time dispatcher_free_{};
  Time dispatch_slot_{};  // of the next block, when blocks are recorded
  std::vector<EngineNotice>* notices_ = nullptr;

  Time gauged_at_{};
  std::array<double, 5> gauged_{};
  std::uint32_t unfinished_ = 0, persistent_ = 0, spread_ = 0;  // works
  std::uint64_t blocks_run_ = 0, events_ = 0;
  std::int64_t sm_ps_ = 0, warp_ps_ = 0;

  std::unordered_map<SoloKey, Solo, SoloHash> solo_memo_;
  std::optional<TaskId> alone_;  // a task that has had the GPU to itself since it arrived
  const Solo* solo_ = nullptr;   // it is not simulated: this is how it goes
  Time alone_since_{};
  bool solo_advanced_ = false;  // time has been asked to pass since it arrived
  std::int64_t alone_sm_ps_ = 0, alone_warp_ps_ = 0;
};

}  // namespace corun::sim
