// Importer of PyTorch profiler traces (Kineto, Chrome trace JSON), plain or gzip, and of bare arrays of
// kernel records. The file is streamed: memory grows with the kernels, copies and launch calls in it, not
// with its size.
//
// Takes over kernels, copies, streams, launch calls, event waits and synchronizations of one device.  Leaves
// out what the host computes between calls (only its time is kept), collectives across devices, and
// everything that Kineto does not record: times of single blocks, and without a profile by Nsight Compute
// hardware counters and cluster dimensions. Trace::notes names each such gap.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/model/time.h"
#include "traces/model/trace.h"

namespace corun {

struct ImportOptions {
  /// A name of `sim gpus` or a path; empty: found by the recorded device's name, and if that is not known Trace::gpu
  /// stays empty.
  std::string gpu{};
  /// What `ncu --csv` printed of the same program, joined as traces/import/join_counters.h says; launches of one
  /// shape that differ then become kernels of their own.
  std::filesystem::path counters{};
  /// What the host takes to issue the request where no profiler slows it; where it took longer in the recording all
  /// host gaps shrink alike.
  std::optional<Time> host_time{};
  /// How many SMs the program had, if fewer than the GPU has and the recording does not say so, as in a green context;
  /// as a client of MPS it does, and what MPS adds to a kernel is taken off its time.
  std::uint32_t sms = 0;
  std::optional<std::int64_t> device{};  // of several; absent: the one with most kernels
  std::string range{};                   // a request is a range of this name; empty: a ProfilerStep
  std::optional<std::uint64_t> step{};   // which, counted from 0; absent: the median one
  bool repeats = false;                  // without such marks a request is what repeats, else the whole recording
  std::string name{};                    // of the program; empty: the file's
  bool host_stalls = true;               // where the recording shows when the host stood still, the client has it
  bool assume_shapes = false;            // kernels of which no shape is recorded get one block of 256 threads an SM
};

/// What a request takes where no kernels are recorded, and what of that the tool adds to the host's calls and to the nodes of
/// graphs all the same.
struct WithoutProfiler {
  Time request{}, calls{}, nodes{};
  /// Of how many requests that is known, and a tenth and nine tenths of them took less.
  std::size_t requests = 0;
  Time tenth{}, nine_tenths{};
  /// The median of every second one of these, to which nothing is fitted.
  std::optional<Time> kept_back{};
  bool tool_away = false;  // it was not in the process
};

/// What was recorded of the request, to hold a replay against.
struct RecordedTimes {
  std::string nearest_gpu;  // where the GPU is not known: the described one that is most like it; empty: too little is recorded
  std::string request;  // name of the step or range that it was; empty: all
  std::vector<std::optional<WithoutProfiler>> without_profiler{};  // of each client, where the recording says so
  std::string told_by{};                                           // and how it does
  std::vector<bool> polls{};     // of each client: its request is a mark in which it waited for the GPU, and by no call
  Time span{};     // from where the host begins to the last end on the GPU
  Time period{};   // from a request's beginning to the next one's, where they follow each other; 0: not known
  Time kernels{};  // sum
  struct Interval {
    Time start{}, end{};  // from where the host begins; of a synchronization both are zero
  };
  std::vector<Interval> ops;  // by Program::ops
  Time long_calls{};          // calls over 0.1 ms that did not wait for the GPU
  std::size_t long_call_count = 0;
};

namespace kineto {
struct Records;
}
/// Records of any tool become a trace of one program and one closed-loop client, "main".  `tool`: as notes call it.
Trace import_records(const std::filesystem::path& file, kineto::Records records, const ImportOptions& options,
                     const char* tool, RecordedTimes* recorded = nullptr);

/// One program (one range or step, the median one, or else the whole recording) and one closed-loop client, "main".
/// Throws InputError, also where no launch is in both the recording and the counters.
Trace import_kineto(const std::filesystem::path& file, const ImportOptions& options, RecordedTimes* recorded = nullptr);
Trace import_kineto(const std::filesystem::path& file, const std::string& gpu = {},
                    const std::filesystem::path& counters = {}, std::optional<Time> host_time = {},
                    std::uint32_t sms = 0);

/// By content, not by name; reads the start of the file only.  False also where the file cannot be read.
bool looks_like_kineto(const std::filesystem::path& file);

}  // namespace corun
