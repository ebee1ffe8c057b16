// Does `sim serve --policy=flexgpu` keep the memory of programs that know nothing of it below a cap, and is what they find
// there what they left there?  The driver is a fake, whose memory cannot be touched while it is away.
#include "tests/hw/live/live.h"

namespace corun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LiveMemory : public Live {
 protected:
  static constexpr std::uint64_t kMib = 1 << 20;

  template <class... Options>
  void serve_memory(int mib, const Options&... options) {
    setenv("CORUN_FAKE_MEMORY", (folder_ / "memory").c_str(), 1);
    serve("flexgpu", fmt::format("--memory={}MiB", mib), options...);
  }
  std::string allocates(const std::string& program, const std::string& options = {}) const {
    return joins(program, options, CORUN_MEMORY_PROGRAM);
  }
  /// What is on the device of all processes that live, and the most that there was.
  std::pair<std::uint64_t, std::uint64_t> on_device() const {
    std::pair<std::uint64_t, std::uint64_t> bytes;
    std::ifstream in(folder_ / "memory", std::ios::binary);
    in.read(reinterpret_cast<char*>(&bytes.first), 8), in.read(reinterpret_cast<char*>(&bytes.second), 8);
    return bytes;
  }
  /// What the service says when it ends.
  nlohmann::json ended() {
    end_service(SIGTERM);
    const std::string text = served();
    const std::size_t begin = text.find("{\n");
    return begin != std::string::npos ? nlohmann::json::parse(text.substr(begin))
                                      : nlohmann::json{{"said", text}};
  }
};

class EachProgram : public LiveMemory, public testing::WithParamInterface<const char*> {};

TEST_P(EachProgram, ThreeThatEachWantHalfOfTheCapCompleteWithWhatTheyLeftInMemoryAndTheCapIsKept) {
  serve_memory(32);
  files::create_directory(folder_ / "allocated");
  const std::string program = fmt::format("{} 16 4 200 {} 3", GetParam(), (folder_ / "allocated").string());
  const Ran all = shell(allocates(program, "--name a") + " & " + allocates(program, "--name b") + " & " +
                          allocates(program, "--name c") + "; wait");
  int done = 0;
  for (std::size_t at = 0; (at = all.out.find("wrong 0\ndone", at)) != std::string::npos; ++at) ++done;
  EXPECT_EQ(done, 3) << all.out;
  const auto [now, most] = on_device();
  EXPECT_EQ(now, 0u);
  EXPECT_LE(most, 32 * kMib);
  EXPECT_GT(most, 16 * kMib) << "two are there at a time";
  // The service hears of the end of the last one a little later than the shell that waits for it.
  EXPECT_TRUE(comes([this] { return state()["memory"]["used_bytes"] == 0; }));
  const nlohmann::json state = ended();
  EXPECT_GE(state["memory"]["checkpoints"], 4) << "of blocks of 4 MiB: a third program's 16, as none ends before it has them";
  EXPECT_EQ(state["memory"]["peak_bytes"], most);
  EXPECT_EQ(state["memory"]["used_bytes"], 0);
}
INSTANTIATE_TEST_SUITE_P(Ways, EachProgram, testing::Values("plain", "frees"),
                         [](const auto& way) { return std::string(way.param); });

TEST_F(LiveMemory, AProgramAloneIsNeverMoved) {
  serve_memory(16);
  EXPECT_THAT(shell(allocates("plain 16 4", "--name one")).out, HasSubstr("wrong 0\ndone"));
  EXPECT_EQ(ended()["memory"]["checkpoints"], 0);
}

TEST_F(LiveMemory, MoreThanTheCapIsAnsweredByOutOfMemoryAndTheProgramGoesOn) {
  serve_memory(16);
  EXPECT_THAT(shell(allocates("beyond 8 2", "--name one")).out,
              AllOf(HasSubstr("beyond 2\n"), HasSubstr("wrong 0\ndone")));
  EXPECT_THAT(shell(allocates("plain 20 2", "--name one")).out, HasSubstr("allocate failed: 2"))
      << "in blocks, each of which it may have";
  EXPECT_LE(on_device().second, 16 * kMib);
}

TEST_F(LiveMemory, WhereTheDriverHasLessThanTheCapTheProgramIsToldSo) {
  setenv("CORUN_FAKE_LIMIT", std::to_string(12 * kMib).c_str(), 1);
  serve_memory(16);
  const Ran ended = shell(allocates("plain 16 2", "--name one"));
  files::remove(folder_ / "memory");  // what counts, for it cannot see that a process has ended
  EXPECT_THAT(shell(allocates("plain 12 2", "--name two")).out, HasSubstr("done"))
      << "nothing is left of the first";
  unsetenv("CORUN_FAKE_LIMIT");
  EXPECT_THAT(ended.out, HasSubstr("allocate failed: 2"));
}

TEST_F(LiveMemory, WhatTheDriverSaysOfMemoryIsRightAndWhatCannotBeSteeredIsPassedAndCounted) {
  serve_memory(64);
  files::create_directory(folder_ / "seen");
  Ran ended;
  std::thread looks([&] { ended = shell(allocates(fmt::format("tells 32 2 100 {} 2", (folder_ / "seen").string()), "--name one")); });
  EXPECT_TRUE(comes([&] {
    const nlohmann::json one = program("one");
    return !one.is_null() && one["memory"]["passed"] == 2;
  }));
  EXPECT_THAT(shell(fmt::format("{} top --at {}", sim(), at())).out, HasSubstr("32 MiB of 64 are in use"));
  const std::ofstream seen(folder_ / "seen/by this");
  looks.join();
  EXPECT_THAT(ended.out, HasSubstr("left 32 of 64 MiB, range 1 4194304\n"));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("shared 801\n"), HasSubstr("--own-memory")))
      << "CUDA_ERROR_NOT_SUPPORTED, and why";
  EXPECT_THAT(ended.out, HasSubstr("wrong 0\ndone"));
  const Ran own = shell(allocates("tells 32 2", "--name one --own-memory"));
  EXPECT_THAT(own.out,
              AllOf(HasSubstr("shared 0\n"), HasSubstr("of 81920 MiB"), Not(HasSubstr("own-memory"))));
}

TEST_F(LiveMemory, MemoryIsFreedAndMovedAfterCapturesInWhicheverWayTheyBeganAndEnded) {
  serve_memory(16);
  const Ran both = shell(allocates("captures 12 3 200", "--name one") + " & " + allocates("plain 12 3 200", "--name two") + "; wait");
  EXPECT_THAT(both.out, HasSubstr("left as before 1\n"));
  EXPECT_NE(both.out.find("wrong 0\ndone"), both.out.rfind("wrong 0\ndone")) << both.out;
}

TEST_F(LiveMemory, TheMemoryOfAProgramThatSeesSeveralDevicesIsItsOwn) {
  serve_memory(16);
  EXPECT_THAT(shell("CORUN_FAKE_DEVICE=0 " + allocates("plain 24 2", "--name one")).out,
              HasSubstr("wrong 0\ndone"));
  EXPECT_EQ(ended()["memory"]["peak_bytes"], 0);
}

TEST_F(LiveMemory, ACapUnderAPolicyThatDecidesNothingAboutMemoryIsRefused) {
  const Ran ended =
      shell(fmt::format("{} serve --policy=wait --memory=1GiB --gpu=h200 --no-mps --at {}", sim(), at()));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("policy wait decides nothing about memory"));
}

}  // namespace
}  // namespace corun
