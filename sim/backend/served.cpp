#include "sim/backend/served.h"

#include <algorithm>

#include "sim/backend/service_view.h"

namespace corun::sim {

Served::Served(Backend& gpu, const Trace& trace, const Requirements& needed, Options options) : gpu_(gpu), trace_(trace), options_(std::move(options)) {
  const bool stops = needed.capabilities.has(Capability::preempt_at_block) || needed.capabilities.has(Capability::preempt_reset);
  for (const Client& c : trace.clients) {
    Program& p = programs_.emplace_back();
    p.stoppable = stops && c.service_class == ServiceClass::best_effort;
    p.ended_at.resize(c.streams.size());
  }
}

Outcome Served::apply(const Decision& decision, const LaunchView& l, std::span<const LaunchId> follows) {
  Program& p = programs_[l.client.value];
  if (!p.stoppable) return gpu_.apply(decision, l, follows);
  if (std::holds_alternative<decide::Launch>(decision)) {
    p.held.push_back({l, decision, {follows.begin(), follows.end()}});
    return Applied{};
  }
  if (!std::holds_alternative<decide::Preempt>(decision)) return gpu_.apply(decision, l, follows);
  std::erase_if(p.held, [&](const Held& h) {
    const bool off = h.launch.id == l.id || std::ranges::find(follows, h.launch.id) != follows.end();
    if (off) told_.push_back(Preempted{h.launch.id, 0});
    return off;
  });
  return Applied{};
}

Outcome Served::copy(const LaunchView& l, std::span<const LaunchId> follows) {
  Program& p = programs_[l.client.value];
  if (!p.stoppable) return gpu_.copy(l, follows);
  p.held.push_back({l, {}, {follows.begin(), follows.end()}});
  return Applied{};
}

/// The first that is held is of the graph of which others have gone.
bool Served::goes_with_last(const Program& p) const {
  const LaunchView& next = p.held.front().launch;
  return p.last && in_graph(trace_, next) && *p.last == GraphLaunch{next.request, next.operation->graph};
}

/// The first that is held.  A copy goes with what is before it.
Time Served::may_go_at(const Program& p) const {
  const LaunchView& next = p.held.front().launch;
  if (next.kernel == nullptr || goes_with_last(p)) return {};
  std::optional<Time> end;
  for (const Gone& g : p.gone)
    if (g.stream == next.stream) end = end.value_or(std::max(g.at, p.ended_at[g.stream.value])) + g.solo;
  return end ? *end - options_.ahead : Time{};
}

Time Served::hand_over() {
  Time next = kNever;
  for (Program& p : programs_)
    while (!p.held.empty()) {
      if (const Time at = may_go_at(p); at > now()) {
        next = std::min(next, at);
        break;
      }
      const Held h = std::move(p.held.front());
      p.held.pop_front();
      p.last.reset();
      if (in_graph(trace_, h.launch)) p.last = {h.launch.request, h.launch.operation->graph};
      if (h.launch.kernel == nullptr) {
        gpu_.copy(h.launch, h.follows);
        p.gone.push_back({h.launch.id, h.launch.stream, now(), {}});
      } else if (std::holds_alternative<Refused>(gpu_.apply(h.decision, h.launch, h.follows))) {
        told_.push_back(Preempted{h.launch.id, 0});
      } else {
        p.gone.push_back({h.launch.id, h.launch.stream, now(), h.launch.solo_time});
      }
    }
  return next;
}

void Served::heard(const Notice& notice) {
  const auto over = [&](LaunchId id) {
    for (Program& p : programs_)
      std::erase_if(p.gone, [&](const Gone& g) {
        if (g.id == id) p.ended_at[g.stream.value] = now();
        return g.id == id;
      });
  };
  if (const auto* kernel = std::get_if<KernelFinished>(&notice)) over(kernel->launch);
  if (const auto* copy = std::get_if<CopyFinished>(&notice)) over(copy->launch);
}

void Served::wait(Time until, std::vector<Notice>& notices) {
  for (;;) {
    const Time next = hand_over();
    const std::size_t before = notices.size();
    notices.insert(notices.end(), told_.begin(), told_.end());
    if (!told_.empty()) until = now();
    told_.clear();
    const std::size_t heard_before = notices.size();
    const Time foretold = options_.forecast ? options_.forecast->due() : kNever;
    gpu_.wait(std::min({until, next, foretold}), notices);
    for (std::size_t i = heard_before; i < notices.size(); ++i) heard(notices[i]);
    if (options_.forecast && options_.forecast->tell(now())) notices.push_back(WokeUp{});
    if (notices.size() != before || now() >= until || (next == kNever && foretold == kNever)) return;
  }
}

}  // namespace corun::sim
