// The session's part in device memory: clients ask, the policy grants and moves, what uses a buffer waits
// until it is on the device, and a client that gets none ends with "out of memory".
#include <fmt/format.h>

#include <algorithm>

#include "policies/session/session.h"

namespace corun {
namespace {

bool swaps(const Requirements& needed) { return needed.capabilities.has(Capability::memory_swap); }

}  // namespace

/// False: more than the GPU has, and the client has failed.
bool Session::use(LaunchView& launch, std::vector<BufferId> buffers) {
  uses_[launch.id.slot] = std::move(buffers);
  launch.uses = uses_[launch.id.slot];
  if (!requires_.deferred_memory) return true;
  std::uint64_t bytes = 0;
  for (BufferId id : launch.uses) bytes += memory_[id].bytes;
  if (bytes <= memory_.capacity()) return true;
  retire(launch);
  fail(launch.client, fmt::format("out of memory: one operation uses {}, and the GPU has {}", in_bytes(bytes),
                                  in_bytes(memory_.capacity())));
  return false;
}

void Session::allocate(const HostCall& call, Time now) {
  give_back();
  const Client& client = trace_.clients[call.client.value];
  std::optional<std::uint32_t> buffer;
  std::uint64_t bytes = client.memory_bytes;
  const Op* op = nullptr;
  if (call.kind == HostCall::Kind::operation) {
    op = &trace_.programs[client.program.value].ops[call.op.value];
    buffer = std::get<Alloc>(op->what).buffer;
    bytes = std::get<Alloc>(op->what).bytes;
  }
  // What can never be had fails at once, whatever the policy.
  const std::uint64_t own = swaps(requires_) ? 0 : memory_.held_bytes(call.client);
  const bool never = bytes > memory_.capacity() - std::min(own, memory_.capacity());
  const bool refused = !requires_.memory && bytes > memory_.capacity() - memory_.used();
  if (never || refused)
    return fail(call.client,
                fmt::format("out of memory: it asks for {}, and {} of {} are free", in_bytes(bytes),
                            in_bytes(memory_.capacity() - memory_.used()), in_bytes(memory_.capacity())));
  const BufferId id = memory_.ask(call.client, buffer, bytes, now);
  if (!requires_.memory) {
    LaunchView what;
    what.client = call.client;
    what.operation = op;
    what.bytes = bytes;
    what.uses = {&id, 1};
    if (const Outcome outcome = backend_.apply(decide::Allocate{}, what, {});
        std::holds_alternative<Refused>(outcome))
      return fail(call.client, std::get<Refused>(outcome).reason);
    memory_.grant(id);
    return workload_.allocated(call.client, now);
  }
  LaunchView& l = new_view(call, now);
  l.operation = op;
  l.bytes = bytes;
  uses_[l.id.slot] = {id};
  l.uses = uses_[l.id.slot];
  allocating_.push_back(l.id);
  notices_.push_back(AllocationReady{l.id});
  if (requires_.deferred_memory) workload_.allocated(call.client, now);
}

Outcome Session::grant(const decide::Allocate& allocate, Time now) {
  const LaunchId id = allocate.allocation;
  const auto asked = std::find(allocating_.begin(), allocating_.end(), id);
  if (asked == allocating_.end()) return Refused{"no such allocation"};
  LaunchView& l = view(id);
  const BufferId buffer = l.uses.front();
  if (!memory_.fits(buffer)) return Refused{"it does not fit the free device memory"};
  const Outcome outcome = backend_.apply(allocate, l, {});
  if (std::holds_alternative<Refused>(outcome)) return outcome;
  memory_.grant(buffer);
  allocating_.erase(asked);
  l.state = LaunchState::finished;
  retired_.push_back(id.slot);
  if (!requires_.deferred_memory) workload_.allocated(l.client, now);
  submit_copies(l.client, now);
  return outcome;
}

template <class Move>
Outcome Session::move(const Move& move) {
  if (!swaps(requires_)) return Refused{"the policy did not say that it moves memory"};
  if (std::string why = memory_.why_not(move); !why.empty()) return Refused{std::move(why)};
  const BufferView& buffer = memory_[move.buffer];
  LaunchView what;
  what.client = buffer.client;
  what.bytes = buffer.bytes;
  const Outcome outcome = backend_.apply(move, what, {});
  if (std::holds_alternative<Applied>(outcome)) memory_.begin(move);
  return outcome;
}
template Outcome Session::move(const decide::Checkpoint&);
template Outcome Session::move(const decide::Restore&);

/// Whether the copy must wait for a buffer; the policy is told once.
bool Session::waits_for_memory(LaunchView& copy) {
  const bool absent = memory_.absent(copy.uses);
  if (absent == copy_waits_[copy.id.slot]) return absent;
  copy_waits_[copy.id.slot] = absent;
  memory_.wait_for(copy.uses, absent ? 1 : -1);
  if (absent)
    for (BufferId id : copy.uses)
      if (memory_.absent({&id, 1})) notices_.push_back(BufferWanted{id});
  return absent;
}

/// What is nobody's any more, the backend takes.
void Session::give_back() {
  for (BufferId id : memory_.take_vacated()) backend_.freed(id);
}

/// It has not been launched and never will be.
void Session::drop(LaunchId id) {
  LaunchView& l = view(id);
  if (copy_waits_[id.slot]) memory_.wait_for(l.uses, -1);
  if (l.state == LaunchState::finished) return;  // a graph, which is in several streams
  copy_waits_[id.slot] = false;
  std::vector<bool>& called = clients_[l.client.value].request(l.request).called;
  if (l.nodes == 0) called[l.op.value] = false;
  for (const GraphNode& node : graph_launches_[id.slot].nodes) called[node.op.value] = false;
  retire(l);
  if (l.kernel) pending_.erase(l);
}

void Session::withdraw(std::span<const BufferId> asked) {
  std::erase_if(allocating_, [&](LaunchId id) {
    if (std::find(asked.begin(), asked.end(), view(id).uses.front()) == asked.end()) return false;
    view(id).state = LaunchState::finished;
    retired_.push_back(id.slot);
    return true;
  });
}

/// What the client has on the GPU still ends; nothing more follows, and its memory is given back.
void Session::fail(ClientId client, std::string reason) {
  outcome_.failed[client.value] = std::move(reason);
  workload_.fail(client);
  for (StreamState& stream : clients_[client.value].streams) {
    for (LaunchId id : stream.unsubmitted) drop(id);
    stream.unsubmitted.clear();
  }
  withdraw(memory_.end_client(client));
}

void Session::gauge_memory(Time now) {
  if (memory_.used() == gauged_memory_ || !timeline_.wants_gauges()) return;
  gauged_memory_ = memory_.used();
  timeline_.record(GaugeRecord{Gauge::device_memory, now, static_cast<double>(gauged_memory_)});
}

/// Nothing runs, moves or comes, and someone waits for memory.
bool Session::memory_deadlock() {
  if (workload_.next_event() != kNever || wake_at_ != kNever || !running_.empty() || memory_.moving())
    return false;
  std::vector<std::uint64_t> wanted(trace_.clients.size());
  for (LaunchId id : allocating_) wanted[view(id).client.value] += view(id).bytes;
  for (const LaunchView& l : launches_)
    if (l.state == LaunchState::pending && l.operation != nullptr && !l.uses.empty() && l.bytes == 0)
      for (BufferId id : l.uses)
        if (memory_[id].place == BufferView::Place::host)
          wanted[l.client.value] = std::max(wanted[l.client.value], memory_[id].bytes);
  std::string text, cycle;
  std::uint32_t waiting = 0;
  for (std::uint32_t i = 0; i < wanted.size(); ++i) {
    const std::uint64_t held = memory_.held_bytes(ClientId{i});
    if (held == 0 && wanted[i] == 0) continue;
    const std::string& name = trace_.clients[i].name;
    text += fmt::format("{} holds {}", name, in_bytes(held));
    if (wanted[i] != 0) {
      text += fmt::format(" and waits for {}", in_bytes(wanted[i]));
      outcome_.failed[i] =
          fmt::format("deadlock: it holds {} and waits for {}", in_bytes(held), in_bytes(wanted[i]));
      ++waiting;
      if (held != 0) cycle += name + " -> ";
    }
    text += "; ";
  }
  if (waiting == 0) return false;
  text += fmt::format("{} of {} are free", in_bytes(memory_.capacity() - memory_.used()),
                      in_bytes(memory_.capacity()));
  if (const auto first = cycle.find(" -> ");
      first != std::string::npos && cycle.find(" -> ", first + 4) != std::string::npos)
    text += fmt::format("; each waits for what the next holds: {}{}", cycle, cycle.substr(0, first));
  outcome_.deadlock = std::move(text);
  return true;
}

}  // namespace corun
