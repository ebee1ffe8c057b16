// Measures the host and launch constants of a GPU: see README.md for what each number means.
//
// Every job runs in a process of its own, so that an environment variable can be set for one job, a context
// starts clean, and a job that overruns its time is killed without losing the others.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "chain_jobs.cuh"
#include "launch_jobs.cuh"
#include "sharing_jobs.cuh"

struct Job {
  const char* name;
  void (*run)(Report&);
  const char* max_connections;
  int limit_s;
};
const Job kJobs[] = {
    {"environment", environment, nullptr, 20},
    {"launch_call", launch_call, nullptr, 30},
    {"launch_latency", launch_latency, nullptr, 30},
    {"stream_gap", stream_gap, nullptr, 30},
    {"kernel_period", kernel_period, nullptr, 40},
    {"channels", channels, nullptr, 20},
    {"channels_1", channels, "1", 20},
    {"channels_2", channels, "2", 20},
    {"channels_8", channels, "8", 20},
    {"channels_32", channels, "32", 20},
    {"queue_depth", queue_depth, nullptr, 30},
    {"persistent_worker", persistent_worker_cost, nullptr, 30},
    {"progress_read", progress_read, nullptr, 20},
    {"task_slots", task_slots, nullptr, 40},
    {"time_slicing", time_slicing, nullptr, 60},
};

int run_here(const Job& job) {
  Report report;
  // Its processes are forked, and CUDA does not survive a fork.
  const bool forks = job.run == time_slicing;
  if (!forks) open_gpu();
  const double mhz = cycles_per_us;
  job.run(report);
  if (!forks) report.note({{"metric", "sm_mhz"}, {"before", mhz}, {"after", measure_clock()}});
  report.print();
  return 0;
}

std::string run_apart(const Job& job) {
  int out[2];
  REQUIRE(pipe(out) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setpgid(0, 0);
    dup2(out[1], STDOUT_FILENO);
    close(out[0]);
    close(out[1]);
    if (job.max_connections != nullptr)
      setenv("CUDA_DEVICE_MAX_CONNECTIONS", job.max_connections, 1);
    else
      unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    // Loading a kernel at its first launch would wait for the kernel that holds the stream.
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    execl("/proc/self/exe", "launch_path", "--here", job.name, static_cast<char*>(nullptr));
    _exit(127);
  }
  close(out[1]);
  std::string text;
  char buffer[65536];
  bool late = false;
  for (const double end = now_us() + job.limit_s * 1e6;;) {
    pollfd ready{out[0], POLLIN, 0};
    late = now_us() > end;
    if (late) break;
    if (poll(&ready, 1, 200) <= 0) continue;
    const ssize_t got = read(out[0], buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, got);
  }
  close(out[0]);
  if (late) kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (late) return "{\"error\": \"over its time\"}";
  if (status != 0) return "{\"error\": \"failed\"}";
  return text;
}

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--here") == 0) {
    for (const Job& job : kJobs)
      if (std::strcmp(job.name, argv[2]) == 0) return run_here(job);
    return 2;
  }
  bool any = false, fine = true;
  for (const Job& job : kJobs) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted |= std::strcmp(job.name, argv[i]) == 0;
    if (!wanted) continue;
    const double start = now_us();
    const std::string result = run_apart(job);
    fine &= result[0] == '[';
    std::printf("%s\n  \"%s\": %s", any ? "," : "{", job.name, result.c_str());
    std::fflush(stdout);
    std::fprintf(stderr, "%-18s %6.2f s%s\n", job.name, (now_us() - start) * 1e-6,
                 result[0] == '[' ? "" : "  FAILED");
    any = true;
  }
  std::printf("%s\n", any ? "\n}" : "{}");
  return fine ? 0 : 1;
}
