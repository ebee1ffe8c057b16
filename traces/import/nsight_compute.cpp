#include "traces/import/nsight_compute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "traces/import/csv_rows.h"
#include "traces/import/profiler_number.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {
namespace {

/// What a metric says.
struct Meaning {
  enum class Of : std::uint8_t { counter, pipe, tensor_variant, fact };
  enum class Fact : std::uint8_t {
    registers,
    static_shared,
    dynamic_shared,
    cluster_blocks,
    cluster_x,
    cluster_y,
    cluster_z,
    grid_blocks,
    grid_x,
    grid_y,
    grid_z,
    block_threads,
    block_x,
    block_y,
    block_z,
    count
  };
  Of of = Of::counter;
  std::optional<double> Counters::*counter = nullptr;
  Quantity quantity = Quantity::count;
  double factor = 1;
  std::string name{};  // of the pipe or the variant
  Fact fact = Fact::count;
};
using Fact = Meaning::Fact;

struct Named {
  std::string_view metric;
  std::optional<double> Counters::*counter;
  Quantity quantity;
  double factor = 1;
};

/// The first of each is what we ask for; the others say the same.
constexpr std::array<Named, 21> kCounters = {{
    {"gpu__time_duration.sum", &Counters::duration_ns, Quantity::nanoseconds},
    {"smsp__inst_executed.sum", &Counters::warp_instructions, Quantity::count},
    {"smsp__issue_active.avg.pct_of_peak_sustained_active", &Counters::issue_active_pct, Quantity::percent},
    {"dram__bytes_read.sum", &Counters::dram_read_bytes, Quantity::bytes},
    {"dram__bytes_write.sum", &Counters::dram_write_bytes, Quantity::bytes},
    {"lts__t_bytes.sum", &Counters::l2_bytes, Quantity::bytes},
    {"l1tex__t_bytes.sum", &Counters::l1_bytes, Quantity::bytes},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", &Counters::warps_active_pct, Quantity::percent},
    {"sm__inst_executed_pipe_tensor.sum", &Counters::tensor_instructions, Quantity::count},
    {"sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active", &Counters::fp64_active_pct,
     Quantity::percent},
    {"smsp__inst_executed_pipe_tensor.sum", &Counters::tensor_instructions, Quantity::count},
    {"sm__inst_executed.sum", &Counters::warp_instructions, Quantity::count},
    {"dram__sectors_read.sum", &Counters::dram_read_bytes, Quantity::count, 32},
    {"dram__sectors_write.sum", &Counters::dram_write_bytes, Quantity::count, 32},
    {"lts__t_sectors.sum", &Counters::l2_bytes, Quantity::count, 32},
    {"gpu__time_duration.avg", &Counters::duration_ns, Quantity::nanoseconds},
    // Names of ncu's own sections, which it prints without --metrics.
    {"Duration", &Counters::duration_ns, Quantity::nanoseconds},
    {"Executed Instructions", &Counters::warp_instructions, Quantity::count},
    {"Issue Slots Busy", &Counters::issue_active_pct, Quantity::percent},
    {"Achieved Occupancy", &Counters::warps_active_pct, Quantity::percent},
    {"gpu__time_duration.max", &Counters::duration_ns, Quantity::nanoseconds},
}};
constexpr std::size_t kAskedFor = 10;

constexpr std::array<std::pair<std::string_view, Fact>, 21> kFacts = {
    {{"launch__registers_per_thread", Fact::registers},
     {"launch__shared_mem_per_block_static", Fact::static_shared},
     {"launch__shared_mem_per_block_dynamic", Fact::dynamic_shared},
     {"launch__cluster_size", Fact::cluster_blocks},
     {"launch__cluster_dim_x", Fact::cluster_x},
     {"launch__cluster_dim_y", Fact::cluster_y},
     {"launch__cluster_dim_z", Fact::cluster_z},
     {"Registers Per Thread", Fact::registers},
     {"Static Shared Memory Per Block", Fact::static_shared},
     {"Dynamic Shared Memory Per Block", Fact::dynamic_shared},
     {"Cluster Size", Fact::cluster_blocks},
     // Where there are no columns of the grid and the block.
     {"launch__grid_size", Fact::grid_blocks},
     {"launch__grid_dim_x", Fact::grid_x},
     {"launch__grid_dim_y", Fact::grid_y},
     {"launch__grid_dim_z", Fact::grid_z},
     {"launch__block_size", Fact::block_threads},
     {"launch__block_dim_x", Fact::block_x},
     {"launch__block_dim_y", Fact::block_y},
     {"launch__block_dim_z", Fact::block_z},
     {"Grid Size", Fact::grid_blocks},
     {"Block Size", Fact::block_threads}}};
constexpr std::size_t kFactsAskedFor = 7;

constexpr double kMostCount = 1e18;  // as in the schema of traces
constexpr std::uint32_t kMostInCluster = 16;  // blocks, as in the schema
constexpr std::string_view kL1Data = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed";
/// That the model knows.
constexpr std::array<std::string_view, 4> kPipes = {"alu", "fma", "fmaheavy", "xu"};
constexpr std::string_view kOfPeak = ".avg.pct_of_peak_sustained_active";

/// Whether it is `before`, something, `after`: that.
std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view after) {
  if (text.size() <= before.size() + after.size() || !text.starts_with(before) || !text.ends_with(after))
    return std::nullopt;
  return std::string(text.substr(before.size(), text.size() - before.size() - after.size()));
}

/// As the schema of traces has them.
bool is_plain(std::string_view name) {
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

std::optional<Meaning> meaning_of(std::string_view metric) {
  if (!is_plain(metric.substr(0, metric.find('.'))) && metric.find("__") != std::string_view::npos)
    return std::nullopt;
  for (const Named& known : kCounters)
    if (known.metric == metric)
      return Meaning{Meaning::Of::counter, known.counter, known.quantity, known.factor};
  for (const auto& [name, fact] : kFacts)
    if (name == metric) {
      const bool shared = fact == Fact::static_shared || fact == Fact::dynamic_shared;
      return Meaning{Meaning::Of::fact, nullptr, shared ? Quantity::bytes : Quantity::count, 1, {}, fact};
    }
  for (const std::string_view unit : {"sm__", "smsp__"}) {
    const std::string prefix = std::string(unit) + "inst_executed_pipe_";
    if (auto variant = between(metric, prefix + "tensor_", ".sum"))
      return Meaning{Meaning::Of::tensor_variant, nullptr, Quantity::count, 1, std::move(*variant)};
    if (auto pipe = between(metric, prefix, kOfPeak))
      return Meaning{Meaning::Of::pipe, nullptr, Quantity::percent, 1, std::move(*pipe)};
  }
  if (auto pipe = between(metric, "sm__pipe_", "_cycles_active" + std::string(kOfPeak))) {
    if (auto of_tensor = between(*pipe, "tensor_op_", "")) pipe = std::move(of_tensor);
    return Meaning{Meaning::Of::pipe, nullptr, Quantity::percent, 1, *pipe + "_cycles"};
  }
  if (metric == kL1Data) return Meaning{Meaning::Of::pipe, nullptr, Quantity::percent, 1, "l1_data"};
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file.string()), rows_(file) {}

  ProfiledLaunches run() {
    std::vector<std::string> row;
    while (rows_.next(row, !header_.empty())) {
      if (is_header(row)) {
        begin_table(std::move(row));
      } else if (header_.empty()) {
        if (const std::size_t at = row.front().find("Kernel Name"); at != 0 && at != std::string::npos && row.front().find_first_of(";\t") != std::string::npos)
          refuse("", fmt::format("its columns are parted by {}, as a spreadsheet saves them; expected commas", row.front().find(';') != std::string::npos ? "semicolons" : "tabs"));
        look_for_error(row);
      } else {
        wide_ ? read_wide(row) : read_long(row);
      }
    }
    if (header_.empty()) refuse("", "there is no row of column names with \"ID\" and \"Kernel Name\"");
    for (Raw& raw : raws_) finish(raw);
    set_cut_launches_aside();
    if (read_.launches.empty())
      refuse(fmt::format("line {}", header_line_),
             "no row below these column names has a kernel name, a grid, a block and a metric that is used");
    return std::move(read_);
  }

 private:
  struct Value {
    std::uint32_t meaning;
    std::string value, unit;
  };
  struct Raw {
    ProfiledLaunch launch;
    std::string grid, block;
    std::vector<Value> values;
  };
  static constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();
  static constexpr std::uint32_t kUnused = std::numeric_limits<std::uint32_t>::max();

  [[noreturn]] void refuse(const std::string& place, std::string problem) const {
    if (!error_.empty()) problem += "; ncu says " + in_quotes(error_);
    throw InputError(
        file_, place, problem,
        fmt::format("write it with `ncu --csv --print-units base --clock-control none --metrics {} "
                    "PROGRAM > FILE`",
                    nsight_compute_metrics()));
  }

  /// Of ncu itself, for which there may be no table.
  void look_for_error(const std::vector<std::string>& row) {
    constexpr std::string_view kError = "==ERROR== ";
    if (error_.empty() && row.front().starts_with(kError)) error_ = row.front().substr(kError.size());
  }

  static bool is_header(const std::vector<std::string>& row) {
    const auto has = [&](std::string_view name) {
      return std::find(row.begin(), row.end(), name) != row.end();
    };
    return has("ID") && has("Kernel Name");
  }

  void begin_table(std::vector<std::string> row) {
    header_ = std::move(row);
    header_line_ = rows_.line();
    ++table_;
    const auto column = [&](std::string_view name) {
      const auto at = std::find(header_.begin(), header_.end(), name);
      return at == header_.end() ? kAbsent : static_cast<std::size_t>(at - header_.begin());
    };
    id_ = column("ID"), process_ = column("Process ID"), device_ = column("Device");
    kernel_ = column("Kernel Name"), grid_ = column("Grid Size"), block_ = column("Block Size");
    metric_ = column("Metric Name"), unit_ = column("Metric Unit"), value_ = column("Metric Value");
    wide_ = metric_ == kAbsent;
    units_.clear();
    columns_.clear();
    if (!wide_) return;
    for (std::size_t i = 0; i < header_.size(); ++i)
      if (const std::uint32_t meaning = index_of(header_[i]); meaning != kUnused && i != grid_ && i != block_)
        columns_.emplace_back(i, meaning);
  }

  std::uint32_t index_of(const std::string& metric) {
    const auto [known, added] = indices_.try_emplace(metric, kUnused);
    if (added)
      if (auto meaning = meaning_of(metric)) {
        known->second = static_cast<std::uint32_t>(meanings_.size());
        meanings_.push_back(std::move(*meaning));
      }
    return known->second;
  }

  static const std::string& field(const std::vector<std::string>& row, std::size_t column) {
    static const std::string none;
    return column < row.size() ? row[column] : none;
  }

  bool is_launch(const std::vector<std::string>& row) const {
    const std::string& id = field(row, id_);
    return !id.empty() && id.find_first_not_of("0123456789,.") == std::string::npos &&
           !field(row, kernel_).empty();
  }

  Raw begin_launch(const std::vector<std::string>& row) const {
    Raw raw;
    raw.launch.kernel = field(row, kernel_);
    raw.launch.process = field(row, process_);
    raw.launch.device = field(row, device_);
    raw.launch.line = rows_.line();
    raw.grid = field(row, grid_);
    raw.block = field(row, block_);
    return raw;
  }

  void read_long(const std::vector<std::string>& row) {
    if (!is_launch(row)) return;
    const std::uint32_t meaning = index_of(field(row, metric_));
    // The same number again with another kernel is another file's.
    std::string key = fmt::format("{}", table_);
    for (const std::size_t column : {process_, device_, id_, kernel_, grid_, block_})
      key += '\n' + field(row, column);
    const auto [at, added] = launch_of_.try_emplace(std::move(key), raws_.size());
    if (added) raws_.push_back(begin_launch(row));
    if (meaning != kUnused)
      raws_[at->second].values.push_back({meaning, field(row, value_), field(row, unit_)});
  }

  void read_wide(std::vector<std::string>& row) {
    if (!is_launch(row)) {
      if (units_.empty() && field(row, id_).empty() && row.size() > 1) units_ = std::move(row);
      return;
    }
    Raw raw = begin_launch(row);
    for (const auto& [column, meaning] : columns_)
      if (const std::string& value = field(row, column); !value.empty())
        raw.values.push_back({meaning, value, field(units_, column)});
    raws_.push_back(std::move(raw));
  }

  /// One number that can only be read one way tells how to read all.
  Marks marks() {
    if (marks_) return *marks_;
    marks_ = Marks::english;
    for (const Raw& raw : raws_)
      for (const Value& v : raw.values)
        if (const auto shown = marks_of(v.value)) return *(marks_ = *shown);
    return *marks_;
  }

  std::optional<double> number(const Value& v) {
    const Meaning& meaning = meanings_[v.meaning];
    const auto value = profiler_number(v.value, marks());
    if (!value) return std::nullopt;
    if (*value < 0) {
      ++read_.impossible;
      return std::nullopt;
    }
    const auto factor = unit_factor(v.unit, meaning.quantity);
    if (!factor) {
      read_.unknown_units.insert(v.unit);
      return std::nullopt;
    }
    const double all = *value * *factor * meaning.factor;
    if (meaning.quantity == Quantity::percent) return std::min(all, 100.0);
    if (all <= kMostCount) return all;
    ++read_.impossible;
    return std::nullopt;
  }

  using Facts = std::array<std::optional<std::uint32_t>, static_cast<std::size_t>(Fact::count)>;
  static std::optional<std::uint32_t>& at(Facts& facts, Fact fact) {
    return facts[static_cast<std::size_t>(fact)];
  }
  static std::optional<Dim3> three(Facts& facts, Fact first) {
    const auto i = static_cast<std::size_t>(first);
    if (facts[i].value_or(0) == 0 || facts[i + 1].value_or(0) == 0 || facts[i + 2].value_or(0) == 0)
      return std::nullopt;
    return Dim3{*facts[i], *facts[i + 1], *facts[i + 2]};
  }

  void finish(Raw& raw) {
    ProfiledLaunch& launch = raw.launch;
    std::vector<std::pair<std::string, double>> tensor;
    Facts facts;
    bool any = false;
    for (const Value& v : raw.values) {
      const Meaning& meaning = meanings_[v.meaning];
      if (meaning.fact == Fact::cluster_blocks && dimensions(v.value)) {
        launch.cluster = dimensions(v.value);
        continue;
      }
      const auto value = number(v);
      if (!value) continue;
      any = any || meaning.of != Meaning::Of::fact;
      switch (meaning.of) {
        case Meaning::Of::counter:
          if (auto& counter = launch.counters.*meaning.counter; !counter) counter = value;
          break;
        case Meaning::Of::pipe:
          launch.counters.pipes_pct.try_emplace(meaning.name, *value);
          break;
        case Meaning::Of::tensor_variant:
          tensor.emplace_back(meaning.name, *value);
          break;
        case Meaning::Of::fact:
          if (*value <= std::numeric_limits<std::int32_t>::max() && !at(facts, meaning.fact))
            at(facts, meaning.fact) = static_cast<std::uint32_t>(std::lround(*value));
          break;
      }
    }
    launch.registers_per_thread = at(facts, Fact::registers);
    launch.static_shared_memory_bytes = at(facts, Fact::static_shared);
    launch.dynamic_shared_memory_bytes = at(facts, Fact::dynamic_shared);
    if (const auto n = at(facts, Fact::cluster_blocks)) launch.cluster_blocks = std::max(1u, *n);
    if (const auto cluster = three(facts, Fact::cluster_x)) launch.cluster = cluster;
    const auto fits = [](Dim3 d) {
      return std::max({d.x, d.y, d.z}) <= kMostInCluster && d.count() <= kMostInCluster;
    };
    if ((launch.cluster && !fits(*launch.cluster)) || launch.cluster_blocks.value_or(0) > kMostInCluster) {
      launch.cluster.reset(), launch.cluster_blocks.reset();
      ++read_.impossible;
    }
    if (!launch.counters.tensor_instructions && !tensor.empty())
      launch.counters.tensor_instructions = sum_of_variants(tensor);
    constexpr double kLongest = 8.6e15;  // as in the schema of traces
    if (launch.counters.duration_ns.value_or(0) > kLongest) launch.counters.duration_ns.reset();
    if (!any || !find_shape(raw, facts)) {
      ++read_.unusable;
      return;
    }
    read_.launches.push_back(std::move(launch));
  }

  /// What a file has for some launches, as its rows are cut or a pass failed, is no zero for the others.
  void set_cut_launches_aside() {
    struct Needed {
      std::string_view metric;
      std::optional<double> Counters::*counter, Counters::*or_else;
    };
    constexpr Needed kNeeded[] = {
        {"smsp__inst_executed.sum", &Counters::warp_instructions, &Counters::issue_active_pct},
        {"dram__bytes_read.sum", &Counters::dram_read_bytes, nullptr},
        {"dram__bytes_write.sum", &Counters::dram_write_bytes, nullptr},
        {"lts__t_bytes.sum", &Counters::l2_bytes, nullptr},
        {"sm__inst_executed_pipe_tensor.sum", &Counters::tensor_instructions, nullptr}};
    for (const Needed& needed : kNeeded) {
      const auto has = [&](const ProfiledLaunch& launch) {
        const Counters& c = launch.counters;
        return (c.*needed.counter).has_value() ||
               (needed.or_else != nullptr && (c.*needed.or_else).has_value());
      };
      const auto without = static_cast<std::size_t>(
          std::ranges::count_if(read_.launches, [&](const ProfiledLaunch& launch) { return !has(launch); }));
      if (without == 0 || without == read_.launches.size()) continue;
      read_.lacking.emplace(needed.metric, without);
      for (ProfiledLaunch& launch : read_.launches) launch.cut |= !has(launch);
    }
    for (ProfiledLaunch& launch : read_.launches)
      if (launch.cut) {
        const auto duration = launch.counters.duration_ns;
        launch.counters = {};
        launch.counters.duration_ns = duration;
      }
  }

  static bool find_shape(Raw& raw, Facts& facts) {
    const auto either = [](std::optional<Dim3> a, std::optional<Dim3> b) { return a ? a : b; };
    ProfiledLaunch& launch = raw.launch;
    const auto grid = either(dimensions(raw.grid), three(facts, Fact::grid_x));
    const auto block = either(dimensions(raw.block), three(facts, Fact::block_x));
    launch.dimensions_known = grid && block;
    if (launch.dimensions_known) {
      launch.grid = *grid, launch.block = *block;
      return true;
    }
    const auto blocks = at(facts, Fact::grid_blocks), threads = at(facts, Fact::block_threads);
    launch.grid = {blocks.value_or(0), 1, 1}, launch.block = {threads.value_or(0), 1, 1};
    return launch.grid.x != 0 && launch.block.x != 0;
  }

  /// Of `op_hmma` and `op_hmma_type_bf16` the second is part of the first.
  static double sum_of_variants(const std::vector<std::pair<std::string, double>>& variants) {
    double sum = 0;
    for (const auto& variant : variants)
      if (std::none_of(variants.begin(), variants.end(),
                       [&](const auto& other) { return variant.first.starts_with(other.first + "_"); }))
        sum += variant.second;
    return sum;
  }

  std::string file_, error_;
  CsvRows rows_;
  ProfiledLaunches read_;
  std::vector<std::string> header_, units_;
  std::uint64_t header_line_ = 0, table_ = 0;
  bool wide_ = false;
  std::size_t id_ = 0, process_ = 0, device_ = 0, kernel_ = 0, grid_ = 0, block_ = 0, metric_ = 0, unit_ = 0,
              value_ = 0;
  std::vector<std::pair<std::size_t, std::uint32_t>> columns_;  // wide: and what each says
  std::vector<Meaning> meanings_;
  std::unordered_map<std::string, std::uint32_t> indices_;  // of meanings
  std::unordered_map<std::string, std::size_t> launch_of_;
  std::vector<Raw> raws_;
  std::optional<Marks> marks_;
};

}  // namespace

ProfiledLaunches read_nsight_compute(const std::filesystem::path& file) { return Reader(file).run(); }

std::string nsight_compute_metrics() {
  std::vector<std::string_view> metrics;
  for (std::size_t i = 0; i < kAskedFor; ++i) metrics.push_back(kCounters[i].metric);
  for (std::size_t i = 0; i < kFactsAskedFor; ++i) metrics.push_back(kFacts[i].first);
  std::string text = fmt::format("{}", fmt::join(metrics, ","));
  for (const std::string_view pipe : kPipes) text += fmt::format(",sm__inst_executed_pipe_{}{}", pipe, kOfPeak);
  return text + ',' + std::string(kL1Data);
}

}  // namespace corun
