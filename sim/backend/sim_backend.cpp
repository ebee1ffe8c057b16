#include "sim/backend/sim_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr CapabilitySet kCapabilities{Capability::order,     Capability::priority, Capability::tpc_mask,
                                      Capability::cta_quota, Capability::progress, Capability::time_slice};

std::uint32_t contexts_of(const Trace& trace, Contexts contexts,
                          std::vector<std::uint32_t>& context_of_client) {
  std::map<std::string, std::uint32_t> of_process;
  for (const Client& client : trace.clients)
    context_of_client.push_back(
        contexts == Contexts::one
            ? 0
            : of_process.emplace(client.process, static_cast<std::uint32_t>(of_process.size()))
                  .first->second);
  return contexts == Contexts::one ? 1 : static_cast<std::uint32_t>(of_process.size());
}

}  // namespace

SimBackend::SimBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
                       EngineOptions options, Shapes* shapes)
    : trace_(trace),
      topology_{gpu, kCapabilities},
      timeline_(timeline),
      slicer_(topology_.gpu,
              [&] {
                std::vector<std::uint32_t> ignored;
                return std::max(1u, contexts_of(trace, needed.contexts, ignored));
              }()),
      copy_engines_(topology_.gpu),
      own_shapes_(shapes == nullptr ? std::make_unique<Shapes>(gpu) : nullptr),
      all_shapes_(shapes == nullptr ? *own_shapes_ : *shapes) {
  check_trace(trace);
  std::vector<std::uint32_t> context_of_client;
  const std::uint32_t n = std::max(1u, contexts_of(trace, needed.contexts, context_of_client));
  std::vector<std::uint32_t> streams(n);
  for (std::uint32_t i = 0; i < trace.clients.size(); ++i) {
    std::uint32_t& used = streams[context_of_client[i]];
    std::vector<StreamPlace>& mine = places_.emplace_back();
    for (std::size_t s = 0; s < trace.programs[trace.clients[i].program.value].streams.size(); ++s)
      mine.push_back({context_of_client[i], used++});
  }
  for (std::uint32_t i = 0; i < n; ++i)
    contexts_.push_back({std::make_unique<Host>(topology_.gpu, streams[i]),
                         std::make_unique<ComputeEngine>(topology_.gpu, timeline, options), Time{}, Time{}});
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
                           "choose another GPU with --gpu, or correct the kernel's launch shape");
      }
  }
}

// ---- decisions --------------------------------------------------------------------------------------------

Outcome SimBackend::apply(const Decision& decision, const LaunchView& view,
                          std::span<const LaunchId> follows) {
  if (const auto* l = std::get_if<decide::Launch>(&decision)) return launch(*l, view, follows);
  const Gpu& gpu = topology_.gpu;
  const std::uint32_t context = place(view).context;
  if (const auto* resize = std::get_if<decide::Resize>(&decision)) {
    if (view.ctas == 0) return Refused{"not a persistent kernel"};
    if (resize->ctas == 0) return Refused{"a persistent kernel keeps at least one CTA"};
    const Time delay = resize->ctas < view.ctas ? gpu.stop_flag : gpu.launch_latency;
    Errand e;
    e.launch = view.id, e.context = context, e.ctas = resize->ctas;
    queue_.schedule(now_ + delay, 0, {Event::Kind::resize, errand(e), 0});
    return Applied{};
  }
  if (!std::holds_alternative<decide::Query>(decision)) return Refused{"not possible in the simulator"};
  // Half of a read's time passes before the counter is sampled.
  Errand e;
  e.launch = view.id, e.context = context;
  queue_.schedule(now_ + gpu.progress_read / 2, 0, {Event::Kind::sample_progress, errand(e), 0});
  return Applied{};
}

Outcome SimBackend::launch(const decide::Launch& decision, const LaunchView& l,
                           std::span<const LaunchId> follows) {
  const Gpu& gpu = topology_.gpu;
  const auto levels = static_cast<std::int32_t>(gpu.priority_levels);
  if (decision.priority > 0 || decision.priority <= -levels) return Refused{"no such priority"};
  const StreamPlace at = place(l);
  Context& context = contexts_[at.context];
  if (context.host->full(at.stream)) return Refused{"the stream's hardware channel is full"};
  Submission::Kernel kernel;
  kernel.allowed = context.engine->mask_of(decision.tpc_mask.value_or(TpcMask::all()));
  if (kernel.allowed.count() == 0) return Refused{"the mask has no TPC of this GPU"};

  const Shape shape = shape_of(l, kernel.allowed.count());
  kernel.level = static_cast<std::uint32_t>(levels - 1 + decision.priority);
  kernel.demand = shape.demand;
  Work& work = kernel.work;
  work.block_alone = shape.block_alone;
  work.load = shape.load;
  work.ctas = decision.ctas;
  if (decision.ctas != 0) work.per_task = gpu.persistent_task;
  if (l.kernel->block_times.size() > 1) work.block_times = &l.kernel->block_times;
  KernelRecord& r = work.record;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.kernel = l.kernel_id,
  r.request = l.request;
  r.priority = decision.priority, r.ctas = decision.ctas, r.ready = l.ready_at, r.submitted = now_;
  r.blocks = l.kernel->blocks();

  submit(l, follows, std::move(kernel));
  return Applied{};
}

Outcome SimBackend::copy(const LaunchView& l, std::span<const LaunchId> follows) {
  Submission::CopyJob job{{}, std::get<Copy>(l.operation->what)};
  CopyRecord& r = job.record;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.request = l.request,
  r.bytes = job.copy.bytes;
  submit(l, follows, std::move(job));
  return Applied{};
}

template <class What>
void SimBackend::submit(const LaunchView& l, std::span<const LaunchId> follows, What what) {
  const Gpu& gpu = topology_.gpu;
  const StreamPlace at = place(l);
  const Client& client = trace_.clients[l.client.value];
  const bool graph = issue_of(client, trace_.programs[client.program.value]) == Issue::graph;
  const Time reaches = now_ + (graph ? gpu.graph_launch_latency : gpu.launch_latency);
  const std::uint32_t channel = contexts_[at.context].host->accept({l.id,
                                                                    at.stream,
                                                                    reaches,
                                                                    graph ? gpu.graph_gap : gpu.stream_gap,
                                                                    {follows.begin(), follows.end()},
                                                                    std::move(what)});
  if (l.id.slot >= fates_.size()) fates_.resize(l.id.slot + 1);
  fates_[l.id.slot] = {l.id, at.context, at.stream, l.kernel != nullptr ? l.kernel->blocks() : 0, kNever};
  queue_.schedule(reaches, 1, {Event::Kind::channel, at.context, channel});
}

Shape SimBackend::shape_of(const LaunchView& l, std::uint32_t sms) {
  const ShapeKey key{l.kernel_id.value, l.solo_time.count(), sms};
  if (const auto found = shapes_.find(key); found != shapes_.end()) return found->second;
  return shapes_.emplace(key, all_shapes_.of(*l.kernel, l.solo_time, sms)).first->second;
}

std::uint32_t SimBackend::errand(Errand e) {
  if (free_errands_.empty()) {
    errands_.push_back(e);
    return static_cast<std::uint32_t>(errands_.size() - 1);
  }
  const std::uint32_t i = free_errands_.back();
  free_errands_.pop_back();
  errands_[i] = e;
  return i;
}

// ---- time -------------------------------------------------------------------------------------------------

void SimBackend::wait(Time until, std::vector<Notice>& notices) {
  for (;;) {
    turn();
    const auto active = slicer_.active();
    ComputeEngine* engine = active ? contexts_[*active].engine.get() : nullptr;
    Time limit = until;
    if (!queue_.empty()) limit = std::min(limit, queue_.next_time());
    if (!told_.empty()) limit = std::min(limit, told_.front().at);
    // The end of a slice is nothing under way.
    if (limit == kNever && engine != nullptr && engine->next_time() == kNever) return;
    limit = std::min(limit, slicer_.next_time(now_));

    engine_notices_.clear();
    if (engine != nullptr) {
      engine->advance(limit == kNever ? kNever : limit - engine->offset, engine_notices_);
      now_ = engine->now() + engine->offset;
    } else {
      now_ = limit;
    }
    for (const EngineNotice& n : engine_notices_) {
      if (n.kind == EngineNotice::Kind::last_block_started) {
        tell_later(LastBlockStarted{n.launch});
      } else {
        tell_later(KernelFinished{n.launch});
        const Fate fate = fates_[n.launch.slot];
        ended(n.launch, fate.context, fate.stream);
      }
    }
    if (slicer_.switching() && slicer_.next_time(now_) <= now_) {
      slicer_.begin_turn(now_);
      Context& next = contexts_[slicer_.current()];
      next.engine->offset += now_ - next.paused_at;
      next.turn_began = now_;
      for (std::uint32_t c = 0; c < next.host->channels(); ++c) pump(slicer_.current(), c);
    }
    while (!queue_.empty() && queue_.next_time() <= now_) handle(queue_.pop().payload);
    while (!told_.empty() && told_.front().at <= now_) {
      notices.push_back(told_.front().notice);
      told_.pop_front();
    }
    if (!notices.empty() || now_ >= until) return;
  }
}

void SimBackend::turn() {
  const std::uint32_t before = slicer_.current();
  if (!slicer_.look(now_, [this](std::uint32_t c) { return has_work(c); })) return;
  Context& last = contexts_[before];
  last.engine->pause();
  last.paused_at = now_;
  if (now_ > last.turn_began) timeline_.record(TurnRecord{before, last.turn_began, now_});
}

bool SimBackend::has_work(std::uint32_t context) const {
  return contexts_[context].engine->busy() || contexts_[context].host->has_work(now_);
}

void SimBackend::handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::channel:
      return pump(event.a, event.b);
    case Event::Kind::copy_end: {
      const Errand e = errands_[event.a];
      free_errands_.push_back(event.a);
      timeline_.record(e.copy);
      tell_later(CopyFinished{e.launch});
      return ended(e.launch, e.context, e.ctas);
    }
    case Event::Kind::resize: {
      const Errand e = errands_[event.a];
      free_errands_.push_back(event.a);
      return contexts_[e.context].engine->resize(e.launch, e.ctas);
    }
    case Event::Kind::sample_progress: {
      Errand& e = errands_[event.a];
      const Fate& fate = fates_[e.launch.slot];
      e.as_of = now_;
      e.blocks = fate.launch == e.launch && fate.end != kNever
                     ? fate.blocks
                     : contexts_[e.context].engine->blocks_done(e.launch);
      const Time rest = topology_.gpu.progress_read - topology_.gpu.progress_read / 2;
      queue_.schedule(now_ + rest, 0, {Event::Kind::report_progress, event.a, 0});
      return;
    }
    case Event::Kind::report_progress: {
      const Errand e = errands_[event.a];
      free_errands_.push_back(event.a);
      told_.push_front({now_, ProgressReported{e.launch, e.blocks, e.as_of}});
      return;
    }
  }
}

/// Lets the head of a channel go on as far as it can now.  A channel of a context without its turn stands
/// still.
void SimBackend::pump(std::uint32_t context, std::uint32_t channel) {
  if (slicer_.active() != context) return;
  Context& c = contexts_[context];
  for (;;) {
    const Time ready = c.host->ready_at(channel, [this](LaunchId launch) { return ended_at(launch); });
    if (ready == kNever) return;
    if (ready > now_) return queue_.schedule(ready, 1, {Event::Kind::channel, context, channel});
    Submission s = c.host->take(channel);
    if (auto* kernel = std::get_if<Submission::Kernel>(&s.what)) {
      kernel->work.record.queued = now_;
      c.engine->accept(std::move(kernel->work), kernel->level, kernel->allowed, kernel->demand);
    } else {
      auto& job = std::get<Submission::CopyJob>(s.what);
      const CopyEngines::Slot slot = copy_engines_.accept(job.copy, now_);
      Errand e;
      e.launch = s.launch, e.context = context, e.ctas = s.stream, e.copy = job.record;
      e.copy.engine = slot.engine, e.copy.started = slot.start, e.copy.finished = slot.end;
      queue_.schedule(slot.end, 0, {Event::Kind::copy_end, errand(e), 0});
    }
  }
}

void SimBackend::ended(LaunchId launch, std::uint32_t context, std::uint32_t stream) {
  fates_[launch.slot].end = now_;
  Host& host = *contexts_[context].host;
  host.ended(stream, now_, contexts_[context].engine->launch_delay());
  for (std::uint32_t c = 0; c < host.channels(); ++c)
    if (host.waits(c, launch, stream)) pump(context, c);
}

Time SimBackend::ended_at(LaunchId launch) const {
  const Fate& fate = fates_[launch.slot];
  return fate.launch == launch ? fate.end : Time{};  // its slot has been reused: it ended long ago
}

void SimBackend::close() {
  for (std::uint32_t i = 0; i < contexts_.size(); ++i) {
    contexts_[i].engine->close();
    if (contexts_.size() > 1 && slicer_.active() == i && now_ > contexts_[i].turn_began)
      timeline_.record(TurnRecord{i, contexts_[i].turn_began, now_});
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
std::int64_t SimBackend::sm_ps() const {
  std::int64_t n = 0;
  for (const Context& c : contexts_) n += c.engine->sm_ps();
  return n;
}
std::int64_t SimBackend::warp_ps() const {
  std::int64_t n = 0;
  for (const Context& c : contexts_) n += c.engine->warp_ps();
  return n;
}

}  // namespace corun::sim
