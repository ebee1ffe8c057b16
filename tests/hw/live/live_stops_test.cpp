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
  /// `way` launches kernels of 8 ms, one after the other, beside requests of 6 ms, which begin when it has told the service how
  /// long one takes, and come until three launches have ended and one was several pieces, if one is to be.
  Ran beside_requests(const std::string& way, bool stops) {
    Going working = going(fmt::format("{} 1 8000 1", way), "--name work");
    EXPECT_TRUE(comes([&] { return of("work").size() >= 2; }));
    const auto in_pieces = [&] {
      const std::size_t pieces = of("work").size();
      last_ = program("work").value("stoppable", nlohmann::json());
      return stoppable("stops") >= 1 && stoppable("launches") >= 1 && stoppable("of") >= 3 && pieces > last_["of"].get<std::size_t>() + 1;
    };
    for (requests_ = 0; requests_ < 2 || (stops && requests_ < 100 && !in_pieces()); ++requests_)
      shell(joins("dlsym 3 2000 3", "--name cam --class=real_time"));
    (void)in_pieces();
    const Ran work = working.end();
    if (const std::size_t at = work.out.find("done "); at != std::string::npos) launches_ = std::stoul(work.out.substr(at + 5));
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
  std::size_t requests_ = 0;
  std::size_t launches_ = 0;  // of the work
  nlohmann::json last_;
};

class EachImage : public Stops, public testing::WithParamInterface<const char*> {};

TEST_P(EachImage, ALongKernelStopsForARequestAndGoesOnWhereItWas) {
  serve("wait", "--persistent");
  const Ran ended = beside_requests(GetParam(), true);
  EXPECT_THAT(ended.out, testing::AllOf(HasSubstr("counted\n"), Not(HasSubstr("refused"))))
      << "each block once a launch";
  EXPECT_GE(launches_, 4u);
  ASSERT_TRUE(last_.is_object()) << "the service did not say what was stopped\n" << ended.out;
  const std::vector<Kernel> work = of("work"), cam = of("cam");
  ASSERT_EQ(cam.size(), 3 * requests_);
  EXPECT_GT(work.size(), launches_) << "some launches were several pieces";
  for (std::size_t r = 0; r < requests_; ++r)
    for (const Kernel& k : work)
      EXPECT_FALSE(k.begin > cam[3 * r].begin && k.begin < cam[3 * r + 2].end && !in_a_pause(k.begin, cam))
          << "a piece began within request " << r;
  EXPECT_GE(stoppable("stops"), 1) << last_.dump();
  EXPECT_EQ(stoppable("kernels"), 1);
}
INSTANTIATE_TEST_SUITE_P(Images, EachImage, testing::Values("ptx", "ptx-extra", "fat", "fat-lz4", "fat-zstd", "fat-static", "library", "kernel"),
                         [](const auto& way) {
                           std::string name = way.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_F(Stops, TheLibraryBringsNoneOfWhatDecompressesIntoAProgram) {
  const std::string library = (files::path(sim()).parent_path() / "libcorun_steer.so").string();
  const std::string needs = shell("readelf -d " + library).out, shows = shell("readelf -W --dyn-syms " + library + " | grep -v UND").out;
  EXPECT_THAT(needs, testing::AllOf(HasSubstr("Shared library"), Not(HasSubstr("liblz4")), Not(HasSubstr("libzstd"))));
  EXPECT_THAT(shows, testing::AllOf(HasSubstr("cuModuleLoadData"), Not(HasSubstr("LZ4_")), Not(HasSubstr("ZSTD_"))));
}

TEST_F(Stops, TheServiceKnowsWhatAKernelNeedsHoweverItIsLaunched) {
  for (const char* way : {"library", "kernel"}) {
    const std::string file = (folder_ / way).string();
    serve("wait", "--record=" + file);
    EXPECT_THAT(shell(joins(fmt::format("{} 1 1000", way))).out, HasSubstr("done 1"));
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
  EXPECT_THAT(beside_requests("ptx", false).out, HasSubstr("counted\n"));
  EXPECT_EQ(of("work").size(), launches_);
  end_service(SIGTERM);
  files::remove(log());
  serve("wait", "--persistent");
  EXPECT_THAT(beside_requests("fat-unreadable", false).out, HasSubstr("counted\n"));
  EXPECT_EQ(of("work").size(), launches_);
  EXPECT_EQ(stoppable("unreadable"), 1);
  EXPECT_EQ(last_["launches"], 0);
}

TEST_F(Stops, ARealTimeProgramsKernelsStayPlain) {
  serve("wait", "--persistent");
  EXPECT_THAT(shell(joins("ptx 4 20000 2", "--name cam --class=real_time")).out, HasSubstr("counted\n"));
  EXPECT_EQ(of("cam").size(), 4u);
}

TEST_F(Stops, WhatWasStoppedGoesOnWhenTheServiceIsKilled) {
  serve("wait", "--persistent");
  Going working = going("ptx 2 8000 2", "--name work");
  const auto has = [&](const char* what) { return comes([&] {
      const nlohmann::json now = program("work");
      return !now.is_null() && now["stoppable"][what] >= 1;
    }); };
  EXPECT_TRUE(has("launches"));
  Going cam = going("dlsym 1 100000 1", "--name cam --class=real_time");
  EXPECT_TRUE(has("stops"));
  end_service(SIGKILL);
  cam.end();
  const Ran ended = working.end();
  EXPECT_THAT(ended.out, testing::AllOf(HasSubstr("the service has ended"), HasSubstr("done "), HasSubstr("counted\n")));
}

}  // namespace
}  // namespace corun
