// Measures what kernels that share an H200 take from each other: see README.md for what each number means.
// contention JOB prints one record a line; run.py runs the jobs, each with a time limit.
#include <cstring>

#include "block_jobs.cuh"
#include "counted_jobs.cuh"
#include "issue_jobs.cuh"
#include "memory_jobs.cuh"
#include "order_jobs.cuh"
#include "reader_jobs.cuh"
#include "sharing_jobs.cuh"
#include "wave_jobs.cuh"

struct Job {
  const char* name;
  void (*run)();
};
const Job kJobs[] = {{"pipes", pipes},
                     {"clocks", clocks},
                     {"age_ranks", age_ranks},
                     {"issue_order", issue_order},
                     {"shares", shares},
                     {"bursts", bursts},
                     {"pairs", pairs},
                     {"barriers", barriers},
                     {"dram", dram},
                     {"latency", latency},
                     {"loaded_latency", loaded_latency},
                     {"loaded_latency_apart", loaded_latency_apart},
                     {"sm_scaling", sm_scaling},
                     {"footprints", footprints},
                     {"memory_pairs", memory_pairs},
                     {"readers", readers},
                     {"readers_counted", readers_counted},
                     {"l2_capacity", l2_capacity},
                     {"l2_sharing", l2_sharing},
                     {"turnover", turnover},
                     {"empty_blocks", empty_blocks},
                     {"drain", drain},
                     {"waves", waves},
                     {"gap_after", gap_after},
                     {"early_exit", early_exit},
                     {"carveouts", carveouts},
                     {"preferred_divisions", preferred_divisions},
                     {"carveout_wait", carveout_wait},
                     {"gap_beside", gap_beside},
                     {"handover", handover},
                     {"next_kernel", next_kernel},
                     {"counted", counted}};

int main(int argc, char** argv) {
  for (const Job& job : kJobs) {
    if (argc != 2 || std::strcmp(job.name, argv[1]) != 0) continue;
    // Nsight Compute runs `counted`, and knows its kernels by their order.
    if (job.run == counted) {
      CHECK(cudaSetDevice(0));
      counted();
      return 0;
    }
    open_gpu();
    const double mhz = cycles_per_us;
    job.run();
    print_record({{"before", mhz}, {"after", measure_clock()}}, "sm_mhz", {});
    return 0;
  }
  for (const Job& job : kJobs) std::fprintf(stderr, "%s ", job.name);
  std::fprintf(stderr, "\n");
  return 2;
}
