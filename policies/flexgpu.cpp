// FlexGPU (Chen 2020, section 3): more device memory in use than there is.  An application's allocations are
// queued with the launch that uses them, in order per application.  A launch goes when the achieved occupancy
// of all that runs stays within 100 %, no known bad pair would run together, and all that it uses is on the
// device. Where memory is short, contents that nothing on the GPU uses, and whose move to the host is shorter
// than the shortest running kernel, are checkpointed, least frequently used first; they come back before
// their owner's next launch.
//
// Left open there, chosen here:
// - A call to allocate returns at once (an address), memory follows with the first launch or copy that uses
// it.
//   The paper groups the calls but does not say what the caller sees meanwhile.
// - Copies that find their buffer away (the paper's wrapper leaves copies alone) are the application's next
// item.
// - With no kernel running, a move may take any time: else nothing that is short of memory could ever start.
// - Execution time is the profiled solo time, and achieved occupancy the counter of that name, or, without
// it, what
//   the kernel's blocks alone would fill.  A kernel of any occupancy may run alone.  Launches of one stream
//   follow each other, so a stream counts once, with its largest.
// - Victims are chosen together, and only if they suffice.  Ties: longest unused.
// - Applications are served in the order in which they began to wait.  What is moved for one is not given to
//   another.  One that was passed by `patience` launches, and has waited `turn` times as long as what it lacks takes to
//   move and what is there instead, lets no other pass: the paper would let it starve.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "policies/api/registry.h"

namespace corun {
namespace {

using Place = BufferView::Place;

class FlexGpu final : public Policy {
 public:
  explicit FlexGpu(const Parameters& parameters)
      : patience_(static_cast<std::uint32_t>(parameters.number("patience", 0, 1e6))),
        turn_(parameters.number("turn", 0, 1e6)) {
    std::string rest = parameters.text("bad");
    while (!rest.empty()) {
      const auto end = std::min(rest.find('/'), rest.size());
      const std::string pair = rest.substr(0, end);
      const auto plus = std::min(pair.find('+'), pair.size());
      bad_.emplace_back(pair.substr(0, plus), pair.substr(std::min(plus + 1, pair.size())));
      rest.erase(0, end + 1);
    }
  }
  std::string_view name() const override { return "flexgpu"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order, Capability::memory_swap}, Contexts::one, false};
    needed.memory = needed.deferred_memory = needed.kernels = true;
    return needed;
  }
  void start(const Topology& topology, std::span<const ClientView> clients) override {
    gpu_ = topology.gpu;
    waits_.assign(clients.size(), {});
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override;

 private:
  struct Wait {
    std::uint64_t ticket = 0;  // 0: it waits for nothing
    std::uint32_t passed = 0;  // launches of others since
    Time since{};
  };
  struct Running {
    ClientId client;
    StreamId stream;
    const Kernel* kernel;
    double occupancy;
  };
  /// What is left while decisions are made.
  struct Room {
    std::uint64_t free = 0, coming = 0;  // bytes; coming: on their way to the host
    Time shortest = kNever;              // of the running kernels
    std::vector<Place> place;            // by buffer, with what has been decided
    std::vector<bool> claimed;           // by buffer: not to be moved out
  };
  enum class Memory { there, on_its_way, short_of };

  double occupancy(const Kernel& kernel) const;
  bool may_run(const LaunchView& launch) const;
  bool bad_pair(const Kernel& a, const Kernel& b) const;
  Memory fetch(const Snapshot& now, std::span<const BufferId> uses, Room& room,
               std::vector<Decision>& decisions) const;
  bool make_room(const Snapshot& now, std::uint64_t bytes, Room& room,
                 std::vector<Decision>& decisions) const;
  bool stops_others(const Snapshot& now, const Wait& wait, std::span<const BufferId> uses) const;
  void run(const LaunchView& launch) {
    running_.push_back({launch.client, launch.stream, launch.kernel, occupancy(*launch.kernel)});
  }

  std::uint32_t patience_;
  double turn_;
  std::vector<std::pair<std::string, std::string>> bad_;
  Gpu gpu_;
  std::vector<Wait> waits_;  // by client
  std::uint64_t tickets_ = 0;
  std::vector<Running> running_;  // while deciding
};

double FlexGpu::occupancy(const Kernel& kernel) const {
  if (kernel.counters.warps_active_pct) return *kernel.counters.warps_active_pct / 100;
  const SmResources demand = demand_of(kernel, gpu_.sm);
  const double places = static_cast<double>(max_active_blocks(capacity_of(gpu_.sm), demand)) * gpu_.sms;
  return std::min(places, static_cast<double>(kernel.blocks())) * demand.warps /
         (static_cast<double>(gpu_.sms) * gpu_.sm.max_warps);
}

bool FlexGpu::bad_pair(const Kernel& a, const Kernel& b) const {
  return std::any_of(bad_.begin(), bad_.end(), [&](const auto& pair) {
    return (pair.first == a.name && pair.second == b.name) || (pair.first == b.name && pair.second == a.name);
  });
}

bool FlexGpu::may_run(const LaunchView& launch) const {
  std::map<std::pair<ClientId, StreamId>, double> others;
  double own = occupancy(*launch.kernel);
  for (const Running& r : running_) {
    if (r.client == launch.client && r.stream == launch.stream) {
      own = std::max(own, r.occupancy);
      continue;
    }
    if (bad_pair(*r.kernel, *launch.kernel)) return false;
    double& most = others[{r.client, r.stream}];
    most = std::max(most, r.occupancy);
  }
  double sum = own;
  for (const auto& [stream, most] : others) sum += most;
  return others.empty() || sum <= 1 + 1e-9;
}

/// Checkpoints enough to free `bytes`, beside what is on its way out already, or nothing.
bool FlexGpu::make_room(const Snapshot& now, std::uint64_t bytes, Room& room,
                        std::vector<Decision>& decisions) const {
  if (bytes <= room.coming) {
    room.coming -= bytes;
    return true;
  }
  std::vector<const BufferView*> victims;
  for (const BufferView& b : now.buffers)
    if (!b.free && room.place[b.id.value] == Place::device && b.in_use == 0 && !room.claimed[b.id.value] &&
        (room.shortest == kNever ||
         from_ns(static_cast<double>(b.bytes) / gpu_.copy_bytes_per_second * 1e9) < room.shortest))
      victims.push_back(&b);
  std::sort(victims.begin(), victims.end(), [](const BufferView* a, const BufferView* b) {
    return std::tuple(a->uses, a->last_used, a->id) < std::tuple(b->uses, b->last_used, b->id);
  });
  std::uint64_t freed = room.coming;
  std::size_t n = 0;
  while (n < victims.size() && freed < bytes) freed += victims[n++]->bytes;
  if (freed < bytes) return false;
  for (std::size_t i = 0; i < n; ++i) {
    decisions.push_back(decide::Checkpoint{victims[i]->id});
    room.place[victims[i]->id.value] = Place::to_host;
  }
  room.coming = freed - bytes;
  return true;
}

/// Sees to it that what an item uses is on the device, and that nobody later in line takes it.
FlexGpu::Memory FlexGpu::fetch(const Snapshot& now, std::span<const BufferId> uses, Room& room,
                               std::vector<Decision>& decisions) const {
  std::uint64_t missing = 0;
  bool wait = false;
  for (BufferId id : uses) {
    room.claimed[id.value] = true;
    const Place place = room.place[id.value];
    if (place != Place::device && place != Place::to_device) missing += now.buffers[id.value].bytes;
    wait = wait || (place != Place::device && place != Place::asked);
  }
  if (missing > room.free) {
    if (!make_room(now, missing - room.free, room, decisions)) return Memory::short_of;
    room.free = 0;
    return Memory::on_its_way;
  }
  room.free -= missing;
  for (BufferId id : uses) {
    Place& place = room.place[id.value];
    if (place == Place::host) {
      decisions.push_back(decide::Restore{id});
      place = Place::to_device;
    } else if (place == Place::asked) {
      for (LaunchId allocation : now.allocating)
        if (now.launch(allocation).uses.front() == id) decisions.push_back(decide::Allocate{allocation});
      place = Place::device;
    }
  }
  return wait ? Memory::on_its_way : Memory::there;
}

bool FlexGpu::stops_others(const Snapshot& now, const Wait& wait, std::span<const BufferId> uses) const {
  if (wait.passed < patience_) return false;
  double lacks = 0;
  for (BufferId id : uses)
    if (now.buffers[id.value].place != Place::device)
      lacks += static_cast<double>(now.buffers[id.value].bytes);
  return now.now - wait.since >= from_ns(turn_ * 2 * lacks / gpu_.copy_bytes_per_second * 1e9);
}

void FlexGpu::decide(const Snapshot& now, std::vector<Decision>& decisions) {
  Room room;
  room.free = gpu_.memory_bytes - now.memory_used;
  room.claimed.assign(now.buffers.size(), false);
  for (const BufferView& b : now.buffers) room.place.push_back(b.place);
  running_.clear();
  for (LaunchId id : now.running) {
    const LaunchView& l = now.launch(id);
    if (!l.kernel) continue;
    run(l);
    room.shortest = std::min(room.shortest, l.solo_time);
  }

  // What each application waits for next: its copies, else its first launch.
  std::vector<std::vector<BufferId>> copies(waits_.size());
  std::vector<std::vector<LaunchId>> launches(waits_.size());
  for (LaunchId id : now.pending) launches[now.launch(id).client.value].push_back(id);
  for (const BufferView& b : now.buffers) {
    if (b.free) continue;
    if (b.place == Place::to_host) room.coming += b.bytes;
    if (b.copies_wait != 0) copies[b.client.value].push_back(b.id);
  }
  std::map<std::uint64_t, std::uint32_t> line;  // ticket -> client
  const auto enter = [&](std::uint32_t client) {
    if (waits_[client].ticket == 0) waits_[client] = {++tickets_, 0, now.now};
    line.emplace(waits_[client].ticket, client);
  };
  for (LaunchId id : now.pending) enter(now.launch(id).client.value);
  for (std::uint32_t c = 0; c < waits_.size(); ++c) {
    if (!copies[c].empty()) enter(c);
    if (copies[c].empty() && launches[c].empty()) waits_[c] = {};
  }
  std::vector<std::size_t> next(waits_.size());
  while (!line.empty()) {
    const std::uint32_t client = line.begin()->second;
    line.erase(line.begin());
    Wait& wait = waits_[client];
    if (!copies[client].empty()) {
      if (fetch(now, copies[client], room, decisions) == Memory::short_of &&
          stops_others(now, wait, copies[client]))
        break;
      continue;
    }
    const LaunchView& launch = now.launch(launches[client][next[client]]);
    if (may_run(launch) && fetch(now, launch.uses, room, decisions) == Memory::there) {
      decisions.push_back(decide::Launch{launch.id, 0, {}, 0});
      run(launch);
      room.shortest = std::min(room.shortest, launch.solo_time);
      for (std::uint32_t c = 0; c < waits_.size(); ++c)
        if (waits_[c].ticket != 0 && waits_[c].ticket < wait.ticket) ++waits_[c].passed;
      wait = {};
      if (++next[client] < launches[client].size()) enter(client);
    } else if (stops_others(now, wait, launch.uses)) {
      break;
    }
  }
}

const Registered flexgpu_policy{
    {"flexgpu",
     "memory beyond what the GPU has: idle contents move to the host, launches start while occupancy allows",
     "Chen 2020, section 3 (FlexGPU)",
     {{"bad", "pairs of kernels not to run together, as a+b/c+d", ""},
      {"patience", "launches that may pass an application which waits", "32"},
      {"turn", "and for how long: times what its memory takes to move, and other to make room", "0"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<FlexGpu>(p); }};

}  // namespace
}  // namespace corun
