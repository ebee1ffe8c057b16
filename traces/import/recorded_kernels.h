// The kernels of a request: launches of one shape, told apart where Nsight Compute's counters or their
// durations say that they do different things.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/host_order.h"
#include "traces/import/join_counters.h"
#include "traces/import/nsight_compute.h"
#include "traces/model/kernel.h"
#include "traces/model/trace.h"

namespace corun {

class RecordedKernels {
 public:
  /// `counters`: a file of Nsight Compute; empty: none.  `file`: the recording, as errors name it.  The
  /// references outlive the object.  Throws InputError where no launch is in both.
  RecordedKernels(const DeviceRecords& device, const RecordedGpu& gpu, const HostOrder& order,
                  const std::filesystem::path& counters, const std::string& file);

  const std::vector<Kernel>& kernels() const { return kernels_; }
  /// In the order of the host's calls, each once.
  Launch next_launch();
  std::size_t launches() const { return launches_; }  // that were taken
  Time kernel_time() const { return kernel_time_; }   // of these, in all

  const CountersJoin& join() const { return join_; }
  const ProfiledLaunches& profile() const { return profile_; }
  std::size_t known_alone() const {
    return known_alone_;
  }  // launches beside others of which the profile has the time
  std::size_t known_by_same() const { return known_by_same_; }  // of which others of the same kernel ran alone
  std::size_t launches_without_counters() const { return launches_without_counters_; }
  std::size_t without_registers() const { return without_registers_; }  // kernels
  std::size_t without_cluster() const { return without_cluster_; }
  bool any_shared_memory() const {
    return any_shared_memory_;
  }  // of which static and dynamic are not told apart

 private:
  /// Without what MPS added, and without what ran before its stream's previous kernel had ended.
  Time recorded_time(const HostItem& item) const;
  /// The launches in the order of the host's calls, and what Nsight Compute saw of each.
  void join_profile(const HostOrder& order, const std::string& file);
  /// What ran beside others took longer for that: there Nsight Compute's time, which sees each launch alone,
  /// counts, if it is less.
  void take_times_alone();
  /// Where Nsight Compute saw none: what launches of the same kernel took that ran alone, if that can be; where
  /// none did, the shortest of those beside others.  While others were there a launch made some progress or
  /// none, so it takes no less than its time without them; and each of n others held it up for no longer than
  /// the launch takes alone, else it does more than those that it is compared with.
  void take_times_of_same_kernel();
  /// Of launches that ran alone in both.
  double profile_over_recorded() const;
  std::optional<double> profiled_ns(std::size_t launch) const;
  void refuse_no_match(const std::string& file) const;
  void write_kernels();

  const DeviceRecords& device_;
  const RecordedGpu& gpu_;
  std::filesystem::path counters_;
  ProfiledLaunches profile_;
  std::vector<RecordedLaunch> recorded_;
  std::vector<const HostItem*> items_;  // of these
  CountersJoin join_;
  std::vector<std::uint32_t> kernel_of_launch_;  // of its shape's, later of all
  std::vector<Kernel> kernels_;
  std::size_t known_alone_ = 0, known_by_same_ = 0, without_registers_ = 0, without_cluster_ = 0, launches_ = 0;
  std::size_t launches_without_counters_ = 0;
  bool any_shared_memory_ = false;
  Time kernel_time_{};
};

}  // namespace corun
