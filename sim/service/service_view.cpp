#include "sim/service/service_view.h"

#include <algorithm>

namespace corun::sim {
namespace {

/// By operation: whether the host waits behind it, and launches more then.
std::vector<bool> waits_behind(const Client& client, const Program& program) {
  std::vector<bool> waits(program.ops.size());
  if (issue_of(client, program) == Issue::graph) return waits;  // one call, behind which the request ends
  bool wait = false, more = false;
  for (std::size_t i = program.ops.size(); i-- > 0;) {
    if (std::holds_alternative<Sync>(program.ops[i].what)) wait = more;
    if (!std::holds_alternative<Launch>(program.ops[i].what)) continue;
    waits[i] = wait;
    wait = false, more = true;
  }
  return waits;
}

}  // namespace

bool in_graph(const Trace& trace, const LaunchView& l) {
  if (l.operation == nullptr) return false;
  const Client& client = trace.clients[l.client.value];
  return handed_over(client, trace.programs[client.program.value], l.op) != HandedOver::by_itself;
}

ServiceView::ServiceView(Policy& policy, const Trace& trace, PersistentLaunches* persistent)
    : policy_(policy), trace_(trace), persistent_(persistent) {
  for (std::uint32_t c = 0; c < trace.clients.size(); ++c) {
    const Program& program = trace.programs[trace.clients[c].program.value];
    clients_.emplace_back().ended_at.resize(program.streams.size());
    clients_.back().waits_behind = waits_behind(trace.clients[c], program);
    for (const Op& op : program.ops)
      if (std::holds_alternative<Launch>(op.what)) ++graphs_[{c, op.graph}].grid.x;
  }
  for (auto& [graph, kernel] : graphs_) {
    kernel.name = "graph";
    kernel.block = {1, 1, 1};
    --kernel.grid.x;  // a Dim3 is 1 from the start
  }
}

Requirements ServiceView::requirements() const {
  Requirements needed = policy_.requirements();
  needed.kernels = true;  // it puts them together itself
  const bool ahead = (needed.capabilities.has(Capability::preempt_at_block) || needed.forecast) && !needed.capabilities.has(Capability::tpc_mask);
  for (const Client& c : trace_.clients) needed.waiting_hosts.push_back(!ahead || c.service_class != ServiceClass::best_effort);
  return needed;
}

ServiceView::Entry* ServiceView::of(LaunchId real) {
  const auto found = slot_of_.find(real.serial);
  return found == slot_of_.end() ? nullptr : &entries_[found->second];
}

ServiceView::Entry* ServiceView::known(LaunchId id) {
  return id.slot < entries_.size() && entries_[id.slot].used && entries_[id.slot].id == id ? &entries_[id.slot] : nullptr;
}

ServiceView::Entry& ServiceView::new_entry(const LaunchView& l) {
  auto slot = static_cast<std::uint32_t>(entries_.size());
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Entry& e = entries_[slot] = Entry{};
  e.id = {slot, next_serial_++};
  e.first = l;
  e.used = true;
  return e;
}

void ServiceView::retire(Entry& e) {
  for (const LaunchId part : e.parts) slot_of_.erase(part.serial);
  if (e.graph) slot_of_graph_.erase(key(e.first));
  if (e.first.kernel != nullptr) --clients_[e.first.client.value].unfinished;
  e.used = false;
  retired_.push_back(e.id.slot);
}

/// The host has called a launch or an allocation.
void ServiceView::ready(const LaunchView& l, Time now) {
  if (l.kernel != nullptr && !clients_[l.client.value].busy) {
    clients_[l.client.value].busy = true;
    clients_[l.client.value].since = now;
    notices_.push_back(RequestArrived{l.client, l.request});
  }
  if (l.kernel != nullptr) clients_[l.client.value].called = l.op;
  if (persistent_ != nullptr) persistent_->called(l);
  const bool graph = l.kernel != nullptr && in_graph(trace_, l);
  Entry* e = nullptr;
  if (graph)
    if (const auto found = slot_of_graph_.find(key(l)); found != slot_of_graph_.end()) e = &entries_[found->second];
  if (e == nullptr) {
    e = &new_entry(l);
    if (graph) {
      e->graph = true;
      e->left = kernels(*e);
      slot_of_graph_.emplace(key(l), e->id.slot);
    }
    ask_ = true;
    if (l.kernel != nullptr) {
      ++clients_[l.client.value].unfinished;
      notices_.push_back(LaunchReady{e->id});
    } else {
      notices_.push_back(AllocationReady{e->id});
    }
  }
  e->parts.push_back(l.id);
  slot_of_.emplace(l.id.serial, e->id.slot);
}

void ServiceView::ended(LaunchId real, Time now) {
  Entry* const e = of(real);
  if (e == nullptr) return;
  std::erase(e->parts, real);
  slot_of_.erase(real.serial);
  if (--e->left != 0) return;
  const LaunchView& l = e->first;
  if (e->graph) took_[{l.client.value, l.operation->graph}].add(now - e->since);
  if (!e->graph && persistent_ != nullptr) persistent_->ended(l);
  clients_[l.client.value].ended_at[l.stream.value] = now;
  notices_.push_back(KernelFinished{e->id});
  ask_ = true;
  retire(*e);
  ClientState& client = clients_[l.client.value];
  if (client.unfinished != 0 || !client.waits_behind[client.called.value]) return;
  client.busy = false;
  notices_.push_back(RequestFinished{l.client, l.request});
}

/// Of a graph all come back, or those that did not fit the channel with the others, which go on.
void ServiceView::taken_back(const Preempted& p) {
  Entry* const e = of(p.launch);
  if (e == nullptr) return;
  e->came_back = true;
  if (e->graph) return;
  notices_.push_back(Preempted{e->id, p.blocks_done});
  ask_ = true;
}

void ServiceView::tell(const Notice& notice, const Snapshot& now) {
  if (const auto* call = std::get_if<LaunchReady>(&notice)) return ready(now.launch(call->launch), now.now);
  if (const auto* call = std::get_if<AllocationReady>(&notice)) return ready(now.launch(call->allocation), now.now);
  if (const auto* kernel = std::get_if<KernelFinished>(&notice)) return ended(kernel->launch, now.now);
  if (const auto* back = std::get_if<Preempted>(&notice)) return taken_back(*back);
  if (std::holds_alternative<RequestArrived>(notice)) return;
  ask_ = true;
  if (std::holds_alternative<CopyFinished>(notice)) return;
  if (const auto* request = std::get_if<RequestFinished>(&notice)) {
    ClientState& client = clients_[request->client.value];
    if (!client.busy || client.unfinished != 0) return;
    client.busy = false;
    notices_.push_back(notice);
  } else if (const auto* last = std::get_if<LastBlockStarted>(&notice)) {
    if (const Entry* e = of(last->launch); e != nullptr && !e->graph) notices_.push_back(LastBlockStarted{e->id});
  } else if (const auto* progress = std::get_if<ProgressReported>(&notice)) {
    if (const Entry* e = of(progress->launch); e != nullptr && !e->graph)
      notices_.push_back(ProgressReported{e->id, progress->blocks_done, progress->as_of});
  } else {
    notices_.push_back(notice);
  }
}

/// Of graphs that were launched, what the backend did not take with the rest.
void ServiceView::go_on(const Snapshot& now, std::vector<Decision>& decisions) {
  std::erase_if(granted_graphs_, [&](LaunchId id) {
    Entry* const e = known(id);
    if (e == nullptr) return true;
    const auto waits = [&](LaunchId part) { return now.launch(part).state == LaunchState::pending; };
    if (e->left == kernels(*e) && std::ranges::all_of(e->parts, waits)) {
      e->granted.reset();
      if (std::exchange(e->came_back, false)) notices_.push_back(Preempted{e->id, 0});
      ask_ = true;
      return true;
    }
    for (const LaunchId part : e->parts)
      if (waits(part)) {
        decide::Launch launch = *e->granted;
        launch.launch = part;
        decisions.emplace_back(launch);
      }
    return false;
  });
}

/// Launches and allocations of clients that have failed end without a word.
void ServiceView::forget_lost(const Snapshot& now) {
  for (Entry& e : entries_) {
    if (!e.used) continue;
    std::erase_if(e.parts, [&](LaunchId part) {
      const LaunchView& l = now.launch(part);
      const bool lost = l.id != part || l.state == LaunchState::finished;
      if (lost) slot_of_.erase(part.serial);
      return lost;
    });
    if (e.parts.empty()) retire(e);
  }
}

/// On the list, if it is not on one yet.
void ServiceView::show(Entry& e, const Snapshot& now, std::vector<LaunchId>& list) {
  if (std::exchange(e.seen, true)) return;
  list.push_back(e.id);
  LaunchView& l = show_.launches[e.id.slot];
  const LaunchView& lead = now.launch(e.parts.front());
  l = lead;
  if (e.graph) {
    const GraphOfClient number{e.first.client.value, e.first.operation->graph};
    const auto took = took_.find(number);
    l = e.first;
    l.kernel = &graphs_.at(number);
    l.solo_time = took == took_.end() ? Time{} : took->second.usual();
    l.state = lead.state;
    l.priority = lead.priority, l.tpc_mask = lead.tpc_mask;
    l.waits_for = lead.id == e.first.id ? lead.waits_for : 0;
    l.submitted_at = e.since;
    l.unblocked_at = lead.id == e.first.id ? lead.unblocked_at : e.since;
  }
  l.id = e.id;
  l.stoppable = l.sizable = has_attempts(e);
}

Snapshot ServiceView::shown(const Snapshot& now) {
  show_.launches.resize(entries_.size());
  for (Entry& e : entries_) e.seen = false;
  for (LaunchView& l : show_.launches) l.state = LaunchState::finished;
  show_.running.clear(), show_.pending.clear(), show_.allocating.clear();
  const auto all_of = [&](std::span<const LaunchId> ids, std::vector<LaunchId>& list) {
    for (const LaunchId id : ids)
      if (Entry* e = of(id); e != nullptr) show(*e, now, list);
  };
  all_of(now.running, show_.running);
  all_of(now.pending, show_.pending);
  all_of(now.allocating, show_.allocating);
  show_.clients.assign(now.clients.begin(), now.clients.end());
  for (ClientView& c : show_.clients) {
    const ClientState& state = clients_[c.id.value];
    c.busy = state.busy;
    c.requests_waiting = 0;
    c.arrived_at = c.waits_since = state.since;
  }
  show_.streams.assign(now.streams.begin(), now.streams.end());
  show_.of_stream.resize(show_.streams.size());
  for (std::size_t i = 0; i < show_.streams.size(); ++i) {
    StreamView& s = show_.streams[i];
    const auto here = [&](LaunchId id) { return show_.launches[id.slot].client == s.client && show_.launches[id.slot].stream == s.stream; };
    s.running = static_cast<std::uint32_t>(std::ranges::count_if(show_.running, here));
    s.ended_at = clients_[s.client.value].ended_at[s.stream.value];
    show_.of_stream[i].clear();
    std::ranges::copy_if(show_.pending, std::back_inserter(show_.of_stream[i]), here);
    s.pending = show_.of_stream[i];
  }
  Snapshot all = now;
  all.notices = notices_, all.clients = show_.clients, all.launches = show_.launches, all.pending = show_.pending;
  all.running = show_.running, all.allocating = show_.allocating, all.streams = show_.streams;
  return all;
}

void ServiceView::carry_out(const Decision& decision, const Snapshot& now, std::vector<Decision>& decisions) {
  const auto of_one = [&](auto d) {
    if (const Entry* e = known(d.launch); e != nullptr && !e->graph) {
      d.launch = e->parts.front();
      decisions.emplace_back(d);
    }
  };
  if (const auto* launch = std::get_if<decide::Launch>(&decision)) {
    Entry* const e = known(launch->launch);
    if (e == nullptr || (e->graph && e->granted)) return;
    if (e->graph) granted_graphs_.push_back(e->id);
    e->came_back = false;
    e->granted = *launch;
    if (!has_attempts(*e)) {  // it has no size
      e->granted->ctas = 0;
      e->granted->ctas_per_sm.clear();
    }
    e->since = now.now;
    for (const LaunchId part : e->parts) {
      decide::Launch each = *e->granted;
      each.launch = part;
      decisions.emplace_back(each);
    }
  } else if (const auto* preempt = std::get_if<decide::Preempt>(&decision)) {
    const Entry* const e = known(preempt->launch);
    if (e == nullptr) return;
    for (const LaunchId part : e->parts)
      if (now.launch(part).state != LaunchState::pending) {
        decisions.emplace_back(decide::Preempt{part, preempt->how});
        return;
      }
  } else if (const auto* size = std::get_if<decide::Resize>(&decision)) {
    of_one(*size);
  } else if (const auto* query = std::get_if<decide::Query>(&decision)) {
    of_one(*query);
  } else if (const auto* allocate = std::get_if<decide::Allocate>(&decision)) {
    if (const Entry* e = known(allocate->allocation)) decisions.emplace_back(decide::Allocate{e->parts.front()});
  } else if (!std::holds_alternative<decide::LaunchPadded>(decision)) {  // `sim serve` has none
    decisions.push_back(decision);
  }
}

void ServiceView::decide(const Snapshot& now, std::vector<Decision>& decisions) {
  free_.insert(free_.end(), retired_.begin(), retired_.end());
  retired_.clear();
  notices_.clear();
  ask_ = false;
  for (const Notice& notice : now.notices) tell(notice, now);
  forget_lost(now);
  go_on(now, decisions);
  if (!ask_) return;
  const Snapshot seen = shown(now);
  chosen_.clear();
  policy_.decide(seen, chosen_);
  for (const Decision& decision : chosen_) carry_out(decision, now, decisions);
}

}  // namespace corun::sim
