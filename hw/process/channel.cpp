#include "hw/process/channel.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <utility>

namespace corun::hw {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;

}  // namespace

struct Channel::Shared {
  struct Ring {
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
    alignas(64) char data[kBytes];
  };
  Ring to_worker, to_parent;
};

Channel Channel::make() {
  const int fd = memfd_create("corun", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0) {
    if (fd >= 0) ::close(fd);
    throw std::runtime_error("no memory to share with another process");
  }
  return Channel(fd, End::parent);
}

Channel::Channel(int fd, End end) : fd_(fd), end_(end) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) throw std::runtime_error("no memory that is shared with another process");
  shared_ = end == End::parent ? new (at) Shared : static_cast<Shared*>(at);  // the kernel zeroed it
}
Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      end_(other.end_),
      shared_(std::exchange(other.shared_, nullptr)),
      arrived_(std::move(other.arrived_)),
      used_(other.used_) {}
Channel::~Channel() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
  if (fd_ >= 0) ::close(fd_);
}

bool Channel::send(const Message& message, const std::function<bool()>& gone) {
  Shared::Ring& ring = end_ == End::parent ? shared_->to_worker : shared_->to_parent;
  std::string frame;
  const auto size = static_cast<std::uint32_t>(message.bytes.size());
  frame.append(reinterpret_cast<const char*>(&size), sizeof size);
  frame.append(reinterpret_cast<const char*>(&message.kind), sizeof message.kind);
  frame += message.bytes;
  std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  for (std::size_t done = 0; done < frame.size();) {
    const std::uint64_t room = kBytes - (written - ring.read.load(std::memory_order_acquire));
    if (room == 0) {
      pull();  // else two that wait for room would wait for each other
      if (gone && gone()) return false;
      sched_yield();
      continue;
    }
    const std::uint64_t at = written % kBytes;
    const std::size_t n = std::min<std::uint64_t>({room, frame.size() - done, kBytes - at});
    std::memcpy(ring.data + at, frame.data() + done, n);
    done += n;
    written += n;
    ring.written.store(written, std::memory_order_release);
  }
  return true;
}

void Channel::pull() {
  Shared::Ring& ring = end_ == End::parent ? shared_->to_parent : shared_->to_worker;
  std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  const std::uint64_t written = ring.written.load(std::memory_order_acquire);
  if (read == written) return;
  arrived_.erase(0, std::exchange(used_, 0));
  while (read != written) {
    const std::uint64_t at = read % kBytes, n = std::min(written - read, kBytes - at);
    arrived_.append(ring.data + at, n);
    read += n;
  }
  ring.read.store(read, std::memory_order_release);
}

std::optional<Message> Channel::receive() {
  constexpr std::size_t kHead = 2 * sizeof(std::uint32_t);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (arrived_.size() - used_ >= kHead) {
      std::uint32_t size = 0;
      Message message;
      std::memcpy(&size, arrived_.data() + used_, sizeof size);
      std::memcpy(&message.kind, arrived_.data() + used_ + sizeof size, sizeof message.kind);
      if (arrived_.size() - used_ >= kHead + size) {
        message.bytes = arrived_.substr(used_ + kHead, size);
        used_ += kHead + size;
        return message;
      }
    }
    pull();
  }
  return std::nullopt;
}

}  // namespace corun::hw
