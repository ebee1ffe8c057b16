#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sim/command/beside.h"
#include "sim/command/import.h"
#include "traces/import/nsight_compute.h"
#include "traces/json/temporary_folder.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr int kCannotStart = 127;

struct ProgramEnd {
  int code = 0, signal = 0;
};

/// The program in the foreground: its input and output are this one's.  Ctrl-C is the program's, and what it did until
/// then is kept.
ProgramEnd run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  struct sigaction before{}, ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &before);
  const pid_t pid = fork();
  if (pid == 0) {
    sigaction(SIGINT, &before, nullptr);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    execvp(arguments[0], arguments.data());
    _exit(kCannotStart);
  }
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  sigaction(SIGINT, &before, nullptr);
  if (pid < 0) throw InputError(command.front(), "", std::strerror(errno), "end other programs");
  return WIFSIGNALED(status) ? ProgramEnd{0, WTERMSIG(status)} : ProgramEnd{WEXITSTATUS(status), 0};
}

std::filesystem::path folder_for(const std::string& keep, const TemporaryFolder& own) {
  if (keep.empty()) return own.path();
  std::error_code failed;
  std::filesystem::create_directories(keep, failed);
  if (failed || !std::filesystem::is_empty(keep, failed) || failed)
    throw InputError(keep, "--keep", failed ? failed.message() : "is not empty", "name a folder that is empty or not there yet");
  return std::filesystem::absolute(keep);
}

/// An MPS server of its own, in a folder of its own: `environment` leads a program to it.
class MpsServer {
 public:
  explicit MpsServer(const std::filesystem::path& folder)
      : environment_{fmt::format("CUDA_MPS_PIPE_DIRECTORY={}", folder.string()),
                     fmt::format("CUDA_MPS_LOG_DIRECTORY={}", folder.string())} {
    std::filesystem::create_directory(folder);
    if (run_program({"nvidia-cuda-mps-control", "-d"}, environment_).code != 0)
      throw InputError("", "--by-sms", "nvidia-cuda-mps-control cannot be started",
                       "install it with the driver, or leave the option out");
  }
  ~MpsServer() { run_program({"sh", "-c", "echo quit | nvidia-cuda-mps-control"}, environment_); }
  MpsServer(const MpsServer&) = delete;
  MpsServer& operator=(const MpsServer&) = delete;

  const std::vector<std::string>& environment() const { return environment_; }

 private:
  std::vector<std::string> environment_;
};

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
  const auto recorded = [&](const std::filesystem::path& into, std::vector<std::string> environment) {
    environment.insert(environment.end(), {set("CORUN_CAPTURE", into), set("NVTX_INJECTION64_PATH", library)});
    return run_program(a.program, environment);
  };
  std::vector<std::string> traced = {set("CUDA_INJECTION64_PATH", library)};
  if (a.all) traced.emplace_back("CORUN_CAPTURE_ALL=1");
  if (a.twice) {
    a.import.untraced = made("untraced").string();
    recorded(a.import.untraced, {});
    fmt::print(stderr, "again, traced\n");
  }
  const ProgramEnd ended = recorded(folder, traced);
  if (ended.code == kCannotStart && std::filesystem::is_empty(folder))
    throw InputError("", a.program.front(), "cannot be started", "check the program's name after --");
  if (ended.code != 0 || ended.signal != 0)
    fmt::print(stderr, "note: the program ended with {} {}\n", ended.signal != 0 ? "signal" : "exit code",
               ended.signal != 0 ? ended.signal : ended.code);
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
  if (!a.by_sms.empty()) {
    const MpsServer server(own.path() / "mps");
    for (const unsigned percent : a.by_sms) {
      a.import.parts.push_back(made(fmt::format("percent-{}", percent)).string());
      std::vector<std::string> environment = server.environment();
      environment.insert(environment.end(), traced.begin(), traced.end());
      environment.push_back(fmt::format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={}", percent));
      fmt::print(stderr, "again, on {} % of the GPU\n", percent);
      recorded(a.import.parts.back(), environment);
    }
  }
  return import(a.import);
}

}  // namespace corun::sim
