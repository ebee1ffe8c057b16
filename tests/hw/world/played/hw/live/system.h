// The operating system of hw/live/system.h, played (tests/hw/world/machine.h): what is shipped is compiled with this header before that one.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <type_traits>

#include "hw/live/limits.h"
#include "tests/hw/world/machine.h"

namespace corun::live::os {

struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  static time_point now();
};

class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock();
  bool try_lock();
  void unlock();

 private:
  const void* owner_ = nullptr;
  bool waited_for_ = false;
};

class Condition {
 public:
  void wait(std::unique_lock<Mutex>& lock) { wait_until(lock, world::kForever); }
  template <class Pred>
  void wait(std::unique_lock<Mutex>& lock, Pred so) {
    while (!so()) wait(lock);
  }
  std::cv_status wait_for(std::unique_lock<Mutex>& lock, Clock::duration at_most) {
    return wait_until(lock, Clock::now().time_since_epoch() + at_most) ? std::cv_status::no_timeout : std::cv_status::timeout;
  }
  template <class Pred>
  bool wait_for(std::unique_lock<Mutex>& lock, Clock::duration at_most, Pred so) {
    for (const auto until = Clock::now().time_since_epoch() + at_most; !so();)
      if (!wait_until(lock, until)) return so();
    return true;
  }
  void notify_all();

 private:
  bool wait_until(std::unique_lock<Mutex>& lock, world::Ns until);
};

struct Once {
  int state = 0;  // 1: somebody is at it
};
void begin_once(Once& once);
void end_once(Once& once);
template <class Call>
void call_once(Once& once, Call call) {
  begin_once(once);
  if (once.state == 2) return;
  call();
  end_once(once);
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags);
int bind(int fd, const sockaddr* address, socklen_t size);
int close(int fd);
int connect(int fd, const sockaddr* address, socklen_t size);
int fcntl(int fd, int what, int value = 0);
int fstat(int fd, struct stat* is);
int ftruncate(int fd, off_t bytes);
uid_t geteuid();
const char* getenv(const char* name);
int getsockopt(int fd, int level, int what, void* value, socklen_t* size);
int isatty(int fd);
int listen(int fd, int most);
int memfd_create(const char* name, unsigned flags);
void* mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t from);
int munmap(void* at, std::size_t bytes);
int open(const char* path, int flags);
int pidfd_open(pid_t pid);
int poll(pollfd* all, nfds_t count, int ms);
int pthread_atfork(void (*before)(), void (*after)(), void (*in_child)());
ssize_t recv(int fd, void* to, std::size_t bytes, int flags);
ssize_t recvmsg(int fd, msghdr* message, int flags);
ssize_t send(int fd, const void* from, std::size_t bytes, int flags);
ssize_t sendmsg(int fd, const msghdr* message, int flags);
int setsockopt(int fd, int level, int what, const void* value, socklen_t size);
int shutdown(int fd, int how);
int socket(int family, int type, int protocol);
int unlink(const char* path);
ssize_t write(int fd, const void* from, std::size_t bytes);

void sleep_for(Clock::duration how_long);
void yield();
inline unsigned cores() { return 1; }
void pause();
inline constexpr std::uint32_t kSpins = 8;
void wait_for_change(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds at_most);
void wake_all(std::atomic<std::uint32_t>& word);
void start_thread(std::function<void()> run);
void complain(const char* text);

template <class T>
T& of(std::vector<world::Slot>& slots) {
  const std::size_t i = world::kSlotOf<T>;
  if (slots.size() <= i) slots.resize(i + 1);
  world::Slot& slot = slots[i];
  if (slot.at == nullptr)
    slot = {new T{}, std::is_trivially_destructible_v<T> ? sizeof(T) : 0, [](void* at) { delete static_cast<T*>(at); }};
  return *static_cast<T*>(slot.at);
}
template <class T>
T& of_thread() {
  static T of_none;  // of whoever tears a process down
  world::Thread* thread = world::Machine::the().thread();
  return thread != nullptr ? of<T>(thread->slots) : of_none;
}
template <class T>
T& of_process() {
  if (world::Machine::there() && world::Machine::the().process() != nullptr) return of<T>(world::Machine::the().process()->slots);
  static auto* const kOfNone = new T{};  // of the test's own process, while it ends
  return *kOfNone;
}
template <class T>
T* keep(T* made) {
  world::Machine::the().process()->kept.push_back(std::shared_ptr<T>(made));
  return made;
}

}  // namespace corun::live::os
