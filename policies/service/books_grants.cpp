// The books' part about what becomes of decisions: launches that go, and when, and their sizes.
#include <algorithm>
#include <numeric>

#include "policies/service/books.h"

namespace corun::live {

/// True: what is behind a launch that goes may go now, and the policy is to look at it.
bool Books::apply(const Decision& decision, Time now) {
  if (memory_ && apply_memory(decision, now)) return false;
  if (const auto* wake = std::get_if<decide::WakeAt>(&decision)) {
    if (wake->at > now) wake_at_ = std::min(wake_at_, wake->at);
  } else if (const auto* launch = std::get_if<decide::Launch>(&decision)) {
    LaunchView& l = view(launch->launch);
    if (l.id != launch->launch || l.state != LaunchState::pending || (in_order(l) && pending_.first(l) != l.id)) return false;
    if (memory_) {
      if (!memory_->there(places_[l.id.slot].client)) return false;
      memory_->launched(places_[l.id.slot].client, now);
    }
    pending_.erase(l);
    l.state = LaunchState::submitted;
    l.submitted_at = now;
    l.solo_time = l.kernel->solo_time.value_or(Time{});
    l.priority = launch->priority;
    l.tpc_mask = launch->tpc_mask;
    decide::CtasPerSm& ctas = places_[l.id.slot].ctas_per_sm;
    ctas = l.sizable ? launch->ctas_per_sm : decide::CtasPerSm{};
    l.ctas = std::accumulate(ctas.begin(), ctas.end(), 0u);
    running_.push_back(l.id);
    pending_.came(l);
    program(l).held[l.stream.value].push_back(l.id);
    return sizes_ && in_order(l) && pending_.first(l);
  } else if (const auto* preempt = std::get_if<decide::Preempt>(&decision)) {
    const LaunchView& l = view(preempt->launch);
    if (l.id == preempt->launch && (l.state == LaunchState::submitted || l.state == LaunchState::draining)) take_back(l);
  } else if (const auto* size = std::get_if<decide::Resize>(&decision)) {
    resize(*size);
  }
  return false;
}

/// When the next launch of a stream may be granted.  kNever: when one of those before it has ended.
Time Books::may_go_at(const Program& p, LaunchId next) const {
  if (!stoppable(p)) return Time{};
  const std::uint32_t stream = places_[next.slot].stream;
  std::optional<Time> end;
  for (LaunchId id : p.on_gpu[launches_[next.slot].stream.value]) {
    const Place& place = places_[id.slot];
    if (place.stream != stream && !may_stop(place)) continue;  // it may wait on the GPU for what was stopped
    // It may come back; never seen to end; the quotas are the stream's.
    if (place.stopping || !place.kernel->solo_time || !place.ctas_per_sm.empty() || !places_[next.slot].ctas_per_sm.empty())
      return kNever;
    end = end.value_or(begun_at(p, place)) + *place.kernel->solo_time;
  }
  return end ? *end - options_.ahead : Time{};
}

void Books::hand_over(std::vector<Granted>& granted, Time now) {
  const auto none = [](const auto& q) { return q.empty(); };
  for (const Granted& stop : ordered_) {
    granted.push_back(stop);
    if (listener_) listener_->granted(stop, now);
  }
  ordered_.clear();
  hand_over_at_ = kNever;
  for (auto& [number, p] : programs_)
    for (std::uint32_t s = 0; s < kShownStreams; ++s)
      while (!p->held[s].empty()) {
        const LaunchId id = p->held[s].front();
        if (const Time at = may_go_at(*p, id); at > now) {
          hand_over_at_ = std::min(hand_over_at_, at);
          break;
        }
        if (std::ranges::all_of(p->on_gpu, none)) p->on_gpu_since = now;
        p->held[s].pop_front();
        p->on_gpu[s].push_back(id);
        Place& place = places_[id.slot];
        place.granted_at = now;
        late_at_ = std::min<Time>(late_at_, now + limits::kOnGpu);
        granted.push_back({number, place.stream, place.number, {view(id).priority, view(id).tpc_mask}, place.attempt});
        granted.back().ctas_per_sm = place.ctas_per_sm;
        if (listener_) listener_->granted(granted.back(), now);
        if (place.failed) finish(id, now);
      }
}

/// A launch that cannot have another size any more stays as it is.
void Books::resize(const decide::Resize& decision) {
  LaunchView& l = view(decision.launch);
  if (l.id != decision.launch || l.state != LaunchState::submitted || l.ctas == 0) return;
  const std::uint32_t ctas = std::accumulate(decision.ctas_per_sm.begin(), decision.ctas_per_sm.end(), 0u);
  if (ctas == 0) return;
  Place& place = places_[l.id.slot];
  const auto& on_gpu = program(l).on_gpu[l.stream.value];
  if (std::ranges::find(on_gpu, l.id) != on_gpu.end()) {
    bool more = false;
    for (std::size_t sm = 0; sm < decision.ctas_per_sm.size(); ++sm)
      more |= decision.ctas_per_sm[sm] > (sm < place.ctas_per_sm.size() ? place.ctas_per_sm[sm] : 0);
    if (!place.stopping) {
      // Workers come with an attempt; the last one has no quotas.
      if (place.attempt + (more ? 2 : 1) >= place.attempts) return;
      ++program(l).resizes;
      if (more) {
        order_stop(place);
        place.goes_on = true;
      } else {
        Granted& fewer = ordered_.emplace_back(Granted{place.client, place.stream, place.number, {}, place.attempt});
        fewer.resize = true;
        fewer.ctas_per_sm = decision.ctas_per_sm;
      }
    } else if (!place.goes_on) {
      return;
    }
  }
  place.ctas_per_sm = decision.ctas_per_sm;
  l.ctas = ctas;
}

/// Launches of the program's own stream that are to end before this one: the latest.
std::uint32_t Books::follows(std::uint32_t client, std::uint32_t stream, std::uint32_t number) const {
  const auto is_before = [&](const LaunchView& l) {
    const Place& place = places_[l.id.slot];
    return l.state != LaunchState::finished && l.kernel != nullptr && place.client == client && place.stream == stream &&
           place.number != number && reached(number, place.number);
  };
  return std::ranges::any_of(launches_, is_before) ? 1 : 0;
}

/// In-order programs: the first pending launch depends on earlier launches of its stream and on preemptible ones of any stream, each
/// later one on those before it.  A policy gives a launch no share before its turn.
void Books::tell_first(Time now) {
  const auto stops = [&](LaunchId id) { return may_stop(places_[id.slot]); };
  for (const StreamView& s : pending_.streams()) {
    if (s.pending.empty()) continue;
    LaunchView& l = view(s.pending.front());
    if (!in_order(l) || l.waits_for == 0) continue;
    const Place& place = places_[l.id.slot];
    const auto &held = program(l).held[s.stream.value], &on_gpu = program(l).on_gpu[s.stream.value];
    l.waits_for = std::ranges::any_of(held, stops) || std::ranges::any_of(on_gpu, stops) ? 1 : follows(place.client, place.stream, place.number);
    if (l.waits_for == 0) l.unblocked_at = now;
  }
}

void Books::tell_next(const Place& ended, Time now) {
  for (LaunchView& l : launches_) {
    const Place& place = places_[l.id.slot];
    if (l.state == LaunchState::finished || l.waits_for == 0 || place.client != ended.client || place.stream != ended.stream)
      continue;
    l.waits_for = follows(place.client, place.stream, place.number);
    if (l.waits_for == 0) l.unblocked_at = now;
  }
}

}  // namespace corun::live
