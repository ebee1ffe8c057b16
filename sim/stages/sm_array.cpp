#include "sim/stages/sm_array.h"

namespace corun::sim {

SmArray::SmArray(const Gpu& gpu, bool together, bool number_places)
    : gpu_(gpu),
      number_places_(number_places),
      cohorts_(gpu.sms, together),
      free_(gpu.sms, capacity_of(gpu.sm)),
      carveout_(gpu.sms),
      fixed_(gpu.sms),
      places_(gpu.sms),
      rank_of_sm_(gpu.sms),
      log_(kRemembered) {
  CORUN_EXPECTS(gpu.placement_order.size() == gpu.sms);
  CORUN_EXPECTS(gpu.sm.max_blocks <= 64);  // a bit for each place
  for (std::uint32_t rank = 0; rank < gpu.sms; ++rank) {
    CORUN_EXPECTS(gpu.placement_order[rank].value < gpu.sms);
    rank_of_sm_[gpu.placement_order[rank].value] = rank;
    all_.set(rank);
  }
}

SmMask SmArray::mask_of(const TpcMask& tpcs) const {
  if (tpcs == TpcMask::all()) return all_;
  SmMask mask;
  for (std::uint32_t sm = 0; sm < gpu_.sms; ++sm)
    if (tpcs.allows(TpcId{sm / gpu_.sms_per_tpc})) mask.set(rank_of_sm_[sm]);
  return mask;
}

std::vector<std::uint16_t> SmArray::by_rank(const std::vector<std::uint16_t>& by_sm) const {
  CORUN_EXPECTS(by_sm.size() == gpu_.sms);
  std::vector<std::uint16_t> ranked(gpu_.sms);
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)
    ranked[rank] = by_sm[gpu_.placement_order[rank].value];
  return ranked;
}

}  // namespace corun::sim
