#include "hw/live/groups.h"

namespace corun::live {

std::vector<std::size_t> groups_in(const Tpcs& tpcs, std::span<const std::uint32_t> tpcs_of_group) {
  const auto has = [&](std::size_t tpc) { return tpc / 64 < tpcs.size() && (tpcs[tpc / 64] >> (tpc % 64) & 1) != 0; };
  std::vector<std::size_t> in;
  std::size_t first = 0;
  for (std::size_t g = 0; g < tpcs_of_group.size(); ++g) {
    const std::size_t size = tpcs_of_group[g];
    std::size_t common = 0;
    for (std::size_t tpc = first; tpc < first + size; ++tpc) common += has(tpc);
    if (2 * common > size || (2 * common == size && has(first))) in.push_back(g);
    first += size;
  }
  return in;
}

std::uint32_t sms_of(const Tpcs& tpcs, std::span<const std::uint32_t> tpcs_of_group) {
  std::uint32_t sms = 0;
  for (std::size_t g : groups_in(tpcs, tpcs_of_group)) sms += kSmsOfTpc * tpcs_of_group[g];
  return sms;
}

}  // namespace corun::live
