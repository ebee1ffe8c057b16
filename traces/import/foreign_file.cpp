#include "traces/import/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include "traces/model/error.h"

namespace corun {
namespace {

struct Foreign {
  std::string_view told_by, is, remedy;
};

constexpr std::array<Foreign, 5> kNames = {{
    {".nsys-rep", "is a report of Nsight Systems in its own binary form", "export it: nsys export --type sqlite {}; then sim import nsys"},
    {".qdrep", "is a report of Nsight Systems in its own binary form", "export it: nsys export --type sqlite {}; then sim import nsys"},
    {".ncu-rep", "is a report of Nsight Compute in its own binary form",
     "print it: ncu --import {} --csv --page raw > counters.csv; then sim import kineto RECORDING --counters counters.csv"},
    {".xplane.pb", "is XLA's profile as protocol buffers", "give the .trace.json.gz that lies beside it"},
    {".pftrace", "is a trace of Perfetto as protocol buffers", "give the JSON or SQLite that the profiler itself writes"},
}};

/// Words of the first line.
constexpr std::array<Foreign, 6> kLines = {{
    {"Agent_Id", "is CSV of rocprofv3, which has a file for each kind of record", "record with rocprofv3 --output-format json; then sim import rocprof"},
    {"KernelName,gpu-id", "is CSV of rocprof, without launch calls and copies", "record with rocprofv3 --output-format json; then sim import rocprof"},
    {"Total Time (ns)", "is a summary that nsys stats printed, without single launches", "give the report itself: nsys export --type sqlite REPORT; then sim import nsys"},
    {"==PROF==", "is what Nsight Compute printed: counters, and no recording", "give it beside one: sim import kineto RECORDING --counters {}"},
    {"\"Metric Name\"", "is what Nsight Compute printed: counters, and no recording", "give it beside one: sim import kineto RECORDING --counters {}"},
    {"==NVPROF==", "is what nvprof printed, without launch calls", "record with Nsight Systems: nsys profile, then nsys export --type sqlite"},
}};

}  // namespace

void refuse_foreign(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const auto refuse = [&](const Foreign& foreign) {
    throw InputError(file.string(), "", std::string(foreign.is), fmt::format(fmt::runtime(foreign.remedy), name));
  };
  std::ifstream in(file, std::ios::binary);
  std::string head(512, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  if (head.empty() || head.starts_with("SQLite format 3") || head.starts_with("\x1F\x8B")) return;
  for (const Foreign& foreign : kNames)
    if (name.ends_with(foreign.told_by)) refuse(foreign);
  if (head.starts_with('{') || head.starts_with('[')) return;
  const std::string_view line = std::string_view(head).substr(0, head.find('\n'));
  for (const Foreign& foreign : kLines)
    if (line.find(foreign.told_by) != std::string_view::npos) refuse(foreign);
}

}  // namespace corun
