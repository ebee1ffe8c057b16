#include "tests/hw/world/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "hw/live/limits.h"
#include "hw/live/recording.h"
#include "hw/live/system.h"
#include "tests/hw/world/program.h"
#include "tests/hw/world/stage.h"
#include "tests/support/build.h"
#include "traces/json/temporary_folder.h"

namespace corun::world {
namespace {

namespace limits = live::limits;

constexpr Ns kSeen = 400ms;  // for the service to see that a program has ended: it looks ten times a second
constexpr Ns kLonger = 150ms;  // than a deadline, and a policy's own pauses
constexpr Ns kTurns = 3s;              // the same where memory goes and comes
constexpr Ns kMoves = limits::kMove + 1s;  // more for each whose memory does not go

/// What others may be held for.
struct Excuse {
  Ns from, until, longest;
  int pid;  // not of this one's own launches; 0: of all
};

class World {
 public:
  World(std::uint64_t seed, const Plants& plants, bool tells) : stage_(seed), random_(seed ^ 0x5555) {
    if (tells) machine_.tell_all();
    machine_.plants = plants;
    constexpr std::array kPolicies{"fcfs", "priority", "wait", "wait", "wait:beside=on", "wait:beside=on,backfill=on", "reef-n", "timeslice", "tpc-mask", "flexgpu", "flexgpu:patience=2,turn=4", "memory-wait"};
    policy_ = kPolicies[random_.below(kPolicies.size())];
    in_flight_ = std::array{64u, 0u, 2u}[random_.below(3)];
    if (policy_.starts_with("flexgpu") || policy_ == "memory-wait") units_ = 8 + random_.below(56);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Outcome play() {
    serve();
    const std::uint32_t n = 1 + random_.below(4);
    for (std::uint32_t i = 0; i < n; ++i) programs_.push_back(begin_program(stage_, any_plan(random_, fmt::format("p{}", i), units_, policy_ == "memory-wait")));
    // Each eighth world is one in which nothing befalls anybody.
    const std::uint32_t many = random_.one_in(8) ? 0 : 1 + random_.below(4);
    if (units_ != 0 && many == 0) stage_.memory.cap = units_ * live::kBlockUnit;
    for (std::uint32_t i = 0; i < many; ++i) machine_.at(random_.between(1ms, 1500ms), [this] { befall(); });
    constexpr Ns kMost = 150s;
    for (Ns at = 50ms; !over() && machine_.wrong().empty(); at += 50ms) {
      machine_.run(at);
      look();
      if (at > kMost) {
        if (stage_.service() != nullptr) machine_.tell(stage_.service()->state());
        machine_.wrong("it does not end: " + who_is_left());
      }
    }
    if (machine_.wrong().empty()) end();
    if (machine_.wrong().empty()) look_at_holds();
    return {machine_.wrong(), policy_, machine_.digest(), machine_.now(), gpu_.ledger().size() - 1, many, machine_.counts()};
  }

 private:
  // ---- the service ------------------------------------------------------------------------------------------

  void serve() {
    records_ = random_.one_in(4);
    stage_.serve(policy_, live::BooksOptions{.in_flight = in_flight_, .memory = units_ * live::kBlockUnit}, records_, [this](const std::string& why) {
      machine_.tell("the service does not begin: " + why);
      machine_.at(machine_.now() + 100ms, [this] { serve(); });
      return machine_.now() < failed_until_;
    });
    runs_since_ = machine_.now();
  }

  // ---- what befalls them ------------------------------------------------------------------------------------

  std::shared_ptr<Process> any_program() {
    std::vector<std::shared_ptr<Process>> alive;
    for (const auto& p : programs_)
      if (p->alive) alive.push_back(p);
    return alive.empty() ? nullptr : alive[random_.below(static_cast<std::uint32_t>(alive.size()))];
  }
  void excuse(Ns from, Ns until, Ns longest, int pid = 0) { excuses_.push_back({from, until, longest, pid}); }

  void befall() {
    if (ends_) return;
    const Ns now = machine_.now();
    const std::shared_ptr<Process> program = any_program();
    switch (random_.below(11)) {
      case 0:
        if (program != nullptr) excuse(now, now + kSeen, kSeen), ++machine_.count("killed"), machine_.kill(program);
        break;
      case 1:
      case 2:
        if (program != nullptr) stop(program, random_.one_in(2) ? random_.between(1ms, 300ms) : random_.between(1s, units_ != 0 ? 25s : 8s));
        break;
      case 3:
        if (program != nullptr) {
          machine_.tell(program->name + " forks");
          ++machine_.count("forked");
          others_.push_back(machine_.fork(*program, [how_long = random_.between(1ms, 2s)] { live_as_child(how_long); }));
          if (random_.one_in(2))
            machine_.at(now + random_.between(1ms, 20ms), [this, program] {
              const Ns at = machine_.now();
              excuse(at, at + kSeen, kSeen), machine_.kill(program);
            });
        }
        break;
      case 4: kill_service(random_.one_in(3) ? random_.between(2s, 6s) : random_.between(1ms, 1500ms)); break;
      case 5: stop_service(random_.one_in(2) ? random_.between(1ms, 1500ms) : random_.between(1500ms, 8s)); break;
      case 6:
      case 7: {
        const std::uint64_t seed = random_.next();
        others_.push_back(machine_.begin("stranger", [seed] { come_as_stranger(seed); }));
        excuse(now, now + limits::kOnGpu + 3s, limits::kOnGpu + kSeen);  // it may ask for what it does not end
        break;
      }
      case 8:
        machine_.tell("the driver is to refuse");
        for (int i = 0; i < 3; ++i) machine_.at(now + random_.between(0ms, 50ms), [this] { gpu_.fail_in(1 + random_.below(6)); });
        break;
      case 9:
        machine_.tell("the system is to fail");
        failed_until_ = now + 60ms;
        machine_.at(failed_until_, [this] { machine_.fail_in(0, {}); });
        for (int i = 0; i < 3; ++i) machine_.at(now + random_.between(0ms, 50ms), [this] { machine_.fail_in(1 + random_.below(10), random_.one_in(2) ? "service" : "p"); });
        break;
      default: few_files(random_.between(1ms, 1s));
    }
  }

  void stop(const std::shared_ptr<Process>& p, Ns how_long) {
    if (p->stopped) return;
    machine_.tell(fmt::format("{} stops for {} ms", p->name, how_long.count() / 1'000'000));
    machine_.stop(*p);
    ++machine_.count("stopped");
    const Ns now = machine_.now();
    excuse(now, now + how_long + kSeen, std::min<Ns>(how_long, limits::kOnGpu) + kSeen);
    own_stops_.push_back({now, now + how_long, how_long, p->pid});
    machine_.at(now + how_long, [this, p] { machine_.go_on(*p); });
  }
  void stop_service(Ns how_long) {
    if (!served_->alive || served_->stopped) return;
    machine_.tell(fmt::format("the service stops for {} ms", how_long.count() / 1'000'000));
    machine_.stop(*served_);
    const Ns now = machine_.now();
    excuse(now, now + how_long + kLonger, std::min<Ns>(how_long, limits::kStandsStill + 3 * limits::kLookAtService) + kLonger);
    machine_.at(now + how_long, [this, p = served_] {
      machine_.go_on(*p);
      runs_since_ = machine_.now();
    });
  }
  void kill_service(Ns until_it_is_back) {
    if (!served_->alive) return;
    const Ns now = machine_.now();
    excuse(now, now + kLonger, kLonger);
    if (random_.one_in(4))  // while it writes what launches have that do not ask
      for (const auto& [at, files] : served_->mapped) static_cast<live::Memory*>(at)->version.fetch_add(1);
    machine_.kill(served_);
    machine_.at(now + until_it_is_back, [this] { serve(); });
  }
  void few_files(Ns how_long) {
    if (!served_->alive) return;
    machine_.tell("the service is out of descriptors");
    served_->most_files = static_cast<std::size_t>(std::ranges::count_if(served_->files, [](const auto& f) { return f != nullptr; }));
    machine_.at(machine_.now() + how_long, [this, p = served_] { p->most_files = 1024; });
    for (std::uint64_t i = 0; i < 2; ++i) others_.push_back(machine_.begin("stranger", [i] { come_as_stranger(i); }));
  }

  // ---- what is looked at ------------------------------------------------------------------------------------

  bool over() const {
    const auto gone = [](const auto& p) { return !p->alive; };
    return std::ranges::all_of(programs_, gone) && std::ranges::all_of(others_, gone);
  }
  std::string who_is_left() const {
    std::string all;
    for (const auto* of : {&programs_, &others_})
      for (const auto& p : *of)
        if (p->alive) all += fmt::format(" {} ({} launches are not done)", p->name, gpu_.unfinished(p->pid));
    return all;
  }

  /// The dead are forgotten, and the service rests where it has nothing to do.
  void look() {
    if (!served_->alive || served_->stopped || stage_.service() == nullptr) return;
    for (const auto& f : served_->files) {
      if (f == nullptr || f->kind != File::Kind::end) continue;
      const auto of = f->of.lock();
      if (of != nullptr && !of->alive && machine_.now() > std::max(of->ended_at, runs_since_) + kSeen)
        machine_.wrong(fmt::format("{} (pid {}) has ended, and the service has not seen it", of->name, of->pid));
    }
    for (const auto& f : served_->files)
      if (f != nullptr && f->kind == File::Kind::end && !f->welcomed && machine_.now() > std::max(f->came, runs_since_) + limits::kHello + kSeen)
        machine_.wrong("a connection that says nothing is kept");
    const std::uint64_t calls = machine_.count("accept");
    if (calls - calls_ > 2000) machine_.wrong(fmt::format("{} calls of accept within 50 ms", calls - calls_));
    calls_ = calls;
  }

  void end() {
    ends_ = true;
    if (!served_->alive) {
      for (Ns at = machine_.now(); (!served_->alive || stage_.service() == nullptr) && machine_.wrong().empty();) machine_.run(at += 50ms);
    }
    if (served_->stopped) machine_.go_on(*served_);
    runs_since_ = machine_.now();
    machine_.run(machine_.now() + 1500ms);
    look();
    if (!machine_.wrong().empty() || stage_.service() == nullptr) return;
    if (stage_.service()->programs() != 0 || !stage_.service()->books().state().empty()) machine_.wrong("all have ended, and the books are not empty");
    const auto open = std::ranges::count_if(served_->files, [](const auto& f) { return f != nullptr; });
    if (open > 5) machine_.wrong(fmt::format("all have ended, and the service has {} descriptors", open));  // three that each process has, its socket, one to spare
    if (!stage_.service()->books().idle()) machine_.wrong("all have ended, and something is pending or on the GPU");
    if (records_ && random_.one_in(8)) decide_again();
  }

  /// What the service recorded leads to the same decisions.
  void decide_again() {
    static const TemporaryFolder folder("world-recording");
    const std::filesystem::path file = folder.path() / "recording.jsonl";
    {
      std::ofstream out(file);
      stage_.service()->recording()->write(out);
    }
    if (const std::string other = live::replay(file.string(), sim::small_gpu(4)).difference; !other.empty()) machine_.wrong("a recording leads to other decisions: " + other);
    ++machine_.count("decided again");
    std::filesystem::remove(file);
  }

  static Ns overlap(Ns a, Ns b, Ns c, Ns d) { return std::max(Ns{}, std::min(b, d) - std::max(a, c)); }

  /// What others had of the GPU in this time, and what befell them, explains so much of it.
  Ns explained(int pid, Ns from, Ns until, const Launch* self) const {
    const Ns moves = units_ != 0 ? kMoves : 0s;
    Ns all = units_ != 0 ? kTurns : kLonger;
    if (until - from <= all) return all;
    for (const Launch& other : gpu_.ledger())
      if (&other != self && other.begun != kForever) {
        const Ns both = overlap(from, until, other.begun, other.ended != kForever ? other.ended : machine_.now());
        // Its own it may wait for, and for the memory of a kernel that runs.
        all += 1ms + (other.pid == pid || units_ != 0 ? both : std::min<Ns>(both, limits::kOnGpu));
      }
    for (const Excuse& e : excuses_) all += std::min(e.longest + moves, overlap(from, until, e.from, e.until + moves));
    for (const Excuse& e : own_stops_)
      if (e.pid == pid) all += overlap(from, until, e.from, e.until);
    return all;
  }

  /// Each launch, and each call that waits for memory, was held for no longer.
  void look_at_holds() {
    const auto ms = [](Ns time) { return time.count() / 1'000'000; };
    std::map<std::pair<int, std::uint32_t>, Ns> last;
    for (const Launch& l : gpu_.ledger()) {
      if (l.pid == 0 || l.captured) continue;
      Ns& before = last[{l.pid, l.stream}];
      const Ns from = std::max(l.asked, before);
      if (l.ended != kForever) before = l.ended;
      if (l.said != CUDA_SUCCESS || l.begun == kForever || l.answered == kForever) continue;
      if (const Ns allowed = explained(l.pid, from, l.begun, &l); l.begun - from > allowed)
        return machine_.wrong(fmt::format("launch {} of {}, number {} of stream {}, was held for {} ms from {} ms on; {} ms are explained", &l - gpu_.ledger().data(), l.pid,
                                          l.number, l.stream, ms(l.begun - from), ms(from), ms(allowed)));
    }
    if (policy_ == "memory-wait") return;  // an allocation may wait there for as long as another lives
    for (const DeviceMemory::Call& c : stage_.memory.calls)
      if (const Ns allowed = explained(c.pid, c.from, c.until, nullptr); c.until - c.from > allowed)
        return machine_.wrong(fmt::format("a call of {} was held for {} ms from {} ms on; {} ms are explained", c.pid, ms(c.until - c.from), ms(c.from), ms(allowed)));
  }

  Stage stage_;
  Machine& machine_ = stage_.machine;
  Gpu& gpu_ = stage_.gpu;
  std::shared_ptr<Process>& served_ = stage_.served;
  Random random_;
  std::string policy_;
  std::uint32_t in_flight_ = 64;
  std::uint32_t units_ = 0;
  std::vector<std::shared_ptr<Process>> programs_, others_;
  std::vector<Excuse> excuses_, own_stops_;
  Ns runs_since_{}, failed_until_{};
  bool records_ = false;
  std::uint64_t calls_ = 0;
  bool ends_ = false;
};

}  // namespace

Outcome play(std::uint64_t seed, const Plants& plants, bool tells) { return World(seed, plants, tells).play(); }

}  // namespace corun::world
