// A set of SMs as bits.  Bit i is the SM of rank i in the device's placement order, so that "the first set
// bit" is the hardware's tie-break.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace corun::sim {

inline constexpr std::uint32_t kMaxSms = 384;  // an even number of words: the compiler takes two at a time

class SmMask {
 public:
  void set(std::uint32_t rank) { words_[rank / 64] |= std::uint64_t{1} << rank % 64; }
  void reset(std::uint32_t rank) { words_[rank / 64] &= ~(std::uint64_t{1} << rank % 64); }
  bool test(std::uint32_t rank) const { return (words_[rank / 64] >> rank % 64 & 1) != 0; }
  bool none() const {
    std::uint64_t any = 0;
    for (std::uint64_t w : words_) any |= w;
    return any == 0;
  }
  std::uint32_t count() const {
    std::uint32_t n = 0;
    for (std::uint64_t w : words_) n += static_cast<std::uint32_t>(std::popcount(w));
    return n;
  }
  /// First bit, kMaxSms if none.
  std::uint32_t first() const {
    for (std::uint32_t i = 0; i < words_.size(); ++i)
      if (words_[i] != 0) return i * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[i]));
    return kMaxSms;
  }
  /// The first n of its bits.
  SmMask first(std::uint64_t n) const {
    SmMask m;
    for (std::uint32_t i = 0; i < words_.size() && n > 0; ++i) {
      std::uint64_t rest = words_[i];
      const auto bits = static_cast<std::uint32_t>(std::popcount(rest));
      if (bits <= n) {
        m.words_[i] = rest;
        n -= bits;
        continue;
      }
      // Halves its search for the place after the n-th bit.
      std::uint32_t place = 0;
      for (std::uint32_t width = 32; width != 0; width /= 2) {
        const auto below =
            static_cast<std::uint32_t>(std::popcount(rest >> place & ((std::uint64_t{1} << width) - 1)));
        if (below > n) continue;
        n -= below;
        place += width;
      }
      m.words_[i] = rest & ((std::uint64_t{1} << place) - 1);
      n = 0;
    }
    return m;
  }
  SmMask minus(const SmMask& o) const {
    SmMask m;
    for (std::uint32_t i = 0; i < words_.size(); ++i) m.words_[i] = words_[i] & ~o.words_[i];
    return m;
  }
  SmMask operator&(const SmMask& o) const {
    SmMask m;
    for (std::uint32_t i = 0; i < words_.size(); ++i) m.words_[i] = words_[i] & o.words_[i];
    return m;
  }
  SmMask& operator|=(const SmMask& o) {
    for (std::uint32_t i = 0; i < words_.size(); ++i) words_[i] |= o.words_[i];
    return *this;
  }
  bool operator==(const SmMask&) const = default;

  /// f(rank) for each of its bits, in ascending order.
  template <typename F>
  void for_each(F&& f) const {
    for (std::uint32_t i = 0; i < words_.size(); ++i)
      for (std::uint64_t w = words_[i]; w != 0; w &= w - 1)
        f(i * 64 + static_cast<std::uint32_t>(std::countr_zero(w)));
  }

 private:
  std::array<std::uint64_t, kMaxSms / 64> words_{};
};

}  // namespace corun::sim
