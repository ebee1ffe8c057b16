// A reference measurement: kernels alone and in pairs on a real GPU, as `sim schema reference` describes it.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

/// How two clients share the GPU.
enum class Mode : std::uint8_t { streams, streams_ba, prio_a, prio_b, half, quarter };
inline constexpr std::array<Mode, 6> kModes = {Mode::streams, Mode::streams_ba, Mode::prio_a,
                                               Mode::prio_b,  Mode::half,       Mode::quarter};
std::string_view to_string(Mode mode);
/// Throws InputError naming `place`.
Mode mode_of(const std::string& text, const std::string& place);

/// SMs that the first of two clients may use: where each has a part of the GPU, the other has the rest.
std::uint32_t first_part(Mode mode, const Gpu& gpu);

/// What of the measurement the simulator is given beside launch shape, solo time on the whole GPU, counters:
/// the solo times on fewer SMs too, or not.
enum class Inputs : std::uint8_t { curve, counters };

struct ReferenceKernel {
  Kernel kernel;  // `name`: the file's short one; solo times: of one launch
  std::uint32_t launches = 0;
  double solo_ms = 0;
  std::map<std::uint32_t, double> solo_ms_by_sms;
  std::string inputs;  // what the simulator is given of it, in words
};

struct ReferenceRow {
  std::uint32_t a = 0, b = 0;  // indices into Reference::kernels
  Mode mode = Mode::streams;
  double t_a = 0, t_b = 0;  // ms, from the common start to the end of the last launch
  double spread = 1;        // largest over smallest time of the repetitions
};

struct Reference {
  std::string file;
  std::string gpu;                       // where it was measured
  std::vector<ReferenceKernel> kernels;  // by name
  std::vector<ReferenceRow> rows;

  /// "a+b"
  std::string pair(const ReferenceRow& row) const {
    return kernels[row.a].kernel.name + '+' + kernels[row.b].kernel.name;
  }
};

/// The GPU as periods of launches see it: what a launch costs beside its blocks lies between launches, in
/// which SMs are free for others.  Only a part of that lies between the durations that profilers record
/// (`stream_gap`).
Gpu of_periods(Gpu gpu);

/// Throws InputError for what the file cannot hold, or for what does not fit this GPU.
///
/// Gate and end event of a measurement together are taken to cost one gap between kernels of a stream, so
/// that a launch alone lasts solo_ms / launches less the gap of `of_periods`, on fewer SMs likewise; replay()
/// adds that gap again.
Reference read_reference(const std::filesystem::path& file, const Gpu& gpu, Inputs inputs = Inputs::curve);

/// Keeps the rows of these modes and pairs ("a+b", either way round), all where a list is empty, and the
/// kernels they need; `only`: names of either.  Throws InputError for a mode or pair that the file lacks.
void select(Reference& reference, std::vector<std::string> modes, std::vector<std::string> pairs,
            const std::vector<std::string>& only = {});

}  // namespace corun::sim
