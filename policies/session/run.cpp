#include "policies/session/run.h"

#include <fmt/format.h>

#include <atomic>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include "policies/api/registry.h"
#include "policies/session/instances.h"
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

Played play_on(Testbed& testbed, const Trace& trace, Policy& policy, const std::string& named, bool together,
               const std::vector<Sink*>& sinks, const std::function<void(Time)>& progress,
               const std::string& profile = {}, const std::function<bool()>& stop = {}, bool resources = false) {
  Timeline timeline;
  const Requirements needed = policy.requirements();
  PartsMeter requests(trace, needed.contexts == Contexts::per_process, resources);
  SequenceMeter sequences;
  timeline.attach(requests);
  timeline.attach(sequences);
  for (Sink* sink : sinks) timeline.attach(*sink);
  const std::unique_ptr<Setup> setup = testbed.set_up({trace, named, needed, timeline, together, profile});
  SessionOutcome outcome =
      play(trace, setup->asked(policy), setup->backend(), timeline, [&](KernelId kernel) { return setup->profile(kernel); },
           {setup->audited(), progress, stop});
  setup->ended(outcome);
  if (!outcome.stuck.empty())
    throw StuckError(trace.name, "", fmt::format("the run cannot go on under {}: {}", named, outcome.stuck),
                     "a reservation or mask may leave a client without SMs; check the trace and the policy");
  return {requests.requests(), std::move(outcome), std::move(sequences.sequences())};
}

/// Each instance by itself, one after the other: they share nothing.  Where the trace has no end of its own all
/// go on until the last client has finished a request.
Played play_instances(Testbed& testbed, const Trace& trace, const std::vector<Instance>& instances,
                      const std::vector<Sink*>& sinks, const std::function<void(Time)>& progress, bool resources) {
  const std::vector<std::uint32_t> sms = testbed.divide(instances);
  std::vector<InstancePart> parts = divide(trace, instances);
  const auto run_part = [&](const InstancePart& part, bool counts, const std::vector<Sink*>& to) {
    const std::unique_ptr<Policy> inside = make_policy(part.instance.policy);
    return play_on(testbed, part.trace, *inside, part.instance.policy, counts, to, progress,
                   part.instance.profile, {}, counts && resources);
  };
  if (!trace.run.duration) {
    Time end{};
    for (const InstancePart& part : parts) end = std::max(end, run_part(part, false, {}).outcome.end);
    for (InstancePart& part : parts) part.trace.run.duration = end;
  }
  Played all;
  all.outcome.failed.resize(trace.clients.size());
  for (std::uint32_t k = 0; k < parts.size(); ++k) {
    const auto first_sm = std::accumulate(sms.begin(), sms.begin() + parts[k].number, 0u);
    std::vector<std::unique_ptr<OfTheWhole>> renamed;
    std::vector<Sink*> to;
    for (Sink* sink : sinks)
      to.push_back(renamed.emplace_back(std::make_unique<OfTheWhole>(*sink, parts[k], k, first_sm)).get());
    Played part = run_part(parts[k], true, to);
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

/// Instances say so themselves; not the policies inside them.
void report_unverified(const Policy& policy, const std::vector<Instance>& instances, RunResult& result) {
  std::set<std::string, std::less<>> ran;
  if (instances.empty()) ran.emplace(policy.name());
  for (const Instance& i : instances) ran.emplace(make_policy(i.policy)->name());
  for (const PolicyInfo& p : policies())
    if (!p.unverified.empty() && ran.contains(p.name))
      add_note(result, NoteKind::unverified, fmt::format("{} is unverified: {}", p.name, p.unverified));
}

}  // namespace

std::vector<std::uint32_t> Testbed::divide(const std::vector<Instance>&) {
  throw InputError("", "--policy", "corun does not divide the GPU of a machine",
                   "an administrator makes the instances (nvidia-smi mig); then run each one's clients on it");
}

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

Ran run(const Trace& whole, const Gpu& gpu, const RunOptions& options, Testbed& testbed, Policy* object) {
  const Watch watch(whole, options);
  const std::unique_ptr<Policy> made = object ? nullptr : make_policy(options.policy);
  Policy& policy = object ? *object : *made;
  const std::vector<Instance> instances = policy.requirements().instances;
  const auto told = watch.over(options.policy);
  Played together = instances.empty()
                        ? play_on(testbed, whole, policy, options.policy, true, options.sinks, told, {}, options.stop,
                                  options.resources)
                        : play_instances(testbed, whole, instances, options.sinks, told, options.resources);
  const Time stopped = together.outcome.end;
  std::optional<Trace> cut;  // views of a policy point into the whole one
  if (together.outcome.stopped) {
    if (stopped <= whole.run.warm_up)
      throw InputError(whole.name, "", "the run was stopped before its warm-up ended", "let it run longer");
    cut = whole;
    cut->run.duration = stopped;
  }
  const Trace& trace = cut ? *cut : whole;
  const Window window = window_of(trace, together.requests);

  std::vector<std::vector<RequestRecord>> alone(options.alone ? trace.clients.size() : 0);
  testbed.each(alone.size(), [&](std::size_t i) {
    Trace one = options.alone_of != nullptr ? *options.alone_of : trace;
    one.run = trace.run;
    one.clients = {Client(one.clients[i])};
    if (!window.fixed_work) one.run.duration = window.end;
    const auto told_alone = watch.over(trace.clients[i].name + " alone");
    const bool is_already = trace.clients.size() == 1 && object == nullptr && options.policy == kPolicyAlone && one.run.duration == whole.run.duration;
    alone[i] = testbed.alone(i, one, is_already ? &together.requests : nullptr, told_alone, [&] {
      return play_on(testbed, one, *make_policy(kPolicyAlone), kPolicyAlone, false, {}, told_alone).requests;
    });
  });

  Ran ran{measure(trace, window, together.requests, alone), window, std::move(together.outcome),
          std::move(together.requests)};
  for (std::uint32_t i = 0; i < trace.clients.size(); ++i)
    if (const auto& serving = trace.clients[i].serving)
      ran.result.clients[i].served = measure_served(*serving, ClientId{i}, window, together.sequences);
  report_memory(ran.outcome, ran.result);
  if (object == nullptr) report_unverified(policy, instances, ran.result);
  if (ran.outcome.stopped)
    add_note(ran.result, NoteKind::interrupted,
             fmt::format("interrupted at {:.1f} ms{}: these are the results so far", to_ms(stopped),
                         whole.run.duration ? fmt::format(" of {:.1f}", to_ms(*whole.run.duration)) : ""));
  ran.result.gpu = gpu.name;
  ran.result.gpu_basis = in_words(gpu.basis);
  ran.result.policy = options.policy;
  return ran;
}

}  // namespace corun
