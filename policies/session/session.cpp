#include "policies/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "traces/model/error.h"

namespace corun {
namespace {

constexpr std::uint64_t kSeldom = 1024;

template <class SizedDecision>
std::uint32_t ctas_of(const SizedDecision& decision) {
  return decision.ctas_per_sm.empty()
             ? decision.ctas
             : std::accumulate(decision.ctas_per_sm.begin(), decision.ctas_per_sm.end(), std::uint32_t{0});
}

}  // namespace

Session::Session(const Trace& trace, Policy& policy, Backend& backend, Timeline& timeline,
                 ProfileSource profiles)
    : Session(trace, policy, backend, timeline, std::move(profiles),
              Workload(trace, backend.topology().gpu, timeline)) {}

Session::Session(const Trace& trace, Policy& policy, Backend& backend, Timeline& timeline,
                 ProfileSource profiles, Workload begins)
    : trace_(trace),
      policy_(policy),
      backend_(backend),
      timeline_(timeline),
      profile_source_(std::move(profiles)),
      requires_(policy.requirements()),
      workload_(std::move(begins)),
      memory_(trace, backend.topology().gpu.memory_bytes) {
  if (!requires_.instances.empty())
    throw InputError("", "--policy",
                     fmt::format("policy {} divides the GPU, and a session has one", policy.name()),
                     "let a run make a session for each instance");
  const CapabilitySet missing = requires_.capabilities.without(backend.topology().capabilities);
  if (!missing.empty())
    throw InputError(
        "", "",
        fmt::format("policy {} needs {}, which this backend cannot do", policy.name(), missing.names()),
        "choose another policy or backend");
  Forecast* const forecast = requires_.forecast ? backend.forecast() : nullptr;
  if (requires_.forecast && forecast == nullptr)
    throw InputError("", "--policy",
                     fmt::format("policy {} needs a forecast, which this backend cannot give", policy.name()),
                     "choose another policy, or run it in the simulator");
  if (backend.takes_graphs() && !requires_.sees_kernels()) workload_.call_graphs_whole();
  for (std::uint32_t i = 0; i < trace.clients.size(); ++i) {
    if (i < requires_.waiting_hosts.size() && requires_.waiting_hosts[i]) workload_.wait_for_decisions(ClientId{i});
    const Program& program = trace.programs[trace.clients[i].program.value];
    const auto* loop = std::get_if<ClosedLoop>(&trace.clients[i].arrivals);
    const std::size_t ops = program.ops.size();
    clients_.push_back(
        {std::vector<StreamState>(program.streams.size()),
         std::vector<RequestState>(
             loop != nullptr ? loop->in_flight : 1,
             {std::vector<LaunchId>(ops), std::vector<bool>(ops), std::vector<bool>(ops)}),
         std::ranges::any_of(program.ops, [](const Op& op) { return std::holds_alternative<Copy>(op.what); }),
         trace.clients[i].memory_bytes != 0 || !program.buffers.empty()});
    client_views_.push_back({ClientId{i}, &trace.clients[i], 0, false});
    for (std::uint32_t s = 0; s < program.streams.size(); ++s) pending_.add_stream(ClientId{i}, StreamId{s});
  }
  profiles_.resize(trace.kernels.size());
  outcome_.failed.resize(trace.clients.size());
  if (forecast != nullptr) policy_.look_ahead(*forecast);
  policy_.start(backend.topology(), client_views_);
}

SessionOutcome Session::run(const std::function<void(Time)>& progress, const std::function<bool()>& stop) {
  std::vector<RequestArrived> arrived;
  std::vector<HostCall> calls;
  const Time end = trace_.run.duration.value_or(kNever);
  for (;;) {
    const Time now = backend_.now();
    arrived.clear();
    calls.clear();
    workload_.advance(now, arrived, calls);
    notices_.insert(notices_.end(), arrived.begin(), arrived.end());
    for (const HostCall& c : calls)
      if (outcome_.failed[c.client.value].empty()) call(c, now);
    if (wake_at_ <= now) {
      wake_at_ = kNever;
      notices_.push_back(WokeUp{});
    }
    const std::size_t told = notices_.size();  // applying decisions may bring BufferWanted
    give_back();
    if (!notices_.empty()) ask(now);
    give_back();
    for (const std::uint32_t slot : retired_) free_slots_.push_back(slot);
    retired_.clear();
    memory_.forget_released();
    gauge_memory(now);
    if (over(now)) break;

    notices_.erase(notices_.begin(), notices_.begin() + static_cast<std::ptrdiff_t>(told));
    const Time until = std::min({workload_.next_event(), wake_at_, end});
    if (until <= now || !notices_.empty()) continue;
    backend_.wait(until, notices_);
    if (notices_.empty() && memory_deadlock()) break;
    if (until == kNever && notices_.empty()) {
      if (!pending_.empty() || !running_.empty()) outcome_.stuck = why_stuck();
      break;
    }
    fold(backend_.now());
    if (++since_asked_ < kSeldom && !resumed_) continue;
    since_asked_ = 0;
    if (progress) progress(backend_.now());
    if (stop && stop()) {
      outcome_.stopped = true;
      break;
    }
  }
  for (const LaunchId id : running_)
    for (const GraphNode& node : graph_launches_[id.slot].nodes)
      if (backend_.node_ended(node.id)) workload_.worked(view(id).client, view(id).request, node.solo_time);
  outcome_.end = backend_.now();
  outcome_.memory_peak = memory_.peak();
  outcome_.checkpoints = memory_.checkpoints();
  outcome_.moved_bytes = memory_.moved_bytes();
  workload_.close();
  timeline_.flush();
  return outcome_;
}

bool Session::over(Time now) const {
  if (trace_.run.duration) return now >= *trace_.run.duration;
  return workload_.every_client_finished_once();
}

LaunchId Session::new_id() {
  LaunchId id{static_cast<std::uint32_t>(launches_.size()), next_serial_++};
  if (free_slots_.empty()) {
    launches_.emplace_back().state = LaunchState::finished;
    uses_.emplace_back();
    copy_waits_.push_back(false);
    graph_launches_.emplace_back();
    whole_.emplace_back();
  } else {
    id.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  return whole_[id.slot] = id;
}

LaunchView& Session::new_view(const HostCall& call, Time now) {
  const LaunchId id = new_id();
  LaunchView& l = view(id);
  l = LaunchView{};
  l.id = id;
  l.client = call.client;
  l.op = call.op;
  l.request = call.request;
  l.ready_at = now;
  return l;
}

void Session::call(const HostCall& call, Time now) {
  if (call.kind == HostCall::Kind::end_of_request) return request_ended(call.client, call.request);
  if (call.kind == HostCall::Kind::first_memory) return allocate(call, now);
  const Client& client = trace_.clients[call.client.value];
  const Program& program = trace_.programs[client.program.value];
  const Op& op = program.ops[call.op.value];
  ClientState& state = clients_[call.client.value];
  if (std::holds_alternative<Alloc>(op.what)) return allocate(call, now);
  if (const auto* freed = std::get_if<Free>(&op.what)) {
    if (const auto buffer = memory_.held(call.client, freed->buffer)) {
      const BufferId id = *buffer;
      const bool asked = memory_[id].place == BufferView::Place::asked;
      memory_.release(id);
      if (asked) withdraw({&id, 1});
    }
    return;
  }

  if (!call.graph.empty()) return call_graph(call, now);
  LaunchView& l = new_view(call, now);
  const LaunchId id = l.id;
  state.called = id;
  l.stream = op.stream;
  l.operation = &op;
  if (state.memory && !use(l, memory_.used_by(call.client, op))) return;
  for (OpId before : workload_.order(call.client).predecessors(call.op))
    l.waits_for += !state.request(call.request).ended[before.value];
  state.streams[op.stream.value].unsubmitted.push_back(id);
  state.request(call.request).launch_of_op[call.op.value] = id;
  state.request(call.request).called[call.op.value] = true;

  if (const auto* launch = std::get_if<corun::Launch>(&op.what)) {
    l.kernel_id = launch->kernel;
    l.kernel = &trace_.kernels[launch->kernel.value];
    l.solo_time = workload_.solo_time(call.client, call.op);
    if (requires_.profiles && profiles_[launch->kernel.value].empty())
      profiles_[launch->kernel.value] = profile_source_(launch->kernel);
    pending_.insert(l);
    notices_.push_back(LaunchReady{id});
  } else {
    submit_copies(call.client, now);
  }
}

void Session::call_graph(const HostCall& call, Time now) {
  const Client& client = trace_.clients[call.client.value];
  const Program& program = trace_.programs[client.program.value];
  ClientState& state = clients_[call.client.value];
  RequestState& request = state.request(call.request);
  const Graph& graph = graphs_.of(client.program, program, workload_.order(call.client), call.graph);
  const LaunchId id = new_view(call, now).id;
  state.called = id;
  std::vector<GraphNode> nodes = std::move(graph_launches_[id.slot].nodes);
  nodes.clear();
  std::vector<BufferId> uses;
  Time solo{};
  for (const OpId op : graph.ops) {
    GraphNode& node = nodes.emplace_back(GraphNode{nodes.empty() ? id : new_id(), op});
    if (std::holds_alternative<corun::Launch>(program.ops[op.value].what)) node.solo_time = workload_.solo_time(call.client, op);
    solo += node.solo_time;
    whole_[node.id.slot] = id;
    request.launch_of_op[op.value] = node.id;
    request.called[op.value] = true;
    if (state.memory) std::ranges::copy(memory_.used_by(call.client, program.ops[op.value]), std::back_inserter(uses));
  }
  graph_launches_[id.slot] = {&graph, std::move(nodes)};
  LaunchView& l = view(id);
  l.op = graph.leader;
  l.stream = graph.streams.front();
  l.operation = &program.ops[graph.leader.value];
  l.kernel = &graph.kernel;
  l.nodes = static_cast<std::uint32_t>(graph.ops.size());
  l.solo_time = solo;
  l.stoppable = l.sizable = false;
  std::ranges::sort(uses);
  uses.erase(std::ranges::unique(uses).begin(), uses.end());
  if (state.memory && !use(l, std::move(uses))) return;
  for (const OpId before : graph.before) l.waits_for += !request.ended[before.value];
  for (const StreamId stream : graph.streams) state.streams[stream.value].unsubmitted.push_back(id);
  pending_.insert(l);
  notices_.push_back(LaunchReady{id});
}

/// The launch is over, or never comes.
void Session::retire(LaunchView& l) {
  l.state = LaunchState::finished;
  if (l.nodes == 0) return retired_.push_back(l.id.slot);
  std::vector<GraphNode>& nodes = graph_launches_[l.id.slot].nodes;
  for (const GraphNode& node : nodes) retired_.push_back(node.id.slot);
  nodes.clear();
}

void Session::fold(Time now) {
  const std::size_t told = notices_.size();  // end() appends RequestFinished
  for (std::size_t i = 0; i < told; ++i) {
    const Notice notice = notices_[i];
    if (const auto* last = std::get_if<LastBlockStarted>(&notice)) {
      if (LaunchView& l = view(last->launch); l.state == LaunchState::submitted)
        l.state = LaunchState::draining;
    } else if (const auto* p = std::get_if<ProgressReported>(&notice)) {
      LaunchView& l = view(p->launch);
      if (l.id == p->launch && l.state != LaunchState::finished) {
        l.blocks_done = p->blocks_done;
        l.reported_at = p->as_of;
      }
    } else if (const auto* kernel = std::get_if<KernelFinished>(&notice)) {
      end(kernel->launch, now);
    } else if (const auto* copy = std::get_if<CopyFinished>(&notice)) {
      end(copy->launch, now);
    } else if (const auto* preempted = std::get_if<Preempted>(&notice)) {
      take_back(*preempted);
    } else if (const auto* moved = std::get_if<BufferMoved>(&notice)) {
      memory_.moved(moved->buffer);
    } else if (const auto* gone = std::get_if<ClientLost>(&notice)) {
      lose(gone->client);
    }
  }
  for (std::size_t i = 0; i < told; ++i)
    if (const auto* moved = std::get_if<BufferMoved>(&notices_[i]))
      submit_copies(memory_[moved->buffer].client, now);
  // Copies that came off with launches go again when their turn comes.
  for (std::size_t i = 0; i < told; ++i) {
    if (const auto* preempted = std::get_if<Preempted>(&notices_[i]))
      submit_copies(view(preempted->launch).client, now);
    if (const auto* kernel = std::get_if<KernelFinished>(&notices_[i]))
      submit_copies(view(kernel->launch).client, now);
  }
  for (std::uint32_t i = 0; i < clients_.size(); ++i)
    if (clients_[i].held) submit_copies(ClientId{i}, now);
}

/// It waits for the policy again, at its old place in its stream.
void Session::take_back(const Preempted& preempted) {
  LaunchView& l = view(preempted.launch);
  if (l.state == LaunchState::stopping) --stream_of(l).stopping;
  l.state = LaunchState::pending;
  l.blocks_done = preempted.blocks_done;
  l.ctas = 0;
  running_.erase(l.id);
  if (l.kernel) pending_.went(l);
  memory_.end_use(l.uses);
  if (!outcome_.failed[l.client.value].empty()) return drop(l.id);
  const auto by_serial = [](LaunchId a, LaunchId b) { return a.serial < b.serial; };
  auto& unsubmitted = clients_[l.client.value].streams[l.stream.value].unsubmitted;
  unsubmitted.insert(std::upper_bound(unsubmitted.begin(), unsubmitted.end(), l.id, by_serial), l.id);
  if (l.kernel) pending_.insert(l);
}

/// Its launches have ended, whatever became of them, and no request of it will.
void Session::lose(ClientId client) {
  running_.erase_if([&](LaunchId id) {
    LaunchView& l = view(id);
    if (l.client != client) return false;
    if (l.state == LaunchState::stopping) --stream_of(l).stopping;
    if (l.kernel) pending_.went(l);
    retire(l);
    memory_.end_use(l.uses);
    return true;
  });
  if (outcome_.failed[client.value].empty()) fail(client, "its process failed or was killed");
}

void Session::end(LaunchId id, Time now) {
  LaunchView& l = view(id);
  if (l.state == LaunchState::stopping) --stream_of(l).stopping;
  running_.erase(id);
  if (l.kernel) pending_.went(l);
  RequestState& request = clients_[l.client.value].request(l.request);
  std::span<const OpId> successors = workload_.order(l.client).successors(l.op);
  if (l.nodes == 0) {
    request.ended[l.op.value] = true;
  } else {
    const Graph& graph = *graph_launches_[id.slot].graph;
    since_asked_ += l.nodes;
    for (const OpId op : graph.ops) request.ended[op.value] = true;
    successors = graph.after;
  }
  for (OpId after : successors) {
    if (!request.called[after.value]) continue;
    LaunchView& next = view(whole_[request.launch_of_op[after.value].slot]);
    if (--next.waits_for == 0) next.unblocked_at = now;
  }
  pending_.ended(l, now);
  retire(l);
  memory_.end_use(l.uses);
  if (workload_.finished(l.client, l.request, now, l.solo_time)) request_ended(l.client, l.request);
}


/// Node by node, as the host hands the graph over.
Outcome Session::launch_graph(const decide::Launch& launch, const LaunchView& l) {
  GraphLaunch& of = graph_launches_[l.id.slot];
  if (!of.graph->has_events) return backend_.graph(launch, l, of.nodes);
  const RequestState& request = clients_[l.client.value].request(l.request);
  of.follows.assign(of.nodes.size(), {});
  for (std::size_t i = 0; i < of.nodes.size(); ++i) {
    for (const OpId op : workload_.order(l.client).follows(of.nodes[i].op))
      if (request.called[op.value] && !request.ended[op.value]) of.follows[i].push_back(request.launch_of_op[op.value]);
    of.nodes[i].follows = of.follows[i];
  }
  return backend_.graph(launch, l, of.nodes);
}

void Session::request_ended(ClientId client, std::uint64_t request) {
  notices_.push_back(RequestFinished{client, request});
  RequestState& state = clients_[client.value].request(request);
  std::fill(state.called.begin(), state.called.end(), false);
  std::fill(state.ended.begin(), state.ended.end(), false);
  withdraw(memory_.end_request(client));
}

void Session::ask(Time now) {
  for (ClientView& c : client_views_) workload_.show(c, now);
  decisions_.clear();
  policy_.decide(Snapshot{now, notices_, client_views_, launches_, pending_.all(), running_, profiles_, allocating_,
                          memory_.buffers(), memory_.used(), pending_.streams()},
                 decisions_);
  for (const Decision& decision : decisions_) {
    ++outcome_.decisions;
    hold_to_requirements(decision);
    // A refused launch leaves those behind it in its stream pending, all refused at each instant: without a word.
    if (const auto* launch = std::get_if<decide::Launch>(&decision);
        launch != nullptr && not_launchable(launch->launch) != nullptr) {
      ++outcome_.refusals;
      continue;
    }
    if (std::holds_alternative<Refused>(apply(decision, now))) ++outcome_.refusals;
  }
  if (audit_) memory_.audit();
  if (timeline_.wants_gauges() && pending_.size() != gauged_pending_) {
    gauged_pending_ = pending_.size();
    timeline_.record(GaugeRecord{Gauge::pending_launches, now, static_cast<double>(gauged_pending_)});
  }
}

/// A backend may have prepared for nothing else.
void Session::hold_to_requirements(const Decision& decision) const {
  const auto needs = [this](Capability capability) {
    if (!requires_.capabilities.has(capability))
      throw InputError("", "--policy", fmt::format("policy {} decided what needs {}, which it does not require", policy_.name(), to_string(capability)),
                       "let its requirements name it");
  };
  if (const auto* launch = std::get_if<decide::Launch>(&decision)) {
    if (launch->priority != 0) needs(Capability::priority);
    if (launch->tpc_mask) needs(Capability::tpc_mask);
    if (!launch->ctas_per_sm.empty()) needs(Capability::sm_quota);
    else if (launch->ctas != 0) needs(Capability::cta_quota);
  } else if (const auto* resize = std::get_if<decide::Resize>(&decision)) {
    needs(resize->ctas_per_sm.empty() ? Capability::cta_quota : Capability::sm_quota);
  } else if (const auto* preempt = std::get_if<decide::Preempt>(&decision)) {
    needs(preempt->how == decide::Stop::reset ? Capability::preempt_reset : Capability::preempt_at_block);
  } else if (std::holds_alternative<decide::Query>(decision)) {
    needs(Capability::progress);
  } else if (std::holds_alternative<decide::LaunchPadded>(decision)) {
    needs(Capability::padding);
  } else if (std::holds_alternative<decide::Checkpoint>(decision) || std::holds_alternative<decide::Restore>(decision)) {
    needs(Capability::memory_swap);
  }
}

Outcome Session::apply(const Decision& decision, Time now) {
  if (const auto* wake = std::get_if<decide::WakeAt>(&decision)) {
    if (wake->at <= now) return Refused{"WakeAt a time that is not in the future"};
    wake_at_ = std::min(wake_at_, wake->at);
    return Applied{};
  }
  if (const auto* launch = std::get_if<decide::Launch>(&decision)) {  // which can be launched
    LaunchView& l = view(launch->launch);
    l.ctas = l.nodes != 0 ? 0 : ctas_of(*launch);
    l.priority = launch->priority;
    l.tpc_mask = launch->tpc_mask;
    const Outcome outcome = l.nodes != 0 ? launch_graph({launch->launch, launch->priority, launch->tpc_mask}, l) : backend_.apply(decision, l, unfinished_follows(l));
    if (std::holds_alternative<Refused>(outcome))
      l.ctas = 0, hold_caller(l, outcome);
    else
      submitted(l, now);
    return outcome;
  }
  if (const auto* padded = std::get_if<decide::LaunchPadded>(&decision)) return submit(*padded, now);
  if (const auto* preempt = std::get_if<decide::Preempt>(&decision)) return preempt_launch(*preempt);
  if (const auto* allocate = std::get_if<decide::Allocate>(&decision)) return grant(*allocate, now);
  if (const auto* checkpoint = std::get_if<decide::Checkpoint>(&decision)) return move(*checkpoint);
  if (const auto* restore = std::get_if<decide::Restore>(&decision)) return move(*restore);
  const LaunchId id = std::visit(
      [](const auto& d) -> LaunchId {
        if constexpr (requires { d.launch; })
          return d.launch;
        else
          return {};
      },
      decision);
  if (id.slot >= launches_.size() || view(id).id != id) return Refused{"no such launch"};
  LaunchView& l = view(id);
  if (l.state == LaunchState::pending || l.state == LaunchState::finished)
    return Refused{"the launch is not running"};
  if (l.nodes != 0) return Refused{"a graph has neither a size nor a number of blocks done"};
  const Outcome outcome = backend_.apply(decision, l, {});
  if (const auto* resize = std::get_if<decide::Resize>(&decision);
      resize && std::holds_alternative<Applied>(outcome))
    l.ctas = ctas_of(*resize);
  return outcome;
}

/// Why a launch cannot be handed to the backend now, if so; else null.
const char* Session::not_launchable(LaunchId id) const {
  if (id.slot >= launches_.size() || launches_[id.slot].id != id || !launches_[id.slot].kernel)
    return "no such launch";
  const LaunchView& l = launches_[id.slot];
  if (l.state != LaunchState::pending) return "already launched";
  const auto streams = l.nodes == 0 ? std::span(&l.stream, 1) : std::span<const StreamId>(graph_launches_[id.slot].graph->streams);
  for (const StreamId s : streams) {
    const StreamState& stream = clients_[l.client.value].streams[s.value];
    if (stream.unsubmitted.front() != l.id) return "an earlier operation of its stream has not been launched";
    if (stream.stopping != 0) return "an earlier operation of its stream is coming off the GPU";
  }
  if (!follows_submitted(l)) return "an operation that it waits for has not been launched";
  if (memory_.absent(l.uses)) return "a buffer that it uses is not on the device";
  return nullptr;
}

void Session::submitted(LaunchView& l, Time now) {
  l.state = LaunchState::submitted;
  l.submitted_at = now;
  pending_.erase(l);
  pending_.came(l);
  running_.push_back(l.id);
  memory_.begin_use(l.uses, true, now);
  if (l.nodes == 0)
    stream_of(l).unsubmitted.pop_front();
  else
    for (const StreamId s : graph_launches_[l.id.slot].graph->streams) clients_[l.client.value].streams[s.value].unsubmitted.pop_front();
  let_caller_go(l, now);
  submit_copies(l.client, now);
}

/// A full channel holds the thread in its call.  One that has gone on, as the policy decided later, is not called back.
void Session::hold_caller(const LaunchView& l, const Outcome& outcome) {
  ClientState& client = clients_[l.client.value];
  if (!std::get<Refused>(outcome).no_room || client.called != l.id || client.held) return;
  client.held = l.id;
  workload_.stay_in_call(l.client);
}

void Session::let_caller_go(const LaunchView& l, Time now) {
  ClientState& client = clients_[l.client.value];
  if (client.held && client.held != l.id) return;
  if (client.held || l.kernel != nullptr) workload_.decided(l.client, now);
  client.held.reset();
}

Outcome Session::submit(const decide::LaunchPadded& padded, Time now) {
  for (const LaunchId id : {padded.launch, padded.padding})
    if (const char* why = not_launchable(id)) return Refused{why};
  LaunchView &l = view(padded.launch), &padding = view(padded.padding);
  if (l.nodes != 0 || padding.nodes != 0) return Refused{"a graph is not padded"};
  if (l.client == padding.client) return Refused{"a launch is padded with another client's"};
  if (padding.waits_for != 0) return Refused{"the padding waits for something unfinished"};
  const Outcome outcome = backend_.pad(padded, l, padding, unfinished_follows(l));
  if (std::holds_alternative<Refused>(outcome)) return outcome;
  l.priority = padding.priority = padded.priority;
  submitted(l, now);
  // It may come off with blocks left: until that is known, nothing goes behind it.
  ++stream_of(padding).stopping;
  submitted(padding, now);
  padding.state = LaunchState::stopping;
  return outcome;
}

Outcome Session::preempt_launch(const decide::Preempt& preempt) {
  if (preempt.launch.slot >= launches_.size() || view(preempt.launch).id != preempt.launch)
    return Refused{"no such launch"};
  LaunchView& l = view(preempt.launch);
  if (l.state != LaunchState::submitted && l.state != LaunchState::draining)
    return Refused{"the launch is not running"};
  // What is behind it in its stream, what waits for any of that, and so on: none of it could go on.
  std::vector<LaunchId> off{l.id};
  const auto comes_off = [&](LaunchId id) {
    const LaunchView& other = view(id);
    if (other.client != l.client || other.state == LaunchState::stopping) return false;
    const std::vector<LaunchId> follows = unfinished_follows(other);
    return std::any_of(off.begin(), off.end(), [&](LaunchId before) {
      return (view(before).stream == other.stream && before.serial < id.serial) ||
             std::find(follows.begin(), follows.end(), before) != follows.end();
    });
  };
  for (std::size_t before = 0; before != off.size();) {
    before = off.size();
    for (LaunchId id : running_)
      if (std::find(off.begin(), off.end(), id) == off.end() && comes_off(id)) off.push_back(id);
  }
  if (std::ranges::any_of(off, [this](LaunchId id) { return is_graph(id); })) return Refused{"a graph runs to its end"};
  const std::vector<LaunchId> behind(off.begin() + 1, off.end());
  const Outcome outcome = backend_.apply(preempt, l, behind);
  if (std::holds_alternative<Refused>(outcome)) return outcome;
  l.state = LaunchState::stopping;
  for (LaunchId id : behind) view(id).state = LaunchState::stopping;
  for (LaunchId id : off) ++stream_of(view(id)).stopping;
  return outcome;
}

/// Copies wait for no decision: each goes as soon as its place in its stream and the launches that it follows
/// allow.
void Session::submit_copies(ClientId client, Time now) {
  if (!clients_[client.value].copies) return;
  for (bool more = true; more;) {
    more = false;
    for (StreamState& stream : clients_[client.value].streams) {
      auto& unsubmitted = stream.unsubmitted;
      while (!unsubmitted.empty() && !view(unsubmitted.front()).kernel && stream.stopping == 0) {
        LaunchView& l = view(unsubmitted.front());
        if (!follows_submitted(l) || waits_for_memory(l)) break;
        if (const Outcome outcome = backend_.copy(l, unfinished_follows(l)); std::holds_alternative<Refused>(outcome)) {
          hold_caller(l, outcome);
          break;
        }
        let_caller_go(l, now);
        memory_.begin_use(l.uses, false, now);
        l.state = LaunchState::submitted;
        l.submitted_at = now;
        running_.push_back(l.id);
        unsubmitted.pop_front();
        more = true;  // another stream's copy may follow this one
      }
    }
  }
}

std::vector<LaunchId> Session::unfinished_follows(const LaunchView& launch) const {
  std::vector<LaunchId> unfinished;
  const RequestState& request = clients_[launch.client.value].request(launch.request);
  for (OpId op : workload_.order(launch.client).follows(launch.op))
    if (request.called[op.value] && !request.ended[op.value])
      unfinished.push_back(request.launch_of_op[op.value]);
  return unfinished;
}

bool Session::follows_submitted(const LaunchView& launch) const {
  // One that is stopping may come off: what is launched meanwhile could stand before it in a hardware
  // channel.
  const RequestState& request = clients_[launch.client.value].request(launch.request);
  const std::span<const OpId> follows =
      launch.nodes != 0 ? std::span<const OpId>(graph_launches_[launch.id.slot].graph->events) : workload_.order(launch.client).follows(launch.op);
  for (OpId op : follows) {
    if (!request.called[op.value] || request.ended[op.value]) continue;
    if (const LaunchState state = launches_[whole_[request.launch_of_op[op.value].slot].slot].state;
        state == LaunchState::pending || state == LaunchState::stopping)
      return false;
  }
  return true;
}

std::string Session::why_stuck() const {
  std::string text;
  for (LaunchId id : pending_.all()) {
    const LaunchView& l = launches_[id.slot];
    text += fmt::format("{}client {} waits for the policy to launch {}", text.empty() ? "" : "; ",
                        trace_.clients[l.client.value].name, l.kernel->name);
  }
  for (LaunchId id : running_) {
    const LaunchView& l = launches_[id.slot];
    text += fmt::format("{}client {} waits for {} to end", text.empty() ? "" : "; ",
                        trace_.clients[l.client.value].name, l.kernel ? l.kernel->name : "a copy");
  }
  return text;
}

}  // namespace corun
