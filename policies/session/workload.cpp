#include "policies/session/workload.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "traces/model/error.h"

namespace corun {

Workload::Workload(const Trace& trace, const Gpu& gpu, Timeline& timeline)
    : trace_(trace), gpu_(gpu), timeline_(timeline), cores_(trace) {
  orders_ = std::make_shared<const std::vector<OpOrder>>(trace.programs.begin(), trace.programs.end());
  for (const Client& client : trace.clients) {
    const std::vector<Op>& ops = trace.programs[client.program.value].ops;
    if (std::all_of(ops.begin(), ops.end(), is_host_call))
      throw InputError(
          client.origin.file, client.origin.place + "/program",
          "a request of client " + client.name + " takes no time: its program launches and copies nothing",
          "give the program a launch or a copy");
    State& c = clients_.emplace_back(State{ArrivalProcess(client, trace.run.seed), HostClock(client, trace.run.seed)});
    c.host_free = kNever;
    c.has_first_memory = client.memory_bytes == 0;
    c.calls = ops.size();
    if (client.serving) {
      c.server.emplace(client, trace.programs[client.program.value], trace.kernels);
      await_step(c, Time{});
      continue;
    }
    const auto* loop = std::get_if<ClosedLoop>(&client.arrivals);
    if (loop == nullptr) continue;
    if (loop->in_flight > 1)
      while (std::holds_alternative<Sync>(ops[c.calls - 1].what)) --c.calls;
    if (loop->in_flight > 1 &&
        std::ranges::any_of(ops, [](const Op& op) { return std::holds_alternative<Alloc>(op.what) || std::holds_alternative<Free>(op.what); }))
      throw InputError(client.origin.file, client.origin.place + "/arrivals/in_flight",
                       "several requests in flight need a program without alloc and free, which client " + client.name + " has not",
                       "use in_flight 1, or several clients of one process");
    c.in_flight = loop->in_flight;
    while (c.next_request < c.in_flight) c.queue.push_back({c.next_request++, Time{}});
  }
  next_event_ = Time{};
}

Workload::Workload(const Workload& begins, Timeline& timeline)
    : trace_(begins.trace_),
      gpu_(begins.gpu_),
      timeline_(timeline),
      orders_(begins.orders_),
      clients_(begins.clients_),
      cores_(begins.cores_),
      next_event_(begins.next_event_) {}

/// A policy decides one priority and one set of TPCs for a launch.
bool Workload::alike(ClientId client, std::span<const OpId> launches) const {
  const Client& of = trace_.clients[client.value];
  const std::vector<Op>& ops = trace_.programs[of.program.value].ops;
  const auto terms = [&](OpId op) {
    const ClientStream& stream = of.streams[ops[op.value].stream.value];
    return std::tuple(stream.priority.value_or(of.priority), stream.tpc_mask, std::get<Launch>(ops[op.value].what).tpc_mask);
  };
  std::optional<std::invoke_result_t<decltype(terms), OpId>> first;
  for (const OpId op : launches) {
    if (!std::holds_alternative<Launch>(ops[op.value].what)) continue;
    if (!first) first = terms(op);
    if (terms(op) != *first) return false;
  }
  return first.has_value();
}

void Workload::call_graphs_whole() {
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    const std::span<const OpId> order = this->order(ClientId{i}).issue_order();
    const std::vector<Op>& ops = trace_.programs[trace_.clients[i].program.value].ops;
    std::vector<std::uint32_t>& end = clients_[i].graph_end;
    end.resize(order.size());
    for (auto at = static_cast<std::uint32_t>(order.size()); at-- > 0;) {
      const bool goes_on = at + 1 < order.size() && !is_host_call(ops[order[at + 1].value]) &&
                           handed_over(ClientId{i}, order[at + 1]) == HandedOver::in_graph;
      end[at] = goes_on ? end[at + 1] : at + 1;
    }
    for (std::uint32_t at = 0, next = 0; at < order.size(); at = next) {
      next = end[at];
      if (!alike(ClientId{i}, order.subspan(at, next - at))) std::fill(end.begin() + at, end.begin() + next, 0);
    }
  }
}

void Workload::show(ClientView& view, Time now) const {
  const State& c = clients_[view.id.value];
  view.requests_waiting = waiting(view.id, now);
  view.busy = !c.serving.empty();
  view.waits_since = view.requests_waiting != 0 ? c.queue.front().arrival : Time{};
  view.next_call = c.next_op;
  if (!view.busy) return;
  view.arrived_at = c.serving.front().record.arrival;
  view.request = c.serving.back().record.request;
  view.first_call = c.first_op;
  view.calls = c.calls;
  view.returned_at = c.in_call ? kNever : c.returned;
}

void Workload::resume(const ClientView& view, std::span<const std::pair<std::uint64_t, std::uint32_t>> serving,
                      Time now) {
  State& c = clients_[view.id.value];
  c.has_first_memory = true;
  c.queue.clear();
  c.next_request = view.request + 1;
  const auto serves = [&](std::uint64_t request, std::uint32_t outstanding) {
    c.serving.push_back({RequestRecord{view.id, request, view.arrived_at, now, kNever, false, Time{}}, outstanding});
  };
  for (const auto& [request, outstanding] : serving) serves(request, outstanding);
  if (view.busy && (serving.empty() || serving.back().first != view.request)) serves(view.request, 0);
  for (std::uint64_t i = 0; i < view.requests_waiting; ++i) c.queue.push_back({c.next_request++, view.waits_since});
  if (const auto* loop = std::get_if<ClosedLoop>(&trace_.clients[view.id.value].arrivals))
    while (c.serving.size() + c.queue.size() < c.in_flight) c.queue.push_back({c.next_request++, now + loop->think_time});
  if (view.busy) {
    c.first_op = view.first_call, c.next_op = view.next_call, c.calls = view.calls;
    if (view.returned_at == kNever) {
      c.in_call = handed_over(view.id, order(view.id).issue_order()[c.next_op - 1]) == HandedOver::by_itself;
      c.host_free = kNever;
    } else {
      prepare_next_call(view.id, now, view.returned_at);
    }
    if (c.host_free != kNever) c.host_free = std::max(c.host_free, now);
    if (cores_.shares(view.id) && cores_.sleeps(view.id)) cores_.work(view.id, now, Time{});
  }
  next_event_ = now;
}

Issue Workload::issue(ClientId id) const {
  const Client& client = trace_.clients[id.value];
  return issue_of(client, trace_.programs[client.program.value]);
}

Time Workload::next_event(ClientId id) const {
  const State& c = clients_[id.value];
  if (c.failed) return kNever;
  Time at = c.arrivals.next();
  if (cores_.shares(id)) {  // what it does with a core is in Cores::next()
    if (cores_.sleeps(id)) return std::min(at, serves_next_at(id));
    return c.unnoted.empty() || !cores_.runs(id) ? at : std::min(at, c.unnoted.front().at);
  }
  if (!c.serving.empty()) at = std::min(at, c.host_free);
  if (!c.unnoted.empty()) at = std::min(at, c.unnoted.front().at);
  return std::min(at, serves_next_at(id));
}

void Workload::advance(Time now, std::vector<RequestArrived>& arrived, std::vector<HostCall>& calls) {
  if (now < next_event_) return;
  cores_.advance(now);
  do {
    next_event_ = kNever;
    for (std::uint32_t i = 0; i < clients_.size(); ++i) {
      const ClientId id{i};
      while (step(id, now, arrived, calls)) {
      }
      if (cores_.shares(id)) rest(id);
      next_event_ = std::min(next_event_, next_event(id));
    }
  } while (cores_.turn());
  next_event_ = std::min(next_event_, cores_.next());
}

/// True if the thread of a client that shares cores has one and is not at work there, or sees that a request has ended.
bool Workload::may_go_on(ClientId id, Time now) {
  const State& c = clients_[id.value];
  if (cores_.sleeps(id) && serves_next_at(id) <= now) cores_.work(id, now, Time{});
  return cores_.ready(id) || (cores_.runs(id) && !c.unnoted.empty() && c.unnoted.front().at <= now);
}

/// The client can do nothing now: its thread sleeps without a request, and while it waits for the GPU if it does so asleep.
void Workload::rest(ClientId id) {
  const State& c = clients_[id.value];
  if (cores_.ready(id) && c.unnoted.empty() && (c.serving.empty() || trace_.clients[id.value].blocking)) cores_.sleep(id);
}

/// Calls and gaps of the client's host become work for its thread, which may have to share a core.
void Workload::work_until(ClientId id, Time now) {
  if (!cores_.shares(id)) return;
  State& c = clients_[id.value];
  cores_.work(id, now, std::max(c.host_free == kNever ? c.returned : c.host_free, now) - now);
  if (c.host_free != kNever) c.host_free = now;
}

bool Workload::step(ClientId id, Time now, std::vector<RequestArrived>& arrived,
                    std::vector<HostCall>& calls) {
  State& c = clients_[id.value];
  if (c.failed) return false;
  if (c.arrivals.next() <= now) {
    arrived.push_back({id, c.next_request});
    arrive(id, c.arrivals.next());
    c.arrivals.advance();
    return true;
  }
  if (cores_.shares(id) && !may_go_on(id, now)) return false;
  if (!c.unnoted.empty() && c.unnoted.front().at <= now) {
    const std::uint64_t request = c.unnoted.front().request;
    c.unnoted.pop_front();
    calls.push_back({HostCall::Kind::end_of_request, id, {}, request});
    finish(id, serving_of(id, request), now);
    return true;
  }
  if (serves_next_at(id) <= now) {
    if (std::holds_alternative<ClosedLoop>(trace_.clients[id.value].arrivals))
      arrived.push_back({id, c.queue.front().request});
    serve_next(id, now);
    return true;
  }
  if (c.serving.empty() || c.host_free > now) return false;
  if (!c.has_first_memory) {
    c.has_first_memory = c.waits_for_memory = true;
    c.host_free = kNever;
    calls.push_back({HostCall::Kind::first_memory, id, {}, c.serving.back().record.request});
    return false;
  }
  const std::span<const OpId> order = this->order(id).issue_order();
  if (c.next_op == c.calls) {  // it ends in a host call
    c.host_free = kNever;
    calls.push_back({HostCall::Kind::end_of_request, id, {}, c.serving.back().record.request});
    finish(id, c.serving.size() - 1, now);
    return true;
  }
  const OpId op = order[c.next_op];
  const Op& what = trace_.programs[trace_.clients[id.value].program.value].ops[op.value];
  HostCall call{HostCall::Kind::operation, id, op, c.serving.back().record.request};
  if (std::holds_alternative<Alloc>(what.what)) {
    ++c.next_op;
    c.waits_for_memory = true;
    c.host_free = kNever;
    calls.push_back(call);
    return false;
  }
  if (is_host_call(what)) {
    if (c.serving.back().outstanding != 0) {
      c.host_free = kNever;  // finished() wakes it
      return false;
    }
    if (std::holds_alternative<Free>(what.what)) calls.push_back(call);
    ++c.next_op;
    prepare_next_call(id, now, now);
    return true;
  }
  // A graph's operations are all handed over by one call.
  const bool by_itself = handed_over(id, op) == HandedOver::by_itself;
  if (!by_itself && !c.graph_end.empty() && c.graph_end[c.next_op] != 0) {
    const std::span<const OpId> all = order.subspan(c.next_op, std::min<std::size_t>(c.graph_end[c.next_op], c.calls) - c.next_op);
    if (c.graph_end[c.next_op] <= c.calls || alike(id, all)) call.graph = all;
  }
  const bool waits = !call.graph.empty() || std::holds_alternative<Launch>(what.what);
  c.next_op += std::max<std::size_t>(1, call.graph.size());
  ++c.serving.back().outstanding;
  calls.push_back(call);
  c.called_by_itself = by_itself;
  if (c.waits_for_decisions && waits && c.next_op != c.calls &&
      (by_itself || handed_over(id, order[c.next_op]) != HandedOver::in_graph)) {
    c.in_call = by_itself;
    c.host_free = kNever;
    return false;
  }
  prepare_next_call(id, now, by_itself ? c.host.after(now, gpu_.launch_call) : now);
  return true;
}

void Workload::prepare_next_call(ClientId id, Time now, Time from) {
  State& c = clients_[id.value];
  c.returned = from;
  c.host_free = goes_on_at(id, from);
  work_until(id, now);
}

/// Behind a call that returned at `from`: when the host makes the next one; kNever: it waits for the GPU.
Time Workload::goes_on_at(ClientId id, Time from) const {
  const State& c = clients_[id.value];
  const std::span<const OpId> order = this->order(id).issue_order();
  if (c.next_op == c.calls) return c.serving.back().outstanding == 0 ? from : kNever;
  const Program& program = trace_.programs[trace_.clients[id.value].program.value];
  const OpId next = order[c.next_op];
  const bool begins = c.next_op == c.first_op;
  const auto how = [&](OpId op) {
    return is_host_call(program.ops[op.value]) ? HandedOver::by_itself : handed_over(id, op);
  };
  Time work{};
  if (!begins && how(order[c.next_op - 1]) != HandedOver::by_itself) {
    if (how(next) == HandedOver::in_graph) return c.host.after(from);  // by the same call
    work += gpu_.graph_launch_call;
  }
  // Of a program that is a graph, what the host does before it launches that; a client's own `issue` has no gaps.
  if (issue(id) == Issue::eager || (begins && program.issue == Issue::graph))
    work += program.ops[next.value].host_gap;
  return c.host.after(from, work);
}

Time Workload::solo_time(ClientId client, OpId op) const {
  const auto& launch =
      std::get<Launch>(trace_.programs[trace_.clients[client.value].program.value].ops[op.value].what);
  const Time own = launch.solo_time.value_or(trace_.kernels[launch.kernel.value].solo_time.value_or(Time{}));
  const std::optional<Server>& server = clients_[client.value].server;
  return server ? server->solo_time(op, own) : own;
}

HandedOver Workload::handed_over(ClientId id, OpId op) const {
  const Client& client = trace_.clients[id.value];
  return corun::handed_over(client, trace_.programs[client.program.value], op);
}

/// Its next step: from now, or when the next sequence comes; none where all have ended.
void Workload::await_step(State& c, Time from) {
  if (const Time at = c.server->next(from); at != kNever) c.queue.push_back({c.next_request++, at});
}

void Workload::arrive(ClientId id, Time intended) {
  State& c = clients_[id.value];
  if (trace_.clients[id.value].stale == Stale::keep_newest) {
    for (const Waiting& stale : c.queue) {
      RequestRecord record{id, stale.request, stale.arrival, kNever, kNever, true, Time{}};
      timeline_.record(record);
    }
    c.queue.clear();
  }
  c.queue.push_back({c.next_request++, intended});
}

void Workload::serve_next(ClientId id, Time now) {
  State& c = clients_[id.value];
  const Waiting next = c.queue.front();
  c.queue.pop_front();
  // A loop's next request is there when its host has come to it, which is still at the one before.
  const bool of_loop = !c.serving.empty() && std::holds_alternative<ClosedLoop>(trace_.clients[id.value].arrivals);
  const Time arrival = of_loop ? std::max(next.arrival, c.returned) : next.arrival;
  c.serving.push_back({RequestRecord{id, next.request, arrival, now, kNever, false, Time{}}, 0});
  c.next_op = 0;
  if (c.server) std::tie(c.next_op, c.calls) = c.server->begin(now);
  c.first_op = c.next_op;
  if (c.has_first_memory)
    prepare_next_call(id, now, now);
  else
    c.host_free = now;
}

bool Workload::finished(ClientId id, std::uint64_t request, Time now, Time solo) {
  State& c = clients_[id.value];
  if (c.failed) return false;
  const auto at = c.serving.begin() + static_cast<std::ptrdiff_t>(serving_of(id, request));
  at->record.work_done += solo;
  if (--at->outstanding != 0 || c.waits_for_memory) return false;
  const bool calling = at == std::prev(c.serving.end()) && !all_called(id);
  if (calling && c.host_free == kNever) {  // it waited in a sync
    c.host_free = c.host.after(now);
    work_until(id, now);
    next_event_ = std::min(next_event_, c.host_free);
  }
  if (calling) return false;
  if (const Time noted = c.host.after(now); noted != now || cores_.shares(id)) {
    c.unnoted.push_back({noted, request});
    if (cores_.shares(id) && cores_.sleeps(id)) cores_.work(id, now, Time{});
    next_event_ = std::min(next_event_, noted);
    return false;
  }
  finish(id, static_cast<std::size_t>(at - c.serving.begin()), now);
  return true;
}

void Workload::worked(ClientId id, std::uint64_t request, Time solo) {
  State& c = clients_[id.value];
  if (!c.failed) c.serving[serving_of(id, request)].record.work_done += solo;
}

void Workload::allocated(ClientId id, Time now) {
  State& c = clients_[id.value];
  c.waits_for_memory = false;
  prepare_next_call(id, now, now);
  next_event_ = std::min(next_event_, c.host_free);
}

void Workload::decided(ClientId id, Time now) {
  State& c = clients_[id.value];
  if (!c.in_call || c.failed) return;
  prepare_next_call(id, now, *std::exchange(c.in_call, std::nullopt) ? c.host.after(now, gpu_.launch_call) : now);
  next_event_ = std::min(next_event_, cores_.shares(id) ? now : next_event(id));
}

void Workload::stay_in_call(ClientId id) {
  State& c = clients_[id.value];
  if (c.failed) return;
  c.in_call = c.called_by_itself;
  c.host_free = kNever;
  cores_.stop(id);
}

void Workload::fail(ClientId id) {
  State& c = clients_[id.value];
  c.failed = true;
  c.host_free = kNever;
  cores_.stop(id);
  if (cores_.shares(id)) next_event_ = Time{};  // its core is for others
  for (const Serving& s : c.serving) timeline_.record(s.record);
  c.serving.clear();
  c.unnoted.clear();
  c.queue.clear();
}

std::size_t Workload::serving_of(ClientId id, std::uint64_t request) const {
  const auto& serving = clients_[id.value].serving;
  return static_cast<std::size_t>(std::ranges::find(serving, request, [](const Serving& s) { return s.record.request; }) - serving.begin());
}

/// Of the request that was begun last.
bool Workload::all_called(ClientId id) const {
  return clients_[id.value].next_op == clients_[id.value].calls;
}

/// Beside requests in flight: once the last call of the latest one has returned.
Time Workload::serves_next_at(ClientId id) const {
  const State& c = clients_[id.value];
  if (c.queue.empty()) return kNever;
  const Time arrival = c.queue.front().arrival;
  if (c.serving.empty()) return c.host.after(arrival);
  const bool may = c.serving.size() < c.in_flight && all_called(id) && !c.in_call;
  return may ? c.host.after(std::max(arrival, c.returned)) : kNever;
}

void Workload::finish(ClientId id, std::size_t serving, Time now) {
  State& c = clients_[id.value];
  c.serving[serving].record.finished = now;
  timeline_.record(c.serving[serving].record);
  c.serving.erase(c.serving.begin() + static_cast<std::ptrdiff_t>(serving));
  ++c.finished;
  if (c.server) {
    for (SequenceRecord& ended : c.server->ended(now)) {
      ended.client = id;
      timeline_.record(ended);
    }
    await_step(c, now);
  } else if (const auto* loop = std::get_if<ClosedLoop>(&trace_.clients[id.value].arrivals))
    c.queue.push_back({c.next_request++, now + loop->think_time});
  next_event_ = std::min(next_event_, next_event(id));
}

bool Workload::every_client_finished_once() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const State& c) { return c.finished > 0 || c.failed; });
}

void Workload::close() {
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    State& c = clients_[i];
    for (const Serving& s : c.serving) timeline_.record(s.record);
    for (const Waiting& w : c.queue)
      if (!std::holds_alternative<ClosedLoop>(trace_.clients[i].arrivals))
        timeline_.record(RequestRecord{ClientId{i}, w.request, w.arrival, kNever, kNever, false, Time{}});
    if (!c.server) continue;
    for (SequenceRecord& left : c.server->unfinished()) {
      left.client = ClientId{i};
      timeline_.record(left);
    }
  }
}

}  // namespace corun
