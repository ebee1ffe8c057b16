#include "sim/backend/sim_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/model/error.h"
#include "traces/model/expects.h"

namespace corun::sim {
namespace {

constexpr CapabilitySet kCapabilities{
    Capability::order,         Capability::priority, Capability::tpc_mask,   Capability::cta_quota,
    Capability::sm_quota,      Capability::progress, Capability::time_slice, Capability::preempt_at_block,
    Capability::preempt_reset, Capability::padding,  Capability::memory_swap};

/// Throws if the GPU has no MPS and it is needed.
const Trace& with_mps(const Trace& trace, const Gpu& gpu, const Requirements& needed) {
  if (!needed.thread_percentages.empty() && !gpu.mps_client_channels)
    throw InputError("", "", fmt::format("{} has no MPS", gpu.product), "choose another policy or GPU");
  return trace;
}

/// Of a launch that has not been on the GPU before.
KernelRecord record_of(const LaunchView& l, Time submitted) {
  KernelRecord r;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.kernel = l.kernel_id;
  r.request = l.request, r.ready = l.ready_at, r.submitted = submitted, r.blocks = l.kernel->blocks();
  r.solo = l.solo_time;
  return r;
}

}  // namespace

SimBackend::SimBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
                       EngineOptions options, Shapes* shapes, const HostCosts* host)
    : SimBackend(trace, gpu, needed, timeline, options, std::make_shared<LaunchShapes>(gpu, shapes, options.contention), host) {
  check_trace(trace);
}

SimBackend::SimBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
                       EngineOptions options, std::shared_ptr<LaunchShapes> shapes, const HostCosts* host)
    : trace_(trace),
      preemptive_(needed.capabilities.has(Capability::preempt_at_block)),
      topology_{gpu, kCapabilities},
      timeline_(timeline),
      contexts_(with_mps(trace, topology_.gpu, needed), topology_.gpu, needed, timeline, options),
      governor_(topology_.gpu),
      copy_engines_(topology_.gpu),
      shapes_(std::move(shapes)) {
  CORUN_EXPECTS(shapes_->contention() == options.contention);
  const bool mps = !needed.thread_percentages.empty();
  if (mps)
    limits_ = MpsLimits(needed.thread_percentages, trace.clients.size(), topology_.gpu,
                        [this](const TpcMask& tpcs) { return contexts_[0].engine->mask_of(tpcs); });
  if (host != nullptr && host->launch_call != Time{}) {
    const bool processes = mps || needed.contexts == Contexts::per_process;
    thread_ = HostThread(*host, processes ? trace.clients.size() : 0);
    for (std::size_t i = 0; i < trace.clients.size(); ++i) held_.add_client(contexts_.streams_of(i));
  }
}

void SimBackend::check_trace(const Trace& trace) const {
  const Gpu& gpu = topology_.gpu;
  const auto check_priority = [&](const Client& client, std::int32_t priority) {
    if (priority > 0 || priority <= -static_cast<std::int32_t>(gpu.priority_levels))
      throw InputError(
          client.origin.file, client.origin.place + "/priority",
          fmt::format("priority {} of client {} does not exist on {}", priority, client.name, gpu.name),
          fmt::format("use 0 (lowest) to {} (highest)", 1 - static_cast<std::int32_t>(gpu.priority_levels)));
  };
  for (const Client& client : trace.clients) {
    check_priority(client, client.priority);
    for (const ClientStream& stream : client.streams)
      if (stream.priority) check_priority(client, *stream.priority);
    for (const Op& op : trace.programs[client.program.value].ops)
      if (const auto* launch = std::get_if<corun::Launch>(&op.what)) {
        const Kernel& kernel = trace.kernels[launch->kernel.value];
        if (const std::string problem = misfit(kernel, gpu.sm); !problem.empty())
          throw InputError(kernel.origin.file, kernel.origin.place,
                           fmt::format("kernel {} fits no SM of {}: it {}", kernel.name, gpu.name, problem),
                           "choose another GPU with --gpu, carry the trace over with `sim compare --gpus` (which caps "
                           "shared memory), or correct the kernel's launch shape");
      }
  }
}

// ---- decisions --------------------------------------------------------------------------------------------

Outcome SimBackend::apply(const Decision& decision, const LaunchView& view,
                          std::span<const LaunchId> follows) {
  if (const auto* l = std::get_if<decide::Launch>(&decision)) return launch(*l, view, follows);
  if (const auto* p = std::get_if<decide::Preempt>(&decision)) return preempt(*p, view, follows);
  if (std::holds_alternative<decide::Allocate>(decision)) return Applied{};
  if (const auto* out = std::get_if<decide::Checkpoint>(&decision))
    return move(out->buffer, {CopyDirection::device_to_host, view.bytes}, view.client);
  if (const auto* back = std::get_if<decide::Restore>(&decision))
    return move(back->buffer, {CopyDirection::host_to_device, view.bytes}, view.client);
  const std::uint32_t context = place(view).context;
  if (const auto* r = std::get_if<decide::Resize>(&decision)) return resize(*r, view);
  if (!std::holds_alternative<decide::Query>(decision)) return Refused{"not possible in the simulator"};
  // Half of a read's time passes before the counter is sampled.
  schedule(now_ + topology_.gpu.progress_read / 2, ProgressSample{view.id, context});
  return Applied{};
}

Outcome SimBackend::resize(const decide::Resize& decision, const LaunchView& view) {
  const Gpu& gpu = topology_.gpu;
  if (view.ctas == 0) return Refused{"not a persistent kernel"};
  const std::uint32_t context = place(view).context;
  const Fate& fate = fates_[view.id.slot];
  if (fate.spreads != !decision.ctas_per_sm.empty())
    return Refused{fate.spreads ? "the launch has a number of CTAs per SM"
                                : "the launch has no number of CTAs per SM"};
  if (!fate.spreads) {
    if (decision.ctas == 0) return Refused{"a persistent kernel keeps at least one CTA"};
    const Time delay = decision.ctas < view.ctas ? gpu.stop_flag : gpu.launch_latency;
    schedule(now_ + delay, NewCtas{view.id, context, decision.ctas});
    return Applied{};
  }
  if (const auto why = impossible(decision.ctas_per_sm, decision.ctas, view, fate.allowed))
    return Refused{*why};
  schedule(now_ + gpu.stop_flag, NewCtasPerSm{view.id, context, decision.ctas_per_sm, false});
  schedule(now_ + std::max(gpu.stop_flag, gpu.launch_latency), NewCtasPerSm{view.id, context, decision.ctas_per_sm, true});
  return Applied{};
}

/// Why no launch can have these numbers of CTAs per SM, if so.
std::optional<std::string> SimBackend::impossible(const decide::CtasPerSm& ctas_per_sm, std::uint32_t ctas,
                                                  const LaunchView& launch, const SmMask& allowed) const {
  const Gpu& gpu = topology_.gpu;
  if (ctas_per_sm.size() != gpu.sms) return "not one number of CTAs for each SM";
  const std::uint32_t most = max_active_blocks(capacity_of(gpu.sm), demand_of(*launch.kernel, gpu.sm));
  std::uint64_t sum = 0;
  for (std::uint32_t rank = 0; rank < gpu.sms; ++rank) {
    const std::uint32_t n = ctas_per_sm[gpu.placement_order[rank].value];
    sum += n;
    if (n > most) return "more CTAs than an SM holds";
    if (n != 0 && !allowed.test(rank)) return "CTAs on an SM outside the mask";
  }
  if (sum == 0) return "a persistent kernel keeps at least one CTA";
  if (ctas != 0 && ctas != sum) return "the number of CTAs is not the sum of those per SM";
  return std::nullopt;
}

SmMask SimBackend::allowed(const decide::Launch& decision, const LaunchView& l) const {
  const ComputeEngine& engine = *contexts_[place(l).context].engine;
  return limits_.within(l.client, decision.tpc_mask ? engine.mask_of(*decision.tpc_mask) : engine.all_sms());
}

Outcome SimBackend::launch(const decide::Launch& decision, const LaunchView& l,
                           std::span<const LaunchId> follows) {
  if (decision.priority > 0 || decision.priority <= -levels()) return Refused{"no such priority"};
  const Fate* expected = fates_.find(l.id);
  if (full(l) && (expected == nullptr || expected->reaches == Time{})) return Refused{"the stream's hardware channel is full", true};
  const SmMask allowed = this->allowed(decision, l);
  if (allowed.count() == 0) return Refused{"the mask has no TPC of this GPU"};
  if (!decision.ctas_per_sm.empty())
    if (const auto why = impossible(decision.ctas_per_sm, decision.ctas, l, allowed)) return Refused{*why};
  Submission submission;
  prepare(std::get<Submission::Kernel>(submission.what), decision, l, allowed, now_);
  submit(l, follows, std::move(submission));
  Fate& fate = fates_[l.id.slot];
  fate.spreads = !decision.ctas_per_sm.empty();
  fate.allowed = allowed;
  return Applied{};
}

/// A channel that has room for one node takes all: the driver goes on as there is room again.
Outcome SimBackend::graph(const decide::Launch& decision, const LaunchView& l, std::span<const GraphNode> nodes) {
  if (decision.priority > 0 || decision.priority <= -levels()) return Refused{"no such priority"};
  if (full(l)) return Refused{"the stream's hardware channel is full", true};
  const std::uint32_t context = place(l).context;
  Host& host = *contexts_[context].host;
  const SmMask allowed = this->allowed(decision, l);
  if (allowed.count() == 0) return Refused{"the mask has no TPC of this GPU"};
  const std::uint32_t number = graphs_.add({decision, l, nodes, nodes.size(), std::vector(nodes.size(), Fate::kNone), allowed, now_});
  GraphRun& run = graphs_[number];
  run.launch.nodes = 0;
  const Fate* expected = fates_.find(l.id);
  run.reaches = expected != nullptr && expected->reaches != Time{} ? std::max(now_, expected->reaches) : now_ + topology_.gpu.graph_launch_latency;

  const Program& program = trace_.programs[trace_.clients[l.client.value].program.value];
  std::vector<std::pair<std::uint32_t, std::uint32_t>> last;  // by channel that the graph uses: its latest node there
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const StreamPlace& at = contexts_.place(l.client, program.ops[nodes[i].op.value].stream);
    const std::uint32_t channel = host.channel_of(at.stream);
    const auto before = std::ranges::find(last, channel, [](const auto& each) { return each.first; });
    if (before == last.end()) {
      hand_over(node(number, i), context, Time{});
      last.emplace_back(channel, i);
    } else {
      host.accept_behind(at.stream, true, at.ahead);
      run.next[std::exchange(before->second, i)] = i;
    }
  }
  return Applied{};
}

/// The channel's next node is made when its turn has come: a thousand at once would leave the caches before.
Submission SimBackend::node(std::uint32_t number, std::uint32_t i) {
  GraphRun& run = graphs_[number];
  const GraphNode& node = run.nodes[i];
  LaunchView& l = run.launch;
  const Op& op = trace_.programs[trace_.clients[l.client.value].program.value].ops[node.op.value];
  l.id = node.id, l.op = node.op, l.stream = op.stream, l.operation = &op, l.solo_time = node.solo_time;
  const auto* launch = std::get_if<Launch>(&op.what);
  l.kernel_id = launch != nullptr ? launch->kernel : KernelId{};
  l.kernel = launch != nullptr ? &trace_.kernels[launch->kernel.value] : nullptr;
  Submission submission;
  if (launch != nullptr)
    prepare(std::get<Submission::Kernel>(submission.what), run.decision, l, run.allowed, run.handed_over);
  else
    submission.what = copy_of(l);
  Fate& fate = address(l, node.follows, submission);
  fate.reaches = Time{};
  fate.graph = number;
  fate.allowed = run.allowed;
  submission.reaches_gpu = run.reaches;
  submission.node = i;
  return submission;
}

/// The kernel as the decision has it.
void SimBackend::prepare(Submission::Kernel& kernel, const decide::Launch& decision, const LaunchView& l, const SmMask& allowed,
                         Time handed_over) {
  const Shape& shape = shapes_->of(l, allowed.count());
  prepare(kernel, l, shape, decision.priority, allowed, handed_over);
  kernel.ctas = kernel.record.ctas = l.ctas;
  if (l.ctas != 0) {
    kernel.per_task = shape.persistent_task;
  } else if (stoppable(l)) {
    kernel.per_task = shape.stoppable_task;
    if (l.kernel->stoppable->workers_stay)
      kernel.ctas = allowed.count() * max_active_blocks(capacity_of(topology_.gpu.sm), shape.demand);
  }
  kernel.ctas_per_sm = decision.ctas_per_sm;
  kernel.controlled = l.ctas != 0 || stoppable(l);
}

/// What is left of the launch, if it has been on the GPU before.
void SimBackend::prepare(Submission::Kernel& kernel, const LaunchView& l, const Shape& shape,
                         std::int32_t priority, const SmMask& allowed, Time handed_over) {
  kernel.allowed = allowed;
  kernel.level = static_cast<std::uint32_t>(levels() - 1 + priority);
  kernel.demand = l.ctas != 0 || stoppable(l) ? demand_of_worker(*l.kernel, topology_.gpu) : shape.demand;
  kernel.block_alone = shape.block_alone;
  kernel.load = &shape.load;
  if (l.kernel->block_times.size() > 1) kernel.block_times = &l.kernel->block_times;
  KernelRecord& r = kernel.record;
  const Fate* before = fates_.find(l.id);
  if (before != nullptr && before->record != nullptr) {
    r = *before->record;
    kernel.resumed = true;
    kernel.first = before->done;
  } else {
    r = record_of(l, handed_over);
  }
  r.priority = priority;
  r.preemptions = before != nullptr ? before->preemptions : 0;
}

void SimBackend::expect(const LaunchView& l, Time reaches) {
  Fate& fate = fates_.renew(l, place(l).context, place(l).stream);
  fate.blocks = std::max<std::uint64_t>(fate.blocks, 1);  // so that it is kept
  fate.reaches = reaches;
  if (l.kernel == nullptr || l.blocks_done == 0) return;
  KernelRecord r = record_of(l, l.submitted_at);
  r.queued = r.slotted = r.started = r.submitted;
  fate.record = std::make_unique<KernelRecord>(r);
  fate.done = std::min(l.blocks_done, r.blocks - 1);  // the last is known to have ended by the launch's end
}

Submission::CopyJob SimBackend::copy_of(const LaunchView& l) {
  Submission::CopyJob job;
  job.copy = std::get<Copy>(l.operation->what);
  CopyRecord& r = job.record;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.request = l.request,
  r.bytes = job.copy.bytes;
  return job;
}

Outcome SimBackend::copy(const LaunchView& l, std::span<const LaunchId> follows) {
  Submission submission;
  submission.what = copy_of(l);
  submit(l, follows, std::move(submission));
  return Applied{};
}

/// By the copy engines, behind what they have; at the rate of pinned memory.
Outcome SimBackend::move(BufferId buffer, const Copy& copy, ClientId client) {
  const CopyEngines::Slot slot = copy_engines_.accept(copy, now_ + topology_.gpu.launch_latency);
  schedule(slot.end, MoveEnd{{client, buffer, copy.direction == CopyDirection::device_to_host, copy.bytes, slot.engine, slot.start, slot.end}});
  return Applied{};
}

Time SimBackend::graph_gap() const {
  const Gpu& gpu = topology_.gpu;
  return limits_.any() ? gpu.mps_graph_gap : contexts_.size() > 1 ? gpu.turn_graph_gap : gpu.graph_gap;
}

/// The submission has what is to be done, and gets how it comes there.
Fate& SimBackend::address(const LaunchView& l, std::span<const LaunchId> follows, Submission& submission) {
  const Gpu& gpu = topology_.gpu;
  const StreamPlace& at = place(l);
  const Client& client = trace_.clients[l.client.value];
  const HandedOver how = handed_over(client, trace_.programs[client.program.value], l.op);
  submission.launch = l.id;
  submission.stream = at.stream;
  submission.reaches_gpu = how == HandedOver::by_itself ? gpu.launch_latency : gpu.graph_launch_latency;
  const auto* launch = std::get_if<Launch>(&l.operation->what);
  const bool dependent = launch != nullptr && launch->dependent;
  submission.gap = dependent                          ? Time{}
                   : how == HandedOver::in_graph      ? graph_gap()
                   : launch != nullptr && launch->gap ? *launch->gap
                                                      : gpu.stream_gap;
  submission.follows.assign(follows.begin(), follows.end());
  submission.graph = how != HandedOver::by_itself;
  submission.ahead = at.ahead;
  Fate& fate = fates_.renew(l, at.context, at.stream);
  submission.gap += std::exchange(fate.wait, Time{});
  return fate;
}

void SimBackend::submit(const LaunchView& l, std::span<const LaunchId> follows, Submission&& submission) {
  const StreamPlace& at = place(l);
  Fate& fate = address(l, follows, submission);
  if (fate.reaches != Time{}) {
    submission.reaches_gpu = Time{};
    return hand_over(std::move(submission), at.context, std::max(now_, std::exchange(fate.reaches, Time{})));
  }
  const Time called = call(l);
  if (!held_on_host(l)) return hand_over(std::move(submission), at.context, called);
  hold(l, std::move(submission));
}

/// `reaches_gpu` is how long it takes from the call.
void SimBackend::hand_over(Submission&& submission, std::uint32_t context, Time called) {
  const Time reaches = submission.reaches_gpu += called;
  const std::uint32_t channel = contexts_[context].host->accept(std::move(submission));
  // A graph's launches reach the GPU together: one event does for all.
  Time& looked_at = contexts_[context].looked_at[channel];
  if (looked_at != reaches || reaches == now_)
    queue_.schedule(reaches, 1, ChannelReady{context, channel});
  looked_at = reaches;
}

// ---- time -------------------------------------------------------------------------------------------------

void SimBackend::wait(Time until, std::vector<Notice>& notices) {
  CORUN_EXPECTS(until >= now_);
  until = std::max(until, thread_.free());
  for (;;) {
    if (idle_before(until) && held_.hand_over_one()) until = std::max(until, thread_.free());
    turn();
    const auto active = contexts_.active();
    ComputeEngine* engine = active ? contexts_[*active].engine.get() : nullptr;
    Time limit = thread_.free() > now_ ? thread_.free() : until;
    if (!queue_.empty()) limit = std::min(limit, queue_.next_time());
    if (!told_.empty()) limit = std::min(limit, std::max(told_.next_time(now_), thread_.free()));
    // The end of a slice is nothing under way.
    if (limit == kNever && engine != nullptr && engine->next_time() == kNever) return;
    limit = std::min({limit, contexts_.next_time(now_), governor_.next_time()});

    engine_notices_.clear();
    if (engine != nullptr) {
      engine->advance(limit == kNever ? kNever : limit - engine->offset(), engine_notices_);
      now_ = engine->now() + engine->offset();
    } else {
      now_ = limit;
    }
    for (const EngineNotice& n : engine_notices_) {
      if (n.kind == EngineNotice::Kind::last_block_started) {
        tell_later(LastBlockStarted{n.launch});
      } else if (n.kind == EngineNotice::Kind::taken_off) {
        taken_off(n.launch);
      } else {
        tell_end(n.launch, KernelFinished{n.launch});
        const Fate& fate = fates_[n.launch.slot];
        ended(n.launch, fate.context, fate.stream);
      }
    }
    if (engine != nullptr && now_ < limit && engine_notices_.empty() && engine->out_of_events()) return;
    if (governor_.next_time() <= now_) set_clock();
    if (contexts_.begin_turn_if_due(now_)) pump_all(contexts_.current());
    while (!queue_.empty() && queue_.next_time() <= now_) std::visit([this](const auto& event) { handle(event); }, queue_.pop().payload);
    while (told_.any_due(now_) && thread_.free() <= now_) notices.push_back(told_.take());
    if (!notices.empty())
      for (const Notice& n : notices) heard(n);
    if (!notices.empty() || now_ >= until) return;
  }
}

void SimBackend::set_clock() {
  double energy = 0;
  for (const Context& c : contexts_) energy += c.engine->energy();
  if (!governor_.look(energy)) return;
  for (Context& c : contexts_) c.engine->set_clock(governor_.clock_ratio());
}

void SimBackend::turn() {
  if (contexts_.size() == 1) return;
  if (contexts_.reads_on(now_)) pump_all(contexts_.current());
  contexts_.switch_if_due(now_);
}

void SimBackend::pump_all(std::uint32_t context) {
  for (std::uint32_t c = 0; c < contexts_[context].host->channels(); ++c) pump(context, c);
}

void SimBackend::handle(const ErrandDue& event) {
  std::visit([this](const auto& errand) { carry_out(errand); }, errands_.take(event.errand));
}

void SimBackend::carry_out(const CopyEnd& end) {
  timeline_.record(end.record);
  tell_end(end.launch, CopyFinished{end.launch});
  ended(end.launch, end.context, end.stream);
}

void SimBackend::carry_out(const MoveEnd& end) {
  timeline_.record(end.record);
  tell_later(BufferMoved{end.record.buffer});
}

void SimBackend::carry_out(const ProgressSample& sample) {
  const Fate& fate = fates_[sample.launch.slot];
  const bool over = fate.launch == sample.launch && fate.end != kNever;
  const std::uint64_t blocks = over ? fate.blocks : contexts_[sample.context].engine->blocks_done(sample.launch);
  const Time rest = topology_.gpu.progress_read - topology_.gpu.progress_read / 2;
  schedule(now_ + rest, ProgressReport{{sample.launch, blocks, now_}});
}

/// Lets the head of a channel go on as far as it can now.  A channel of a context without its turn stands
/// still.
void SimBackend::pump(std::uint32_t context, std::uint32_t channel) {
  if (contexts_.active() != context) return;
  Context& c = contexts_[context];
  for (;;) {
    const Time ready = c.host->ready_at(channel, [this](LaunchId launch) { return fates_.ended_at(launch); });
    if (ready == kNever) return;
    if (ready > now_) return queue_.schedule(ready, 1, ChannelReady{context, channel});
    Submission& s = c.host->take(channel);
    if (s.evicted) {
      const PreemptionCosts& costs = topology_.gpu.preemption;
      Time takes{};
      if (const auto* kernel = std::get_if<Submission::Kernel>(&s.what))
        takes = (c.host->follows_evicted(s.stream) ? costs.evicted_launch_interval : costs.evicted_launch) +
                topology_.gpu.dispatch_interval *
                    static_cast<std::int64_t>(kernel->record.blocks - kernel->first);
      schedule(now_ + takes, EvictedPassed{s.launch, context, s.stream});
    } else if (auto* kernel = std::get_if<Submission::Kernel>(&s.what)) {
      for (Submission::Kernel* k = kernel; k != nullptr; k = k->padding.get()) {
        if (!k->resumed) k->record.queued = now_;
        if (limits_.any()) limits_.settle([&](const SmMask& place) { return c.engine->threads_on(place); }, *k);
        c.engine->accept(std::move(*k).work(), k->level, k->allowed, k->demand);
      }
      if (kernel->padding) c.engine->pair_up(s.launch, kernel->padding->record.launch);
    } else {
      auto& job = std::get<Submission::CopyJob>(s.what);
      const CopyEngines::Slot slot = copy_engines_.accept(job.copy, now_);
      CopyRecord record = job.record;
      record.engine = slot.engine, record.started = slot.start, record.finished = slot.end;
      schedule(slot.end, CopyEnd{s.launch, context, s.stream, record});
    }
    if (const std::uint32_t graph = fates_[s.launch.slot].graph, next = graph == Fate::kNone ? graph : graphs_[graph].next[s.node]; next != Fate::kNone)
      c.host->put_next(channel, node(graph, next));
    else
      c.host->drop(channel);
  }
}

void SimBackend::ended(LaunchId launch, std::uint32_t context, std::uint32_t stream) {
  fates_[launch.slot].end = now_;
  cleared(launch);
  leave(launch, context, stream, next_late(context, stream));
}

/// The host hears of a graph once, when its last node has ended.
void SimBackend::tell_end(LaunchId launch, const Notice& end) {
  const std::uint32_t graph = fates_[launch.slot].graph;
  if (graph == Fate::kNone) return tell_later(end);
  if (--graphs_[graph].left == 0) tell_later(KernelFinished{graphs_.take(graph).nodes.front().id});
}

/// How late the stream's next launch starts, where its latest leaves it now.
Time SimBackend::next_late(std::uint32_t context, std::uint32_t stream) {
  const Host& host = *contexts_[context].host;
  return contexts_[context].engine->launch_delay(host.in_graphs(stream), host.others_launched_since(stream));
}

/// It holds its stream no longer, whose next launch starts so late.
void SimBackend::leave(LaunchId launch, std::uint32_t context, std::uint32_t stream, Time late) {
  Host& host = *contexts_[context].host;
  host.ended(stream, now_, late);
  for (std::uint32_t c = 0; c < host.channels(); ++c)
    if (host.waits(c, launch, stream)) pump(context, c);
}

void SimBackend::stop_after(std::uint64_t events) {
  for (Context& c : contexts_) {
    const std::uint64_t others = this->events() - c.engine->events();
    c.engine->stop_after(events - std::min(events, others));
  }
}
std::uint64_t SimBackend::blocks_run() const {
  std::uint64_t n = 0;
  for (const Context& c : contexts_) n += c.engine->blocks_run();
  return n;
}
std::uint64_t SimBackend::events() const {
  std::uint64_t n = 0;
  for (const Context& c : contexts_) n += c.engine->events();
  return n;
}
SmArray::Integral SimBackend::sm_ps() const {
  SmArray::Integral n = 0;
  for (const Context& c : contexts_) n += c.engine->sm_ps();
  return n;
}
SmArray::Integral SimBackend::warp_ps() const {
  SmArray::Integral n = 0;
  for (const Context& c : contexts_) n += c.engine->warp_ps();
  return n;
}

}  // namespace corun::sim
