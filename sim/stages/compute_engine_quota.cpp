// Launches with a number of CTAs per SM, by fulfil and retreat: which instances are needed, and when.
#include "sim/stages/compute_engine.h"

#include <algorithm>

namespace corun::sim {

std::vector<std::uint16_t> ComputeEngine::by_rank(const std::vector<std::uint16_t>& by_sm) const {
  std::vector<std::uint16_t> ranked(gpu_.sms);
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)
    ranked[rank] = by_sm[gpu_.placement_order[rank].value];
  return ranked;
}

void ComputeEngine::resize(LaunchId launch, const std::vector<std::uint16_t>& ctas_per_sm, bool grow) {
  end_solo_early();
  Work* work = find(launch);
  if (work == nullptr || !work->spreads() || work->next == work->blocks()) return;
  const std::vector<std::uint16_t> ranked = by_rank(ctas_per_sm);
  Spread& s = work->spread;
  work->ctas = 0;
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank) {
    s.quota[rank] = grow ? ranked[rank] : std::min(s.quota[rank], ranked[rank]);
    work->ctas += s.quota[rank];
  }
  judge_contention_ = true;
  const WorkId id{work_of_slot_[launch.slot]};
  if (grow && !s.trying) seek_places(id, true);
  // Not one CTA may be left until the others come: it must not look like a plain launch.
  work->ctas = std::max(1u, work->ctas);
}

/// Another instance of one full residency reaches the TMU.
void ComputeEngine::add_spread(WorkId work) {
  Spread& s = works_[work.value].spread;
  s.trying = true;
  s.landed = s.stayed = false;
  s.came = now_;
  std::erase(wanting_, work);
  add_task(work, s.level, s.allowed, s.demand, s.workers);
}

/// Whether a worker more could stay somewhere.
bool ComputeEngine::reachable(const Work& work) const {
  Task like{};
  like.demand = work.spread.demand;
  like.division = division_of(like.demand, gpu_.sm);
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)
    if (work.spread.wanted(rank) && room_on(rank, like) > 0) return true;
  return false;
}

/// An instance has been placed, or the numbers have changed: is a further one needed, and is there room?  The
/// host sees what is missing in the workers' counts, and launches again.
void ComputeEngine::seek_places(WorkId id, bool at_once) {
  Work& work = works_[id.value];
  Spread& s = work.spread;
  s.trying = false;
  if (work.next == work.blocks()) return;
  bool missing = false;
  for (std::uint32_t rank = 0; rank < gpu_.sms && !missing; ++rank) missing = s.wanted(rank);
  if (!missing) return;
  if (!reachable(work)) {
    if (std::find(wanting_.begin(), wanting_.end(), id) == wanting_.end()) wanting_.push_back(id);
    return;
  }
  if (at_once) return add_spread(id);
  s.trying = true;
  std::erase(wanting_, id);
  // The room may be kept for a task before it in the table.  Where nothing takes time, a further instance at
  // the instant of one none of whose workers stayed would go the same way, without end: it comes with
  // whatever happens next.
  if (!s.stayed && s.came == now_ + gpu_.launch_latency) return in_vain_.push_back(id);
  further_.push_back({now_ + gpu_.launch_latency, id});
}

/// An SM has got room.
void ComputeEngine::look_again(std::uint32_t rank) {
  for (std::size_t i = 0; i < wanting_.size();) {
    const WorkId id = wanting_[i];
    if (works_[id.value].spread.wanted(rank)) seek_places(id);
    i += i < wanting_.size() && wanting_[i] == id;
  }
}

}  // namespace corun::sim
