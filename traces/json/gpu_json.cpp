// GPU descriptions: every value with its source.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "traces/embedded.h"
#include "traces/json/gpu_document.h"
#include "traces/json/input_file.h"
#include "traces/json/schema.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/model/tpc_mask.h"

namespace corun {
namespace {

using nlohmann::json;

/// The values of one group of the description, without their sources.
class Group {
 public:
  Group(const json& document, const char* name) : members_(document.at(name)) {}

  /// What is absent, as the schema allows for some, leaves `to` as it is.
  template <class Value>
  void get(const char* key, Value& to) const {
    if (const auto leaf = members_.find(key); leaf != members_.end()) leaf->at("value").get_to(to);
  }
  void get(const char* key, Time& to) const {
    if (const auto leaf = members_.find(key); leaf != members_.end())
      to = from_ns(leaf->at("value").get<double>());
  }

 private:
  const json& members_;
};

SmLimits read_sm(const json& document) {
  const Group from(document, "sm");
  SmLimits sm;
  from.get("max_threads", sm.max_threads);
  from.get("max_warps", sm.max_warps);
  from.get("max_blocks", sm.max_blocks);
  from.get("warp_size", sm.warp_size);
  from.get("warp_allocation_granularity", sm.warp_allocation_granularity);
  from.get("sub_partitions", sm.sub_partitions);
  from.get("fp64_units", sm.fp64_units);
  from.get("registers", sm.registers);
  from.get("registers_per_block", sm.registers_per_block);
  from.get("register_allocation_unit", sm.register_allocation_unit);
  from.get("registers_per_thread", sm.registers_per_thread);
  from.get("threads_per_block", sm.threads_per_block);
  from.get("shared_memory_bytes", sm.shared_memory_bytes);
  from.get("shared_memory_per_block_bytes", sm.shared_memory_per_block_bytes);
  from.get("shared_memory_allocation_unit", sm.shared_memory_allocation_unit);
  from.get("shared_memory_reserved_bytes", sm.shared_memory_reserved_bytes);
  from.get("shared_memory_divisions", sm.shared_memory_carveouts);
  from.get("empty_sm_shared_memory_bytes", sm.empty_sm_shared_memory_bytes);
  return sm;
}

Contention read_contention(const json& document) {
  const Group from(document, "contention");
  Contention c;
  from.get("dram_read_bytes_per_second", c.dram_read_bytes_per_second);
  from.get("dram_write_bytes_per_second", c.dram_write_bytes_per_second);
  from.get("dram_latency_ns", c.dram_latency);
  from.get("dram_over_l2_latency_ratio", c.dram_over_l2_latency_ratio);
  from.get("dram_read_queueing_factor", c.dram_read_queueing_factor);
  from.get("dram_write_queueing_factor", c.dram_write_queueing_factor);
  from.get("dram_queue_full_use", c.dram_queue_full_use);
  from.get("dram_backlog_factor", c.dram_backlog_factor);
  from.get("l2_read_bytes_per_second", c.l2_read_bytes_per_second);
  from.get("l2_write_bytes_per_second", c.l2_write_bytes_per_second);
  from.get("l2_queueing_factor", c.l2_queueing_factor);
  from.get("l2_sector_cost_ratio", c.l2_sector_cost_ratio);
  from.get("l2_wait_ns", c.l2_wait);
  from.get("l2_own_bytes", c.l2_own_bytes);
  from.get("l2_shared_bytes", c.l2_shared_bytes);
  from.get("l2_first_loss_bytes", c.l2_first_loss_bytes);
  from.get("l2_dirty_bytes", c.l2_dirty_bytes);
  from.get("sm_read_bytes_per_second", c.sm_read_bytes_per_second);
  from.get("sm_write_bytes_per_second", c.sm_write_bytes_per_second);
  from.get("sm_sector_bytes_per_second", c.sm_sector_bytes_per_second);
  from.get("issue_by_age_share", c.issue_by_age_share);
  from.get("tensor_clock_ratio", c.tensor_clock_ratio);
  from.get("wgmma_least_ratio", c.wgmma_least);
  from.get("tile_use_ratio", c.tile_use);
  from.get("tile_use_per_registers", c.tile_use_per_registers);
  from.get("launch_cost_ns", c.launch_cost);
  from.get("launch_beside_others_ns", c.launch_beside_others);
  from.get("launch_beside_memory_ns", c.launch_beside_memory);
  from.get("launch_memory_accesses", c.launch_memory_accesses);
  from.get("launch_access_most_wait_ns", c.launch_access_most_wait);
  c.graph_launch_after_others = c.launch_beside_others;
  c.graph_launch_memory_accesses = c.launch_memory_accesses;
  from.get("graph_launch_after_others_ns", c.graph_launch_after_others);
  from.get("graph_launch_memory_accesses", c.graph_launch_memory_accesses);
  return c;
}

Power read_power(const json& document) {
  Power p;
  if (!document.contains("power")) return p;
  const Group from(document, "power");
  from.get("limit_w", p.limit_w);
  from.get("idle_w", p.idle_w);
  from.get("warp_instruction_pj", p.warp_instruction_pj);
  from.get("dram_byte_pj", p.dram_byte_pj);
  from.get("wgmma_column_pj", p.wgmma_column_pj);
  from.get("interval_ns", p.interval);
  return p;
}

PreemptionCosts read_preemption(const json& document) {
  const Group from(document, "preemption");
  PreemptionCosts p;
  std::string place;
  from.get("stop_flag_place", place);
  using Place = PreemptionCosts::FlagPlace;
  p.flag_place = place == "host" ? Place::host : place == "copied" ? Place::copied : Place::relay;
  from.get("stop_flag_host_ns", p.flag_host);
  from.get("stop_flag_host_block_ns", p.flag_host_block);
  from.get("stop_flag_copied_ns", p.flag_copied);
  from.get("host_queue_reset_ns", p.host_queue_reset);
  from.get("evicted_launch_ns", p.evicted_launch);
  from.get("evicted_launch_interval_ns", p.evicted_launch_interval);
  from.get("kill_ns", p.kill);
  from.get("padding_cost_ratio", p.padding_cost_ratio);
  return p;
}

Gpu read_document(const json& document) {
  Gpu gpu;
  document.at("name").get_to(gpu.name);
  document.at("product").get_to(gpu.product);
  document.at("architecture").get_to(gpu.architecture);

  const Group chip(document, "chip");
  chip.get("compute_capability_major", gpu.compute_capability_major);
  chip.get("compute_capability_minor", gpu.compute_capability_minor);
  chip.get("sms", gpu.sms);
  chip.get("sms_per_tpc", gpu.sms_per_tpc);
  chip.get("gpc_of_tpc", gpu.gpc_of_tpc);
  std::vector<std::uint32_t> order(gpu.sms);
  std::iota(order.begin(), order.end(), 0u);
  chip.get("placement_order", order);
  for (std::uint32_t sm : order) gpu.placement_order.push_back(SmId{sm});
  chip.get("clock_hz", gpu.clock_hz);

  gpu.sm = read_sm(document);

  const Group scheduling(document, "scheduling");
  scheduling.get("task_slots", gpu.task_slots);
  scheduling.get("priority_levels", gpu.priority_levels);
  scheduling.get("host_channels", gpu.host_channels);
  scheduling.get("channel_depth", gpu.channel_depth);
  scheduling.get("copy_engines", gpu.copy_engines);
  if (document.at("scheduling").contains("mps_client_channels"))
    scheduling.get("mps_client_channels", gpu.mps_client_channels.emplace());
  scheduling.get("mps_least_sms", gpu.mps_least_sms);
  scheduling.get("mps_sm_step", gpu.mps_sm_step);
  scheduling.get("mps_kept_back_sms", gpu.mps_kept_back_sms);
  scheduling.get("read_ahead_launches", gpu.read_ahead_launches);

  const Group latencies(document, "latencies");
  latencies.get("dispatch_interval_ns", gpu.dispatch_interval);
  gpu.dispatch_assumed = document.at("latencies").at("dispatch_interval_ns").at("basis") == "assumed";
  latencies.get("launch_call_ns", gpu.launch_call);
  latencies.get("launch_latency_ns", gpu.launch_latency);
  latencies.get("stream_gap_ns", gpu.stream_gap);
  latencies.get("graph_launch_call_ns", gpu.graph_launch_call);
  latencies.get("graph_launch_latency_ns", gpu.graph_launch_latency);
  latencies.get("graph_gap_ns", gpu.graph_gap);
  gpu.mps_graph_gap = gpu.turn_graph_gap = gpu.graph_gap;
  latencies.get("mps_graph_gap_ns", gpu.mps_graph_gap);
  latencies.get("turn_graph_gap_ns", gpu.turn_graph_gap);
  latencies.get("mps_kernel_ns", gpu.mps_kernel);
  latencies.get("device_copy_ns", gpu.device_copy);
  gpu.copy_kernel = gpu.device_copy;
  latencies.get("copy_kernel_ns", gpu.copy_kernel);
  latencies.get("time_slice_ns", gpu.time_slice);
  latencies.get("context_switch_ns", gpu.context_switch);
  latencies.get("switch_sm_ns", gpu.switch_sm);
  gpu.idle_switch = gpu.idle_switch_to_interrupted = gpu.context_switch;
  latencies.get("idle_switch_ns", gpu.idle_switch);
  latencies.get("idle_switch_to_interrupted_ns", gpu.idle_switch_to_interrupted);
  latencies.get("completion_notice_ns", gpu.completion_notice);
  latencies.get("progress_read_ns", gpu.progress_read);
  latencies.get("persistent_task_ns", gpu.persistent_task);
  latencies.get("retreat_ns", gpu.retreat);
  latencies.get("stop_flag_ns", gpu.stop_flag);

  const Group memory(document, "memory");
  memory.get("memory_bytes", gpu.memory_bytes);
  memory.get("l2_bytes", gpu.l2_bytes);
  memory.get("dram_bytes_per_second", gpu.dram_bytes_per_second);
  memory.get("copy_bytes_per_second", gpu.copy_bytes_per_second);
  memory.get("copy_kernel_bytes", gpu.copy_kernel_bytes);

  gpu.preemption = read_preemption(document);
  gpu.contention = read_contention(document);
  gpu.power = read_power(document);
  return gpu;
}

/// What a schema cannot say, and what is known of the places that a rule looks at.
class Rules {
 public:
  /// `given`: what stands in the file itself.
  Rules(const Gpu& gpu, std::set<std::string> unknown, const json& given)
      : gpu_(gpu), unknown_(std::move(unknown)), given_(given) {}

  /// One sentence each, with what to do about it.
  struct Broken {
    std::string place, problem, remedy;
  };
  std::vector<Broken> broken() {
    of_the_chip();
    of_mps();
    of_an_sm();
    of_memory();
    return std::move(broken_);
  }

 private:
  /// A rule about values that are missing or wrong by themselves is not asked.
  void unless(bool holds, std::initializer_list<const char*> places, std::string problem,
              const char* remedy) {
    const auto unknown = [&](const char* place) { return unknown_.contains(place); };
    if (!holds && std::ranges::none_of(places, unknown))
      broken_.push_back({fmt::format("{}/value", *places.begin()), std::move(problem), remedy});
  }

  void of_the_chip() {
    constexpr const char* kSms = "/chip/sms";
    const std::uint32_t tpcs = gpu_.sms / gpu_.sms_per_tpc;
    unless(gpu_.sms % gpu_.sms_per_tpc == 0, {"/chip/sms_per_tpc", kSms},
           fmt::format("{} SMs are not made of whole TPCs of {}", gpu_.sms, gpu_.sms_per_tpc),
           "sms must be a multiple of sms_per_tpc");
    unless(tpcs <= kMaxTpcs, {kSms, "/chip/sms_per_tpc"},
           fmt::format("expected at most {} TPCs, got {}", kMaxTpcs, tpcs), "a TPC mask holds no more");
    unless(gpu_.gpc_of_tpc.empty() || gpu_.gpc_of_tpc.size() == tpcs,
           {"/chip/gpc_of_tpc", kSms, "/chip/sms_per_tpc"},
           fmt::format("expected one GPC for each of {} TPCs, got {}", tpcs, gpu_.gpc_of_tpc.size()),
           "list the GPC of TPC 0, 1, 2, ..., or leave the key out");
    const std::string wrong = wrong_order();
    unless(wrong.empty(), {"/chip/placement_order", kSms}, wrong, "list every SM once");
  }

  std::string wrong_order() const {
    std::vector<bool> seen(gpu_.sms);
    for (SmId sm : gpu_.placement_order) {
      if (sm.value >= gpu_.sms) return fmt::format("SM {} does not exist", sm.value);
      if (seen[sm.value]) return fmt::format("SM {} stands there twice", sm.value);
      seen[sm.value] = true;
    }
    return gpu_.placement_order.size() == gpu_.sms
               ? ""
               : fmt::format("expected all {} SMs, got {}", gpu_.sms, gpu_.placement_order.size());
  }

  void of_mps() {
    constexpr const char *kLeast = "/scheduling/mps_least_sms", *kStep = "/scheduling/mps_sm_step";
    const bool in_part = (gpu_.mps_least_sms == 0) != (gpu_.mps_sm_step == 0) ||
                         (gpu_.mps_least_sms != 0 && gpu_.mps_client_channels.value_or(0) == 0);
    unless(!in_part, {kLeast, kStep, "/scheduling/mps_client_channels"},
           "thread percentages are described in part",
           "give mps_client_channels, mps_least_sms and mps_sm_step, or leave the last two out");
    unless(gpu_.mps_sm_step % gpu_.sms_per_tpc == 0 && gpu_.mps_least_sms % gpu_.sms_per_tpc == 0,
           {kStep, kLeast, "/chip/sms_per_tpc"},
           fmt::format("expected whole TPCs of {} SMs", gpu_.sms_per_tpc),
           "an MPS client's limit is a number of TPCs");
    // What is inherited for more SMs than there are leaves a client all of them.
    const auto within = [&](const char* key, std::uint32_t value) {
      if (given_.contains(json::json_pointer(key)))
        at_most(key, value, "/chip/sms", gpu_.sms, "chip/sms");
    };
    within(kLeast, gpu_.mps_least_sms);
    within(kStep, gpu_.mps_sm_step);
    within("/scheduling/mps_kept_back_sms", gpu_.mps_kept_back_sms);
  }

  template <class Value>
  void at_most(const char* place, Value value, const char* other, Value limit, const char* of) {
    unless(value <= limit, {place, other}, fmt::format("expected at most {} ({}), got {}", limit, of, value),
           "one of the two is wrong");
  }

  void of_an_sm() {
    const SmLimits& sm = gpu_.sm;
    at_most("/sm/registers_per_block", sm.registers_per_block, "/sm/registers", sm.registers, "registers");
    at_most("/sm/shared_memory_per_block_bytes", sm.shared_memory_per_block_bytes, "/sm/shared_memory_bytes",
            sm.shared_memory_bytes, "shared_memory_bytes");
    at_most("/sm/threads_per_block", sm.threads_per_block, "/sm/max_threads", sm.max_threads, "max_threads");
    if (!unknown_.contains("/sm/warp_size"))
      at_most("/sm/max_threads", sm.max_threads, "/sm/max_warps", sm.max_warps * sm.warp_size,
              "max_warps * warp_size");
  }

  void of_memory() {
    const Contention& c = gpu_.contention;
    at_most("/contention/dram_read_bytes_per_second", c.dram_read_bytes_per_second,
            "/memory/dram_bytes_per_second", gpu_.dram_bytes_per_second, "memory/dram_bytes_per_second");
    at_most("/contention/l2_own_bytes", c.l2_own_bytes, "/memory/l2_bytes", gpu_.l2_bytes,
            "memory/l2_bytes");
    const auto below_own = [&](const char* place, std::uint64_t value) {
      unless(value < c.l2_own_bytes, {place, "/contention/l2_own_bytes"},
             fmt::format("expected less than {} (l2_own_bytes), got {}", c.l2_own_bytes, value),
             "one of the two is wrong");
    };
    below_own("/contention/l2_shared_bytes", c.l2_shared_bytes);
    below_own("/contention/l2_first_loss_bytes", c.l2_first_loss_bytes);
  }

  const Gpu& gpu_;
  std::set<std::string> unknown_;  // places whose values are missing or wrong
  const json& given_;
  std::vector<Broken> broken_;
};

/// The document with the values of a valid one in the place of those that are missing or wrong, which go into
/// `unknown`: so that rules between the others can be asked.
json mended(const json& document, const std::vector<Violation>& wrong, std::set<std::string>& unknown) {
  json whole = gpu_document("h200", {}).json;
  const auto is_right = [&](const std::string& place) {
    return !unknown.contains(place) && std::ranges::none_of(wrong, [&](const Violation& v) {
      return v.place == place || v.place.starts_with(place + "/");
    });
  };
  for (auto& [group, leaves] : whole.items()) {
    if (!leaves.is_object()) continue;
    const auto given = document.is_object() ? document.find(group) : document.end();
    const bool has_group = document.is_object() && given != document.end() && given->is_object();
    for (auto leaf = leaves.begin(); leaf != leaves.end();) {
      const std::string place = fmt::format("/{}/{}", group, leaf.key());
      const bool is_good = has_group && given->contains(leaf.key()) && is_right(place);
      if (!is_good) unknown.insert(place);
      if (is_good) *leaf = given->at(leaf.key());
      if (!is_good && leaf->at("value").is_array())
        leaf = leaves.erase(leaf);
      else
        ++leaf;
    }
    if (!has_group) continue;
    for (const auto& [key, leaf] : given->items())  // which the valid one does not have
      if (!leaves.contains(key) && is_right(fmt::format("/{}/{}", group, key))) leaves[key] = leaf;
  }
  return whole;
}

/// Inherited values that were carried over by one that is wrong: that they are wrong too is no news.
std::set<std::string> carried_by_wrong(const GpuDocument& document, const std::vector<Violation>& wrong) {
  std::set<std::string> places;
  for (const auto& [group, leaves] : document.json.items()) {
    if (!leaves.is_object()) continue;
    for (const auto& [key, leaf] : leaves.items()) {
      const json::json_pointer place = json::json_pointer() / group / key;  // keys may be anything
      if (document.given.contains(place)) continue;
      const std::vector<std::string> sources = carried_by(group, key);
      if (std::ranges::any_of(sources, [&](const std::string& source) {
            return std::ranges::any_of(wrong, [&](const Violation& v) { return v.place.starts_with(source); });
          }))
        places.insert(place.to_string());
    }
  }
  return places;
}

Basis basis_of(const json& document) {
  Basis basis;
  for (const auto& [group, leaves] : document.items()) {
    if (!leaves.is_object()) continue;
    for (const auto& [key, leaf] : leaves.items()) {
      const auto& kind = leaf.at("basis").get_ref<const std::string&>();
      ++(kind == "published" ? basis.published : kind == "calibrated" ? basis.calibrated : basis.assumed);
      if (const auto of = leaf.find("of"); of != leaf.end() && kind == "assumed")
        ++basis.assumed_of[of->get<std::string>()];
    }
  }
  return basis;
}

constexpr std::size_t kMostErrors = 100;  // that are told; all are looked for, as what is wrong must not be read

}  // namespace

void check_gpu_document(const GpuDocument& document) {
  std::vector<Violation> wrong = violations(document.json, "gpu", std::numeric_limits<std::size_t>::max());
  std::set<std::string> unknown;
  if (document.json.is_object() && document.given.is_object()) {
    unknown = carried_by_wrong(document, wrong);
    const auto derived = [&](const Violation& v) {
      return std::ranges::any_of(unknown, [&](const std::string& place) { return v.place.starts_with(place + "/"); });
    };
    std::erase_if(wrong, derived);
  }
  const Gpu gpu = read_document(wrong.empty() ? document.json : mended(document.json, wrong, unknown));
  std::vector<Rules::Broken> all;
  const std::string remedy = how_to_see_the_schema("gpu");
  for (const Violation& v : wrong) all.push_back({printable(v.place, 300), v.problem, remedy});
  const json none = json::object();
  Rules rules(gpu, std::move(unknown), document.given.is_object() ? document.given : none);
  for (Rules::Broken& rule : rules.broken()) all.push_back(std::move(rule));
  if (all.empty()) return;
  std::string problem = all.front().problem;
  for (std::size_t i = 1; i < std::min(all.size(), kMostErrors); ++i)
    problem +=
        fmt::format("\n  and{}: {}", all[i].place.empty() ? "" : " at " + all[i].place, all[i].problem);
  if (all.size() > kMostErrors) problem += fmt::format("\n  and {} more", all.size() - kMostErrors);
  throw InputError(document.file, all.front().place, std::move(problem),
                   all.size() == 1 || !wrong.empty() ? all.front().remedy : remedy);
}

Gpu read_gpu(const std::string& name_or_path, const std::filesystem::path& beside) {
  const GpuDocument document = gpu_document(name_or_path, beside);
  check_gpu_document(document);
  Gpu gpu = read_document(document.json);
  gpu.basis = basis_of(document.json);
  return gpu;
}

std::string locate_gpu(const std::string& name_or_path) {
  const std::filesystem::path path = name_or_path;
  if (!std::ranges::binary_search(gpu_names(), name_or_path) && input_exists(path))
    return std::filesystem::absolute(path).string();
  (void)gpu_document(name_or_path, {});  // which tells what is wrong with the name
  return name_or_path;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_gpus()) names.emplace_back(file.name);
  std::ranges::sort(names);  // files are sorted with their extension
  return names;
}

}  // namespace corun
