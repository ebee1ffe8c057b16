// Clients as processes, before drivers that play a GPU in each: what is decided reaches them and comes back,
// a process that dies takes only its clients with it, and nothing is left behind however a run ends.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "hw/process/mps_sms.h"
#include "hw/record/recording.h"
#include "tests/support/process_rig.h"
#include "traces/json/temporary_folder.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

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

}  // namespace
}  // namespace corun::hw
