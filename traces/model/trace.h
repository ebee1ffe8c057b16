// A workload: kernels, programs (what one request does), clients (who sends requests, when, with which
// rights) and how long to run.  Version 1 of the trace format is this, as JSON.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "traces/model/host_stalls.h"
#include "traces/model/ids.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"
#include "traces/model/tpc_mask.h"

namespace corun {

struct Launch {
  KernelId kernel;
  std::optional<Time> solo_time;    // of this launch, where it differs from the kernel's
  std::optional<TpcMask> tpc_mask;  // finest of the three levels; a policy may apply them (`tpc-mask` does)
  /// Programmatic dependent launch: it is there when its stream's previous kernel ends, so it starts without a gap.  Its time
  /// is what it takes from then on.
  bool dependent = false;
  /// Between the end of its stream's previous kernel and its start, outside of graphs; none: the GPU's `stream_gap`.
  /// Set by `sim validate` only, and not part of trace files.
  std::optional<Time> gap = {};
  bool operator==(const Launch&) const = default;
};
enum class CopyDirection : std::uint8_t { host_to_device, device_to_host, device_to_device };
struct Copy {
  CopyDirection direction = CopyDirection::host_to_device;
  std::uint64_t bytes = 0;
  std::uint64_t host_bytes_per_second = 0;  // most that the host's side gives, as of pageable memory; 0: no less than the card takes
  bool operator==(const Copy&) const = default;
};
struct Sync {  // the host thread waits for all that its request has issued
  bool operator==(const Sync&) const = default;
};
/// cudaMalloc: device memory under a name of the program; what a request does not free, its end does.
struct Alloc {
  std::uint32_t buffer = 0;  // index into Program::buffers
  std::uint64_t bytes = 0;
  bool operator==(const Alloc&) const = default;
};
/// cudaFree: waits as a Sync does, then gives the memory back.
struct Free {
  std::uint32_t buffer = 0;
  bool operator==(const Free&) const = default;
};

struct Op {
  std::variant<Launch, Copy, Sync, Alloc, Free> what;
  StreamId stream;
  Time host_gap{};  // host work between the previous call's return and this call
  std::vector<OpId>
      after;         // beside the stream's order: an event recorded after each of these, waited for here
  std::string name;  // only where another op's `after` names it
  /// Buffers of the program that a launch or copy uses; absent: all that the client holds.
  /// Client::memory_bytes is always used.
  std::optional<std::vector<std::uint32_t>> uses{};
  /// Not 0: with those right before and after it that have the same number it is one launch of a CUDA graph, among calls of a
  /// program that is none as a whole.
  std::uint32_t graph = 0;
  bool operator==(const Op&) const = default;
};

/// The host does it by itself, between what it hands to streams.
inline bool is_host_call(const Op& op) {
  return !std::holds_alternative<Launch>(op.what) && !std::holds_alternative<Copy>(op.what);
}

/// How the host hands a request over: one call per operation, or all of it in one call (a CUDA graph).
enum class Issue : std::uint8_t { eager, graph };

struct Stream {
  std::string name;
  bool operator==(const Stream&) const = default;
};

struct Program {
  std::string name;
  Issue issue = Issue::eager;
  std::vector<Stream> streams;
  std::vector<Op> ops;                 // in the order the host issues them
  std::vector<std::string> buffers{};  // names of its allocations
  /// Of a server's program: where each of its steps begins, of which a request is one; empty: a request is all of it.
  std::vector<OpId> parts{};
  /// The same request as it was recorded on fewer SMs, by their number, where libraries choose other kernels there.
  std::map<std::uint32_t, ProgramId> on_sms{};
  /// Made of a few latencies (traces/import/table.h): less is known of it than its kernels say.
  bool coarse = false;
  bool operator==(const Program&) const = default;
};

struct ClosedLoop {
  Time think_time{};
  std::uint32_t in_flight = 1;  // requests issued and not ended; more than one: without alloc and free
  bool operator==(const ClosedLoop&) const = default;
};
struct Periodic {
  Time period{};
  Time offset{};
  bool operator==(const Periodic&) const = default;
};
struct Poisson {
  double rate_per_s = 0;
  std::uint64_t seed = 0;  // combined with the run's seed
  bool operator==(const Poisson&) const = default;
};
struct ExplicitTimes {
  std::vector<Time> times;
  bool operator==(const ExplicitTimes&) const = default;
};
struct Once {
  Time at{};
  bool operator==(const Once&) const = default;
};
using Arrivals = std::variant<ClosedLoop, Periodic, Poisson, ExplicitTimes, Once>;

/// A server of sequences, as of a language model's: prompts come, wait for a place in the batch, are read in chunks (prefill)
/// and then continued by a token a step (decode) for all in the batch.  A request of the client is one step.
struct ServingStep {
  ProgramId program;           // as captured for this size
  std::uint32_t batch = 0;     // decode: sequences
  std::uint32_t context = 0;   // decode: tokens of each
  std::uint32_t tokens = 0;    // prefill: tokens of the prompt that are read; 0: it is a decode
  bool operator==(const ServingStep&) const = default;
};
struct Sequence {
  Time at{};
  std::uint32_t prompt = 0, generated = 0;  // tokens; at least one is generated
  std::vector<std::uint64_t> blocks{};      // hashes of the prompt's blocks, of each or of all up to it
  bool operator==(const Sequence&) const = default;
};
struct Serving {
  std::vector<ServingStep> steps;   // at least a prefill and a decode
  std::uint32_t most_at_once = 0;   // sequences in the batch
  bool padded = false;  // a decode reads as many tokens of each as the longest has, else its own of each
  std::vector<Sequence> sequences;  // in the order of their times
  std::uint32_t prefix_block = 0;   // tokens of a sequence's block; 0: they have none
  std::optional<std::uint64_t> prefix_cache;  // tokens that it keeps of prompts; absent: it keeps none
  std::optional<Time> first_token_slo, between_tokens_slo, end_to_end_slo;  // between tokens: a sequence's mean
  bool operator==(const Serving&) const = default;
};

/// What becomes of an open-loop request that is still waiting when the next one arrives.  DISB keeps the
/// newest only.
enum class Stale : std::uint8_t { keep_newest, queue };

inline constexpr std::uint32_t kMaxCpus = 1024;
using CpuSet = std::bitset<kMaxCpus>;

/// One of several processes of a server.  The client's arrivals, or its sequences, are the server's: a load balancer deals them in turn.
struct Replica {
  std::string of;            // the server
  std::uint32_t number = 0;  // from 0
  std::uint32_t among = 1;
  bool operator==(const Replica&) const = default;
};

enum class ServiceClass : std::uint8_t { real_time, best_effort };

struct ClientStream {
  std::optional<std::int32_t> priority;  // CUDA's: 0 lowest, -5 highest; absent: the client's
  std::optional<TpcMask> tpc_mask;
  bool operator==(const ClientStream&) const = default;
};

struct Client {
  std::string name;
  Origin origin;
  ProgramId program;
  std::string process;         // clients of one process share a context
  std::optional<Issue> issue;  // absent: the program's; under `graph` host gaps do not apply
  ServiceClass service_class = ServiceClass::best_effort;
  std::int32_t priority = 0;
  std::optional<TpcMask> tpc_mask;    // coarsest of the three levels
  std::vector<ClientStream> streams;  // one per stream of the program
  std::uint64_t memory_bytes = 0;     // held from its first request to the end of the run
  std::optional<double> quota;        // most of the GPU it may hold, as a fraction
  std::optional<double> reservation;  // least of the GPU it is promised, as a fraction
  std::optional<Time> deadline;       // relative to the intended arrival
  Arrivals arrivals;
  Stale stale = Stale::keep_newest;
  std::optional<CpuSet> cpus{};  // cores that its host thread may run on, as may those of others; absent: one of its own
  bool blocking = false;         // its host sleeps while it waits for the GPU, else it spins and keeps its core
  std::optional<Replica> replica{};
  std::optional<HostStalls> host_stalls{};  // absent: its host never stands still
  std::optional<Serving> serving{};  // then `arrivals` is a closed loop, and the program one that serve() made
  bool operator==(const Client&) const = default;
};

/// How this client hands its requests over.
inline Issue issue_of(const Client& client, const Program& program) {
  return client.issue.value_or(program.issue);
}

/// By which call an operation comes to the GPU.
enum class HandedOver : std::uint8_t { by_itself, first_of_graph, in_graph };
inline HandedOver handed_over(const Client& client, const Program& program, OpId op) {
  if (issue_of(client, program) == Issue::graph) return HandedOver::in_graph;
  const std::uint32_t graph = program.ops[op.value].graph;
  if (graph == 0 || client.issue) return HandedOver::by_itself;
  return op.value != 0 && program.ops[op.value - 1].graph == graph ? HandedOver::in_graph : HandedOver::first_of_graph;
}

struct RunControl {
  std::optional<Time> duration;  // absent: until every client has finished once, all restarting until then
  Time warm_up{};
  std::uint64_t seed = 1;
  Time cpu_slice{4'000'000'000};  // how long a host thread keeps a shared core while others wait for it: decision 437
  bool operator==(const RunControl&) const = default;
};

struct Trace {
  std::string name;
  std::string about;
  std::string gpu;  // a name of `sim gpus` or a path
  std::vector<Kernel> kernels;
  std::vector<Program> programs;
  std::vector<Client> clients;
  RunControl run;
  std::vector<std::string> notes;    // what an import assumed; printed with the results
  std::vector<std::string> carried;  // carry-over of kernel times from another card; printed before `notes`
  bool operator==(const Trace&) const = default;
};

}  // namespace corun
