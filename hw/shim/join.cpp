#include "hw/shim/join.h"

#include <cuda.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "hw/live/limits.h"
#include "hw/live/system.h"
#include "hw/shim/driver.h"

namespace corun::live {
namespace {

using namespace std::chrono_literals;
using Clock = os::Clock;

struct Joining {
  std::atomic<int> socket{-1};
};
std::atomic<int>& joining() { return os::of_process<Joining>().socket; }

void limit(int socket, int what, Clock::duration left) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(std::max<Clock::duration>(left, 1ms)).count();
  const timeval time{us / 1'000'000, us % 1'000'000};
  os::setsockopt(socket, SOL_SOCKET, what, &time, sizeof time);
}

/// Calls until it is not a signal that ended the call, or the time is over.
template <class Call>
auto within(int socket, int what, Clock::time_point until, Call call) {
  for (;;) {
    limit(socket, what, until - Clock::now());
    const auto result = call();
    if (result >= 0 || errno != EINTR || Clock::now() >= until) return result;
  }
}

/// The memory that comes with the service's welcome; null: none, and errno is 0 where the service has answered.
Memory* received(int socket, Welcome& welcome, Clock::time_point until) {
  iovec part{&welcome, sizeof welcome};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  const ssize_t n = within(socket, SO_RCVTIMEO, until, [&] { return os::recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC); });
  if (n >= 0 && n != static_cast<ssize_t>(sizeof welcome)) errno = n == 0 ? ECONNRESET : EPROTO;
  const cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  int fd = -1;
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof fd))
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  if (n != static_cast<ssize_t>(sizeof welcome) || welcome.accepted == 0 || fd < 0) {
    if (n == static_cast<ssize_t>(sizeof welcome)) errno = 0;
    const int why = errno;
    if (fd >= 0) os::close(fd);
    return errno = why, nullptr;
  }
  struct stat is{};
  void* memory = os::fstat(fd, &is) == 0 && is.st_size >= static_cast<off_t>(sizeof(Memory))
                     ? os::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                     : MAP_FAILED;
  os::close(fd);
  if (memory == MAP_FAILED) return errno = EPROTO, nullptr;
  return static_cast<Memory*>(memory);
}

void add_gpus(Hello& hello) {
  const auto count = driver<CUresult (*)(int*)>("cuDeviceGetCount");
  const auto place = driver<CUresult (*)(char*, int, CUdevice)>("cuDeviceGetPCIBusId");
  int n = 0;
  if (count == nullptr || place == nullptr || count(&n) != CUDA_SUCCESS) return;
  for (int i = 0; i < std::min<int>(n, kGpus); ++i)
    if (place(hello.gpu[i], kBusBytes, i) == CUDA_SUCCESS) hello.gpus = static_cast<std::uint32_t>(i) + 1;
}

Hello introduction() {
  Hello hello;
  const auto text = [](const char* name) { return os::getenv(name) != nullptr ? os::getenv(name) : ""; };
  std::strncpy(hello.name, text("CORUN_NAME"), sizeof hello.name - 1);
  hello.real_time = std::strcmp(text("CORUN_CLASS"), "real_time") == 0;
  hello.priority = std::atoi(text("CORUN_PRIORITY"));
  hello.quota = std::strtod(text("CORUN_QUOTA"), nullptr), hello.reservation = std::strtod(text("CORUN_RESERVATION"), nullptr);
  hello.slo_us = std::strtoull(text("CORUN_SLO_US"), nullptr, 10);
  add_gpus(hello);
  return hello;
}

}  // namespace

bool sees_one_gpu() {
  const auto count = driver<CUresult (*)(int*)>("cuDeviceGetCount");
  int n = 1;
  return count == nullptr || count(&n) != CUDA_SUCCESS || n <= 1;
}

const char* service_of_environment() {
  const char* path = os::getenv(kSocketVariable);
  return path != nullptr && *path != '\0' ? path : nullptr;
}

Joined join(const char* path) {
  Joined joined;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return joined.why = std::string("the socket's path is too long: ") + path, joined;
  std::strcpy(address.sun_path, path);
  const int fd = os::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  joining().store(fd);
  const auto until = Clock::now() + limits::kFirstAnswer;
  const auto fails = [&](std::string why) {
    joined.why = std::move(why);
    joining().store(-1);
    if (fd >= 0) os::close(fd);
    return joined;
  };
  const auto late = [&] { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; };
  const std::string silent = "the service does not answer";
  if (within(fd, SO_SNDTIMEO, until, [&] { return os::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address); }) != 0)
    return fails(late() ? silent : std::string("there is no service: ") + path);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (os::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != os::geteuid()) return fails("the service is another user's");
  const Hello hello = introduction();
  Welcome welcome;
  errno = 0;
  if (within(fd, SO_SNDTIMEO, until, [&] { return os::send(fd, &hello, sizeof hello, MSG_NOSIGNAL); }) != static_cast<ssize_t>(sizeof hello))
    return fails(late() ? silent : "the service has ended");
  joined.memory = received(fd, welcome, until);
  if (joined.memory == nullptr) {
    if (late()) return fails(silent);
    welcome.reason[sizeof welcome.reason - 1] = '\0';
    return fails(std::string("the service refused") + (welcome.reason[0] != '\0' ? ": " : "") + welcome.reason);
  }
  joined.socket = fd;
  joined.device = welcome.device;
  joining().store(-1);
  return joined;
}

void close_what_joins() {
  if (const int fd = joining().exchange(-1); fd >= 0) os::close(fd);
}

}  // namespace corun::live
