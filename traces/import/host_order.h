// The operations of a request in the order in which the host issues them: with the calls that did it, what
// waits for what, and what ran beside others on the GPU.  Leaves out several host threads: their calls become
// those of one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/import/device_records.h"
#include "traces/import/recorded_gpu.h"

namespace corun {

/// One call of the host on the way to an Op.  `op` is null for a synchronization.  A call that waits for nothing and launches no graph
/// is as long as a replay's, and where in the recorded one it is tells `HostOrder::place`.
struct HostItem {
  const kineto::GpuOp* op = nullptr;
  std::optional<std::uint64_t> call;  // correlation of the recorded call; several operations share a graph's
  std::uint32_t stream = 0;
  Time call_start{}, call_end{};
  Time gpu_start{};
  std::vector<std::uint32_t> after;  // items
  bool beside = false;               // it ran beside an operation of another stream
  std::uint32_t others = 0;          // operations that were on the GPU while it was
  Time by_itself{};                  // of its time there, without them
  Time early{};  // of a kernel, from its start to the end of its stream's previous one, if it ended later
  Time gpu_end() const { return gpu_start + op->duration; }
  bool is_kernel() const { return op != nullptr && op->kind == kineto::GpuOp::Kind::kernel; }
};

class HostOrder {
 public:
  /// Of the device's window.  The references outlive the object.  `tool`: as notes call it.
  HostOrder(const DeviceRecords& device, const RecordedGpu& gpu, std::string_view tool, Notes& notes);

  const std::vector<HostItem>& items() const { return items_; }  // in the order of their calls
  const std::vector<kineto::StreamKey>& streams() const { return streams_; }
  Time begins() const { return begins_; }  // the first recorded call
  bool any_call() const { return any_call_; }
  std::size_t ops_without_call() const { return ops_without_call_; }
  /// That took over 0.1 ms and did not wait for the GPU.
  std::size_t long_calls() const { return long_calls_.size(); }
  Time long_call_time() const { return long_call_time_; }
  /// Left out, as one host replays all threads.
  std::size_t waits_of_others() const { return waits_of_others_; }
  bool of_graph(const HostItem& item) const;
  /// One launch of a graph is all there is, but for waits behind it.
  bool one_graph() const;

 private:
  void collect_items();
  void place(HostItem& item, const kineto::Call& call);
  /// True if the queue was full at the call, so that it waits for room, in a replay as well.
  bool into_full_queue(const kineto::Call& call) const;
  /// The one that issues most.
  void find_main_thread();
  /// True if the main thread issued work during the wait, so that it held another.
  bool of_other_thread(const kineto::Call& wait) const;
  void collect_synchronizations();
  void order_items();
  /// Without recorded calls: the latest ones that let every operation start when it did.  Two starts closer
  /// than a call takes mean that the host had run ahead, so the calls before them move to earlier times.
  void delay_calls();
  /// cudaStreamWaitEvent: the next operation of the waiting stream comes after the last one that the other
  /// stream had been given when the event was recorded.
  void add_event_waits();
  void order_graph_branches();
  void find_concurrent();
  void find_times_by_itself();

  const DeviceRecords& device_;
  const RecordedGpu& gpu_;
  std::string_view tool_;
  Notes& notes_;
  std::vector<HostItem> items_;
  std::vector<kineto::StreamKey> streams_;
  std::vector<const kineto::GpuOp*> by_start_;
  std::vector<kineto::Nanoseconds> issue_times_;  // ascending
  std::uint32_t main_thread_ = 0;
  std::vector<kineto::Nanoseconds> main_calls_;  // that issue work, ascending
  std::size_t waits_of_others_ = 0;
  std::set<std::uint64_t> long_calls_;            // correlations
  std::unordered_map<std::uint64_t, Time> placed_;  // when a replay begins a call, by correlation
  std::map<kineto::StreamKey, kineto::Nanoseconds> idle_from_;  // by stream: the end of what was collected of it
  Time begins_ = kNever;
  Time long_call_time_{};
  std::size_t ops_without_call_ = 0;
  bool any_call_ = false;
};

}  // namespace corun
