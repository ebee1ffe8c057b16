#include "hw/run/counters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>

#include "hw/kernels/library.h"

namespace corun::hw {
namespace {

constexpr std::pair<const char*, std::optional<double> Counters::*> kMetrics[] = {
    {"dram__bytes_read.sum", &Counters::dram_read_bytes},
    {"dram__bytes_write.sum", &Counters::dram_write_bytes},
    {"lts__t_bytes.sum", &Counters::l2_bytes},
    {"l1tex__t_bytes.sum", &Counters::l1_bytes},
    {"smsp__inst_executed.sum", &Counters::warp_instructions},
    {"sm__inst_executed_pipe_tensor.sum", &Counters::tensor_instructions},
    {"smsp__issue_active.avg.pct_of_peak_sustained_active", &Counters::issue_active_pct},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", &Counters::warps_active_pct},
    {"sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active", &Counters::fp64_active_pct},
    {"gpu__time_duration.sum", &Counters::duration_ns}};

constexpr std::pair<const char*, const char*> kPipes[] = {
    {"sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active", "alu"},
    {"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "fma"},
    {"sm__inst_executed_pipe_fmaheavy.avg.pct_of_peak_sustained_active", "fmaheavy"},
    {"sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active", "fp16"},
    {"sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active", "lsu"},
    {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", "xu"},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor_cycles"},
    {"sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", "hmma_cycles"},
    {"l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", "l1_data"},
    {"l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed", "shared_data"}};

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all{""};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      all.emplace_back();
    else if (c != '\r')
      all.back() += c;
  }
  return all;
}

/// Empty for what is none, as "n/a".
std::optional<double> number(std::string text) {
  std::erase(text, ',');
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0 || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::map<std::string, std::string>> read_ncu(const std::string& text) {
  std::vector<std::map<std::string, std::string>> launches;
  std::vector<std::string> names;
  std::map<std::string, std::size_t> by_id;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line.front() != '"') continue;
    const std::vector<std::string> row = fields(line);
    if (names.empty()) {
      names = row;
      continue;
    }
    const auto field = [&](const char* name) -> std::string {
      const auto i = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      return i < row.size() ? row[i] : "";
    };
    const auto [known, is_new] = by_id.emplace(field("ID"), launches.size());
    if (is_new) launches.emplace_back()["kernel"] = field("Kernel Name");
    launches[known->second][field("Metric Name")] = field("Metric Value");
  }
  return launches;
}

std::vector<Counters> measure_counters(const std::vector<const LibraryKernel*>& kernels,
                                       const std::string& command, std::string& why_not) {
  std::set<std::string> entries;
  for (const LibraryKernel* k : kernels) entries.insert(k->entry);
  std::vector<std::string> metrics;
  for (const auto& [metric, to] : kMetrics) metrics.emplace_back(metric);
  for (const auto& [metric, pipe] : kPipes) metrics.emplace_back(metric);
  std::string text;
  for (bool again = true; again;) {
    // The clocks are left as they are; inputs are filled by kernels of other names.
    const std::string call = fmt::format(
        "ncu --clock-control none --csv --print-units base --kernel-name 'regex:^({})$' --metrics {} {} 2>&1",
        fmt::join(entries, "|"), fmt::join(metrics, ","), command);
    text.clear();
    if (FILE* pipe = popen(call.c_str(), "r")) {
      char part[4096];
      while (const std::size_t n = std::fread(part, 1, sizeof part, pipe)) text.append(part, n);
      pclose(pipe);
    }
    // GPUs have different pipes: what this one lacks is left out.
    const std::size_t refused = text.find("Failed to find metric ");
    again = false;
    if (refused != std::string::npos)
      again = std::erase_if(metrics, [&](const std::string& metric) {
                return text.compare(refused + 22, metric.size(), metric) == 0;
              }) != 0;
  }
  const auto launches = read_ncu(text);
  std::vector<Counters> all;
  if (launches.size() != kernels.size()) {
    why_not = fmt::format("Nsight Compute gave {} of {} kernels: {}", launches.size(), kernels.size(),
                          text.substr(text.size() > 600 ? text.size() - 600 : 0));
    return all;
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto value = [&](const char* metric) -> std::optional<double> {
      const auto found = launches[i].find(metric);
      return found == launches[i].end() ? std::nullopt : number(found->second);
    };
    Counters& counters = all.emplace_back();
    for (const auto& [metric, to] : kMetrics) counters.*to = value(metric);
    for (const auto& [metric, pipe] : kPipes)
      if (const auto busy = value(metric)) counters.pipes_pct[pipe] = std::min(100.0, *busy);
  }
  return all;
}

void launch_once(const std::vector<const LibraryKernel*>& kernels, Workbench& work) {
  const Stream s = work.driver().stream(0, {});
  for (const LibraryKernel* k : kernels) {
    Instance instance(work.driver(), *k);
    work.prepare(instance, 1, s);
    work.launch(instance, s);
    work.driver().synchronize(s);
  }
  work.driver().destroy(s);
}

}  // namespace corun::hw
