#include "traces/import/device_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "traces/import/median.h"
#include "traces/import/repetition.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::Shape;
using kineto::Step;
using kineto::SyncEvent;

DeviceRecords::DeviceRecords(std::string file, kineto::Records records, const ImportOptions& wanted,
                             Notes& notes)
    : file_(std::move(file)), wanted_(wanted), notes_(notes), records_(std::move(records)) {
  choose_device();
  choose_origin();
  join_calls();
}

void DeviceRecords::choose_device() {
  std::map<std::int64_t, std::size_t> kernels;
  for (const GpuOp& op : records_.ops)
    if (op.kind == GpuOp::Kind::kernel) ++kernels[op.stream.device];
  if (kernels.empty()) refuse_no_kernels();
  const auto most = std::max_element(kernels.begin(), kernels.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  device_ = wanted_.device.value_or(most->first);
  if (!kernels.contains(device_)) {
    std::vector<std::string> ids;
    for (const auto& [id, n] : kernels) ids.push_back(fmt::format("{}", id));
    throw InputError(file_, "--device", fmt::format("no kernels of device {}", device_),
                     fmt::format("its kernels are of {}", fmt::join(ids, ", ")));
  }
  if (kernels.size() > 1)
    notes_.push_back(fmt::format("Only device {} is imported; the other {} and their traffic are missing.",
                                 device_, counted(kernels.size() - 1, "device", "devices")));
  std::vector<bool> without(records_.ops.size());
  for (const std::uint32_t i : records_.shapeless) without[i] = true;
  records_.shapeless.clear();
  std::size_t mine = 0;
  for (std::size_t i = 0; i < records_.ops.size(); ++i) {
    if (records_.ops[i].stream.device != device_) continue;
    if (without[i]) records_.shapeless.push_back(static_cast<std::uint32_t>(mine));
    records_.ops[mine++] = records_.ops[i];
  }
  records_.ops.resize(mine);
}

void DeviceRecords::refuse_no_kernels() const {
  if (records_.by_legacy_profiler)
    throw InputError(file_, "", "it is of PyTorch's legacy profiler (torch.autograd.profiler), which records operators and no kernels",
                     "record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])");
  if (!records_.any_events)
    throw InputError(file_, "", "it is no recording of a profiler: it has no events",
                     "give the file that export_chrome_trace wrote, or a trace (traces/FORMAT.md)");
  if (std::any_of(records_.calls.begin(), records_.calls.end(),
                  [](const Call& c) { return c.kind == Call::Kind::launch; }))
    throw InputError(
        file_, "", "there are launch calls, but no GPU kernels in it",
        "the tool saw the host only: another profiler may have held the GPU's counters (CUPTI), or "
        "the recording ended before the GPU had");
  if (!records_.xla_device.empty())
    throw InputError(file_, "", fmt::format("it is of XLA's profiler, without a GPU: what it has is of {}", in_quotes(records_.xla_device)),
                     "run the program where jax.devices() names an NVIDIA or AMD GPU");
  throw InputError(file_, "", "there are no GPU kernels in it, and no calls that launch any",
                   "record a program that uses an NVIDIA or AMD GPU, with "
                   "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])");
}

void DeviceRecords::settle_shapes(std::uint32_t sms) {
  if (records_.shapes_of_calls != 0)
    notes_.push_back(
        fmt::format("{} no launch shape: taken from the launch call.",
                    counted(records_.shapes_of_calls, "kernel record has", "kernel records have")));
  if (records_.shapes_of_names != 0)
    notes_.push_back(fmt::format(
        "{} neither a launch shape nor a call that says it: taken as most kernels of the same name.",
        counted(records_.shapes_of_names, "kernel record has", "kernel records have")));
  if (records_.work_items != 0)
    notes_.push_back(
        fmt::format("{} grids counted in work-items (hipExtModuleLaunchKernel): divided by the block.",
                    counted(records_.work_items, "launch has", "launches have")));
  if (records_.shapeless.empty()) return;
  const GpuOp& first = records_.ops[records_.shapeless.front()];
  if (!wanted_.assume_shapes)
    throw InputError(
        file_, "",
        fmt::format(
            "{} no launch shape, nor has any other of their name, as {}: so it is where the tool records "
            "launches of a HIP graph",
            counted(records_.shapeless.size(), "kernel record has", "kernel records have"),
            in_quotes(records_.shapes[first.shape].name)),
        "record the program without graphs; or import with --assume-shapes, which takes one block of 256 "
        "threads an "
        "SM, so that these kernels slow others by a guess");
  notes_.push_back(fmt::format(
      "{} no launch shape: {} blocks of 256 threads are assumed, as asked; how much they slow others, "
      "and are slowed, is a guess.",
      counted(records_.shapeless.size(), "kernel record has", "kernel records have"), sms));
  for (const std::uint32_t i : records_.shapeless) {
    Shape& shape = records_.shapes[records_.ops[i].shape];
    shape.grid = {sms, 1, 1}, shape.block = {256, 1, 1};
  }
}

void DeviceRecords::choose_origin() {
  Nanoseconds first = Nanoseconds::max(), last = Nanoseconds::min();
  const auto cover = [&](Nanoseconds start, Nanoseconds duration) {
    first = std::min(first, start);
    last = std::max(last, std::max(start, start + std::min(duration, kLongestRecording)));
    if (duration > kLongestRecording) last = Nanoseconds::max();
  };
  for (const GpuOp& op : records_.ops) cover(op.start, op.duration);
  for (const Call& call : records_.calls) cover(call.start, call.duration);
  for (const SyncEvent& sync : records_.syncs) cover(sync.start, sync.duration);
  for (const Step& step : records_.steps) cover(step.start, step.duration);
  if (static_cast<double>(last.count()) - static_cast<double>(first.count()) >
      static_cast<double>(kLongestRecording.count()))
    throw InputError(file_, "", "its events are more than 30 days apart",
                     "`ts` and `dur` are microseconds: check the tool that wrote the file");
  origin_ = first;
}

void DeviceRecords::join_calls() {
  for (std::uint32_t i = 0; i < records_.calls.size(); ++i) {
    const auto [it, added] = call_of_.try_emplace(records_.calls[i].correlation, i);
    // A runtime call and the driver call inside it may share the number: the outer one counts.
    if (!added && records_.calls[i].start < records_.calls[it->second].start) it->second = i;
  }
  // The kind of memory is unknown: pinned memory is left to the GPU, and the call returns at once.
  for (GpuOp& op : records_.ops)
    if (const Call* call = op.memory_unknown ? call_of(op.correlation) : nullptr)
      op.pageable = call->start + call->duration > op.start + op.duration / 2;
}

const Call* DeviceRecords::call_of(const std::optional<std::uint64_t>& correlation) const {
  if (!correlation) return nullptr;
  const auto it = call_of_.find(*correlation);
  return it == call_of_.end() ? nullptr : &records_.calls[it->second];
}

Nanoseconds DeviceRecords::issued(const GpuOp& op) const {
  const Call* call = call_of(op.correlation);
  return call != nullptr ? call->start : op.start;
}

void DeviceRecords::choose_think_time(const std::vector<Candidate>& requests) {
  std::vector<Nanoseconds> between;
  for (std::size_t i = 1; i < requests.size(); ++i)
    between.push_back(std::max(Nanoseconds{}, requests[i].step->start - requests[i - 1].step->start -
                                                  requests[i - 1].step->duration));
  if (between.empty()) return;
  const Nanoseconds median = lower_median(std::move(between));
  think_time_ = median;
  constexpr Nanoseconds kWorthANote = std::chrono::microseconds{100};
  if (median >= kWorthANote)
    notes_.push_back(
        fmt::format("Between requests lie {:.3f} ms (median): the client waits that long before its next "
                    "(think_time). If others "
                    "send its requests, give it arrivals of its own, as rate= of sim compare --client does.",
                    static_cast<double>(median.count()) / 1e6));
}

void DeviceRecords::find_rhythm(const std::vector<Candidate>& steps) {
  constexpr std::size_t kSteps = 3;
  constexpr std::uint32_t kMostInFlight = 64;  // of a closed loop (traces/schema)
  constexpr std::int64_t kPause = 20;  // a twentieth of the period: a loop goes on at once
  if (steps.size() < kSteps) return;
  std::vector<Nanoseconds> periods, pauses;
  std::vector<std::uint32_t> under_way;  // when a step begins
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const Nanoseconds begins = steps[i].step->start;
    periods.push_back(begins - steps[i - 1].step->start);
    pauses.push_back(begins - steps[i - 1].step->start - steps[i - 1].step->duration);
    std::uint32_t& n = under_way.emplace_back(0);
    for (std::size_t before = i; before-- > 0 && steps[before].over > begins;) ++n;
  }
  Rhythm rhythm{lower_median(std::move(periods)), 1 + std::min(lower_median(std::move(under_way)), kMostInFlight - 1)};
  if (kPause * lower_median(std::move(pauses)) > rhythm.period) return;
  if (rhythm.in_flight > 1)
    notes_.push_back(fmt::format(
        "A step begins every {:.3f} ms (median), while {} before it {} under way on the GPU: {} requests are in flight.",
        to_ms(rhythm.period), counted(rhythm.in_flight - 1, "step", "steps"), rhythm.in_flight == 2 ? "is" : "are", rhythm.in_flight));
  rhythm_ = rhythm;
}

void DeviceRecords::choose_window() {
  std::vector<Candidate> candidates;
  if (wanted_.repeats && wanted_.range.empty() && records_.steps.empty()) {
    Repetition found = find_repetition(records_);
    if (!found.steps.empty()) {
      notes_.push_back(
          fmt::format("No marks of requests: a request is what repeats, {} of the host, {} times.",
                      counted(found.launches, "launch", "launches"), found.steps.size()));
      if (found.between_is_work)
        notes_.push_back(fmt::format(
            "Between two of them the host took {:.3f} ms (lower quartile), taken as its work for the next.",
            static_cast<double>(found.between.count()) / 1e6));
      if (const auto round = unrecorded_round(records_, found))
        records_.unrecorded_request = round->median, records_.untraced = round->untraced;
    }
    records_.steps = std::move(found.steps), by_repetition_ = true;
  }
  for (const Step& step : records_.steps) candidates.push_back({&step, 0, step.start});
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.step->start < b.step->start; });
  for (const GpuOp& op : records_.ops) {
    auto it = std::upper_bound(candidates.begin(), candidates.end(), issued(op),
                               [](Nanoseconds t, const Candidate& c) { return t < c.step->start; });
    if (it == candidates.begin()) continue;
    --it;
    if (issued(op) >= it->step->start + it->step->duration) continue;
    it->kernels += op.kind == GpuOp::Kind::kernel ? 1 : 0;
    it->over = std::max(it->over, op.start + op.duration);
  }
  std::erase_if(candidates, [](const Candidate& c) { return c.kernels == 0; });
  if (wanted_.repeats && !candidates.empty()) choose_think_time(candidates);
  if (!wanted_.repeats) find_rhythm(candidates);
  if (candidates.empty()) {
    if (!wanted_.range.empty() || wanted_.step)
      throw InputError(
          file_, wanted_.range.empty() ? "--step" : "--range",
          records_.steps.empty() ? "there are no such marks in it" : "no kernel was issued within one",
          "leave the option out: the whole recording is then one request");
    if (records_.in_segments)
      throw InputError(file_, "",
                       "no request was found in it, and kernels were recorded in segments of the run only",
                       "record all of it: sim capture --all; or mark requests with NVTX ranges");
    notes_.push_back(records_.steps.empty()
                         ? "No ProfilerStep marks: the whole recording is one request."
                         : "No kernel was issued within a ProfilerStep: the whole recording is one request.");
    return;
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.step->duration < b.step->duration;
  });
  window_ = candidates[(candidates.size() - 1) / 2].step;
  if (wanted_.step) {
    std::vector<const Step*> in_order;
    for (const Candidate& c : candidates) in_order.push_back(c.step);
    std::sort(in_order.begin(), in_order.end(),
              [](const Step* a, const Step* b) { return a->start < b->start; });
    if (*wanted_.step >= in_order.size())
      throw InputError(
          file_, "--step", fmt::format("there is no step {}", *wanted_.step),
          fmt::format("it has {} with kernels, counted from 0", counted(in_order.size(), "step", "steps")));
    window_ = in_order[*wanted_.step];
    notes_.push_back(
        fmt::format("The request is {}, number {} of {}, as asked; what is outside of it is dropped.",
                    window_->name, *wanted_.step, counted(in_order.size(), "step", "steps")));
    return;
  }
  const auto ms = [](const Candidate& c) { return static_cast<double>(c.step->duration.count()) / 1e6; };
  notes_.push_back(fmt::format(
      "The request is {} ({:.3f} ms), the median of {} ({:.3f} to {:.3f} ms); what is outside of it is "
      "dropped.",
      window_->name, static_cast<double>(window_->duration.count()) / 1e6,
      counted(candidates.size(), "step", "steps"), ms(candidates.front()), ms(candidates.back())));
}

}  // namespace corun
