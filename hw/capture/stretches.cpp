// A stretch begins and ends between requests: where the host has waited and no range of the program's own is
// open.  One with records takes 0.1 s and 32 waits or 4 ranges at least, the first 1 s.  The one without that
// follows takes as long, twice, three times and then always four times as long, but no more than 1 s, and
// ends behind a launch of what was not launched in one with records: a loop that has just begun is recorded.
//
// A program may wait by no call (JAX polls).  Where none came for 1 s of launches, a stretch with records
// that has lasted ends behind a launch, the next such one after 2 s, then 4, and so on: so some stretch holds
// a request of whatever length.  The one without records that follows takes as long, twice, three times and
// then always four times as long as was waited for a wait, and ends behind a launch too.  What was under way
// then is left out by the import.
#include "hw/capture/stretches.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "hw/capture/cupti_functions.h"
#include "hw/capture/lines.h"

namespace corun::capture {
namespace {

constexpr std::uint64_t kFirst = 1'000'000'000, kWith = 100'000'000, kMostWithout = 1'000'000'000;
constexpr std::uint64_t kPatience = 1'000'000'000, kLook = 20'000'000, kIdle = 100'000'000,
                        kNever = ~std::uint64_t{0};
constexpr std::uint32_t kWaits = 32, kWaitsOfRange = 8, kTimes = 4;
constexpr CUpti_ActivityKind kWork[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};

std::atomic<int> ranges_open{0}, open_captures{0};
std::atomic<bool> recorded{true};        // kernels are
std::atomic<bool> something_new{false};  // was launched in a stretch without records
std::atomic<std::uint64_t> overdue{
    kNever};  // from here on a stretch may end behind a launch, if no wait has come
/// A bit for each launch of a stretch with records; two that fall together cost a stretch that comes later.
std::array<std::atomic<std::uint64_t>, 1024> known{};

class Stretches {
 public:
  CUptiResult begin(bool without) {
    const std::scoped_lock lock(mutex_);
    process_ = getpid();
    active_ = without;
    began_ = now(), ends_ = began_ + kFirst, waits_ = 0, times_ = 1;
    patience_ = kPatience, unwaited_ = false, overdue = ends_, last_wait_ = began_;
    recorded = true, something_new = false, open_captures = 0;
    for (auto& bits : known) bits = 0;
    const CUptiResult result = records(true);
    cupti().enable(CUPTI_ACTIVITY_KIND_MEMORY2);
    return result;
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    active_ = false;
    records(false);
    cupti().disable(CUPTI_ACTIVITY_KIND_MEMORY2);
  }
  void between_requests(std::uint64_t time, std::uint32_t waits) {
    if (!active_) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || !active_ || process_ != getpid()) return;  // not in the child of a fork
    waits_ += waits, last_wait_ = time;
    if (time >= ends_ && (!recorded || waits_ >= kWaits)) switch_at(time);
  }
  void record_from(std::uint64_t time) {
    if (!active_) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && active_ && process_ == getpid() && !recorded) switch_at(time);
  }
  void end_without_wait(std::uint64_t time) {
    if (!active_) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || !active_ || process_ != getpid() || time < overdue) return;
    if (time - last_look_ > kIdle) busy_since_ = time;  // one that does nothing does not wait for nothing
    last_look_ = time;
    const std::uint64_t from = recorded              ? std::max(last_wait_, busy_since_) + patience_
                               : last_wait_ > began_ ? kNever
                                                     : 0;
    if (time < from) overdue = recorded ? time + kLook : kNever;
    if (time < from || open_captures > 0) return;
    unwaited_ = true;
    if (recorded) patience_ *= 2;
    switch_at(time);
  }

 private:
  void switch_at(std::uint64_t time) {
    if (open_captures > 0) return;  // the driver allows little then
    waits_ = 0;
    something_new = false;
    if (recorded) {
      recorded = false;
      tell(time + 1);  // a range that ends now is of the stretch before
      records(false);
      ends_ =
          now() + (unwaited_ ? times_ * (patience_ / 2) : std::min(kMostWithout, times_ * (time - began_)));
      began_ = now();
      times_ = std::min(times_ + 1, kTimes);
      overdue = std::exchange(unwaited_, false) ? ends_ : kNever;
    } else {
      records(true);
      recorded = true;
      began_ = now(), ends_ = began_ + kWith;
      overdue = ends_;
      tell(began_);
    }
  }
  static CUptiResult records(bool on) {
    CUptiResult of_kernels = CUPTI_SUCCESS;
    // What a version of CUPTI does not have is left out, but for kernels.
    for (const CUpti_ActivityKind kind : kWork) {
      const CUptiResult result = on ? cupti().enable(kind) : cupti().disable(kind);
      if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) of_kernels = result;
    }
    return of_kernels;
  }
  /// From `time` on it is so.
  void tell(std::uint64_t time) const {
    Line line('o');
    line.add(time).add(int(recorded.load()));
    output().write(line);
  }

  std::mutex mutex_;
  pid_t process_ = 0;
  std::atomic<bool> active_{false};
  std::uint64_t began_ = 0, ends_ = 0, last_wait_ = 0, last_look_ = 0, busy_since_ = 0, patience_ = kPatience;
  bool unwaited_ = false;  // the stretch with records ends so
  std::uint32_t waits_ = 0, times_ = 1;
};

Stretches& stretches() {
  static Stretches* all = new Stretches;  // outlives the program's own destructors
  return *all;
}

}  // namespace

CUptiResult begin_stretches(bool without) { return stretches().begin(without); }
void end_stretches() { stretches().end(); }
void host_waited(std::uint64_t time) {
  if (ranges_open == 0) stretches().between_requests(time, 1);
}
void range_opened() { ++ranges_open; }
void range_closed(std::uint64_t time) {
  if (--ranges_open == 0) stretches().between_requests(time, kWaitsOfRange);
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
void launch_ended(std::uint64_t time) {
  if (something_new.load(std::memory_order_relaxed))
    stretches().record_from(time);
  else if (time >= overdue.load(std::memory_order_relaxed) && ranges_open == 0)
    stretches().end_without_wait(time);
}
void graph_captured(int change) {
  if (open_captures + change >= 0) open_captures += change;
}

}  // namespace corun::capture
