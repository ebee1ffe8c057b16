#include "hw/process/mps_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "traces/model/error.h"

namespace corun::hw {
namespace {

constexpr const char* kControl = "nvidia-cuda-mps-control";
constexpr const char* kLongest = "/pipe/control_privileged";
// With the folder and the daemon's process.  Without a time limit the daemon waits for its clients.
const std::string kGuard = fmt::format("cat /proc/self/fd/{} >/dev/null; echo quit | {}; while [ -e /proc/$1/exe ]; do sleep 1; done; rm -rf \"$0\"",
                                       Child::kDescriptor, kControl);

}  // namespace

MpsDaemon::MpsDaemon(double patience_s, const std::filesystem::path& below) : patience_s_(patience_s), folder_("mps", below) {
  try {
    if ((folder() + kLongest).size() >= sizeof(sockaddr_un::sun_path))
      throw InputError(folder(), "--at", "is too long a path for MPS's sockets", "name a folder with a shorter one");
    for (const char* part : {"/pipe", "/log"})
      if (mkdir((folder() + part).c_str(), 0700) != 0)
        throw InputError(folder() + part, "--policy=mps", "cannot be made", "see to it that there is room");
    daemon_.emplace(Child::start({kControl, "-f"}, environment(), -1, true, true));
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no further pipe can be made");
    alive_ = ends[1];
    guard_.emplace(Child::start({"sh", "-c", kGuard, folder(), fmt::format("{}", daemon_->pid())}, environment(), ends[0], true, true));
    close(ends[0]);
    for (int i = 0; !std::filesystem::exists(folder() + "/pipe/control"); ++i) {
      if (const auto end = daemon_->ended())
        throw InputError(
            "", "--policy=mps",
            end->code == 127
                ? fmt::format("there is no {} on this machine", kControl)
                : fmt::format("{} ended at once (code {}, signal {})", kControl, end->code, end->signal),
            "install NVIDIA's MPS and run as a user who may start it, or use --policy=timeslice");
      if (i > 1000 * patience_s_)
        throw InputError("", "--policy=mps", fmt::format("{} does not answer", kControl),
                         "check that MPS works on this machine, or use --policy=timeslice");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (...) {
    stop();
    throw;
  }
}

MpsDaemon::~MpsDaemon() { stop(); }

void MpsDaemon::stop() noexcept {
  try {
    if (daemon_ && !daemon_->ended()) {
      // It takes its orders from standard input, which a shell is the plainest way to fill.
      Child::start({"sh", "-c", fmt::format("echo quit -t 1 | {}", kControl)}, environment(), -1, true)
          .wait(patience_s_);
      if (!daemon_->wait(patience_s_)) daemon_->kill(SIGTERM);
      daemon_->wait(1);
    }
    guard_.reset();
    daemon_.reset();                 // kills what is left of it and of its servers
  } catch (const std::exception&) {  // the folders go all the same
  }
  if (alive_ >= 0) close(alive_);
}

void MpsDaemon::let_go() noexcept {
  if (!guard_) return;
  for (std::optional<Child>* child : {&daemon_, &guard_})
    if (*child) (*child)->let_go();
  daemon_.reset(), guard_.reset();
  if (alive_ >= 0) close(std::exchange(alive_, -1));
  folder_.keep();
}

std::vector<std::string> MpsDaemon::environment() const {
  return {"CUDA_MPS_PIPE_DIRECTORY=" + folder() + "/pipe", "CUDA_MPS_LOG_DIRECTORY=" + folder() + "/log"};
}
std::vector<std::string> MpsDaemon::environment(double percentage) const {
  std::vector<std::string> all = environment();
  // What a client has by default under MPS.  The clients share the channels of one context: on an H200 a
  // fourth one with 32 each finds no room ("out of memory").
  all.push_back("CUDA_DEVICE_MAX_CONNECTIONS=2");
  all.push_back(fmt::format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={}", percentage));
  return all;
}

}  // namespace corun::hw
