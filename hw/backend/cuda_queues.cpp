// The way of launches and copies to the device and back: streams, pieces, events.
#include "hw/backend/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace corun::hw {

std::uint32_t CudaBackend::add(InFlight f) {
  std::uint32_t i = static_cast<std::uint32_t>(in_flight_.size());
  index_of_[f.launch.id.serial] = free_indices_.empty() ? i : free_indices_.back();
  if (free_indices_.empty()) {
    in_flight_.push_back(std::move(f));
  } else {
    i = free_indices_.back();
    free_indices_.pop_back();
    in_flight_[i] = std::move(f);
  }
  active_.push_back(i);
  return i;
}

CudaBackend::InFlight* CudaBackend::find(LaunchId id) {
  const auto found = index_of_.find(id.serial);
  return found == index_of_.end() ? nullptr : &in_flight_[found->second];
}

void CudaBackend::hold(InFlight f) {
  const LaunchView& l = f.launch;
  HostLaunch held{l.id, l.solo_time, f.is_copy, stoppable(l), l.ctas != 0, f.follows};
  const ClientId client = l.client;
  const StreamId stream = l.stream;
  held_.hold(client, stream, std::move(held), add(std::move(f)));
}

void CudaBackend::submit(InFlight& f) {
  Tail& last = tail(f.launch);
  const Stream s = stream_for(f.launch, f.priority, f.groups);
  if (last.stream && !(last.stream == s) && last.ended) driver_.wait(s, last.ended);
  for (LaunchId id : f.follows)
    if (InFlight* before = find(id)) driver_.wait(s, before->ended);
  memory_->before(s, f.launch.uses);
  f.stream = s;
  f.started = take_event();
  f.ended = take_event();
  if (!f.per_sm.empty()) {
    std::vector<std::uint32_t> quotas(f.per_sm.begin(), f.per_sm.end());
    quotas.resize(kMostSms);
    driver_.copy_to_device(s, control_at(f.control) + offsetof(Control, quota), quotas.data(), 4 * kMostSms);
  }
  if (checks_each_ && !f.is_copy) begin_check(f, s);
  if (checks_each_ && f.padded != nullptr) begin_check(in_flight_[f.padding], s);
  driver_.record(f.started, s);
  if (f.is_copy) {
    const Copy& c = std::get<Copy>(f.launch.operation->what);
    const DevicePointer device = scratch_[f.launch.client.value];
    const HostMemory& host = host_scratch_[f.launch.client.value];
    if (c.direction == CopyDirection::host_to_device) driver_.copy_to_device(s, device, host.host, c.bytes);
    if (c.direction == CopyDirection::device_to_host) driver_.copy_to_host(s, host.host, device, c.bytes);
    if (c.direction == CopyDirection::device_to_device)
      driver_.copy_on_device(s, device + c.bytes, device, c.bytes);
  } else if (f.padded != nullptr) {
    submit_padded(f, in_flight_[f.padding], s);
  } else if (f.way == nullptr) {
    work_.launch(*buffers_of(f.launch).instance, s);
  } else {
    const std::uint32_t workers = f.workers;
    f.workers = 0;
    submit_workers(f, s, workers);
  }
  f.state = InFlight::State::on_device;
  f.sent = driver_.now() - epoch_;
  driver_.record(f.ended, s);
  end_of_piece(f, s);
  if (f.padded != nullptr) {
    InFlight& g = in_flight_[f.padding];
    driver_.record(g.ended, s);
    end_of_piece(g, s);
  }
  last = {s, f.ended};
}

void CudaBackend::submit_padded(InFlight& f, InFlight& g, Stream s) {
  PaddedParameters p;
  p.first = f.parameters, p.second = g.parameters;
  p.sms = f.padded_sms, p.per_sm = f.padded_on_each, p.seats = f.padded->workers_per_sm > f.padded_on_each;
  const auto instance = [&](const InFlight& of) -> Instance& { return *buffers_of(of.launch).instance; };
  g.started = take_event(), g.ended = take_event();
  driver_.record(g.started, s);
  work_.launch(instance(f), instance(g), *f.padded, topology_.gpu.sms * f.padded->workers_per_sm, p, s);
  f.workers = g.workers = topology_.gpu.sms * f.padded->workers_per_sm;
  g.state = InFlight::State::on_device;
}

void CudaBackend::submit_workers(InFlight& f, Stream s, std::uint32_t workers) {
  work_.launch(*buffers_of(f.launch).instance, *f.way->code, workers, f.parameters, s);
  f.workers += workers;
}

/// A further grid of workers, beside those that are there.
void CudaBackend::send_workers(InFlight& f, std::uint32_t workers) {
  std::uint32_t number = 1;
  std::erase_if(f.pieces, [](const Piece& p) { return p.ended && p.number != 0; });
  while (std::ranges::any_of(f.pieces, [&](const Piece& p) { return p.number == number; })) ++number;
  LaunchView at = f.launch;
  at.stream.value += 1000 * number;
  const Stream s = stream_for(at, f.priority, f.groups);
  driver_.wait(s, f.started);
  submit_workers(f, s, workers);
  end_of_piece(f, s, number);
  f.sent = driver_.now() - epoch_;
}

/// Seats that stay empty after all workers have come: room that others held then may be there now.
void CudaBackend::fill_seats(InFlight& f) {
  if (f.per_sm.empty() || f.stopping || progress(f.control).all_taken != 0 || free_tickets_.empty()) return;
  const Seats seats = seats_in(progress(f.control));
  if (seats.came != (f.workers & 0xffffff)) return;
  const std::uint32_t of_sm = f.way->code->workers_per_sm;
  std::uint32_t wanted = 0;
  for (std::uint32_t quota : f.per_sm) wanted += std::min(quota, of_sm);
  const std::uint32_t taken = std::min(std::uint32_t{progress(f.control).taken}, f.parameters.chunks);
  if (seats.taken >= wanted || seats.taken >= f.parameters.chunks - taken) return;
  if (seats.taken > f.seats_taken) f.patience = kLeastPatience;
  if (driver_.now() - epoch_ < f.sent + f.patience) return;
  if (seats.taken <= f.seats_taken) f.patience = std::min(2 * f.patience, kMostPatience);
  f.seats_taken = seats.taken;
  send_workers(f, places_for(f));
}

/// The GPU writes a word when it gets here.
void CudaBackend::end_of_piece(InFlight& f, Stream s, std::uint32_t number) {
  f.pieces.push_back({take_ticket(), number});
  driver_.write(s, tickets_.device + 4 * f.pieces.back().ticket, 1);
}

Stream CudaBackend::stream_for(const LaunchView& l, std::int32_t priority,
                               const std::vector<std::uint32_t>& groups) {
  Stream& s = streams_[{l.client.value, l.stream.value, priority, groups}];
  if (s) return s;
  return s = driver_.stream(priority, groups.empty() ? Partition{} : work_.partition(groups));
}

std::vector<std::uint32_t> CudaBackend::groups_of(const TpcMask& mask) const {
  std::vector<std::uint32_t> groups;
  for (std::uint32_t tpc = 0; tpc < topology_.gpu.tpcs(); ++tpc)
    if (mask.allows(TpcId{tpc}) && tpc < group_of_tpc_.size()) groups.push_back(group_of_tpc_[tpc]);
  std::sort(groups.begin(), groups.end());
  return groups;
}

Event CudaBackend::take_event() {
  if (free_events_.empty()) {
    events_.push_back(driver_.event());
    return events_.back();
  }
  const Event e = free_events_.back();
  free_events_.pop_back();
  return e;
}
std::uint32_t CudaBackend::take_ticket() {
  if (free_tickets_.empty())
    throw DriverError("more launches and copies are under way than there are tickets");
  const std::uint32_t i = free_tickets_.back();
  free_tickets_.pop_back();
  ticket(i) = 0;
  return i;
}
std::uint32_t CudaBackend::take_control() {
  const std::uint32_t i = free_controls_.back();
  free_controls_.pop_back();
  return i;
}

void CudaBackend::wait(Time until, std::vector<Notice>& notices) {
  const std::size_t before = notices.size();
  for (;;) {
    if (options_.interrupted != nullptr && options_.interrupted->load()) throw Interrupted("interrupted");
    const Time now = driver_.now() - epoch_;
    notices.insert(notices.end(), told_.begin(), told_.end());
    told_.clear();
    look(notices);
    if (notices.size() != before) {
      now_ = last_event_ = std::max(now_, now);
      return;
    }
    const bool idle = active_.empty() && !memory_->moving();
    if (idle)
      last_event_ = now;
    else if (now - last_event_ > options_.patience)
      throw Stalled(what_it_waits_for());
    if (now >= until) {
      now_ = std::max(now_, now);
      return;
    }
    if (idle && until == kNever) return;
    if (!held_.hand_over_one()) driver_.pause();
  }
}

/// All that have been used, at once: each filling is a launch of its own.
void CudaBackend::clear_controls() {
  clearing_.swap(used_controls_);
  std::sort(clearing_.begin(), clearing_.end());
  for (std::size_t from = 0, to = 0; from < clearing_.size(); from = to) {
    for (to = from + 1; to < clearing_.size() && clearing_[to] == clearing_[to - 1] + 1;) ++to;
    driver_.fill(control_stream_, control_at(clearing_[from]), 0, (to - from) * sizeof(Control));
  }
  clearing_ticket_ = take_ticket();
  driver_.write(control_stream_, tickets_.device + 4 * clearing_ticket_, 1);
}

void CudaBackend::look(std::vector<Notice>& notices) {
  memory_->look(notices);
  if (!clearing_.empty() && ticket(clearing_ticket_) != 0) {
    free_tickets_.push_back(clearing_ticket_);
    free_controls_.insert(free_controls_.end(), clearing_.begin(), clearing_.end());
    clearing_.clear();
  }
  for (std::size_t a = 0; a < active_.size();) {
    const std::uint32_t i = active_[a];
    InFlight& f = in_flight_[i];
    if (f.state == InFlight::State::waiting) {
      ++a;
      continue;
    }
    if (f.controlled && !f.last_told && !f.stopping && progress(f.control).all_taken != 0) {
      f.last_told = true;
      f.record.last_block = driver_.now() - epoch_;
      notices.push_back(LastBlockStarted{f.launch.id});
    }
    if (!pieces_ended(f)) {
      if (f.controlled) fill_seats(f);
      ++a;
      continue;
    }
    if (left_unseated(f)) {
      submit_again(f);
      ++a;
      continue;
    }
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(a));
    over(i, notices);
  }
}

/// Whether no worker is left though there are chunks: where an SM still holds the workers of another launch,
/// those that were to have its seats have come down elsewhere, and left.
bool CudaBackend::left_unseated(const InFlight& f) const {
  if (f.per_sm.empty() || progress(f.control).all_taken != 0) return false;
  return chunks_done(progress(f.control), f.parameters.chunks) == f.parameters.chunks;
}

/// A further grid of workers; of a launch that is being stopped one worker, to say how far it came.
void CudaBackend::submit_again(InFlight& f) {
  if (f.stopping) f.parameters.seated = 0;
  f.pieces.clear();
  submit_workers(f, f.stream, f.stopping ? 1 : places_for(f));
  driver_.record(f.ended, f.stream);
  end_of_piece(f, f.stream);
}

bool CudaBackend::pieces_ended(InFlight& f) {
  bool all = true;
  for (Piece& p : f.pieces) {
    if (!p.ended && ticket(p.ticket) != 0) {
      p.ended = true;
      free_tickets_.push_back(p.ticket);
    }
    all &= p.ended;
  }
  return all;
}

void CudaBackend::over(std::uint32_t index, std::vector<Notice>& notices) {
  InFlight& f = in_flight_[index];
  const LaunchId id = f.launch.id;
  const Time started = gpu_time(f.started), ended = std::max(gpu_time(f.ended), started);
  bool done = true;
  if (f.controlled) {
    if (f.stopping) {
      const std::uint32_t chunks = chunks_done(progress(f.control), f.parameters.chunks);
      done = f.parameters.first + blocks_in(f.parameters, chunks) == f.launch.kernel->blocks();
      blocks_ += blocks_in(f.parameters, chunks);
      if (!done)
        notices.push_back(Preempted{id, f.parameters.first + std::uint64_t{blocks_in(f.parameters, chunks)}});
    } else if (progress(f.control).all_taken == 0) {
      throw DriverError(fmt::format("a launch of {} for client {} has ended with blocks that nobody took",
                                    f.launch.kernel->name, trace_.clients[f.launch.client.value].name));
    }
    used_controls_.push_back(f.control);
    if (free_controls_.size() < kControls / 4 && clearing_.empty()) clear_controls();
  }
  if (done && f.is_copy) {
    f.copied.started = started, f.copied.finished = ended;
    timeline_->record(f.copied);
    notices.push_back(CopyFinished{id});
  } else if (done) {
    KernelRecord& r = f.record;
    r.queued = r.slotted = r.started = started;
    r.finished = ended;
    if (r.last_block == Time{} || r.last_block > ended) r.last_block = ended;
    timeline_->record(r);
    if (!f.stopping) blocks_ += r.blocks - f.parameters.first;
    ++buffers_of(f.launch).launches;
    if (checks_each_) end_check(f);
    notices.push_back(KernelFinished{id});
  }
  held_.over(id);
  if (Tail& last = tail(f.launch); last.ended == f.ended) last = {};  // nothing is before what comes next
  free_events_.push_back(f.started);
  free_events_.push_back(f.ended);
  f.state = InFlight::State::over;
  index_of_.erase(id.serial);
  free_indices_.push_back(index);
  // Its end may be what others wait for, in any stream of its client.
  held_.hand_over_needed(f.launch.client);
}

Time CudaBackend::gpu_time(Event e) { return base_at_ + from_ns(driver_.milliseconds(base_, e) * 1e6); }

}  // namespace corun::hw
