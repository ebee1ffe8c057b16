// A table whose places are used again, so that what is scheduled can be named by a small number.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace corun::sim {

template <class T>
class Slots {
 public:
  std::uint32_t add(T value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return static_cast<std::uint32_t>(values_.size() - 1);
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    values_[slot] = std::move(value);
    return slot;
  }
  /// Its place is free.
  T take(std::uint32_t slot) {
    free_.push_back(slot);
    return std::move(values_[slot]);
  }
  T& operator[](std::uint32_t slot) { return values_[slot]; }
  const T& operator[](std::uint32_t slot) const { return values_[slot]; }

 private:
  std::vector<T> values_;
  std::vector<std::uint32_t> free_;
};

}  // namespace corun::sim
