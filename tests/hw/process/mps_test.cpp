// Under an MPS daemon of our own, played by a script: who gets which percentage, and that neither daemon nor server nor a
// file is left behind however a run ends.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/process_rig.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

/// A control program that is a script, first in PATH.
class FakeMps {
 public:
  explicit FakeMps(const std::string& body)
      : folder_(testing::TempDir() + "fake-mps-" + std::to_string(getpid())), path_(std::getenv("PATH")) {
    fs::create_directories(folder_ + "/tmp");
    const std::string file = folder_ + "/nvidia-cuda-mps-control";
    std::ofstream(file) << "#!/bin/sh\n" << body;
    fs::permissions(file, fs::perms::owner_all);
    setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
    setenv("TMPDIR", (folder_ + "/tmp").c_str(), 1);
  }
  ~FakeMps() {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  std::string said(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool left_anything() const { return !fs::is_empty(folder_ + "/tmp"); }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_, path_;
};
/// With -f a daemon, whose server is a process of its own; without, it hands on what it is told.
const char* const kWorks = R"(
here=$(dirname "$0")
if [ "$1" = -f ]; then
  sleep 1000 & echo $! > $here/server
  echo $$ > $here/daemon; touch "$CUDA_MPS_PIPE_DIRECTORY/control"; wait
else
  cat >> $here/told; kill $(cat $here/daemon)
fi
)";

bool runs(const std::string& pid) {
  std::ifstream in("/proc/" + std::to_string(std::atoi(pid.c_str())) + "/stat");
  std::string id, name, state;
  return static_cast<bool>(in >> id >> name >> state) && state != "Z";
}

/// Whether it ends within 2 s.  The server is no child of ours: when it has been killed, nobody waits for its
/// end.
bool ends(const std::string& pid) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (runs(pid) && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return !runs(pid);
}

TEST(Mps, EveryClientIsAProcessWithItsPercentageAtADaemonOfOurOwn) {
  const FakeMps fake(kWorks);
  ProcessRig rig({"a", "b", "c"}, 2);
  for (Client& c : rig.trace.clients) c.process = "one";
  EXPECT_THAT(rig.run("mps:percentages=50/25/12.5").failed, Each(""));
  const std::string folder = rig.backend->mps()->folder();
  EXPECT_THAT(folder, testing::StartsWith(fake.folder()));
  const auto with = [&](const std::string& percentage) {
    return ElementsAre("CUDA_MPS_PIPE_DIRECTORY=" + folder + "/pipe",
                       "CUDA_MPS_LOG_DIRECTORY=" + folder + "/log", "CUDA_DEVICE_MAX_CONNECTIONS=2",
                       "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + percentage);
  };
  EXPECT_THAT(rig.environments, ElementsAre(with("50"), with("25"), with("12.5")));
  const std::string server = fake.said("server"), daemon = fake.said("daemon");
  EXPECT_TRUE(runs(daemon));
  rig.backend.reset();
  EXPECT_THAT(fake.said("told"), HasSubstr("quit"));
  EXPECT_FALSE(runs(daemon));
  EXPECT_TRUE(ends(server));
  EXPECT_FALSE(fake.left_anything());
  EXPECT_EQ(children(), 0u);
}

TEST(Mps, ADaemonThatDoesNotListenIsKilledWithItsServer) {
  const FakeMps fake(R"(
here=$(dirname "$0")
[ "$1" = -f ] || exit 0
trap '' TERM
sleep 1000 & echo $! > $here/server
echo $$ > $here/daemon; touch "$CUDA_MPS_PIPE_DIRECTORY/control"; while true; do sleep 1; done
)");
  {
    const MpsDaemon daemon(2);
  }
  EXPECT_FALSE(runs(fake.said("daemon")));
  EXPECT_TRUE(ends(fake.said("server")));
  EXPECT_FALSE(fake.left_anything());
}

/// Told to quit without a time limit it waits for its clients, here for as long as there is a file.
constexpr const char* kWaitsForClients = R"(
here=$(dirname "$0")
if [ "$1" = -f ]; then
  echo $$ > $here/daemon; : > $here/client; touch "$CUDA_MPS_PIPE_DIRECTORY/control"; exec sleep 1000
fi
cat >> $here/told
while [ -e $here/client ]; do sleep 0.02; done
kill $(cat $here/daemon)
)";

TEST(Mps, WhereTheProcessIsKilledTheDaemonGoesOnUntilItsClientsHaveEnded) {
  const FakeMps fake(kWaitsForClients);
  const pid_t user = fork();
  if (user == 0) {
    const MpsDaemon daemon;
    kill(getpid(), SIGKILL);
  }
  waitpid(user, nullptr, 0);
  const auto within = [](const auto& so) {
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!so() && std::chrono::steady_clock::now() < last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return so();
  };
  EXPECT_TRUE(within([&] { return fake.said("told") == "quit\n"; })) << fake.said("told");
  EXPECT_TRUE(runs(fake.said("daemon")));
  EXPECT_TRUE(fake.left_anything()) << "its pipes, which the clients use";
  fs::remove(fake.folder() + "/client");
  EXPECT_TRUE(within([&] { return !fake.left_anything(); }));
  EXPECT_FALSE(runs(fake.said("daemon")));
}

TEST(Mps, OneThatIsLetGoEndsWhenItsClientsHaveAndItsFolderIsWhereItWasToBe) {
  const FakeMps fake(kWaitsForClients);
  const fs::path below = fs::path(fake.folder()) / "below";
  fs::create_directory(below);
  {
    MpsDaemon daemon(2, below);
    EXPECT_EQ(fs::path(daemon.folder()).parent_path(), below);
    for (const char* part : {"/pipe", "/log"}) EXPECT_EQ(fs::status(daemon.folder() + part).permissions(), fs::perms::owner_all);
    daemon.let_go();
  }
  const auto within = [](const auto& so) {
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!so() && std::chrono::steady_clock::now() < last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return so();
  };
  EXPECT_TRUE(within([&] { return fake.said("told") == "quit\n"; })) << "without a time limit: " << fake.said("told");
  EXPECT_TRUE(runs(fake.said("daemon")));
  EXPECT_FALSE(fs::is_empty(below)) << "its pipes, which the clients use";
  fs::remove(fake.folder() + "/client");
  // This process is its parent here and has not waited for it, so that its guard still finds it: the service would have ended.
  EXPECT_TRUE(within([&] { return !runs(fake.said("daemon")); }));
  waitpid(std::atoi(fake.said("daemon").c_str()), nullptr, 0);
  EXPECT_TRUE(within([&] { return fs::is_empty(below); }));
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

TEST(Mps, AFolderWhosePathIsTooLongForItsSocketsIsRefused) {
  const FakeMps fake(kWorks);
  const fs::path below = fs::path(fake.folder()) / std::string(90, 'x');
  fs::create_directory(below);
  EXPECT_THROW(MpsDaemon(2, below), InputError);
  EXPECT_TRUE(fs::is_empty(below));
}

TEST(Mps, WhereThereIsNoneOrItMayNotRunTheReasonIsToldAtStartUp) {
  const auto reason = [](const char* body) {
    const FakeMps fake(body);
    try {
      const MpsDaemon daemon;
      return std::string("none");
    } catch (const InputError& e) {
      EXPECT_FALSE(fake.left_anything());
      return std::string(e.what());
    }
  };
  EXPECT_THAT(reason("exit 127"), HasSubstr("there is no nvidia-cuda-mps-control on this machine"));
  EXPECT_THAT(reason("exit 1"), HasSubstr("ended at once (code 1"));
}

TEST(Mps, AnInterruptedRunLeavesNoDaemon) {
  const FakeMps fake(kWorks);
  {
    ProcessRig rig({"a", "b"}, 200);
    std::atomic<bool> interrupted{false};
    rig.options.cuda.interrupted = &interrupted;
    rig.records.on_kernel = [&] { interrupted = true; };
    EXPECT_THROW(rig.run("mps"), Interrupted);
  }
  EXPECT_FALSE(runs(fake.said("daemon")));
  EXPECT_FALSE(fake.left_anything());
  EXPECT_EQ(children(), 0u);
}

}  // namespace
}  // namespace corun::hw
