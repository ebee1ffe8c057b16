// Whole networks that shared a GPU (`sim schema networks`) beside what the simulator makes of the same mixes.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/run/memory.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

struct Network {
  std::string name;
  std::filesystem::path trace;
  bool set_aside = false;  // no part of the model was chosen with it in view
  bool recorded = false;   // measured_ms is of one request under the profiler: nothing else was measured
  double measured_ms = 0;  // a request alone as a graph, one behind the other
  double simulated_ms = 0;
  std::filesystem::path eager_trace{};  // empty: none
  double measured_eager_ms = 0;         // likewise by single launches; NaN: not measured
  double simulated_eager_ms = 0;
};

/// What a client got in one run.
struct Got {
  std::vector<double> latencies_us;  // of real-time requests
  std::uint64_t dropped = 0;
  double per_s = 0;  // of best-effort requests, first end to last end; NaN: too few
};

struct NetworkMix {
  std::string name;
  std::filesystem::path trace_file;
  std::vector<std::size_t> networks;  // by client
  bool set_aside = false;             // one of its networks is
  Trace trace;
  std::map<std::string, Trace> trace_by_mode;  // instead, by the mode's name

  const Trace& trace_in(const std::string& mode) const {
    const auto found = trace_by_mode.find(mode);
    return found == trace_by_mode.end() ? trace : found->second;
  }
};

struct MeasuredRun {
  std::size_t mix = 0;
  std::string mode, policy;
  std::vector<std::vector<Got>> measured;  // by client, by repeat
  std::vector<Got> simulated;              // by client
};

struct MeasuredNetworks {
  std::string file, device;  // device: with driver and date
  std::vector<Network> networks;
  std::vector<NetworkMix> mixes;
  std::vector<MeasuredRun> runs;
  Gpu gpu;
};

struct NetworksOptions {
  std::vector<std::string> mixes, modes;                             // only these; empty: all
  Time duration = std::chrono::milliseconds(400);                    // that counts, at most as measured
  unsigned threads = 0;                                              // 0: as many as the machine has
  std::function<void(const char* stage, double fraction)> progress;  // may be empty
  std::vector<std::string> only{};                                   // names of either kind
  std::string gpu{};                                                 // instead of the traces' own
  bool contention = true;                                            // false: blocks take as long as alone
};

/// The networks.json or networks.json.gz in this folder, or this file if it is called so; empty: none.
std::filesystem::path find_networks(const std::filesystem::path& place);

/// With the runs that the options want and their mixes' traces.  Throws InputError.
MeasuredNetworks read_networks(const std::filesystem::path& file, const NetworksOptions& options);

/// Fills in what is simulated: every network alone, every run.  The same whatever the number of threads.
void simulate_networks(MeasuredNetworks& networks, const NetworksOptions& options);

/// Before what counts, as when they were measured: until then the clock falls under load.
inline constexpr Time kWarmUp = std::chrono::milliseconds(100);

/// One run of a mix's trace, its records to the sinks.
void simulate_mix(const MeasuredNetworks& networks, const Trace& mix, const std::string& policy,
                  Time duration, bool contention, Memory& memory, const std::vector<Sink*>& sinks);

/// By client, of requests that came from `begin` on.  What had not ended at `end` is not known.
std::vector<Got> got(const Trace& trace, const std::vector<RequestRecord>& requests, Time begin, Time end);

}  // namespace corun::sim
