// Does what the books of a service were told lead to the same decisions again, and is another decision noticed?
#include "hw/live/beside.h"
#include "hw/live/recording.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <iterator>
#include <sstream>
#include <thread>

#include "sim/forecast/forecast.h"
#include "tests/hw/live/random_memory.h"
#include "tests/support/build.h"
#include "tests/support/replaced.h"
#include "traces/json/temporary_folder.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

using testing::HasSubstr;

/// Programs that come, launch, wait, fail and go at random; what is granted ends some time later.
std::string run(const std::string& policy, unsigned seed, int steps, BooksOptions options = {}) {
  const bool in_attempts = options.persistent;
  Books books(policy, sim::small_gpu(4), std::move(options));
  const Recording recording(books);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  struct There {
    std::uint32_t client;
    std::deque<Kernel> kernels = std::deque<Kernel>(3);
    std::array<std::uint32_t, 2> asked{}, granted{}, ended{};
  };
  std::vector<std::unique_ptr<There>> there;
  std::vector<Granted> granted;
  Time now{};
  for (int i = 0; i < steps; ++i, now += sim::us(1 + below(40))) {
    if (there.size() < 2 || (there.size() < 4 && below(200) == 0)) {
      const bool real_time = there.size() % 2 == 1;
      there.push_back(std::make_unique<There>());
      there.back()->client = books.join({real_time ? "cam" : "work", real_time ? ServiceClass::real_time : ServiceClass::best_effort, real_time ? -3 : 0});
      for (Kernel& k : there.back()->kernels) k.name = "some", k.grid = {1 + below(9), 1, 1};
      for (const auto& t : there) (void)books.standing(t->client);
    }
    const std::size_t whose = below(static_cast<std::uint32_t>(there.size()));
    There& t = *there[whose];
    const std::uint32_t stream = below(2), what = below(60);
    if (what == 0 && there.size() > 2) {
      books.leave(t.client);
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(whose));
    } else if (what < 25 && books.asks()) {
      books.asked(t.client, stream, ++t.asked[stream], t.kernels[below(3)], now, in_attempts ? below(4) : 0);
      if (what == 1) books.failed(t.client, stream, t.asked[stream], now);
    } else if (what < 30) {
      books.waits(t.client);
    } else if (t.granted[stream] != t.ended[stream]) {
      books.ended(t.client, stream, t.ended[stream] = t.granted[stream], now);
    }
    if (policy.starts_with("lookahead") && below(4) == 0) books.hear_forecast();
    granted.clear();
    books.decide(now, granted);
    for (const Granted& g : granted)
      for (const auto& each : there) {
        if (each->client != g.client) continue;
        each->granted[g.stream] = g.number;
        if (!g.stop || below(3) == 0) continue;  // it may end instead
        books.stopped(g.client, g.stream, g.number, below(100), now);
        each->granted[g.stream] = each->ended[g.stream];
      }
  }
  std::ostringstream out;
  recording.write(out);
  return out.str();
}

std::unique_ptr<ServiceForecast> forecast(const Gpu& gpu, const Requirements& needed) { return std::make_unique<ForecastBeside>(sim::make_forecast(gpu, needed)); }

class LiveRecording : public testing::Test {
 protected:
  hw::Replayed again(const std::string& text) {
    const std::string file = (folder_.path() / "recording.jsonl").string();
    std::ofstream(file) << text;
    return replay(file, sim::small_gpu(4), forecast);
  }
  TemporaryFolder folder_{"live-recording"};
};

TEST_F(LiveRecording, TheSameIsDecidedAgainOfWhatWasTold) {
  for (const char* policy : {"wait", "wait:beside=on", "wait:beside=on,backfill=on", "reef-n", "priority", "fcfs", "lookahead:budget_events=200", "lookahead:ways=now/hold,budget_events=200"})
    for (unsigned seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(std::string(policy) + " " + std::to_string(seed));
      BooksOptions options{.in_flight = seed % 2 * 64, .forecast = forecast};
      // Launches that can be stopped, where the policy stops some.
      const std::string name(policy);
      options.persistent = seed == 3 && (name.starts_with("wait") || name == "reef-n");
      const std::string text = run(policy, seed, 500, options);
      const hw::Replayed r = again(text);
      if (options.persistent) {
        EXPECT_THAT(text, testing::AllOf(HasSubstr("\"stop\":"), HasSubstr("\"stopped\":")));
      }
      EXPECT_EQ(r.difference, "");
      EXPECT_EQ(r.waits, 500u);
      EXPECT_GE(r.decisions, std::string(policy).starts_with("wait") ? 50u : 0u);
    }
}

TEST_F(LiveRecording, AnotherDecisionIsNoticed) {
  const std::string text = run("wait:beside=on", 1, 500);
  EXPECT_EQ(again(text).difference, "");
  const std::string other = replaced(text, R"(priority\":-3)", R"(priority\":-2)");
  ASSERT_NE(other, text);
  EXPECT_THAT(again(other).difference, HasSubstr("recorded"));
  const std::string policy = replaced(text, "wait:beside=on", "wait");
  EXPECT_NE(again(policy).difference, "");
}

TEST_F(LiveRecording, WhatIsDecidedAboutMemoryIsDecidedAgainOfProgramsAtRandom) {
  std::uint64_t checkpoints = 0;
  for (const char* policy : {"flexgpu", "flexgpu:patience=2,turn=4", "memory-wait"})
    for (unsigned seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(std::string(policy) + " " + std::to_string(seed));
      RandomMemory world(policy, seed, true);
      world.run(1000);
      std::ostringstream out;
      world.recording->write(out);
      const hw::Replayed r = again(out.str());
      EXPECT_EQ(r.difference, "");
      EXPECT_EQ(r.waits, 1000u);
      for (const char* what : {"allocates", "frees", "wants", "has", "touched"}) EXPECT_THAT(out.str(), HasSubstr(fmt::format("[\"{}\"", what)));
      if (policy == std::string("flexgpu")) {
        checkpoints += world.checkpoints();
        EXPECT_THAT(out.str(), HasSubstr("[\"moved\""));
        EXPECT_NE(again(replaced(out.str(), R"("memory":64)", R"("memory":72)")).difference, "");
      }
    }
  EXPECT_GT(checkpoints, 15u);
}

TEST_F(LiveRecording, OneThatIsFullEndsBehindAllThatCameOfWhatHappenedLast) {
  for (std::size_t most = 1; most < 60; ++most) {
    Recording kept("wait", sim::small_gpu(4), {}, most);
    kept.joined({"work", ServiceClass::best_effort, 0});
    while (!kept.full()) {
      kept.happened(Recording::What::decide, 0, 0, 0, sim::us(1));
      kept.told(sim::us(1), {WokeUp{}});
      kept.decided(decide::WakeAt{sim::us(2)});
    }
    EXPECT_EQ(kept.size() % 3, 1u);
    EXPECT_GE(kept.size(), most);
    EXPECT_LT(kept.size(), most + 3);
  }
}

TEST_F(LiveRecording, NoLineTakesLongerForThoseBeforeIt) {
  const auto cpu_us = [] {  // of this thread, so that others may run
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
  };
  Recording kept("wait", sim::small_gpu(4), {});
  double longest = 0;
  for (double before = cpu_us(); kept.size() < 300'000;) {
    kept.happened(Recording::What::decide, 0, 0, 0, sim::us(1));
    const double now = cpu_us();
    longest = std::max(longest, now - before);
    before = now;
  }
  EXPECT_LT(longest, 5000) << "us; in one vector a quarter of a million lines are moved at once";
}

TEST_F(LiveRecording, AFileHasEachLineWhileFurtherOnesAreMade) {
  Recording recording("wait", sim::small_gpu(2), {});
  const std::filesystem::path path = folder_.path() / "going.jsonl";
  RecordingFile file(recording, path.string());
  Kernel kernel;
  recording.joined({"one"});
  for (std::uint32_t i = 1; i <= 10'000; ++i) {  // over several parts
    kernel.name = "some";
    recording.asked(0, 0, i, kernel, sim::us(i), 0);
    recording.told(sim::us(i), {WokeUp{}});
    if (i % 3'000 == 0) recording.joined({"more"});
  }
  const auto lines = [&] {
    std::ifstream in(path);
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  };
  for (int i = 0; i < 1000 && lines() != recording.size() + 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(lines(), recording.size() + 1) << "before it ends";
  recording.joined({"last"});
  EXPECT_EQ(file.finish(), 0);
  std::ostringstream all;
  recording.write(all);
  std::ifstream in(path);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(in), {}) == all.str());
}

TEST_F(LiveRecording, AFullDiskIsToldOfAndTheRecordingGoesOn) {
  Recording recording("wait", sim::small_gpu(2), {});
  RecordingFile file(recording, "/dev/full");
  recording.joined({"one"});
  EXPECT_EQ(file.finish(), ENOSPC);
  EXPECT_EQ(recording.size(), 1u);
  EXPECT_THROW(RecordingFile(recording, (folder_.path() / "none/r.jsonl").string()), InputError);
}

TEST_F(LiveRecording, APartOfALineAtTheEndIsLeftOut) {
  const std::string whole = R"({"corun_recording":1,"of":"sim serve","policy":"wait","gpu":"small","ahead_ps":0,"in_flight":64,"programs":[],"memory":0,"persistent":false})"
                            "\n" R"({"join":"one","real_time":false,"priority":0})" "\n";
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  };
  EXPECT_EQ(replay(write("cut.jsonl", whole + R"({"t":12,"dec)").string(), sim::small_gpu(2)).difference, "");
  EXPECT_THROW((void)replay(write("wrong.jsonl", whole + "{\"t\":12,\"dec\n").string(), sim::small_gpu(2)), InputError);
}

TEST_F(LiveRecording, WhatIsNoRecordingIsRefused) {
  EXPECT_THROW(again("{}\n"), InputError);
  EXPECT_THROW(again("nonsense\n"), InputError);
  EXPECT_THROW(again(run("wait", 1, 5) + R"({"t":1,"asked":[0,0,1,77]})" + "\n"), InputError);
}

}  // namespace
}  // namespace corun::live
