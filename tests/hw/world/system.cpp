// Calls of the system, as a played machine answers them.
#include "hw/live/system.h"

#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace corun::live::os {
namespace {

using world::File;
using world::Machine;
using world::Ns;
using namespace std::chrono_literals;

constexpr std::size_t kRoom = 212'992;  // of a socket

Machine& machine() { return Machine::the(); }
bool dead() { return !Machine::there() || machine().process() == nullptr || !machine().process()->alive; }
int fails_with(int why) { return errno = why, -1; }

std::shared_ptr<File> of_kind(int fd, File::Kind kind) {
  auto f = machine().file(fd);
  return f != nullptr && f->kind == kind ? f : nullptr;
}

short ready(int fd, short asked) {
  if (fd == 2) return asked & POLLOUT;
  const auto f = machine().file(fd);
  if (f == nullptr) return POLLNVAL;
  short is = 0;
  switch (f->kind) {
    case File::Kind::listener: is = f->waiting.empty() ? 0 : POLLIN; break;
    case File::Kind::process: {
      const auto of = f->of.lock();
      is = of == nullptr || !of->alive ? POLLIN : 0;
      break;
    }
    case File::Kind::end: {
      const auto peer = f->peer.lock();
      if (!f->bytes.empty() || f->over) is |= POLLIN;
      if (f->over) is |= POLLRDHUP | POLLHUP;
      if (f->over || (peer != nullptr && peer->bytes.size() < kRoom)) is |= POLLOUT;
      break;
    }
    default: break;
  }
  return static_cast<short>(is & (asked | POLLHUP | POLLERR));
}

int listening() {
  const auto& files = machine().process()->files;
  const auto at = std::ranges::find_if(files, [](const auto& f) { return f != nullptr && f->kind == File::Kind::listener; });
  return at == files.end() ? -1 : static_cast<int>(at - files.begin());
}

void take(File& from, void* to, std::size_t bytes) {
  std::memcpy(to, from.bytes.data(), bytes);
  from.bytes.erase(0, bytes);
  if (const auto peer = from.peer.lock()) machine().changed(*peer);
}

}  // namespace

Clock::time_point Clock::now() {
  machine().spend(100ns);
  return time_point(machine().now());
}

void Mutex::lock() {
  if (dead() || machine().thread() == nullptr) return;
  machine().spend();
  while (owner_ != nullptr) {
    waited_for_ = true;
    machine().wait_on(this, world::kForever);
  }
  owner_ = machine().thread();
}
bool Mutex::try_lock() {
  if (owner_ != nullptr) return false;
  owner_ = machine().thread();
  return true;
}
void Mutex::unlock() {
  if (dead()) return;
  owner_ = nullptr;
  if (std::exchange(waited_for_, false)) machine().wake(this);
}

bool Condition::wait_until(std::unique_lock<Mutex>& lock, Ns until) {
  lock.unlock();
  const bool woken = machine().wait_on(this, until);
  lock.lock();
  return woken;
}
void Condition::notify_all() { machine().wake(this); }

void begin_once(Once& once) {
  while (once.state == 1) machine().wait_on(&once, world::kForever);
  if (once.state == 0) once.state = 1;
}
void end_once(Once& once) {
  once.state = 2;
  machine().wake(&once);
}

int accept4(int fd, sockaddr*, socklen_t*, int flags) {
  machine().spend();
  ++machine().count("accept");
  const auto f = of_kind(fd, File::Kind::listener);
  if (f == nullptr) return fails_with(EBADF);
  if (machine().fails()) return fails_with(machine().random.one_in(2) ? EMFILE : ECONNABORTED);
  if (f->waiting.empty()) return fails_with(EAGAIN);
  f->waiting.front()->waits = (flags & SOCK_NONBLOCK) == 0;
  f->waiting.front()->came = machine().now();
  const int made = machine().add(f->waiting.front());
  if (made >= 0) {
    f->waiting.pop_front();
    machine().wake(f.get());
  }
  return made;
}
int bind(int fd, const sockaddr*, socklen_t) {
  const auto f = of_kind(fd, File::Kind::fresh);
  if (f == nullptr) return fails_with(EBADF);
  f->kind = File::Kind::listener;
  return 0;
}
int listen(int fd, int) {
  const auto f = of_kind(fd, File::Kind::listener);
  if (f == nullptr) return fails_with(EBADF);
  machine().listener = f;
  return 0;
}
int close(int fd) {
  if (dead()) return 0;
  const auto f = machine().file(fd);
  if (f == nullptr) return machine().wrong("a descriptor is closed that is not open"), fails_with(EBADF);
  machine().process()->files[static_cast<std::size_t>(fd)] = nullptr;
  return 0;
}
int connect(int fd, const sockaddr*, socklen_t) {
  machine().spend(2us);
  const auto f = of_kind(fd, File::Kind::fresh);
  if (f == nullptr) return fails_with(EBADF);
  if (machine().fails()) return fails_with(EINTR);
  const auto listener = machine().listener.lock();
  if (listener == nullptr) return fails_with(ECONNREFUSED);
  for (const Ns until = machine().now() + f->receives_for; listener->waiting.size() >= 64;)
    if (!machine().wait_on(listener.get(), until) && machine().now() >= until) return fails_with(EAGAIN);
  const auto theirs = std::make_shared<File>(File::Kind::end);
  f->kind = File::Kind::end;
  f->peer = theirs, theirs->peer = f;
  theirs->pid = machine().process()->pid, theirs->uid = machine().process()->uid, theirs->of = machine().process();
  f->uid = 1000;
  listener->waiting.push_back(theirs);
  machine().changed(*listener);
  return 0;
}
int fcntl(int fd, int what, int) {
  const auto f = of_kind(fd, File::Kind::page);
  if (f == nullptr) return fails_with(EBADF);
  if (what == F_ADD_SEALS) f->sealed = !machine().plants.no_seals;
  return 0;
}
int fstat(int fd, struct stat* is) {
  const auto f = of_kind(fd, File::Kind::page);
  if (f == nullptr) return fails_with(EBADF);
  std::memset(is, 0, sizeof *is);
  is->st_size = static_cast<off_t>(f->size);
  return 0;
}
int ftruncate(int fd, off_t bytes) {
  machine().spend();
  const auto f = of_kind(fd, File::Kind::page);
  if (f == nullptr) return fails_with(EBADF);
  if (f->sealed && static_cast<std::size_t>(bytes) != f->size) return fails_with(EPERM);
  if (machine().fails()) return fails_with(ENOMEM);
  if (f->memory == nullptr) {
    void* at = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return fails_with(ENOMEM);
    f->memory = static_cast<char*>(at), f->room = static_cast<std::size_t>(bytes);
  } else if (static_cast<std::size_t>(bytes) < f->size) {
    machine().wrong("a page is cut off under those who look at it");
  }
  f->size = static_cast<std::size_t>(bytes);
  return 0;
}
uid_t geteuid() { return machine().process()->uid; }
const char* getenv(const char* name) {
  const auto& all = machine().process()->environment;
  const auto at = all.find(name);
  return at != all.end() ? at->second.c_str() : nullptr;
}
int getsockopt(int fd, int, int what, void* value, socklen_t*) {
  machine().spend();
  const auto f = of_kind(fd, File::Kind::end);
  if (f == nullptr || machine().fails()) return fails_with(EBADF);
  if (what == SO_PEERCRED) {
    const ucred is{f->pid, f->uid, f->uid};
    std::memcpy(value, &is, sizeof is);
    return 0;
  }
  if (machine().plants.no_process_descriptors) return fails_with(ENOPROTOOPT);
  const auto of = std::make_shared<File>(File::Kind::process);
  of->of = f->of;
  const int made = machine().add(of);
  if (made < 0) return -1;
  std::memcpy(value, &made, sizeof made);
  return 0;
}
int isatty(int) { return 0; }
int memfd_create(const char*, unsigned) {
  machine().spend();
  return machine().fails() ? fails_with(ENOMEM) : machine().add(std::make_shared<File>(File::Kind::page));
}
void* mmap(void*, std::size_t bytes, int, int, int fd, off_t) {
  machine().spend();
  const auto f = of_kind(fd, File::Kind::page);
  if (f == nullptr || f->memory == nullptr || bytes > f->size || machine().fails()) return errno = ENOMEM, MAP_FAILED;
  machine().process()->mapped[f->memory].push_back(f);
  return f->memory;
}
int munmap(void* at, std::size_t) {
  if (dead()) return 0;
  auto& mapped = machine().process()->mapped;
  const auto of = mapped.find(at);
  if (of == mapped.end()) return machine().wrong("memory is given back that is not mapped"), fails_with(EINVAL);
  of->second.pop_back();
  if (of->second.empty()) mapped.erase(of);
  return 0;
}
int open(const char*, int) {
  if (machine().plants.no_spare_descriptor) return fails_with(EMFILE);
  return machine().add(std::make_shared<File>(File::Kind::null));
}
int pidfd_open(pid_t) { return fails_with(ENOSYS); }  // by a number, which may be another's by now
int poll(pollfd* all, nfds_t count, int ms) {
  const Ns until = machine().now() + (ms < 0 ? world::kForever : Ns(std::chrono::milliseconds(ms)));
  if (dead()) return 0;
  if (ms != 0) {
    machine().spend();
    if (machine().fails()) return fails_with(EINTR);
  }
  for (;;) {
    int found = 0;
    for (nfds_t i = 0; i < count; ++i) {
      const int fd = all[i].fd < 0 && machine().plants.listeners_never_rest ? listening() : all[i].fd;
      all[i].revents = fd < 0 ? short{0} : ready(fd, all[i].events);
      found += all[i].revents != 0;
    }
    if (found != 0 || machine().now() >= until) return found;
    machine().wait_for_files(all, count, until);
  }
}
int pthread_atfork(void (*)(), void (*)(), void (*in_child)()) {
  machine().process()->in_child.push_back(in_child);
  return 0;
}
ssize_t recv(int fd, void* to, std::size_t bytes, int flags) {
  machine().spend();
  const auto f = of_kind(fd, File::Kind::end);
  if (f == nullptr) return fails_with(EBADF);
  while (f->bytes.empty()) {
    if (f->over) return 0;
    if (!f->waits || (flags & MSG_DONTWAIT) != 0) return fails_with(EAGAIN);
    pollfd look{fd, POLLIN, 0};
    if (os::poll(&look, 1, 1000) == 0) return fails_with(EAGAIN);
  }
  const std::size_t n = std::min(bytes, f->bytes.size());
  take(*f, to, n);
  return static_cast<ssize_t>(n);
}
ssize_t recvmsg(int fd, msghdr* message, int) {
  machine().spend();
  const auto f = of_kind(fd, File::Kind::end);
  if (f == nullptr) return fails_with(EBADF);
  if (machine().fails()) return fails_with(EINTR);
  const std::size_t bytes = message->msg_iov->iov_len;
  for (const Ns until = machine().now() + f->receives_for; f->bytes.size() < bytes && !f->over;) {
    if (machine().now() >= until) return fails_with(EAGAIN);
    pollfd look{fd, POLLIN, 0};
    if (!f->bytes.empty()) machine().sleep_until(machine().now() + 10us);
    else machine().wait_for_files(&look, 1, until);
  }
  const std::size_t n = std::min(bytes, f->bytes.size());
  take(*f, message->msg_iov->iov_base, n);
  std::size_t room = 0;
  if (n != 0 && !f->passed.empty()) {
    const int made = machine().add(f->passed.front());
    f->passed.pop_front();
    if (made >= 0) {
      cmsghdr* header = CMSG_FIRSTHDR(message);
      header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof made);
      std::memcpy(CMSG_DATA(header), &made, sizeof made);
      room = CMSG_SPACE(sizeof made);
    }
  }
  message->msg_controllen = room;
  return static_cast<ssize_t>(n);
}
ssize_t send(int fd, const void* from, std::size_t bytes, int) {
  machine().spend();
  const auto f = of_kind(fd, File::Kind::end);
  if (f == nullptr) return fails_with(EBADF);
  const auto peer = f->peer.lock();
  if (peer == nullptr || f->over) return fails_with(EPIPE);
  if (machine().fails()) return fails_with(machine().random.one_in(2) ? EINTR : ENOBUFS);
  const std::size_t n = std::min(bytes, kRoom - std::min(kRoom, peer->bytes.size()));
  if (n == 0) return fails_with(EAGAIN);
  peer->bytes.append(static_cast<const char*>(from), n);
  machine().changed(*peer);
  return static_cast<ssize_t>(n);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const auto f = of_kind(fd, File::Kind::end);
  const auto peer = f != nullptr ? f->peer.lock() : nullptr;
  if (peer != nullptr && !f->over && message->msg_control != nullptr) {
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(message)), sizeof passed);
    peer->passed.push_back(machine().file(passed));
    f->welcomed = true;
    ++machine().count("joined");
  }
  return send(fd, message->msg_iov->iov_base, message->msg_iov->iov_len, flags);
}
int setsockopt(int fd, int, int, const void* value, socklen_t) {
  const auto f = machine().file(fd);
  if (f == nullptr) return fails_with(EBADF);
  timeval limit{};
  std::memcpy(&limit, value, sizeof limit);
  f->receives_for = std::chrono::seconds(limit.tv_sec) + std::chrono::microseconds(limit.tv_usec);
  return 0;
}
int shutdown(int fd, int) {
  const auto f = of_kind(fd, File::Kind::end);
  if (f == nullptr) return fails_with(EBADF);
  f->over = true;
  machine().changed(*f);
  if (const auto peer = f->peer.lock()) {
    peer->over = true;
    machine().changed(*peer);
  }
  return 0;
}
int socket(int, int, int) {
  machine().spend();
  return machine().fails() ? fails_with(EMFILE) : machine().add(std::make_shared<File>(File::Kind::fresh));
}
int unlink(const char*) { return 0; }
ssize_t write(int fd, const void* from, std::size_t bytes) {
  if (fd == 2) complain(std::string(static_cast<const char*>(from), bytes).c_str());
  return static_cast<ssize_t>(bytes);
}

void start_thread(std::function<void()> run) {
  if (!machine().plants.nobody_watches) machine().start_thread(std::move(run));
}

void sleep_for(Clock::duration how_long) { machine().sleep_until(machine().now() + how_long); }
void yield() { machine().look_in_vain(); }
void pause() { machine().sleep_until(machine().now() + machine().random.between(1us, 200us)); }
void wait_for_change(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds at_most) {
  machine().spend();
  if (word.load() == value) machine().wait_on(&word, machine().now() + at_most);
}
void wake_all(std::atomic<std::uint32_t>& word) {
  machine().spend();
  machine().wake(&word);
}
void complain(const char* text) {
  std::string line(text);
  for (const char* what : {"steered again", "stands still", "has ended; this", "is let go", "has not ended for", "is refused", "connections are closed", "more than 4095 kernels"})
    if (line.find(what) != std::string::npos) ++machine().count(what);
  if (!machine().tells()) return;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  machine().tell("says: " + line);
}

}  // namespace corun::live::os
