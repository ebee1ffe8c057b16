// The set of TPCs a task may run on, as the task descriptor's SM_DISABLE_MASK fields hold it (Bakita and
// Anderson, RTAS 2023, section IV), but with a set bit meaning "enabled" and without that field's limit of 64
// or 128 bits.
#pragma once

#include <bitset>
#include <cstdint>

#include "traces/model/ids.h"

namespace corun {

inline constexpr std::uint32_t kMaxTpcs = 384;

class TpcMask {
 public:
  static TpcMask all() {
    TpcMask m;
    m.bits_.set();
    return m;
  }
  static TpcMask range(std::uint32_t first, std::uint32_t end) {
    TpcMask m;
    for (std::uint32_t i = first; i < end; ++i) m.enable(TpcId{i});
    return m;
  }
  void enable(TpcId tpc) { bits_.set(tpc.value); }
  TpcMask operator&(const TpcMask& other) const {
    TpcMask both;
    both.bits_ = bits_ & other.bits_;
    return both;
  }
  bool allows(TpcId tpc) const { return bits_.test(tpc.value); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(bits_.count()); }
  bool empty() const { return bits_.none(); }
  bool operator==(const TpcMask&) const = default;

 private:
  std::bitset<kMaxTpcs> bits_;
};

}  // namespace corun
