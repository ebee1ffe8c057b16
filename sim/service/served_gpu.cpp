#include "sim/service/served_gpu.h"

#include <algorithm>

namespace corun::sim {
namespace {

// On an H200 under MPS beside another program (experiments/h200/live, gate-mps.jsonl.gz).  From a grant to the known end of an empty kernel
// it is 7.12 us, from a call 10.64.  A kernel that is granted in time takes 7.66 us with a wait before it, 5.16 without.
constexpr Time kGrantIsSooner = std::chrono::nanoseconds(3520), kWait = std::chrono::nanoseconds(2500);

}  // namespace

ServedGpu::ServedGpu(Backend& gpu, const Trace& trace, const ServedLaunches& launches, LetReach let_reach, bool waits)
    : gpu_(gpu), trace_(trace), launches_(launches), let_reach_(std::move(let_reach)), sooner_(waits ? kGrantIsSooner : Time{}), wait_(waits ? kWait : Time{}) {}

const ServedGpu::Late* ServedGpu::late(LaunchId id) const {
  const auto at = std::ranges::find(late_, id, &Late::launch);
  return at == late_.end() ? nullptr : &*at;
}

/// A launch that is queued ahead.
ServedGpu::Reaches ServedGpu::reaches(const LaunchView& l) {
  const Gpu& gpu = gpu_.topology().gpu;
  const Client& client = trace_.clients[l.client.value];
  const bool graph = handed_over(client, trace_.programs[client.program.value], l.op) != HandedOver::by_itself;
  const Time latency = graph ? gpu.graph_launch_latency : gpu.launch_latency;
  Reaches reaches{std::max(l.ready_at + latency + wait_, now() + std::max(latency - sooner_, Time{})), wait_};
  LaunchId& before = last_[{l.client, l.stream}];
  if (const Late* ends = late(before))
    reaches.at = std::max(reaches.at, ends->ends);
  else if (before != l.id)
    reaches.wait += launches_.left(before) * kEmptyAttempt;
  before = l.id;
  return reaches;
}

Outcome ServedGpu::apply(const Decision& decision, const LaunchView& l, std::span<const LaunchId> follows) {
  if (!launches_.queued_ahead[l.client.value]) return gpu_.apply(decision, l, follows);
  if (!std::holds_alternative<decide::Launch>(decision)) return late(l.id) != nullptr ? Applied{} : gpu_.apply(decision, l, follows);
  LaunchView plain = l;
  plain.stoppable = false;  // as far as the trace says how it runs where it may be stopped
  const auto [at, wait] = reaches(l);
  let_reach_(plain, at, wait);
  return gpu_.apply(decision, plain, follows);
}

/// Its nodes reach the GPU with its first one, behind one wait.
Outcome ServedGpu::graph(const decide::Launch& decision, const LaunchView& graph, std::span<const GraphNode> nodes) {
  if (launches_.queued_ahead[graph.client.value]) {
    const auto [at, wait] = reaches(graph);
    let_reach_(graph, at, wait);
  }
  return gpu_.graph(decision, graph, nodes);
}

void ServedGpu::wait(Time until, std::vector<Notice>& notices) {
  for (;;) {
    const Time next = late_.empty() ? kNever : std::ranges::min(late_, {}, &Late::ends).ends;
    std::vector<Notice> told;
    gpu_.wait(std::min(until, next), told);
    for (const Notice& n : told) {
      const auto* kernel = std::get_if<KernelFinished>(&n);
      if (const std::uint32_t attempts = kernel == nullptr ? 0 : launches_.left(kernel->launch); attempts != 0)
        late_.push_back({kernel->launch, now() + attempts * kEmptyAttempt});
      else
        notices.push_back(n);
    }
    std::erase_if(late_, [&](const Late& end) {
      if (end.ends > now()) return false;
      notices.emplace_back(KernelFinished{end.launch});
      return true;
    });
    if (!notices.empty() || now() >= until || (told.empty() && next == kNever)) return;
  }
}

}  // namespace corun::sim
