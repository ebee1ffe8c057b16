// The service of `sim serve`: lets programs in through a socket, hears what they say, looks at what the GPU has written, asks
// the books what may go, and grants it.  While anything is pending or on the GPU it looks without a pause, which takes a core;
// else it sleeps until a program rings.
//
// A program of another user is refused.  One that ends, however, is gone with its process or its socket, whichever is first.
// What programs write is not trusted: requests are copied out of the page before they are read, the page cannot be made
// shorter, and who keeps to no limit (limits.h) is let go.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hw/live/folder.h"
#include "hw/live/log.h"
#include "hw/live/recording.h"
#include "hw/live/wire.h"
#include "policies/service/books.h"

namespace corun::live {

class Service {
 public:
  /// Opens `folder`/socket.  Throws InputError where another service is there, the folder is not the user's own (folder.h), or
  /// the policy asks for too much.
  Service(const std::string& policy, const Gpu& gpu, const std::filesystem::path& folder, BooksOptions options = {});
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Books& books() const { return books_; }
  /// What the policy is told and decides, from here on.
  void record() { recording_ = std::make_unique<Recording>(books_); }
  const Recording* recording() const { return recording_.get(); }
  /// Programs that do not see the GPU at this place on the bus are refused; none: all may come, each with the first that it sees.
  void of_gpu(const std::string& bus) { bus_ = bus; }
  const Folder& folder() const { return folder_; }
  /// On standard error.
  void say(Level level, const std::string& text) { log_.say(level, text, now()); }
  /// `environment` of the programs that are to join (NAME=VALUE), for `sim run`: paths in the folder.
  void invite(const std::vector<std::string>& environment);
  /// `sim run` finds no service any more.
  void uninvite() { folder_.uninvite(); }
  /// The next tick comes at once when this descriptor is readable; -1: none.
  void watch(int descriptor) { watched_ = descriptor; }
  /// That have joined.
  std::size_t programs() const;
  /// Until `stop` says so, which is asked at least each 100 ms.  `tick` is called about once a second.
  void run(const std::function<bool()>& stop, const std::function<void(const std::string& state)>& tick);
  /// Since it began.
  Time now() const;
  /// As JSON: the policy, what each program has done, how long decisions take.
  std::string state() const;

 private:
  struct Connection {
    int socket = -1;
    int process = -1;  // readable when it has ended
    std::int32_t pid = 0;
    std::string name;
    bool let_go = false;
    Time since{};        // it came, or asked for the state
    std::string unsent;  // of the state
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

  void accept_one();
  void refuse_waiting();
  void greet(Connection& c);
  void send_state(Connection& c);
  void look_at_deadlines();
  void tell_standing();
  void refuse(Connection& c, const std::string& why, std::int32_t pid = 0);
  void look_at_sockets(int timeout_ms);
  bool look_at_messages();
  void hear_all();
  bool look_at_gpu();
  void tell_attempts(Connection& c, std::uint32_t kernel);
  bool has_stopped(Connection& c, std::uint32_t stream);
  void hear(Connection& c, Message message);
  void hear_of_memory(Connection& c, const Message& message);
  static Kernel& kernel_of(Connection& c, std::uint32_t number);
  void grant(const Granted& granted);
  void command(const AddressedCommand& addressed);
  Connection* connection_of(std::uint32_t client);
  void decide();
  void close(Connection& c);
  void let_go(Connection& c, const std::string& why);

  std::string policy_;
  Log log_{2};
  bool persistent_;
  std::string bus_;
  Books books_;
  std::unique_ptr<Recording> recording_;
  Folder folder_;  // after the books: nothing is made for a policy that is refused
  int listener_ = -1;
  int spare_ = -1;     // a descriptor for a connection that there is no other for
  Time accepts_at_{};  // again
  int watched_ = -1;
  bool tick_is_due_ = false;  // before its second is over
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Granted> granted_;
  std::vector<std::int64_t> decision_ns_;  // the latest, in turn
  std::size_t next_sample_ = 0;
  std::int64_t began_ns_ = 0;
};

}  // namespace corun::live
