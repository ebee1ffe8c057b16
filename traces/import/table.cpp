#include "traces/import/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/csv_rows.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

// Columns that a row leaves out are as in the median of the kernels of 27 networks on an H200, by their time
// (experiments/h200/networks): instructions issued in 39 % of the cycles, blocks of 256 threads and 6,400 bytes of shared memory
// that last 39 us and of which three fit on an SM.
constexpr double kIssuePct = 40, kOccupancyPct = 37.5, kBlockPs = 39e6;
constexpr std::uint32_t kThreads = 256, kSharedBytes = 6400;
/// More waves change nothing, and cost time.
constexpr double kMostWaves = 500;
/// A request is cut into kernels of this length where their number is not given: of so many waves that a last one does not show,
/// as it does not in the sum of kernels that differ.
constexpr double kKernelPs = 1e9;
constexpr double kMostKernels = 1000;
/// Bytes through L2 beside those of DRAM, the same median.
constexpr double kL2OverDram = 3.75;
constexpr double kPsPerMs = 1e9;

enum Column : std::size_t { percentage, sms, latency, busy, dram, l2, issue, occupancy, kernels, copy_in, copy_out, gpu, kColumns };
struct Allowed {
  std::string_view name;
  double least, most;
};
constexpr std::array<Allowed, kColumns> kAllowed{{{"percentage", 0.1, 100},
                                                  {"sms", 1, 65535},
                                                  {"latency_ms", 1e-3, 1e6},
                                                  {"busy_pct", 0.1, 100},
                                                  {"dram_pct", 0, 100},
                                                  {"l2_pct", 0, 100},
                                                  {"issue_pct", 0.1, 100},
                                                  {"occupancy_pct", 1, 100},
                                                  {"kernels", 1, kMostKernels},
                                                  {"copy_in_bytes", 0, 1e12},
                                                  {"copy_out_bytes", 0, 1e12},
                                                  {"gpu", 0, 0}}};

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return std::string(text);
}

std::string column_names() {
  std::vector<std::string> names;
  for (const Allowed& a : kAllowed) names.emplace_back(a.name);
  return list_names(names);
}

/// One share, as it is written.
struct Share {
  std::uint64_t line = 0;
  std::array<std::optional<double>, kColumns> values;
  std::uint32_t sms = 0;

  double of(Column column, double otherwise) const { return values[column].value_or(otherwise); }
};

class TableReader {
 public:
  TableReader(const std::filesystem::path& file, const ImportOptions& options) : file_(file), options_(options) {}

  Trace read() {
    read_rows();
    gpu_name_ = options_.gpu.empty() ? gpu_name_ : options_.gpu;
    if (gpu_name_.empty())
      fail(1, "nothing says on which GPU it was measured", "add a column `gpu` (`sim import` also has --gpu); `sim gpus` lists the names");
    gpu_ = read_gpu(gpu_name_, options_.gpu.empty() ? file_.parent_path() : std::filesystem::path{});
    count_sms();
    return make();
  }

 private:
  [[noreturn]] void fail(std::uint64_t line, const std::string& problem, const std::string& remedy) const {
    throw InputError(file_.string(), fmt::format("line {}", line), problem, remedy);
  }

  std::vector<Column> read_header(const std::vector<std::string>& fields) const {
    std::vector<Column> columns;
    for (const std::string& field : fields) {
      const std::string name = trimmed(field);
      const auto found = std::ranges::find(kAllowed, name, &Allowed::name);
      if (found == kAllowed.end())
        fail(1, fmt::format("there is no column {}", in_quotes(name)), fmt::format("use {}", column_names()));
      const auto column = static_cast<Column>(found - kAllowed.begin());
      if (std::ranges::find(columns, column) != columns.end())
        fail(1, fmt::format("column {} stands twice", in_quotes(name)), "leave one out");
      columns.push_back(column);
    }
    const auto has = [&](Column c) { return std::ranges::find(columns, c) != columns.end(); };
    if (has(percentage) == has(sms))
      fail(1, "a share of the GPU is a `percentage` or a number of `sms`", "give one of the two columns");
    if (!has(latency)) fail(1, "there is no column `latency_ms`", "add it: the time of a request alone on the share");
    return columns;
  }

  void read_rows() {
    CsvRows rows(file_);
    std::vector<std::string> fields;
    if (!rows.next(fields, false)) fail(1, "is empty", "give a header and a row for each share");
    const std::vector<Column> columns = read_header(fields);
    while (rows.next(fields, false)) {
      if (fields.size() == 1 && trimmed(fields[0]).empty()) continue;
      if (fields.size() != columns.size())
        fail(rows.line(), fmt::format("has {} fields, the header {}", fields.size(), columns.size()), "give a field for each column, empty where it is not known");
      Share share;
      share.line = rows.line();
      for (std::size_t i = 0; i < columns.size(); ++i) read_field(columns[i], trimmed(fields[i]), share);
      for (const Column needed : {columns[0], latency})
        if (needed != gpu && !share.values[needed] && (needed == latency || needed == percentage || needed == sms))
          fail(share.line, fmt::format("`{}` is empty", kAllowed[needed].name), "give it, or leave the row out");
      shares_.push_back(share);
    }
    if (shares_.empty()) fail(1, "has no rows", "give a row for each share of the GPU on which the program was run");
  }

  void read_field(Column column, const std::string& text, Share& share) {
    if (text.empty()) return;
    if (column == gpu) {
      if (!gpu_name_.empty() && gpu_name_ != text)
        fail(share.line, fmt::format("is of {}, the rows before are of {}", in_quotes(text), in_quotes(gpu_name_)), "make a table for each GPU");
      gpu_name_ = text;
      return;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto& [name, least, most] = kAllowed[column];
    const bool whole = column == sms || column == kernels || column == copy_in || column == copy_out;
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most) || (whole && value != std::floor(value)))
      fail(share.line, fmt::format("`{}` is {}; expected {} from {} to {}", name, in_quotes(text), whole ? "a whole number" : "a number", least, most),
           "correct it, or leave the field empty where it is not known");
    share.values[column] = value;
  }

  void count_sms() {
    for (Share& share : shares_) {
      if (share.values[percentage] && gpu_.mps_least_sms == 0 && *share.values[percentage] < 100)
        fail(share.line, fmt::format("{} has no percentages of MPS", gpu_.name), "give `sms` instead");
      share.sms = share.values[percentage] ? gpu_.mps_sms(*share.values[percentage]) : static_cast<std::uint32_t>(*share.values[sms]);
      if (share.sms > gpu_.sms) fail(share.line, fmt::format("{} has {} SMs", gpu_.name, gpu_.sms), "give at most these");
    }
    std::ranges::stable_sort(shares_, std::greater<>{}, &Share::sms);
    for (std::size_t i = 1; i < shares_.size(); ++i)
      if (shares_[i].sms == shares_[i - 1].sms)
        fail(std::max(shares_[i].line, shares_[i - 1].line), fmt::format("is as many SMs, {}, as line {}", shares_[i].sms, std::min(shares_[i].line, shares_[i - 1].line)),
             "give each share once");
  }

  double copying(const Share& s) const {
    return (s.of(copy_in, 0) + s.of(copy_out, 0)) / gpu_.copy_bytes_per_second * 1e12;
  }
  double bytes_per_ps(double pct) const { return pct / 100 * gpu_.dram_bytes_per_second / 1e12; }

  /// Share of a request's time without copies in which the SMs work: as given, or by the nearest share.  Time that does not shrink with more
  /// SMs leaves them idle, unless it is the time that its bytes take.
  double working(std::size_t i) const {
    const Share& s = shares_[i];
    const double time = s.of(latency, 0) * kPsPerMs - copying(s);
    if (s.values[busy]) return time * *s.values[busy] / 100;
    if (shares_.size() == 1) return time;
    const Share& other = shares_[i + 1 < shares_.size() ? i + 1 : i - 1];
    const double there = other.of(latency, 0) * kPsPerMs - copying(other);
    const double scaled = (there - time) / (1.0 / other.sms - 1.0 / s.sms) / s.sms;
    return std::clamp(std::max(scaled, std::max(s.of(dram, 0), s.of(l2, 0)) / 100 * time), 0.0, time);
  }

  struct Cut {
    double kernel = 0, gap = 0;  // ps: of one kernel, and of the host before the request
    std::uint32_t kernels = 1;
  };
  Cut cut(std::size_t i) const {
    const Share& s = shares_[i];
    const double time = s.of(latency, 0) * kPsPerMs - copying(s);
    if (time <= 0)
      fail(s.line, fmt::format("its copies alone take {:.3g} ms on {}", copying(s) / kPsPerMs, gpu_.name), "correct `copy_in_bytes`, `copy_out_bytes` or `latency_ms`");
    const double handed = static_cast<double>((gpu_.graph_launch_call + gpu_.graph_launch_latency + gpu_.completion_notice).count());
    const double between = static_cast<double>((s.values[percentage] ? gpu_.mps_graph_gap : gpu_.graph_gap).count());
    Cut to;
    const double idle = std::max(time - working(i), handed);
    to.gap = idle - handed;
    to.kernels = static_cast<std::uint32_t>(s.of(kernels, std::clamp(std::round((time - idle) / kKernelPs), 1.0, kMostKernels)));
    to.kernel = (time - idle) / to.kernels - between;
    if (to.kernel < 0.1 * between) {  // it hardly computes
      to.kernel = std::max(1e3, 0.1 * between);
      to.gap = std::max(0.0, time - handed - to.kernels * (to.kernel + between));
    }
    return to;
  }

  Kernel make_kernel(std::size_t i, const std::vector<Cut>& cuts) const {
    const Share& s = shares_[i];
    const double time = cuts[i].kernel;
    Kernel k;
    k.name = fmt::format("coarse on {} SMs", s.sms);
    const double fit = std::clamp(std::round(s.of(occupancy, kOccupancyPct) / 100 * gpu_.sm.max_threads / kThreads), 1.0, static_cast<double>(gpu_.sm.max_threads / kThreads));
    k.block = {kThreads, 1, 1};
    k.registers_per_thread = std::clamp(static_cast<std::uint32_t>(static_cast<double>(gpu_.sm.registers) / kThreads / fit) / 8 * 8, 16u, 255u);
    k.dynamic_shared_memory_bytes = kSharedBytes;
    const double waves = std::clamp(std::round(time / kBlockPs), 1.0, kMostWaves);
    k.grid = {static_cast<std::uint32_t>(s.sms * fit * waves), 1, 1};
    k.solo_time = Time{static_cast<std::int64_t>(time)};
    if (s.sms < gpu_.sms) k.solo_time_sms = s.sms;
    if (shares_.size() > 1) {
      const std::size_t near = i > 0 ? i - 1 : i + 1;  // a client has this kernel on its SMs and up to those of the next share
      const double of_same = cuts[near].kernel * cuts[near].kernels / cuts[i].kernels;
      k.solo_time_by_sms[shares_[near].sms] = Time{std::max<std::int64_t>(1, static_cast<std::int64_t>(of_same))};
    }
    // The whole request's, all by its kernels.
    const double request = (s.of(latency, 0) * kPsPerMs - copying(s)) / cuts[i].kernels;
    if (s.values[dram]) k.counters.dram_read_bytes = bytes_per_ps(*s.values[dram]) * request;
    if (s.values[dram] || s.values[l2]) {
      const double through = s.values[l2] ? *s.values[l2] / 100 * gpu_.contention.l2_read_bytes_per_second / 1e12 * request : kL2OverDram * *k.counters.dram_read_bytes;
      k.counters.l2_bytes = std::max(through, 1.5 * k.counters.dram_read_bytes.value_or(0));
    }
    k.counters.issue_active_pct = s.of(issue, kIssuePct);
    return k;
  }

  Trace make() const {
    Trace trace;
    trace.name = options_.name.empty() ? file_.stem().string() : options_.name;
    trace.gpu = gpu_name_;
    std::vector<Cut> cuts;
    for (std::size_t i = 0; i < shares_.size(); ++i) cuts.push_back(cut(i));
    for (std::uint32_t i = 0; i < shares_.size(); ++i) {
      const Share& s = shares_[i];
      trace.kernels.push_back(make_kernel(i, cuts));
      Program program;
      program.name = i == 0 ? trace.name : fmt::format("{} on {} SMs", trace.name, s.sms);
      program.issue = Issue::graph, program.coarse = true;
      program.streams = {{"main"}};
      const auto copy = [&](Column column, CopyDirection direction) {
        if (const double bytes = s.of(column, 0); bytes > 0) program.ops.push_back({Copy{direction, static_cast<std::uint64_t>(bytes)}, StreamId{0}, {}, {}, {}});
      };
      copy(copy_in, CopyDirection::host_to_device);
      for (std::uint32_t n = 0; n < cuts[i].kernels; ++n) program.ops.push_back({Launch{KernelId{i}, {}, {}}, StreamId{0}, {}, {}, {}});
      copy(copy_out, CopyDirection::device_to_host);
      program.ops.front().host_gap = Time{static_cast<std::int64_t>(cuts[i].gap)};
      if (i > 0) trace.programs.front().on_sms[s.sms] = ProgramId{i};
      trace.programs.push_back(std::move(program));
    }
    Client client;
    client.name = trace.name, client.program = ProgramId{0}, client.process = trace.name;
    client.streams.resize(1);
    trace.clients.push_back(std::move(client));
    trace.notes.push_back(note(cuts));
    return trace;
  }

  std::string note(const std::vector<Cut>& cuts) const {
    const Share& s = shares_.front();
    std::vector<std::string> assumed;
    if (!s.values[kernels]) assumed.push_back(fmt::format("{} kernels a request", cuts.front().kernels));
    if (!s.values[dram] && !s.values[l2]) assumed.emplace_back("no use of the memory");
    if (!s.values[issue]) assumed.push_back(fmt::format("instructions issued in {} % of the cycles", kIssuePct));
    if (!s.values[occupancy]) assumed.push_back(fmt::format("blocks that fill {} % of an SM's threads", kOccupancyPct));
    if (!s.values[busy] && shares_.size() == 1) assumed.emplace_back("all of the time on the SMs");
    const double total = s.of(latency, 0) * kPsPerMs;
    return fmt::format("{} is coarse: made of {} latenc{} alone{}; {:.0f} % of a request's time leave the SMs idle; intervals are those of a kernel of which only its time is known",
                       printable(options_.name.empty() ? file_.stem().string() : options_.name), shares_.size(), shares_.size() == 1 ? "y" : "ies",
                       assumed.empty() ? "" : fmt::format(", with {} assumed", fmt::join(assumed, ", ")), 100 * cuts.front().gap / total);
  }

  std::filesystem::path file_;
  const ImportOptions& options_;
  std::string gpu_name_;
  Gpu gpu_;
  std::vector<Share> shares_;  // from the most SMs on
};

}  // namespace

bool looks_like_table(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(32, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  return head.starts_with("percentage,") || head.starts_with("sms,");
}

Trace import_table(const std::filesystem::path& file, const ImportOptions& options) { return TableReader(file, options).read(); }

}  // namespace corun
