// Messages between two processes through memory that they share: a ring of bytes each way, polled, so that a
// launch reaches the other process in less than a microsecond.
//
// Leaves out: sleeping (both ends look again and again while a run is on), more than one reader or writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace corun::hw {

struct Message {
  std::uint32_t kind = 0;
  std::string bytes;

  /// What put() wrote, in the same order; `at` moves on.
  template <class T>
  T take(std::size_t& at) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(static_cast<void*>(&value), bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
  }
  template <class T>
  Message& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
};

class Channel {
 public:
  enum class End : std::uint8_t { parent, worker };

  /// A new one; its other end is opened from fd() in the other process.
  static Channel make();
  Channel(int fd, End end);
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&&) = delete;
  ~Channel();

  int fd() const { return fd_; }
  /// Waits for room, and takes in meanwhile what arrives.  False: `gone` said that nobody reads any more.
  bool send(const Message& message, const std::function<bool()>& gone = {});
  std::optional<Message> receive();

 private:
  struct Shared;
  void pull();

  int fd_ = -1;
  End end_;
  Shared* shared_ = nullptr;
  std::string arrived_;
  std::size_t used_ = 0;  // of `arrived_`
};

}  // namespace corun::hw
