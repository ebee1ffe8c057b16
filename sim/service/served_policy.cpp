#include "sim/service/served_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/backend/shapes.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// The policy's one object, which starts anew as often as the books do.
class Lent final : public Policy {
 public:
  Lent(Policy& policy, std::exception_ptr& unfit) : policy_(policy), unfit_(unfit) {}
  std::string_view name() const override { return policy_.name(); }
  Requirements requirements() const override { return policy_.requirements(); }
  void look_ahead(Forecast& forecast) override { policy_.look_ahead(forecast); }
  void start(const Topology& topology, std::span<const ClientView> clients) override {
    try {
      policy_.start(topology, clients);
    } catch (const InputError&) {
      unfit_ = std::current_exception();
      throw;
    }
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override { policy_.decide(now, decisions); }

 private:
  Policy& policy_;
  std::exception_ptr& unfit_;
};

/// By operation: whether the host waits behind it, or behind the graph that it begins, and launches more then.
std::vector<bool> waits_behind(const Client& client, const corun::Program& program) {
  std::vector<bool> waits(program.ops.size());
  if (issue_of(client, program) == Issue::graph) return waits;  // one call, behind which the request ends
  bool wait = false;
  std::optional<std::size_t> next;  // launch
  for (std::size_t i = program.ops.size(); i-- > 0;) {
    const Op& op = program.ops[i];
    if (std::holds_alternative<Sync>(op.what)) wait = next.has_value();
    if (!std::holds_alternative<Launch>(op.what)) continue;
    waits[i] = wait || (op.graph != 0 && next && program.ops[*next].graph == op.graph && waits[*next]);
    wait = false, next = i;
  }
  return waits;
}

Kernel as_told(const LaunchView& l) {
  const corun::Kernel& of = *l.kernel;
  Kernel kernel;
  if (l.nodes == 0 && l.solo_time != Time{}) kernel.solo_time = l.solo_time;
  kernel.name = of.name;
  kernel.grid = of.grid, kernel.block = of.block;
  kernel.registers_per_thread = of.registers_per_thread;
  kernel.static_shared_memory_bytes = of.static_shared_memory_bytes;
  kernel.dynamic_shared_memory_bytes = of.dynamic_shared_memory_bytes;
  return kernel;
}

std::uint32_t workers_of(const corun::Kernel& kernel, const Gpu& gpu) {
  return gpu.sms * max_active_blocks(capacity_of(gpu.sm), demand_of_worker(kernel, gpu));
}

}  // namespace

ServedPolicy::ServedPolicy(Policy& policy, const Trace& trace, const Gpu& gpu, ServedOptions options, ServedLaunches& launches)
    : policy_(policy), trace_(trace), gpu_(gpu), launches_(launches) {
  live::BooksOptions of_books;
  of_books.ahead = options.ahead;
  of_books.persistent = options.persistent;
  of_books.make = [this] { return std::make_unique<Lent>(policy_, unfit_); };
  if (options.forecast)
    of_books.forecast = [this, forecast = std::move(options.forecast)](const Gpu& on, const Requirements& needed) {
      auto made = forecast(on, needed);
      forecast_ = made.get();
      return made;
    };
  for (const Client& c : trace.clients) {
    of_books.joined.push_back({c.name, c.service_class, c.priority, c.quota, c.reservation, c.deadline, &c});
    const corun::Program& program = trace.programs[c.program.value];
    programs_.push_back({std::vector<Stream>(program.streams.size()), waits_behind(c, program), {}});
  }
  books_.emplace(std::string(policy.name()), gpu, std::move(of_books));
  if (unfit_) std::rethrow_exception(unfit_);
  if (books_->memory() != nullptr)
    throw InputError("", "--as-served", fmt::format("under policy {} sim serve moves all of a program's memory, which is not simulated", policy.name()),
                     "leave it out");
  for (std::uint32_t c = 0; c < programs_.size(); ++c) launches.queued_ahead.push_back(books_->in_flight(c) != 0);
}

Requirements ServedPolicy::requirements() const {
  Requirements needed = policy_.requirements();
  needed.whole_graphs = true;
  needed.forecast = false;  // the books have one
  if (books_->options().persistent) needed.capabilities.add(Capability::cta_quota);
  for (const bool ahead : launches_.queued_ahead) needed.waiting_hosts.push_back(!ahead);
  return needed;
}

std::uint32_t& ServedPolicy::number(LaunchId id) {
  if (id.slot >= numbers_.size()) numbers_.resize(id.slot + 1);
  return numbers_[id.slot];
}

std::uint32_t ServedPolicy::attempts(const LaunchView& l, const Known& known) const {
  if (!known.ended || l.nodes != 0 || !l.kernel->ptx || l.kernel->cluster.count() != 1) return 0;
  const Client& client = trace_.clients[l.client.value];
  if (handed_over(client, trace_.programs[client.program.value], l.op) != HandedOver::by_itself) return 0;
  if (std::get<Launch>(l.operation->what).dependent || l.kernel->blocks() <= workers_of(*l.kernel, gpu_)) return 0;
  return books_->attempts(l.client.value, known.kernel);
}

void ServedPolicy::called(const LaunchView& l, Time now) {
  const std::uint32_t client = l.client.value;
  Program& p = programs_[client];
  auto known = p.kernels.find(l.kernel);
  if (known == p.kernels.end()) known = p.kernels.emplace(l.kernel, Known{as_told(l)}).first;
  Stream& s = p.streams[l.stream.value];
  number(l.id) = s.first + static_cast<std::uint32_t>(s.launches.size());
  s.launches.push_back(l.id);
  const std::uint32_t times = attempts(l, known->second);
  if (times != 0) launches_.attempts_left[l.id.serial] = times - 1;
  books_->asked(client, l.stream.value, number(l.id), known->second.kernel, now, times);
  if (p.waits_behind[l.op.value]) books_->waits(client);
}

void ServedPolicy::hear(const Notice& notice, const Snapshot& now) {
  if (const auto* ready = std::get_if<LaunchReady>(&notice)) {
    called(now.launch(ready->launch), now.now);
  } else if (const auto* kernel = std::get_if<KernelFinished>(&notice)) {
    const LaunchView& l = now.launch(kernel->launch);
    Stream& s = programs_[l.client.value].streams[l.stream.value];
    for (const std::uint32_t end = number(l.id); !s.launches.empty() && live::reached(end, s.first); ++s.first) s.launches.pop_front();
    launches_.attempts_left.erase(l.id.serial);
    programs_[l.client.value].kernels.at(l.kernel).ended = true;
    books_->ended(l.client.value, l.stream.value, number(l.id), now.now);
  } else if (const auto* off = std::get_if<Preempted>(&notice)) {
    const LaunchView& l = now.launch(off->launch);
    if (l.kernel == nullptr) return;
    if (const auto left = launches_.attempts_left.find(l.id.serial); left != launches_.attempts_left.end() && left->second != 0) --left->second;
    books_->stopped(l.client.value, l.stream.value, number(l.id), static_cast<std::uint32_t>(off->blocks_done), now.now);
  } else if (const auto* request = std::get_if<RequestFinished>(&notice)) {
    if (books_->unfinished(request->client.value) == 0) books_->waits(request->client.value);
  }
}

void ServedPolicy::carry_out(const live::Granted& g, const Snapshot& now, std::vector<Decision>& decisions) {
  const Stream& s = programs_[g.client].streams[g.stream];
  if (const std::uint32_t place = g.number - s.first; place < s.launches.size()) {
    const LaunchId id = s.launches[place];
    const LaunchView& l = now.launch(id);
    const auto waits = std::ranges::find_if(waiting_, [id](const Waiting& w) { return w.decision.launch == id; });
    if (l.id != id || l.state == LaunchState::finished) {  // its client has failed
      books_->failed(g.client, g.stream, g.number, now.now);
    } else if (g.stop && waits != waiting_.end()) {
      waiting_.erase(waits);
      books_->stopped(g.client, g.stream, g.number, static_cast<std::uint32_t>(l.blocks_done), now.now);
    } else if (g.stop) {
      decisions.emplace_back(decide::Preempt{id, decide::Stop::at_block});
    } else if (g.resize) {
      decisions.emplace_back(decide::Resize{id, 0, g.ctas_per_sm});
    } else {
      // An attempt without quotas has all workers.
      const bool all = g.ctas_per_sm.empty() && launches_.attempts_left.contains(id.serial);
      waiting_.push_back({g, {id, g.decided.priority, g.decided.tpc_mask, all ? workers_of(*l.kernel, gpu_) : 0, g.ctas_per_sm}});
    }
  }
}

void ServedPolicy::forget_taken(const Snapshot& now) {
  std::erase_if(waiting_, [&](const Waiting& w) {
    const LaunchView& l = now.launch(w.decision.launch);
    if (l.id == w.decision.launch && l.state == LaunchState::pending) return false;
    if (l.id != w.decision.launch || l.state == LaunchState::finished) books_->failed(w.granted.client, w.granted.stream, w.granted.number, now.now);
    return true;
  });
}

void ServedPolicy::decide(const Snapshot& now, std::vector<Decision>& decisions) {
  for (const Notice& notice : now.notices) hear(notice, now);
  forget_taken(now);
  do {
    if (forecast_ != nullptr && forecast_->due() <= now.now) books_->hear_forecast();
    grants_.clear();
    books_->decide(now.now, grants_);
    for (const live::Granted& g : grants_) carry_out(g, now, decisions);
  } while (books_->next_wish() <= now.now);
  for (const Waiting& w : waiting_) decisions.emplace_back(w.decision);
  const Time next = std::min(books_->next_wish(), forecast_ != nullptr ? forecast_->due() : kNever);
  if (next != kNever && next != wakes_at_) decisions.emplace_back(decide::WakeAt{next});
  wakes_at_ = next;
}

}  // namespace corun::sim
