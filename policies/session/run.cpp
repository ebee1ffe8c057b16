#include "policies/session/run.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include "policies/api/registry.h"
#include "policies/session/instances.h"
#include "policies/session/step_times.h"
#include "traces/timeline/latency_parts.h"
#include "traces/timeline/served.h"

namespace corun {
namespace {

const std::string kPolicyAlone = "fcfs";

struct Played {
  std::vector<RequestRecord> requests;
  SessionOutcome outcome;
  std::vector<SequenceRecord> sequences{};
};

Played play_run(Player& player, const Run& run, const std::vector<Sink*>& sinks, const PlayOptions& options,
                bool resources = false) {
  Timeline timeline;
  PartsMeter requests(run.trace, run.needed.contexts == Contexts::per_process, resources);
  SequenceMeter sequences;
  timeline.attach(requests);
  timeline.attach(sequences);
  for (Sink* sink : sinks) timeline.attach(*sink);
  SessionOutcome outcome = player.play(run, timeline, options);
  if (!outcome.stuck.empty())
    throw StuckError(run.trace.name, "",
                     fmt::format("the run cannot go on under {}: {}", run.named, outcome.stuck),
                     "a reservation or mask may leave a client without SMs; check the trace and the policy");
  return {requests.requests(), std::move(outcome), std::move(sequences.sequences())};
}

/// Each instance by itself, one after the other: they share nothing.  Where the trace has no end of its own all
/// go on until the last client has finished a request.
Played play_instances(const Plan& plan, const RunOptions& options, Player& player,
                      const std::function<void(Time)>& told) {
  const std::vector<Gpu> gpus = instances_of(plan.gpu, plan.needed.instances);
  std::vector<InstancePart> parts = divide(plan.trace(), plan.needed.instances);
  const auto play_part = [&](const InstancePart& part, bool counts, const std::vector<Sink*>& to) {
    const std::unique_ptr<Policy> inside = make_policy(part.instance.policy);
    return play_run(player, {part.trace, gpus[part.number], part.instance.policy, *inside, counts}, to,
                    {false, told, {}}, counts && options.resources);
  };
  if (!plan.trace().run.duration) {
    Time end{};
    for (const InstancePart& part : parts) end = std::max(end, play_part(part, false, {}).outcome.end);
    for (InstancePart& part : parts) part.trace.run.duration = end;
  }
  Played all;
  all.outcome.failed.resize(plan.trace().clients.size());
  for (std::uint32_t k = 0; k < parts.size(); ++k) {
    std::uint32_t first_sm = 0;
    for (std::uint32_t i = 0; i < parts[k].number; ++i) first_sm += gpus[i].sms;
    std::vector<std::unique_ptr<OfTheWhole>> renamed;
    std::vector<Sink*> to;
    for (Sink* sink : options.sinks)
      to.push_back(renamed.emplace_back(std::make_unique<OfTheWhole>(*sink, parts[k], k, first_sm)).get());
    Played part = play_part(parts[k], true, to);
    for (RequestRecord& r : part.requests) {
      r.client = parts[k].clients[r.client.value];
      all.requests.push_back(std::move(r));
    }
    for (SequenceRecord& r : part.sequences) {
      r.client = parts[k].clients[r.client.value];
      all.sequences.push_back(std::move(r));
    }
    SessionOutcome &sum = all.outcome, &its = part.outcome;
    sum.end = std::max(sum.end, its.end);
    sum.decisions += its.decisions, sum.refusals += its.refusals;
    sum.memory_peak += its.memory_peak, sum.checkpoints += its.checkpoints, sum.moved_bytes += its.moved_bytes;
    if (sum.deadlock.empty()) sum.deadlock = its.deadlock;
    for (std::size_t i = 0; i < its.failed.size(); ++i)
      sum.failed[parts[k].clients[i].value] = its.failed[i];
  }
  return all;
}

/// Tells how far the runs are, and ends them all when the caller wishes.  Asks only in the caller's own thread,
/// which may be the only one that can answer, as Python's.
class Watch {
 public:
  Watch(const Trace& trace, const RunOptions& options) : trace_(trace), options_(options) {}

  std::function<void(Time)> over(std::string stage) const {
    return [this, stage = std::move(stage)](Time now) {
      if (ended_) throw std::runtime_error("the run was ended");  // what ended it is thrown by the caller's thread
      if (std::this_thread::get_id() != caller_) return;
      if (options_.interrupt) try {
          options_.interrupt();
        } catch (...) {
          ended_ = true;
          throw;
        }
      if (options_.progress && trace_.run.duration)
        options_.progress(stage.c_str(), to_seconds(now) / to_seconds(*trace_.run.duration));
    };
  }

 private:
  const Trace& trace_;
  const RunOptions& options_;
  std::thread::id caller_ = std::this_thread::get_id();
  mutable std::atomic<bool> ended_ = false;
};

/// What did not end as its clients wished, and what became of device memory.
void report_memory(const SessionOutcome& outcome, RunResult& result) {
  for (std::size_t i = 0; i < result.clients.size(); ++i) result.clients[i].failed = outcome.failed[i];
  result.memory_peak = outcome.memory_peak;
  result.checkpoints = outcome.checkpoints;
  result.moved_bytes = outcome.moved_bytes;
  if (!outcome.deadlock.empty()) add_note(result, NoteKind::deadlock, "deadlock: " + outcome.deadlock);
}

/// Shares of a server's tokens and prompts outside of the captured sizes, and what was taken for them.
void report_sizes(const Trace& trace, const Client& client, const ServedResult& served, RunResult& result) {
  if (!(served.uncaptured_tokens > 0 || served.uncaptured_prompts > 0)) return;
  const StepTimes times(*client.serving, trace.programs[client.program.value], trace.kernels);
  if (served.uncaptured_tokens > 0)
    add_note(result, NoteKind::sizes,
             fmt::format("{}: {:.3g} % of its tokens are by decodes of a batch or context outside of all captured: {}", client.name,
                         100 * served.uncaptured_tokens, times.decodes_in_words()));
  if (served.uncaptured_prompts > 0)
    add_note(result, NoteKind::sizes,
             fmt::format("{}: {:.3g} % of its prompts exceed the {} tokens of the largest captured and are read in chunks: {}", client.name,
                         100 * served.uncaptured_prompts, times.largest_prompt(), times.prompts_in_words()));
}

/// Instances say so themselves; not the policies inside them.
void report_unverified(const Plan& plan, RunResult& result) {
  std::set<std::string, std::less<>> ran;
  if (plan.needed.instances.empty()) ran.emplace(plan.policy->name());
  for (const Instance& i : plan.needed.instances) ran.emplace(make_policy(i.policy)->name());
  for (const PolicyInfo& p : policies())
    if (!p.unverified.empty() && ran.contains(p.name))
      add_note(result, NoteKind::unverified, fmt::format("{} is unverified: {}", p.name, p.unverified));
}

/// Each client's requests alone, for as long as `trace`, in which all have run, or until the end of the window.
std::vector<Player::Requests> play_alone(const Plan& plan, const Trace& trace, const Played& together,
                                         const Window& window, const Watch& watch, Player& player,
                                         AloneRuns& known) {
  std::vector<Player::Requests> alone(trace.clients.size());
  player.each(alone.size(), [&](std::size_t i) {
    Trace one = plan.recorded;
    one.run = trace.run;
    one.clients = {Client(one.clients[i])};
    one.clients.front().cpus.reset();  // nobody else wants them
    if (!window.fixed_work) one.run.duration = window.end;
    const auto told = watch.over(trace.clients[i].name + " alone");
    const bool is_already = trace.clients.size() == 1 && plan.is_registered && plan.named == kPolicyAlone &&
                            one.run.duration == plan.trace().run.duration;
    alone[i] = known.of({one, plan.gpu}, [&] {
      const std::unique_ptr<Policy> fcfs = make_policy(kPolicyAlone);
      const Run run{one, plan.gpu, kPolicyAlone, *fcfs, false};
      auto requests = player.foretell(run, is_already ? &together.requests : nullptr, told);
      return requests ? *std::move(requests) : play_run(player, run, {}, {false, told, {}}).requests;
    });
  });
  return alone;
}

}  // namespace

SessionOutcome play(const Trace& trace, Policy& policy, Backend& backend, Timeline& timeline,
                    ProfileSource profiles, const PlayOptions& options) {
  Session session(trace, policy, backend, timeline, std::move(profiles));
  session.audit(options.audit);
  backend.start();
  SessionOutcome outcome = session.run(options.progress, options.stop);
  backend.close();
  timeline.flush();
  return outcome;
}

Ran execute(const Plan& plan, const RunOptions& options, Player& player, AloneRuns& known) {
  const Watch watch(plan.trace(), options);
  const auto told = watch.over(plan.named);
  Played together =
      plan.needed.instances.empty()
          ? play_run(player, {plan.trace(), plan.gpu, plan.named, *plan.policy, true, plan.needed},
                     options.sinks, {false, told, options.stop}, options.resources)
          : play_instances(plan, options, player, told);
  const Time stopped = together.outcome.end;
  std::optional<Trace> cut;  // views of a policy point into the whole one
  if (together.outcome.stopped) {
    if (stopped <= plan.trace().run.warm_up)
      throw InputError(plan.trace().name, "", "the run was stopped before its warm-up ended",
                       "let it run longer");
    cut = plan.trace();
    cut->run.duration = stopped;
  }
  const Trace& trace = cut ? *cut : plan.trace();
  const Window window = window_of(trace, together.requests);
  std::vector<Player::Requests> alone;
  if (options.alone) alone = play_alone(plan, trace, together, window, watch, player, known);

  Ran ran{measure(trace, window, together.requests, alone), window, std::move(together.outcome),
          std::move(together.requests)};
  for (std::uint32_t i = 0; i < trace.clients.size(); ++i)
    if (trace.clients[i].serving) {
      const ServedResult served = measure_served(trace.clients[i], std::array{ClientId{i}}, window, together.sequences);
      ran.result.clients[i].served = served;
      ran.result.clients[i].deadline_misses = served.late;
      report_sizes(trace, trace.clients[i], served, ran.result);
    }
  for (ClientResult& server : ran.result.servers) {
    std::vector<ClientId> replicas;
    for (std::uint32_t i = 0; i < trace.clients.size(); ++i)
      if (ran.result.clients[i].replica_of == server.name) replicas.push_back(ClientId{i});
    const Client& first = trace.clients[replicas.front().value];
    if (!first.serving) continue;
    server.served = measure_served(first, replicas, window, together.sequences);
    server.deadline_misses = server.served->late;
  }
  report_memory(ran.outcome, ran.result);
  if (plan.is_registered) report_unverified(plan, ran.result);
  if (ran.outcome.stopped)
    add_note(
        ran.result, NoteKind::interrupted,
        fmt::format(
            "interrupted at {:.1f} ms{}: these are the results so far", to_ms(stopped),
            plan.trace().run.duration ? fmt::format(" of {:.1f}", to_ms(*plan.trace().run.duration)) : ""));
  ran.result.gpu = plan.gpu.name;
  ran.result.gpu_basis = in_words(plan.gpu.basis);
  ran.result.policy = plan.named;
  return ran;
}

}  // namespace corun
