// `sim import` and `sim capture`: a trace of what another tool, or CUPTI, recorded of a program.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace corun::sim {

struct ImportArguments {
  std::string format, input, output, gpu, counters, host_time, request_time, range, name, process;
  std::string untraced;  // folder with the ranges of a run without CUPTI
  std::vector<std::string> by_sms{};  // recordings of the program on parts of the GPU, as part_recording() reads them
  /// What `sim capture` recorded there by itself: a folder, and whether it was asked to.  What was not asked for may be
  /// missing or wrong, which is then told.
  struct Part {
    std::string folder;
    bool asked = true;
  };
  std::vector<Part> parts{};
  std::string no_part;  // not empty: why there is none
  std::uint32_t sms = 0;
  std::optional<std::int64_t> device;
  std::optional<std::uint64_t> step;
  bool assume_shapes = false, repeats = false, no_host_stalls = false;
};

/// Within a kept recording, and then the percentage: what was recorded there.
constexpr const char* kPartFolder = "percent-";

CLI::App* add_import(CLI::App& app, ImportArguments& arguments);
/// Returns the exit code.  Throws InputError.
int import(const ImportArguments& arguments);

struct CaptureArguments {
  ImportArguments import;  // of what was recorded; `input`: the folder that keeps it
  std::vector<std::string> program;
  bool counters = false, twice = false, all = false, once = false;
  std::vector<unsigned> by_sms{};  // percentages of the GPU under MPS on which it runs again; none: a quarter, unless `once`
};

CLI::App* add_capture(CLI::App& app, CaptureArguments& arguments);
/// Returns the exit code.  Throws InputError.
int capture(CaptureArguments arguments);

}  // namespace corun::sim
