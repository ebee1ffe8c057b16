// A session that goes on from a Snapshot: what would become of the work there, on a backend that has done
// nothing. The clients' requests and calls are as the snapshot has them.  What is on the GPU is handed over
// anew in the backend's past, in the old order, each launch so that it reaches the GPU when it can have. What
// the backend makes of that until the snapshot's time stands for what the GPU has done.
//
// Leaves out: what else ran on the GPU until the snapshot and has ended; which requests of a client with
// several in flight came when; numbers of CTAs per SM, of which only the sum is kept; a padded launch, whose
// padding is taken to be stopped; device memory, which is taken to be there; the rest of a server's
// sequences.
#include <algorithm>

#include "policies/session/session.h"

namespace corun {

void Session::resume(const Snapshot& at, std::span<const Resumed> on_gpu) {
  resumed_ = true;
  launches_.resize(at.launches.size());
  uses_.resize(at.launches.size());
  copy_waits_.resize(at.launches.size());
  graph_launches_.resize(at.launches.size());
  whole_.resize(at.launches.size());
  std::vector<LaunchId> unfinished;
  for (std::uint32_t slot = 0; slot < at.launches.size(); ++slot) {
    const LaunchView& l = at.launches[slot];
    const bool copies =
        l.kernel == nullptr && l.operation != nullptr && std::holds_alternative<Copy>(l.operation->what);
    if (l.state == LaunchState::finished || !(l.kernel || copies)) {
      launches_[slot].id = l.id, launches_[slot].client = l.client;  // a notice may name it
      launches_[slot].state = LaunchState::finished;
      retired_.push_back(slot);
      continue;
    }
    launches_[slot] = l;
    whole_[slot] = l.id;
    launches_[slot].uses = {};
    unfinished.push_back(l.id);
    next_serial_ = std::max(next_serial_, l.id.serial + 1);
  }
  std::ranges::sort(unfinished, {}, &LaunchId::serial);
  for (const StreamView& s : at.streams) pending_.resume(s.client, s.stream, s.ended_at);
  for (const LaunchId id : unfinished) {
    const LaunchView& l = view(id);
    if (l.state != LaunchState::pending) continue;
    stream_of(l).unsubmitted.push_back(id);
    if (l.kernel) pending_.insert(l);
  }
  for (const LaunchId id : at.running) {
    running_.push_back(id);
    if (view(id).kernel) pending_.came(view(id));
  }
  std::vector<std::vector<std::pair<std::uint64_t, std::uint32_t>>> serving(
      clients_.size());  // request, operations
  for (const LaunchId id : unfinished) {
    const LaunchView& l = view(id);
    auto& of = serving[l.client.value];
    auto found = std::ranges::find(of, l.request, &std::pair<std::uint64_t, std::uint32_t>::first);
    if (found == of.end()) found = of.insert(of.end(), {l.request, 0});
    ++found->second;
  }
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    std::ranges::sort(serving[i]);
    const ClientView& client = at.clients[i];
    workload_.resume(client, serving[i], at.now);
    // Of its requests, operations called that are not under way have ended.
    const std::span<const OpId> order = workload_.order(client.id).issue_order();
    const auto called = [&](std::uint64_t number, std::size_t from, std::size_t to) {
      RequestState& request = clients_[i].request(number);
      for (std::size_t o = from; o < to; ++o)
        request.called[order[o].value] = request.ended[order[o].value] = true;
    };
    for (const auto& [number, operations] : serving[i])
      if (number != client.request) called(number, 0, client.calls);
    if (client.busy) called(client.request, client.first_call, client.next_call);
  }
  for (const LaunchId id : unfinished) {
    const LaunchView& l = view(id);
    RequestState& request = clients_[l.client.value].request(l.request);
    request.ended[l.op.value] = false;
    request.launch_of_op[l.op.value] = id;
  }
  for (const ClientView& client : at.clients) {
    if (!client.busy || client.next_call == client.first_call) continue;
    const OpId last = workload_.order(client.id).issue_order()[client.next_call - 1];
    const RequestState& request = clients_[client.id.value].request(client.request);
    if (!request.called[last.value] || request.ended[last.value]) continue;
    const LaunchId id = request.launch_of_op[last.value];
    clients_[client.id.value].called = id;
    if (client.returned_at == kNever && view(id).state == LaunchState::pending) clients_[client.id.value].held = id;
  }
  notices_.assign(at.notices.begin(), at.notices.end());
  if (notices_.empty()) notices_.push_back(WokeUp{});
  hand_over_again(at, on_gpu);
}

std::vector<Session::Resumed> Session::on_gpu(const Snapshot& at, const Trace& trace, const Gpu& gpu) {
  std::vector<Resumed> all;
  const StreamView* of = nullptr;
  for (const LaunchId id : at.running) {
    const LaunchView& l = at.launch(id);
    const Client& client = at.client_of(l);
    const HandedOver how = handed_over(client, trace.programs[client.program.value], l.op);
    Time reached = l.submitted_at + (how == HandedOver::by_itself ? gpu.launch_latency : gpu.graph_launch_latency);
    if (of == nullptr || of->client != l.client || of->stream != l.stream)
      of = &*std::ranges::find_if(
          at.streams, [&](const StreamView& s) { return s.client == l.client && s.stream == l.stream; });
    if (const Time ended = std::max(l.unblocked_at, of->ended_at); ended != Time{})
      reached = std::max(reached, ended - gpu.completion_notice + (how == HandedOver::in_graph ? gpu.graph_gap : gpu.stream_gap));
    if (l.reported_at > l.submitted_at)
      reached = std::max(reached, l.reported_at);  // it is known how far it was then
    all.push_back({id, reached});
  }
  return all;
}

void Session::hand_over_again(const Snapshot& at, std::span<const Resumed> on_gpu) {
  const auto pass = [&](Time until) {
    while (backend_.now() < until) backend_.wait(until, notices_);
  };
  const std::size_t seen = notices_.size();
  if (!on_gpu.empty()) pass(std::min(at.now, std::ranges::min(on_gpu, {}, &Resumed::reached).reached));
  for (const Resumed& resumed : on_gpu) {
    const LaunchView& l = view(resumed.launch);
    const std::vector<LaunchId> follows = unfinished_follows(l);
    if (l.kernel == nullptr)
      backend_.copy(l, follows);
    else
      backend_.apply(decide::Launch{l.id, l.priority, l.tpc_mask, l.ctas}, l, follows);
  }
  pass(at.now);
  // What has ended by then is told now: the GPU is behind.
  std::vector<Notice> told(notices_.begin() + static_cast<std::ptrdiff_t>(seen), notices_.end());
  std::erase_if(told, [](const Notice& n) { return std::holds_alternative<ProgressReported>(n); });
  notices_.resize(seen);
  std::swap(told, notices_);
  fold(at.now);
  notices_.insert(notices_.begin(), told.begin(), told.end());
  for (const LaunchId id : at.running) {
    LaunchView& l = view(id);
    if (l.state != LaunchState::stopping) continue;
    ++stream_of(l).stopping;
    backend_.apply(decide::Preempt{id}, l, {});
  }
}

}  // namespace corun
