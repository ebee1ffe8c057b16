// What an importer keeps of a recording, by Kineto, Nsight Systems or rocprofv3: GPU operations, the host calls that
// concern them, synchronizations and step marks, as recorded and in the order of the file.  Leaves out all else as it
// streams by.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "traces/model/kernel.h"
#include "traces/model/trace.h"

namespace corun::kineto {

/// Absolute times may count from 1970, which Time cannot hold.
using Nanoseconds = std::chrono::nanoseconds;

/// Of one copy: what every reader of JSON takes for a whole number.
inline constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 53) - 1;

/// Launches with all of this in common are launches of one kernel.
struct Shape {
  std::string name;
  Dim3 grid, block;
  std::optional<std::uint32_t> registers_per_thread;
  std::uint32_t shared_memory_bytes = 0;  // static + dynamic
  std::optional<Dim3> cluster{};
  std::optional<std::uint32_t> static_shared_memory_bytes{};  // of the sum, where the tool tells them apart
};

/// Shapes by number: that of their first launch.
class ShapeIndex {
 public:
  /// Of the shape in `shapes`, the same list in every call; a shape that is new is added to it.
  std::uint32_t of(Shape shape, std::vector<Shape>& shapes);

 private:
  using Size = std::array<std::uint32_t, 3>;
  using Key = std::tuple<std::string, Size, Size, Size, std::optional<std::uint32_t>, std::optional<std::uint32_t>,
                         std::uint32_t>;
  std::map<Key, std::uint32_t> known_;
};

/// The driver's own, for migrations of managed memory, and the last of one for each direction.
inline constexpr std::int64_t kDriverStream = -1, kLastDriverStream = -3;

struct StreamKey {
  std::int64_t device = 0, context = 0, stream = 0;
  auto operator<=>(const StreamKey&) const = default;
};

struct GpuOp {
  enum class Kind : std::uint8_t { kernel, copy, memset };
  Kind kind = Kind::kernel;
  CopyDirection direction = CopyDirection::device_to_device;
  bool pageable = false;  // pageable or managed host memory: the host sets the pace
  bool peer = false;
  bool memory_unknown = false;  // of its host side
  bool migration = false;  // of managed memory, by the driver
  std::uint32_t shape = 0;  // index into Records::shapes
  std::uint64_t bytes = 0;
  Nanoseconds start{}, duration{};
  StreamKey stream;
  std::optional<std::uint64_t> correlation;
};

struct Call {
  enum class Kind : std::uint8_t {
    launch,
    copy,
    copy_and_wait,
    graph_launch,
    event_record,
    event_wait,
    synchronize,
    query  // asks and does not wait
  };
  Kind kind = Kind::launch;
  std::uint32_t thread = 0;  // numbered in order of appearance
  std::uint64_t correlation = 0;
  Nanoseconds start{}, duration{};
};

/// A `cuda_sync` event.
struct SyncEvent {
  bool event_wait = false;  // a stream waits for an event; otherwise the host waits
  StreamKey stream;
  std::optional<std::int64_t> wait_on_stream;
  std::optional<std::uint64_t> correlation, record_correlation;
  Nanoseconds start{}, duration{};
};

struct Step {
  std::string name;  // "ProfilerStep#7"
  Nanoseconds start{}, duration{};
};

struct Device {
  std::int64_t id = 0;
  std::string name;
  std::uint32_t sms = 0;
  std::uint32_t compute_capability = 0;  // 75: 7.5; 0: not recorded
  std::uint64_t memory_bytes = 0;        // 0: not recorded
};

/// What requests took where the tool recorded no kernels.
struct Untraced {
  std::size_t count = 0;
  Nanoseconds tenth{}, nine_tenths{};      // as many took less
  std::optional<Nanoseconds> kept_back{};  // the median of every second one, which told nothing else
  bool tool_away = false;                  // the tool was not in the process
};

struct Records {
  std::vector<Shape> shapes;
  std::vector<GpuOp> ops;
  std::vector<Call> calls;
  std::vector<SyncEvent> syncs;
  std::vector<Step> steps;
  std::vector<Device> devices;
  std::uint32_t threads = 0;
  bool in_segments = false;                          // of the run; between them kernels were not recorded
  std::vector<Call> unrecorded_calls;                // made while the tool recorded nothing else
  std::optional<Nanoseconds> unrecorded_request;     // what one of `steps` took then
  Untraced untraced;                                 // of ranges, what all of `steps` took then
  Nanoseconds added_to_call{}, added_to_node{};      // of that by the tool, for each that issues work and each node of a graph
  std::map<std::string, Nanoseconds> request_times;  // what a request takes without the profiler, by range; "": any
  // AMD's tools record launches in other ways.
  std::size_t shapes_of_calls = 0, shapes_of_names = 0;  // kernels whose shape was found elsewhere
  std::size_t work_items = 0;                            // whose grid was counted in work-items
  std::vector<std::uint32_t> shapeless;                  // ops of which no shape is known: indices into `ops`
  bool any_events = false;
  bool by_xla = false;               // XLA's profiler wrote it, as JAX's
  std::string xla_device;            // that is no GPU: "/device:TPU:0"
  bool by_legacy_profiler = false;   // of operators: torch.autograd.profiler without Kineto
  std::string other_runtime;         // of GPUs that are neither NVIDIA's nor AMD's, as the events call it
  std::size_t mended = 0;            // places that were no JSON
  std::uint64_t skipped_copies = 0;  // host to host, or of no bytes
  std::uint32_t implied_sms = 0;     // from a kernel's "blocks per SM"; 0: unknown
};

/// What a call is, by its name in CUDA's or HIP's runtime or driver; nothing: none that matters.
std::optional<Call::Kind> call_kind(std::string_view name);

CopyDirection direction_of(bool from_host, bool to_host);

/// What a copy is, by CUPTI's number of its kind; nothing: one from host to host.
struct CuptiCopy {
  CopyDirection direction;
  bool peer;
  bool migration = false;  // Nsight Systems' numbers go on with these
};
std::optional<CuptiCopy> cupti_copy(std::int64_t kind);

/// Ranges called `range` are steps; empty: ProfilerStep marks are.  Throws InputError naming the line.
Records read_records(const std::filesystem::path& file, const std::string& range = {});

bool looks_like_records(const std::filesystem::path& file);

}  // namespace corun::kineto
