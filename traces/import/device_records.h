// What was recorded of one device, and which part of it is the request: one range or step, the median one,
// what repeats, or all there is.  Leaves out what the host's calls mean for each other
// (traces/import/host_order.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "traces/import/import_notes.h"
#include "traces/import/kineto.h"
#include "traces/import/kineto_records.h"
#include "traces/model/time.h"

namespace corun {

/// No recording is longer, so that sums of times in it stay within Time.
inline constexpr kineto::Nanoseconds kLongestRecording = std::chrono::hours{24 * 30};

class DeviceRecords {
 public:
  /// Of the device that is wanted, else of the one with most kernels.  Both references outlive the object.
  /// Throws InputError where there are none.
  DeviceRecords(std::string file, kineto::Records records, const ImportOptions& wanted, Notes& notes);

  /// AMD's tools record no shapes of kernels in graphs, and some grids in work-items.  `sms`: blocks of a
  /// kernel whose shape is to be assumed.  Throws InputError where it is not known and not to be assumed.
  void settle_shapes(std::uint32_t sms);
  /// One step is one request; without steps everything is.  Throws InputError where what is wanted is not
  /// there.
  void choose_window();

  const kineto::Records& records() const { return records_; }
  std::int64_t device() const { return device_; }
  const kineto::Step* window() const { return window_; }  // null: all is the request
  bool marked() const { return window_ != nullptr && !by_repetition_; }
  Time think_time() const { return think_time_; }         // between requests, the median
  /// Steps that follow each other without a pause, as ProfilerStep marks a loop's.
  struct Rhythm {
    Time period{};                // from the beginning of one to that of the next, the median
    std::uint32_t in_flight = 1;  // steps that are not over when one has begun, with that
  };
  const std::optional<Rhythm>& rhythm() const { return rhythm_; }

  /// From the first event on.
  Time at(kineto::Nanoseconds absolute) const { return absolute - origin_; }
  kineto::Nanoseconds absolute(Time time) const {
    return origin_ + std::chrono::duration_cast<kineto::Nanoseconds>(time);
  }
  bool in_window(kineto::Nanoseconds t) const {
    return window_ == nullptr || (window_->start <= t && t < window_->start + window_->duration);
  }
  const kineto::Shape& shape(const kineto::GpuOp& op) const { return records_.shapes[op.shape]; }
  /// Null: not recorded.
  const kineto::Call* call_of(const std::optional<std::uint64_t>& correlation) const;
  /// When its call began; of one without a call when it began itself.
  kineto::Nanoseconds issued(const kineto::GpuOp& op) const;

 private:
  struct Candidate {
    const kineto::Step* step;
    std::size_t kernels = 0;
    kineto::Nanoseconds over{};  // its work on the GPU
  };

  void choose_device();
  [[noreturn]] void refuse_no_kernels() const;
  void choose_origin();
  void join_calls();
  /// What lies between requests, which are in the order of time.
  void choose_think_time(const std::vector<Candidate>& requests);
  /// The same steps, each with when its work on the GPU ended.
  void find_rhythm(const std::vector<Candidate>& steps);

  std::string file_;
  const ImportOptions& wanted_;
  Notes& notes_;
  kineto::Records records_;
  std::int64_t device_ = 0;
  kineto::Nanoseconds origin_{};
  std::unordered_map<std::uint64_t, std::uint32_t> call_of_;  // by correlation; index into Records::calls
  const kineto::Step* window_ = nullptr;
  bool by_repetition_ = false;  // the steps are
  Time think_time_{};
  std::optional<Rhythm> rhythm_;
};

}  // namespace corun
