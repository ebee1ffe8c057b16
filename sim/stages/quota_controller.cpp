#include "sim/stages/quota_controller.h"

namespace corun::sim {

bool QuotaController::seek(WorkId id, Work& work, bool place_left, Time now, bool immediately) {
  CORUN_EXPECTS(work.has_quotas() && work.spread.held.size() == work.spread.quota.size());
  Spread& s = work.spread;
  s.trying = false;
  if (work.all_started() || !s.missing()) return false;
  if (!place_left) {
    if (std::find(wanting_.begin(), wanting_.end(), id) == wanting_.end()) wanting_.push_back(id);
    return false;
  }
  if (immediately) return true;
  s.trying = true;
  std::erase(wanting_, id);
  // The room may be kept for a task before it in the table.  Where nothing takes time, a further instance at
  // the instant of one none of whose workers stayed would go the same way, without end: it comes with
  // whatever happens next.
  if (s.newest != Spread::Newest::stayed && s.came == now + launch_latency_)
    in_vain_.push_back(id);
  else
    further_.push_back({now + launch_latency_, id});
  return false;
}

}  // namespace corun::sim
