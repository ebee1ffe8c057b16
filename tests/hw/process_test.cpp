// Clients as processes, before drivers that play a GPU in each: what is decided reaches them and comes back,
// a process that dies takes only its clients with it, and nothing is left behind however a run ends.
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "hw/process/mps_sms.h"
#include "hw/process/process_backend.h"
#include "hw/process/worker.h"
#include "hw/record/recording.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "tests/support/fake_driver.h"
#include "traces/json/temporary_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

enum class Fault : std::uint8_t { none, hangs, driver_fails };

/// A process with a fake driver in it, whose time goes with the real one closely enough for its patience.
Child fork_worker(const Channel& channel, Fault fault) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return Child(pid);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  Channel mine(dup(channel.fd()), Channel::End::worker);
  const int code =
      serve(mine, {[fault]() -> std::unique_ptr<Driver> {
                     if (fault == Fault::driver_fails) throw DriverError("cuInit: CUDA_ERROR_UNKNOWN");
                     auto driver = std::make_unique<FakeDriver>();
                     if (fault == Fault::hangs) driver->sound_launches = 1;  // one as it sets up
                     return driver;
                   },
                   [](const DeviceFacts&, const std::string&) { return std::make_unique<FakeCompiler>(); }});
  _exit(code);
}

TEST(SmsOfAProcess, AreWhatItsDriverShows) {
  const StartWorker start = [](const Channel& channel, const std::vector<std::string>&) {
    return fork_worker(channel, Fault::none);
  };
  EXPECT_EQ(sms_of_process(start, {}), 132u);
}

TEST(SmsOfAProcess, AProcessThatCannotTellIsAnError) {
  const StartWorker fails = [](const Channel& channel, const std::vector<std::string>&) {
    return fork_worker(channel, Fault::driver_fails);
  };
  EXPECT_THAT([&] { sms_of_process(fails, {}); },
              testing::ThrowsMessage<DriverError>(HasSubstr("CUDA_ERROR_UNKNOWN")));
  const StartWorker dies = [](const Channel&, const std::vector<std::string>&) {
    const pid_t pid = fork();
    if (pid == 0) _exit(1);
    return Child(pid);
  };
  EXPECT_THAT([&] { sms_of_process(dies, {}); },
              testing::ThrowsMessage<DriverError>(HasSubstr("ended without a word")));
}

std::size_t children() {  // processes of ours that have not been waited for
  std::ifstream in("/proc/self/task/" + std::to_string(getpid()) + "/children");
  std::size_t n = 0;
  for (std::string pid; in >> pid;) ++n;
  return n;
}

class Records final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    kernels.push_back(r);
    if (on_kernel) on_kernel();
  }
  std::vector<KernelRecord> kernels;
  std::function<void()> on_kernel;
};

/// Clients with `launches` launches of spin10 each.
struct ProcessRig {
  ProcessRig(std::vector<std::string> names, std::uint32_t launches, std::uint32_t requests = 1) {
    Kernel kernel;
    kernel.name = "spin10";
    kernel.grid = find_kernel("spin10")->grid, kernel.block = find_kernel("spin10")->block;
    kernel.solo_time = from_ns(4e5);
    trace.name = "processes", trace.gpu = "h200";
    trace.kernels = {kernel};
    Program program{"p", Issue::eager, {{"main"}}, {}, {}};
    for (std::uint32_t i = 0; i < launches; ++i)
      program.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
    trace.programs = {program};
    for (const std::string& name : names) {
      Client c;
      c.name = c.process = name, c.program = ProgramId{0}, c.streams.resize(1);
      c.arrivals = ExplicitTimes{std::vector<Time>(requests, Time{})};
      c.stale = Stale::queue;
      trace.clients.push_back(c);
    }
    timeline.attach(records);
    options.cuda.verify = true;
    options.start = [this](const Channel& channel, const std::vector<std::string>& environment) {
      environments.push_back(environment);
      return fork_worker(channel,
                         faults.size() < environments.size() ? Fault::none : faults[environments.size() - 1]);
    };
  }
  ProcessBackend& make(const std::string& spec) {
    policy = make_policy(spec);
    backend =
        std::make_unique<ProcessBackend>(trace, read_gpu("h200"), policy->requirements(), timeline, options);
    return *backend;
  }
  SessionOutcome run(const std::string& spec = "timeslice") {
    make(spec);
    Session session(trace, *policy, *backend, timeline, {});
    backend->start();
    const SessionOutcome outcome = session.run();
    backend->close();
    return outcome;
  }
  std::size_t kernels_of(std::uint32_t client) const {
    return static_cast<std::size_t>(
        std::count_if(records.kernels.begin(), records.kernels.end(),
                      [&](const auto& r) { return r.client.value == client && r.finished != kNever; }));
  }

  Trace trace;
  Timeline timeline;
  Records records;
  ProcessOptions options;
  std::vector<Fault> faults;  // by process
  std::vector<std::vector<std::string>> environments;
  std::unique_ptr<Policy> policy;
  std::unique_ptr<ProcessBackend> backend;
};

TEST(Processes, EachClientsLaunchesRunInItsProcessWithTheRightResults) {
  ProcessRig rig({"a", "b", "c"}, 5);
  const SessionOutcome outcome = rig.run();
  EXPECT_THAT(outcome.failed, Each(""));
  EXPECT_EQ(outcome.refusals, 0u);
  for (std::uint32_t c = 0; c < 3; ++c) EXPECT_EQ(rig.kernels_of(c), 5u);
  EXPECT_EQ(rig.backend->blocks_run(), 3 * 5 * std::uint64_t{42240});
  EXPECT_EQ(rig.backend->kernels_verified(), 3u);
  EXPECT_THAT(rig.backend->verify(), IsEmpty());
  EXPECT_THAT(rig.environments, Each(IsEmpty()));
  for (const KernelRecord& r : rig.records.kernels) {
    EXPECT_LE(r.ready, r.submitted);
    EXPECT_LT(r.started, r.finished);
  }
  rig.backend.reset();
  EXPECT_EQ(children(), 0u);
}

TEST(Processes, ClientsOfOneProcessShareIt) {
  ProcessRig rig({"a", "b", "c"}, 2);
  rig.trace.clients[2].process = "a";
  EXPECT_THAT(rig.run().failed, Each(""));
  EXPECT_EQ(rig.environments.size(), 2u);
  EXPECT_EQ(rig.backend->process_of(ClientId{0}), rig.backend->process_of(ClientId{2}));
  for (std::uint32_t c = 0; c < 3; ++c) EXPECT_EQ(rig.kernels_of(c), 2u);
}

TEST(Processes, OneThatIsKilledTakesOnlyItsClientsWithIt) {
  ProcessRig rig({"victim", "other"}, 40, 3);
  bool killed = false;
  rig.records.on_kernel = [&] {
    if (rig.kernels_of(0) < 3 || killed) return;
    killed = true;
    kill(rig.backend->process_of(ClientId{0}), SIGKILL);
  };
  const SessionOutcome outcome = rig.run();
  EXPECT_EQ(outcome.failed[0], "its process failed or was killed");
  EXPECT_EQ(rig.backend->why_lost(ClientId{0}), "was killed by signal 9");
  EXPECT_EQ(outcome.failed[1], "");
  EXPECT_LT(rig.kernels_of(0), 120u);
  EXPECT_GE(rig.kernels_of(1), 40u);
  EXPECT_THAT(rig.backend->verify(), IsEmpty());
  EXPECT_EQ(outcome.stuck, "");
  rig.backend.reset();
  EXPECT_EQ(children(), 0u);
}

TEST(Processes, OneWhoseGpuHangsIsToldWithWhatItWaitedForAndTheOthersGoOn) {
  ProcessRig rig({"hangs", "other"}, 3);
  rig.faults = {Fault::hangs};
  rig.options.cuda.patience = from_ns(2e7);
  const SessionOutcome outcome = rig.run();
  EXPECT_NE(outcome.failed[0], "");
  EXPECT_THAT(rig.backend->why_lost(ClientId{0}), HasSubstr("waiting for spin10 of client hangs"));
  EXPECT_EQ(outcome.failed[1], "");
  EXPECT_EQ(rig.kernels_of(1), 3u);
}

TEST(Processes, OneThatCannotSetUpEndsTheRunBeforeItBegins) {
  ProcessRig rig({"a", "b"}, 1);
  rig.faults = {Fault::none, Fault::driver_fails};
  try {
    rig.make("timeslice");
    FAIL();
  } catch (const DriverError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("client b"), HasSubstr("cuInit")));
  }
  EXPECT_EQ(children(), 0u);
  ProcessRig unknown({"a"}, 1);
  unknown.trace.kernels[0].name = "no_such_kernel";
  try {
    unknown.make("timeslice");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("there is no device code for kernel no_such_kernel"));
  }
  EXPECT_EQ(children(), 0u);
}

TEST(Processes, AnInterruptedRunLeavesNone) {
  ProcessRig rig({"a", "b"}, 200);
  std::atomic<bool> interrupted{false};
  rig.options.cuda.interrupted = &interrupted;
  rig.records.on_kernel = [&] { interrupted = true; };
  EXPECT_THROW(rig.run(), Interrupted);
  rig.backend.reset();
  EXPECT_EQ(children(), 0u);
}

TEST(Processes, NoneOutlivesARunThatIsKilled) {
  int pipe_of[2];
  ASSERT_EQ(pipe(pipe_of), 0);
  const pid_t run = fork();
  if (run == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // should the test fail before it kills us
    ProcessRig rig({"a", "b"}, 100000);
    bool told = false;
    rig.records.on_kernel = [&] {
      if (told) return;
      told = true;
      const pid_t pids[] = {rig.backend->process_of(ClientId{0}), rig.backend->process_of(ClientId{1})};
      if (write(pipe_of[1], pids, sizeof pids) != sizeof pids) _exit(1);
    };
    rig.run();
    _exit(0);
  }
  pid_t workers[2] = {};
  ASSERT_EQ(::read(pipe_of[0], workers, sizeof workers), static_cast<ssize_t>(sizeof workers));
  kill(run, SIGKILL);
  waitpid(run, nullptr, 0);
  for (const pid_t pid : workers) {
    bool there = true;
    for (int i = 0; i < 2000 && there; ++i) {
      std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
      std::string id, name, state;
      there = static_cast<bool>(in >> id >> name >> state) && state != "Z";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(there);
  }
  close(pipe_of[0]), close(pipe_of[1]);
}

TEST(Processes, OnlyOrderIsDecided) {
  ProcessRig rig({"a"}, 1);
  ProcessBackend& backend = rig.make("timeslice");
  LaunchView l;
  l.operation = &rig.trace.programs[0].ops[0];
  EXPECT_TRUE(std::holds_alternative<Refused>(backend.apply(decide::Launch{{}, 0, {}, 8, {}}, l, {})));
  EXPECT_TRUE(
      std::holds_alternative<Refused>(backend.apply(decide::Launch{{}, 0, TpcMask::all(), 0, {}}, l, {})));
  EXPECT_TRUE(std::holds_alternative<Refused>(backend.apply(decide::Query{}, l, {})));
}

TEST(Processes, MemoryIsAllocatedInTheClientsProcess) {
  ProcessRig rig({"a", "b"}, 0);
  Program& p = rig.trace.programs[0];
  p.buffers = {"data"};
  p.ops = {{Alloc{0, 1'000'000}, StreamId{0}, Time{}, {}, {}, {}},
           {corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}}};
  EXPECT_THAT(rig.run().failed, Each(""));
  EXPECT_EQ(rig.backend->kernels_verified() + rig.backend->verify().size(), 2u);
}

TEST(Processes, WhatWasToldAndDecidedCanBeReplayed) {
  const TemporaryFolder own("test");
  const std::string file = (own.path() / "processes.jsonl").string();
  ProcessRig rig({"victim", "other"}, 20, 3);
  rig.records.on_kernel = [&] {
    if (rig.kernels_of(0) == 5) kill(rig.backend->process_of(ClientId{0}), SIGKILL);
  };
  {
    rig.make("timeslice");
    std::ofstream out(file);
    RecordingBackend recorder(*rig.backend, "timeslice", rig.trace, out);
    Session session(rig.trace, *rig.policy, recorder, rig.timeline, {});
    rig.backend->start();
    session.run();
    rig.backend->close();
  }
  const Replayed r = replay(file, rig.trace, read_gpu("h200"));
  EXPECT_EQ(r.difference, "");
  EXPECT_GT(r.decisions, 20u);
}

// ---- MPS --------------------------------------------------------------------------------------------------

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

TEST(Mps, WhereTheProcessIsKilledTheDaemonGoesOnUntilItsClientsHaveEnded) {
  // Told to quit without a time limit it waits for its clients, here for as long as there is a file.
  const FakeMps fake(R"(
here=$(dirname "$0")
if [ "$1" = -f ]; then
  echo $$ > $here/daemon; : > $here/client; touch "$CUDA_MPS_PIPE_DIRECTORY/control"; exec sleep 1000
fi
cat >> $here/told
while [ -e $here/client ]; do sleep 0.02; done
kill $(cat $here/daemon)
)");
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

// ---- the channel ------------------------------------------------------------------------------------------

TEST(Channel, MessagesOfAnySizeArriveWholeAndInOrderBothWays) {
  Channel here = Channel::make();
  Channel there(dup(here.fd()), Channel::End::worker);
  std::thread answers([&] {
    for (int i = 0; i < 200;)
      if (auto m = there.receive()) there.send(*m), ++i;
  });
  for (std::uint32_t i = 0; i < 200; ++i)
    here.send({i, std::string(i % 5 == 0 ? 300'000 : i, static_cast<char>('a' + i % 26))});
  for (std::uint32_t i = 0; i < 200;)
    if (const auto m = here.receive()) {
      ASSERT_EQ(m->kind, i);
      ASSERT_EQ(m->bytes, std::string(i % 5 == 0 ? 300'000 : i, static_cast<char>('a' + i % 26)));
      ++i;
    }
  answers.join();
}

TEST(Channel, AMessageToNobodyIsGivenUp) {
  Channel here = Channel::make();
  EXPECT_FALSE(here.send({1, std::string(5'000'000, 'x')}, [] { return true; }));
}

}  // namespace
}  // namespace corun::hw
