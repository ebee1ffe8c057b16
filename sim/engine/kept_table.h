// What was found once, by what it was found from: a hash table that keeps all, and where each value stays.  The
// places that a search looks at hold numbers of entries alone, so that it touches little memory beside the entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "traces/model/expects.h"

namespace corun::sim {

template <typename Key, typename Value>
class KeptTable {
 public:
  /// Null: there is none.  Valid as long as the table.
  Value* find(const Key& key, std::uint64_t hash) {
    return const_cast<Value*>(std::as_const(*this).find(key, hash));
  }
  const Value* find(const Key& key, std::uint64_t hash) const {
    if (places_.empty()) return nullptr;
    for (std::size_t at = first_place(hash); places_[at].number != 0; at = (at + 1) & (places_.size() - 1)) {
      if (places_[at].tag != tag_of(hash)) continue;
      const Entry& entry = entries_[places_[at].number - 1];
      if (entry.key == key) return &entry.value;
    }
    return nullptr;
  }
  /// Of a key that is not there yet.
  Value& add(const Key& key, std::uint64_t hash, Value value) {
    CORUN_EXPECTS(find(key, hash) == nullptr);
    if (2 * (entries_.size() + 1) > places_.size()) grow();
    entries_.push_back({key, hash, std::move(value)});
    put(static_cast<std::uint32_t>(entries_.size()), hash);
    return entries_.back().value;
  }

 private:
  static constexpr int kFirstBits = 6;
  static constexpr std::uint64_t kScatter = 0x9e3779b97f4a7c15u;
  struct Entry {
    Key key;
    std::uint64_t hash;
    Value value;
  };
  struct Place {
    std::uint32_t tag = 0;
    std::uint32_t number = 0;  // of the entry, from 1; 0: free
  };

  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash * kScatter >> 16); }
  std::size_t first_place(std::uint64_t hash) const { return hash * kScatter >> (64 - bits_); }
  void put(std::uint32_t number, std::uint64_t hash) {
    std::size_t at = first_place(hash);
    while (places_[at].number != 0) at = (at + 1) & (places_.size() - 1);
    places_[at] = {tag_of(hash), number};
  }
  void grow() {
    bits_ = bits_ == 0 ? kFirstBits : bits_ + 1;
    places_.assign(std::size_t{1} << bits_, {});
    for (std::uint32_t i = 0; i < entries_.size(); ++i) put(i + 1, entries_[i].hash);
  }

  std::deque<Entry> entries_;
  std::vector<Place> places_;  // a power of two of them, at least half free
  int bits_ = 0;
};

}  // namespace corun::sim
