// A segment begins and ends between requests: where the host has waited and no range of the program's own is
// open.  One with records takes 0.1 s and 32 waits or 4 ranges at least, the first 1 s.  The one without that
// follows takes as long, twice, three times and then always nine times as long, but no more than 10 s, and
// ends behind a launch of what was not launched in one with records: a loop that has just begun is recorded.
// Of a pause between launches or waits 0.1 s counts at most: one without records shall not pass while the
// program does nothing.
//
// A program may wait by no call.  Where none came for 1 s, but it has the GPU call functions of its own
// (JAX), the end of the first launch after each of these counts as a wait.  Without them a segment with
// records that has lasted ends behind a launch, the next such one after 2 s, then 4, and so on: so some
// segment holds a request of whatever length.  The one without records that follows takes as long, twice, and
// so on.  What was under way then is left out by the import.
//
// An attached CUPTI costs each launch, most where it has recorded kernels before.  So it leaves the process
// in a segment without records where that breaks nothing (attachment.h) and the program's own ranges tell
// what a request takes: where a range closes that was recorded four times, and nearly all launches lie in
// ranges.  It is away for 2 s of ranges at least, and comes back early where a range of a new name closes, or
// where the process works for 1 s and none does.
//
// Once a graph has been recorded CUPTI stays.  So of a program that marks ranges records end before its first
// graph is launched, and CUPTI is away for 16 ranges and 0.1 s: that is what the graph takes without it.
#include "hw/capture/segments.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "hw/capture/attachment.h"
#include "hw/capture/cupti_functions.h"
#include "hw/capture/lines.h"

namespace corun::capture {
namespace {

constexpr std::uint64_t kFirst = 1'000'000'000, kWith = 100'000'000, kMostWithout = 10'000'000'000;
constexpr std::uint64_t kPatience = 1'000'000'000, kLook = 20'000'000, kPause = 100'000'000;
constexpr std::uint32_t kWaits = 32, kWaitsOfRange = 8, kTimes = 9;
constexpr std::uint64_t kAway = 2'000'000'000;
constexpr std::uint32_t kKnown = 4, kOfRanges = 8;  // one launch of as many may lie in no range
constexpr std::size_t kNames = 64;                  // with more of them a new one is nothing new
constexpr std::chrono::milliseconds kWatch{500};
constexpr std::uint32_t kRangesOfGraph = 16;
constexpr std::uint64_t kGraphAway = 100'000'000, kHeld = 1'000'000'000;
constexpr CUpti_ActivityKind kWork[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};

std::atomic<int> ranges_open{0}, open_captures{0};
std::atomic<bool> recorded{true};                          // kernels are
std::atomic<bool> ranges_seen{false}, graphs_wait{false};  // the first graph's records
std::atomic<bool> something_new{false};                    // was launched in a segment without records
std::atomic<bool> noticed{false};  // a function was given to the GPU, and nothing launched since
std::atomic<std::uint32_t> in_ranges{0}, in_none{0};  // launches of this segment
std::atomic<std::uint64_t> look{0};  // from here on a launch looks whether the segment ends behind it
/// A bit for each launch of a segment with records; two that fall together cost a segment that comes later.
std::array<std::atomic<std::uint64_t>, 1024> known{};

class Segments {
 public:
  CUptiResult begin(bool without, const Attachment& attachment) {
    const std::scoped_lock lock(mutex_);
    process_ = getpid(), attachment_ = attachment, away_ = false, ranges_.recorded.clear();
    if (const CUptiResult result = attach(attachment_); result != CUPTI_SUCCESS) return result;
    active_ = without;
    waits_ = 0, times_ = 1, patience_ = kPatience, notices_ = 0, told_by_notices_ = unwaited_ = false;
    starts(now(), kFirst);
    recorded = true, something_new = false, open_captures = 0;
    held_ = ranges_seen = false, graphs_wait = without;
    for (auto& bits : known) bits = 0;
    forget_threads();
    in_ranges = in_none = 0;
    return records(true);
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    active_ = false;
    if (std::exchange(away_, true)) return;
    cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    records(false);
    detach();
    set_attached(false);
  }
  void host_waited(std::uint64_t time) {
    if (const auto lock = turn()) {
      notices_ = 0;
      waited(time, 1);
    }
  }
  void closed(std::uint64_t time, const std::string& name) {
    const auto lock = turn();
    if (!lock) return;
    ++ranges_.closed;
    auto& names = ranges_.recorded;
    std::uint32_t& times = names[names.size() < kNames ? name : std::string()];
    if (away_) {
      pass(time);
      ++ranges_.away;
      if (held_ ? busy_ >= kHeld || (ranges_.away >= kRangesOfGraph && busy_ >= kGraphAway)
                : busy_ >= lasts_ || (times == 0 && names.size() < kNames))
        come();
      return;
    }
    notices_ = 0;
    if (recorded) ++times;
    waited(time, kWaitsOfRange);
    if (recorded || open_captures > 0) return;
    if (may_leave() && (held_ || (times >= kKnown && in_ranges >= kOfRanges * in_none)))
      go();
    else if (held_)
      switch_at(time);
  }
  /// Its records wait until CUPTI has been away.
  void graph_given() {
    const auto lock = turn();
    if (!lock || !recorded || open_captures > 0 || !first_graph_recorded()) return;
    held_ = true;
    switch_at(now());
    lasts_ = kHeld;
  }
  void notice(std::uint64_t time) {
    const auto lock = turn();
    if (!lock) return;
    ++notices_;
    if (told_by_notices_) waited(time, 1);
  }
  void record_from(std::uint64_t time) {
    if (const auto lock = turn(); lock && !recorded && !held_) switch_at(time);
  }
  void end_without_wait(std::uint64_t time) {
    const auto lock = turn();
    if (!lock || time < look) return;
    pass(time);
    if (busy_ - last_wait_ < (recorded ? patience_ : std::max(lasts_, kPatience)) || busy_ < lasts_ ||
        open_captures > 0)
      return;
    if (recorded && notices_ > 0) {
      told_by_notices_ = true;
      waits_ = std::max(waits_, std::exchange(notices_, 0));
      last_wait_ = busy_;
      return;  // it ends at the next one, if that comes within 1 s
    }
    if (recorded) unwaited_ = true, patience_ *= 2;
    switch_at(time);
  }

 private:
  /// None in the child of a fork, and none where another thread has it.
  std::unique_lock<std::mutex> turn() {
    if (!active_) return {};
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && (!active_ || process_ != getpid())) lock.unlock();
    return lock;
  }
  void starts(std::uint64_t time, std::uint64_t lasts) {
    busy_ = last_wait_ = 0, lasts_ = lasts, last_look_ = time, look = time + kLook;
  }
  void pass(std::uint64_t time) {
    if (time <= last_look_) return;  // another thread's
    busy_ += std::min(time - last_look_, kPause);
    last_look_ = time, look = time + kLook;
  }
  void waited(std::uint64_t time, std::uint32_t waits) {
    pass(time);
    waits_ += waits, last_wait_ = busy_;
    if (busy_ >= lasts_ && (!recorded || waits_ >= kWaits)) switch_at(time);
  }
  void switch_at(std::uint64_t time) {
    if (open_captures > 0) return;  // the driver allows little then
    waits_ = 0;
    something_new = false;
    if (recorded) {
      pass(time);
      recorded = false, recorded_for_ = busy_;
      tell(time + 1, 0);  // a range that ends now is of the segment before
      records(false);
      starts(now(), std::exchange(unwaited_, false) ? times_ * (patience_ / 2)
                                                    : std::min(kMostWithout, times_ * busy_));
      times_ = std::min(times_ + 1, kTimes);
    } else {
      start_records();
    }
  }
  void start_records() {
    if (std::exchange(held_, false)) graphs_wait = false;
    forget_threads();
    in_ranges = in_none = 0;
    records(true);
    recorded = true;
    starts(now(), kWith);
    tell(last_look_, 1);
  }
  void go() {
    leave(attachment_);
    away_ = true, ranges_.away = 0;
    starts(now(), std::min(kMostWithout, std::max(kAway, times_ * recorded_for_)));
    tell(last_look_, 2);
    if (!std::exchange(watched_, true)) std::thread([this] { watch(); }).detach();
  }
  void come() {
    if (attach(attachment_) != CUPTI_SUCCESS) return starts(now(), kMostWithout);  // another tool has it
    away_ = false, something_new = false, waits_ = 0;
    start_records();
  }
  /// In a thread.  The process works, and closes no range.
  void watch() {
    std::uint32_t closed = 0, looks = 0;
    std::clock_t used = 0;
    for (;;) {
      std::this_thread::sleep_for(kWatch);
      const std::scoped_lock lock(mutex_);
      const std::clock_t until_now = std::clock();
      const bool works = until_now - std::exchange(used, until_now) > CLOCKS_PER_SEC / 20;
      const bool quiet = std::exchange(closed, ranges_.closed) == ranges_.closed;
      looks = works && quiet ? looks + 1 : 0;
      if (looks >= 2 && active_ && away_ && ranges_open == 0) come(), looks = 0;
    }
  }
  static CUptiResult records(bool on) {
    CUptiResult of_kernels = CUPTI_SUCCESS;
    if (on) records_kernels(true);
    // What a version of CUPTI does not have is left out, but for kernels.
    for (const CUpti_ActivityKind kind : kWork) {
      const CUptiResult result = on ? cupti().enable(kind) : cupti().disable(kind);
      if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) of_kernels = result;
    }
    if (!on) records_kernels(false);
    return of_kernels;
  }
  /// From `time` on: 0 calls are kept, 1 kernels too, 2 ranges alone.
  void tell(std::uint64_t time, int what) {
    told_ = std::max(time, told_ + 1);
    Line line('o');
    line.add(told_).add(what);
    output().write(line);
  }

  std::mutex mutex_;
  Attachment attachment_{};
  pid_t process_ = 0;
  std::atomic<bool> active_{false};
  std::uint64_t busy_ = 0, last_wait_ = 0, lasts_ = 0;  // of this segment, without pauses
  std::uint64_t last_look_ = 0, patience_ = kPatience;
  std::uint32_t waits_ = 0, notices_ = 0, times_ = 1;
  bool told_by_notices_ = false;
  bool unwaited_ = false;  // the segment with records ends so
  bool away_ = false;      // CUPTI is
  bool held_ = false;      // records, for the first graph
  bool watched_ = false;
  std::uint64_t recorded_for_ = 0, told_ = 0;  // the last segment with records; the last change
  struct {
    std::uint32_t closed = 0, away = 0;             // while CUPTI is away, this time
    std::map<std::string, std::uint32_t> recorded;  // by name, how often
  } ranges_;
};

Segments& segments() {
  static Segments* all = new Segments;  // outlives the program's own destructors
  return *all;
}

}  // namespace

CUptiResult begin_segments(bool without, const Attachment& attachment) {
  return segments().begin(without, attachment);
}
void end_segments() { segments().end(); }
void host_waited(std::uint64_t time) {
  if (ranges_open == 0) segments().host_waited(time);
}
void range_opened() {
  ++ranges_open;
  ranges_seen.store(true, std::memory_order_relaxed);
}
void range_closed(std::uint64_t time, const std::string& name) {
  if (--ranges_open == 0) segments().closed(time, name);
}

void launched(const void* what, std::uint64_t size) {
  const std::uint64_t mixed =
      (reinterpret_cast<std::uintptr_t>(what) + size * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U >> 48;
  std::atomic<std::uint64_t>& bits = known[mixed >> 6];
  const std::uint64_t bit = std::uint64_t{1} << (mixed & 63);
  if ((bits.load(std::memory_order_relaxed) & bit) != 0) return;
  if (recorded.load(std::memory_order_relaxed))
    bits |= bit;
  else
    something_new = true;
}
void graph_given() {
  if (graphs_wait.load(std::memory_order_relaxed) && ranges_seen.load(std::memory_order_relaxed))
    segments().graph_given();
  graph_comes();
}
void launch_ended(std::uint64_t time) {
  (ranges_open.load(std::memory_order_relaxed) == 0 ? in_none : in_ranges)
      .fetch_add(1, std::memory_order_relaxed);
  if (noticed.load(std::memory_order_relaxed) && noticed.exchange(false) && ranges_open == 0)
    segments().notice(time);
  if (something_new.load(std::memory_order_relaxed))
    segments().record_from(time);
  else if (time >= look.load(std::memory_order_relaxed) && ranges_open == 0)
    segments().end_without_wait(time);
}
void host_function_given() { noticed.store(true, std::memory_order_relaxed); }
void graph_captured(int change) {
  if (open_captures + change >= 0) open_captures += change;
}

}  // namespace corun::capture
