#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "hw/process/mps_daemon.h"
#include "sim/command/beside.h"
#include "sim/command/import.h"
#include "traces/import/nsight_compute.h"
#include "traces/json/temporary_folder.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr int kCannotStart = 127;

/// Of the GPU: few SMs tell a kernel that waits for memory from one that the SMs limit.
constexpr unsigned kQuarter = 25;
/// A second run of the whole program takes no longer than so many times the first, and so much more.
constexpr int kLonger = 8;
constexpr std::chrono::seconds kMore{10};

struct ProgramEnd {
  int code = 0, signal = 0;
  bool interrupted = false, too_long = false;
  std::chrono::steady_clock::duration lasted{};
};

volatile std::sig_atomic_t interrupts = 0;

/// The program in the foreground: its input and output are this one's.  Ctrl-C is the program's, and what it did until
/// then is kept.  Where it may not take longer than `limit` it is a group of its own and has no input: it is ended with all
/// that it started.
ProgramEnd run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                       std::optional<std::chrono::steady_clock::duration> limit = {}) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  struct sigaction before{}, count{};
  count.sa_handler = [](int) { interrupts = interrupts + 1; };
  const std::sig_atomic_t already = interrupts;
  sigaction(SIGINT, &count, &before);
  const auto began = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid == 0) {
    sigaction(SIGINT, &before, nullptr);
    if (limit) {
      setpgid(0, 0);
      if (std::freopen("/dev/null", "r", stdin) == nullptr) _exit(kCannotStart);
    }
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    execvp(arguments[0], arguments.data());
    _exit(kCannotStart);
  }
  ProgramEnd end;
  int status = 0;
  if (!limit) {
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  } else if (pid > 0) {
    setpgid(pid, pid);  // before the first signal, whichever process is first
    constexpr std::chrono::milliseconds kLook{20};
    std::sig_atomic_t passed_on = already;
    for (; waitpid(pid, &status, WNOHANG) == 0; std::this_thread::sleep_for(kLook)) {
      if (interrupts != passed_on) passed_on = interrupts, kill(-pid, SIGINT);
      if (std::chrono::steady_clock::now() - began < *limit) continue;
      end.too_long = true;
      kill(-pid, SIGKILL);  // what it recorded is not kept
    }
  }
  sigaction(SIGINT, &before, nullptr);
  if (pid < 0) throw InputError(command.front(), "", std::strerror(errno), "end other programs");
  (WIFSIGNALED(status) ? end.signal : end.code) = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  end.interrupted = interrupts != already;
  end.lasted = std::chrono::steady_clock::now() - began;
  return end;
}

std::filesystem::path folder_for(const std::string& keep, const TemporaryFolder& own) {
  if (keep.empty()) return own.path();
  std::error_code failed;
  std::filesystem::create_directories(keep, failed);
  if (failed || !std::filesystem::is_empty(keep, failed) || failed)
    throw InputError(keep, "--keep", failed ? failed.message() : "is not empty", "name a folder that is empty or not there yet");
  return std::filesystem::absolute(keep);
}

bool nothing_recorded(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return std::none_of(begin(files), end(files), [](const auto& file) { return file.path().extension() == ".jsonl"; });
}

/// An MPS server of its own; null: it cannot be started.
std::unique_ptr<hw::MpsDaemon> started_mps(const std::filesystem::path& folder) try {
  constexpr double kPatience_s = 10;
  return std::make_unique<hw::MpsDaemon>(kPatience_s, folder);
} catch (const InputError&) {
  return nullptr;
}

/// Beside the recording of the whole GPU, so that it is kept with that.
std::filesystem::path kept_part(const std::filesystem::path& folder, unsigned percent) { return folder / fmt::format("{}{}", kPartFolder, percent); }

/// Why the program is not run a second time unasked; empty: it is.
std::string not_again(const CaptureArguments& a, const ProgramEnd& ended, const std::filesystem::path& recorded) {
  if (a.once) return "--once";
  if (ended.interrupted) return "the program was interrupted";
  if (ended.code != 0 || ended.signal != 0) return "the program did not end well";
  if (nothing_recorded(recorded)) return "nothing was recorded";
  if (a.import.sms != 0 || std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") != nullptr) return "the program had a part already";
  return {};
}

std::string in_words(const ProgramEnd& ended) {
  return fmt::format("ended with {} {}", ended.signal != 0 ? "signal" : "exit code", ended.signal != 0 ? ended.signal : ended.code);
}

}  // namespace

int capture(CaptureArguments a) {
  const std::filesystem::path library =
      beside_this("libcorun_capture.so",
                  "build with the CUDA Toolkit, which has CUPTI's headers; or record with torch.profiler or nsys and use sim import");
  const TemporaryFolder own("capture");
  const std::filesystem::path folder = folder_for(a.import.input, own);
  const auto set = [](const char* name, const std::filesystem::path& value) { return fmt::format("{}={}", name, value.string()); };
  const auto made = [&](const std::string& name) {
    std::filesystem::create_directory(own.path() / name);
    return own.path() / name;
  };
  const auto recorded = [&](const std::filesystem::path& into, std::vector<std::string> environment,
                            std::optional<std::chrono::steady_clock::duration> limit = {}) {
    environment.insert(environment.end(), {set("CORUN_CAPTURE", into), set("NVTX_INJECTION64_PATH", library)});
    return run_program(a.program, environment, limit);
  };
  std::unique_ptr<hw::MpsDaemon> mps;
  const auto has_mps = [&] { return mps != nullptr || (mps = started_mps(own.path())) != nullptr; };
  if (!a.by_sms.empty() && !has_mps())
    throw InputError("", "--by-sms", "nvidia-cuda-mps-control cannot be started", "install it with the driver, or leave the option out");
  std::vector<std::string> traced = {set("CUDA_INJECTION64_PATH", library)};
  if (a.all) traced.emplace_back("CORUN_CAPTURE_ALL=1");
  if (a.twice) {
    a.import.untraced = made("untraced").string();
    recorded(a.import.untraced, {});
    fmt::print(stderr, "again, traced\n");
  }
  const ProgramEnd ended = recorded(folder, traced);
  if (ended.code == kCannotStart && nothing_recorded(folder))
    throw InputError("", a.program.front(), "cannot be started", "check the program's name after --");
  if (ended.code != 0 || ended.signal != 0) fmt::print(stderr, "note: the program {}\n", in_words(ended));
  a.import.format = "capture", a.import.input = folder.string();
  if (a.import.name.empty()) a.import.name = std::filesystem::path(a.import.output).stem().string();
  if (a.counters) {
    a.import.counters = (own.path() / "counters.csv").string();
    std::vector<std::string> again = {"ncu", "--csv", "--print-units", "base", "--target-processes", "all",
                                      "--log-file", a.import.counters, "--metrics", nsight_compute_metrics()};
    again.insert(again.end(), a.program.begin(), a.program.end());
    fmt::print(stderr, "again, under Nsight Compute\n");
    if (run_program(again, {}).code == kCannotStart)
      throw InputError("", "--counters", "ncu cannot be started", "install Nsight Compute, or leave the option out");
  }
  const auto on_part = [&](unsigned percent, std::optional<std::chrono::steady_clock::duration> limit) {
    const std::filesystem::path into = kept_part(folder, percent);
    std::filesystem::create_directory(into);
    a.import.parts.push_back({into.string(), !limit});
    std::vector<std::string> environment = mps->environment();
    environment.insert(environment.end(), traced.begin(), traced.end());
    environment.push_back(fmt::format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={}", percent));
    fmt::print(stderr, "again, on {} % of the GPU\n", percent);
    return recorded(into, environment, limit);
  };
  for (const unsigned percent : a.by_sms)
    if (const ProgramEnd there = on_part(percent, {}); there.code != 0 || there.signal != 0)
      fmt::print(stderr, "note: on {} % of the GPU the program {}\n", percent, in_words(there));
  if (a.by_sms.empty()) {
    std::string& why = a.import.no_part = not_again(a, ended, folder);
    if (why.empty() && !has_mps()) why = "nvidia-cuda-mps-control cannot be started";
    if (why.empty()) {
      const ProgramEnd there = on_part(kQuarter, kLonger * ended.lasted + kMore);
      if (there.interrupted) why = "it was interrupted there";
      else if (there.too_long) why = fmt::format("there it had not ended after {} times as long", kLonger);
      else if (there.code != 0 || there.signal != 0) why = "there it " + in_words(there);
    }
    if (!why.empty() && !a.import.parts.empty()) {
      std::filesystem::remove_all(a.import.parts.back().folder);
      a.import.parts.clear();
    }
  }
  mps.reset();
  return import(a.import);
}

}  // namespace corun::sim
