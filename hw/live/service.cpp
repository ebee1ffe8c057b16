#include "hw/live/service.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>

#include "hw/live/cards.h"
#include "hw/live/limits.h"
#include "hw/live/system.h"
#include "hw/live/untrusted.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

constexpr std::size_t kSamples = 4096;
constexpr Time kSleepAfter = std::chrono::milliseconds(2);  // without anything to do
constexpr Time kLookAtSockets = std::chrono::milliseconds(1);
constexpr int kSleepMs = 100;
constexpr int kBacklog = 64;
constexpr unsigned kCoresToSpare = 4;  // with fewer, whoever looks all the time keeps programs waiting: it yields after each look in vain

std::int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(os::Clock::now().time_since_epoch()).count();
}

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path)
    throw InputError(path.string(), "--at", "is too long a path for a socket", "name a folder with a shorter one");
  std::strcpy(address.sun_path, path.c_str());
  return address;
}

Tpcs words_of(const std::optional<TpcMask>& mask) {
  Tpcs words{};
  for (std::uint32_t t = 0; mask && t < kMaxTpcs; ++t)
    if (mask->allows(TpcId{t})) words[t / 64] |= std::uint64_t{1} << (t % 64);
  return words;
}

/// Readable when the process at the other end has ended, whoever else has the socket by then; -1: it is not to be had.
int process_of(int socket, pid_t pid) {
#ifndef SO_PEERPIDFD
  constexpr int SO_PEERPIDFD = 77;  // since Linux 6.5
#endif
  int fd = -1;
  socklen_t size = sizeof fd;
  if (os::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return fd;
  return pid > 0 ? os::pidfd_open(pid) : -1;  // 0: of processes that are not seen from here
}

/// A page of zeros that nobody can make shorter or longer; -1: there is none.
int sealed_page() {
  const int fd = os::memfd_create("corun", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (os::ftruncate(fd, sizeof(Memory)) == 0 && os::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) return fd;
  os::close(fd);
  return -1;
}

/// Of a program's GPUs, by its number there; none: it does not see it.
std::optional<std::uint32_t> device_of(const Hello& hello, const std::string& bus) {
  if (bus.empty() || hello.gpus == 0) return 0;  // one of the two does not say
  for (std::uint32_t i = 0; i < std::min(hello.gpus, kGpus); ++i)
    if (same_place(text_of(hello.gpu[i], kBusBytes), bus)) return i;
  return {};
}

/// False: it could not be sent as a whole.
bool send_with_memory(int socket, const Welcome& welcome, int memory) {
  iovec part{const_cast<Welcome*>(&welcome), sizeof welcome};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  if (memory >= 0) {
    message.msg_control = control, message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof memory);
    std::memcpy(CMSG_DATA(header), &memory, sizeof memory);
  }
  ssize_t n = -1;
  do n = os::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof welcome);
}

}  // namespace

Service::Service(const std::string& policy, const Gpu& gpu, const std::filesystem::path& folder, BooksOptions options)
    : policy_(policy), persistent_(options.persistent), books_(policy, gpu, std::move(options)), folder_(Folder::of_service(folder)),
      began_ns_(clock_ns()) {
  (void)address_of(folder_.path() / "socket");  // by which programs come
  const std::string socket_file = folder_.opened("socket");
  const sockaddr_un address = address_of(socket_file);
  listener_ = os::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ >= 0) os::unlink(address.sun_path);  // of one that was killed
  if (listener_ < 0 || os::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || os::listen(listener_, kBacklog) != 0) {
    const std::string why = std::strerror(errno);
    if (listener_ >= 0) os::close(listener_);
    throw InputError((folder_.path() / "socket").string(), "--at", why, "name a folder where sockets can be made");
  }
  spare_ = os::open("/dev/null", O_RDONLY | O_CLOEXEC);
  decision_ns_.reserve(kSamples);
}

Service::~Service() {
  for (const auto& c : connections_) close(*c);
  os::close(listener_);
  if (spare_ >= 0) os::close(spare_);
}

void Service::invite(const std::vector<std::string>& environment) {
  std::vector<std::pair<std::string, std::string>> all{{kSocketVariable, "socket"}};
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    all.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  folder_.invite(all);
}

std::size_t Service::programs() const {
  return static_cast<std::size_t>(std::ranges::count_if(connections_, [](const auto& c) { return c->memory != nullptr; }));
}

Time Service::now() const { return std::chrono::nanoseconds(clock_ns() - began_ns_); }

void Service::run(const std::function<bool()>& stop, const std::function<void(const std::string&)>& tick) {
  Time busy = now(), sockets{}, told = now();
  const bool few_cores = os::cores() < kCoresToSpare;
  while (!stop()) {
    // A round of looking takes 100 ns, and asking whether to stop is a read.
    // What was said, before what the GPU has done: a host that waited for it asks for its next launch afterwards.
    const bool said = look_at_messages();
    const bool done = look_at_gpu();
    if (books_.foretold()) books_.hear_forecast();
    if (done) decide();
    if (said) hear_all();
    const Time at = now();
    if (said || books_.next_wish() <= at) decide();
    if (said || done) busy = at;
    if (at >= sockets) {
      look_at_sockets(0);
      sockets = at + kLookAtSockets;
    }
    if (at - told >= std::chrono::seconds(1) || std::exchange(tick_is_due_, false)) {
      told = at;
      tick(state());
    }
    if (!books_.idle() || at - busy < kSleepAfter) {
      if (few_cores && !said && !done) os::yield();
      continue;
    }
    for (const auto& c : connections_)
      if (c->memory != nullptr) c->memory->service_sleeps.store(1);
    const bool meanwhile = std::ranges::any_of(
        connections_, [](const auto& c) { return c->memory != nullptr && c->memory->said.load() != c->heard; });
    if (!meanwhile) look_at_sockets(kSleepMs);
    for (const auto& c : connections_)
      if (c->memory != nullptr) c->memory->service_sleeps.store(0);
  }
}

void Service::look_at_sockets(int timeout_ms) {
  for (const auto& c : connections_)
    if (c->memory != nullptr) c->memory->beat.fetch_add(1, std::memory_order_relaxed);
  look_at_deadlines();
  std::vector<pollfd> look{{now() >= accepts_at_ ? listener_ : -1, POLLIN, 0}};
  for (const auto& c : connections_) {
    look.push_back({c->socket, static_cast<short>(c->unsent.empty() ? POLLIN | POLLRDHUP : POLLOUT), 0});
    if (c->process >= 0) look.push_back({c->process, POLLIN, 0});  // poll refuses more entries than there may be descriptors
  }
  if (watched_ >= 0) look.push_back({watched_, POLLIN, 0});
  if (os::poll(look.data(), look.size(), timeout_ms) <= 0) return;
  for (std::size_t i = 0, next = 1; i < connections_.size(); ++i) {
    Connection& c = *connections_[i];
    const short at = look[next++].revents;
    const bool ended = c.process >= 0 && look[next++].revents != 0;
    if ((at & (POLLRDHUP | POLLHUP | POLLERR)) != 0 || ended) {
      close(c);
    } else if ((at & POLLOUT) != 0) {
      send_state(c);
    } else if ((at & POLLIN) != 0) {
      if (c.memory == nullptr)
        greet(c);
      else if (char rings[64]; os::recv(c.socket, rings, sizeof rings, MSG_DONTWAIT) == 0)
        close(c);
    }
  }
  std::erase_if(connections_, [](const auto& c) { return c->socket < 0; });
  if ((look[0].revents & POLLIN) != 0) accept_one();
  if (watched_ >= 0 && (look.back().revents & POLLIN) != 0) watched_ = -1, tick_is_due_ = true;
}

/// Who has said nothing, or does not take what it asked for, is not waited for.
void Service::look_at_deadlines() {
  const Time at = now();
  for (const auto& c : connections_)
    if (c->memory == nullptr && at - c->since > (c->unsent.empty() ? Time{limits::kHello} : Time{limits::kStateTaken})) {
      say(Level::notice, "a connection is closed: it says nothing, or does not take what it asked for");
      close(*c);
    }
  std::erase_if(connections_, [](const auto& c) { return c->socket < 0; });
}

void Service::accept_one() {
  if (connections_.size() >= limits::kConnections) return refuse_waiting();
  const int fd = os::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE) return refuse_waiting();
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) accepts_at_ = now() + limits::kAcceptAgain;
    return;
  }
  connections_.push_back(std::make_unique<Connection>());
  connections_.back()->socket = fd;
  connections_.back()->since = now();
}

/// Takes those who wait and closes them: who stayed would be seen again at each look.
void Service::refuse_waiting() {
  if (spare_ >= 0) os::close(spare_);
  for (int n = 0; n < kBacklog; ++n) {
    const int fd = os::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) break;
    os::close(fd);
  }
  spare_ = os::open("/dev/null", O_RDONLY | O_CLOEXEC);
  say(Level::warning, fmt::format("connections are closed: {} are open, and there is no room for more", connections_.size()));
  accepts_at_ = now() + limits::kAcceptAgain;
}

void Service::refuse(Connection& c, const std::string& why, std::int32_t pid) {
  say(Level::notice, fmt::format("pid {} is refused: {}", pid, why));
  Welcome welcome;
  std::strncpy(welcome.reason, why.c_str(), sizeof welcome.reason - 1);
  (void)send_with_memory(c.socket, welcome, -1);
  close(c);
}

void Service::greet(Connection& c) {
  Hello hello;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (os::getsockopt(c.socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != os::geteuid())
    return refuse(c, "it is another user's", peer.pid);
  const ssize_t said = os::recv(c.socket, &hello, sizeof hello, MSG_DONTWAIT);
  // The version before all else: another one's words are of another length.
  if (said >= static_cast<ssize_t>(offsetof(Hello, version) + sizeof hello.version) && hello.version != kVersion)
    return refuse(c, "it is of another version", peer.pid);
  if (said != static_cast<ssize_t>(sizeof hello)) return refuse(c, "it was not understood", peer.pid);
  if (hello.wish == Hello::Wish::state) {
    c.unsent = state();
    c.since = now();
    return send_state(c);
  }
  if (hello.wish != Hello::Wish::steer) return refuse(c, "it was not understood", peer.pid);
  if (programs() >= limits::kPrograms) return refuse(c, fmt::format("{} programs are there, and no more can be", limits::kPrograms), peer.pid);
  const int fd = sealed_page();
  void* at = fd >= 0 ? os::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (at == MAP_FAILED) {
    if (fd >= 0) os::close(fd);
    return refuse(c, "there is no memory or no descriptor for it", peer.pid);
  }
  Welcome welcome;
  const std::optional<std::uint32_t> device = device_of(hello, bus_);
  if (!device) {
    os::munmap(at, sizeof(Memory));
    os::close(fd);
    return refuse(c, fmt::format("it decides about the GPU at {}, which this program does not see", bus_), peer.pid);
  }
  welcome.device = *device;
  c.memory = static_cast<Memory*>(at);  // zero, which is how all of it begins
  c.process = process_of(c.socket, peer.pid);
  c.pid = peer.pid;
  ClientOptions client_options;
  client_options.name = text_of(hello.name, sizeof hello.name);
  if (client_options.name.empty()) client_options.name = fmt::format("pid {}", peer.pid);
  client_options.service_class = hello.real_time != 0 ? ServiceClass::real_time : ServiceClass::best_effort;
  client_options.priority = std::clamp(hello.priority, -5, 0);
  if (hello.quota > 0 && hello.quota <= 1) client_options.quota = hello.quota;
  if (hello.reservation > 0 && hello.reservation <= 1) client_options.reservation = hello.reservation;
  constexpr std::uint64_t kDay = 86'400'000'000;
  if (hello.slo_us != 0) client_options.deadline = std::chrono::microseconds(std::min(hello.slo_us, kDay));
  c.name = client_options.name;
  c.client = books_.join(client_options);
  say(Level::info, fmt::format("{} joins: client {}, pid {}, {}", c.name, c.client, c.pid, hello.real_time != 0 ? "real time" : "best effort"));
  c.memory->gate.store(books_.asks() ? Gate::asks : Gate::open);
  c.memory->in_flight.store(books_.in_flight(c.client));
  if (const ProgramMemory* memory = books_.memory()) c.memory->memory_cap.store(memory->accounts().capacity());
  c.memory->persistent.store(!persistent_ || c.memory->in_flight.load() == 0 ? 0 : books_.sizes() ? kSized : 1);
  tell_standing();
  welcome.accepted = 1;
  if (!send_with_memory(c.socket, welcome, fd)) let_go(c, "it could not be told that it has joined");
  os::close(fd);
}

/// As much of it as there is room for.
void Service::send_state(Connection& c) {
  const ssize_t n = os::send(c.socket, c.unsent.data(), c.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) c.unsent.erase(0, static_cast<std::size_t>(n));
  if (c.unsent.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) close(c);
}

/// To all: who joins or leaves may change what another gets.
void Service::tell_standing() {
  for (const auto& c : connections_) {
    if (c->memory == nullptr) continue;
    const Decided decided = books_.standing(c->client);
    const Tpcs tpcs = words_of(decided.tpc_mask);
    Memory& m = *c->memory;
    m.version.fetch_add(1);
    m.priority.store(decided.priority);
    for (std::size_t i = 0; i < tpcs.size(); ++i) m.tpcs[i].store(tpcs[i]);
    m.version.fetch_add(1);
  }
}

void Service::close(Connection& c) {
  if (c.memory != nullptr) {
    say(Level::info, fmt::format("{} has left: client {}, pid {}", c.name, c.client, c.pid));
    books_.leave(c.client);
    os::munmap(c.memory, sizeof(Memory));
    c.memory = nullptr;
    tell_standing();
  }
  if (c.process >= 0) os::close(c.process);
  os::close(c.socket);
  c.socket = c.process = -1;
}

/// Its library hears of it by the socket; the books forget it when that is seen.
void Service::let_go(Connection& c, const std::string& why) {
  if (std::exchange(c.let_go, true)) return;
  say(Level::warning, fmt::format("{} is let go (client {}, pid {}): {}", c.name, c.client, c.pid, why));
  os::shutdown(c.socket, SHUT_RDWR);
}

bool Service::look_at_gpu() {
  bool any = false;
  for (const auto& c : connections_)
    std::erase_if(c->under_way, [&](std::uint32_t stream) {
      if (c->ordered[stream] != 0) any |= has_stopped(*c, stream);
      const std::uint32_t ended = c->memory->words.ended[stream].load(std::memory_order_acquire);
      if (ended == c->ended[stream]) return false;
      c->ended[stream] = ended;
      books_.ended(c->client, stream, ended, now());
      tell_attempts(*c, c->asked[stream]);
      any = true;
      return ended == c->granted[stream];
    });
  return any;
}

void Service::tell_attempts(Connection& c, std::uint32_t kernel) {
  if (persistent_) c.memory->attempts[kernel].store(books_.attempts(c.client, kernel_of(c, kernel)), std::memory_order_relaxed);
}

/// Of an attempt that has left: whether blocks are left.  Else the launch is done, and its end will be seen.
bool Service::has_stopped(Connection& c, std::uint32_t stream) {
  Memory::Words& words = c.memory->words;
  const auto read = [](const std::uint32_t& word) { return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_acquire); };
  const std::uint32_t attempt = c.ordered[stream];
  const bool gone_on = reached(words.ended[stream].load(std::memory_order_acquire), attempt / 8);
  if (!gone_on && read(words.reports[stream][2]) != attempt) return false;
  c.ordered[stream] = 0;
  if (gone_on || reached(words.resumed[stream].load(std::memory_order_acquire), attempt_of(attempt / 8, kAllAttempts))) return false;
  books_.stopped(c.client, stream, attempt / 8, read(words.reports[stream][3]), now());
  return true;
}

void Service::decide() {
  const std::int64_t begin = clock_ns();
  granted_.clear();
  if (books_.memory() != nullptr)
    for (const auto& c : connections_)
      if (c->memory != nullptr && c->memory->touches.load(std::memory_order_relaxed) != c->touches) {
        c->touches = c->memory->touches.load(std::memory_order_relaxed);
        books_.touched(c->client, now());
      }
  books_.decide(now(), granted_);
  for (const AddressedCommand& o : books_.take_commands()) command(o);
  if (books_.memory() != nullptr)
    for (const std::uint32_t client : books_.overdue(now()))
      if (Connection* c = connection_of(client)) let_go(*c, "it has not moved its memory in time");
  for (const std::uint32_t client : books_.take_late())
    if (const Connection* c = connection_of(client))
      say(Level::warning, fmt::format("{} (client {}, pid {}): {}", c->name, client, c->pid,
                                      books_.late(client) ? fmt::format("a launch has not ended for {} s; others no longer wait for it", Time{limits::kOnGpu} / std::chrono::seconds(1))
                                                          : "its launch has ended; others wait for it again"));
  for (const Granted& g : granted_) grant(g);
  const std::int64_t took = clock_ns() - begin;
  if (decision_ns_.size() < kSamples)
    decision_ns_.push_back(took);
  else
    decision_ns_[next_sample_++ % kSamples] = took;
}

/// Null: it is gone.
Service::Connection* Service::connection_of(std::uint32_t client) {
  const auto of =
      std::ranges::find_if(connections_, [&](const auto& c) { return c->memory != nullptr && c->client == client; });
  return of != connections_.end() ? of->get() : nullptr;
}

void Service::command(const AddressedCommand& addressed) {
  Connection* c = connection_of(addressed.client);
  if (c == nullptr) return;
  Memory& m = *c->memory;
  const std::uint32_t commanded = m.commanded.load(std::memory_order_relaxed);
  if (commanded - m.taken.load(std::memory_order_acquire) >= kCommands) return let_go(*c, "it takes no command to move its memory");
  m.commands[commanded % kCommands] = addressed.command;
  m.commanded.store(commanded + 1);
  os::wake_all(m.commanded);
}

void Service::grant(const Granted& granted) {
  Connection* of = connection_of(granted.client);
  if (of == nullptr) return;
  Connection& c = *of;
  const std::uint32_t attempt = attempt_of(granted.number, granted.attempt);
  Memory& m = *c.memory;
  Memory::Words& words = m.words;
  if (granted.stop || !granted.ctas_per_sm.empty()) c.ordered[granted.stream] = attempt;
  // hw/transform/ptx.h has all orders.
  if (granted.stop) return words.orders[granted.stream].store(std::uint64_t{1} << 63 | attempt);
  const auto workers_on = [&](std::size_t sm) { return sm < granted.ctas_per_sm.size() ? granted.ctas_per_sm[sm] : 0u; };
  if (!granted.ctas_per_sm.empty())
    for (std::uint32_t sm = 0; sm < kSms; ++sm)
      words.quotas[granted.stream][sm].workers.store(workers_on(sm), std::memory_order_relaxed);
  if (granted.resize) {
    c.resized = c.resized % 0x7fff + 1;
    const auto all = std::min(std::accumulate(granted.ctas_per_sm.begin(), granted.ctas_per_sm.end(), 0u), 0xffffu);
    return words.orders[granted.stream].store(std::uint64_t{c.resized << 16 | all} << 32 | attempt);
  }
  if (granted.attempt != 0) return words.resumed[granted.stream].store(attempt);
  c.granted[granted.stream] = granted.number;
  if (std::ranges::find(c.under_way, granted.stream) == c.under_way.end()) c.under_way.push_back(granted.stream);
  m.terms[granted.stream] = {granted.decided.priority, words_of(granted.decided.tpc_mask)};
  m.words.granted[granted.stream].store(granted.number);  // seq_cst: before the look whether it sleeps
  if (m.sleeps[granted.stream].load() != 0) os::wake_all(m.words.granted[granted.stream]);
}

}  // namespace corun::live
