// Programs that launch in several streams at random, and come and go, on a GPU that is as strict as one can be: each launch of a
// program that runs ahead begins when those before it have ended, whatever their streams, as where each waits for an event of the
// one before, or all are in one hardware channel.  Does each launch that was asked for end, and is none granted out of its turn?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "policies/service/books.h"
#include "hw/live/wire.h"
#include "tests/support/build.h"

namespace corun::live {
namespace {

class RandomLaunches {
 public:
  RandomLaunches(const char* policy, bool persistent, unsigned seed)
      : books_(policy, sim::small_gpu(4), {.in_flight = 8, .persistent = persistent}), persistent_(persistent), random_(seed) {
    for (std::uint32_t k = 0; k < kKernelsUsed; ++k) {
      kernels_[k].grid = {8 + 40 * k, 1, 1}, kernels_[k].block = {256, 1, 1};
      kernels_[k].registers_per_thread = 32, kernels_[k].dynamic_shared_memory_bytes = k % 2 * (16u << 10);
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      if (!programs_.empty() && below(300) == 0) leave(below(static_cast<std::uint32_t>(programs_.size())));
      if (programs_.size() < 3 || (programs_.size() < 5 && below(200) == 0)) join();
      ask(*programs_[below(static_cast<std::uint32_t>(programs_.size()))]);
      step();
    }
  }
  /// Nobody asks for more.
  void end() {
    for (int i = 0; i < 20'000 && !all_ended() && !testing::Test::HasFailure(); ++i) step();
    EXPECT_TRUE(all_ended()) << "a launch waits for good";
    EXPECT_TRUE(testing::Test::HasFailure() || books_.idle());
  }
  std::uint64_t ended() const { return ended_; }
  std::uint64_t stops() const { return stops_; }

 private:
  static constexpr std::uint32_t kKernelsUsed = 6, kStreamsUsed = 4;
  struct Launch {
    std::uint32_t stream = 0, number = 0, attempts = 0, attempt = 0;
    bool refused = false, granted = false;
    Time begun = kNever, takes{};
  };
  struct Words {  // of a stream, as the GPU and the service see them
    std::uint32_t asked = 0, granted = 0, resumed = 0, stop = 0, workers = 0, ordered = 0;
    std::uint32_t ended = 0, seen = 0, left = 0;  // left: the attempt that was stopped
  };
  struct Program {
    std::uint32_t client = 0;
    bool ahead = false;
    std::map<std::uint32_t, Words> words{};
    std::deque<Launch> asked{};  // not ended, in the order of asking
  };

  std::uint32_t below(std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random_); }
  static Time us(std::int64_t n) { return sim::us(n); }

  void join() {
    const bool real_time = below(3) == 0;
    auto self = ClientState{}.self;
    self.name = "any", self.service_class = real_time ? ServiceClass::real_time : ServiceClass::best_effort, self.priority = real_time ? -5 : 0;
    if (real_time && below(2) == 0) self.reservation = 0.25;
    if (!real_time && below(2) == 0) self.quota = 0.5;
    auto p = std::make_unique<Program>();
    p->client = books_.join(self);
    p->ahead = books_.in_flight(p->client) != 0;
    programs_.push_back(std::move(p));
  }
  void leave(std::uint32_t at) {
    books_.leave(programs_[at]->client);
    programs_.erase(programs_.begin() + at);
  }
  void ask(Program& p) {
    for (std::uint32_t n = below(6); n > 0; --n) {
      Launch l{.stream = below(kStreamsUsed)};
      Words& w = p.words[l.stream];
      // A host that waits for each grant has one of a stream at a time; another may be so far ahead.
      if (w.asked - w.granted >= (p.ahead ? 8u : 1u)) continue;
      l.number = ++w.asked;
      if (persistent_ && p.ahead && below(2) == 0) l.attempts = 2 + below(kMostAttempts - 1);
      l.takes = us(1 + below(below(4) == 0 ? 3000 : 100));
      l.refused = p.ahead && below(40) == 0;
      p.asked.push_back(l);
      Kernel& kernel = kernels_[below(kKernelsUsed)];
      books_.asked(p.client, l.stream, l.number, kernel, now_, l.attempts);
      if (l.refused) books_.failed(p.client, l.stream, l.number, now_);
    }
    if (below(3) == 0) books_.waits(p.client);
  }
  bool may_begin(const Launch& l, const Words& w) const {
    return l.attempt == 0 ? reached(w.granted, l.number) : reached(w.resumed, attempt_of(l.number, l.attempt));
  }
  /// Until it waits: what the GPU has done of a program.
  void run_gpu(Program& p) {
    std::map<std::uint32_t, bool> waits;
    for (auto at = p.asked.begin(); at != p.asked.end();) {
      Launch& l = *at;
      Words& w = p.words[l.stream];
      if (waits[p.ahead ? 0 : l.stream]) {
        ++at;
        continue;
      }
      bool& is_done_for_now = waits[p.ahead ? 0 : l.stream];
      is_done_for_now = true;
      if (!may_begin(l, w)) {
        ++at;
        continue;
      }
      if (l.refused) {
        at = p.asked.erase(at);
        is_done_for_now = false;
        continue;
      }
      const bool stops = l.attempt + 1 < l.attempts;
      if (l.begun == kNever) {
        l.begun = now_;
        EXPECT_TRUE(!stops || !books_.sizes() || w.workers != 0) << "its workers find no quotas";
      }
      if (stops && w.stop == attempt_of(l.number, l.attempt)) {
        l.takes = std::max(us(1), l.takes - (now_ - l.begun)), l.begun = kNever;
        w.left = attempt_of(l.number, l.attempt++);
        ++stops_;
      } else if (now_ - l.begun >= l.takes) {
        w.ended = l.number;
        ++ended_;
        at = p.asked.erase(at);
        is_done_for_now = false;
        continue;
      }
      ++at;
    }
  }
  /// The service sees some of it, stream by stream in any order.
  void look(Program& p) {
    for (auto& [stream, w] : p.words) {
      if (below(3) == 0) continue;
      if (w.ordered != 0 && (w.left == w.ordered || reached(w.ended, w.ordered / 8))) {
        const bool stopped = !reached(w.ended, w.ordered / 8);
        const std::uint32_t of = std::exchange(w.ordered, 0u);
        if (stopped) books_.stopped(p.client, stream, of / 8, 1, now_);
      }
      if (w.ended != w.seen) books_.ended(p.client, stream, w.seen = w.ended, now_);
    }
  }
  void step() {
    const Time wish = books_.next_wish();
    now_ += wish != kNever && wish > now_ && below(2) == 0 ? std::min(wish - now_, us(100)) : us(1 + below(60));
    for (const auto& p : programs_) run_gpu(*p), look(*p);
    granted_.clear();
    books_.decide(now_, granted_);
    for (const Granted& g : granted_) grant(g);
  }
  void grant(const Granted& g) {
    const auto at = std::ranges::find_if(programs_, [&](const auto& p) { return p->client == g.client; });
    if (at == programs_.end()) return;
    Program& p = **at;
    Words& w = p.words[g.stream];
    const std::uint32_t attempt = attempt_of(g.number, g.attempt);
    if (g.stop || !g.ctas_per_sm.empty()) w.ordered = attempt;
    if (g.stop) return void(w.stop = attempt);
    if (!g.ctas_per_sm.empty()) w.workers = std::accumulate(g.ctas_per_sm.begin(), g.ctas_per_sm.end(), 0u);
    if (g.resize) return;
    const auto of = std::ranges::find_if(p.asked, [&](const Launch& l) { return l.stream == g.stream && l.number == g.number; });
    ASSERT_NE(of, p.asked.end()) << "it has ended";
    for (auto before = p.asked.begin(); p.ahead && before != of; ++before) EXPECT_TRUE(before->granted) << "it is granted before one that came earlier";
    of->granted = true;
    if (g.attempt != 0) return void(w.resumed = attempt);
    EXPECT_EQ(w.granted + 1, g.number) << "of its stream";
    w.granted = g.number;
  }
  bool all_ended() const {
    return std::ranges::all_of(programs_, [](const auto& p) {
      return p->asked.empty() && std::ranges::all_of(p->words, [](const auto& each) { return each.second.seen == each.second.ended; });
    });
  }

  Books books_;
  bool persistent_;
  std::mt19937 random_;
  Kernel kernels_[kKernelsUsed];
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<Granted> granted_;
  Time now_{};
  std::uint64_t ended_ = 0, stops_ = 0;
};

struct Served {
  const char* policy;
  bool persistent;
};
class EachPolicy : public testing::TestWithParam<Served> {};

TEST_P(EachPolicy, EachLaunchEndsAndNoneGoesBeforeItsTurn) {
  std::uint64_t ended = 0, stops = 0;
  for (unsigned seed = 0; seed < 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomLaunches all(GetParam().policy, GetParam().persistent, seed);
    all.run(600);
    all.end();
    ended += all.ended(), stops += all.stops();
  }
  EXPECT_GT(ended, 10'000u);
  EXPECT_TRUE(!GetParam().persistent || stops > 50) << stops;
}
INSTANTIATE_TEST_SUITE_P(Policies, EachPolicy,
                         testing::Values(Served{"wait", false}, Served{"wait", true}, Served{"wait:beside=on,backfill=on", true}, Served{"reef-n", false},
                                         Served{"reef-n", true}, Served{"smguard", true}, Served{"smguard:restore=no", true}),
                         [](const auto& each) { return fmt::format("number_{}", each.index); });

}  // namespace
}  // namespace corun::live
