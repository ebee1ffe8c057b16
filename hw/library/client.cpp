#include "hw/library/client.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "hw/library/blocks.h"
#include "hw/library/driver.h"
#include "hw/library/leave.h"
#include "hw/library/uncaptured.h"

namespace corun::live {
namespace {

std::atomic<Client*> steered{nullptr};

constexpr std::uint64_t kSpins = 20000;    // a millisecond or so: to be woken takes 50 us, a tenth of a short request
constexpr long kSleepNs = 20'000'000;      // how often one that sleeps looks whether the service is there
constexpr std::int64_t kLookNs = 2'000;    // for the grant of a launch that is next; twice a round trip

void warn(const char* problem, const char* more = "") {
  std::fprintf(stderr, "corun: %s%s%s; this program is not steered\n", problem, *more != '\0' ? ": " : "", more);
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
  const timespec limit{0, kSleepNs};
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
    if (std::strlen(path) >= sizeof address.sun_path) return warn("the socket's path is too long", path);
    std::strcpy(address.sun_path, path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      warn("there is no service", path);
      close(fd);
      return;
    }
    Hello hello;
    const auto text = [](const char* name) { return std::getenv(name) != nullptr ? std::getenv(name) : ""; };
    std::strncpy(hello.name, text("CORUN_NAME"), sizeof hello.name - 1);
    hello.real_time = std::strcmp(text("CORUN_CLASS"), "real_time") == 0;
    hello.priority = std::atoi(text("CORUN_PRIORITY"));
    hello.quota = std::strtod(text("CORUN_QUOTA"), nullptr), hello.reservation = std::strtod(text("CORUN_RESERVATION"), nullptr);
    hello.slo_us = std::strtoull(text("CORUN_SLO_US"), nullptr, 10);
    Welcome welcome;
    Memory* memory = nullptr;
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello)) memory = received(fd, welcome);
    if (memory == nullptr) {
      welcome.reason[sizeof welcome.reason - 1] = '\0';
      warn("the service refused", welcome.reason);
      close(fd);
      return;
    }
    joined_a_service();
    auto* client = new Client(fd, memory);  // lives as long as the program
    steered.store(client, std::memory_order_release);
    Blocks::begin(*client, *memory);
    pthread_atfork(nullptr, nullptr, [] {
      steered.store(nullptr, std::memory_order_release);
      Blocks::end();
    });
  });
}

Client::Client(int socket, Memory* memory) : socket_(socket), memory_(memory) {
  if (in_flight() == 0) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are not this thread's
  std::thread([this] { watch(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// What waits on the GPU when the service has ended goes on.
void Client::watch() {
  pollfd look{socket_, POLLRDHUP, 0};
  while (poll(&look, 1, -1) < 0 && errno == EINTR) {
  }
  service_is_gone();
  // No attempt is stopped any more.  One that has been is the last that the GPU says anything of before it goes on.
  const auto let_go = [&] {
    for (auto& order : memory_->words.orders) order.store(0);
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      memory_->words.granted[i].store(numbered_[i].launched);
      memory_->words.resumed[i].store(attempt_of(numbered_[i].launched, kAllAttempts));
    }
  };
  // A thread that is in the driver, which may wait for what waits, ends there; whoever comes later finds no service.
  std::unique_lock<std::mutex> lock(order_, std::defer_lock);
  do let_go();
  while (!lock.try_lock() && (usleep(1000), true));
  let_go();
}

/// A number is not given to another stream while launches may still run when theirs is destroyed.  Where none can be stopped, a
/// stream that the driver makes later at the same address goes on with it.
Client::Stream* Client::stream(const StreamKey& key) {
  thread_local StreamKey last;
  thread_local Stream* known = nullptr;
  thread_local std::uint32_t known_since = 0;
  const std::uint32_t since = destroyed_.load(std::memory_order_acquire);
  if (known != nullptr && last == key && known_since == since) return known;
  const std::scoped_lock lock(tables_);
  auto& of_handle = streams_[key.stream];
  const auto [at, added] = of_handle.try_emplace(key.thread, nullptr);
  if (added && used_ < kStreams) {
    at->second = &numbered_[used_];
    at->second->index = used_++;
  } else if (added) {
    const auto over = std::ranges::find_if(retired_, [&](std::uint32_t i) {
      return memory_->words.ended[i].load(std::memory_order_acquire) == numbered_[i].launched;
    });
    if (over != retired_.end()) at->second = &numbered_[*over], retired_.erase(over);
  }
  last = key, known = at->second, known_since = since;
  return known;
}

void Client::destroyed(CUstream stream) {
  const std::scoped_lock lock(tables_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  for (const auto& [thread, of] : at->second)
    if (of != nullptr) retired_.push_back(of->index);
  streams_.erase(at);
  destroyed_.fetch_add(1, std::memory_order_release);
}

/// False: nobody hears it any more.
bool Client::say(const Saying& saying) {
  const std::scoped_lock lock(saying_);
  const std::uint32_t said = memory_->said.load(std::memory_order_relaxed);
  for (std::uint64_t spins = 1; said - memory_->heard.load(std::memory_order_acquire) >= kSayings; ++spins) {
    __builtin_ia32_pause();
    if (spins % kSpins == 0 && service_is_gone()) return false;
  }
  memory_->sayings[said % kSayings] = saying;
  memory_->said.store(said + 1);  // seq_cst: before the look whether it sleeps
  if (memory_->service_sleeps.load() != 0) {
    const char ring = 1;
    (void)send(socket_, &ring, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return true;
}

bool Client::service_is_gone() {
  pollfd look{socket_, POLLRDHUP, 0};
  if (poll(&look, 1, 0) == 0) return false;
  if (steered.exchange(nullptr) != nullptr) warn("the service has ended");
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

void Client::has_groups(std::span<const std::uint32_t> tpcs_of_group) {
  const std::size_t count = std::min<std::size_t>(tpcs_of_group.size(), kSms);
  for (std::size_t g = 0; g < count; ++g) memory_->tpcs_of_group[g].store(static_cast<std::uint16_t>(tpcs_of_group[g]), std::memory_order_relaxed);
  memory_->groups.store(static_cast<std::uint32_t>(count), std::memory_order_release);
}

bool Client::has_grant(const Stream& stream, std::uint32_t number) const {
  return reached(memory_->words.granted[stream.index].load(std::memory_order_acquire), number);
}

bool Client::ask(Stream& stream, const Work& work, std::uint32_t attempts) {
  const std::uint32_t number = ++stream.launched, ahead = in_flight();
  if (!say({Saying::What::launch, stream.index, number, number_of(work), attempts})) return true;
  if (ahead == 0 || !has_grant(stream, number - ahead)) wait_until_granted(stream, number - ahead);
  if (ahead == 0 || has_grant(stream, number)) return true;
  // Where it is next its grant may be on its way: to look costs the host less than the GPU's wait costs the GPU.
  const std::int64_t until = has_grant(stream, number - 1) ? now_ns() + kLookNs : 0;
  while (now_ns() < until)
    if (has_grant(stream, number)) return true;
  memory_->queued.fetch_add(1, std::memory_order_relaxed);
  return Client::get() == nullptr;
}

void Client::wait_for_grant(Stream& stream) { wait_until_granted(stream, stream.launched); }

void Client::wait_until_granted(const Stream& stream, std::uint32_t number) {
  const std::int64_t begin = now_ns();
  std::atomic<std::uint32_t>& word = memory_->words.granted[stream.index];
  for (std::uint64_t spins = 0; !has_grant(stream, number); ++spins) {
    if (spins < kSpins) {
      __builtin_ia32_pause();
      continue;
    }
    memory_->sleeps[stream.index].store(1);  // seq_cst: before the look whether it is granted
    const std::uint32_t seen = word.load();
    if (!reached(seen, number)) sleep_while(word, seen);
    if (!has_grant(stream, number) && service_is_gone()) return;
  }
  memory_->sleeps[stream.index].store(0);
  memory_->held_ns.fetch_add(static_cast<std::uint64_t>(now_ns() - begin), std::memory_order_relaxed);
}

Terms Client::terms(const Stream& stream) const {
  if (Client::get() == nullptr) return {};
  return in_flight() != 0 ? standing() : memory_->terms[stream.index];
}

CUdeviceptr Client::ended(const Stream& stream) {
  std::call_once(mapped_, [&] {
    const Uncaptured now;
    using Register = CUresult (*)(void*, size_t, unsigned);
    using Address = CUresult (*)(CUdeviceptr*, void*, unsigned);
    const auto add = driver<Register>("cuMemHostRegister_v2");
    const auto address = driver<Address>("cuMemHostGetDevicePointer_v2");
    if (add == nullptr || address == nullptr ||
        add(&memory_->words, sizeof memory_->words, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS ||
        address(&on_device_, &memory_->words, 0) != CUDA_SUCCESS) {
      on_device_ = 0;
      warn("the GPU cannot write into the service's memory");
      steered.store(nullptr);
      shutdown(socket_, SHUT_RDWR);
    }
  });
  return on_device_ == 0 ? 0 : on_device_ + stream.index * sizeof(std::uint32_t);
}

CUdeviceptr Client::granted(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, granted) + stream.index * sizeof(std::uint32_t);
}

CUdeviceptr Client::resumed(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, resumed) + stream.index * sizeof(std::uint32_t);
}
CUdeviceptr Client::orders(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, orders) + stream.index * sizeof(std::uint64_t);
}
CUdeviceptr Client::report(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, reports) + stream.index * sizeof(Memory::Words::reports[0]);
}

CUdeviceptr Client::quotas(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, quotas) + stream.index * sizeof(Memory::Words::quotas[0]);
}

void Client::failed(const Stream& stream) { say({Saying::What::failed, stream.index, stream.launched, 0, 0}); }

void Client::waits() { say({Saying::What::waits, 0, 0, 0, 0}); }

std::size_t Client::Hash::operator()(const Work& work) const {
  std::size_t hash = reinterpret_cast<std::size_t>(work.key) ^ work.shared_bytes;
  for (const std::uint32_t* n : {work.grid, work.block})
    for (int i = 0; i < 3; ++i) hash = hash * 0x9E3779B97F4A7C15u + n[i];
  return hash;
}

std::uint32_t Client::number_of(const Work& work) {
  thread_local Work last;
  thread_local std::uint32_t known = 0;
  if (last == work) return known;
  const std::scoped_lock lock(tables_);
  const auto next = std::min<std::uint32_t>(static_cast<std::uint32_t>(kernels_.size()), kKernels - 1);
  const auto [at, added] = kernels_.try_emplace(work, next);
  last = work, known = at->second;
  if (!added || kernels_.size() > kKernels) return known;
  KernelEntry& entry = memory_->kernels[known];
  std::memcpy(entry.grid, work.grid, sizeof entry.grid);
  std::memcpy(entry.block, work.block, sizeof entry.block);
  entry.shared_bytes = work.shared_bytes;
  if (work.graph) {
    std::snprintf(entry.name, sizeof entry.name, "graph %u", known);
  } else {
    const Uncaptured now;  // the driver may load the kernel
    auto function = static_cast<CUfunction>(const_cast<void*>(work.key));
    using Name = CUresult (*)(const char**, CUfunction);
    using Attribute = CUresult (*)(int*, CUfunction_attribute, CUfunction);
    const char* name = nullptr;
    int registers = 0, shared = 0;
    const auto attribute = driver<Attribute>("cuFuncGetAttribute");
    // A kernel of a library, as the runtime launches them, has no attributes of a function.
    if (attribute != nullptr && attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function) != CUDA_SUCCESS)
      if (const auto of = driver<CUresult (*)(CUfunction*, CUkernel)>("cuKernelGetFunction")) {
        CUfunction its = nullptr;
        if (of(&its, reinterpret_cast<CUkernel>(function)) == CUDA_SUCCESS) function = its;
      }
    if (const auto name_of = driver<Name>("cuFuncGetName")) name_of(&name, function);
    if (attribute != nullptr) {
      attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
      attribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    }
    entry.registers = static_cast<std::uint32_t>(registers), entry.static_shared_bytes = static_cast<std::uint32_t>(shared);
    std::strncpy(entry.name, name != nullptr ? name : "?", sizeof entry.name - 1);
  }
  return known;
}

}  // namespace corun::live
