// `sim serve`, `sim run` and a program as a shell starts them; the driver is a fake.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/hw/live/welcome.h"
#include "tests/support/shell.h"
#include "tests/support/sim_file.h"

namespace corun {

namespace files = std::filesystem;

class Live : public testing::Test {
 protected:
  Live() {
    std::string name = (files::temp_directory_path() / "corun-XXXXXX").string();
    folder_ = mkdtemp(name.data());
#ifdef CORUN_LIBRARY_BEFORE_SANITIZER
    // AddressSanitizer's runtime by default ends a program in which a library comes before it.
    const char* before = std::getenv("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS", fmt::format("{}:verify_asan_link_order=0", before != nullptr ? before : "").c_str(), 1);
#endif
#ifdef CORUN_FORKS_UNDER_SANITIZER
    // ThreadSanitizer's by default ends a child of a program with threads that begins threads of its own.
    const char* forks = std::getenv("TSAN_OPTIONS");
    setenv("TSAN_OPTIONS", fmt::format("{}:die_after_fork=0", forks != nullptr ? forks : "").c_str(), 1);
#endif
  }
  ~Live() override {
    if (service_ > 0) end_process(service_, SIGKILL);
    files::remove_all(folder_);
  }

  static std::string sim() { return sim_file(); }
  std::string at() const { return (folder_ / "service").string(); }
  std::string log() const { return (folder_ / "log").string(); }

  template <class... Options>
  void serve(const std::string& policy, const Options&... options) {
    service_ = started({sim(), "serve", "--policy=" + policy, "--gpu=h200", "--no-mps", "--at", at(), std::string(options)...}, (folder_ / "served").string());
    ASSERT_TRUE(comes([this] { return is_there(); }));
  }
  bool is_there() const { return files::exists(at() + "/environment"); }
  std::string served() const { return text_of(folder_ / "served"); }
  static std::string text_of(const files::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void end_service(int signal) {
    end_process(std::exchange(service_, -1), signal);
  }
  static std::size_t times(const std::string& what, const std::string& text) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  }
  /// A shell's words for a program that joins.
  std::string joins(const std::string& program, const std::string& options = {},
                    const char* which = CORUN_STEERED_PROGRAM) const {
    return fmt::format("LD_LIBRARY_PATH={} CORUN_FAKE_LOG={} {} run --at {} {} -- {} {}", CORUN_FAKE_DRIVER,
                       log(), sim(), at(), options, which, program);
  }
  /// A program that launches until it has been told that this is enough.
  class Going {
   public:
    Going(std::string enough, const std::string& command) : enough_(std::move(enough)), runs_([this, command] { ended_ = shell(command); }) {}
    ~Going() { end(); }
    const Ran& end() {
      const std::ofstream told(enough_);
      if (runs_.joinable()) runs_.join();
      return ended_;
    }

   private:
    std::string enough_;
    Ran ended_;
    std::thread runs_;
  };
  /// `program`: all of WAY LAUNCHES US EACH.
  Going going(const std::string& program, const std::string& options = {}) {
    const std::string enough = (folder_ / fmt::format("enough{}", ++going_)).string();
    return Going(enough, joins(program + " " + enough, options));
  }
  /// Without programs where no service answers.
  nlohmann::json state() const {
    nlohmann::json said = live::state_at(at());
    return said.is_object() ? said : nlohmann::json{{"programs", nlohmann::json::array()}};
  }
  std::size_t program_count() const { return state()["programs"].size(); }
  nlohmann::json program(const std::string& name) const {
    const nlohmann::json now = state();
    for (const auto& p : now["programs"])
      if (p["name"] == name) return p;
    return {};
  }
  /// Looks until it is so, for a minute at most.
  template <class Condition>
  static bool comes(Condition condition) {
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (; std::chrono::steady_clock::now() < latest; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      if (condition()) return true;
    return false;
  }

  struct Kernel {
    std::string program;
    long long begin = 0, end = 0;
    int priority = 0, groups = 0;
  };
  std::vector<Kernel> kernels() const {
    std::vector<Kernel> all;
    std::ifstream in(log());
    for (Kernel k; in >> k.program >> k.begin >> k.end >> k.priority >> k.groups;) all.push_back(k);
    return all;
  }

  files::path folder_;
  pid_t service_ = -1;
  int going_ = 0;
};

}  // namespace corun
