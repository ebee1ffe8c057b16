#include "sim/stages/quota_controller.h"

namespace corun::sim {
namespace {

/// Whether a worker more could stay somewhere.
bool reachable(const Spread& spread, const SmArray& sms) {
  for (std::uint32_t rank = 0; rank < spread.held.size(); ++rank)
    if (spread.wanted(rank) && sms.room_for(rank, spread.demand, spread.carveout) > 0) return true;
  return false;
}

}  // namespace

bool QuotaController::seek(WorkId id, Work& work, const SmArray& sms, Time now, bool immediately) {
  CORUN_EXPECTS(work.has_quotas() && work.spread.held.size() == work.spread.quota.size());
  Spread& s = work.spread;
  s.trying = false;
  if (work.all_started() || !s.missing()) return false;
  if (!reachable(s, sms)) {
    if (std::find(wanting_.begin(), wanting_.end(), id) == wanting_.end()) wanting_.push_back(id);
    return false;
  }
  if (immediately) return true;
  s.trying = true;
  std::erase(wanting_, id);
  // The room may be kept for a task before it in the table.  Where nothing takes time, a further instance at
  // the instant of one none of whose workers stayed would go the same way, without end: it comes with
  // whatever happens next.
  if (!s.stayed && s.came == now + launch_latency_)
    in_vain_.push_back(id);
  else
    further_.push_back({now + launch_latency_, id});
  return false;
}

void QuotaController::look_again(std::uint32_t rank, LaunchTable& launches, const SmArray& sms, Time now) {
  CORUN_EXPECTS(sms.all().test(rank));
  for (std::size_t i = 0; i < wanting_.size();) {
    const WorkId id = wanting_[i];
    if (launches[id].spread.wanted(rank)) seek(id, launches[id], sms, now);
    i += i < wanting_.size() && wanting_[i] == id;
  }
}

}  // namespace corun::sim
