// The books' part about launches that come off the GPU before they are done.
#include <algorithm>

#include "policies/service/books.h"

namespace corun::live {

std::uint32_t Books::attempts(std::uint32_t client, const Kernel& kernel) const {
  // An attempt that finds nothing to do takes 15 us (experiments/h100/ptx).
  constexpr Time kLong = std::chrono::microseconds(300), kEach = std::chrono::microseconds(500);
  if (!options_.persistent || in_flight(client) == 0 || !stops_ || !kernel.solo_time || *kernel.solo_time < kLong) return 0;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(1 + *kernel.solo_time / kEach, 2, kMostAttempts));
}

void Books::stopped(std::uint32_t client, std::uint32_t stream, std::uint32_t number, std::uint32_t blocks, Time now) {
  if (listener_) listener_->stopped(client, stream, number, blocks, now);
  Program& p = *programs_.at(client);
  const StreamId of = shown(client, stream);
  auto& on_gpu = p.on_gpu[of.value];
  const auto at = std::ranges::find_if(on_gpu, [&](LaunchId id) {
    const Place& place = places_[id.slot];
    return place.stream == stream && place.number == number && (place.stopping || !place.ctas_per_sm.empty());
  });
  if (at == on_gpu.end()) return;
  const LaunchId id = *at;
  if (Place& place = places_[id.slot]; place.goes_on || !place.stopping) {
    p.stops += place.stopping ? 1 : 0;
    place.stopping = place.goes_on = false;
    ++place.attempt;
    view(id).sizable = view(id).stoppable = place.attempt + 1 < place.attempts;
    ordered_.push_back({place.client, place.stream, place.number, {}, place.attempt});
    if (view(id).sizable) ordered_.back().ctas_per_sm = place.ctas_per_sm;
    return;
  }
  on_gpu.erase(at);
  if (std::ranges::all_of(p.on_gpu, [](const auto& q) { return q.empty(); })) p.on_gpu_for += now - p.on_gpu_since;
  ++p.stops;
  Place& place = places_[id.slot];
  place.stopping = false;
  ++place.attempt;
  LaunchView& l = view(id);
  blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, l.kernel->blocks()));
  running_.erase(id);
  pending_.went(l);
  if (memory_) memory_->ended(client, l.submitted_at);
  l.blocks_done = blocks;
  l.stoppable = place.attempt + 1 < place.attempts;
  l.sizable = !sizes_ || l.stoppable;
  l.ctas = 0;
  place.ctas_per_sm.clear();
  put_back(l);
  notices_.push_back(Preempted{id, blocks});
  take_back_held(p, of);  // it comes before what was decided since
}

/// The launch and all behind it in its stream: what the host still has is pending again, the rest ends by itself, or is stopped.
void Books::take_back(const LaunchView& first) {
  Program& p = program(first);
  for (LaunchId id : p.on_gpu[first.stream.value]) view(id).state = LaunchState::stopping;
  take_back_held(p, first.stream);
  order_stops(p, first.stream);
}

void Books::take_back_held(Program& p, StreamId stream) {
  std::deque<LaunchId> held;
  held.swap(p.held[stream.value]);
  for (LaunchId id : held) {
    LaunchView& l = view(id);
    running_.erase(id);
    pending_.went(l);
    if (memory_) memory_->ended(places_[id.slot].client, l.submitted_at);
    put_back(l);
    notices_.push_back(Preempted{id, l.blocks_done});
  }
}

/// The last launch that went: those before it are about to end, and it may wait for each of them on the GPU, whatever its stream.
void Books::order_stops(Program& p, StreamId stream) {
  if (p.on_gpu[stream.value].empty()) return;
  Place& last = places_[p.on_gpu[stream.value].back().slot];
  last.goes_on = false;
  if (!last.stopping && may_stop(last)) order_stop(last);
}

void Books::order_stop(Place& place) {
  place.stopping = true;
  Granted& stop = ordered_.emplace_back(Granted{place.client, place.stream, place.number, {}, place.attempt});
  stop.stop = true;
}

}  // namespace corun::live
