// The books of a service: which programs are there, what they want to launch, what is on the GPU, and what the policy decides
// about it.  It shows the policy the same Snapshot as a session does, of programs that nobody knows beforehand.
//
// A launch that is on the GPU runs to its end, unless the program's library has made it of several attempts (BooksOptions::persistent):
// an order to stop it takes back what is behind it on the host, and is answered by KernelFinished, or by Preempted where an
// attempt was stopped before its last block.  So of a stream that the policy may stop the next launch goes when what is on the GPU will have ended
// within BooksOptions::ahead, by the times seen (LastTimes).  The host of such a program need not wait for that: the driver has up
// to BooksOptions::in_flight further launches of each stream, and the GPU holds them back.  What it holds back holds up what
// came later, of other streams of the program too, where they share a hardware channel.  So such a program's launches go in
// the order in which they came, whatever the policy decides, and it sees them as one stream.
// A request is what a program launches between two waits of its host; a program that waits in another way has ended one when
// nothing of it has been on the GPU for kQuiet.
//
// Under a policy that decides about memory a launch goes when all of its program's memory is on the GPU (program_memory.h).
//
// A policy that gives launches a number of workers on each SM gives it to those of several attempts.  Fewer leave at their next
// block; more come when the attempt has been stopped and the next one goes.  The last attempt has what the GPU gives it.
//
// A launch that does not end, as of a process that was stopped, holds others for limits::kOnGpu.  Then the policy no longer sees what
// its program has on the GPU, and sees a real-time program as a best-effort one, until the launch ends.
//
// Leaves out: sockets and what is shared with programs (hw/live/service.h); copies, which wait for memory and for nothing else; sizes
// other than by SM.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/api/last_times.h"
#include "policies/api/policy.h"
#include "policies/service/books_listener.h"
#include "policies/service/program_memory.h"
#include "policies/service/service_forecast.h"
#include "policies/session/launch_list.h"
#include "policies/session/pending_launches.h"

namespace corun::live {

/// What a program says of itself.
struct ClientOptions {
  std::string name;
  ServiceClass service_class = ServiceClass::best_effort;
  std::int32_t priority = 0;
  std::optional<double> quota{}, reservation{};  // fractions of the GPU, as of Client
  std::optional<Time> deadline{};  // of a request, from its first launch
  const Client* in_trace = nullptr;  // which has masks and streams besides; null: nobody knows
};

/// What a policy decides of a launch; no mask: all TPCs.
struct Decided {
  std::int32_t priority = 0;
  std::optional<TpcMask> tpc_mask{};
  bool operator==(const Decided&) const = default;
};

/// A launch may go, or go on, or is to stop, or to keep to other quotas.
struct Granted {
  std::uint32_t client;  // as join() numbered it
  std::uint32_t stream, number;
  Decided decided;
  std::uint32_t attempt = 0;
  bool stop = false;                   // this attempt, which went before
  bool resize = false;                 // the same
  decide::CtasPerSm ctas_per_sm{};     // not empty: its workers keep to this
};

struct BooksOptions {
  /// From a grant to the end of an empty kernel pass 7 us in the median, 13 at p99 (experiments/h200/live, gate-mps.jsonl).
  Time ahead = std::chrono::microseconds(8);
  /// Launches of a stream that a best-effort program's host makes before they are granted, under a policy that stops it.
  /// Each may take three of a channel's 1,021 entries: its wait, itself, and the event behind it.
  std::uint32_t in_flight = 64;
  /// By name, those that the policy knows from the start and in this order, there or not.
  std::vector<std::string> programs{};
  /// Makes what a policy asks that looks ahead; empty: such a policy is refused.
  std::function<std::unique_ptr<ServiceForecast>(const Gpu&, const Requirements&)> forecast{};
  /// Bytes that blocks may have on the GPU, under a policy that decides about memory; 0: nine tenths of the GPU's, since
  /// contexts, modules and what is not steered take some too (0.5 GB for a program).
  std::uint64_t memory = 0;
  /// Long kernels of best-effort programs are to be made so that they can be stopped, where the policy stops launches.
  bool persistent = false;
  /// Makes the policy, each time that it starts anew; empty: by its name.
  std::function<std::unique_ptr<Policy>()> make{};
  /// Programs that are there from the start, numbered in this order.
  std::vector<ClientOptions> joined{};
};

/// Of a program, for those who look.
struct ClientState {
  std::uint32_t client = 0;
  ClientOptions self;
  std::uint64_t requests = 0;
  std::size_t pending = 0, on_gpu = 0;
  Time busy{};  // with something on the GPU
  /// Launches that ended, how long they took, and what of both was of kernels that could be stopped; stops.
  struct Took {
    std::uint64_t launches = 0;
    Time time{};
  } all{}, stoppable{};
  std::uint64_t stops = 0, resizes = 0;
  std::uint64_t device_bytes = 0, host_bytes = 0;  // where memory is steered
  bool late = false;                               // it counts as best effort
};

class Books {
 public:
  static constexpr Time kQuiet = std::chrono::microseconds(100);
  static constexpr std::uint32_t kShownStreams = 16;  // of a program, to the policy; further ones are shown as the last

  /// Throws InputError where the policy needs what cannot be done with programs as they are.
  Books(const std::string& policy, const Gpu& gpu, BooksOptions options = {});
  ~Books();

  /// The listener outlives the books; to be called before anybody joins.
  void listen(BooksListener& listener) { listener_ = &listener; }
  const std::string& policy() const { return spec_; }
  const Gpu& gpu() const { return topology_.gpu; }
  const BooksOptions& options() const { return options_; }

  /// Launches wait for grants: else every one goes at once, as standing() says.
  bool asks() const { return !immediate_; }
  /// The policy gives launches sizes.
  bool sizes() const { return sizes_; }
  /// Whether programs share one context, as under MPS.
  bool one_context() const { return policy_->requirements().contexts == Contexts::one; }

  std::uint32_t join(const ClientOptions& client_options);
  void leave(std::uint32_t client);
  /// How many launches of each stream the driver may have before they are granted.  They have the standing terms.
  std::uint32_t in_flight(std::uint32_t client) const;
  /// Launches that it has asked for and that have not ended.
  std::uint32_t unfinished(std::uint32_t client) const { return programs_.at(client)->unfinished; }
  /// Of launches that go at once until somebody joins or leaves; the priority also of the streams that the program makes.
  Decided standing(std::uint32_t client);
  /// Why the policy cannot decide for the programs that are there, so that their launches go as they come; empty: it does.
  const std::string& unfit() const { return unfit_; }

  /// The program wants to launch as number `number` of its stream.  The kernel is one function with one shape, and stays where
  /// it is; the time that launches of it are usually on the GPU becomes its solo time.  If it has one, it was seen to take that.
  /// `attempts`: how often it may be on the GPU, so that it may be stopped one time less; 0: once.
  void asked(std::uint32_t client, std::uint32_t stream, std::uint32_t number, Kernel& kernel, Time now, std::uint32_t attempts = 0);
  /// Of the kernel's next launches; 0: they are to go plainly.
  std::uint32_t attempts(std::uint32_t client, const Kernel& kernel) const;
  /// An attempt was stopped when this many of the launch's blocks were done, or none of its workers found its place.
  void stopped(std::uint32_t client, std::uint32_t stream, std::uint32_t number, std::uint32_t blocks, Time now);
  /// The GPU has done the stream's launches up to this number.
  void ended(std::uint32_t client, std::uint32_t stream, std::uint32_t number, Time now);
  /// The driver refused this launch.
  void failed(std::uint32_t client, std::uint32_t stream, std::uint32_t number, Time now);
  /// The program's host waits for what it has launched.
  void waits(std::uint32_t client);

  /// Of memory, as Message and ProgramMemory say it.  Where memory() is null they are not to be called.
  const ProgramMemory* memory() const { return memory_.get(); }
  void allocates(std::uint32_t client, std::uint32_t block, std::uint32_t generation, std::uint64_t bytes, Time now);
  void frees(std::uint32_t client, std::uint32_t block, std::uint32_t generation, Time now);
  void moved(std::uint32_t client, std::uint32_t block, std::uint32_t generation, bool done, Time now);
  void wants(std::uint32_t client, std::uint32_t number, Time now);
  void has(std::uint32_t client, std::uint32_t number, Time now);
  void touched(std::uint32_t client, Time now);
  std::vector<AddressedCommand> take_commands();
  /// Programs that have not moved what they were ordered to in time.
  std::vector<std::uint32_t> overdue(Time now) const;
  /// Programs that have come to count as best effort, or no longer do, since this was asked.
  std::vector<std::uint32_t> take_late() { return std::exchange(late_, {}); }
  bool late(std::uint32_t client) const { return programs_.at(client)->late; }

  /// A forecast is there of which the policy has not heard.
  bool foretold() const { return forecast_ != nullptr && forecast_->ready(); }
  /// The policy hears of it with the next decision.
  void hear_forecast();
  /// Null: nothing is foretold.
  const ServiceForecast* forecast() const { return forecast_.get(); }

  /// Asks the policy if anything has happened, and appends what may go.
  void decide(Time now, std::vector<Granted>& granted);
  /// When decide() is to be called though no program says anything; kNever: not.  In the past: somebody has left.
  Time next_wish() const;
  bool idle() const { return pending_.empty() && running_.empty(); }

  std::vector<ClientState> state() const;
  std::uint64_t decisions() const { return decisions_; }

 private:
  struct Place {  // of a launch, by slot
    std::uint32_t client = 0, stream = 0, number = 0;
    Kernel* kernel = nullptr;
    Time granted_at{};
    bool failed = false;  // before it was granted
    bool stopping = false;
    std::uint32_t attempts = 0, attempt = 0;  // how often it may go; how often it was stopped
    decide::CtasPerSm ctas_per_sm{};          // of a launch that has a size
    bool goes_on = false;                     // at once when it has stopped
  };
  struct Program {
    ClientOptions self;
    bool expected = false, there = true;
    bool late = false;  // a launch of it is on the GPU for too long
    std::array<std::deque<LaunchId>, kShownStreams> held, on_gpu;  // decided and not granted; granted
    std::uint64_t request = 0;
    std::uint32_t unfinished = 0;  // launches asked for and not ended
    bool busy = false, waits = false;
    Time arrived{}, last_end{}, on_gpu_since{}, on_gpu_for{};
    ClientState::Took all{}, stoppable{};
    std::uint64_t stops = 0, resizes = 0;
    std::map<std::uint32_t, Time> ended_at;  // by stream of its own
    std::unordered_map<const Kernel*, LastTimes> times;
    Op launch{corun::Launch{}, {}, {}, {}, {}};  // what a policy sees of each
  };

  std::uint32_t enter(const ClientOptions& client_options);
  void begin_again();
  void look_for_late(Time now);
  std::unique_ptr<Policy> fresh_policy() const;
  LaunchView& new_view(std::uint32_t client, Time now);
  void insert(LaunchView& l);
  void put_back(LaunchView& l);
  void forget(std::optional<LaunchId> allocation);
  bool apply_memory(const Decision& decision, Time now);
  void show_memory();
  void say_held_back();
  void end_request(Program& p, ClientId id);
  void program_is_busy(std::uint32_t client, Time now);
  void finish(LaunchId id, Time now);
  void end_requests(Time now);
  bool apply(const Decision& decision, Time now);
  void take_back(const LaunchView& first);
  void take_back_held(Program& p, StreamId stream);
  void order_stops(Program& p, StreamId stream);
  void order_stop(Place& place);
  void resize(const decide::Resize& decision);
  std::uint32_t follows(std::uint32_t client, std::uint32_t stream, std::uint32_t number) const;
  void tell_next(const Place& ended, Time now);
  void tell_first(Time now);
  void hand_over(std::vector<Granted>& granted, Time now);
  Time may_go_at(const Program& p, LaunchId id) const;
  Time begun_at(const Program& p, const Place& place) const;
  bool stoppable(const Program& p) const { return stops_ && p.self.service_class == ServiceClass::best_effort; }
  StreamId shown(std::uint32_t client, std::uint32_t stream) const;
  static bool may_stop(const Place& place) { return place.attempt + 1 < place.attempts; }
  bool in_order(const LaunchView& l) const { return in_flight(places_[l.id.slot].client) != 0; }
  void drop(LaunchId id);
  void reuse_retired();
  Program& program(const LaunchView& l) { return *programs_.at(places_[l.id.slot].client); }
  LaunchView& view(LaunchId id) { return launches_[id.slot]; }

  std::string spec_, unfit_;
  BooksListener* listener_ = nullptr;
  BooksOptions options_;
  Topology topology_;
  std::unique_ptr<ServiceForecast> forecast_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ProgramMemory> memory_;  // null: the policy decides nothing about it
  bool immediate_ = false, stops_ = false, masks_ = false, sizes_ = false;
  std::map<std::uint32_t, std::unique_ptr<Program>> programs_;  // by number
  std::uint32_t next_client_ = 0, next_serial_ = 0;

  // As the policy sees it, for the programs that are there now.
  std::deque<Client> clients_;
  std::vector<ClientView> client_views_;
  std::vector<std::uint32_t> number_of_;  // by ClientId
  PendingLaunches pending_;
  LaunchList running_;
  std::vector<LaunchView> launches_;  // by slot
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_slots_, retired_;
  std::vector<Notice> notices_;
  std::vector<Decision> chosen_;
  std::vector<Granted> ordered_;  // of what is on the GPU
  Time wake_at_ = kNever, hand_over_at_ = kNever;
  Time late_at_ = kNever;  // a real-time launch may have been on the GPU for too long
  std::vector<std::uint32_t> late_;
  bool hides_ = false;  // launches of programs that are late
  std::uint64_t decisions_ = 0;
};

}  // namespace corun::live
