#include "policies/service/books.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/api/registry.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

Promises promises_of(std::string_view policy) {
  for (const PolicyInfo& info : policies())
    if (info.name == policy) return info.promises;
  return {};
}

/// Throws InputError for what no program can be made to do from outside.
void check(const Policy& policy, const CapabilitySet& can, bool forecasts) {
  const Requirements needs = policy.requirements();
  const CapabilitySet lacks = needs.capabilities.without(can);
  std::vector<std::string> missing;
  if (!lacks.empty()) missing.push_back(lacks.names());
  if (needs.profiles) missing.emplace_back("profiles of kernels");
  if (needs.forecast && !forecasts) missing.emplace_back("a forecast");
  if (!needs.thread_percentages.empty()) missing.emplace_back("MPS percentages");
  if (!needs.instances.empty()) missing.emplace_back("instances");
  if (missing.size() == 1 && lacks.has(Capability::sm_quota) && lacks.without({Capability::sm_quota}).empty())
    throw InputError("", "--policy",
                     fmt::format("policy {} needs sm_quota, which sim serve has of kernels that are made persistent", policy.name()),
                     "start it with --persistent");
  if (!missing.empty())
    throw InputError("", "--policy",
                     fmt::format("policy {} needs {}, which sim serve cannot do with programs as they are", policy.name(),
                                 fmt::join(missing, ", ")),
                     "choose fcfs, priority, timeslice, tpc-mask, static-split:tpcs, wait, reef-n, smguard, lookahead, memory-wait or flexgpu, or run a trace with --backend=cuda");
}

}  // namespace

Books::Books(const std::string& policy, const Gpu& gpu, BooksOptions options)
    : spec_(policy), options_(std::move(options)), policy_(options_.make ? options_.make() : make_policy(policy)) {
  topology_.gpu = gpu;
  topology_.capabilities = {Capability::order, Capability::priority, Capability::preempt_at_block, Capability::time_slice,
                            Capability::tpc_mask, Capability::memory_swap};
  if (options_.persistent) topology_.capabilities.add(Capability::sm_quota);
  check(*policy_, topology_.capabilities, options_.forecast != nullptr);
  if (policy_->requirements().forecast) forecast_ = options_.forecast(gpu, policy_->requirements());
  immediate_ = promises_of(policy_->name()).immediate;
  stops_ = policy_->requirements().capabilities.has(Capability::preempt_at_block);
  masks_ = policy_->requirements().capabilities.has(Capability::tpc_mask);
  sizes_ = policy_->requirements().capabilities.has(Capability::sm_quota);
  if (policy_->requirements().memory) {
    std::uint64_t& bytes = topology_.gpu.memory_bytes;
    bytes = options_.memory != 0 ? options_.memory : bytes / 10 * 9;
    memory_ = std::make_unique<ProgramMemory>(bytes);
  } else if (options_.memory != 0) {
    throw InputError("", "--memory", fmt::format("policy {} decides nothing about memory", policy_->name()),
                     "leave it out, or choose flexgpu or memory-wait");
  }
  if (options_.persistent && (!stops_ || masks_))
    throw InputError("", "--persistent", fmt::format("policy {} stops no kernels", policy_->name()), "choose wait, reef-n or smguard");
  if (options_.persistent && options_.in_flight == 0)
    throw InputError("", "--persistent", "a program whose threads wait for each grant launches plainly", "leave --in-flight as it is");
  for (const std::string& name : options_.programs) {
    auto p = std::make_unique<Program>();
    p->self.name = name;
    p->expected = true, p->there = false;
    programs_.emplace(next_client_++, std::move(p));
  }
  for (const ClientOptions& each : options_.joined) enter(each);
  begin_again();
}

Books::~Books() {
  if (forecast_ != nullptr) forecast_->forget();
}

std::uint32_t Books::join(const ClientOptions& client_options) {
  if (forecast_ != nullptr) forecast_->forget();
  if (listener_) listener_->joined(client_options);
  const std::uint32_t number = enter(client_options);
  begin_again();
  return number;
}

std::uint32_t Books::enter(const ClientOptions& client_options) {
  const auto absent = std::ranges::find_if(
      programs_, [&](const auto& each) { return !each.second->there && each.second->self.name == client_options.name; });
  const std::uint32_t number = absent != programs_.end() ? absent->first : next_client_++;
  if (absent == programs_.end()) programs_.emplace(number, std::make_unique<Program>());
  programs_.at(number)->self = client_options;
  programs_.at(number)->there = true;
  if (memory_) memory_->join(number);
  return number;
}

void Books::leave(std::uint32_t client) {
  if (forecast_ != nullptr) forecast_->forget();
  if (listener_) listener_->happened(BooksListener::What::leave, client);
  for (const LaunchView& l : launches_)
    if (l.state != LaunchState::finished && l.kernel != nullptr && places_[l.id.slot].client == client) drop(l.id);
  if (memory_)
    for (LaunchId id : memory_->leave(client)) forget(id);
  const Program& gone = *programs_.at(client);
  if (!gone.expected) {
    programs_.erase(client);
  } else {
    auto absent = std::make_unique<Program>();
    absent->self.name = gone.self.name;
    absent->expected = true, absent->there = false;
    programs_[client] = std::move(absent);
  }
  begin_again();
}

std::unique_ptr<Policy> Books::fresh_policy() const {
  std::unique_ptr<Policy> policy = options_.make ? options_.make() : make_policy(spec_);
  if (forecast_ != nullptr) policy->look_ahead(*forecast_);
  return policy;
}

/// The policy starts anew with the programs that are there; what they have on the GPU and what waits is shown to it.
void Books::begin_again() {
  reuse_retired();
  policy_ = fresh_policy();
  clients_.clear();
  client_views_.clear();
  number_of_.clear();
  pending_ = {};
  notices_.clear();
  wake_at_ = kNever;
  for (auto& [number, p] : programs_) {
    const ClientId id{static_cast<std::uint32_t>(clients_.size())};
    Client& client = p->self.in_trace != nullptr ? clients_.emplace_back(*p->self.in_trace) : clients_.emplace_back();
    client.name = p->self.name;
    client.process = fmt::format("{}", number);
    client.service_class = p->late ? ServiceClass::best_effort : p->self.service_class;
    client.priority = p->self.priority;
    client.quota = p->self.quota;
    client.reservation = p->self.reservation;
    client.deadline = p->self.deadline;
    client.streams.resize(kShownStreams);
    client.arrivals = ClosedLoop{};
    number_of_.push_back(number);
    if (memory_) memory_->renumber(number, id);
    for (std::uint32_t s = 0; s < kShownStreams; ++s) {
      pending_.add_stream(id, StreamId{s});
      p->held[s].clear();  // decided by the policy that was; asked again
    }
  }
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    client_views_.push_back({ClientId{i}, &clients_[i]});
    const Program& p = *programs_.at(number_of_[i]);
    if (p.busy) notices_.push_back(RequestArrived{ClientId{i}, p.request});
  }
  unfit_.clear();
  try {
    policy_->start(topology_, client_views_);
  } catch (const InputError& e) {  // as where there are fewer programs than shares
    unfit_ = e.what();
    policy_ = make_policy("fcfs");
    policy_->start(topology_, client_views_);
  }

  std::vector<LaunchId> waiting;
  for (LaunchView& l : launches_) {
    if (l.state == LaunchState::finished) continue;
    const auto at = std::ranges::find(number_of_, places_[l.id.slot].client);
    l.client = ClientId{static_cast<std::uint32_t>(at - number_of_.begin())};
    if (l.kernel == nullptr) {
      notices_.push_back(AllocationReady{l.id});
      continue;
    }
    const auto& on_gpu = program(l).on_gpu[l.stream.value];
    if (std::ranges::find(on_gpu, l.id) != on_gpu.end()) {
      l.state = LaunchState::submitted;
      pending_.came(l);
    } else {
      if (l.state != LaunchState::pending) {
        running_.erase(l.id);
        if (memory_) memory_->ended(places_[l.id.slot].client, Time{});
      }
      waiting.push_back(l.id);
    }
  }
  std::ranges::sort(waiting, {}, &LaunchId::serial);
  for (LaunchId id : waiting) insert(view(id));
  if (memory_) notices_.push_back(WokeUp{});  // there may be room, and calls that wait are no launches
}

void Books::look_for_late(Time now) {
  late_at_ = kNever;
  hides_ = false;
  const std::size_t before = late_.size();
  for (auto& [number, p] : programs_) {
    Time oldest = kNever;
    for (const auto& on_gpu : p->on_gpu)
      for (LaunchId id : on_gpu) oldest = std::min(oldest, begun_at(*p, places_[id.slot]));
    const Time due = oldest == kNever ? kNever : oldest + limits::kOnGpu;
    if (due > now) late_at_ = std::min(late_at_, due);
    if (std::exchange(p->late, due <= now) != p->late) late_.push_back(number);
    hides_ |= p->late;
  }
  if (late_.size() == before) return;
  if (forecast_ != nullptr) forecast_->forget();
  begin_again();
}

Decided Books::standing(std::uint32_t client) {
  if (!immediate_)
    return {policy_->requirements().capabilities.has(Capability::priority) ? programs_.at(client)->self.priority : 0};
  if (listener_) listener_->happened(BooksListener::What::standing, client);
  BooksListener* const kept = std::exchange(listener_, nullptr);  // what follows comes of this
  const Time late_at = late_at_;
  // What the policy would decide about a launch, of which it is shown one.
  Kernel any;
  any.name = "any";
  asked(client, 0, 0, any, Time{});
  std::vector<Granted> granted;
  decide(Time{}, granted);
  const LaunchId id = programs_.at(client)->on_gpu[0].back();
  finish(id, Time{});
  notices_.clear();
  programs_.at(client)->busy = false;
  listener_ = kept;
  late_at_ = late_at;
  return granted.back().decided;
}

std::uint32_t Books::in_flight(std::uint32_t client) const {
  const bool held_back = programs_.at(client)->self.service_class == ServiceClass::best_effort && (stops_ || forecast_ != nullptr);
  return held_back && !masks_ ? options_.in_flight : 0;  // a mask is of one launch
}

/// As the policy sees it.
StreamId Books::shown(std::uint32_t client, std::uint32_t stream) const {
  return StreamId{in_flight(client) != 0 ? 0 : std::min(stream, kShownStreams - 1)};
}

void Books::insert(LaunchView& l) {
  put_back(l);
  notices_.push_back(LaunchReady{l.id});
}

void Books::put_back(LaunchView& l) {
  l.state = LaunchState::pending;
  if (sizes_ && in_order(l)) {
    if (const auto first = pending_.first(l); first && l.id.serial < first->serial) view(*first).waits_for = 1;
    l.waits_for = 1;  // until it is the first: tell_first
  }
  pending_.insert(l);
}

LaunchView& Books::new_view(std::uint32_t client, Time now) {
  LaunchId id{static_cast<std::uint32_t>(launches_.size()), next_serial_++};
  if (free_slots_.empty()) {
    launches_.emplace_back();
    places_.emplace_back();
  } else {
    id.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  LaunchView& l = view(id);
  l = LaunchView{};
  l.id = id;
  l.client = ClientId{static_cast<std::uint32_t>(std::ranges::find(number_of_, client) - number_of_.begin())};
  l.request = programs_.at(client)->request;
  l.ready_at = l.unblocked_at = now;
  places_[id.slot] = {client, 0, 0, nullptr, {}};
  return l;
}

void Books::program_is_busy(std::uint32_t client, Time now) {
  Program& p = *programs_.at(client);
  const ClientId id{static_cast<std::uint32_t>(std::ranges::find(number_of_, client) - number_of_.begin())};
  if (p.waits && p.unfinished == 0) end_request(p, id);
  if (p.busy) return;
  p.busy = true;
  p.arrived = now;
  notices_.push_back(RequestArrived{id, p.request});
}

void Books::asked(std::uint32_t client, std::uint32_t stream, std::uint32_t number, Kernel& kernel, Time now,
                  std::uint32_t attempts) {
  if (listener_) listener_->asked(client, stream, number, kernel, now, attempts);
  program_is_busy(client, now);
  Program& p = *programs_.at(client);
  p.waits = false;
  ++p.unfinished;
  // A graph says how many nodes it has and not what they fill: all of the GPU.
  if (memory_ && kernel.registers_per_thread == 0) kernel.counters.warps_active_pct = 100;
  LaunchView& l = new_view(client, now);
  places_[l.id.slot] = {client, stream, number, &kernel, {}};
  places_[l.id.slot].attempts = attempts;
  l.stream = shown(client, stream);
  l.kernel = &kernel;
  l.operation = &p.launch;
  l.solo_time = kernel.solo_time.value_or(Time{});
  l.stoppable = attempts > 1;
  l.sizable = !sizes_ || attempts > 1;
  if (sizes_ && !in_order(l)) l.waits_for = follows(client, stream, number);
  insert(l);
}

void Books::ended(std::uint32_t client, std::uint32_t stream, std::uint32_t number, Time now) {
  if (listener_) listener_->happened(BooksListener::What::ended, client, stream, number, now);
  Program& p = *programs_.at(client);
  auto& on_gpu = p.on_gpu[shown(client, stream).value];
  for (std::size_t i = 0; i < on_gpu.size();) {
    const Place& place = places_[on_gpu[i].slot];
    if (place.stream != stream || !reached(number, place.number)) {
      ++i;
      continue;
    }
    const Time begun = begun_at(p, place);
    if (now > begun && place.attempt == 0) {
      const auto [times, first] = p.times.try_emplace(place.kernel);
      if (first && place.kernel->solo_time) times->second.add(*place.kernel->solo_time);
      times->second.add(now - begun);
      place.kernel->solo_time = times->second.usual();
    }
    // Of one that was stopped what it usually takes.
    const Time took = place.attempt == 0 ? std::max(now - begun, Time{}) : place.kernel->solo_time.value_or(Time{});
    for (ClientState::Took* of : {&p.all, place.attempts > 1 ? &p.stoppable : nullptr})
      if (of != nullptr) ++of->launches, of->time += took;
    p.ended_at[stream] = now;
    finish(on_gpu[i], now);
  }
}

/// At the earliest.
Time Books::begun_at(const Program& p, const Place& place) const {
  const auto before = p.ended_at.find(place.stream);
  return before == p.ended_at.end() ? place.granted_at : std::max(place.granted_at, before->second);
}

void Books::failed(std::uint32_t client, std::uint32_t stream, std::uint32_t number, Time now) {
  if (listener_) listener_->happened(BooksListener::What::failed, client, stream, number, now);
  const auto is = [&](LaunchId id) {
    const Place& place = places_[id.slot];
    return place.client == client && place.stream == stream && place.number == number;
  };
  const auto& on_gpu = programs_.at(client)->on_gpu[shown(client, stream).value];
  if (const auto at = std::ranges::find_if(on_gpu, is); at != on_gpu.end()) return finish(*at, now);
  // What waits for its grant on the GPU goes on with it, and those behind it; so it keeps its turn.
  for (const LaunchView& l : launches_)
    if (l.state != LaunchState::finished && is(l.id)) places_[l.id.slot].failed = true;
}

/// A launch is on the GPU no longer.
void Books::finish(LaunchId id, Time now) {
  LaunchView& l = view(id);
  Program& p = program(l);
  if (p.late) late_at_ = Time{};
  std::erase(p.on_gpu[l.stream.value], id);
  running_.erase(id);
  pending_.went(l);
  pending_.ended(l, now);
  l.state = LaunchState::finished;
  retired_.push_back(id.slot);
  if (sizes_ && !in_order(l)) tell_next(places_[id.slot], now);
  p.last_end = now;
  --p.unfinished;
  if (memory_) memory_->ended(places_[id.slot].client, now);
  notices_.push_back(KernelFinished{id});
  if (std::ranges::all_of(p.on_gpu, [](const auto& q) { return q.empty(); })) p.on_gpu_for += now - p.on_gpu_since;
}

void Books::reuse_retired() {
  free_slots_.insert(free_slots_.end(), retired_.begin(), retired_.end());
  retired_.clear();
  if (memory_) memory_->accounts().forget_released();
}

/// Its program is gone.
void Books::drop(LaunchId id) {
  LaunchView& l = view(id);
  if (l.state == LaunchState::pending)
    pending_.erase(l);
  else
    running_.erase(id);
  l.state = LaunchState::finished;
  retired_.push_back(id.slot);
}

void Books::waits(std::uint32_t client) {
  if (listener_) listener_->happened(BooksListener::What::waits, client);
  programs_.at(client)->waits = true;
}

void Books::hear_forecast() {
  if (listener_) listener_->happened(BooksListener::What::foretold, 0);
  forecast_->hear();
  notices_.push_back(WokeUp{});
}

void Books::end_request(Program& p, ClientId id) {
  if (!p.busy) return;
  p.busy = p.waits = false;
  notices_.push_back(RequestFinished{id, p.request++});
}

void Books::end_requests(Time now) {
  for (std::uint32_t i = 0; i < number_of_.size(); ++i) {
    Program& p = *programs_.at(number_of_[i]);
    if (p.unfinished == 0 && (p.waits || now >= p.last_end + kQuiet)) end_request(p, ClientId{i});
  }
}

Time Books::next_wish() const {
  if (!notices_.empty()) return Time{};
  Time next = std::min({wake_at_, hand_over_at_, late_at_});
  if (memory_) next = std::min(next, memory_->next_look(!pending_.empty()));
  for (const auto& [number, p] : programs_)
    if (p->busy && p->unfinished == 0) next = std::min(next, p->last_end + kQuiet);
  return next;
}

void Books::decide(Time now, std::vector<Granted>& granted) {
  if (listener_) listener_->happened(BooksListener::What::decide, 0, 0, 0, now);
  end_requests(now);
  if (late_at_ <= now) look_for_late(now);
  if (wake_at_ <= now) {
    wake_at_ = kNever;
    notices_.push_back(WokeUp{});
  }
  if (memory_ && memory_->look(now)) notices_.push_back(WokeUp{});
  std::vector<Notice> told;
  while (!notices_.empty()) {
    told.swap(notices_);
    notices_.clear();
    if (sizes_) tell_first(now);
    for (std::uint32_t i = 0; i < client_views_.size(); ++i) {
      const Program& p = *programs_.at(number_of_[i]);
      client_views_[i].busy = p.busy;
      client_views_[i].arrived_at = client_views_[i].waits_since = p.arrived;
      client_views_[i].request = p.request;
    }
    std::vector<LaunchId> shown;
    if (hides_) std::ranges::copy_if(running_, std::back_inserter(shown), [&](LaunchId id) { return !program(view(id)).late; });
    const std::span<const LaunchId> running = hides_ ? std::span<const LaunchId>(shown) : std::span<const LaunchId>(running_);
    Snapshot snapshot{now, told, client_views_, launches_, pending_.all(), running, {}};
    snapshot.streams = pending_.streams();
    if (memory_) {
      memory_->look(now);
      show_memory();
      snapshot.allocating = memory_->allocating();
      snapshot.buffers = memory_->accounts().buffers();
      snapshot.memory_used = memory_->accounts().used();
    }
    chosen_.clear();
    policy_->decide(snapshot, chosen_);
    ++decisions_;
    if (listener_) listener_->told(now, told);
    bool look_again = false;
    for (const Decision& d : chosen_) {
      if (listener_) listener_->decided(d);
      look_again |= apply(d, now);
    }
    if (look_again) notices_.push_back(WokeUp{});
    if (memory_ && memory_->let_go(now)) notices_.push_back(WokeUp{});  // what it launches is looked at again
    reuse_retired();
  }
  if (memory_) say_held_back();
  hand_over(granted, now);
}

}  // namespace corun::live
