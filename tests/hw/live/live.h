// `sim serve`, `sim run` and a program as a shell starts them; the driver is a fake.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
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

namespace corun {

namespace files = std::filesystem;

struct Ended {
  int code = -1;
  std::string said;
};

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
    if (service_ > 0) kill(service_, SIGKILL), waitpid(service_, nullptr, 0);
    files::remove_all(folder_);
  }

  static std::string sim() { return std::getenv("CORUN_SIM"); }
  std::string at() const { return (folder_ / "service").string(); }
  std::string log() const { return (folder_ / "log").string(); }

  template <class... Options>
  void serve(const std::string& policy, const Options&... options) {
    service_ = fork();
    if (service_ == 0) {
      freopen((folder_ / "served").c_str(), "w", stdout);
      dup2(STDOUT_FILENO, STDERR_FILENO);
      execl(sim().c_str(), "sim", "serve", ("--policy=" + policy).c_str(), "--gpu=h200", "--no-mps", "--at", at().c_str(),
            std::string(options).c_str()..., nullptr);
      _exit(127);
    }
    ASSERT_TRUE(comes([this] { return is_there(); }));
  }
  bool is_there() const { return files::exists(at() + "/environment"); }
  std::string served() const { return text_of(folder_ / "served"); }
  static std::string text_of(const files::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void end_service(int signal) {
    kill(service_, signal);
    waitpid(service_, nullptr, 0);
    service_ = -1;
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
  static Ended shell(const std::string& command) {
    Ended ended;
    FILE* pipe = popen(fmt::format("( {} ) 2>&1 </dev/null", command).c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
      ended.said.append(buffer.data(), n);
    const int status = pclose(pipe);
    ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ended;
  }
  /// A program that launches until it has been told that this is enough.
  class Going {
   public:
    Going(std::string enough, const std::string& command) : enough_(std::move(enough)), runs_([this, command] { ended_ = shell(command); }) {}
    ~Going() { end(); }
    const Ended& end() {
      const std::ofstream told(enough_);
      if (runs_.joinable()) runs_.join();
      return ended_;
    }

   private:
    std::string enough_;
    Ended ended_;
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
