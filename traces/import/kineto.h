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

#include "traces/model/time.h"
#include "traces/model/trace.h"

namespace corun {

/// One program (one ProfilerStep, the median one, or else the whole recording) and one closed-loop client,
/// "main". `gpu`: a name of `sim gpus` or a path; empty: found by the recorded device's name, and if that is
/// not known Trace::gpu stays empty.  `counters`: what `ncu --csv` printed of the same program, joined as
/// traces/import/join_counters.h says; launches of one shape that differ then become kernels of their own.
/// `host_time`: what the host takes to issue the request where no profiler slows it; where it took longer in
/// the recording all host gaps shrink alike.  `sms`: how many SMs the program had, if fewer than the GPU has and
/// the recording does not say so, as in a green context; as a client of MPS it does, and what MPS adds to a
/// kernel is taken off its time.  Throws InputError, also where no launch is in both.
Trace import_kineto(const std::filesystem::path& file, const std::string& gpu = {},
                    const std::filesystem::path& counters = {}, std::optional<Time> host_time = {},
                    std::uint32_t sms = 0);

/// By content, not by name; reads the start of the file only.  False also where the file cannot be read.
bool looks_like_kineto(const std::filesystem::path& file);

}  // namespace corun
