#include "sim/validate/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/validate/only.h"
#include "sim/validate/places_free.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/schema.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kModes.size()> kModeNames = {"streams", "streams_ba", "prio_a",
                                                                    "prio_b",  "half",       "quarter"};

/// Of what a launch costs, the start and end of its blocks: on an H200 SMs are free for 1.44 us between two
/// launches of 132 blocks, of a gap of 0.9 and a cost of 1.0.
constexpr Time kStartAndEnd{460'000};

std::string place_of(const char* list, const std::string& name, const std::string& key = {}) {
  json::json_pointer place = json::json_pointer() / list / name;
  return printable((key.empty() ? place : place / key).to_string(), 300);
}

Dim3 dim3(const json& size) {
  return {size[0].get<std::uint32_t>(), size[1].get<std::uint32_t>(), size[2].get<std::uint32_t>()};
}

Counters counters(const json& from) {
  const auto number = [&](const char* key) {
    const auto found = from.find(key);
    return found == from.end() ? std::nullopt : std::optional(found->get<double>());
  };
  Counters to;
  to.dram_read_bytes = number("dram_read_bytes");
  to.dram_write_bytes = number("dram_write_bytes");
  to.l2_bytes = number("l2_bytes");
  to.l1_bytes = number("l1_bytes");
  to.warp_instructions = number("warp_instructions");
  to.tensor_instructions = number("tensor_instructions");
  to.issue_active_pct = number("issue_active_pct");
  to.warps_active_pct = number("warps_active_pct");
  to.fp64_active_pct = number("fp64_active_pct");
  to.duration_ns = number("ncu_duration_ns");
  if (const auto pipes = from.find("pipes_pct"); pipes != from.end()) pipes->get_to(to.pipes_pct);
  return to;
}

/// To be said by the model once it knows what it makes of them.
std::string describe_inputs(const Kernel& kernel) {
  const Counters& c = kernel.counters;
  int counted = 0;
  for (const auto& counter :
       {c.dram_read_bytes, c.dram_write_bytes, c.l2_bytes, c.l1_bytes, c.warp_instructions,
        c.tensor_instructions, c.issue_active_pct, c.warps_active_pct, c.fp64_active_pct, c.duration_ns})
    counted += counter.has_value();
  std::string text = "launch shape, solo time";
  if (!kernel.solo_time_by_sms.empty())
    text += fmt::format(", solo times on {} SM counts", kernel.solo_time_by_sms.size());
  if (counted > 0) text += fmt::format(", {} counters", counted);
  return text;
}

class Reader {
 public:
  Reader(std::string file, const Gpu& gpu, Inputs inputs)
      : file_(std::move(file)), gpu_(of_periods(gpu)), inputs_(inputs) {}

  Reference read(const json& document) {
    Reference reference;
    reference.file = file_;
    reference.gpu = document.value("gpu", "");
    for (const auto& [name, kernel] : document["kernels"].items()) {
      names_.push_back(name);
      reference.kernels.push_back(read_kernel(name, kernel));
    }
    std::set<std::tuple<std::uint32_t, std::uint32_t, Mode>> seen;
    const json& rows = document["rows"];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string place = fmt::format("/rows/{}", i);
      const ReferenceRow row = read_row(rows[i], place);
      if (!seen.emplace(row.a, row.b, row.mode).second)
        fail(place, fmt::format("{} in mode {} stands there twice", reference.pair(row), to_string(row.mode)),
             "keep one of the two measurements");
      reference.rows.push_back(row);
    }
    return reference;
  }

 private:
  [[noreturn]] void fail(std::string place, std::string problem, std::string remedy) const {
    throw InputError(file_, std::move(place), std::move(problem), std::move(remedy));
  }

  Time launch_time(double ms, std::uint32_t launches, const std::string& place) const {
    const double ns = ms * 1e6 / launches - to_ns(gpu_.stream_gap);
    if (ns < 1)
      fail(place,
           fmt::format("{} ms for {} launches leaves nothing for the kernel beside the gap of {} ns between "
                       "two kernels of a stream",
                       ms, launches, to_ns(gpu_.stream_gap)),
           "times are in ms, of all launches together; is `launches` right?");
    return from_ns(ns);
  }

  ReferenceKernel read_kernel(const std::string& name, const json& from) const {
    ReferenceKernel to;
    Kernel& kernel = to.kernel;
    kernel.name = name;
    kernel.origin = {file_, place_of("kernels", name)};
    kernel.grid = dim3(from["grid"]);
    kernel.block = dim3(from["block"]);
    kernel.registers_per_thread = from["registers_per_thread"].get<std::uint32_t>();
    kernel.dynamic_shared_memory_bytes = from.value("shared_memory_bytes", 0u);
    if (kernel.blocks() > std::numeric_limits<std::uint32_t>::max())
      fail(place_of("kernels", name, "grid"),
           fmt::format("expected at most 2^32 - 1 blocks in all, got {}", kernel.blocks()),
           "correct the grid");
    if (const std::string problem = misfit(kernel, gpu_.sm); !problem.empty())
      fail(kernel.origin.place,
           fmt::format("kernel {} fits no SM of {}: it {}", in_quotes(name), gpu_.name, problem),
           "choose the measured GPU with --gpu, or correct the kernel's launch shape");
    to.launches = from["launches"].get<std::uint32_t>();
    to.solo_ms = from["solo_ms"].get<double>();
    kernel.solo_time = launch_time(to.solo_ms, to.launches, place_of("kernels", name, "solo_ms"));
    if (const auto curve = from.find("solo_ms_by_sms"); curve != from.end())
      for (const auto& [text, ms] : curve->items()) {
        const auto sms = static_cast<std::uint32_t>(std::stoul(text));
        const std::string place = place_of("kernels", name, "solo_ms_by_sms") + '/' + text;
        if (sms > gpu_.sms || sms % gpu_.sms_per_tpc != 0)
          fail(place,
               fmt::format("expected whole TPCs ({} SMs each) of the {} SMs of {}, got {} SMs",
                           gpu_.sms_per_tpc, gpu_.sms, gpu_.name, sms),
               "choose the measured GPU with --gpu");
        to.solo_ms_by_sms[sms] = ms.get<double>();
        const Time time = launch_time(to.solo_ms_by_sms[sms], to.launches, place);
        if (inputs_ == Inputs::curve) kernel.solo_time_by_sms[sms] = time;
      }
    if (const auto ncu = from.find("ncu"); ncu != from.end()) kernel.counters = counters(*ncu);
    std::set<std::uint32_t> parts;
    for (const auto& [sms, ms] : to.solo_ms_by_sms) parts.insert(sms);
    for (const Mode mode : kModes)
      for (const std::uint32_t sms : {first_part(mode, gpu_), gpu_.sms - first_part(mode, gpu_)})
        if (sms != 0) parts.insert(sms);
    for (const std::uint32_t sms : parts) kernel.places_free_by_sms[sms] = places_free(kernel, gpu_, sms);
    to.inputs = describe_inputs(kernel);
    return to;
  }

  std::uint32_t kernel(const json& name, const std::string& place) const {
    const auto found = std::find(names_.begin(), names_.end(), name.get_ref<const std::string&>());
    if (found == names_.end())
      fail(place,
           fmt::format("unknown kernel {}{}", in_quotes(name.get_ref<const std::string&>()),
                       did_you_mean(name.get_ref<const std::string&>(), names_)),
           names_.empty() ? "measure it and add it to `kernels`"
                          : fmt::format("use one of {}, or add it to `kernels`", list_names(names_)));
    return static_cast<std::uint32_t>(found - names_.begin());
  }

  ReferenceRow read_row(const json& from, const std::string& place) const {
    ReferenceRow row;
    row.a = kernel(from["a"], place + "/a");
    row.b = kernel(from["b"], place + "/b");
    row.mode = mode_of(from["mode"].get<std::string>(), place + "/mode");
    row.t_a = from["t_a"].get<double>();
    row.t_b = from["t_b"].get<double>();
    row.spread = from.value("spread", 1.0);
    const bool priorities = row.mode == Mode::prio_a || row.mode == Mode::prio_b;
    const std::uint32_t tpcs = row.mode == Mode::half ? 2 : row.mode == Mode::quarter ? 4 : 1;
    if ((priorities && gpu_.priority_levels < 2) || gpu_.tpcs() < tpcs)
      fail(place + "/mode",
           fmt::format("{} has {} priorities and {} TPCs, too few for mode {}", gpu_.name,
                       gpu_.priority_levels, gpu_.tpcs(), to_string(row.mode)),
           "choose the measured GPU with --gpu");
    return row;
  }

  std::string file_;
  const Gpu gpu_;
  Inputs inputs_;
  std::vector<std::string> names_;
};

}  // namespace

std::string_view to_string(Mode mode) { return kModeNames[static_cast<std::size_t>(mode)]; }

Mode mode_of(const std::string& text, const std::string& place) {
  const std::vector<std::string> names(kModeNames.begin(), kModeNames.end());
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw InputError("", place, fmt::format("unknown mode {}{}", in_quotes(text), did_you_mean(text, names)),
                     fmt::format("use some of {}", list_names(names)));
  return kModes[static_cast<std::size_t>(found - names.begin())];
}

std::uint32_t first_part(Mode mode, const Gpu& gpu) {
  if (mode != Mode::half && mode != Mode::quarter) return gpu.sms;
  return gpu.tpcs() / (mode == Mode::half ? 2 : 4) * gpu.sms_per_tpc;
}

Gpu of_periods(Gpu gpu) {
  const Time free = std::max(Time{}, gpu.contention.launch_cost - kStartAndEnd);
  gpu.stream_gap += free;
  gpu.contention.launch_cost -= free;
  return gpu;
}

Reference read_reference(const std::filesystem::path& file, const Gpu& gpu, Inputs inputs) {
  const json document = parse_json(*open_input(file), file.string());
  check_schema(document, "reference", file.string());
  return Reader(file.string(), gpu, inputs).read(document);
}

void select(Reference& reference, std::vector<std::string> modes, std::vector<std::string> pairs,
            const std::vector<std::string>& only) {
  Names measured_modes{{}, &modes}, measured_pairs{{}, &pairs};
  for (const ReferenceRow& row : reference.rows) {
    measured_modes.known.emplace_back(to_string(row.mode));
    for (const ReferenceRow& either : {row, ReferenceRow{row.b, row.a}})
      measured_pairs.known.push_back(reference.pair(either));
  }
  sort_only(reference.file, only, {measured_modes, measured_pairs});
  std::set<Mode> wanted_modes;
  for (const std::string& text : modes) wanted_modes.insert(mode_of(text, "--modes"));
  std::set<std::string> known, wanted_pairs;
  const auto swapped = [&](const ReferenceRow& row) { return reference.pair({row.b, row.a}); };
  for (const ReferenceRow& row : reference.rows) known.insert({reference.pair(row), swapped(row)});
  for (const std::string& text : pairs) {
    if (!known.contains(text)) {
      const std::vector<std::string> names(known.begin(), known.end());
      throw InputError(
          reference.file, "--pairs",
          fmt::format("no rows of the pair {}{}", in_quotes(text), did_you_mean(text, names)),
          names.empty() ? "the file has no rows at all" : fmt::format("name some of {}", list_names(names)));
    }
    wanted_pairs.insert(text);
  }
  if (modes.empty() && pairs.empty()) return;
  std::erase_if(reference.rows, [&](const ReferenceRow& row) {
    return !(modes.empty() || wanted_modes.contains(row.mode)) ||
           !(pairs.empty() || wanted_pairs.contains(reference.pair(row)) ||
             wanted_pairs.contains(swapped(row)));
  });
  if (reference.rows.empty())
    throw InputError(reference.file, "--modes", "no rows of these modes and pairs",
                     "ask for modes that were measured");

  std::vector<std::uint32_t> index(reference.kernels.size(), 0);
  for (const ReferenceRow& row : reference.rows) index[row.a] = index[row.b] = 1;
  std::vector<ReferenceKernel> used;
  for (std::uint32_t i = 0; i < index.size(); ++i)
    if (index[i] != 0) {
      index[i] = static_cast<std::uint32_t>(used.size());
      used.push_back(std::move(reference.kernels[i]));
    }
  for (ReferenceRow& row : reference.rows) row.a = index[row.a], row.b = index[row.b];
  reference.kernels = std::move(used);
}

}  // namespace corun::sim
