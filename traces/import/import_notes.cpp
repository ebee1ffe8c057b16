#include "traces/import/import_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "traces/import/median.h"
#include "traces/import/profiled_kernel.h"
#include "traces/import/recorded_kernels.h"

namespace corun {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::StreamKey;

std::string counted(std::size_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

void note_host(const DeviceRecords& device, const RecordedGpu& gpu, const HostOrder& order, bool host_as_told,
               Notes& notes) {
  if (!order.any_call()) return;
  std::vector<Nanoseconds> durations;
  std::set<std::uint32_t> threads;
  std::set<std::uint64_t> seen;
  for (const HostItem& item : order.items()) {
    const Call* call = device.call_of(item.call);
    if (call == nullptr || !seen.insert(call->correlation).second) continue;
    threads.insert(call->thread);
    if (call->kind == Call::Kind::launch) durations.push_back(call->duration);
  }
  if (!durations.empty() && !host_as_told) {
    notes.push_back(fmt::format(
        "Host gaps hold the profiler's own cost; a launch call was recorded with {:.1f} us (median), and what it takes beyond "
        "{:.1f} us is in the gaps too.",
        static_cast<double>(lower_median(std::move(durations)).count()) / 1e3, to_ns(gpu.launch_call) / 1e3));
  }
  if (threads.size() > 1)
    notes.push_back(fmt::format(
        "{} host threads issued work: their calls are replayed by one, in the same order{}.", threads.size(),
        order.waits_of_others() == 0 ? ""
                                     : fmt::format(", without {} during which the thread that issues most went on",
                                                   counted(order.waits_of_others(), "wait of another", "waits of others"))));
  if (order.ops_without_call() != 0)
    notes.push_back(fmt::format("{} without a launch call: {:.1f} us before the start is assumed.",
                                counted(order.ops_without_call(), "GPU operation", "GPU operations"),
                                to_ns(gpu.launch_latency) / 1e3));
}

void note_copies(const DeviceRecords& device, const HostOrder& order, Notes& notes) {
  std::size_t copies = 0, memsets = 0, pageable = 0, peer = 0, unknown = 0;
  for (const HostItem& item : order.items()) {
    if (item.op == nullptr) continue;
    copies += item.op->kind == GpuOp::Kind::copy ? 1 : 0;
    memsets += item.op->kind == GpuOp::Kind::memset ? 1 : 0;
    pageable += item.op->pageable ? 1 : 0;
    peer += item.op->peer ? 1 : 0;
    unknown += item.op->pageable && item.op->memory_unknown ? 1 : 0;
  }
  if (copies == 0)
    notes.push_back("No copies recorded: if the inputs are copied to the GPU, that time is missing.");
  if (pageable != 0)
    notes.push_back(fmt::format("{} pageable memory{}: above 64 KB the recorded rate is kept, at which the host staged it.",
                                counted(pageable, "copy uses", "copies use"),
                                unknown != 0 ? fmt::format(" ({} by the length of {} call, as the memory is not recorded)", unknown, unknown == 1 ? "its" : "their") : ""));
  if (peer != 0)
    notes.push_back(fmt::format("{} between devices: replayed within one device, so too fast.",
                                counted(peer, "copy was", "copies were")));
  if (memsets != 0)
    notes.push_back(
        fmt::format("{} replayed as device-to-device copies of half as many bytes, which move as many.",
                    counted(memsets, "memset is", "memsets are")));
  if (device.records().skipped_copies != 0)
    notes.push_back(fmt::format("{} of no bytes or within the host left out.",
                                counted(device.records().skipped_copies, "copy", "copies")));
}

void note_concurrency(const HostOrder& order, const RecordedKernels& kernels, bool counters, Notes& notes) {
  std::size_t syncs = 0, beside = 0, within = 0, dependent = 0;
  std::vector<const HostItem*> in_order;
  for (const HostItem& item : order.items()) {
    syncs += item.op == nullptr ? 1 : 0;
    if (!item.is_kernel()) continue;
    beside += item.beside ? 1 : 0;
    in_order.push_back(&item);
  }
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const HostItem* a, const HostItem* b) { return a->gpu_start < b->gpu_start; });
  std::vector<Time> busy(order.streams().size(), Time::min());
  for (const HostItem* item : in_order) {
    dependent += item->early > Time{} ? 1 : 0;
    within += busy[item->stream] > item->gpu_start && item->early == Time{} ? 1 : 0;
    busy[item->stream] = std::max(busy[item->stream], item->gpu_end());
  }
  if (syncs != 0 && order.streams().size() > 1)
    notes.push_back(
        "A synchronization waits for all streams, also where it was with one stream or event: the host may "
        "be late.");
  const std::size_t known = kernels.known_alone() + kernels.known_by_same();
  if (beside > known)
    notes.push_back(
        fmt::format("{} beside another stream's: that time is taken as its time alone, so too long{}.",
                    counted(beside - known, "kernel launch ran", "kernel launches ran"),
                    !counters ? "; counters of Nsight Compute tell it" : ""));
  if (kernels.known_alone() != 0)
    notes.push_back(fmt::format(
        "{} beside another stream's: what Nsight Compute saw of {} alone is taken where it is less.",
        counted(kernels.known_alone(), "kernel launch ran", "kernel launches ran"),
        kernels.known_alone() == 1 ? "it" : "them"));
  if (kernels.known_by_same() != 0)
    notes.push_back(fmt::format("{} beside another stream's: taken is what launches of the same kernel took alone, or with least of others.",
                                counted(kernels.known_by_same(), "kernel launch ran", "kernel launches ran")));
  if (within != 0)
    notes.push_back(fmt::format(
        "{} while its stream's previous one ran (graph branches): they are replayed one after the other, so too slowly.",
        counted(within, "kernel launch started and ended", "kernel launches started and ended")));
  if (dependent != 0)
    notes.push_back(fmt::format("{} before its stream's previous one had ended: taken is their time from then on, without a gap, as "
                                "of programmatic dependent launches.",
                                counted(dependent, "kernel launch started", "kernel launches started")));
  std::set<std::int64_t> contexts;
  for (const StreamKey& key : order.streams()) contexts.insert(key.context);
  if (contexts.size() > 1)
    notes.push_back(fmt::format("{} contexts are replayed as one: time slices between them are missing.",
                                contexts.size()));
}

void note_profile(const RecordedKernels& kernels, const std::filesystem::path& counters, Notes& notes) {
  const char* without = "what kernels take from each other's memory and issue slots is not recorded";
  if (counters.empty()) {
    notes.push_back(fmt::format("No hardware counters: {}.", without));
  } else {
    for (std::string& text : profile_notes(kernels.join(), kernels.profile(), counters.filename().string()))
      notes.push_back(std::move(text));
    if (const std::size_t none = kernels.launches_without_counters(); none != 0)
      notes.push_back(fmt::format("{} no hardware counters: there {}.",
                                  counted(none, "launch has", "launches have"), without));
  }
  if (kernels.without_cluster() == kernels.kernels().size())
    notes.push_back(
        "No cluster dimensions: every block is placed by itself, which flatters kernels that use "
        "clusters.");
  else if (kernels.without_cluster() != 0)
    notes.push_back(fmt::format("{} no cluster dimensions: their blocks are placed each by itself.",
                                counted(kernels.without_cluster(), "kernel has", "kernels have")));
}

}  // namespace corun
