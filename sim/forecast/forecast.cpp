#include "sim/forecast/forecast.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "policies/session/session.h"
#include "sim/backend/sim_backend.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {
namespace {

Time work_of(const Trace& trace, ClientId client, OpId op) {
  const Op& what = trace.programs[trace.clients[client.value].program.value].ops[op.value];
  const auto* launch = std::get_if<corun::Launch>(&what.what);
  if (launch == nullptr) return Time{};
  return launch->solo_time.value_or(trace.kernels[launch->kernel.value].solo_time.value_or(Time{}));
}

Time share(const LaunchView& l, std::uint64_t blocks) {
  return Time{
      static_cast<std::int64_t>(static_cast<double>(l.solo_time.count()) * static_cast<double>(blocks) /
                                static_cast<double>(l.kernel->blocks()))};
}

/// The trace as far as it is known when a snapshot is taken: nobody knows what will arrive.  Device memory is
/// there.
Trace known_of(Trace trace) {
  for (Client& c : trace.clients) {
    c.memory_bytes = 0;
    c.serving.reset();
    c.host_stalls.reset();
    if (!std::holds_alternative<ClosedLoop>(c.arrivals)) c.arrivals = ExplicitTimes{};
  }
  for (Program& p : trace.programs)
    for (Op& op : p.ops) {
      op.uses.emplace();
      if (auto* alloc = std::get_if<Alloc>(&op.what)) alloc->bytes = 0;
    }
  return trace;
}

Gpu at_highest_clock(Gpu gpu) {
  gpu.power.limit_w = 0;
  return gpu;
}

/// Hears what ends, and when.
class Ends final : public Sink {
 public:
  using Sink::record;
  Ends(const Trace& trace, const Snapshot& now, Outlook& outlook) : trace_(trace), outlook_(outlook) {
    of_slot_.resize(now.launches.size(), kNone);
    const auto watch = [&](LaunchId id) {
      of_slot_[id.slot] = static_cast<std::uint32_t>(outlook.launches.size());
      outlook.launches.push_back({id});
    };
    for (const LaunchId id : now.running) watch(id);
    for (const LaunchId id : now.pending) watch(id);
    launches_left_ = outlook.launches.size();
    outlook.clients.resize(now.clients.size());
    for (const ClientView& c : now.clients) {
      const std::uint64_t shown = c.requests_waiting + c.busy;
      last_.push_back(c.request + c.requests_waiting);
      requests_left_.push_back(shown);
    }
  }

  void record(const KernelRecord& r) override {
    if (r.finished == kNever) return;
    ended(r.launch, r.finished);
    outlook_.clients[r.client.value].work += work_of(trace_, r.client, r.op);
  }
  void record(const CopyRecord& r) override { ended(r.launch, r.finished); }
  void record(const RequestRecord& r) override {
    Outlook::OfClient& of = outlook_.clients[r.client.value];
    std::uint64_t& left = requests_left_[r.client.value];
    if (r.finished == kNever || r.dropped) return;
    ++of.requests;
    if (left == 0 || r.request > last_[r.client.value]) return;
    of.request_ends = std::min(of.request_ends, r.finished);
    --left;
  }

  bool all() const {
    return launches_left_ == 0 && std::ranges::all_of(requests_left_, [](std::uint64_t n) { return n == 0; });
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  void ended(LaunchId launch, Time at) {
    if (launch.slot >= of_slot_.size() || of_slot_[launch.slot] == kNone) return;
    Outlook::LaunchEnd& end = outlook_.launches[of_slot_[launch.slot]];
    if (end.launch != launch || end.at != kNever) return;
    end.at = at;
    --launches_left_;
  }

  const Trace& trace_;
  Outlook& outlook_;
  std::vector<std::uint32_t> of_slot_;  // of the snapshot: index into its launches
  std::size_t launches_left_ = 0;
  std::vector<std::uint64_t> last_, requests_left_;  // by client: of those that the snapshot shows
};

/// A way of deciding as a policy.
class Asks final : public Policy {
 public:
  Asks(const WayOfDeciding& way, Requirements needed) : way_(way), needed_(std::move(needed)) {}
  std::string_view name() const override { return "a way of deciding"; }
  Requirements requirements() const override { return needed_; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override { way_(now, decisions); }

 private:
  const WayOfDeciding& way_;
  Requirements needed_;
};

class SimForecast final : public Forecast {
 public:
  SimForecast(const Trace& trace, const Gpu& gpu, const Requirements& needed, Shapes* shapes,
              const HostCosts* host)
      : trace_(known_of(trace)),
        gpu_(at_highest_clock(gpu)),
        needed_(needed),
        shapes_(std::make_shared<LaunchShapes>(gpu, shapes)),
        begins_(trace_, gpu_, nobody_) {
    needed_.forecast = needed_.profiles = needed_.memory = needed_.deferred_memory = false;
    if (host != nullptr) host_ = *host;
  }

  Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) override;

 private:
  class Played;
  Trace trace_;
  const Gpu gpu_;
  Requirements needed_;
  std::optional<HostCosts> host_;
  std::shared_ptr<LaunchShapes> shapes_;
  Timeline nobody_;
  const Workload begins_;
};

/// One simulation of the future.
class SimForecast::Played {
 public:
  Played(SimForecast& of, const Snapshot& now, const WayOfDeciding& way,
         std::span<const Session::Resumed> on_gpu)
      : now_(now),
        ends_(of.trace_, now, outlook_),
        timeline_(attached()),
        backend_(of.trace_, of.gpu_, of.needed_, timeline_, {.contention = of.shapes_->contention()}, of.shapes_, of.host_ ? &*of.host_ : nullptr),
        policy_(way, of.needed_),
        session_(of.trace_, policy_, backend_, timeline_, {}, Workload(of.begins_, timeline_)) {
    for (const LaunchId id : now.pending)
      if (now.launch(id).blocks_done != 0) backend_.expect(now.launch(id), Time{});
    for (const Session::Resumed& r : on_gpu) backend_.expect(now.launch(r.launch), r.reached);
    session_.resume(now, on_gpu);
  }

  /// Whether a launch would have ended by now, which it has not: it waited for room, which came when the last
  /// one ended that is known of.
  bool belated(std::vector<Session::Resumed>& on_gpu) const {
    Time last{};
    for (const StreamView& s : now_.streams) last = std::max(last, s.ended_at);
    bool any = false;
    for (Session::Resumed& r : on_gpu) {
      const Outlook::LaunchEnd& end =
          *std::ranges::find(outlook_.launches, r.launch, &Outlook::LaunchEnd::launch);
      if (end.at >= now_.now || r.reached >= last) continue;
      r.reached = last;
      any = true;
    }
    return any;
  }

  Outlook play(const ForecastBounds& bounds) {
    const auto work = [&](const LaunchId& id, bool before) {
      const LaunchView& l = now_.launch(id);
      if (l.kernel == nullptr) return;
      const bool ended = outlook_.launches[static_cast<std::size_t>(&id - now_.running.data())].at != kNever;
      const Time done = ended ? l.solo_time : share(l, backend_.blocks_done(l));
      if (before)
        outlook_.clients[l.client.value].work -= done;
      else if (!ended)
        outlook_.clients[l.client.value].work += done;
    };
    for (const LaunchId& id : now_.running) work(id, true);

    // An event is a step of the engine or an instant at which the host hears of something.
    const std::uint64_t before = backend_.events(), most = std::min(bounds.events, kMost);
    std::uint64_t instants = 0;
    const auto spent = [&] { return backend_.events() - before + instants; };
    const auto allow = [&] {  // the next instant is one
      backend_.stop_after(before + (most - std::min(most, instants + 1)));
    };
    bool over = now_.now >= bounds.until || ends_.all();
    if (!over && most > 0) {
      allow();
      session_.run({}, [&] {
        ++instants;
        allow();
        over = bounds.until == kNever ? ends_.all() : backend_.now() >= bounds.until;
        return over || spent() + 1 > most;
      });
    }
    outlook_.reached = backend_.now();
    outlook_.complete = ends_.all();
    outlook_.events = spent();
    for (const LaunchId& id : now_.running) work(id, false);
    outlook_.used_up = !over && spent() + 1 >= most;
    return std::move(outlook_);
  }

 private:
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  Timeline attached() {
    Timeline timeline;
    timeline.attach(ends_);
    return timeline;
  }

  const Snapshot& now_;
  Outlook outlook_;
  Ends ends_;
  Timeline timeline_;
  SimBackend backend_;
  Asks policy_;
  Session session_;
};

Outlook SimForecast::look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) {
  trace_.run.duration = bounds.until;
  std::vector<Session::Resumed> on_gpu = Session::on_gpu(now, trace_, gpu_);
  const auto played = std::make_unique<Played>(*this, now, way, on_gpu);
  if (!played->belated(on_gpu)) return played->play(bounds);
  return Played(*this, now, way, on_gpu).play(bounds);
}

}  // namespace

std::unique_ptr<Forecast> make_forecast(const Trace& trace, const Gpu& gpu, const Requirements& needed,
                                        Shapes* shapes, const HostCosts* host) {
  if (!needed.forecast) return nullptr;
  return std::make_unique<SimForecast>(trace, gpu, needed, shapes, host);
}

}  // namespace corun::sim
