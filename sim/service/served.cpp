#include "sim/service/served.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <ranges>
#include <utility>

#include "sim/service/service_view.h"

namespace corun::sim {
namespace {

// On an H200 under MPS beside another program (experiments/h200/live, gate-mps.jsonl.gz).  From a grant to the known end of an empty kernel
// it is 7.12 us, from a call 10.64.  A kernel that is granted in time takes 7.66 us with a wait before it, 5.16 without.
constexpr Time kGrantIsSooner = std::chrono::nanoseconds(3520), kWait = std::chrono::nanoseconds(2500);

}  // namespace

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
  if (const auto* size = std::get_if<decide::Resize>(&decision)) return resize(*size, l);
  if (!std::holds_alternative<decide::Preempt>(decision)) return gpu_.apply(decision, l, follows);
  std::erase_if(p.held, [&](const Held& h) {
    const bool off = h.launch.id == l.id || std::ranges::find(follows, h.launch.id) != follows.end();
    if (off) told_.push_back(Preempted{h.launch.id, h.launch.blocks_done});
    return off;
  });
  order_stops(p, l, follows);
  return Applied{};
}

/// Those before the last in its stream are about to end.
void Served::order_stops(Program& p, const LaunchView& first, std::span<const LaunchId> follows) {
  std::vector<StreamId> seen;
  for (Gone& g : p.gone | std::views::reverse) {
    const LaunchView& l = g.what.launch;
    if (l.id != first.id && std::ranges::find(follows, l.id) == follows.end()) continue;
    if (std::ranges::find(seen, l.stream) != seen.end()) continue;
    seen.push_back(l.stream);
    g.goes_on.reset();
    if (g.stopping || g.ends_at || left(l.id) == 0) continue;
    g.stopping = true;
    gpu_.apply(decide::Preempt{l.id, decide::Stop::at_block}, l, {});
  }
}

/// Workers come with an attempt, and the last attempt has no size.
Outcome Served::resize(const decide::Resize& decision, const LaunchView& l) {
  Program& p = programs_[l.client.value];
  const auto held = std::ranges::find(p.held, l.id, [](const Held& h) { return h.launch.id; });
  const auto sized = [&](Decision& launch) {
    auto& of = std::get<decide::Launch>(launch);
    of.ctas = decision.ctas, of.ctas_per_sm = decision.ctas_per_sm;
  };
  if (held != p.held.end()) return sized(held->decision), Applied{};
  Gone* const g = gone(l.id);
  if (g == nullptr || !persistent(l.id)) return Refused{"it is not on the GPU, or has no size"};
  if (g->goes_on) return sized(*g->goes_on), Applied{};
  const auto& had = std::get<decide::Launch>(g->what.decision).ctas_per_sm;
  bool more = false;
  for (std::size_t sm = 0; sm < decision.ctas_per_sm.size(); ++sm) more |= decision.ctas_per_sm[sm] > (sm < had.size() ? had[sm] : 0);
  if (g->stopping || g->ends_at || left(l.id) < (more ? 2u : 1u)) return Refused{"no attempt is left for another size"};
  if (more) {
    g->stopping = true;
    sized(g->goes_on.emplace(g->what.decision));
    return gpu_.apply(decide::Preempt{l.id, decide::Stop::at_block}, g->what.launch, {});
  }
  const Outcome outcome = gpu_.apply(decision, g->what.launch, {});
  if (std::holds_alternative<Applied>(outcome)) sized(g->what.decision);
  return outcome;
}

Served::Gone* Served::gone(LaunchId id) {
  for (Program& p : programs_)
    for (Gone& g : p.gone)
      if (g.what.launch.id == id) return &g;
  return nullptr;
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

/// The first that is held.  A copy goes with what is before it.  kNever: when one of those before it has ended.
Time Served::may_go_at(const Program& p) const {
  const auto has_size = [](const Held& h) {
    const auto* launch = std::get_if<decide::Launch>(&h.decision);
    return launch != nullptr && !launch->ctas_per_sm.empty();
  };
  const Held& next = p.held.front();
  if (goes_with_last(p)) return {};
  std::optional<Time> end;
  bool behind_attempts = false;
  for (const Gone& g : p.gone) {
    const LaunchView& l = g.what.launch;
    if (l.stream != next.launch.stream) continue;
    if (persistent(l.id) && !g.ends_at) return kNever;  // it may come back
    if (has_size(g.what) || (has_size(next) && next.launch.kernel != nullptr)) return kNever;
    end = g.ends_at ? *g.ends_at : end.value_or(std::max(g.at, p.ended_at[l.stream.value])) + g.solo;
    behind_attempts = g.ends_at.has_value();
  }
  // What is behind the last attempt waits in its stream, which on this GPU goes on before.
  if (behind_attempts) return *end - std::min(options_.ahead, gpu_.topology().gpu.launch_latency);
  return end && next.launch.kernel != nullptr ? *end - options_.ahead : Time{};
}

Time Served::reaches_gpu(const LaunchView& l) const {
  const Gpu& gpu = gpu_.topology().gpu;
  const Time latency = in_graph(trace_, l) ? gpu.graph_launch_latency : gpu.launch_latency;
  return std::max(l.ready_at + latency + kWait, now() + std::max(latency - kGrantIsSooner, Time{}));
}

/// Without a size a persistent launch has all workers.
Outcome Served::go(const Held& h, bool of_graph) {
  LaunchView l = h.launch;
  const auto& launch = std::get<decide::Launch>(h.decision);
  l.stoppable = false;  // as far as the trace says how it runs where it may be stopped
  l.ctas = launch.ctas;
  if (!launch.ctas_per_sm.empty()) l.ctas = std::accumulate(launch.ctas_per_sm.begin(), launch.ctas_per_sm.end(), 0u);
  if (l.ctas == 0 && persistent(l.id)) l.ctas = options_.persistent->workers(*l.kernel);
  if (options_.let_reach) options_.let_reach(l, reaches_gpu(l), of_graph ? Time{} : kWait);
  return gpu_.apply(h.decision, l, h.follows);
}

Time Served::hand_over() {
  Time next = kNever;
  for (Program& p : programs_)
    while (!p.held.empty()) {
      if (const Time at = may_go_at(p); at > now()) {
        next = std::min(next, at);
        break;
      }
      const bool of_graph = goes_with_last(p);  // of which a kernel has gone, behind the wait
      Held h = std::move(p.held.front());
      p.held.pop_front();
      p.last.reset();
      if (in_graph(trace_, h.launch)) p.last = {h.launch.request, h.launch.operation->graph};
      if (h.launch.kernel == nullptr) {
        gpu_.copy(h.launch, h.follows);
      } else if (std::holds_alternative<Refused>(go(h, of_graph))) {
        told_.push_back(Preempted{h.launch.id, h.launch.blocks_done});
        continue;
      }
      const Time solo = h.launch.kernel == nullptr ? Time{} : h.launch.solo_time;
      p.gone.push_back({std::move(h), now(), solo});
    }
  return next;
}

void Served::over(LaunchId id) {
  for (Program& p : programs_)
    std::erase_if(p.gone, [&](const Gone& g) {
      if (g.what.launch.id == id) p.ended_at[g.what.launch.stream.value] = now();
      return g.what.launch.id == id;
    });
}

bool Served::heard(const Notice& notice) {
  if (const auto* copy = std::get_if<CopyFinished>(&notice)) over(copy->launch);
  if (const auto* kernel = std::get_if<KernelFinished>(&notice)) {
    Gone* const g = gone(kernel->launch);
    if (const std::uint32_t attempts = left(kernel->launch); g != nullptr && attempts != 0) {
      g->ends_at = now() + attempts * kEmptyAttempt;
      late_.emplace_back(*g->ends_at, kernel->launch);
      return false;
    }
    over(kernel->launch);
  }
  if (const auto* off = std::get_if<Preempted>(&notice); off != nullptr && persistent(off->launch)) {
    options_.persistent->next_attempt(off->launch);
    Gone* const g = gone(off->launch);
    if (g != nullptr && g->goes_on) {
      g->what.decision = *std::exchange(g->goes_on, std::nullopt);
      g->stopping = false, g->at = now();
      if (std::holds_alternative<Applied>(go(g->what, false))) return false;
    }
    over(off->launch);
  }
  return true;
}

void Served::wait(Time until, std::vector<Notice>& notices) {
  for (;;) {
    const Time next = hand_over();
    const std::size_t before = notices.size();
    notices.insert(notices.end(), told_.begin(), told_.end());
    if (!told_.empty()) until = now();
    told_.clear();
    const Time foretold = options_.forecast ? options_.forecast->due() : kNever;
    const Time late = late_.empty() ? kNever : std::ranges::min(late_).first;
    std::vector<Notice> from_gpu;
    gpu_.wait(std::min({until, next, foretold, late}), from_gpu);
    std::ranges::copy_if(from_gpu, std::back_inserter(notices), [this](const Notice& n) { return heard(n); });
    std::erase_if(late_, [&](const auto& end) {
      if (end.first > now()) return false;
      over(end.second);
      notices.push_back(KernelFinished{end.second});
      return true;
    });
    if (options_.forecast && options_.forecast->tell(now())) notices.push_back(WokeUp{});
    if (notices.size() != before || now() >= until || (next == kNever && foretold == kNever && late == kNever && from_gpu.empty())) return;
  }
}

}  // namespace corun::sim
