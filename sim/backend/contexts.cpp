#include "sim/backend/contexts.h"

#include <algorithm>
#include <map>
#include <string>

namespace corun::sim {
namespace {

/// By client.
std::vector<std::uint32_t> context_of_clients(const Trace& trace, Contexts contexts) {
  std::map<std::string, std::uint32_t> of_process;
  std::vector<std::uint32_t> of_client;
  for (const Client& client : trace.clients) {
    const auto next = static_cast<std::uint32_t>(of_process.size());
    const bool one = contexts == Contexts::one;
    of_client.push_back(one ? 0 : of_process.emplace(client.process, next).first->second);
  }
  return of_client;
}

std::uint32_t contexts_of(const Trace& trace, Contexts contexts) {
  std::uint32_t n = 1;
  for (const std::uint32_t context : context_of_clients(trace, contexts)) n = std::max(n, context + 1);
  return n;
}

/// A stream to which only further branches of a CUDA graph go.  The driver gives those channels of their own: other streams do not
/// wait behind a branch that waits for another (experiments/h200/networks, gqa-wav2vec2-trainbert).
bool is_branch(const Client& client, const Program& program, StreamId stream) {
  bool any = false;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (is_host_call(op) || op.stream != stream) continue;
    if (i == 0 || handed_over(client, program, OpId{i}) != HandedOver::in_graph) return false;
    any = true;
  }
  return any;
}

bool has_copies(const Program& program) {
  return std::ranges::any_of(program.ops,
                             [](const Op& op) { return std::holds_alternative<Copy>(op.what); });
}

}  // namespace

GpuContexts::GpuContexts(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
                   EngineOptions options)
    : gpu_(gpu), timeline_(timeline), slicer_(gpu, contexts_of(trace, needed.contexts)) {
  const std::vector<std::uint32_t> of_client = context_of_clients(trace, needed.contexts);
  const std::uint32_t n = contexts_of(trace, needed.contexts);
  const bool own_channels = !needed.thread_percentages.empty() && *gpu.mps_client_channels != 0;
  std::vector<std::vector<std::uint32_t>> groups(n);  // of channels, by context and stream
  std::vector<std::uint32_t> further(n, own_channels ? static_cast<std::uint32_t>(trace.clients.size()) : 1);
  for (std::uint32_t i = 0; i < trace.clients.size(); ++i) {
    const Program& program = trace.programs[trace.clients[i].program.value];
    const bool ahead = issue_of(trace.clients[i], program) == Issue::graph && !has_copies(program);
    std::vector<StreamPlace>& mine = places_.emplace_back();
    std::vector<std::uint32_t>& group = groups[of_client[i]];
    bool branches = false;
    for (std::uint32_t s = 0; s < program.streams.size(); ++s) {
      mine.push_back({of_client[i], static_cast<std::uint32_t>(group.size()), ahead});
      const bool branch = is_branch(trace.clients[i], program, StreamId{s});
      branches |= branch;
      group.push_back(branch ? further[of_client[i]] : own_channels ? i : 0);
    }
    further[of_client[i]] += branches;
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    Context& c = all_.emplace_back();
    c.host = std::make_unique<Host>(gpu, own_channels ? *gpu.mps_client_channels : gpu.host_channels, groups[i]);
    c.engine = std::make_unique<ComputeEngine>(gpu, timeline, options);
    c.looked_at.resize(c.host->channels(), kNever);
  }
}

bool GpuContexts::has_work(std::uint32_t context, Time now) const {
  return all_[context].engine->busy() || all_[context].host->has_work(now);
}

bool GpuContexts::others_have_work(Time now) const {
  for (std::uint32_t c = 0; c < all_.size(); ++c)
    if (c != current() && has_work(c, now)) return true;
  return false;
}

bool GpuContexts::reads_on(Time now) {
  if (slicer_.switching()) return false;
  Host& host = *all_[current()].host;
  if (!host.closed()) {
    if (host.read_whole() && others_have_work(now)) host.close(now);
    return false;
  }
  if (others_have_work(now)) return false;
  host.open();
  return true;
}

void GpuContexts::switch_if_due(Time now) {
  const std::uint32_t before = current();
  Context& last = all_[before];
  const auto switch_to = [&](std::uint32_t next, bool interrupts) {
    if (interrupts) return gpu_.context_switch + gpu_.switch_sm * std::int64_t{last.engine->busy_sms()};
    if (!last.host->graph_ended()) return gpu_.context_switch;
    return all_[next].engine->busy() ? gpu_.idle_switch_to_interrupted : gpu_.idle_switch;
  };
  if (!slicer_.look(
          now, [&](std::uint32_t c) { return has_work(c, now); }, switch_to))
    return;
  last.host->open();
  last.engine->pause();
  last.paused_at = now;
  if (now > last.turn_began) timeline_.record(TurnRecord{before, last.turn_began, now});
}

bool GpuContexts::begin_turn_if_due(Time now) {
  if (!slicer_.switching() || slicer_.next_time(now) > now) return false;
  slicer_.begin_turn(now);
  Context& next = all_[current()];
  next.engine->shift(now - next.paused_at);
  next.turn_began = now;
  return true;
}

void GpuContexts::close(Time now) {
  for (std::uint32_t i = 0; i < all_.size(); ++i) {
    all_[i].engine->close();
    if (all_.size() > 1 && active() == i && now > all_[i].turn_began)
      timeline_.record(TurnRecord{i, all_[i].turn_began, now});
  }
}

}  // namespace corun::sim
