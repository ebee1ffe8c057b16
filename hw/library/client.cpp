#include "hw/library/client.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hw/library/driver.h"

namespace corun::live {
namespace {

std::atomic<Client*> steered{nullptr};

constexpr std::uint64_t kSpins = 20000;  // a millisecond or so: to be woken takes 50 us, a tenth of a short request
constexpr long kLookNs = 20'000'000;    // how often one that sleeps looks whether the service is there

void say(const char* problem, const char* more = "") {
  std::fprintf(stderr, "corun: %s%s%s; this program is not steered\n", problem, *more != '\0' ? ": " : "", more);
}

/// The memory that came with the service's welcome.
Memory* received(int socket, Welcome& welcome) {
  iovec part{&welcome, sizeof welcome};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof welcome)) return nullptr;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (welcome.accepted == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS) return nullptr;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  void* memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Memory*>(memory);
}

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec limit{0, kLookNs};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr, 0);
}

}  // namespace

Client* Client::get() { return steered.load(std::memory_order_acquire); }

void Client::connect() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* path = std::getenv(kSocketVariable);
    if (path == nullptr || *path == '\0') return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path) return say("the socket's path is too long", path);
    std::strcpy(address.sun_path, path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      say("there is no service", path);
      close(fd);
      return;
    }
    Hello hello;
    const auto text = [](const char* name) { return std::getenv(name) != nullptr ? std::getenv(name) : ""; };
    std::strncpy(hello.name, text("CORUN_NAME"), sizeof hello.name - 1);
    hello.real_time = std::strcmp(text("CORUN_CLASS"), "real_time") == 0;
    hello.priority = std::atoi(text("CORUN_PRIORITY"));
    Welcome welcome;
    Memory* memory = nullptr;
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello)) memory = received(fd, welcome);
    if (memory == nullptr) {
      welcome.reason[sizeof welcome.reason - 1] = '\0';
      say("the service refused", welcome.reason);
      close(fd);
      return;
    }
    steered.store(new Client(fd, memory), std::memory_order_release);  // lives as long as the program
    pthread_atfork(nullptr, nullptr, [] { steered.store(nullptr, std::memory_order_release); });
  });
}

Client::Client(int socket, Memory* memory) : socket_(socket), memory_(memory) {}

/// A number is not given to another stream: launches may still run when theirs is destroyed.  A stream that the driver makes
/// later at the same address goes on with it.
Client::Stream* Client::stream(const StreamKey& key) {
  thread_local StreamKey last;
  thread_local Stream* known = nullptr;
  if (known != nullptr && last == key) return known;
  const std::scoped_lock lock(tables_);
  auto& of_handle = streams_[key.stream];
  const auto [at, added] = of_handle.try_emplace(key.thread, nullptr);
  if (added && used_ < kStreams) {
    at->second = &numbered_[used_];
    at->second->index = used_++;
  }
  last = key, known = at->second;
  return known;
}

Mailbox& Client::box(std::unique_lock<std::mutex>& shared) {
  thread_local std::uint32_t mine = kMailboxes;
  if (mine == kMailboxes) mine = std::min(threads_.fetch_add(1), kMailboxes - 1);
  if (mine == kMailboxes - 1) shared = std::unique_lock(last_box_);
  return memory_->boxes[mine];
}

/// Hands the filled mailbox to the service.
void Client::post(Mailbox& box) {
  box.state.store(Mailbox::filled, std::memory_order_release);
  memory_->doorbell.fetch_or(std::uint64_t{1} << (&box - memory_->boxes));  // seq_cst: before the look whether it sleeps
  if (memory_->service_sleeps.load() != 0) {
    const char ring = 1;
    (void)send(socket_, &ring, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

bool Client::service_is_gone() {
  pollfd look{socket_, POLLRDHUP, 0};
  if (poll(&look, 1, 0) == 0) return false;
  if (steered.exchange(nullptr) != nullptr) say("the service has ended");
  return true;
}

const Terms& Client::standing() const {
  thread_local Terms known;
  thread_local std::uint32_t known_version = 0;
  for (;;) {
    const std::uint32_t version = memory_->version.load(std::memory_order_acquire);
    if (version == known_version) return known;
    Terms read;
    read.priority = memory_->priority.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < read.tpcs.size(); ++i) read.tpcs[i] = memory_->tpcs[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 != 0 || memory_->version.load(std::memory_order_relaxed) != version) continue;
    known = read, known_version = version;
  }
}

Terms Client::ask(Stream& stream, const Work& work) {
  std::unique_lock<std::mutex> shared;
  Mailbox& mine = box(shared);
  for (std::uint32_t state; (state = mine.state.load(std::memory_order_acquire)) != Mailbox::empty;)
    if (service_is_gone()) return {};  // what was said before has yet to be read
  const auto begin = std::chrono::steady_clock::now();
  mine.said = Said::launch;
  mine.stream = stream.index;
  mine.number = ++stream.launched;
  mine.kernel = number_of(work);
  std::memcpy(mine.grid, work.grid, sizeof mine.grid);
  std::memcpy(mine.block, work.block, sizeof mine.block);
  mine.shared_bytes = work.shared_bytes;
  post(mine);
  std::uint64_t spins = 0;
  while (mine.state.load(std::memory_order_acquire) != Mailbox::granted) {
    if (++spins < kSpins) {
      __builtin_ia32_pause();
    } else {
      std::uint32_t filled = Mailbox::filled;
      mine.state.compare_exchange_strong(filled, Mailbox::asleep);
      sleep_while(mine.state, Mailbox::asleep);
      if (mine.state.load(std::memory_order_acquire) != Mailbox::granted && service_is_gone()) return {};
    }
  }
  const Terms terms = mine.terms;
  mine.state.store(Mailbox::empty, std::memory_order_release);
  const auto waited = std::chrono::steady_clock::now() - begin;
  memory_->held_ns.fetch_add(static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count()), std::memory_order_relaxed);
  return terms;
}

CUdeviceptr Client::ended(const Stream& stream) {
  std::call_once(mapped_, [&] {
    using Register = CUresult (*)(void*, size_t, unsigned);
    using Address = CUresult (*)(CUdeviceptr*, void*, unsigned);
    const auto add = driver<Register>("cuMemHostRegister_v2");
    const auto address = driver<Address>("cuMemHostGetDevicePointer_v2");
    if (add == nullptr || address == nullptr ||
        add(memory_->ended, sizeof memory_->ended, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS ||
        address(&on_device_, memory_->ended, 0) != CUDA_SUCCESS) {
      on_device_ = 0;
      say("the GPU cannot write into the service's memory");
      steered.store(nullptr);
      shutdown(socket_, SHUT_RDWR);
    }
  });
  return on_device_ == 0 ? 0 : on_device_ + stream.index * sizeof(std::uint32_t);
}

void Client::failed(const Stream& stream) {
  std::unique_lock<std::mutex> shared;
  Mailbox& mine = box(shared);
  while (mine.state.load(std::memory_order_acquire) != Mailbox::empty)
    if (service_is_gone()) return;
  mine.said = Said::failed;
  mine.stream = stream.index;
  mine.number = stream.launched;
  post(mine);
}

void Client::waits() {
  std::unique_lock<std::mutex> shared;
  Mailbox& mine = box(shared);
  if (mine.state.load(std::memory_order_acquire) != Mailbox::empty) return;  // it has just said so
  mine.said = Said::waits;
  post(mine);
}

std::uint32_t Client::number_of(const Work& work) {
  thread_local const void* last = nullptr;
  thread_local std::uint32_t known = 0;
  if (last == work.key) return known;
  const std::scoped_lock lock(tables_);
  const auto next = std::min<std::uint32_t>(static_cast<std::uint32_t>(kernels_.size()), kKernels - 1);
  const auto [at, added] = kernels_.try_emplace(work.key, next);
  last = work.key, known = at->second;
  if (!added) return known;
  KernelEntry& entry = memory_->kernels[known];
  if (entry.written.load() != 0) return known;
  if (work.graph) {
    entry.is_graph = 1;
    std::snprintf(entry.name, sizeof entry.name, "graph %u", known);
  } else {
    const auto function = static_cast<CUfunction>(const_cast<void*>(work.key));
    using Name = CUresult (*)(const char**, CUfunction);
    using Attribute = CUresult (*)(int*, CUfunction_attribute, CUfunction);
    const char* name = nullptr;
    int registers = 0, shared = 0;
    if (const auto name_of = driver<Name>("cuFuncGetName")) name_of(&name, function);
    if (const auto attribute = driver<Attribute>("cuFuncGetAttribute")) {
      attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
      attribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    }
    entry.registers = static_cast<std::uint32_t>(registers), entry.static_shared_bytes = static_cast<std::uint32_t>(shared);
    std::strncpy(entry.name, name != nullptr ? name : "?", sizeof entry.name - 1);
  }
  entry.written.store(1, std::memory_order_release);
  return known;
}

}  // namespace corun::live
