#include "traces/import/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <istream>
#include <string>
#include <string_view>

#include "traces/json/input_file.h"
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

constexpr std::string_view kExportAnew = "export the report anew: nsys export --type sqlite REPORT; then sim import nsys";
constexpr std::string_view kGiveReport = "give the report itself: nsys export --type sqlite REPORT; then sim import nsys";
constexpr std::string_view kNvprof = "is what nvprof printed, without launch calls";
constexpr std::string_view kNsys = "record with Nsight Systems: nsys profile, then nsys export --type sqlite";
constexpr std::string_view kPickle = "is a pickle of Python, as PyTorch's memory snapshots are";
constexpr std::string_view kProfile = "record with torch.profiler and export_chrome_trace";

/// First bytes.
constexpr std::array<Foreign, 11> kHeads = {{
    {"\xFF\xFE", "is UTF-16 text, as PowerShell redirects; expected UTF-8", "convert it: iconv -f utf-16 -t utf-8 {} > new.json"},
    {"\xFE\xFF", "is UTF-16 text; expected UTF-8", "convert it: iconv -f utf-16 -t utf-8 {} > new.json"},
    {"version https://git-lfs", "is Git LFS's pointer to a file, which is not here", "get it: git lfs pull --include {}"},
    {"<", "is a page of the web or another XML file, and no recording", "get the file itself, as `curl -LO` of its raw address does"},
    {"\x89HDF", "is HDF5, as nsys export --type hdf writes", kExportAnew},
    {"PAR1", "is Parquet, as nsys export --type parquetdir writes", kExportAnew},
    {"ARROW1", "is Arrow, as nsys export --type arrow writes", kExportAnew},
    {"{\"Type\":", "is JSON lines, as nsys export --type jsonlines writes", kExportAnew},
    {"\x80\x02", kPickle, kProfile},
    {"\x80\x04", kPickle, kProfile},
    {"\x80\x05", kPickle, kProfile},
}};

/// Words of the first line.
constexpr std::array<Foreign, 8> kLines = {{
    {"Agent_Id", "is CSV of rocprofv3, which has a file for each kind of record", "record with rocprofv3 --output-format json; then sim import rocprof"},
    {"KernelName,gpu-id", "is CSV of rocprof, without launch calls and copies", "record with rocprofv3 --output-format json; then sim import rocprof"},
    {"Total Time (ns)", "is a summary that nsys stats printed, without single launches", kGiveReport},
    {"CorrId", "is a list that nsys stats printed of what the GPU did, without the host's calls", kGiveReport},
    {"==PROF==", "is what Nsight Compute printed: counters, and no recording", "give it beside one: sim import kineto RECORDING --counters {}"},
    {"\"Metric Name\"", "is what Nsight Compute printed: counters, and no recording", "give it beside one: sim import kineto RECORDING --counters {}"},
    {"== NVPROF", kNvprof, kNsys},
    {"== Profiling", kNvprof, kNsys},
}};

/// The file's first bytes, unpacked where it is gzip; empty: it cannot be read, which the reader tells.
std::string head_of(const std::filesystem::path& file) try {
  const auto in = open_input(file);
  std::string head(512, '\0');
  in->read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in->gcount())));
  return head;
} catch (const InputError&) {
  return "";
}

}  // namespace

void refuse_foreign(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const auto refuse = [&](const Foreign& foreign) {
    throw InputError(file.string(), "", std::string(foreign.is), fmt::format(fmt::runtime(foreign.remedy), name));
  };
  constexpr std::size_t kTarMagic = 257;
  const std::string head = head_of(file);
  if (head.empty() || head.starts_with("SQLite format 3")) return;
  for (const Foreign& foreign : kNames)
    if (name.ends_with(foreign.told_by)) refuse(foreign);
  for (const Foreign& foreign : kHeads)
    if (head.starts_with(foreign.told_by)) refuse(foreign);
  if (head.size() > kTarMagic && std::string_view(head).substr(kTarMagic).starts_with("ustar"))
    refuse({"", "is an archive of tar", "unpack it first: tar -xf {}"});
  if (head.starts_with('{') || head.starts_with('[')) return;
  const std::string_view line = std::string_view(head).substr(0, head.find('\n'));
  for (const Foreign& foreign : kLines)
    if (line.find(foreign.told_by) != std::string_view::npos) refuse(foreign);
}

}  // namespace corun
