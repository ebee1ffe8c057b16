// The service of `sim serve`: lets programs in through a socket, hears what they say, looks at what the GPU has written, asks
// the books what may go, and grants it.  While anything is pending or on the GPU it looks without a pause, which takes a core;
// else it sleeps until a program rings.
//
// A program of another user is refused.  One that ends, however, is gone with its socket.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hw/live/books.h"
#include "hw/live/wire.h"

namespace corun::live {

/// Where a service is that was given no folder: one for each user.
std::filesystem::path default_folder();

class Service {
 public:
  /// Opens `folder`/socket.  Throws InputError where another service is there, or the policy asks for too much.
  Service(const std::string& policy, const Gpu& gpu, std::filesystem::path folder, BooksOptions options = {});
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Books& books() const { return books_; }
  /// What the policy is told and decides, from here on.
  void record() { books_.record(); }
  /// Programs that do not see the GPU at this place on the bus are refused; none: all may come, each with the first that it sees.
  void of_gpu(const std::string& bus) { bus_ = bus; }
  /// `environment` of the programs that are to join (NAME=VALUE), for `sim run`.
  void invite(const std::vector<std::string>& environment);
  /// Until `stop` says so, which is asked at least each 100 ms.  `tick` is called about once a second.
  void run(const std::function<bool()>& stop, const std::function<void(const std::string& state)>& tick);
  /// As JSON: the policy, what each program has done, how long decisions take.
  std::string state() const;

 private:
  struct Connection {
    int socket = -1;
    Memory* memory = nullptr;  // null: it has not said anything yet
    std::uint32_t client = 0;
    std::uint32_t said = 0, heard = 0;
    std::uint64_t touches = 0;
    std::vector<std::unique_ptr<Kernel>> kernels;            // by number
    std::array<std::uint32_t, kStreams> granted{}, ended{};  // numbers of launches
    std::vector<std::uint32_t> under_way;                    // streams with something on the GPU
    std::array<std::uint32_t, kStreams> ordered{};           // attempts that may leave before all is done; 0: none
    std::uint32_t resized = 0;                               // orders to keep to other quotas
    std::array<std::uint32_t, kStreams> asked{};             // kernels, the last of each stream
  };

  Time now() const;
  void accept_one();
  void greet(Connection& c);
  void tell_standing();
  void refuse(Connection& c, const std::string& why);
  void look_at_sockets(int timeout_ms);
  bool look_at_sayings();
  void hear_all();
  bool look_at_gpu();
  void tell_attempts(Connection& c, std::uint32_t kernel);
  bool has_stopped(Connection& c, std::uint32_t stream);
  void hear(Connection& c, const Saying& saying);
  void hear_of_memory(Connection& c, const Saying& saying);
  static Kernel& kernel_of(Connection& c, std::uint32_t number);
  void grant(const Granted& granted);
  void order(const MemoryOrder& order);
  Connection* connection_of(std::uint32_t client);
  void decide();
  void close(Connection& c);

  std::string policy_;
  std::filesystem::path folder_;
  bool persistent_;
  std::string bus_;
  Books books_;
  int listener_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Granted> granted_;
  std::vector<std::int64_t> decision_ns_;  // the latest, in turn
  std::size_t next_sample_ = 0;
  std::int64_t began_ns_ = 0;
};

}  // namespace corun::live
