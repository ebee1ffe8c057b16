// A Forecast of programs that nobody knows beforehand, as `sim serve` has them: what a Snapshot shows of a
// program is taken to be all of a request.  A best-effort program makes the same request again and again; of
// a real-time one nobody knows when the next comes.  A kernel that was never seen to end is taken to take
// kUnknown.  A graph, of which the number of its nodes is known, is taken to be kernels one after the other
// that fill the GPU and take the same time each, of at most kParts parts.
//
// Leaves out: copies; that what is on the GPU cannot be stopped there; what a wait on the GPU and a grant cost
// (experiments/h200/live).
#include <algorithm>
#include <bit>

#include "sim/forecast/forecast.h"

namespace corun::sim {
namespace {

constexpr Time kUnknown = std::chrono::microseconds(10);
constexpr std::uint32_t kParts = 16;

bool is_graph(const Kernel& kernel) { return kernel.registers_per_thread == 0; }

/// To one part in 16: times that are learned change a little each time, and a shape is fitted for each.
Time rounded(Time time) {
  const auto ps = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 1));
  const int low = std::max(0, static_cast<int>(std::bit_width(ps)) - 5);
  return Time{static_cast<std::int64_t>(ps >> low << low)};
}

/// The snapshot's work as a trace, and the snapshot as one of a run of this trace.
class Shown {
 public:
  Shown(const Snapshot& now, const Gpu& gpu) : gpu_(gpu) {
    for (const ClientView& c : now.clients) {
      Client& client = trace_.clients.emplace_back(*c.client);
      client.program = ProgramId{static_cast<std::uint32_t>(trace_.programs.size())};
      client.arrivals = ExplicitTimes{};
      Program& program = trace_.programs.emplace_back();
      program.name = client.name;
      program.streams.resize(client.streams.size());
    }
    std::vector<LaunchId> unfinished(now.running.begin(), now.running.end());
    unfinished.insert(unfinished.end(), now.pending.begin(), now.pending.end());
    std::ranges::sort(unfinished, {}, &LaunchId::serial);
    copies_of_.resize(now.launches.size());
    for (const LaunchId id : unfinished)
      if (now.launch(id).kernel != nullptr) add(now, now.launch(id));
    static const Kernel nothing = [] {  // of a program that shows none, whose requests are not simulated
      Kernel k;
      k.name = "nothing";
      k.block = {32, 1, 1};
      k.registers_per_thread = 16;
      return k;
    }();
    const KernelId none = kernel(&nothing, false, kUnknown);
    // What pointed into vectors that grew.
    for (LaunchView& l : launches_) {
      l.kernel = &trace_.kernels[l.kernel_id.value];
      l.operation = &trace_.programs[l.client.value].ops[l.op.value];
    }
    for (ClientView c : now.clients) {
      Client& client = trace_.clients[c.id.value];
      const std::size_t operations = trace_.programs[c.id.value].ops.size();
      c.client = &client;
      c.busy = operations != 0;
      c.requests_waiting = 0;
      c.first_call = 0, c.next_call = c.calls = operations;
      c.returned_at = now.now;
      clients_.push_back(c);
      if (!c.busy)
        trace_.programs[c.id.value].ops.push_back({Launch{none, kUnknown, {}}, {}, {}, {}, {}});
      else if (client.service_class == ServiceClass::best_effort)
        client.arrivals = ClosedLoop{};
    }
    const auto all_of = [&](std::span<const LaunchId> ids, std::vector<LaunchId>& to, LaunchState state) {
      for (const LaunchId id : ids)
        for (const LaunchId copy : copies_of_[id.slot])
          if ((launches_[copy.slot].state == LaunchState::pending) == (state == LaunchState::pending))
            to.push_back(copy);
    };
    all_of(now.running, running_, LaunchState::submitted);
    all_of(now.running, pending_, LaunchState::pending);
    all_of(now.pending, pending_, LaunchState::pending);
    std::ranges::sort(pending_, {}, &LaunchId::serial);
    views_.assign(now.streams.begin(), now.streams.end());
    of_stream_.resize(views_.size());
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const auto here = [&](LaunchId id) {
        return launches_[id.slot].client == views_[i].client && launches_[id.slot].stream == views_[i].stream;
      };
      std::ranges::copy_if(pending_, std::back_inserter(of_stream_[i]), here);
      views_[i].pending = of_stream_[i];
      views_[i].running = static_cast<std::uint32_t>(std::ranges::count_if(running_, here));
    }
    snapshot_ = Snapshot{now.now, {}, clients_, launches_, pending_, running_, {}};
    snapshot_.streams = views_;
  }
  const Trace& trace() const { return trace_; }
  const Snapshot& snapshot() const { return snapshot_; }

  /// By the launches of the snapshot that was given.
  std::vector<Outlook::LaunchEnd> ends(const Snapshot& now,
                                       const std::vector<Outlook::LaunchEnd>& of_copies) const {
    std::vector<Time> at(launches_.size(), kNever);
    for (const Outlook::LaunchEnd& e : of_copies) at[e.launch.slot] = e.at;
    std::vector<Outlook::LaunchEnd> all;
    const auto add = [&](LaunchId id) {
      all.push_back({id, copies_of_[id.slot].empty() ? kNever : at[copies_of_[id.slot].back().slot]});
    };
    std::ranges::for_each(now.running, add);
    std::ranges::for_each(now.pending, add);
    return all;
  }

 private:
  void add(const Snapshot& now, const LaunchView& l) {
    const bool graph = is_graph(*l.kernel);
    const std::uint32_t parts = graph ? std::clamp<std::uint32_t>(l.kernel->grid.x, 1, kParts) : 1;
    const Time whole = l.solo_time > Time{} ? l.solo_time : kUnknown * (graph ? parts : 1);
    std::uint32_t done = 0;
    if (l.state != LaunchState::pending) {
      const Time since = now.now - l.submitted_at;
      done = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(since.count() * parts / whole.count(), 0, parts - 1));
    }
    for (std::uint32_t part = done; part < parts; ++part) {
      LaunchView copy = l;
      const auto n = static_cast<std::uint32_t>(launches_.size());
      copy.id = {n, n};
      copy.solo_time = rounded(whole / parts);
      copy.kernel_id = kernel(l.kernel, graph, copy.solo_time);
      copy.state = part > done                        ? LaunchState::pending
                   : l.state == LaunchState::stopping ? LaunchState::submitted
                                                      : l.state;
      copy.blocks_done = 0;
      std::vector<Op>& ops = trace_.programs[l.client.value].ops;
      copy.op = OpId{static_cast<std::uint32_t>(ops.size())};
      ops.push_back({Launch{copy.kernel_id, copy.solo_time, {}}, l.stream, {}, {}, {}});
      copy.waits_for = std::ranges::any_of(
          launches_, [&](const LaunchView& b) { return b.client == l.client && b.stream == l.stream; });
      if (part > done) copy.ready_at = copy.unblocked_at = now.now;
      launches_.push_back(copy);
      copies_of_[l.id.slot].push_back(copy.id);
    }
  }

  KernelId kernel(const Kernel* of, bool graph, Time solo_time) {
    const auto known = std::ranges::find(kernels_, std::pair(of, solo_time));
    const auto number = static_cast<std::uint32_t>(known - kernels_.begin());
    if (known != kernels_.end()) return KernelId{number};
    kernels_.emplace_back(of, solo_time);
    Kernel& k = trace_.kernels.emplace_back(*of);
    k.solo_time = solo_time;
    if (graph) {
      k.grid = {gpu_.sms * gpu_.sm.max_warps / 32, 1, 1};
      k.block = {1024, 1, 1};
      k.registers_per_thread = 32;
    }
    return KernelId{number};
  }

  const Gpu& gpu_;
  Trace trace_;
  std::vector<std::pair<const Kernel*, Time>> kernels_;  // by KernelId
  std::vector<LaunchView> launches_;
  std::vector<std::vector<LaunchId>> copies_of_;  // by slot
  std::vector<ClientView> clients_;
  std::vector<LaunchId> pending_, running_;
  std::vector<StreamView> views_;
  std::vector<std::vector<LaunchId>> of_stream_;
  Snapshot snapshot_;
};

class UnknownForecast final : public Forecast {
 public:
  UnknownForecast(const Gpu& gpu, const Requirements& needed, bool contention)
      : gpu_(gpu), needed_(needed), shapes_(gpu, contention) {}

  Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) override {
    const Shown shown(now, gpu_);
    Outlook outlook =
        make_forecast(shown.trace(), gpu_, needed_, &shapes_)->look(shown.snapshot(), way, bounds);
    outlook.launches = shown.ends(now, outlook.launches);
    return outlook;
  }

 private:
  const Gpu gpu_;
  const Requirements needed_;
  Shapes shapes_;
};

}  // namespace

std::unique_ptr<Forecast> make_forecast(const Gpu& gpu, const Requirements& needed, bool contention) {
  return std::make_unique<UnknownForecast>(gpu, needed, contention);
}

}  // namespace corun::sim
