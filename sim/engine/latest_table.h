// What was computed of late, by what it was computed from: a table of one place a hash, which forgets nothing
// that cannot be computed again.  It grows with what it has not found, as many live shortly and know little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/model/expects.h"

namespace corun::sim {

template <typename Key, typename Value>
class LatestTable {
 public:
  /// Of at most 2^`most_bits` places.
  explicit LatestTable(int most_bits) : most_bits_(most_bits) {
    CORUN_EXPECTS(most_bits >= kFirstBits && most_bits < 32);
  }

  /// The value of this key, in `found`; or the place for it, which is the key's from now on.  Valid until the
  /// next look.
  Value& look(const Key& key, std::uint64_t hash, bool& found) {
    if (misses_ >= places_.size() && bits_ < most_bits_) grow();
    const std::uint64_t scattered = hash * kScatter;
    const std::size_t at = scattered >> (64 - bits_);
    const std::uint32_t tag = static_cast<std::uint32_t>(scattered >> 16) | 1;
    Place& place = places_[at];
    found = tags_[at] == tag && place.key == key;
    if (!found) {
      ++misses_;
      tags_[at] = tag;
      place.key = key;
      place.value = Value{};
    }
    return place.value;
  }

 private:
  static constexpr int kFirstBits = 6;
  static constexpr std::uint64_t kScatter = 0x9e3779b97f4a7c15u;
  struct Place {
    Key key{};
    Value value{};
  };

  void grow() {
    bits_ = bits_ == 0 ? kFirstBits : bits_ + 2 > most_bits_ ? most_bits_ : bits_ + 2;
    places_.assign(std::size_t{1} << bits_, {});
    tags_.assign(places_.size(), 0);
    misses_ = 0;
  }

  std::vector<Place> places_;
  /// Of the keys' hashes, 0: free; most misses are seen here, which fits the cache.
  std::vector<std::uint32_t> tags_;
  int most_bits_, bits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace corun::sim
