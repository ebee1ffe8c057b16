// A machine that is played: processes and their threads in virtual time, descriptors, sockets, shared pages, and what fails.  One
// thread of the system runs all of it, and one number says what happens.
//
// A thread runs on until its clock has come to the next thing that happens elsewhere; each call that it makes of the system takes
// a little time, by chance.  So where two threads meet is by chance too.  A process that is killed is unwound, and nothing that its
// destructors do has an effect.
//
// Leaves out: the order of single reads and writes of memory; signals but SIGKILL, SIGSTOP and SIGCONT; files but what is named here.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "tests/hw/world/fiber.h"

namespace corun::world {

using Ns = std::chrono::nanoseconds;
using namespace std::chrono_literals;
inline constexpr Ns kForever = Ns::max() / 4;

/// The same numbers on every machine, unlike the standard library's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  /// 0 to n - 1.
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  Ns between(Ns least, Ns most);

 private:
  std::uint64_t state_;
};

struct Process;

/// What a descriptor stands for.
struct File {
  enum class Kind : std::uint8_t { null, fresh, listener, end, page, process } kind = Kind::null;
  explicit File(Kind is) : kind(is) {}
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::deque<std::shared_ptr<File>> waiting{};  // of a listener: the ends that nobody has taken
  std::weak_ptr<File> peer{};                   // of an end, as all that follows
  std::string bytes{};                          // that came
  std::deque<std::shared_ptr<File>> passed{};   // that came with them
  bool over = false;                            // no more will come
  bool welcomed = false;                        // a page was sent to it
  Ns came{};                                    // it was accepted
  bool waits = true;                            // calls of it wait
  Ns receives_for = kForever;
  int pid = 0;  // of who is at the other end
  unsigned uid = 0;
  std::weak_ptr<Process> of{};  // of an end: who is at the other; of a process: which
  char* memory = nullptr;       // of a page
  std::size_t size = 0, room = 0;  // as it is said to be, and as it was made
  bool sealed = false;
};

struct Slot {
  void* at = nullptr;
  std::size_t bytes = 0;        // of one that a fork copies; else 0
  void (*destroy)(void*) = nullptr;
};
/// Each type's own place in the slots of a process or a thread.
inline std::size_t slots_so_far = 0;
template <class T>
inline const std::size_t kSlotOf = slots_so_far++;
void free_slots(std::vector<Slot>& slots);

struct Process {
  int pid = 0;
  std::string name{};
  unsigned uid = 1000;
  bool alive = true, stopped = false;
  Ns ended_at{}, stopped_at{};
  std::vector<std::shared_ptr<File>> files{};  // by descriptor
  std::size_t most_files = 1024;
  std::map<void*, std::vector<std::shared_ptr<File>>> mapped{};
  std::map<std::string, std::string> environment{};
  std::vector<Slot> slots{};
  std::vector<std::shared_ptr<void>> kept{};  // a child that was forked has them too
  std::vector<void (*)()> in_child{};
  std::function<void()> at_end{};  // before its pages are gone
};

/// Unwinds the threads of a process that is killed.
struct Killed {};

struct Thread {
  std::shared_ptr<Process> process;
  std::unique_ptr<Fiber> fiber{};
  Ns clock{};
  std::uint64_t turn = 0;  // an event of an earlier one is void
  const void* waits_on = nullptr;
  const pollfd* polls = nullptr;
  std::size_t polled = 0;
  bool woken = false;
  Ns looks_for{};  // how long the next look in vain takes
  std::uint64_t steps = 0, seen = 0;  // its own; those of others when it looked last
  std::vector<Slot> slots{};
  std::uint32_t launch = 0;  // which it is making (ledger.h)
};

/// What is left out of what is shipped, to see that it is missed.
struct Plants {
  bool nobody_asks_for_captures = false, contexts_end_unseen = false;
  bool children_keep_sockets = false, no_process_descriptors = false;
  bool nobody_watches = false;
  bool no_seals = false, no_spare_descriptor = false, listeners_never_rest = false;
};

class Machine {
 public:
  explicit Machine(std::uint64_t seed);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  static Machine& the() { return *the_; }
  static bool there() { return the_ != nullptr; }

  // What the world does.
  std::shared_ptr<Process> begin(const std::string& name, std::function<void()> run);
  /// With what its parent has, on a thread of its own.
  std::shared_ptr<Process> fork(Process& parent, std::function<void()> run);
  void kill(const std::shared_ptr<Process>& process);
  void stop(Process& process);
  void go_on(Process& process);
  void at(Ns when, std::function<void()> what);
  /// Until nothing happens any more, it is that late, or something is wrong.
  void run(Ns until);
  /// The same, and it is that late then.
  void idle_until(Ns until) { run(until), now_ = std::max(now_, until); }
  void end_all();
  void each_step(std::function<void()> what) { each_step_ = std::move(what); }

  // What threads do.
  Thread* thread() const { return thread_; }
  const std::shared_ptr<Process>& process() const { return thread_ != nullptr ? thread_->process : kNobody; }
  Ns now() const { return thread_ != nullptr ? thread_->clock : now_; }
  void start_thread(std::function<void()> run);
  /// A call of the system takes a little.  Not from destructors: others may run, and this process be killed, meanwhile.
  void spend(Ns at_most = 300ns);
  void sleep_until(Ns when) { park(when); }
  /// True: somebody has woken it.
  bool wait_on(const void* what, Ns until);
  void wake(const void* what);
  /// Until something in one of these files changes.
  void wait_for_files(const pollfd* all, std::size_t count, Ns until);
  void changed(const File& file);
  /// Something else has happened, or the time is over, which is longer each time.
  void look_in_vain();

  /// False: there are as many as there may be.
  int add(std::shared_ptr<File> file);
  std::shared_ptr<File> file(int descriptor) const;
  /// The next call fails, as asked for.
  bool fails();
  void fail_in(std::uint32_t calls, const std::string& of) { fail_in_ = calls, fail_of_ = of; }

  /// How often it has come to something so far, as "accept".
  std::uint64_t& count(const char* what) { return counts_[what]; }
  const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

  void wrong(const std::string& what);
  const std::string& wrong() const { return wrong_; }
  void tell(const std::string& what);
  bool tells() const { return tells_; }
  void tell_all() { tells_ = true; }
  /// Of all that happened.
  std::uint64_t digest() const { return digest_; }
  void note(std::uint64_t what) { digest_ = (digest_ ^ what) * 0x100000001b3u; }

  Random random;
  Plants plants;
  std::weak_ptr<File> listener;  // where programs come
  std::function<void(Process&)> process_ended;

 private:
  struct Event {
    Ns when;
    std::uint64_t number, turn;
    Thread* thread;
    std::shared_ptr<std::function<void()>> what;
    bool operator<(const Event& other) const { return when != other.when ? when > other.when : number > other.number; }
  };
  void push(Ns when, Thread& thread);
  bool park(Ns until);
  void resume(Thread& thread);
  Thread& new_thread(const std::shared_ptr<Process>& process, std::function<void()> run);
  void wake(Thread& thread);

  static Machine* the_;
  static const std::shared_ptr<Process> kNobody;
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0, digest_ = 0xcbf29ce484222325u, steps_ = 0;
  Ns now_{};
  int pids_ = 100;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::pair<Thread*, std::uint64_t>> deferred_;  // of processes that are stopped
  Thread* thread_ = nullptr;
  std::function<void()> each_step_;
  std::uint32_t fail_in_ = 0;
  std::map<std::string, std::uint64_t> counts_;
  std::string fail_of_, wrong_;
  bool tells_ = false;
};

}  // namespace corun::world
