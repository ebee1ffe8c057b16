#include "hw/process/process_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "hw/process/worker.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostInFlight = 900;        // of a process: as many as its backend has room for
constexpr double kPolitely = 2;                   // seconds for a process to end by itself
constexpr Time kSetUp = std::chrono::minutes(3);  // compiling included

Message message(Kind kind) { return {static_cast<std::uint32_t>(kind), {}}; }

Child start_worker(const Channel& channel, const std::vector<std::string>& environment) {
  return Child::start(worker_command(), environment, channel.fd(), false);
}

}  // namespace

bool wants_processes(const Requirements& needed) {
  return needed.contexts == Contexts::per_process || !needed.thread_percentages.empty();
}

ProcessBackend::ProcessBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed,
                               Timeline& timeline, ProcessOptions options)
    : trace_(trace),
      topology_{gpu, {Capability::order, Capability::time_slice}},
      timeline_(timeline),
      options_(std::move(options)) {
  if (!options_.start) options_.start = start_worker;
  // Under MPS a percentage is a client's, so each client is a process; else clients of a process share it.
  const bool mps = !needed.thread_percentages.empty();
  std::map<std::string, std::uint32_t> of_process;
  for (std::uint32_t c = 0; c < trace.clients.size(); ++c) {
    const std::uint32_t next = static_cast<std::uint32_t>(workers_.size());
    const std::uint32_t w = mps ? next : of_process.emplace(trace.clients[c].process, next).first->second;
    if (w == next) workers_.emplace_back();
    worker_of_.push_back(w);
    number_of_.push_back(static_cast<std::uint32_t>(workers_[w].clients.size()));
    workers_[w].clients.push_back(c);
  }
  if (mps) mps_ = std::make_unique<MpsDaemon>();
  for (std::uint32_t w = 0; w < workers_.size(); ++w) {
    const std::vector<double>& p = needed.thread_percentages;
    setup(workers_[w], gpu, mps, mps ? p[std::min<std::size_t>(w, p.size() - 1)] : 100);
  }
  for (Worker& w : workers_) await(w, &Worker::ready, "set up");
}

void ProcessBackend::setup(Worker& w, const Gpu& gpu, bool part_of_gpu, double percentage) {
  Trace own = trace_;
  own.clients.clear();
  for (std::uint32_t c : w.clients) own.clients.push_back(trace_.clients[c]);
  std::ostringstream text;
  write_trace(own, text);
  const Json told{{"trace", text.str()},
                  {"file", trace_.clients[w.clients.front()].origin.file},
                  {"gpu", gpu.name},
                  {"sms", gpu.sms},
                  {"sms_per_tpc", gpu.sms_per_tpc},
                  {"major", gpu.compute_capability_major},
                  {"minor", gpu.compute_capability_minor},
                  {"memory_bytes", gpu.memory_bytes},
                  {"patience_ps", options_.cuda.patience.count()},
                  {"verify", options_.cuda.verify},
                  {"store", options_.store},
                  {"part_of_gpu", part_of_gpu}};
  w.channel = std::make_unique<Channel>(Channel::make());
  w.child.emplace(
      options_.start(*w.channel, mps_ ? mps_->environment(percentage) : std::vector<std::string>{}));
  send(w, {static_cast<std::uint32_t>(Kind::setup), told.dump()});
}

ProcessBackend::~ProcessBackend() {
  for (Worker& w : workers_)
    if (w.child && !w.gone)
      w.channel->send(message(Kind::quit), [&] { return w.child->ended().has_value(); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPolitely);
  for (Worker& w : workers_)
    if (w.child)
      w.child->wait(std::chrono::duration<double>(until - std::chrono::steady_clock::now()).count());
  workers_.clear();  // kills those that are left
  mps_.reset();
}

Time ProcessBackend::clock() const {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

void ProcessBackend::send(Worker& w, const Message& m) {
  if (!w.gone) w.channel->send(m, [&] { return w.child->ended().has_value(); });
}

/// Until the process says so.  Before the clock runs, a process that fails ends the run.
void ProcessBackend::await(Worker& w, bool Worker::* what, const char* doing) {
  const Time begin = clock();
  std::vector<Notice> ignored;
  while (!(w.*what)) {
    if (options_.cuda.interrupted != nullptr && options_.cuda.interrupted->load())
      throw Interrupted("interrupted");
    look(w, ignored);
    if (w.gone && !(w.*what))
      throw DriverError(
          fmt::format("the process of client {} {}", trace_.clients[w.clients.front()].name, w.why));
    if (clock() - begin > kSetUp)
      throw Stalled(
          fmt::format("the process of client {} does not {}", trace_.clients[w.clients.front()].name, doing));
    std::this_thread::yield();
  }
}

void ProcessBackend::start() {
  for (Worker& w : workers_) {  // one after the other: each alone on the GPU when it takes its time
    send(w, message(Kind::start));
    await(w, &Worker::started, "start");
  }
  epoch_ = clock();
  now_ = last_event_ = Time{};
}

// ---- decisions --------------------------------------------------------------------------------------------

Outcome ProcessBackend::apply(const Decision& decision, const LaunchView& l,
                              std::span<const LaunchId> follows) {
  if (const auto* d = std::get_if<decide::Launch>(&decision)) {
    if (d->tpc_mask || d->ctas != 0 || !d->ctas_per_sm.empty() || d->priority != 0)
      return Refused{"processes run their kernels plainly, in order"};
    return submit(Kind::launch, l, d->priority, follows);
  }
  if (!std::holds_alternative<decide::Allocate>(decision))
    return Refused{"not possible with separate processes"};
  Worker& w = workers_[worker_of_[l.client.value]];
  if (w.gone) return Refused{"the client's process has ended"};
  Allocated a;
  a.client = ClientId{number_of_[l.client.value]};
  a.buffer = l.uses.front();
  a.bytes = l.bytes;
  a.first = l.operation == nullptr;
  if (!a.first) {
    const std::vector<Op>& ops = trace_.programs[trace_.clients[l.client.value].program.value].ops;
    a.op.value = static_cast<std::uint32_t>(l.operation - ops.data());
  }
  owner_[a.buffer.value] = worker_of_[l.client.value];
  send(w, message(Kind::allocate).put(a));
  return Applied{};
}

Outcome ProcessBackend::copy(const LaunchView& l, std::span<const LaunchId> follows) {
  return submit(Kind::copy, l, 0, follows);
}

Outcome ProcessBackend::submit(Kind kind, const LaunchView& l, std::int32_t priority,
                               std::span<const LaunchId> follows) {
  Worker& w = workers_[worker_of_[l.client.value]];
  if (w.gone) return Refused{"the client's process has ended"};
  if (w.in_flight.size() >= kMostInFlight) return Refused{"too many launches are under way"};
  Submitted s;
  s.launch = l.id, s.client = ClientId{number_of_[l.client.value]}, s.stream = l.stream, s.op = l.op;
  s.kernel = l.kernel_id, s.request = l.request, s.priority = priority;
  s.follows = static_cast<std::uint32_t>(follows.size()), s.uses = static_cast<std::uint32_t>(l.uses.size());
  Message m = message(kind).put(s);
  for (LaunchId id : follows) m.put(id);
  for (BufferId id : l.uses) m.put(id);
  w.in_flight[l.id.serial] = {l.client, l.ready_at, now_};
  send(w, m);
  return Applied{};
}

void ProcessBackend::freed(BufferId buffer) {
  if (const auto found = owner_.find(buffer.value); found != owner_.end())
    send(workers_[found->second], message(Kind::freed).put(buffer));
}

// ---- what the processes tell ------------------------------------------------------------------------------

void ProcessBackend::wait(Time until, std::vector<Notice>& notices) {
  const std::size_t before = notices.size();
  for (;;) {
    if (options_.cuda.interrupted != nullptr && options_.cuda.interrupted->load())
      throw Interrupted("interrupted");
    const Time now = clock() - epoch_;
    bool busy = false;
    for (Worker& w : workers_) {
      if (!w.gone) look(w, notices);
      busy |= !w.in_flight.empty();
    }
    if (notices.size() != before) {
      now_ = last_event_ = std::max(now_, now);
      return;
    }
    if (now >= until) {
      now_ = std::max(now_, now);
      return;
    }
    if (!busy) {
      if (until == kNever) return;
      last_event_ = now;
    } else if (now - last_event_ >
               options_.cuda.patience + std::chrono::seconds(10)) {  // later than each of them, on a busy machine too
      throw Stalled(what_it_waits_for());
    }
    std::this_thread::yield();
  }
}

void ProcessBackend::look(Worker& w, std::vector<Notice>& notices) {
  const bool over = w.child->ended().has_value();  // before its last messages are read
  while (const auto m = w.channel->receive()) handle(w, *m, notices);
  if (over) lost(w, notices);
}

void ProcessBackend::handle(Worker& w, const Message& m, std::vector<Notice>& notices) {
  std::size_t at = 0;
  switch (static_cast<Kind>(m.kind)) {
    case Kind::ready:
      w.ready = true;
      return;
    case Kind::started:
      w.epoch = m.take<Time>(at);
      w.started = true;
      return;
    case Kind::finished: {
      const auto id = m.take<LaunchId>(at);
      w.in_flight.erase(id.serial);
      if (m.take<bool>(at))
        notices.push_back(CopyFinished{id});
      else
        notices.push_back(KernelFinished{id});
      return;
    }
    case Kind::kernel: {
      auto r = m.take<KernelRecord>(at);
      const InFlight& f = w.in_flight.at(r.launch.serial);
      r.client = f.client, r.ready = f.ready, r.submitted = f.submitted;
      for (Time* t : {&r.queued, &r.slotted, &r.started, &r.last_block, &r.finished}) *t = from(w, *t);
      timeline_.record(r);
      return;
    }
    case Kind::copied: {
      auto r = m.take<CopyRecord>(at);
      r.client = w.in_flight.at(r.launch.serial).client;
      r.started = from(w, r.started), r.finished = from(w, r.finished);
      timeline_.record(r);
      return;
    }
    case Kind::closed: {
      const Json told = Json::parse(m.bytes);
      blocks_ += told.at("blocks").get<std::uint64_t>();
      verified_ += told.at("verified").get<std::uint64_t>();
      for (const Json& line : told.at("wrong")) wrong_.push_back(line);
      w.closed = true;
      return;
    }
    case Kind::failed: {
      const Json told = Json::parse(m.bytes);
      if (told.contains("problem") && !w.started)
        throw InputError(told.at("file"), told.at("place"), told.at("problem"), told.at("remedy"));
      w.why = told.contains("problem") ? told.at("problem") : told.at("what");
      return;
    }
    default:
      throw DriverError(fmt::format("a process told something unknown ({})", m.kind));
  }
}

void ProcessBackend::lost(Worker& w, std::vector<Notice>& notices) {
  w.gone = true;
  w.in_flight.clear();
  const Child::End end = *w.child->ended();
  if (w.why.empty())
    w.why = end.signal != 0 ? fmt::format("was killed by signal {}", end.signal)
                            : fmt::format("ended with code {}", end.code);
  for (std::uint32_t c : w.clients) notices.push_back(ClientLost{ClientId{c}});
}

void ProcessBackend::close() {
  for (Worker& w : workers_) send(w, message(Kind::close));
  std::vector<Notice> ignored;
  const Time begin = clock();
  for (Worker& w : workers_)
    while (!w.gone && !w.closed) {
      look(w, ignored);
      if (clock() - begin > kSetUp)
        throw Stalled(
            fmt::format("the process of client {} does not end", trace_.clients[w.clients.front()].name));
      std::this_thread::yield();
    }
}

std::string ProcessBackend::what_it_waits_for() const {
  std::string text = fmt::format("no process has told anything for {:.0f} s; waiting for",
                                 to_seconds(clock() - epoch_ - last_event_));
  for (const Worker& w : workers_)
    if (!w.in_flight.empty())
      text += fmt::format(" {} launches of client {} (process {})", w.in_flight.size(),
                          trace_.clients[w.clients.front()].name, w.child->pid());
  return text;
}

}  // namespace corun::hw
