// A stretch with records takes 0.1 s and 32 waits or 4 ranges at least, the first 1 s.  It ends between requests: where the host has
// waited and no range of the program's own is open.  Of a program that marks no ranges one follows in which its calls are heard, as long and no
// more, which tells what a request takes; it ends early where something is launched that no stretch with records has seen.  Then
// CUPTI leaves, as its documentation says within a callback at the end of a call, for as long as it was there, twice, three times
// and then always four times as long, but no more than 1 s.
//
// Leaves out: what is launched while CUPTI is away.  Before CUDA 12.6 CUPTI does not come back to a process that has made graphs, so
// it stays, and calls are heard instead.
#include "hw/capture/stretches.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "hw/capture/calls.h"
#include "hw/capture/cupti_functions.h"
#include "hw/capture/lines.h"

namespace corun::capture {
namespace {

constexpr std::uint64_t kFirst = 1'000'000'000, kWith = 100'000'000, kMostWithout = 1'000'000'000;
constexpr std::uint32_t kWaits = 32, kWaitsOfRange = 8, kTimes = 4;
constexpr std::uint64_t kLate = 50'000'000;  // for a range to end, where there were some
constexpr std::chrono::milliseconds kLook{10};
constexpr std::uint32_t kComesBack = 24;  // CUPTI's version of CUDA 12.6
constexpr CUpti_ActivityKind kWork[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                        CUPTI_ACTIVITY_KIND_MEMSET};

enum class State : std::uint8_t {
  records,  // kernels, and calls
  calls,
  fetching,  // the records so far are taken from CUPTI
  leaving,   // CUPTI goes at the end of the next call
  away,
};

std::atomic<int> open_ranges{0};
std::atomic<bool> recorded{true};        // kernels are
std::atomic<bool> something_new{false};  // was launched in a stretch without records
std::atomic<bool> leaves{false};         // State::leaving
std::atomic<std::uint64_t> attached{0};
/// A bit for each launch of a stretch with records; two that fall together cost a stretch that comes later.
std::array<std::atomic<std::uint64_t>, 1024> known{};

class Stretches {
 public:
  CUptiResult begin(bool without, CUptiResult (*attach)()) {
    const std::scoped_lock lock(mutex_);
    process_ = getpid(), attach_ = attach;
    for (auto& bits : known) bits = 0;
    times_ = 1;
    const CUptiResult result = come(kFirst);
    if (result != CUPTI_SUCCESS) return result;
    active_ = without;
    std::uint32_t version = 0;
    goes_ = std::getenv("CORUN_CAPTURE_STAYS") == nullptr && cupti().version(&version) == CUPTI_SUCCESS && version >= kComesBack;
    if (without && goes_ && !keeper_.joinable()) keeper_ = std::jthread([this](const std::stop_token& stop) { keep(stop); });
    return result;
  }
  void end() {
    if (process_ != getpid()) return;
    keeper_.request_stop();
    if (keeper_.joinable()) keeper_.join();
    const std::scoped_lock lock(mutex_);
    active_ = leaves = false;
    if (state_ == State::away) return;
    cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    records(false);
    cupti().disable(CUPTI_ACTIVITY_KIND_MEMORY2);
    hear_no_calls();
    state_ = State::away;
  }
  void between_requests(std::uint64_t time, std::uint32_t waits) {
    if (!active_) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || !active_ || process_ != getpid()) return;  // not in the child of a fork
    waits_ += waits;
    marked_ |= waits == kWaitsOfRange;
    if (state_ == State::records && time >= ends_ && waits_ >= kWaits) stop_records(time);
    else if (state_ == State::calls && something_new) come(kWith);
    else if (state_ == State::calls && time >= ends_ && waits_ >= kWaits) goes_ ? fetch() : void(come(kWith));
    else if (state_ == State::away && time >= ends_) come(kWith);
  }
  void go() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || state_ != State::leaving) return;
    const std::uint64_t time = now();
    leaves = false;
    cupti().finalize();
    state_ = State::away;
    const std::uint64_t here = now();
    ends_ = here + std::min(kMostWithout, times_ * (time - began_));
    times_ = std::min(times_ + 1, kTimes);
    tell(time, 2, here - time);
  }

 private:
  /// CUPTI, if it is away, and its records.
  CUptiResult come(std::uint64_t least) {
    const std::uint64_t time = now();
    if (state_ == State::away) {
      if (const CUptiResult result = attach_(); result != CUPTI_SUCCESS) {  // another tool has it
        ends_ = time + kMostWithout;
        return result;
      }
      ++attached;
      cupti().enable(CUPTI_ACTIVITY_KIND_MEMORY2);
    }
    const CUptiResult result = records(true);
    state_ = State::records, recorded = true, something_new = marked_ = false, waits_ = 0;
    began_ = now(), ends_ = began_ + least;
    tell(began_, 1, began_ - time);
    return result;
  }
  void stop_records(std::uint64_t time) {
    recorded = something_new = false;
    tell(time + 1, 0, 0);  // a range that ends now is of the stretch before
    records(false);
    waits_ = 0;
    if (marked_ && goes_) return fetch();
    state_ = State::calls;
    const std::uint64_t took = time - began_;
    ends_ = now() + (goes_ ? std::min(took, kWith) : std::min(kMostWithout, times_ * took));
    if (!goes_) times_ = std::min(times_ + 1, kTimes);
  }
  void fetch() {
    state_ = State::fetching;
    look_.notify_one();
  }
  /// In a thread: what takes long, and what no range tells.
  void keep(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      look_.wait_for(lock, stop, kLook, [&] { return state_ == State::fetching; });
      if (stop.stop_requested()) return;
      if (state_ == State::fetching) {
        lock.unlock();
        cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        lock.lock();
        if (state_ == State::fetching) state_ = State::leaving, leaves = true;
      } else if (state_ == State::away && now() >= ends_ + (marked_ ? kLate : 0)) {
        come(kWith);
      }
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
  /// From `time` on: 0 calls and ranges, 1 kernels too, 2 ranges alone; `took`: ns that the change has cost.
  static void tell(std::uint64_t time, int what, std::uint64_t took) {
    Line line('o');
    line.add(time).add(what).add(took);
    output().write(line);
  }

  std::mutex mutex_;
  std::condition_variable_any look_;
  pid_t process_ = 0;
  CUptiResult (*attach_)() = nullptr;
  std::atomic<bool> active_{false};
  bool goes_ = false, marked_ = false;  // CUPTI may leave; a range has ended in this stretch
  State state_ = State::away;
  std::uint64_t began_ = 0, ends_ = 0;
  std::uint32_t waits_ = 0, times_ = 1;
  std::jthread keeper_;
};

Stretches& stretches() {
  static Stretches* all = new Stretches;  // outlives the program's own destructors
  return *all;
}

}  // namespace

CUptiResult begin_stretches(bool without, CUptiResult (*attach)()) { return stretches().begin(without, attach); }
void end_stretches() { stretches().end(); }
void host_waited(std::uint64_t time) {
  if (open_ranges == 0) stretches().between_requests(time, 1);
}
void range_opened() { ++open_ranges; }
void range_closed(std::uint64_t time) {
  if (--open_ranges == 0) stretches().between_requests(time, kWaitsOfRange);
}
void call_ended() {
  if (leaves.load(std::memory_order_relaxed)) stretches().go();
}
std::uint64_t number_of(std::uint32_t correlation) { return attached.load(std::memory_order_relaxed) << 32 | correlation; }

void launched(const void* what, std::uint64_t size) {
  const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(what) + size * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U >> 48;
  std::atomic<std::uint64_t>& bits = known[mixed >> 6];
  const std::uint64_t bit = std::uint64_t{1} << (mixed & 63);
  if ((bits.load(std::memory_order_relaxed) & bit) != 0) return;
  if (recorded.load(std::memory_order_relaxed)) bits |= bit;
  else something_new = true;
}

}  // namespace corun::capture
