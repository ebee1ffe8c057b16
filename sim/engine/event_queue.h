// The pending events of a simulation, in the total order (time, phase, insertion).
//
// What it is: a priority queue for monotone use, where nothing is scheduled before the last popped event. At
// one instant lower phases come first, and within a phase the order of insertion holds, so a run is the same
// on every machine. In a steady state nothing is allocated: freed chunks are used again.
//
// How it works: a small 8-ary heap, the front, holds all events up to `limit_`; later ones lie unsorted in a
// wheel of 64 slots per level (a radix heap with digits of 6 bits: an event's level is the highest digit in
// which its time differs from `base_`). When the front is empty, the earliest slot is moved into it if it is
// small or holds a single instant, and is spread over the lower levels otherwise. The front alone decides the
// order; the wheel only keeps the front short.
//
// What it leaves out: cancellation. An owner that changes its mind leaves the event in place and recognises
// it as stale by a generation number in the payload. That costs one pop, and no index from events to
// positions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "traces/model/time.h"

namespace corun::sim {

template <typename Payload>
class EventQueue {
  static_assert(std::is_trivially_copyable_v<Payload> && sizeof(Payload) <= 16, "events are copied often");

 public:
  using Phase = std::uint8_t;

  struct Event {
    Time at;
    Phase phase;
    Payload payload;
  };

  // Throws std::logic_error if `at` lies before the last popped event.
  void schedule(Time at, Phase phase, Payload payload) {
    const std::int64_t time = at.count();
    const Key key = static_cast<Key>(time) << 64 | (std::uint64_t{phase} << kSequenceBits | sequence_);
    if (time > limit_) {
      if (used_levels_ != 0 || front_.size() >= kSmallQueue) {
        place(key, payload);
        ++in_wheel_;
        ++sequence_;
        return;
      }
      limit_ = time;  // so few events need no wheel
    } else if (time < now_) [[unlikely]] {
      throw std::logic_error("an event was scheduled before the last popped one");
    }
    front_.push(key, payload);
    ++sequence_;
    if (front_.size() > kLongFront && limit_ > std::max(now_, base_)) [[unlikely]] {
      shorten_front();
    }
  }

  bool empty() const { return size() == 0; }
  std::size_t size() const { return front_.size() + in_wheel_; }

  // These three need a non-empty queue. Looking may regroup the events (never reorder), hence not const.
  Time next_time() {
    if (front_.empty()) refill_front();
    return Time{time_of(front_.top_key())};
  }

  Event top() {
    if (front_.empty()) refill_front();
    return event(front_.top_key(), front_.top_payload());
  }

  Event pop() {
    if (front_.empty()) refill_front();
    const Event first = event(front_.top_key(), front_.top_payload());
    front_.pop();
    now_ = first.at.count();
    return first;
  }

 private:
  // Time above 8 bits of phase above 56 bits of sequence. Kept apart from the payload: comparisons read fewer
  // cache lines, and a key is never copied together with bytes that were just written singly, which stalls.
  __extension__ using Key = __int128;

  static constexpr int kSequenceBits = 56;
  static constexpr int kDigitBits = 6;
  static constexpr int kSlots = 1 << kDigitBits;
  static constexpr int kLevels = (63 + kDigitBits - 1) / kDigitBits;
  static constexpr std::uint32_t kChunkEvents = 8;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Half or twice any of these runs as fast, within the noise of the benchmark.
  static constexpr std::uint32_t kFewEvents = 16;  // a slot of this number or fewer goes into the front whole
  static constexpr std::size_t kSmallQueue = 32;
  static constexpr std::size_t kLongFront = 64;

  static std::int64_t time_of(Key key) { return static_cast<std::int64_t>(key >> 64); }

  static Event event(Key key, const Payload& payload) {
    return {Time{time_of(key)}, static_cast<Phase>(static_cast<std::uint64_t>(key) >> kSequenceBits),
            payload};
  }

  // An implicit 8-ary heap. The root lies just before the first family of siblings. Places beyond the size
  // hold the largest key, so every family is complete and its least is found without a branch.
  class Front {
   public:
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    Key top_key() const { return keys_[kRoot]; }
    const Payload& top_payload() const { return payloads_[kRoot]; }

    void push(Key key, const Payload& payload) {
      if (size_ == capacity_) grow();
      std::size_t hole = kRoot + size_++;
      while (hole > kRoot) {
        const std::size_t up = hole / kArity + kRoot - 1;
        if (keys_[up] < key) break;
        keys_[hole] = keys_[up];
        payloads_[hole] = payloads_[up];
        hole = up;
      }
      keys_[hole] = key;
      payloads_[hole] = payload;
    }

    void pop() {
      const std::size_t last = kRoot + --size_;
      const Key key = std::exchange(keys_[last], kLargest);
      if (size_ == 0) return;
      std::size_t hole = kRoot;
      for (std::size_t family = kArity; family < last; family = (hole - kRoot + 1) * kArity) {
        std::size_t least = family;
        Key least_key = keys_[family];
        for (std::size_t i = family + 1; i < family + kArity; ++i) {
          const Key next = keys_[i];
          const bool less = next < least_key;
          least = less ? i : least;
          least_key = less ? next : least_key;
        }
        if (key < least_key) break;
        keys_[hole] = least_key;
        payloads_[hole] = payloads_[least];
        hole = least;
      }
      keys_[hole] = key;
      payloads_[hole] = payloads_[last];
    }

    // Takes out the events after `limit` and hands them to `take`.
    template <typename Take>
    void remove_after(std::int64_t limit, Take take) {
      const std::size_t end = kRoot + std::exchange(size_, 0);
      for (std::size_t i = kRoot; i < end; ++i) {
        const Key key = std::exchange(keys_[i], kLargest);
        const Payload payload = payloads_[i];
        if (time_of(key) > limit) {
          take(key, payload);
        } else {
          push(key, payload);  // only into places already read
        }
      }
    }

   private:
    static constexpr std::size_t kArity = 8;
    static constexpr std::size_t kRoot = kArity - 1;
    static constexpr Key kLargest = static_cast<Key>(std::numeric_limits<std::int64_t>::max()) << 64 |
                                    std::numeric_limits<std::uint64_t>::max();

    void grow() {
      const std::size_t places = std::max(8 * kArity, 2 * keys_.size());
      keys_.resize(places, kLargest);
      payloads_.resize(places);
      capacity_ = places - kRoot;
    }

    std::vector<Key> keys_;
    std::vector<Payload> payloads_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
  };

  struct Chunk {
    std::array<Key, kChunkEvents> keys;
    std::array<Payload, kChunkEvents> payloads;
    std::uint32_t next;
  };

  struct Slot {
    std::uint32_t chunk = kNone;  // the newest; only this one may be partly filled
    std::uint32_t size = 0;
  };

  void place(Key key, const Payload& payload) {
    const auto time = static_cast<std::uint64_t>(time_of(key));
    const std::uint64_t difference = (time ^ static_cast<std::uint64_t>(base_)) | 1;
    const int level = (63 - std::countl_zero(difference)) / kDigitBits;
    const auto digit = static_cast<std::size_t>(time >> (level * kDigitBits)) % kSlots;
    Slot& slot = slots_[level][digit];
    const std::uint32_t position = slot.size++ % kChunkEvents;
    if (position == 0) {
      const std::uint32_t chunk = new_chunk();
      chunks_[chunk].next = std::exchange(slot.chunk, chunk);
      used_slots_[level] |= std::uint64_t{1} << digit;
      used_levels_ |= 1u << level;
    }
    Chunk& chunk = chunks_[slot.chunk];
    chunk.keys[position] = key;
    chunk.payloads[position] = payload;
  }

  std::uint32_t new_chunk() {
    if (free_chunk_ != kNone) return std::exchange(free_chunk_, chunks_[free_chunk_].next);
    chunks_.emplace_back();
    return static_cast<std::uint32_t>(chunks_.size() - 1);
  }

  // Hands the events of a slot already taken off the wheel to `take`, which may place them anew.
  template <typename Take>
  void empty_slot(Slot slot, Take take) {
    while (slot.size > 0) {
      const std::uint32_t count = (slot.size - 1) % kChunkEvents + 1;
      for (std::uint32_t i = 0; i < count; ++i) {
        const Chunk& chunk = chunks_[slot.chunk];
        const Key key = chunk.keys[i];
        const Payload payload = chunk.payloads[i];
        take(key, payload);
      }
      slot.size -= count;
      const std::uint32_t older = std::exchange(chunks_[slot.chunk].next, free_chunk_);
      free_chunk_ = std::exchange(slot.chunk, older);
    }
  }

  // The lowest used level holds the earliest events: those of a level differ from `base_` in no higher digit.
  void refill_front() {
    do {
      const int level = std::countr_zero(used_levels_);
      const int digit = std::countr_zero(used_slots_[level]);
      const Slot slot = std::exchange(slots_[level][digit], Slot{});
      used_slots_[level] &= used_slots_[level] - 1;
      if (used_slots_[level] == 0) used_levels_ &= used_levels_ - 1;

      // `base_` becomes the start of the slot.
      const int shift = level * kDigitBits;
      const std::int64_t higher_digits =
          level + 1 < kLevels ? base_ >> (shift + kDigitBits) << kDigitBits : 0;
      base_ = (higher_digits | digit) << shift;
      if (slot.size <= kFewEvents || level == 0) {
        limit_ = base_;
        in_wheel_ -= slot.size;
        empty_slot(slot, [this](Key key, const Payload& payload) {
          limit_ = std::max(limit_, time_of(key));
          front_.push(key, payload);
        });
      } else {
        empty_slot(slot, [this](Key key, const Payload& payload) { place(key, payload); });
      }
    } while (front_.empty());
  }

  // A front that reaches far ahead collects what is scheduled before its end; without this the queue would be
  // a plain heap until that end. The events of the present instant stay.
  void shorten_front() {
    if (used_levels_ == 0) base_ = std::max(now_, base_);
    limit_ = std::max(now_, base_);
    front_.remove_after(limit_, [this](Key key, const Payload& payload) {
      ++in_wheel_;
      place(key, payload);
    });
  }

  Front front_;
  // The wheel, of events after `limit_` only. `base_` is at most any of their times, and never negative.
  std::array<std::array<Slot, kSlots>, kLevels> slots_{};
  std::array<std::uint64_t, kLevels> used_slots_{};  // a bit per slot
  std::uint32_t used_levels_ = 0;                    // a bit per level
  std::uint32_t free_chunk_ = kNone;
  std::vector<Chunk> chunks_;
  std::size_t in_wheel_ = 0;

  std::int64_t base_ = 0;
  std::int64_t limit_ = 0;  // the front holds the events up to here
  std::int64_t now_ = std::numeric_limits<std::int64_t>::min();
  std::uint64_t sequence_ = 0;
};

}  // namespace corun::sim
