#include "sim/command/outputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "traces/json/duration.h"
#include "traces/json/output_file.h"
#include "traces/model/error.h"
#include "traces/timeline/block_log.h"
#include "traces/timeline/csv.h"
#include "traces/timeline/occupancy_svg.h"
#include "traces/timeline/perfetto.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

PerfettoOptions perfetto_options(const OutputOptions& options) {
  PerfettoOptions p;
  p.level = options.level == "request" ? TraceLevel::request
            : options.level == "cta"   ? TraceLevel::cta
                                       : TraceLevel::kernel;
  if (options.window.empty()) return p;
  const std::size_t dash = options.window.find('-');
  if (dash == std::string::npos)
    throw InputError("", "--trace-window", fmt::format("'{}' is not a window", options.window),
                     "write it as 0ms-20ms");
  p.begin = parse_duration(options.window.substr(0, dash), "--trace-window");
  p.end = parse_duration(options.window.substr(dash + 1), "--trace-window");
  if (p.end <= p.begin)
    throw InputError("", "--trace-window", fmt::format("'{}' ends before it begins", options.window),
                     "write it as 0ms-20ms");
  return p;
}

}  // namespace

struct Outputs::Files {
  std::filesystem::path directory;
  std::optional<OutputFile> requests, kernels, timeline, picture, summary, warps;
  std::optional<CsvSink> csv;
  std::optional<PerfettoSink> perfetto;
  std::optional<OccupancySink> occupancy;
  std::optional<BlockLogSink> block_log;
};

Outputs::Outputs(const OutputOptions& options, const Trace& trace, const Gpu& gpu)
    : files_(std::make_unique<Files>()) {
  Files& f = *files_;
  if (!options.block_log.empty()) f.block_log.emplace(trace, gpu, options.block_log);
  const PerfettoOptions perfetto = perfetto_options(options);
  if (options.directory.empty()) return;
  f.directory = options.directory;
  std::error_code error;
  std::filesystem::create_directories(f.directory, error);
  if (error)
    throw InputError(options.directory, "", "cannot be made: " + error.message(),
                     "choose another place with --out");
  f.requests.emplace(f.directory / "requests.csv");
  f.kernels.emplace(f.directory / "kernels.csv");
  f.timeline.emplace(f.directory / "timeline.pftrace");
  f.picture.emplace(f.directory / "occupancy.svg");
  f.summary.emplace(f.directory / "summary.json");
  if (options.for_page) f.warps.emplace(f.directory / "occupancy.csv");
  f.csv.emplace(trace, f.requests->stream(), f.kernels->stream());
  f.perfetto.emplace(trace, gpu, perfetto, f.timeline->stream());
  f.occupancy.emplace(trace, gpu,
                      OccupancyOptions{perfetto.begin, perfetto.end, trace.name, options.command_line});
}

Outputs::~Outputs() = default;

std::vector<Sink*> Outputs::sinks() const {
  std::vector<Sink*> sinks;
  if (files_->csv) sinks.push_back(&*files_->csv);
  if (files_->perfetto) sinks.push_back(&*files_->perfetto);
  if (files_->occupancy) sinks.push_back(&*files_->occupancy);
  if (files_->block_log) sinks.push_back(&*files_->block_log);
  return sinks;
}

void Outputs::finish(const RunResult& result) {
  Files& f = *files_;
  if (f.block_log) f.block_log->finish();
  if (f.directory.empty()) return;
  f.perfetto->finish();
  f.occupancy->write(f.picture->stream());
  write_summary(result, f.summary->stream());
  if (f.warps) f.occupancy->write_csv(f.warps->stream());
  for (auto* out : {&f.requests, &f.kernels, &f.timeline, &f.picture, &f.summary}) (*out)->close();
  if (f.warps) f.warps->close();
}

}  // namespace corun::sim
