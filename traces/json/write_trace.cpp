// Traces to documents.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "traces/json/print.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

using json = nlohmann::ordered_json;  // keys stay in the order in which they are written here

json ns(Time t) {
  if (t.count() % 1000 == 0) return t.count() / 1000;
  return to_ns(t);
}

json dim3(Dim3 size) { return json::array({size.x, size.y, size.z}); }

/// "0-32,40"
std::string ranges_text(std::uint32_t numbers, const auto& has) {
  std::string text;
  for (std::uint32_t first = 0; first < numbers; ++first) {
    if (!has(first)) continue;
    std::uint32_t last = first;
    while (last + 1 < numbers && has(last + 1)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
    first = last;
  }
  return text;
}

std::string mask_text(const TpcMask& mask) {
  return ranges_text(kMaxTpcs, [&](std::uint32_t tpc) { return mask.allows(TpcId{tpc}); });
}

template <class Value>
void put(json& object, const char* key, const Value& value, const Value& otherwise) {
  if (value != otherwise) object[key] = value;
}

void put(json& object, const char* key, const std::optional<double>& value) {
  if (value) object[key] = *value;
}

void put(json& object, const char* key, const std::optional<Time>& value) {
  if (value) object[key] = ns(*value);
}

void put(json& object, const char* key, Time value, Time otherwise) {
  if (value != otherwise) object[key] = ns(value);
}

void put(json& object, const char* key, const std::optional<TpcMask>& value) {
  if (value) object[key] = mask_text(*value);
}

/// Names as the document needs them: not empty, none twice.  A trace that was read has such names; importers
/// may not.
class DistinctNames {
 public:
  explicit DistinctNames(const char* kind) : kind_(kind) {}
  std::string add(const std::string& name) {
    std::string distinct = name.empty() ? fmt::format("{}{}", kind_, used_.size()) : name;
    for (unsigned copy = 2; !used_.insert(distinct).second; ++copy)
      distinct = fmt::format("{}#{}", name, copy);
    return distinct;
  }

 private:
  const char* kind_;
  std::set<std::string> used_;
};

template <class Item>
std::vector<std::string> distinct_names(const std::vector<Item>& items, const char* kind) {
  DistinctNames names(kind);
  std::vector<std::string> all;
  for (const Item& item : items) all.push_back(names.add(item.name));
  return all;
}

json counters(const Counters& from) {
  json to = json::object();
  put(to, "dram_read_bytes", from.dram_read_bytes);
  put(to, "dram_write_bytes", from.dram_write_bytes);
  put(to, "l2_bytes", from.l2_bytes);
  put(to, "l1_bytes", from.l1_bytes);
  put(to, "warp_instructions", from.warp_instructions);
  put(to, "tensor_instructions", from.tensor_instructions);
  put(to, "issue_active_pct", from.issue_active_pct);
  put(to, "warps_active_pct", from.warps_active_pct);
  put(to, "fp64_active_pct", from.fp64_active_pct);
  for (const auto& [pipe, busy] : from.pipes_pct) to["pipes_pct"][pipe] = busy;
  put(to, "duration_ns", from.duration_ns);
  return to;
}

json device_code(const DeviceCode& from) {
  json to;
  if (from.file.empty())
    to["library"] = from.library;
  else
    to["file"] = from.file;
  to["function"] = from.function;
  to["arguments"] = json::array();
  for (const DeviceCode::Argument& a : from.arguments) {
    json argument;
    if (const auto* b = std::get_if<DeviceCode::Buffer>(&a)) {
      using Type = DeviceCode::Buffer::Type;
      argument["buffer"] = b->type == Type::f32   ? "f32"
                           : b->type == Type::f64 ? "f64"
                           : b->type == Type::f16 ? "f16"
                                                  : "u32";
      argument["elements"] = b->elements;
      if (b->filled && b->type == Type::u32)
        argument["fill"] = b->below == 0 ? json::object() : json{{"below", b->below}};
      if (b->filled && b->type != Type::u32) argument["fill"] = {{"low", b->low}, {"high", b->high}};
    } else if (const auto* u = std::get_if<std::uint32_t>(&a)) {
      argument["u32"] = *u;
    } else if (const auto* i = std::get_if<std::int32_t>(&a)) {
      argument["i32"] = *i;
    } else if (const auto* f = std::get_if<float>(&a)) {
      argument["f32"] = *f;
    } else {
      argument["f64"] = std::get<double>(a);
    }
    to["arguments"].push_back(std::move(argument));
  }
  return to;
}

json kernel(const Kernel& from, const std::string& name) {
  json to;
  to["name"] = name;
  to["grid"] = dim3(from.grid);
  to["block"] = dim3(from.block);
  if (from.cluster != Dim3{}) to["cluster"] = dim3(from.cluster);
  to["registers_per_thread"] = from.registers_per_thread;  // its default comes with a warning
  put(to, "static_shared_memory_bytes", from.static_shared_memory_bytes, 0u);
  put(to, "dynamic_shared_memory_bytes", from.dynamic_shared_memory_bytes, 0u);
  put(to, "idempotent", from.idempotent, false);
  put(to, "ptx", from.ptx, false);
  put(to, "solo_time_ns", from.solo_time);
  put(to, "solo_time_sms", from.solo_time_sms, 0u);
  for (const auto& [sms, time] : from.solo_time_by_sms)
    to["solo_time_by_sms_ns"][std::to_string(sms)] = ns(time);
  for (const auto& [ctas, time] : from.persistent_time_by_ctas)
    to["persistent_time_by_ctas_ns"][std::to_string(ctas)] = ns(time);
  if (from.stoppable)
    to["stoppable"] = {{"time_ns", ns(from.stoppable->time)}, {"workers_stay", from.stoppable->workers_stay}};
  for (Time time : from.block_times) to["block_times_ns"].push_back(ns(time));
  if (json counted = counters(from.counters); !counted.empty()) to["counters"] = std::move(counted);
  if (from.code) to["code"] = device_code(*from.code);
  return to;
}

const char* text(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::host_to_device:
      return "host_to_device";
    case CopyDirection::device_to_host:
      return "device_to_host";
    case CopyDirection::device_to_device:
      return "device_to_device";
  }
  return "";
}

/// Ops need a name only where another one waits for them.
std::vector<std::string> op_names(const Program& program) {
  std::vector<bool> needed(program.ops.size());
  for (const Op& op : program.ops)
    for (OpId after : op.after) needed[after.value] = true;
  DistinctNames names("op");
  std::vector<std::string> all(program.ops.size());
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (!program.ops[i].name.empty()) all[i] = names.add(program.ops[i].name);
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (needed[i] && all[i].empty()) all[i] = names.add(fmt::format("op{}", i));
  return all;
}

json program(const Program& from, std::size_t at, const std::vector<std::string>& programs, const std::vector<std::string>& kernels) {
  json to;
  to["name"] = programs[at];
  for (const auto& [sms, there] : from.on_sms) to["on_sms"][std::to_string(sms)] = programs[there.value];
  if (from.coarse) to["coarse"] = true;
  if (from.issue == Issue::graph) to["issue"] = "graph";
  const std::vector<std::string> streams = distinct_names(from.streams, "stream");
  put(to, "streams", streams, {"main"});
  const std::vector<std::string> names = op_names(from);
  to["ops"] = json::array();
  for (std::size_t i = 0; i < from.ops.size(); ++i) {
    const Op& op = from.ops[i];
    json item;
    const auto* launch = std::get_if<Launch>(&op.what);
    const bool host_call = is_host_call(op);
    if (launch != nullptr) item["launch"] = kernels[launch->kernel.value];
    if (const auto* copy = std::get_if<Copy>(&op.what)) {
      item["copy"] = text(copy->direction);
      item["bytes"] = copy->bytes;
      if (copy->host_bytes_per_second != 0) item["host_bytes_per_second"] = copy->host_bytes_per_second;
    }
    if (std::holds_alternative<Sync>(op.what)) item["sync"] = true;
    if (const auto* alloc = std::get_if<Alloc>(&op.what)) {
      item["alloc"] = from.buffers[alloc->buffer];
      item["bytes"] = alloc->bytes;
    }
    if (const auto* freed = std::get_if<Free>(&op.what)) item["free"] = from.buffers[freed->buffer];
    if (!host_call && op.stream.value != 0) item["stream"] = streams[op.stream.value];
    if (!names[i].empty()) item["name"] = names[i];
    if (!host_call)
      for (OpId after : op.after) item["after"].push_back(names[after.value]);
    if (op.uses) {
      item["uses"] = json::array();
      for (std::uint32_t buffer : *op.uses) item["uses"].push_back(from.buffers[buffer]);
    }
    put(item, "host_gap_ns", op.host_gap, Time{});
    put(item, "graph", op.graph, 0u);
    if (launch != nullptr) {
      put(item, "solo_time_ns", launch->solo_time);
      put(item, "tpc_mask", launch->tpc_mask);
      put(item, "dependent", launch->dependent, false);
    }
    to["ops"].push_back(std::move(item));
  }
  return to;
}

struct ArrivalsWriter {
  json operator()(const ClosedLoop& from) const {
    json to = {{"type", "closed_loop"}};
    put(to, "think_time_ns", from.think_time, Time{});
    if (from.in_flight != 1) to["in_flight"] = from.in_flight;
    return to;
  }
  json operator()(const Periodic& from) const {
    json to = {{"type", "periodic"}, {"period_ns", ns(from.period)}};
    put(to, "offset_ns", from.offset, Time{});
    return with_stale(std::move(to));
  }
  json operator()(const Poisson& from) const {
    json to = {{"type", "poisson"}, {"rate_per_s", from.rate_per_s}};
    put(to, "seed", from.seed, std::uint64_t{0});
    return with_stale(std::move(to));
  }
  json operator()(const ExplicitTimes& from) const {
    json to = {{"type", "explicit"}, {"times_ns", json::array()}};
    for (Time time : from.times) to["times_ns"].push_back(ns(time));
    return with_stale(std::move(to));
  }
  json operator()(const Once& from) const {
    json to = {{"type", "once"}};
    put(to, "at_ns", from.at, Time{});
    return to;
  }
  json with_stale(json to) const {
    if (stale == Stale::queue) to["stale"] = "queue";
    return to;
  }
  Stale stale;
};

json serving(const Serving& from, const std::vector<std::string>& programs) {
  json to;
  for (const ServingStep& step : from.steps) {
    json one = {{"program", programs[step.program.value]}};
    if (step.tokens != 0)
      one["tokens"] = step.tokens;
    else
      one["batch"] = step.batch, one["context"] = step.context;
    to["steps"].push_back(std::move(one));
  }
  to["most_at_once"] = from.most_at_once;
  put(to, "padded", from.padded, false);
  for (const Sequence& s : from.sequences) {
    to["sequences"].push_back(json::array({ns(s.at), s.prompt, s.generated}));
    if (!s.blocks.empty()) to["sequences"].back().push_back(s.blocks);
  }
  put(to, "prefix_block", from.prefix_block, 0u);
  if (from.prefix_cache) to["prefix_cache"] = *from.prefix_cache;
  put(to, "first_token_slo_ns", from.first_token_slo);
  put(to, "between_tokens_slo_ns", from.between_tokens_slo);
  put(to, "end_to_end_slo_ns", from.end_to_end_slo);
  return to;
}

json client(const Client& from, const std::string& name, const Program& its_program,
            const std::vector<std::string>& programs) {
  json to;
  to["name"] = name;
  to["program"] = programs[from.serving ? from.serving->steps.front().program.value : from.program.value];
  if (from.issue) to["issue"] = *from.issue == Issue::graph ? "graph" : "eager";
  put(to, "process", from.process, from.name);
  if (from.service_class == ServiceClass::real_time) to["class"] = "real_time";
  put(to, "priority", from.priority, 0);
  put(to, "deadline_ns", from.deadline);
  put(to, "memory_bytes", from.memory_bytes, std::uint64_t{0});
  put(to, "quota", from.quota);
  put(to, "reservation", from.reservation);
  put(to, "tpc_mask", from.tpc_mask);
  const std::vector<std::string> streams = distinct_names(its_program.streams, "stream");
  for (std::size_t i = 0; i < from.streams.size() && i < streams.size(); ++i) {
    json settings = json::object();
    if (from.streams[i].priority) settings["priority"] = *from.streams[i].priority;
    put(settings, "tpc_mask", from.streams[i].tpc_mask);
    if (!settings.empty()) to["streams"][streams[i]] = std::move(settings);
  }
  if (from.cpus) to["cpus"] = ranges_text(kMaxCpus, [&](std::uint32_t cpu) { return from.cpus->test(cpu); });
  put(to, "blocking", from.blocking, false);
  if (from.replica) to["replica"] = {{"of", from.replica->of}, {"number", from.replica->number + 1}, {"among", from.replica->among}};
  if (from.host_stalls) {
    json& stalls = to["host_stalls"] = {{"observed_ns", ns(from.host_stalls->observed)}, {"stalls", json::array()}};
    for (const HostStalls::Stall& s : from.host_stalls->stalls) stalls["stalls"].push_back(json::array({ns(s.at), ns(s.lasting)}));
  }
  if (from.serving) {
    to["serving"] = serving(*from.serving, programs);
    return to;
  }
  const json arrivals = std::visit(ArrivalsWriter{from.stale}, from.arrivals);
  if (arrivals != json{{"type", "closed_loop"}}) to["arrivals"] = arrivals;
  return to;
}

}  // namespace

void write_trace(const Trace& trace, std::ostream& out, const std::string& schema) {
  json to;
  put(to, "$schema", schema, std::string());
  to["corun_trace"] = 1;
  to["name"] = trace.name;
  put(to, "about", trace.about, std::string());
  for (const auto* notes : {&trace.carried, &trace.notes})
    for (const std::string& note : *notes) to["notes"].push_back(note);
  put(to, "gpu", trace.gpu, std::string());
  const std::vector<std::string> kernels = distinct_names(trace.kernels, "kernel");
  const std::vector<std::string> programs = distinct_names(trace.programs, "program");
  const std::vector<std::string> clients = distinct_names(trace.clients, "client");
  for (std::size_t i = 0; i < kernels.size(); ++i)
    to["kernels"].push_back(kernel(trace.kernels[i], kernels[i]));
  for (std::size_t i = 0; i < programs.size(); ++i)
    if (trace.programs[i].parts.empty())  // else made of others, again when it is read
      to["programs"].push_back(program(trace.programs[i], i, programs, kernels));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const auto program = trace.clients[i].program.value;
    to["clients"].push_back(client(trace.clients[i], clients[i], trace.programs[program], programs));
  }
  json run = json::object();
  put(run, "duration_ns", trace.run.duration);
  put(run, "warm_up_ns", trace.run.warm_up, Time{});
  put(run, "seed", trace.run.seed, std::uint64_t{1});
  put(run, "cpu_slice_ns", trace.run.cpu_slice, RunControl{}.cpu_slice);
  if (!run.empty()) to["run"] = std::move(run);
  print_json(to, out);
}

}  // namespace corun
