#include "traces/import/host_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "traces/import/graph_branches.h"

namespace corun {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::StreamKey;
using kineto::SyncEvent;

namespace {

/// A copy from or to pageable memory returns once it is through, whatever its name says, or a little before: to the device it goes
/// through two buffers in turn, and when the last one is filled another may be on its way.
bool host_waited(const Call& call, const GpuOp& op) {
  if (call.kind == Call::Kind::copy_and_wait) return true;
  return call.kind == Call::Kind::copy && op.pageable && call.start + call.duration > op.start + op.duration / 2;
}

/// Of calls, which are no longer than a recording and may overlap.
Time add_up(Time sum, Time call) { return std::min<Time>(sum + call, kLongestRecording); }

}  // namespace

HostOrder::HostOrder(const DeviceRecords& device, const RecordedGpu& gpu, std::string_view tool, Notes& notes)
    : device_(device), gpu_(gpu), tool_(tool), notes_(notes) {
  collect_items();
  order_items();
  if (!any_call_) {
    notes_.push_back(
        fmt::format("No launch calls: host gaps are chosen so that kernels start as recorded (which holds "
                    "the profiler's own cost), "
                    "with calls of {:.1f} us and a latency of {:.1f} us; how far the host ran ahead of a "
                    "busy GPU is not known.",
                    to_ns(gpu_.launch_call) / 1e3, to_ns(gpu_.launch_latency) / 1e3));
    delay_calls();
  }
  add_event_waits();
  order_graph_branches();
  find_concurrent();
}

void HostOrder::collect_items() {
  std::vector<const GpuOp*> ops;
  for (const GpuOp& op : device_.records().ops)
    if (device_.in_window(device_.issued(op))) ops.push_back(&op);
  std::stable_sort(ops.begin(), ops.end(),
                   [](const GpuOp* a, const GpuOp* b) { return a->start < b->start; });

  by_start_ = ops;
  for (const GpuOp* op : ops) issue_times_.push_back(device_.issued(*op));
  std::sort(issue_times_.begin(), issue_times_.end());
  std::map<StreamKey, Time> last_call;
  for (const GpuOp* op : ops) {
    HostItem item;
    item.op = op;
    item.gpu_start = device_.at(op->start);
    if (const Call* call = device_.call_of(op->correlation)) {
      any_call_ = true;
      item.call = call->correlation;
      begins_ = std::min(begins_, device_.at(call->start));
      place(item, *call);
    } else {
      ++ops_without_call_;
      item.call_start = item.gpu_start - gpu_.launch_latency;
      item.call_end = item.call_start + gpu_.launch_call;
      begins_ = std::min(begins_, item.call_start);
    }
    const Time takes = item.call_end - item.call_start;
    // A stream runs in order, so it was also fed in order, whatever the clocks of host and GPU say.
    const auto [last, first] = last_call.try_emplace(op->stream, item.call_start);
    if (!first) item.call_start = last->second = std::max(last->second, item.call_start);
    item.call_end = item.call_start + takes;
    items_.push_back(item);
  }
  find_main_thread();
  collect_synchronizations();
}

void HostOrder::find_main_thread() {
  std::map<std::uint32_t, std::vector<Nanoseconds>> issued;
  std::set<std::uint64_t> seen;
  for (const HostItem& item : items_)
    if (const Call* call = device_.call_of(item.call); call != nullptr && seen.insert(call->correlation).second)
      issued[call->thread].push_back(call->start);
  const auto most = std::ranges::max_element(issued, {}, [](const auto& of) { return of.second.size(); });
  if (most == issued.end()) return;
  main_thread_ = most->first, main_calls_ = std::move(most->second);
  std::ranges::sort(main_calls_);
}

bool HostOrder::of_other_thread(const Call& wait) const {
  if (wait.thread == main_thread_) return false;
  const auto next = std::ranges::lower_bound(main_calls_, wait.start);
  return next != main_calls_.end() && *next < wait.start + wait.duration;
}

/// Time of a recorded call beyond a replay's is the host's own: up to when its work must have left for the GPU before it, then
/// behind it.
void HostOrder::place(HostItem& item, const Call& call) {
  constexpr Nanoseconds kLong = std::chrono::microseconds{100};
  item.call_start = device_.at(call.start);
  item.call_end = device_.at(call.start + call.duration);
  const auto [idle, none_before] = idle_from_.try_emplace(item.op->stream, Nanoseconds::min());
  const bool was_idle = none_before || idle->second <= call.start;
  idle->second = std::max(idle->second, item.op->start + item.op->duration);
  if (host_waited(call, *item.op)) {  // it stages the first of it before the copy begins
    if (was_idle) item.call_start = std::clamp(item.gpu_start - gpu_.launch_latency, item.call_start, item.call_end);
    return;
  }
  // Tracing makes a graph's launch longer by each of its nodes.
  if (call.kind == Call::Kind::graph_launch || into_full_queue(call)) return;
  const Time takes = gpu_.launch_call;
  const auto [at, first] = placed_.try_emplace(call.correlation, item.call_start);
  if (first) {
    at->second = std::max(item.call_start, std::min(item.gpu_start - gpu_.launch_latency, item.call_end - takes));
    if (call.duration >= kLong)
      long_calls_.insert(call.correlation), long_call_time_ = add_up(long_call_time_, call.duration);
  }
  item.call_start = at->second;
  item.call_end = item.call_start + takes;
}

bool HostOrder::into_full_queue(const Call& call) const {
  constexpr std::ptrdiff_t kFullQueue = 900;
  const auto by_start = [](const GpuOp* op, Nanoseconds t) { return op->start < t; };
  const auto begun = std::lower_bound(by_start_.begin(), by_start_.end(), call.start, by_start) - by_start_.begin();
  const auto issued_before = std::lower_bound(issue_times_.begin(), issue_times_.end(), call.start) - issue_times_.begin();
  return issued_before - begun >= kFullQueue;
}

void HostOrder::collect_synchronizations() {
  const auto add = [&](Time start, Time end) {
    HostItem item;
    item.call_start = item.gpu_start = start;
    item.call_end = end;
    items_.push_back(item);
  };
  for (const Call& call : device_.records().calls) {
    if (!device_.in_window(call.start)) continue;
    if (call.kind != Call::Kind::synchronize) continue;
    if (of_other_thread(call))
      ++waits_of_others_;
    else
      add(device_.at(call.start), device_.at(call.start + call.duration));
  }
  std::set<std::uint64_t> waited;
  for (std::size_t i = 0, n = items_.size(); i < n; ++i) {
    const Call* call = items_[i].op == nullptr ? nullptr : device_.call_of(items_[i].op->correlation);
    if (call == nullptr || !host_waited(*call, *items_[i].op) || !waited.insert(call->correlation).second)
      continue;
    if (of_other_thread(*call))
      ++waits_of_others_;
    else
      add(items_[i].call_start, device_.at(call->start + call->duration));
    items_[i].call_end = items_[i].call_start;
  }
  for (const SyncEvent& sync : device_.records().syncs)
    if (!sync.event_wait && device_.call_of(sync.correlation) == nullptr && device_.in_window(sync.start))
      add(device_.at(sync.start), device_.at(sync.start + sync.duration));
}

void HostOrder::order_items() {
  std::stable_sort(items_.begin(), items_.end(), [](const HostItem& a, const HostItem& b) {
    if (a.call_start != b.call_start) return a.call_start < b.call_start;
    if ((a.op == nullptr) != (b.op == nullptr)) return b.op == nullptr;
    return a.gpu_start < b.gpu_start;
  });
  // A synchronization with nothing to wait for only takes host time, which is in the gaps anyway.
  bool outstanding = false;
  std::erase_if(items_, [&](const HostItem& item) {
    const bool idle = item.op == nullptr && !outstanding;
    outstanding = item.op != nullptr;
    return idle;
  });

  std::map<StreamKey, std::uint32_t> indices;
  for (HostItem& item : items_) {
    if (item.op == nullptr) continue;
    const auto [it, added] =
        indices.try_emplace(item.op->stream, static_cast<std::uint32_t>(streams_.size()));
    if (added) streams_.push_back(item.op->stream);
    item.stream = it->second;
  }
}

void HostOrder::delay_calls() {
  for (std::size_t i = items_.size(); i-- > 0;) {
    HostItem& item = items_[i];
    if (item.op == nullptr) continue;
    if (i + 1 < items_.size())
      item.call_start = std::min(item.call_start, items_[i + 1].call_start - gpu_.launch_call);
    item.call_end = item.call_start + gpu_.launch_call;
  }
}

void HostOrder::add_event_waits() {
  std::vector<std::vector<std::uint32_t>> of_stream(streams_.size());
  for (std::uint32_t i = 0; i < items_.size(); ++i)
    if (items_[i].op != nullptr) of_stream[items_[i].stream].push_back(i);
  const auto stream_index = [&](std::int64_t context, std::int64_t stream) -> std::optional<std::uint32_t> {
    const auto it = std::find(streams_.begin(), streams_.end(), StreamKey{device_.device(), context, stream});
    if (it == streams_.end()) return std::nullopt;
    return static_cast<std::uint32_t>(it - streams_.begin());
  };

  std::vector<const SyncEvent*> waits;
  std::set<std::uint64_t> explained;
  for (const SyncEvent& sync : device_.records().syncs) {
    if (!sync.event_wait) continue;
    if (sync.correlation) explained.insert(*sync.correlation);
    waits.push_back(&sync);
  }
  std::size_t unknown = 0;
  for (const Call& call : device_.records().calls)
    if (call.kind == Call::Kind::event_wait && device_.in_window(call.start) &&
        !explained.contains(call.correlation))
      ++unknown;

  const auto wait_time = [&](const SyncEvent& wait) {
    const Call* call = device_.call_of(wait.correlation);
    return device_.at(call != nullptr ? call->start : wait.start);
  };
  std::stable_sort(waits.begin(), waits.end(),
                   [&](const SyncEvent* a, const SyncEvent* b) { return wait_time(*a) < wait_time(*b); });

  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
      waited;  // (from, to) -> latest item waited for
  for (const SyncEvent* wait : waits) {
    if (!wait->wait_on_stream) {
      if (device_.in_window(device_.absolute(wait_time(*wait)))) ++unknown;
      continue;
    }
    const auto from = stream_index(wait->stream.context, *wait->wait_on_stream);
    const auto to = stream_index(wait->stream.context, wait->stream.stream);
    if (!from || !to || from == to) continue;
    const Call* record = device_.call_of(wait->record_correlation);
    const Time recorded = record != nullptr ? device_.at(record->start) : wait_time(*wait);
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
    notes_.push_back(fmt::format(
        "{} not say for which stream: these orders between streams are missing{}.",
        counted(unknown, "event wait does", "event waits do"),
        tool_ == "Kineto" ? "; record with _ExperimentalConfig(enable_cuda_sync_events=True)" : ""));
}

bool HostOrder::of_graph(const HostItem& item) const {
  const Call* call = item.op == nullptr ? nullptr : device_.call_of(item.call);
  return call != nullptr && call->kind == Call::Kind::graph_launch;
}

void HostOrder::order_graph_branches() {
  for (std::uint32_t begin = 0, end = 0; begin < items_.size(); begin = end) {
    end = begin + 1;
    if (!of_graph(items_[begin])) continue;
    while (end < items_.size() && items_[end].op != nullptr && items_[end].call == items_[begin].call) ++end;
    std::vector<GraphNode> nodes;
    for (std::uint32_t i = begin; i < end; ++i)
      nodes.push_back({items_[i].stream, items_[i].gpu_start, items_[i].gpu_end()});
    const auto after = order_of_branches(nodes);
    for (std::uint32_t i = begin; i < end; ++i)
      for (const std::uint32_t node : after[i - begin]) items_[i].after.push_back(begin + node);
  }
}

void HostOrder::find_concurrent() {
  std::vector<HostItem*> in_order;
  for (HostItem& item : items_)
    if (item.op != nullptr && !item.op->migration) in_order.push_back(&item);
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const HostItem* a, const HostItem* b) { return a->gpu_start < b->gpu_start; });
  std::vector<HostItem*> last(streams_.size());  // of each stream, the one that ends last so far
  for (HostItem* item : in_order) {
    for (HostItem* other : last)
      if (other != nullptr && other->stream != item->stream && other->gpu_end() > item->gpu_start)
        other->beside = item->beside = true;
    HostItem*& own = last[item->stream];
    if (own != nullptr && own->is_kernel() && item->is_kernel() && own->gpu_end() < item->gpu_end())
      item->early = std::max(Time{}, own->gpu_end() - item->gpu_start);
    if (own == nullptr || own->gpu_end() < item->gpu_end()) own = item;
  }
  find_times_by_itself();
}

void HostOrder::find_times_by_itself() {
  struct Edge {
    Time at{};
    bool starts = false;
    std::uint32_t item = 0;
  };
  std::vector<Edge> edges;
  for (std::uint32_t i = 0; i < items_.size(); ++i)
    if (const HostItem& item = items_[i]; item.op != nullptr && !item.op->migration && item.op->duration > Time{})
      edges.insert(edges.end(), {{item.gpu_start, true, i}, {item.gpu_end(), false, i}});
  std::ranges::sort(edges, {}, [](const Edge& e) { return std::tuple(e.at, e.starts, e.item); });
  std::vector<std::uint32_t> nth(items_.size());  // by start
  std::uint32_t started = 0, there = 0, which = 0;  // `which`: of what is there, numbers added up by exclusive or
  Time since{};
  for (const Edge& edge : edges) {
    if (there == 1) items_[which].by_itself += edge.at - since;
    since = edge.at, which ^= edge.item;
    HostItem& item = items_[edge.item];
    if (edge.starts)
      item.others = there++, nth[edge.item] = ++started;
    else
      item.others += started - nth[edge.item], --there;
  }
}

bool HostOrder::one_graph() const {
  const Call* call = device_.call_of(items_.front().call);
  return call != nullptr && call->kind == Call::Kind::graph_launch &&
         std::all_of(items_.begin(), items_.end(),
                     [&](const HostItem& i) { return i.op == nullptr || i.call == call->correlation; }) &&
         std::all_of(items_.begin(), std::prev(items_.end()),
                     [](const HostItem& i) { return i.op != nullptr; });
}

}  // namespace corun
