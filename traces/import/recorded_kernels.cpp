#include "traces/import/recorded_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "traces/import/median.h"
#include "traces/import/profiled_kernel.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {

using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::Shape;

namespace {

std::string launch_text(const std::string& name, Dim3 grid, Dim3 block) {
  return fmt::format("{} <<<({}, {}, {}), ({}, {}, {})>>>", in_quotes(name), grid.x, grid.y, grid.z, block.x,
                     block.y, block.z);
}

}  // namespace

RecordedKernels::RecordedKernels(const DeviceRecords& device, const RecordedGpu& gpu, const HostOrder& order,
                                 const std::filesystem::path& counters, const std::string& file)
    : device_(device), gpu_(gpu), counters_(counters) {
  if (!counters_.empty()) profile_ = read_nsight_compute(counters_);
  join_profile(order, file);
  write_kernels();
}

Time RecordedKernels::recorded_time(const HostItem& item) const {
  const Time lasted = std::max<Time>(item.op->duration, Nanoseconds{1});
  return std::max(std::max(lasted / 2, lasted - gpu_.mps_kernel) - item.early, Time{1});
}

void RecordedKernels::join_profile(const HostOrder& order, const std::string& file) {
  for (const HostItem& item : order.items()) {
    if (!item.is_kernel()) continue;
    const Shape& shape = device_.shape(*item.op);
    items_.push_back(&item);
    recorded_.push_back({shape.name, shape.grid, shape.block, shape.registers_per_thread, recorded_time(item),
                         item.op->shape, item.beside});
  }
  join_.matches.resize(recorded_.size());
  kernel_of_launch_.resize(recorded_.size());
  if (!counters_.empty()) {
    join_ = join_counters(recorded_, profile_.launches);
    refuse_no_match(file);
    take_times_alone();
  }
  take_times_of_same_kernel();
  if (!counters_.empty()) kernel_of_launch_ = split_by_behaviour(recorded_, join_.matches);
}

std::optional<double> RecordedKernels::profiled_ns(std::size_t launch) const {
  const ProfiledLaunch* seen = join_.matches[launch].launch;
  return seen == nullptr ? std::nullopt : seen->counters.duration_ns;
}

/// What Nsight Compute adds, as cold caches, is about as much for a short kernel as for a long one.  So the
/// ratio of the totals counts, which is that of long kernels; the median is that of the many short ones.
double RecordedKernels::profile_over_recorded() const {
  double profiled = 0, recorded = 0;
  for (std::size_t i = 0; i < recorded_.size(); ++i)
    if (const auto ns = profiled_ns(i); ns && !recorded_[i].beside)
      profiled += *ns, recorded += to_ns(recorded_[i].duration);
  return recorded > 0 ? profiled / recorded : join_.duration_ratio.value_or(1);
}

void RecordedKernels::take_times_alone() {
  const double ratio = std::max(1.0, profile_over_recorded());
  for (std::size_t i = 0; i < recorded_.size(); ++i) {
    RecordedLaunch& launch = recorded_[i];
    const auto ns = profiled_ns(i);
    if (!ns || !launch.beside) continue;
    ++known_alone_;
    launch.duration = std::min(launch.duration, std::max(from_ns(*ns / ratio), Time{1}));
  }
}

void RecordedKernels::take_times_of_same_kernel() {
  struct Times {
    std::vector<Time> alone;
    Time least_beside = Time::max();
  };
  std::map<std::uint32_t, Times> of_shape;
  for (const RecordedLaunch& launch : recorded_) {
    Times& times = of_shape[launch.shape];
    if (launch.beside)
      times.least_beside = std::min(times.least_beside, launch.duration);
    else
      times.alone.push_back(launch.duration);
  }
  for (auto& [shape, times] : of_shape) {
    if (times.alone.empty()) times.alone.push_back(times.least_beside);
    std::ranges::sort(times.alone);
  }
  for (std::size_t i = 0; i < recorded_.size(); ++i) {
    RecordedLaunch& launch = recorded_[i];
    if (!launch.beside || profiled_ns(i)) continue;
    // The longest that are no longer, and those that do as much.
    const std::vector<Time>& times = of_shape.at(launch.shape).alone;
    const auto end = std::ranges::upper_bound(times, launch.duration);
    if (end == times.begin()) continue;
    const auto begin = std::ranges::lower_bound(times, *std::prev(end) / 5 * 4);
    const Time usual = *(begin + (end - begin - 1) / 2);
    const bool as_usual = launch.duration - usual < usual / 10;  // launches differ by that anyway
    const HostItem& item = *items_[i];
    if (as_usual || usual < item.by_itself || usual * (1 + item.others) < launch.duration) continue;
    ++known_by_same_;
    launch.duration = usual;
  }
}

void RecordedKernels::refuse_no_match(const std::string& file) const {
  if (recorded_.empty() || join_.count(CountersJoin::How::none) != recorded_.size()) return;
  const ProfiledLaunch& first = profile_.launches.front();
  throw InputError(
      counters_.string(), fmt::format("line {}", first.line),
      fmt::format("none of its {} is of a function, grid and block in {}: the first here is {}, the first "
                  "there {}",
                  counted(profile_.launches.size(), "profiled launch", "profiled launches"), file,
                  launch_text(first.kernel, first.grid, first.block),
                  launch_text(recorded_.front().name, recorded_.front().grid, recorded_.front().block)),
      "profile the program that was recorded, with the same inputs");
}

void RecordedKernels::write_kernels() {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> indices;
  std::vector<std::vector<std::size_t>> launches;  // of each kernel
  for (std::size_t i = 0; i < recorded_.size(); ++i) {
    const auto [at, added] = indices.try_emplace({recorded_[i].shape, kernel_of_launch_[i]}, launches.size());
    if (added) launches.emplace_back();
    launches[at->second].push_back(i);
    kernel_of_launch_[i] = static_cast<std::uint32_t>(at->second);
  }
  std::set<std::string> names;
  for (const std::vector<std::size_t>& of_kernel : launches) {
    const Shape& shape = device_.records().shapes[recorded_[of_kernel.front()].shape];
    Kernel kernel;
    std::string name = shape.name;
    std::erase(name, '\0');  // where C's strings end, also those that check a trace
    if (name.empty()) name = "kernel without a name";
    kernel.name = name;
    for (int n = 2; !names.insert(kernel.name).second; ++n) kernel.name = fmt::format("{} #{}", name, n);
    kernel.grid = shape.grid;
    kernel.block = shape.block;
    kernel.registers_per_thread = shape.registers_per_thread.value_or(32);
    kernel.dynamic_shared_memory_bytes = shape.shared_memory_bytes;
    std::vector<Time> times;
    std::vector<const ProfiledLaunch*> profiled;
    for (const std::size_t i : of_kernel) {
      times.push_back(recorded_[i].duration);
      if (join_.matches[i].launch != nullptr) profiled.push_back(join_.matches[i].launch);
    }
    kernel.solo_time = lower_median(std::move(times));
    kernel.solo_time_sms = gpu_.sms;
    ProfiledFacts known = take_over(profiled, shape.registers_per_thread.has_value(), kernel);
    if (std::ranges::all_of(profiled, &ProfiledLaunch::cut)) launches_without_counters_ += of_kernel.size();
    if (shape.cluster && !known.cluster) kernel.cluster = *shape.cluster, known.cluster = true;
    without_registers_ += known.registers ? 0 : 1;
    without_cluster_ += known.cluster ? 0 : 1;
    if (shape.static_shared_memory_bytes && !known.shared_memory) {
      kernel.static_shared_memory_bytes = *shape.static_shared_memory_bytes;
      kernel.dynamic_shared_memory_bytes = shape.shared_memory_bytes - *shape.static_shared_memory_bytes;
    } else {
      any_shared_memory_ |= !known.shared_memory;
    }
    kernels_.push_back(std::move(kernel));
  }
}

Launch RecordedKernels::next_launch() {
  const HostItem& item = *items_[launches_];
  Launch launch;
  launch.kernel = KernelId{kernel_of_launch_[launches_]};
  const Time alone = recorded_[launches_].duration;
  if (kernels_[launch.kernel.value].solo_time != alone) launch.solo_time = alone;
  launch.dependent = item.early > Time{};
  kernel_time_ += recorded_time(item);
  ++launches_;
  return launch;
}

}  // namespace corun
