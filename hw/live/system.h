// System calls, clock, locks and state of a thread or a process that the service and the shim use: here, and nowhere else, so that a
// test may put another header of this name before this one and play all of it (tests/hw/world).  Names are the system's.
//
// Leaves out: the service's folder and files (folder.h), the thread that forecasts (beside.h), and the driver (hw/shim/driver.h).
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <type_traits>

#include "hw/live/limits.h"

namespace corun::live::os {

using Clock = std::chrono::steady_clock;
using Mutex = std::mutex;
using Condition = std::condition_variable;
using Once = std::once_flag;
using std::call_once;

using ::accept4, ::bind, ::close, ::connect, ::fcntl, ::fstat, ::ftruncate, ::geteuid, ::getsockopt, ::isatty, ::listen, ::memfd_create,
    ::mmap, ::munmap, ::open, ::poll, ::pthread_atfork, ::recv, ::recvmsg, ::send, ::sendmsg, ::setsockopt, ::shutdown, ::socket,
    ::unlink, ::write;
using std::getenv;

inline void sleep_for(Clock::duration how_long) { std::this_thread::sleep_for(how_long); }
inline void yield() { std::this_thread::yield(); }
inline unsigned cores() { return std::thread::hardware_concurrency(); }
inline int pidfd_open(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

/// For a loop that polls memory until another thread writes it.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
/// Pauses that take a millisecond or so.
inline constexpr std::uint32_t kSpins = limits::kSpins;

/// Sleeps until the word has another value, a wake, or the time is over.
inline void wait_for_change(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds at_most) {
  const timespec limit{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr, 0);
}
inline void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// A detached thread that takes none of the program's signals.
template <class Run>
void start_thread(Run run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(run)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// Writes to standard error; adds no newline.
inline void complain(const char* text) { std::fputs(text, stderr); }

/// State of the calling thread.
template <class T>
T& of_thread() {
  static thread_local T own{};
  return own;
}
/// State of the process, never destroyed: threads may use it while the process ends.
template <class T>
T& of_process() {
  if constexpr (std::is_trivially_destructible_v<T>) {
    static constinit T own{};
    return own;
  } else {
    static auto* const own = new T;
    return *own;
  }
}
/// An object that lives as long as the process.
template <class T>
T* keep(T* made) {
  return made;
}

}  // namespace corun::live::os
