// Are long kernels of programs that bring their PTX stopped at a block for a real-time request, and does each
// of their blocks run once?  The fake driver plays the worker; that the worker itself does so on a GPU is
// `measure_gpu ptx`.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "tests/hw/live/live.h"

namespace corun {
namespace {

using testing::HasSubstr;
using testing::Not;

class Stops : public Live {
 protected:
  /// `way` launches kernels of 40 ms beside requests of 2 ms, which begin when it has told the service how
  /// long one takes, and until all of them have ended: how soon a request's program starts is the machine's.
  Ended beside_requests(const std::string& way) {
    Ended work;
    const std::string enough = (folder_ / "enough").string();
    files::remove(enough);
    std::thread first(
        [&] { work = shell(joins(fmt::format("{} 8 40000 2 {}", way, enough), "--name work")); });
    EXPECT_TRUE(comes([&] { return std::ranges::count(kernels(), "work", &Kernel::program) >= 2; }));
    EXPECT_TRUE(comes([&] { return !program("work").is_null(); })) << "the work did not join";
    std::thread looks([&] {
      for (; !there_is_no_more_; std::this_thread::sleep_for(std::chrono::milliseconds(20)))
        if (const nlohmann::json now = program("work"); !now.is_null() && now.contains("stoppable"))
          last_ = now["stoppable"];
    });
    for (int i = 0; i < 4; ++i) {
      shell(joins("dlsym 3 2000 3", "--name cam --class=real_time"));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::ofstream{enough};
    first.join();
    there_is_no_more_ = true;
    looks.join();
    if (const std::size_t at = work.said.find("done "); at != std::string::npos) launches_ = std::stoul(work.said.substr(at + 5));
    return work;
  }
  std::vector<Kernel> of(const std::string& name) const {
    std::vector<Kernel> all;
    for (const Kernel& k : kernels())
      if (k.program == name) all.push_back(k);
    return all;
  }
  /// Whether nothing of the program ran for so long that its request ended (Books::kQuiet), as where a sanitizer slows its calls.
  static bool in_a_pause(long long ns, const std::vector<Kernel>& of) {
    for (std::size_t i = 0; i + 1 < of.size(); ++i)
      if (ns > of[i].end && ns < of[i + 1].begin && of[i + 1].begin - of[i].end > 100'000) return true;
    return false;
  }
  /// 0 where the service said nothing of it.
  int stoppable(const char* what) const { return last_.is_object() ? last_.value(what, 0) : 0; }
  std::atomic<bool> there_is_no_more_{false};
  std::size_t launches_ = 0;  // of the work
  nlohmann::json last_;
};

class EachImage : public Stops, public testing::WithParamInterface<const char*> {};

TEST_P(EachImage, ALongKernelStopsForARequestAndGoesOnWhereItWas) {
  serve("wait", "--persistent");
  const Ended ended = beside_requests(GetParam());
  EXPECT_THAT(ended.said, testing::AllOf(HasSubstr("counted\n"), Not(HasSubstr("refused"))))
      << "each block once a launch";
  EXPECT_GE(launches_, 8u);
  ASSERT_TRUE(last_.is_object()) << "the service did not say what was stopped\n" << ended.said;
  const std::vector<Kernel> work = of("work"), cam = of("cam");
  ASSERT_EQ(cam.size(), 12u);
  EXPECT_GT(work.size(), launches_) << "some launches were several pieces";
  for (std::size_t r = 0; r < 4; ++r)
    for (const Kernel& k : work)
      EXPECT_FALSE(k.begin > cam[3 * r].begin && k.begin < cam[3 * r + 2].end && !in_a_pause(k.begin, cam))
          << "a piece began within request " << r;
  EXPECT_GE(stoppable("stops"), 1) << last_.dump();
  EXPECT_EQ(stoppable("kernels"), 1);
  EXPECT_GE(stoppable("launches"), 3) << last_.dump();
}
INSTANTIATE_TEST_SUITE_P(Images, EachImage, testing::Values("ptx", "ptx-extra", "fat", "fat-lz4", "fat-zstd", "fat-static", "library", "kernel"),
                         [](const auto& way) {
                           std::string name = way.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_F(Stops, TheLibraryBringsNoneOfWhatDecompressesIntoAProgram) {
  const std::string library = (files::path(sim()).parent_path() / "libcorun_steer.so").string();
  const std::string needs = shell("readelf -d " + library).said, shows = shell("readelf -W --dyn-syms " + library + " | grep -v UND").said;
  EXPECT_THAT(needs, testing::AllOf(HasSubstr("Shared library"), Not(HasSubstr("liblz4")), Not(HasSubstr("libzstd"))));
  EXPECT_THAT(shows, testing::AllOf(HasSubstr("cuModuleLoadData"), Not(HasSubstr("LZ4_")), Not(HasSubstr("ZSTD_"))));
}

TEST_F(Stops, TheServiceKnowsWhatAKernelNeedsHoweverItIsLaunched) {
  for (const char* way : {"library", "kernel"}) {
    const std::string file = (folder_ / way).string();
    serve("wait", "--record=" + file);
    EXPECT_THAT(shell(joins(fmt::format("{} 1 1000", way))).said, HasSubstr("done 1"));
    end_service(SIGINT);
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line) && !line.starts_with("{\"kernel\"")) {
    }
    const nlohmann::json kernel = nlohmann::json::parse(line);
    EXPECT_EQ(kernel["registers"], 32) << way;
    EXPECT_EQ(kernel["name"], "busy") << way;
  }
}

TEST_F(Stops, WithoutTheOptionOrWhereThePtxCannotBeReadKernelsRunToTheirEnds) {
  serve("wait");
  EXPECT_THAT(beside_requests("ptx").said, HasSubstr("counted\n"));
  EXPECT_EQ(of("work").size(), launches_);
  end_service(SIGTERM);
  files::remove(log());
  there_is_no_more_ = false;
  serve("wait", "--persistent");
  EXPECT_THAT(beside_requests("fat-unreadable").said, HasSubstr("counted\n"));
  EXPECT_EQ(of("work").size(), launches_);
  EXPECT_EQ(stoppable("unreadable"), 1);
  EXPECT_EQ(last_["launches"], 0);
}

TEST_F(Stops, ARealTimeProgramsKernelsStayPlain) {
  serve("wait", "--persistent");
  EXPECT_THAT(shell(joins("ptx 4 20000 2", "--name cam --class=real_time")).said, HasSubstr("counted\n"));
  EXPECT_EQ(of("cam").size(), 4u);
}

TEST_F(Stops, AStreamThatIsDestroyedLeavesItsPlaceToAnother) {
  serve("wait", "--persistent");
  std::thread work(
      [&] { EXPECT_THAT(shell(joins("streams 300 100", "--name work")).said, HasSubstr("done 300")); });
  EXPECT_TRUE(comes([&] {
    const nlohmann::json now = program("work");
    return !now.is_null() && now["launches"] == 300;
  }));
  EXPECT_EQ(program("work")["unsteered"], 0);
  work.join();
}

TEST_F(Stops, WhatWasStoppedGoesOnWhenTheServiceIsKilled) {
  serve("wait", "--persistent");
  const std::string enough = (folder_ / "enough").string();
  std::thread killer([&] {
    EXPECT_TRUE(comes([&] {
      const nlohmann::json now = program("work");
      return !now.is_null() && now["stoppable"]["launches"] >= 1;
    }));
    std::atomic<bool> stopped{false};
    std::thread cam([&] {  // again, where its launch fell between two of the work's
      while (!stopped) shell(joins("dlsym 1 400000", "--name cam --class=real_time"));
    });
    EXPECT_TRUE(comes([&] {
      const nlohmann::json now = program("work");
      return !now.is_null() && now["stoppable"]["stops"] >= 1;
    }));
    stopped = true;
    kill(service_, SIGKILL);
    cam.join();
    std::ofstream{enough};
  });
  const Ended ended = shell(joins("ptx 8 40000 2 " + enough, "--name work"));
  killer.join();
  EXPECT_THAT(ended.said, testing::AllOf(HasSubstr("the service has ended"), HasSubstr("done "), HasSubstr("counted\n")));
}

}  // namespace
}  // namespace corun
