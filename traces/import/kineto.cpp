#include "traces/import/kineto.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "traces/import/host_gaps.h"
#include "traces/import/graph_branches.h"
#include "traces/import/join_counters.h"
#include "traces/import/kineto_records.h"
#include "traces/import/median.h"
#include "traces/import/nsight_compute.h"
#include "traces/import/profiled_kernel.h"
#include "traces/import/repetition.h"
#include "traces/json/gpu_document.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::Records;
using kineto::Shape;
using kineto::Step;
using kineto::StreamKey;
using kineto::SyncEvent;

// Where the GPU is not known: between what an H200 and a V100 take.
constexpr Time kAssumedLaunchCall = std::chrono::microseconds{3};
constexpr Time kAssumedLaunchLatency = std::chrono::microseconds{5};
constexpr Nanoseconds kLongestRecording = std::chrono::hours{24 * 30};

/// One call of the host on the way to an Op.  `op` is null for a synchronization.
struct Item {
  const GpuOp* op = nullptr;
  std::optional<std::uint64_t> call;  // correlation of the recorded call; several operations share a graph's
  std::uint32_t stream = 0;
  Time call_start{}, call_end{};
  Time gpu_start{};
  std::vector<std::uint32_t> after;  // items
  bool beside = false;               // it ran beside an operation of another stream
  Time gpu_end() const { return gpu_start + op->duration; }
};

/// Of calls, which are no longer than a recording and may overlap.
Time add_up(Time sum, Time call) { return std::min<Time>(sum + call, kLongestRecording); }

std::string trace_name(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view suffix : {".gz", ".json", ".sqlite", ".trace", ".pt", ".kernels"}) {
      if (!name.ends_with(suffix) || name.size() == suffix.size()) continue;
      name.resize(name.size() - suffix.size());
      cut = true;
    }
  }
  return name;
}

/// "NVIDIA A100-SXM4-80GB" -> A100, SXM4, 80GB
std::vector<std::string> product_words(std::string_view product) {
  std::vector<std::string> words(1);
  for (const char c : product) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    } else {
      words.emplace_back();
    }
  }
  std::erase_if(words, [](const std::string& w) {
    return w.empty() || w == "NVIDIA" || w == "TESLA" || w == "GEFORCE" || w == "AMD" || w == "RADEON" || w == "INSTINCT";
  });
  return words;
}

/// The description of the same model and number of SMs; empty if there is none.  Memory size and board may
/// differ.
std::string find_gpu(const kineto::Device& device) {
  if (const std::string same = corun::find_gpu(device.name);
      !same.empty() && (device.sms == 0 || read_gpu(same).sms == device.sms))
    return same;
  const std::vector<std::string> words = product_words(device.name);
  std::string best;
  std::ptrdiff_t most_common = 0;
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = read_gpu(name);
    const std::vector<std::string> wanted = product_words(gpu.product);
    const auto has = [&](const std::string& w) {
      return std::find(words.begin(), words.end(), w) != words.end();
    };
    if (device.sms != gpu.sms || wanted.empty() || !has(wanted.front())) continue;
    const std::ptrdiff_t common = std::count_if(wanted.begin(), wanted.end(), has);
    if (common <= most_common) continue;
    best = name;
    most_common = common;
  }
  return best;
}

std::string count(std::size_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

std::string launch_text(const std::string& name, Dim3 grid, Dim3 block) {
  return fmt::format("{} <<<({}, {}, {}), ({}, {}, {})>>>", in_quotes(name), grid.x, grid.y, grid.z, block.x,
                     block.y, block.z);
}

class Import {
 public:
  Import(const std::filesystem::path& file, Records records, const ImportOptions& options, const char* tool)
      : file_(file),
        counters_(options.counters),
        tool_(tool),
        wanted_(options),
        host_time_(options.host_time),
        recorded_sms_(options.sms),
        records_(std::move(records)) {
    if (!counters_.empty()) profile_ = read_nsight_compute(counters_);
    choose_device();
    choose_origin();
    choose_gpu(options.gpu);
    settle_shapes();
    join_calls();
  }

  Trace run() {
    trace_.name = wanted_.name.empty() ? trace_name(file_) : wanted_.name;
    choose_window();
    collect_items();
    if (any_call_) {
      order_items();
    } else {
      note(
          fmt::format("No launch calls: host gaps are chosen so that kernels start as recorded (which holds "
                      "the profiler's own cost), "
                      "with calls of {:.1f} us and a latency of {:.1f} us; how far the host ran ahead of a "
                      "busy GPU is not known.",
                      to_ns(launch_call_) / 1e3, to_ns(launch_latency_) / 1e3));
      order_items();
      delay_calls();
    }
    add_event_waits();
    order_graph_branches();
    find_concurrent();
    write_program();
    note_gaps();
    return std::move(trace_);
  }

  RecordedTimes times() { return std::move(times_); }

 private:
  void note(std::string text) { trace_.notes.push_back(std::move(text)); }

  Time at(Nanoseconds absolute) const { return absolute - origin_; }

  bool kept(const GpuOp& op) const { return op.stream.device == device_; }

  // --- what is imported ---

  void choose_device() {
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
      throw InputError(file_.string(), "--device", fmt::format("no kernels of device {}", device_),
                       fmt::format("its kernels are of {}", fmt::join(ids, ", ")));
    }
    if (kernels.size() > 1)
      note(fmt::format("Only device {} is imported; the other {} and their traffic are missing.", device_,
                       count(kernels.size() - 1, "device", "devices")));
    std::vector<bool> without(records_.ops.size());
    for (const std::uint32_t i : records_.shapeless) without[i] = true;
    records_.shapeless.clear();
    std::size_t mine = 0;
    for (std::size_t i = 0; i < records_.ops.size(); ++i) {
      if (!kept(records_.ops[i])) continue;
      if (without[i]) records_.shapeless.push_back(static_cast<std::uint32_t>(mine));
      records_.ops[mine++] = records_.ops[i];
    }
    records_.ops.resize(mine);
  }

  [[noreturn]] void refuse_no_kernels() const {
    if (!records_.any_events)
      throw InputError(file_.string(), "", "it is no recording of a profiler: it has no events",
                       "give the file that export_chrome_trace wrote, or a trace (traces/FORMAT.md)");
    if (std::any_of(records_.calls.begin(), records_.calls.end(),
                    [](const Call& c) { return c.kind == Call::Kind::launch; }))
      throw InputError(file_.string(), "", "there are launch calls, but no GPU kernels in it",
                       "the tool saw the host only: another profiler may have held the GPU's counters (CUPTI), or "
                       "the recording ended before the GPU had");
    throw InputError(
        file_.string(), "", "there are no GPU kernels in it, and no calls that launch any",
        "record a program that uses an NVIDIA or AMD GPU, with "
        "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])");
  }

  /// AMD's tools record no shapes of kernels in graphs, and some grids in work-items.
  void settle_shapes() {
    if (records_.shapes_of_calls != 0)
      note(fmt::format("{} no launch shape: taken from the launch call.",
                       count(records_.shapes_of_calls, "kernel record has", "kernel records have")));
    if (records_.shapes_of_names != 0)
      note(fmt::format("{} neither a launch shape nor a call that says it: taken as most kernels of the same name.",
                       count(records_.shapes_of_names, "kernel record has", "kernel records have")));
    if (records_.work_items != 0)
      note(fmt::format("{} grids counted in work-items (hipExtModuleLaunchKernel): divided by the block.",
                       count(records_.work_items, "launch has", "launches have")));
    if (records_.shapeless.empty()) return;
    const GpuOp& first = records_.ops[records_.shapeless.front()];
    if (!wanted_.assume_shapes)
      throw InputError(
          file_.string(), "",
          fmt::format("{} no launch shape, nor has any other of their name, as {}: so it is where the tool records "
                      "launches of a HIP graph",
                      count(records_.shapeless.size(), "kernel record has", "kernel records have"),
                      in_quotes(records_.shapes[first.shape].name)),
          "record the program without graphs; or import with --assume-shapes, which takes one block of 256 threads an "
          "SM, so that these kernels slow others by a guess");
    const std::uint32_t sms = trace_.gpu.empty() ? 100 : read_gpu(trace_.gpu).sms;
    note(fmt::format("{} no launch shape: {} blocks of 256 threads are assumed, as asked; how much they slow others, "
                     "and are slowed, is a guess.",
                     count(records_.shapeless.size(), "kernel record has", "kernel records have"), sms));
    for (const std::uint32_t i : records_.shapeless) {
      Shape& shape = records_.shapes[records_.ops[i].shape];
      shape.grid = {sms, 1, 1}, shape.block = {256, 1, 1};
    }
  }

  void choose_origin() {
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
      throw InputError(file_.string(), "", "its events are more than 30 days apart",
                       "`ts` and `dur` are microseconds: check the tool that wrote the file");
    origin_ = first;
  }

  void choose_gpu(const std::string& gpu) {
    auto recorded = std::find_if(records_.devices.begin(), records_.devices.end(),
                                 [&](const kineto::Device& d) { return d.id == device_; });
    // Kernels may count devices otherwise than the list of devices does.
    if (recorded == records_.devices.end() && !records_.devices.empty() &&
        std::all_of(records_.devices.begin(), records_.devices.end(), [&](const kineto::Device& d) {
          return d.name == records_.devices.front().name && d.sms == records_.devices.front().sms;
        })) {
      recorded = records_.devices.begin();
      note(fmt::format("Its kernels are of device {}, which is not in its list: taken as \"{}\", like all there.",
                       device_, recorded->name));
    }
    const bool known = recorded != records_.devices.end();
    const std::uint32_t sms = known && recorded->sms != 0 ? recorded->sms : records_.implied_sms;
    trace_.gpu = !gpu.empty() ? gpu : known ? find_gpu(*recorded) : "";
    if (trace_.gpu.empty()) {
      std::string had = "no device properties";
      if (known) had = fmt::format("\"{}\" without a description here", recorded->name);
      if (sms != 0) had += fmt::format(", {} SMs", sms);
      note(fmt::format(
          "The GPU is not known ({}): pass --gpu with a name from `sim gpus` or a description's path; launch "
          "calls of {:.0f} us and a latency of {:.0f} us are assumed.",
          had, to_ns(kAssumedLaunchCall) / 1e3, to_ns(kAssumedLaunchLatency) / 1e3));
      return;
    }
    const Gpu description = read_gpu(trace_.gpu);
    const bool same = known && product_words(recorded->name) == product_words(description.product);
    if (gpu.empty() && !same)
      note(fmt::format("\"{}\" is simulated as {}: its clocks and memory may differ.", recorded->name,
                       description.product));
    launch_call_ = description.launch_call;
    launch_latency_ = description.launch_latency;
    if (recorded_sms_ != 0) {
      if (recorded_sms_ > description.sms)
        throw InputError(file_.string(), "--sms",
                         fmt::format("{} SMs are more than the {} that {} has", recorded_sms_,
                                     description.sms, trace_.gpu),
                         "give the SMs of the program's part of the GPU, or leave the option out");
    } else if (same && sms != 0 && sms < description.sms) {
      recorded_sms_ = sms, mps_kernel_ = description.mps_kernel;
      note(fmt::format("Recorded on {} of the GPU's {} SMs, so under MPS: {:.2f} us that it adds to a kernel are "
                       "taken off; libraries may have chosen other kernels than on the whole GPU.",
                       sms, description.sms, to_ns(mps_kernel_) / 1e3));
    } else if (sms != 0 && sms != description.sms)
      note(fmt::format("Recorded on a GPU of {} SMs, {} has {}: times stay those of the recording GPU.", sms,
                       trace_.gpu, description.sms));
  }

  void join_calls() {
    for (std::uint32_t i = 0; i < records_.calls.size(); ++i) {
      const auto [it, added] = call_of_.try_emplace(records_.calls[i].correlation, i);
      // A runtime call and the driver call inside it may share the number: the outer one counts.
      if (!added && records_.calls[i].start < records_.calls[it->second].start) it->second = i;
    }
  }

  const Call* call_of(const std::optional<std::uint64_t>& correlation) const {
    if (!correlation) return nullptr;
    const auto it = call_of_.find(*correlation);
    return it == call_of_.end() ? nullptr : &records_.calls[it->second];
  }

  Nanoseconds issued(const GpuOp& op) const {
    const Call* call = call_of(op.correlation);
    return call != nullptr ? call->start : op.start;
  }

  struct Candidate {
    const Step* step;
    std::size_t kernels = 0;
  };

  /// What lies between requests, in the order of time.
  void choose_think_time(const std::vector<Candidate>& requests) {
    std::vector<Nanoseconds> between;
    for (std::size_t i = 1; i < requests.size(); ++i)
      between.push_back(std::max(Nanoseconds{}, requests[i].step->start - requests[i - 1].step->start - requests[i - 1].step->duration));
    if (between.empty()) return;
    const Nanoseconds median = lower_median(std::move(between));
    think_time_ = median;
    constexpr Nanoseconds kWorthANote = std::chrono::microseconds{100};
    if (median >= kWorthANote)
      note(fmt::format("Between requests lie {:.3f} ms (median): the client waits that long before its next (think_time). If others "
                       "send its requests, give it arrivals of its own, as rate= of sim compare --client does.",
                       static_cast<double>(median.count()) / 1e6));
  }

  /// One step is one request; without steps everything is.
  void choose_window() {
    std::vector<Candidate> candidates;
    if (wanted_.repeats && wanted_.range.empty() && records_.steps.empty()) {
      Repetition found = find_repetition(records_);
      if (!found.steps.empty()) {
        note(fmt::format("No marks of requests: a request is what repeats, {} of the host, {} times.",
                         count(found.launches, "launch", "launches"), found.steps.size()));
        if (found.between_is_work)
          note(fmt::format("Between two of them the host took {:.3f} ms (lower quartile), taken as its work for the next.",
                           static_cast<double>(found.between.count()) / 1e6));
        records_.unrecorded_request = unrecorded_round(records_, found);
      }
      records_.steps = std::move(found.steps);
    }
    for (const Step& step : records_.steps) candidates.push_back({&step, 0});
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.step->start < b.step->start; });
    for (const GpuOp& op : records_.ops) {
      if (op.kind != GpuOp::Kind::kernel) continue;
      auto it = std::upper_bound(candidates.begin(), candidates.end(), issued(op),
                                 [](Nanoseconds t, const Candidate& c) { return t < c.step->start; });
      if (it == candidates.begin()) continue;
      --it;
      if (issued(op) < it->step->start + it->step->duration) ++it->kernels;
    }
    std::erase_if(candidates, [](const Candidate& c) { return c.kernels == 0; });
    if (wanted_.repeats && !candidates.empty()) choose_think_time(candidates);
    if (candidates.empty()) {
      if (!wanted_.range.empty() || wanted_.step)
        throw InputError(file_.string(), wanted_.range.empty() ? "--step" : "--range",
                         records_.steps.empty() ? "there are no such marks in it" : "no kernel was issued within one",
                         "leave the option out: the whole recording is then one request");
      if (!records_.unrecorded_calls.empty())
        throw InputError(file_.string(), "", "no request was found in it, and kernels were recorded in stretches of the run only",
                         "record all of it: sim capture --all; or mark requests with NVTX ranges");
      note(records_.steps.empty()
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
      std::sort(in_order.begin(), in_order.end(), [](const Step* a, const Step* b) { return a->start < b->start; });
      if (*wanted_.step >= in_order.size())
        throw InputError(file_.string(), "--step", fmt::format("there is no step {}", *wanted_.step),
                         fmt::format("it has {} with kernels, counted from 0",
                                     count(in_order.size(), "step", "steps")));
      window_ = in_order[*wanted_.step];
      note(fmt::format("The request is {}, number {} of {}, as asked; what is outside of it is dropped.", window_->name,
                       *wanted_.step, count(in_order.size(), "step", "steps")));
      return;
    }
    const auto ms = [](const Candidate& c) { return static_cast<double>(c.step->duration.count()) / 1e6; };
    note(fmt::format(
        "The request is {} ({:.3f} ms), the median of {} ({:.3f} to {:.3f} ms); what is outside of it is "
        "dropped.",
        window_->name, static_cast<double>(window_->duration.count()) / 1e6,
        count(candidates.size(), "step", "steps"), ms(candidates.front()), ms(candidates.back())));
  }

  bool in_window(Nanoseconds t) const {
    return window_ == nullptr || (window_->start <= t && t < window_->start + window_->duration);
  }

  // --- the order of the host's calls ---

  void collect_items() {
    std::vector<const GpuOp*> ops;
    for (const GpuOp& op : records_.ops)
      if (in_window(issued(op))) ops.push_back(&op);
    std::stable_sort(ops.begin(), ops.end(),
                     [](const GpuOp* a, const GpuOp* b) { return a->start < b->start; });

    by_start_ = ops;
    for (const GpuOp* op : ops) issue_times_.push_back(issued(*op));
    std::sort(issue_times_.begin(), issue_times_.end());
    std::map<StreamKey, Time> last_call;
    for (const GpuOp* op : ops) {
      Item item;
      item.op = op;
      item.gpu_start = at(op->start);
      if (const Call* call = call_of(op->correlation)) {
        any_call_ = true;
        item.call = call->correlation;
        item.call_start = at(call->start);
        item.call_end = at(call->start + call->duration);
        if (is_long(*call)) {  // what it takes beyond an ordinary call is the host's own time
          if (long_calls_.insert(call->correlation).second) times_.long_calls = add_up(times_.long_calls, call->duration);
          item.call_end = item.call_start + launch_call_;
        }
      } else {
        ++ops_without_call_;
        item.call_start = item.gpu_start - launch_latency_;
        item.call_end = item.call_start + launch_call_;
      }
      // A stream runs in order, so it was also fed in order, whatever the clocks of host and GPU say.
      const auto [last, first] = last_call.try_emplace(op->stream, item.call_start);
      if (!first) item.call_start = last->second = std::max(last->second, item.call_start);
      item.call_end = std::max(item.call_end, item.call_start);
      items_.push_back(item);
    }
    collect_synchronizations();
  }

  /// A call that loads code, allocates or stages data, and does not wait for the GPU.  A full queue makes calls long
  /// too, in a replay as well.
  bool is_long(const Call& call) const {
    constexpr Nanoseconds kLong = std::chrono::microseconds{100};
    constexpr std::size_t kFullQueue = 900;
    if (call.duration < kLong || (call.kind != Call::Kind::launch && call.kind != Call::Kind::copy)) return false;
    // Operations that were issued before it and had not started when it began.
    const auto by_start = [](const GpuOp* op, Nanoseconds t) { return op->start < t; };
    const auto begun = std::lower_bound(by_start_.begin(), by_start_.end(), call.start, by_start) - by_start_.begin();
    const auto issued_before =
        std::lower_bound(issue_times_.begin(), issue_times_.end(), call.start) - issue_times_.begin();
    return issued_before - begun < static_cast<std::ptrdiff_t>(kFullQueue);
  }

  void collect_synchronizations() {
    const auto add = [&](Time start, Time end) {
      Item item;
      item.call_start = item.gpu_start = start;
      item.call_end = end;
      items_.push_back(item);
    };
    for (const Call& call : records_.calls) {
      if (!in_window(call.start)) continue;
      if (call.kind == Call::Kind::synchronize) add(at(call.start), at(call.start + call.duration));
    }
    std::set<std::uint64_t> waited;
    for (std::size_t i = 0, n = items_.size(); i < n; ++i) {
      const Call* call = items_[i].op == nullptr ? nullptr : call_of(items_[i].op->correlation);
      if (call == nullptr || !host_waited(*call, *items_[i].op) || !waited.insert(call->correlation).second)
        continue;
      add(items_[i].call_start, at(call->start + call->duration));
      items_[i].call_end = items_[i].call_start;
    }
    for (const SyncEvent& sync : records_.syncs)
      if (!sync.event_wait && call_of(sync.correlation) == nullptr && in_window(sync.start))
        add(at(sync.start), at(sync.start + sync.duration));
  }

  /// A copy from or to pageable memory returns once it is through, whatever its name says.
  static bool host_waited(const Call& call, const GpuOp& op) {
    if (call.kind == Call::Kind::copy_and_wait) return true;
    return call.kind == Call::Kind::copy && op.pageable && call.start + call.duration >= op.start + op.duration;
  }

  void order_items() {
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      if (a.call_start != b.call_start) return a.call_start < b.call_start;
      if ((a.op == nullptr) != (b.op == nullptr)) return b.op == nullptr;
      return a.gpu_start < b.gpu_start;
    });
    // A synchronization with nothing to wait for only takes host time, which is in the gaps anyway.
    bool outstanding = false;
    std::erase_if(items_, [&](const Item& item) {
      const bool idle = item.op == nullptr && !outstanding;
      outstanding = item.op != nullptr;
      return idle;
    });

    std::map<StreamKey, std::uint32_t> indices;
    for (Item& item : items_) {
      if (item.op == nullptr) continue;
      const auto [it, added] =
          indices.try_emplace(item.op->stream, static_cast<std::uint32_t>(streams_.size()));
      if (added) streams_.push_back(item.op->stream);
      item.stream = it->second;
    }
  }

  /// Without recorded calls: the latest ones that let every operation start when it did.  Two starts closer
  /// than a call takes mean that the host had run ahead, so the calls before them move to earlier times.
  void delay_calls() {
    for (std::size_t i = items_.size(); i-- > 0;) {
      Item& item = items_[i];
      if (item.op == nullptr) continue;
      if (i + 1 < items_.size())
        item.call_start = std::min(item.call_start, items_[i + 1].call_start - launch_call_);
      item.call_end = item.call_start + launch_call_;
    }
  }

  /// cudaStreamWaitEvent: the next operation of the waiting stream comes after the last one that the other
  /// stream had been given when the event was recorded.
  void add_event_waits() {
    std::vector<std::vector<std::uint32_t>> of_stream(streams_.size());
    for (std::uint32_t i = 0; i < items_.size(); ++i)
      if (items_[i].op != nullptr) of_stream[items_[i].stream].push_back(i);
    const auto stream_index = [&](std::int64_t context, std::int64_t stream) -> std::optional<std::uint32_t> {
      const auto it = std::find(streams_.begin(), streams_.end(), StreamKey{device_, context, stream});
      if (it == streams_.end()) return std::nullopt;
      return static_cast<std::uint32_t>(it - streams_.begin());
    };

    std::vector<const SyncEvent*> waits;
    std::set<std::uint64_t> explained;
    for (const SyncEvent& sync : records_.syncs) {
      if (!sync.event_wait) continue;
      if (sync.correlation) explained.insert(*sync.correlation);
      waits.push_back(&sync);
    }
    std::size_t unknown = 0;
    for (const Call& call : records_.calls)
      if (call.kind == Call::Kind::event_wait && in_window(call.start) &&
          !explained.contains(call.correlation))
        ++unknown;

    const auto wait_time = [&](const SyncEvent& wait) {
      const Call* call = call_of(wait.correlation);
      return at(call != nullptr ? call->start : wait.start);
    };
    std::stable_sort(waits.begin(), waits.end(),
                     [&](const SyncEvent* a, const SyncEvent* b) { return wait_time(*a) < wait_time(*b); });

    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
        waited;  // (from, to) -> latest item waited for
    for (const SyncEvent* wait : waits) {
      if (!wait->wait_on_stream) {
        if (in_window(origin_ + std::chrono::duration_cast<Nanoseconds>(wait_time(*wait)))) ++unknown;
        continue;
      }
      const auto from = stream_index(wait->stream.context, *wait->wait_on_stream);
      const auto to = stream_index(wait->stream.context, wait->stream.stream);
      if (!from || !to || from == to) continue;
      const Call* record = call_of(wait->record_correlation);
      const Time recorded = record != nullptr ? at(record->start) : wait_time(*wait);
      const auto& sources = of_stream[*from];
      const auto& targets = of_stream[*to];
      const auto source = std::upper_bound(sources.begin(), sources.end(), recorded,
                                           [&](Time t, std::uint32_t i) { return t < items_[i].call_start; });
      const auto target = std::lower_bound(targets.begin(), targets.end(), wait_time(*wait),
                                           [&](std::uint32_t i, Time t) { return items_[i].call_start < t; });
      if (source == sources.begin() || target == targets.end() || *std::prev(source) > *target) continue;
      const auto [latest, first] = waited.try_emplace({*from, *to}, *std::prev(source));
      if (!first) {
        if (*std::prev(source) <= latest->second) continue;  // an earlier wait of this stream covers it
        latest->second = *std::prev(source);
      }
      items_[*target].after.push_back(*std::prev(source));
    }
    if (unknown != 0)
      note(
          fmt::format("{} not say for which stream: these orders between streams are missing{}.",
                      count(unknown, "event wait does", "event waits do"),
                      std::string_view(tool_) == "Kineto"
                          ? "; record with _ExperimentalConfig(enable_cuda_sync_events=True)"
                          : ""));
  }

  bool of_graph(const Item& item) const {
    const Call* call = item.op == nullptr ? nullptr : call_of(item.call);
    return call != nullptr && call->kind == Call::Kind::graph_launch;
  }

  void order_graph_branches() {
    for (std::uint32_t begin = 0, end = 0; begin < items_.size(); begin = end) {
      end = begin + 1;
      if (!of_graph(items_[begin])) continue;
      while (end < items_.size() && items_[end].op != nullptr && items_[end].call == items_[begin].call) ++end;
      std::vector<GraphNode> nodes;
      for (std::uint32_t i = begin; i < end; ++i) nodes.push_back({items_[i].stream, items_[i].gpu_start, items_[i].gpu_end()});
      const auto after = order_of_branches(nodes);
      for (std::uint32_t i = begin; i < end; ++i)
        for (const std::uint32_t node : after[i - begin]) items_[i].after.push_back(begin + node);
    }
  }

  void find_concurrent() {
    std::vector<Item*> in_order;
    for (Item& item : items_)
      if (item.op != nullptr) in_order.push_back(&item);
    std::stable_sort(in_order.begin(), in_order.end(), [](const Item* a, const Item* b) { return a->gpu_start < b->gpu_start; });
    std::vector<Item*> last(streams_.size());  // of each stream, the one that ends last so far
    for (Item* item : in_order) {
      for (Item* other : last)
        if (other != nullptr && other->stream != item->stream && other->gpu_end() > item->gpu_start)
          other->beside = item->beside = true;
      Item*& own = last[item->stream];
      if (own == nullptr || own->gpu_end() < item->gpu_end()) own = item;
    }
  }

  // --- the trace ---

  std::string stream_name(const StreamKey& key) const {
    const bool one_context = std::all_of(streams_.begin(), streams_.end(), [&](const StreamKey& other) {
      return other.context == streams_[0].context;
    });
    return one_context ? fmt::format("{}", key.stream) : fmt::format("{}/{}", key.context, key.stream);
  }

  void write_program() {
    Program program;
    program.name = trace_.name;
    for (const StreamKey& key : streams_) program.streams.push_back({stream_name(key)});
    write_kernels();

    std::set<std::uint32_t> named;
    for (const Item& item : items_) named.insert(item.after.begin(), item.after.end());
    std::optional<std::uint64_t> last_call;
    Time in_calls{};
    const bool whole = one_graph();
    std::uint32_t graphs = 0;
    Time free = window_ != nullptr ? at(window_->start) : items_.front().call_start;
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      Op op;
      if (item.op == nullptr) {
        op.what = Sync{};
      } else if (item.op->kind == GpuOp::Kind::kernel) {
        op.what = write_launch(*item.op);
      } else {
        op.what = Copy{item.op->direction, item.op->bytes};
      }
      op.stream = StreamId{item.stream};
      const bool new_call = !item.call || item.call != last_call;
      if (new_call) op.host_gap = std::max(Time{}, item.call_start - free);
      if (new_call && item.op != nullptr) in_calls = add_up(in_calls, std::max(Time{}, item.call_end - item.call_start - launch_call_));
      if (!whole && of_graph(item)) op.graph = new_call ? ++graphs : graphs;
      last_call = item.op == nullptr ? std::nullopt : item.call;
      free = std::max(free, item.call_end);
      for (const std::uint32_t source : item.after) op.after.push_back(OpId{source});
      if (named.contains(i)) op.name = fmt::format("op{}", i);
      program.ops.push_back(std::move(op));
    }
    times_.in_calls = {in_calls};
    if (whole) program.issue = Issue::graph;
    // Of a range: what the host does after its last wait, as reading a result.
    if (const Time rest = window_ == nullptr ? Time{} : at(window_->start + window_->duration) - free;
        wanted_.repeats && program.issue != Issue::graph && items_.back().op == nullptr && rest >= std::chrono::microseconds{1}) {
      Op op;
      op.what = Sync{}, op.host_gap = rest;
      program.ops.push_back(std::move(op));
    }
    if (host_time_) shrink_host_gaps(program);

    Client client;
    client.name = "main";
    client.process = "main";
    client.program = ProgramId{0};
    client.streams.resize(program.streams.size());
    client.arrivals = ClosedLoop{think_time_};
    trace_.clients.push_back(std::move(client));
    trace_.programs.push_back(std::move(program));
  }

  /// Of what the profiler adds only that within launch calls is known; the rest is spread over the gaps.
  void shrink_host_gaps(Program& program) {
    const auto refuse = [&](const std::string& problem, const char* remedy) {
      throw InputError(file_.string(), "--host-time", problem, remedy);
    };
    if (!any_call_)
      refuse("there are no launch calls in it, so what the host did is not known",
             "record with ProfilerActivity.CPU too, or leave the option out");
    if (program.issue == Issue::graph)
      refuse("the request is one launch of a CUDA graph, which has no host gaps", "leave the option out");
    Time gaps{}, calls{};
    std::size_t issued = 0;
    for (const Op& op : program.ops) {
      gaps += op.host_gap;
      if (!std::holds_alternative<Sync>(op.what)) calls += launch_call_, ++issued;
    }
    if (*host_time_ < calls)
      refuse(fmt::format("{:.3f} ms are less than its {} take the host, {:.3f} ms", to_ms(*host_time_),
                         count(issued, "call", "calls"), to_ms(calls)),
             "give the time in which the host issues the whole request");
    if (gaps + calls <= *host_time_) {
      note(
          fmt::format("The host took {:.3f} ms in the recording, no longer than the {:.3f} ms it was said to "
                      "take without the profiler: its gaps are as recorded.",
                      to_ms(gaps + calls), to_ms(*host_time_)));
      return;
    }
    const double share =
        static_cast<double>((*host_time_ - calls).count()) / static_cast<double>(gaps.count());
    scale_host_gaps(program, share);
    host_as_told_ = true;
    note(fmt::format(
        "Host gaps are {:.3f} of the recorded ones: so the host takes {:.3f} ms for a request, as "
        "it was said to without the profiler, instead of {:.3f}.",
        share, to_ms(*host_time_), to_ms(gaps + calls)));
  }

  Time solo_time(const GpuOp& op) const {
    const Time lasted = std::max<Time>(op.duration, Nanoseconds{1});
    return std::max(lasted / 2, lasted - mps_kernel_);
  }

  /// The launches in the order of the host's calls, and what Nsight Compute saw of each.
  void join_profile() {
    for (const Item& item : items_) {
      if (item.op == nullptr || item.op->kind != GpuOp::Kind::kernel) continue;
      const Shape& shape = records_.shapes[item.op->shape];
      recorded_.push_back({shape.name, shape.grid, shape.block, shape.registers_per_thread,
                           solo_time(*item.op), item.op->shape});
    }
    join_.matches.resize(recorded_.size());
    kernel_of_launch_.resize(recorded_.size());
    if (counters_.empty()) return;
    join_ = join_counters(recorded_, profile_.launches);
    refuse_no_match();
    take_times_alone();
    kernel_of_launch_ = split_by_behaviour(recorded_, join_.matches);
  }

  /// What ran beside others took longer for that: there Nsight Compute's time, which sees each launch alone, counts, if it is less.
  void take_times_alone() {
    std::size_t i = 0;
    for (const Item& item : items_) {
      if (item.op == nullptr || item.op->kind != GpuOp::Kind::kernel) continue;
      const ProfiledLaunch* seen = join_.matches[i].launch;
      RecordedLaunch& launch = recorded_[i++];
      if (!item.beside || seen == nullptr || !seen->counters.duration_ns) continue;
      ++known_alone_;
      const Time alone = from_ns(*seen->counters.duration_ns / std::max(1.0, join_.duration_ratio.value_or(1)));
      launch.duration = std::min(launch.duration, std::max(alone, Time{1}));
    }
  }

  void refuse_no_match() const {
    if (recorded_.empty() || join_.count(CountersJoin::How::none) != recorded_.size()) return;
    const ProfiledLaunch& first = profile_.launches.front();
    throw InputError(
        counters_.string(), fmt::format("line {}", first.line),
        fmt::format("none of its {} is of a function, grid and block in {}: the first here is {}, the first "
                    "there {}",
                    count(profile_.launches.size(), "profiled launch", "profiled launches"), file_.string(),
                    launch_text(first.kernel, first.grid, first.block),
                    launch_text(recorded_.front().name, recorded_.front().grid, recorded_.front().block)),
        "profile the program that was recorded, with the same inputs");
  }

  void write_kernels() {
    join_profile();
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> indices;
    std::vector<std::vector<std::size_t>> launches;  // of each kernel
    for (std::size_t i = 0; i < recorded_.size(); ++i) {
      const auto [at, added] =
          indices.try_emplace({recorded_[i].shape, kernel_of_launch_[i]}, launches.size());
      if (added) launches.emplace_back();
      launches[at->second].push_back(i);
      kernel_of_launch_[i] = static_cast<std::uint32_t>(at->second);
    }
    std::set<std::string> names;
    for (const std::vector<std::size_t>& of_kernel : launches) {
      const Shape& shape = records_.shapes[recorded_[of_kernel.front()].shape];
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
      kernel.solo_time_sms = recorded_sms_;
      ProfiledFacts known = take_over(profiled, shape.registers_per_thread.has_value(), kernel);
      if (shape.cluster && !known.cluster) kernel.cluster = *shape.cluster, known.cluster = true;
      kernels_without_registers_ += known.registers ? 0 : 1;
      kernels_without_cluster_ += known.cluster ? 0 : 1;
      if (shape.static_shared_memory_bytes && !known.shared_memory) {
        kernel.static_shared_memory_bytes = *shape.static_shared_memory_bytes;
        kernel.dynamic_shared_memory_bytes = shape.shared_memory_bytes - *shape.static_shared_memory_bytes;
      } else {
        any_shared_memory_ |= !known.shared_memory;
      }
      trace_.kernels.push_back(std::move(kernel));
    }
  }

  Launch write_launch(const GpuOp& op) {
    Launch launch;
    launch.kernel = KernelId{kernel_of_launch_[launches_]};
    const Time alone = recorded_[launches_].duration;
    if (trace_.kernels[launch.kernel.value].solo_time != alone) launch.solo_time = alone;
    ++launches_;
    kernel_time_ += solo_time(op);
    return launch;
  }

  bool one_graph() const {
    const Call* call = call_of(items_.front().call);
    return call != nullptr && call->kind == Call::Kind::graph_launch &&
           std::all_of(items_.begin(), items_.end(),
                       [&](const Item& i) { return i.op == nullptr || i.call == call->correlation; }) &&
           std::all_of(items_.begin(), std::prev(items_.end()),
                       [](const Item& i) { return i.op != nullptr; });
  }

  // --- what was missing and what it costs ---

  void note_gaps() {
    Time first = kNever, last{};
    for (const Item& item : items_) {
      if (item.op == nullptr) continue;
      first = std::min(first, item.gpu_start);
      last = std::max(last, item.gpu_start + item.op->duration);
    }
    trace_.about = fmt::format("Imported from {} ({}): {} of {}, {:.3f} ms of kernels within {:.3f} ms.",
                               file_.filename().string(), tool_, count(launches_, "launch", "launches"),
                               count(trace_.kernels.size(), "kernel", "kernels"), to_ms(kernel_time_),
                               to_ms(last - first));
    const Time begin = window_ != nullptr ? at(window_->start) : items_.front().call_start;
    if (window_ != nullptr) times_.request = window_->name;
    times_.span = std::max(last, first) - begin;
    times_.kernels = kernel_time_;
    for (const Item& item : items_)
      times_.ops.push_back(item.op == nullptr ? RecordedTimes::Interval{}
                                              : RecordedTimes::Interval{item.gpu_start - begin,
                                                                        item.gpu_start + item.op->duration - begin});
    note_without_records();
    note_host();
    note_long_calls();
    note_copies();
    note_concurrency();
    if (any_shared_memory_)
      note(
          "Static and dynamic shared memory are recorded as one sum and stored as dynamic: no effect on the "
          "simulation.");
    if (kernels_without_registers_ != 0)
      note(fmt::format(
          "{} without a register count: 32 a thread are assumed, so more blocks may fit an SM than in truth.",
          count(kernels_without_registers_, "kernel", "kernels")));
    note_profile();
    note("No times of single blocks: all blocks of a kernel are taken as equal, which flatters uneven ones.");
  }

  void note_without_records() {
    if (!records_.unrecorded_request) return;
    std::set<std::uint64_t> calls;
    std::int64_t nodes = 0;
    for (const Item& item : items_) {
      if (item.op == nullptr || !item.call) continue;
      calls.insert(*item.call);
      nodes += of_graph(item) ? 1 : 0;
    }
    times_.without_profiler = {WithoutProfiler{*records_.unrecorded_request, static_cast<std::int64_t>(calls.size()) * records_.added_to_call,
                                               nodes * records_.added_to_node}};
    times_.told_by = "its stretches in which no kernels were recorded";
  }

  void note_profile() {
    const char* without =
        "what kernels take from each other's memory and issue slots is guessed from their shape.";
    if (counters_.empty()) {
      note(fmt::format("No hardware counters: {}", without));
    } else {
      for (std::string& text : profile_notes(join_, profile_, counters_.filename().string()))
        note(std::move(text));
      if (const std::size_t none = join_.count(CountersJoin::How::none); none != 0)
        note(fmt::format("{} no hardware counters: there {}", count(none, "launch has", "launches have"),
                         without));
    }
    if (kernels_without_cluster_ == trace_.kernels.size())
      note(
          "No cluster dimensions: every block is placed by itself, which flatters kernels that use "
          "clusters.");
    else if (kernels_without_cluster_ != 0)
      note(fmt::format("{} no cluster dimensions: their blocks are placed each by itself.",
                       count(kernels_without_cluster_, "kernel has", "kernels have")));
  }

  void note_host() {
    if (!any_call_) return;
    std::vector<Nanoseconds> durations;
    std::set<std::uint32_t> threads;
    std::set<std::uint64_t> seen;
    for (const Item& item : items_) {
      const Call* call = call_of(item.call);
      if (call == nullptr || !seen.insert(call->correlation).second) continue;
      threads.insert(call->thread);
      if (call->kind == Call::Kind::launch) durations.push_back(call->duration);
    }
    if (!durations.empty() && !host_as_told_) {
      note(fmt::format(
          "Host gaps hold the profiler's own cost; a launch call was recorded with {:.1f} us (median) and is "
          "replayed with {:.1f} us, so the host is a little off.",
          static_cast<double>(lower_median(std::move(durations)).count()) / 1e3, to_ns(launch_call_) / 1e3));
    }
    if (threads.size() > 1)
      note(fmt::format("{} host threads issued work: their calls are replayed by one, in the same order.",
                       threads.size()));
    if (ops_without_call_ != 0)
      note(fmt::format("{} without a launch call: {:.1f} us before the start is assumed.",
                       count(ops_without_call_, "GPU operation", "GPU operations"),
                       to_ns(launch_latency_) / 1e3));
  }

  void note_long_calls() {
    times_.long_call_count = long_calls_.size();
    if (times_.long_call_count != 0)
      note(fmt::format("{} over 0.1 ms, {:.1f} ms in all, as when code is loaded in a cold start: kept as time of the "
                       "host. Record after a warm-up if requests are not like that.",
                       count(times_.long_call_count, "call took", "calls took"), to_ms(times_.long_calls)));
  }

  void note_copies() {
    std::size_t copies = 0, memsets = 0, pageable = 0, peer = 0;
    for (const Item& item : items_) {
      if (item.op == nullptr) continue;
      copies += item.op->kind == GpuOp::Kind::copy ? 1 : 0;
      memsets += item.op->kind == GpuOp::Kind::memset ? 1 : 0;
      pageable += item.op->pageable ? 1 : 0;
      peer += item.op->peer ? 1 : 0;
    }
    if (copies == 0) note("No copies recorded: if the inputs are copied to the GPU, that time is missing.");
    if (pageable != 0)
      note(fmt::format("{} pageable memory: replayed at the rate of pinned memory, so too fast.",
                       count(pageable, "copy uses", "copies use")));
    if (peer != 0)
      note(fmt::format("{} between devices: replayed within one device, so too fast.",
                       count(peer, "copy was", "copies were")));
    if (memsets != 0)
      note(fmt::format("{} replayed as device-to-device copies: a little too slow.",
                       count(memsets, "memset is", "memsets are")));
    if (records_.skipped_copies != 0)
      note(fmt::format("{} of no bytes or within the host left out.",
                       count(records_.skipped_copies, "copy", "copies")));
  }

  void note_concurrency() {
    std::size_t syncs = 0, beside = 0, within = 0;
    std::vector<const Item*> kernels;
    for (const Item& item : items_) {
      syncs += item.op == nullptr ? 1 : 0;
      if (item.op == nullptr || item.op->kind != GpuOp::Kind::kernel) continue;
      beside += item.beside ? 1 : 0;
      kernels.push_back(&item);
    }
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const Item* a, const Item* b) { return a->gpu_start < b->gpu_start; });
    std::vector<Time> busy(streams_.size(), Time::min());
    for (const Item* item : kernels) {
      within += busy[item->stream] > item->gpu_start ? 1 : 0;
      busy[item->stream] = std::max(busy[item->stream], item->gpu_end());
    }
    if (syncs != 0 && streams_.size() > 1)
      note(
          "A synchronization waits for all streams, also where it was with one stream or event: the host may "
          "be late.");
    if (beside > known_alone_)
      note(fmt::format("{} beside another stream's: that time is taken as its time alone, so too long{}.",
                       count(beside - known_alone_, "kernel launch ran", "kernel launches ran"),
                       counters_.empty() ? "; counters of Nsight Compute tell it" : ""));
    if (known_alone_ != 0)
      note(fmt::format("{} beside another stream's: what Nsight Compute saw of {} alone is taken where it is less.",
                       count(known_alone_, "kernel launch ran", "kernel launches ran"), known_alone_ == 1 ? "it" : "them"));
    if (within != 0)
      note(fmt::format(
          "{} before its stream's previous one had ended (graph branches or dependent launches): they are "
          "replayed one after the other, so too slowly.",
          count(within, "kernel launch started", "kernel launches started")));
    std::set<std::int64_t> contexts;
    for (const StreamKey& key : streams_) contexts.insert(key.context);
    if (contexts.size() > 1)
      note(fmt::format("{} contexts are replayed as one: time slices between them are missing.",
                       contexts.size()));
  }

  std::filesystem::path file_, counters_;
  const char* tool_;
  const ImportOptions& wanted_;
  std::optional<Time> host_time_;
  std::uint32_t recorded_sms_;  // a part of the GPU's; 0: all
  Time mps_kernel_{};           // what MPS added to each kernel
  bool host_as_told_ = false;
  ProfiledLaunches profile_;
  Records records_;
  RecordedTimes times_;
  Trace trace_;
  std::int64_t device_ = 0;
  Nanoseconds origin_{};
  Time launch_call_ = kAssumedLaunchCall, launch_latency_ = kAssumedLaunchLatency;
  std::unordered_map<std::uint64_t, std::uint32_t> call_of_;  // by correlation; index into Records::calls
  const Step* window_ = nullptr;
  Time think_time_{};
  std::vector<Item> items_;
  std::vector<const GpuOp*> by_start_;
  std::vector<Nanoseconds> issue_times_;  // ascending
  std::set<std::uint64_t> long_calls_;    // correlations
  std::vector<StreamKey> streams_;
  std::vector<RecordedLaunch> recorded_;
  CountersJoin join_;
  std::vector<std::uint32_t> kernel_of_launch_;  // of its shape's, later of all
  bool any_call_ = false, any_shared_memory_ = false;
  std::size_t known_alone_ = 0;  // launches beside others of which the profile has the time
  std::size_t ops_without_call_ = 0, kernels_without_registers_ = 0, kernels_without_cluster_ = 0,
              launches_ = 0;
  Time kernel_time_{};
};

}  // namespace

Trace import_records(const std::filesystem::path& file, Records records, const ImportOptions& options,
                     const char* tool, RecordedTimes* recorded) {
  Import import(file, std::move(records), options, tool);
  Trace trace = import.run();
  if (recorded != nullptr) *recorded = import.times();
  return trace;
}

Trace import_kineto(const std::filesystem::path& file, const ImportOptions& options, RecordedTimes* recorded) {
  Records records = kineto::read_records(file, options.range);
  const std::map<std::string, Nanoseconds> times = std::move(records.request_times);
  Trace trace = import_records(file, std::move(records), options, "Kineto", recorded);
  auto of = times.find(options.range.empty() ? "ProfilerStep" : options.range);
  if (of == times.end()) of = times.find("");
  if (of != times.end() && recorded != nullptr) recorded->without_profiler = {WithoutProfiler{of->second}}, recorded->told_by = "corun_request_time_us";
  return trace;
}

Trace import_kineto(const std::filesystem::path& file, const std::string& gpu,
                    const std::filesystem::path& counters, std::optional<Time> host_time,
                    std::uint32_t sms) {
  ImportOptions options;
  options.gpu = gpu, options.counters = counters, options.host_time = host_time, options.sms = sms;
  return import_kineto(file, options);
}

bool looks_like_kineto(const std::filesystem::path& file) { return kineto::looks_like_records(file); }

}  // namespace corun
