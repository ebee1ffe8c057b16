// A service against programs that say and write anything.  An input is a policy and a row of acts of up to four programs: connections
// that come and go, bytes and descriptors on them, words in the pages that they were given.  The service is what is shipped, and
// runs in this thread: where it asks whether to stop, the next act is done.  A fifth program keeps to the protocol.
//
// Whatever the others did, at the end the service is there, has forgotten them, keeps no descriptor of theirs, says its
// state, and grants what the fifth asks for.
//
// CORUN_FUZZ_SAYS in the environment: what the service says is not thrown away.
#include "hw/live/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/fuzz/readers.h"
#include "tests/hw/live/welcome.h"
#include "traces/json/trace_json.h"

namespace corun::fuzz {
namespace {

using namespace live;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLooked = 1200us;     // within which the service looks at its sockets
constexpr auto kAnswers = 20s;       // at most, also where sanitizers and other tests take the cores
constexpr std::size_t kActs = 400;   // of an input
constexpr std::uint32_t kOthers = 4;

/// The rest of an input; zeros where it is over.
class Bytes {
 public:
  explicit Bytes(std::string all) : all_(std::move(all)) {}
  bool over() const { return at_ >= all_.size(); }
  template <class T = std::uint8_t>
  T next() {
    T value{};
    const std::size_t n = std::min(sizeof value, all_.size() - std::min(at_, all_.size()));
    std::memcpy(&value, all_.data() + std::min(at_, all_.size()), n);
    at_ += sizeof value;
    return value;
  }
  std::uint32_t below(std::uint32_t n) { return next<>() % n; }
  /// Small, or any.
  std::uint32_t number() {
    const std::uint8_t first = next<>();
    return first < 250 ? first : next<std::uint32_t>();
  }

 private:
  std::string all_;
  std::size_t at_ = 0;
};

/// A program's end of a connection, and the page that came by it.
class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { leave(); }

  void comes(const std::string& path) {
    leave();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  void leave() {
    if (memory_ != nullptr) munmap(memory_, sizeof(Memory));
    for (int* fd : {&page_, &socket_})
      if (*fd >= 0) close(std::exchange(*fd, -1));
    memory_ = nullptr;
  }
  void ends_saying() const { shutdown(socket_, SHUT_WR); }
  void says(const void* bytes, std::size_t count, unsigned descriptors = 0) const {
    iovec part{const_cast<void*>(bytes), count};
    alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part, message.msg_iovlen = 1;
    if (descriptors != 0) {
      message.msg_control = control, message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
      for (unsigned i = 0; i < descriptors; ++i) std::memcpy(CMSG_DATA(header) + i * sizeof(int), &socket_, sizeof(int));
    }
    (void)sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void hears() {
    if (page_ >= 0) return;
    const auto answer = receive_answer(socket_, MSG_DONTWAIT);
    if (!answer || answer->page < 0) return;
    page_ = answer->page, memory_ = answer->memory;
  }
  void asks(const Message& message) {
    const std::uint32_t said = memory_->said.load();
    memory_->messages[said % kMessageRing] = message;
    memory_->said.store(said + 1);
  }
  Memory* memory() const { return memory_; }
  int page() const { return page_; }

 private:
  int socket_ = -1, page_ = -1;
  Memory* memory_ = nullptr;
};

class Silence {
 public:
  Silence() {
    if (std::getenv("CORUN_FUZZ_SAYS") != nullptr) return;
    before_ = dup(STDERR_FILENO);
    const int none = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(none, STDERR_FILENO);
    close(none);
  }
  ~Silence() {
    if (before_ < 0) return;
    dup2(before_, STDERR_FILENO);
    close(before_);
  }

 private:
  int before_ = -1;
};

void expect(bool so, const char* what) {
  if (!so) throw std::logic_error(what);
}

std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{}));
}

struct Served {
  const char* policy;
  bool persistent = false;
  std::uint64_t memory = 0;
};
constexpr std::array kServed{Served{"wait"}, Served{"wait:beside=on,backfill=on"}, Served{"reef-n", true}, Served{"smguard", true}, Served{"flexgpu:turn=4", false, 64 << 20},
                             Served{"memory-wait", false, 64 << 20}, Served{"fcfs"}, Served{"priority"}, Served{"tpc-mask:split=even"}, Served{"wait", true}, Served{"timeslice"}};

class World {
 public:
  World(const std::filesystem::path& folder, Bytes& input) : input_(input), which_(kServed[input.below(kServed.size())]) {
    static const Gpu gpu = read_gpu("h200");
    BooksOptions options;
    options.persistent = which_.persistent, options.memory = which_.memory;
    if (std::string_view(which_.policy).starts_with("tpc-mask")) options.programs = {"fifth", "a", "b"};
    service_ = std::make_unique<Service>(which_.policy, gpu, folder, std::move(options));
    path_ = (folder / "socket").string();
  }

  void run() {
    service_->run([this] { return act(); }, [](const std::string& state) { expect(nlohmann::json::accept(state), "the state is no JSON"); });
    expect(answered_, "the program that kept to the protocol was not granted its launch");
    expect(service_->programs() == 1 && service_->books().state().size() == 1, "a program that has gone is in the books");
    const nlohmann::json state = nlohmann::json::parse(service_->state());
    expect(state.at("programs").size() == 1, "the state has a program that is gone");
  }

 private:
  /// Asked by the service each time that it has looked at all; true: it is to end.
  bool act() {
    if (Clock::now() >= says_ && step_ > 1) {  // a service that has heard something does not sleep for a while
      fifth_.asks({Message::What::waits, 0, 0, 0, 0});
      says_ = Clock::now() + 500us;
    }
    if (Clock::now() < next_) return false;
    switch (step_) {
      case 0: return fifth_.comes(path_), hello(fifth_, "fifth", 1), wait(kLooked), ++step_, false;
      case 1:
        if (fifth_.memory() == nullptr) return fifth_.hears(), in_time();
        fifth_.asks({Message::What::launch, 0, 1, 0, 0}), ++step_;
        return false;
      case 2:
        if (!input_.over() && acts_++ < kActs) return one_act(), false;
        for (Peer& peer : peers_) peer.leave();
        until_ = {};
        return wait(2 * kLooked), ++step_, false;
      case 3:
        if (service_->programs() != 1) return in_time();
        fifth_.memory()->words.ended[0].store(1), until_ = {};
        fifth_.asks({Message::What::launch, 0, 2, 0, 0});
        return ++step_, false;
      default:
        answered_ = fifth_.memory()->gate.load() == Gate::open || reached(fifth_.memory()->words.granted[0].load(), 2);
        return answered_ || in_time();
    }
  }

  void one_act() {
    Peer& peer = peers_[input_.below(kOthers)];
    Memory* memory = peer.memory();
    switch (input_.below(20)) {
      case 0: return peer.comes(path_), wait(kLooked);
      case 1: {
        char bytes[256];
        const std::size_t count = input_.next<>();
        for (std::size_t i = 0; i < count; ++i) bytes[i] = input_.next<char>();
        return peer.says(bytes, count, input_.below(8) == 0 ? 1 + input_.below(64) : 0), wait(kLooked);
      }
      case 2: return peer.comes(path_), hello(peer, "a", input_.next<>()), wait(2 * kLooked);
      case 3: {
        Hello changed;
        const std::size_t at = input_.next<std::uint16_t>() % sizeof changed;
        const auto word = input_.next<std::uint32_t>();
        std::memcpy(reinterpret_cast<char*>(&changed) + at, &word, std::min(sizeof word, sizeof changed - at));
        return peer.says(&changed, input_.below(4) == 0 ? input_.next<std::uint16_t>() % sizeof changed : sizeof changed), wait(kLooked);
      }
      case 4: return peer.leave(), wait(input_.below(2) * kLooked);
      case 5: return peer.ends_saying(), wait(kLooked);
      case 6: return peer.hears();
      case 7: return wait(std::chrono::microseconds(16 * input_.next<>()));
      case 8:
        if (peer.page() >= 0 && ftruncate(peer.page(), input_.next<std::uint16_t>()) == 0) throw std::logic_error("the page's size was changed");
        return;
      case 9:
        if (peer.page() >= 0) (void)fallocate(peer.page(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(4096u * input_.next<std::uint16_t>() % sizeof(Memory)), 1 << 16);
        return;
      default:
        if (memory == nullptr) return peer.hears();
        return writes(peer, *memory);
    }
  }

  void writes(Peer& peer, Memory& m) {
    const auto word = [&](std::size_t at) { return std::atomic_ref(*std::bit_cast<std::uint32_t*>(std::bit_cast<char*>(&m) + at % sizeof m / 4 * 4)); };
    switch (input_.below(9)) {
      case 0: return word(input_.next<std::uint32_t>()).store(input_.number());
      case 1: return word(offsetof(Memory, words) + input_.next<std::uint16_t>()).store(input_.number());
      case 2: return m.said.store(m.said.load() + input_.number());
      case 3: {
        KernelEntry& k = m.kernels[input_.next<>()];
        for (std::uint32_t* field : {&k.registers, &k.static_shared_bytes, &k.shared_bytes}) *field = input_.number();
        for (int i = 0; i < 3; ++i) k.grid[i] = input_.number(), k.block[i] = input_.number();
        std::memset(k.name, input_.next<>(), sizeof k.name);
        return;
      }
      case 4: {  // what the GPU would write
        const std::uint32_t stream = input_.below(4);
        return m.words.ended[stream].store(m.words.granted[stream].load() + input_.number());
      }
      case 5: {
        const std::uint32_t stream = input_.below(4);
        std::atomic_ref(m.words.reports[stream][3]).store(input_.number());
        return std::atomic_ref(m.words.reports[stream][2]).store(attempt_of(m.words.granted[stream].load(), input_.below(8)));
      }
      case 6: {  // launches as the library asks for them
        const std::uint32_t stream = input_.below(20), kernel = input_.number();
        for (std::uint32_t n = 1 + input_.next<>(), attempts = input_.below(8); n > 0; --n) peer.asks({Message::What::launch, stream, ++asked_[stream], kernel, attempts});
        return;
      }
      case 7: return m.taken.store(m.commanded.load()), m.touches.store(m.touches.load() + 1), (void)0;
      default:
        return peer.asks({static_cast<Message::What>(input_.below(10)), input_.number(), input_.number(), input_.number(), input_.number()});
    }
  }

  void hello(const Peer& peer, const char* name, std::uint32_t of) {
    Hello hello;
    std::strcpy(hello.name, name);
    hello.real_time = of & 1, hello.priority = -static_cast<std::int32_t>(of / 2 % 8);
    hello.quota = of & 16 ? 0.5 : 0, hello.reservation = of & 32 ? 0.25 : 0, hello.slo_us = of & 64 ? 100 : 0;
    peer.says(&hello, sizeof hello);
  }
  void wait(Clock::duration time) { next_ = Clock::now() + time; }
  /// False; but true, which ends the service, where it has taken too long.
  bool in_time() {
    if (until_ == Clock::time_point{}) until_ = Clock::now() + kAnswers;
    return Clock::now() > until_;
  }

  Bytes& input_;
  const Served& which_;
  std::unique_ptr<Service> service_;
  std::string path_;
  Peer fifth_;
  std::array<Peer, kOthers> peers_;
  std::array<std::uint32_t, 20> asked_{};  // launches, by stream, of whichever program
  int step_ = 0;
  std::size_t acts_ = 0;
  bool answered_ = false;
  Clock::time_point next_{}, until_{}, says_{};
};

void read_service(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  Bytes input({std::istreambuf_iterator<char>(in), {}});
  in.close();
  const std::size_t open = descriptors();
  std::string wrong;
  {
    const Silence silence;
    try {
      World(std::filesystem::path(file).concat(".service"), input).run();
    } catch (const std::exception& error) {
      wrong = error.what();  // not with what the service says
    }
  }
  expect(wrong.empty(), wrong.c_str());
  expect(descriptors() == open, "a descriptor is left");
}

constexpr std::array kReaders{Reader{"service", read_service}};

}  // namespace

std::span<const Reader> readers() { return kReaders; }

}  // namespace corun::fuzz
