#include "policies/session/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/model/error.h"

namespace corun {

Session::Session(const Trace& trace, Policy& policy, Backend& backend, Timeline& timeline,
                 ProfileSource profiles)
    : trace_(trace),
      policy_(policy),
      backend_(backend),
      timeline_(timeline),
      profile_source_(std::move(profiles)),
      requires_(policy.requirements()),
      workload_(trace, backend.topology().gpu, timeline) {
  const CapabilitySet missing = requires_.capabilities.without(backend.topology().capabilities);
  if (!missing.empty())
    throw InputError(
        "", "",
        fmt::format("policy {} needs {}, which this backend cannot do", policy.name(), missing.names()),
        "choose another policy or backend");
  for (std::uint32_t i = 0; i < trace.clients.size(); ++i) {
    const Program& program = trace.programs[trace.clients[i].program.value];
    clients_.push_back({std::vector<StreamState>(program.streams.size()),
                        std::vector<LaunchId>(program.ops.size()), std::vector<bool>(program.ops.size()),
                        std::vector<bool>(program.ops.size())});
    client_views_.push_back({ClientId{i}, &trace.clients[i], 0, false});
  }
  profiles_.resize(trace.kernels.size());
  policy_.start(backend.topology(), client_views_);
}

SessionOutcome Session::run(const std::function<void(Time)>& progress) {
  std::vector<RequestArrived> arrived;
  std::vector<HostCall> calls;
  const Time end = trace_.run.duration.value_or(kNever);
  std::uint64_t instants = 0;
  for (;;) {
    const Time now = backend_.now();
    arrived.clear();
    calls.clear();
    workload_.advance(now, arrived, calls);
    notices_.insert(notices_.end(), arrived.begin(), arrived.end());
    for (const HostCall& c : calls) call(c, now);
    if (wake_at_ <= now) {
      wake_at_ = kNever;
      notices_.push_back(WokeUp{});
    }
    if (!notices_.empty()) ask(now);
    free_slots_.insert(free_slots_.end(), retired_.begin(), retired_.end());
    retired_.clear();
    if (over(now)) break;

    notices_.clear();
    const Time until = std::min({workload_.next_event(), wake_at_, end});
    if (until <= now) continue;
    backend_.wait(until, notices_);
    if (until == kNever && notices_.empty()) {
      if (!pending_.empty() || !running_.empty()) outcome_.stuck = why_stuck();
      break;
    }
    fold(backend_.now());
    if (progress && ++instants % 1024 == 0) progress(backend_.now());
  }
  outcome_.end = backend_.now();
  workload_.close();
  timeline_.flush();
  return outcome_;
}

bool Session::over(Time now) const {
  if (trace_.run.duration) return now >= *trace_.run.duration;
  return workload_.every_client_finished_once();
}

void Session::call(const HostCall& call, Time now) {
  const Client& client = trace_.clients[call.client.value];
  const Program& program = trace_.programs[client.program.value];
  const Op& op = program.ops[call.op.value];
  ClientState& state = clients_[call.client.value];

  LaunchId id{static_cast<std::uint32_t>(launches_.size()), next_serial_++};
  if (free_slots_.empty()) {
    launches_.emplace_back();
  } else {
    id.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  LaunchView& l = view(id);
  l = LaunchView{};
  l.id = id;
  l.client = call.client;
  l.stream = op.stream;
  l.op = call.op;
  l.request = call.request;
  l.operation = &op;
  l.ready_at = now;
  for (OpId before : workload_.graph(call.client).predecessors(call.op))
    l.waits_for += !state.ended[before.value];
  state.streams[op.stream.value].unsubmitted.push_back(id);
  state.launch_of_op[call.op.value] = id;
  state.called[call.op.value] = true;

  if (const auto* launch = std::get_if<corun::Launch>(&op.what)) {
    l.kernel_id = launch->kernel;
    l.kernel = &trace_.kernels[launch->kernel.value];
    l.solo_time = launch->solo_time ? *launch->solo_time : l.kernel->solo_time.value_or(Time{});
    if (requires_.profiles && profiles_[launch->kernel.value].empty())
      profiles_[launch->kernel.value] = profile_source_(launch->kernel);
    pending_.push_back(id);
    notices_.push_back(LaunchReady{id});
  } else {
    submit_copies(call.client, now);
  }
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
    }
  }
  // Copies that came off with launches go again when their turn comes.
  for (std::size_t i = 0; i < told; ++i)
    if (const auto* preempted = std::get_if<Preempted>(&notices_[i]))
      submit_copies(view(preempted->launch).client, now);
}

/// It waits for the policy again, at its old place in its stream.
void Session::take_back(const Preempted& preempted) {
  LaunchView& l = view(preempted.launch);
  l.state = LaunchState::pending;
  l.blocks_done = preempted.blocks_done;
  l.ctas = 0;
  running_.erase(std::find(running_.begin(), running_.end(), l.id));
  const auto by_serial = [](LaunchId a, LaunchId b) { return a.serial < b.serial; };
  auto& unsubmitted = clients_[l.client.value].streams[l.stream.value].unsubmitted;
  unsubmitted.insert(std::upper_bound(unsubmitted.begin(), unsubmitted.end(), l.id, by_serial), l.id);
  if (l.kernel) pending_.insert(std::upper_bound(pending_.begin(), pending_.end(), l.id, by_serial), l.id);
}

void Session::end(LaunchId id, Time now) {
  LaunchView& l = view(id);
  l.state = LaunchState::finished;
  running_.erase(std::find(running_.begin(), running_.end(), id));
  ClientState& client = clients_[l.client.value];
  client.ended[l.op.value] = true;
  for (OpId after : workload_.graph(l.client).successors(l.op))
    if (client.called[after.value]) --view(client.launch_of_op[after.value]).waits_for;
  retired_.push_back(id.slot);
  if (workload_.finished(l.client, now, l.solo_time)) {
    notices_.push_back(RequestFinished{l.client, l.request});
    std::fill(client.called.begin(), client.called.end(), false);
    std::fill(client.ended.begin(), client.ended.end(), false);
  }
}

void Session::ask(Time now) {
  for (ClientView& c : client_views_) {
    c.requests_waiting = workload_.waiting(c.id);
    c.busy = workload_.busy(c.id);
  }
  decisions_.clear();
  policy_.decide(Snapshot{now, notices_, client_views_, launches_, pending_, running_, profiles_},
                 decisions_);
  for (const Decision& decision : decisions_) {
    ++outcome_.decisions;
    if (std::holds_alternative<Refused>(apply(decision, now))) ++outcome_.refusals;
  }
  std::erase_if(pending_, [&](LaunchId id) { return view(id).state != LaunchState::pending; });
  if (timeline_.wants_gauges() && pending_.size() != gauged_pending_) {
    gauged_pending_ = pending_.size();
    timeline_.record(GaugeRecord{Gauge::pending_launches, now, static_cast<double>(gauged_pending_)});
  }
}

Outcome Session::apply(const Decision& decision, Time now) {
  if (const auto* wake = std::get_if<decide::WakeAt>(&decision)) {
    if (wake->at <= now) return Refused{"WakeAt a time that is not in the future"};
    wake_at_ = std::min(wake_at_, wake->at);
    return Applied{};
  }
  if (const auto* launch = std::get_if<decide::Launch>(&decision)) {
    if (const auto why = not_launchable(launch->launch)) return Refused{*why};
    LaunchView& l = view(launch->launch);
    l.ctas = launch->ctas;
    const Outcome outcome = backend_.apply(decision, l, unfinished_follows(l));
    if (std::holds_alternative<Refused>(outcome))
      l.ctas = 0;
    else
      submitted(l, now);
    return outcome;
  }
  if (const auto* padded = std::get_if<decide::LaunchPadded>(&decision)) return submit(*padded, now);
  if (const auto* preempt = std::get_if<decide::Preempt>(&decision)) return preempt_launch(*preempt);
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
  const Outcome outcome = backend_.apply(decision, l, {});
  if (const auto* resize = std::get_if<decide::Resize>(&decision);
      resize && std::holds_alternative<Applied>(outcome))
    l.ctas = resize->ctas;
  return outcome;
}

/// Why a launch cannot be handed to the backend now, if so.
std::optional<std::string> Session::not_launchable(LaunchId id) const {
  if (id.slot >= launches_.size() || launches_[id.slot].id != id || !launches_[id.slot].kernel)
    return "no such launch";
  const LaunchView& l = launches_[id.slot];
  if (l.state != LaunchState::pending) return "already launched";
  if (clients_[l.client.value].streams[l.stream.value].unsubmitted.front() != l.id)
    return "an earlier operation of its stream has not been launched";
  if (!follows_submitted(l)) return "an operation that it waits for has not been launched";
  return std::nullopt;
}

void Session::submitted(LaunchView& l, Time now) {
  l.state = LaunchState::submitted;
  l.submitted_at = now;
  running_.push_back(l.id);
  clients_[l.client.value].streams[l.stream.value].unsubmitted.pop_front();
  submit_copies(l.client, now);
}

Outcome Session::submit(const decide::LaunchPadded& padded, Time now) {
  for (const LaunchId id : {padded.launch, padded.padding})
    if (const auto why = not_launchable(id)) return Refused{*why};
  LaunchView &l = view(padded.launch), &padding = view(padded.padding);
  if (l.client == padding.client) return Refused{"a launch is padded with another client's"};
  if (padding.waits_for != 0) return Refused{"the padding waits for something unfinished"};
  const Outcome outcome = backend_.apply(padded, l, unfinished_follows(l));
  if (std::holds_alternative<Refused>(outcome)) return outcome;
  submitted(l, now);
  submitted(padding, now);
  return outcome;
}

Outcome Session::preempt_launch(const decide::Preempt& preempt) {
  if (preempt.launch.slot >= launches_.size() || view(preempt.launch).id != preempt.launch)
    return Refused{"no such launch"};
  LaunchView& l = view(preempt.launch);
  if (l.state != LaunchState::submitted && l.state != LaunchState::draining)
    return Refused{"the launch is not running"};
  std::vector<LaunchId> behind;
  for (LaunchId id : running_)
    if (const LaunchView& other = view(id); other.client == l.client && other.stream == l.stream &&
                                            id.serial > l.id.serial && other.state != LaunchState::stopping)
      behind.push_back(id);
  const Outcome outcome = backend_.apply(preempt, l, behind);
  if (std::holds_alternative<Refused>(outcome)) return outcome;
  l.state = LaunchState::stopping;
  for (LaunchId id : behind) view(id).state = LaunchState::stopping;
  return outcome;
}

/// Copies wait for no decision: each goes as soon as its place in its stream and the launches that it follows
/// allow.
void Session::submit_copies(ClientId client, Time now) {
  for (bool more = true; more;) {
    more = false;
    for (StreamState& stream : clients_[client.value].streams) {
      auto& unsubmitted = stream.unsubmitted;
      while (!unsubmitted.empty() && !view(unsubmitted.front()).kernel) {
        LaunchView& l = view(unsubmitted.front());
        if (!follows_submitted(l) || std::holds_alternative<Refused>(backend_.copy(l, unfinished_follows(l))))
          break;
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
  const ClientState& client = clients_[launch.client.value];
  for (OpId op : workload_.graph(launch.client).follows(launch.op))
    if (client.called[op.value] && !client.ended[op.value])
      unfinished.push_back(client.launch_of_op[op.value]);
  return unfinished;
}

bool Session::follows_submitted(const LaunchView& launch) const {
  for (LaunchId other : unfinished_follows(launch))
    if (launches_[other.slot].state == LaunchState::pending) return false;  // stopping: it may end yet
  return true;
}

std::string Session::why_stuck() const {
  std::string text;
  for (LaunchId id : pending_) {
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
