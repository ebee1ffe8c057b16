// Documents to traces: what the schema cannot say (names that must exist, times that must ascend, ...) is
// checked here.
#include "traces/json/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "traces/json/gpu_document.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/program_buffers.h"
#include "traces/json/schema.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_file.h"
#include "traces/model/error.h"
#include "traces/model/op_order.h"
#include "traces/model/serving.h"

namespace corun {
namespace reading {
namespace {

using std::filesystem::path;

/// "0-32,40": calls `each` with every number.
void ranges(const TraceFile& file, const std::string& text, const std::string& place, std::uint32_t most, const char* what, const char* remedy,
            const std::function<void(std::uint32_t)>& each) {
  const char* at = text.c_str();  // the schema has checked the form: "0-32,40"
  while (*at != '\0') {
    char* end = nullptr;
    const unsigned long first = std::strtoul(at, &end, 10);
    unsigned long last = first;
    if (*end == '-') last = std::strtoul(end + 1, &end, 10);
    if (last > most) fail(file, place, fmt::format("expected {} from 0 to {}, got {}", what, most, last), remedy);
    if (last < first)
      fail(file, place, fmt::format("the range {}-{} runs backwards", first, last),
           "write the smaller number first");
    for (unsigned long number = first; number <= last; ++number) each(static_cast<std::uint32_t>(number));
    at = *end == ',' ? end + 1 : end;
  }
}

TpcMask tpc_mask(const TraceFile& file, const std::string& text, const std::string& place) {
  TpcMask mask;
  ranges(file, text, place, kMaxTpcs - 1, "TPCs", "name TPCs of this GPU: SMs divided by SMs per TPC", [&](std::uint32_t tpc) { mask.enable(TpcId{tpc}); });
  return mask;
}

std::optional<TpcMask> optional_mask(const TraceFile& file, const json& object, const std::string& place) {
  const json* text = find(object, "tpc_mask");
  if (text == nullptr) return std::nullopt;
  return tpc_mask(file, text->get_ref<const std::string&>(), place + "/tpc_mask");
}

/// "two_networks" for "dir/two_networks.json.gz".
std::string stem(const path& file) {
  std::string name = file.filename().string();
  for (const char* extension : {".gz", ".json", ".corun"})
    if (name.size() > std::string_view(extension).size() && name.ends_with(extension))
      name.resize(name.size() - std::string_view(extension).size());
  return name;
}

bool is_known_gpu(const std::string& name_or_path, const path& beside) {
  return input_exists(beside / name_or_path) || !find_gpu(name_or_path).empty();
}

/// One spelling of each file, however it was reached; a pipe has none and stays as it is.
path one_spelling(const path& file) {
  std::error_code error;
  const path spelling = std::filesystem::weakly_canonical(file, error);
  return error ? file : spelling;
}

class TraceReader {
 public:
  explicit TraceReader(RecordingReader recordings) : recordings_(std::move(recordings)) {}
  Trace read(const path& name) { return finish(load(name, name.string()), name); }

  /// `document` as it would be read from `name`.
  Trace read(json document, const path& name) {
    return finish(load(std::move(document), name, name.string()), name);
  }

 private:
  Trace finish(const TraceFile& root, const path& name) {
    for (const auto& file : files_) read_kernels(*file);
    for (const auto& file : files_) read_programs(*file);
    for (const auto& file : files_) read_parts(*file);
    read_clients(root);
    make_servers(trace_);
    read_run(root);
    trace_.name = root.document.value("name", stem(name));
    trace_.about = root.document.value("about", "");
    if (const json* gpu = find(root.document, "gpu")) {
      trace_.gpu = gpu->get<std::string>();
      if (!is_known_gpu(trace_.gpu, name.parent_path())) {
        const auto names = gpu_names();
        fail(root, "/gpu",
             fmt::format("unknown GPU {}{}", in_quotes(trace_.gpu), did_you_mean(trace_.gpu, names)),
             fmt::format("use one of {}, or the path of a GPU description beside the trace",
                         list_names(names)));
      }
    }
    return std::move(trace_);
  }

  const TraceFile& load(const path& location, const std::string& shown) {
    return load(parse_json(*open_input(location), shown), location, shown);
  }

  /// Takes in a file and all it includes, each once.
  const TraceFile& load(json document, const path& location, const std::string& shown) {
    const path spelling = one_spelling(location);
    files_.push_back(std::make_unique<TraceFile>());
    TraceFile& file = *files_.back();
    by_location_[spelling] = &file;
    loading_.push_back({spelling, shown});
    file.name = shown;
    file.location = location;
    file.document = std::move(document);
    check_schema(file.document, "trace", shown);
    const json& includes = members(file.document, "include");
    for (std::size_t i = 0; i < includes.size(); ++i)
      file.includes.push_back(
          &include(file, includes[i].get_ref<const std::string&>(), fmt::format("/include/{}", i)));
    loading_.pop_back();
    if (const json* notes = find(file.document, "notes"))
      for (const json& note : *notes)  // files made in one way share most of theirs
        if (std::find(trace_.notes.begin(), trace_.notes.end(), note.get<std::string>()) ==
            trace_.notes.end())
          trace_.notes.push_back(note.get<std::string>());
    return file;
  }

  const TraceFile& include(const TraceFile& from, const std::string& name, const std::string& place) {
    const path location = from.location.parent_path() / name;
    if (!input_exists(location))
      fail(from, place, fmt::format("no file {}", in_quotes(location.string())),
           "paths are relative to the file that includes");
    const path spelling = one_spelling(location);
    for (std::size_t i = 0; i < loading_.size(); ++i)
      if (loading_[i].first == spelling) {
        std::string cycle;
        for (std::size_t j = i; j < loading_.size(); ++j) cycle += loading_[j].second + " -> ";
        fail(from, place, fmt::format("the files include each other: {}{}", cycle, loading_[i].second),
             "move what they share to a file of its own");
      }
    if (const auto known = by_location_.find(spelling); known != by_location_.end()) return *known->second;
    const std::optional<Trace> recorded = recordings_ ? recordings_(location) : std::nullopt;
    if (!recorded) return load(location, location.string());
    std::stringstream text;
    write_trace(*recorded, text, "");
    return load(json::parse(text), location, location.string());
  }

  void read_kernels(TraceFile& file) {
    const json& kernels = members(file.document, "kernels");
    std::vector<std::string> assumed;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const std::string place = fmt::format("/kernels/{}", i);
      Kernel kernel = read_kernel(file, kernels[i], place);
      if (!kernels[i].contains("registers_per_thread")) assumed.push_back(kernel.name);
      if (!file.kernels.try_emplace(kernel.name, static_cast<std::uint32_t>(trace_.kernels.size())).second)
        fail(file, place + "/name", fmt::format("a kernel called {} exists already", in_quotes(kernel.name)),
             "give each kernel of a file a name of its own");
      // Files are apart, but reports list the kernels of all of them.
      for (unsigned copy = 1; !kernel_names_.insert(kernel.name).second; ++copy)
        kernel.name = fmt::format("{}/{}{}", stem(file.location), kernels[i]["name"].get<std::string>(),
                                  copy == 1 ? "" : fmt::format("#{}", copy));
      trace_.kernels.push_back(std::move(kernel));
    }
    if (!assumed.empty())
      trace_.notes.push_back(fmt::format("{}: no registers_per_thread for {} kernel{} ({}): {} assumed",
                                         file.name, assumed.size(), assumed.size() == 1 ? "" : "s",
                                         list_names(assumed, 3), kAssumedRegisters));
  }

  /// A file's own kernels, else those of the files it includes, nearest first.
  KernelId kernel(const TraceFile& file, const std::string& name, const std::string& place) const {
    std::vector<const TraceFile*> level = {&file};
    std::set<const TraceFile*> seen;
    while (!level.empty()) {
      std::vector<const TraceFile*> next;
      const TraceFile* found = nullptr;
      for (const TraceFile* each : level) {
        if (!seen.insert(each).second) continue;
        if (each->kernels.contains(name)) {
          if (found != nullptr)
            fail(file, place,
                 fmt::format("the kernel name {} is ambiguous: {} and {} both have one", in_quotes(name),
                             found->name, each->name),
                 "rename one of them");
          found = each;
        }
        next.insert(next.end(), each->includes.begin(), each->includes.end());
      }
      if (found != nullptr) return KernelId{found->kernels.find(name)->second};
      level = std::move(next);
    }
    Names visible;
    for (const TraceFile* each : seen) visible.insert(each->kernels.begin(), each->kernels.end());
    fail_unknown(file, place, "kernel", name, visible);
  }

  void read_programs(const TraceFile& file) {
    const json& programs = members(file.document, "programs");
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const std::string place = fmt::format("/programs/{}", i);
      Program program = read_program(file, programs[i], place);
      if (!programs_.try_emplace(program.name, static_cast<std::uint32_t>(trace_.programs.size())).second)
        fail(file, place + "/name",
             fmt::format("a program called {} exists already{}", in_quotes(program.name),
                         files_.size() > 1 ? " (included files count)" : ""),
             "give each program a name of its own");
      trace_.programs.push_back(std::move(program));
    }
  }

  /// What was recorded of a program on fewer SMs, when all programs are known.
  void read_parts(const TraceFile& file) {
    const json& programs = members(file.document, "programs");
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const auto& name = programs[i]["name"].get_ref<const std::string&>();
      for (const auto& [sms, there] : members(programs[i], "on_sms").items()) {
        const std::string place = fmt::format("/programs/{}/on_sms/{}", i, sms);
        const auto known = programs_.find(there.get_ref<const std::string&>());
        if (known == programs_.end()) fail_unknown(file, place, "program", there.get<std::string>(), programs_);
        const std::uint32_t program = programs_.find(name)->second;
        if (known->second == program)
          fail(file, place, "the program is named as its own recording on a part of the GPU", "name the one that was recorded there");
        trace_.programs[program].on_sms[static_cast<std::uint32_t>(std::stoul(sms))] = ProgramId{known->second};
      }
    }
  }

  Program read_program(const TraceFile& file, const json& from, const std::string& place) const {
    Program program;
    program.name = from["name"].get<std::string>();
    program.issue = from.value("issue", "eager") == "graph" ? Issue::graph : Issue::eager;
    program.coarse = from.value("coarse", false);
    for (const json& name : members(from, "streams")) program.streams.push_back({name.get<std::string>()});
    if (program.streams.empty()) program.streams.push_back({"main"});
    Names streams;
    for (const Stream& stream : program.streams)
      streams.try_emplace(stream.name, static_cast<std::uint32_t>(streams.size()));

    const json& ops = from["ops"];
    Names op_names;
    for (std::uint32_t i = 0; i < ops.size(); ++i)
      if (const json* name = find(ops[i], "name"))
        if (!op_names.try_emplace(name->get<std::string>(), i).second)
          fail(file, fmt::format("{}/ops/{}/name", place, i),
               fmt::format("an op called {} exists already in this program",
                           in_quotes(name->get_ref<const std::string&>())),
               "give each named op a name of its own");
    ProgramBuffers buffers(file);
    std::unordered_map<std::string, KernelId> kernels;  // a network launches few kernels many times
    bool does_work = false;
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const std::string op_place = fmt::format("{}/ops/{}", place, i);
      Op op;
      op.name = ops[i].value("name", "");
      op.host_gap = time(ops[i], "host_gap_ns");
      if (const json* name = find(ops[i], "stream")) {
        const auto known = streams.find(name->get_ref<const std::string&>());
        if (known == streams.end())
          fail_unknown(file, op_place + "/stream", "stream", name->get<std::string>(), streams);
        op.stream = StreamId{known->second};
      }
      const json& after = members(ops[i], "after");
      for (std::size_t j = 0; j < after.size(); ++j) {
        const auto known = op_names.find(after[j].get_ref<const std::string&>());
        if (known == op_names.end())
          fail_unknown(file, fmt::format("{}/after/{}", op_place, j), "op", after[j].get<std::string>(),
                       op_names);
        op.after.push_back(OpId{known->second});
      }
      if (const json* name = find(ops[i], "launch")) {
        const auto [known, is_new] = kernels.try_emplace(name->get<std::string>());
        if (is_new) known->second = kernel(file, known->first, op_place + "/launch");
        op.what = read_launch(file, ops[i], known->second, op_place);
        does_work = true;
      } else if (const json* direction = find(ops[i], "copy")) {
        Copy copy;
        copy.direction = *direction == "host_to_device"   ? CopyDirection::host_to_device
                         : *direction == "device_to_host" ? CopyDirection::device_to_host
                                                          : CopyDirection::device_to_device;
        copy.bytes = ops[i]["bytes"].get<std::uint64_t>();
        copy.host_bytes_per_second = ops[i].value("host_bytes_per_second", std::uint64_t{0});
        op.what = copy;
        does_work = true;
      } else if (const json* allocated = find(ops[i], "alloc")) {
        op.what = Alloc{buffers.allocate(allocated->get<std::string>(), op_place + "/alloc"),
                        ops[i]["bytes"].get<std::uint64_t>()};
      } else if (const json* freed = find(ops[i], "free")) {
        op.what = Free{buffers.free(freed->get<std::string>(), op_place + "/free")};
      } else {
        op.what = Sync{};
      }
      op.graph = ops[i].value("graph", 0u);
      if (op.graph != 0 && program.issue == Issue::graph)
        fail(file, op_place + "/graph", "the program is one launch of a CUDA graph as a whole (its issue is graph)",
             "leave graph out, or the program's issue");
      if (const json* uses = find(ops[i], "uses")) op.uses = buffers.used(*uses, op_place + "/uses");
      program.ops.push_back(std::move(op));
    }
    program.buffers = buffers.names();
    if (!does_work)
      fail(file, place + "/ops", "nothing to do: expected at least one launch or copy",
           "add what a request does, or leave the program out");
    check_order(file, program, place);
    return program;
  }

  Launch read_launch(const TraceFile& file, const json& op, KernelId id, const std::string& place) const {
    Launch launch;
    launch.kernel = id;
    launch.solo_time = optional_time(op, "solo_time_ns");
    launch.tpc_mask = optional_mask(file, op, place);
    launch.dependent = op.value("dependent", false);
    const Kernel& kernel = trace_.kernels[id.value];
    if (!launch.solo_time && !kernel.solo_time && kernel.block_times.empty())
      fail(file, place,
           fmt::format("how long it takes is unknown: neither this launch has solo_time_ns, nor the kernel "
                       "{} solo_time_ns or block_times_ns",
                       in_quotes(kernel.name)),
           "measure the kernel alone on the GPU and add solo_time_ns");
    return launch;
  }

  static void check_order(const TraceFile& file, const Program& program, const std::string& place) {
    const OpOrder order(program);
    if (order.cycle().empty()) return;
    std::vector<OpId> cycle(order.cycle().begin(), order.cycle().end());
    cycle.push_back(cycle.front());
    std::string shown;
    for (OpId id : cycle) {
      const std::string& name = program.ops[id.value].name;
      shown +=
          (shown.empty() ? "" : " -> ") + (name.empty() ? fmt::format("ops/{}", id.value) : printable(name));
    }
    fail(file, fmt::format("{}/ops/{}", place, cycle.front().value),
         "these ops wait for each other (a -> b: a waits for b): " + shown,
         "remove one of the `after`; an op also waits for those before it in its stream, and for all before "
         "a sync, an alloc or a free");
  }

  void read_clients(const TraceFile& file) {
    const json& clients = members(file.document, "clients");
    Names names;
    for (std::uint32_t i = 0; i < clients.size(); ++i) {
      const std::string place = fmt::format("/clients/{}", i);
      trace_.clients.push_back(read_client(file, clients[i], place));
      const std::string& name = trace_.clients.back().name;
      if (!names.try_emplace(name, i).second)
        fail(file, place + "/name", fmt::format("a client called {} exists already", in_quotes(name)),
             "give each client a name of its own");
    }
    check_replicas(file);
  }

  /// Each server has all of its replicas: what is dealt to one that is not there nobody serves.
  void check_replicas(const TraceFile& file) const {
    std::map<std::string, std::set<std::uint32_t>> there;
    for (std::uint32_t i = 0; i < trace_.clients.size(); ++i) {
      const auto& replica = trace_.clients[i].replica;
      if (replica && !there[replica->of].insert(replica->number).second)
        fail(file, fmt::format("/clients/{}/replica", i), fmt::format("{} has two replicas with number {}", in_quotes(replica->of), replica->number + 1),
             "number a server's replicas from 1");
    }
    for (std::uint32_t i = 0; i < trace_.clients.size(); ++i)
      if (const auto& replica = trace_.clients[i].replica; replica && there[replica->of].size() != replica->among)
        fail(file, fmt::format("/clients/{}/replica/among", i),
             fmt::format("{} has {} replicas here, not {}", in_quotes(replica->of), there[replica->of].size(), replica->among),
             "say for each how many there are");
  }

  Client read_client(const TraceFile& file, const json& from, const std::string& place) const {
    Client client;
    client.name = from["name"].get<std::string>();
    client.origin = {file.name, place};
    const auto& program_name = from["program"].get_ref<const std::string&>();
    const auto known = programs_.find(program_name);
    if (known == programs_.end()) fail_unknown(file, place + "/program", "program", program_name, programs_);
    client.program = ProgramId{known->second};
    if (const json* issue = find(from, "issue"))
      client.issue = *issue == "graph" ? Issue::graph : Issue::eager;
    client.process = from.value("process", client.name);
    client.service_class = from.value("class", "best_effort") == "real_time" ? ServiceClass::real_time
                                                                             : ServiceClass::best_effort;
    client.priority = from.value("priority", 0);
    client.tpc_mask = optional_mask(file, from, place);
    client.memory_bytes = from.value("memory_bytes", std::uint64_t{0});
    client.quota = optional_number(from, "quota");
    client.reservation = optional_number(from, "reservation");
    if (client.quota && client.reservation && *client.reservation > *client.quota)
      fail(file, place + "/reservation",
           fmt::format("the reservation {} exceeds the quota {}", *client.reservation, *client.quota),
           "promise at most what the client may hold");
    client.deadline = optional_time(from, "deadline_ns");

    const Program& program = trace_.programs[client.program.value];
    client.streams.resize(program.streams.size());
    if (const json* streams = find(from, "streams")) {
      Names stream_names;
      for (std::uint32_t i = 0; i < program.streams.size(); ++i) stream_names[program.streams[i].name] = i;
      for (const auto& [name, settings] : streams->items()) {
        const std::string stream_place = (json::json_pointer(place) / "streams" / name).to_string();
        const auto stream = stream_names.find(name);
        if (stream == stream_names.end()) fail_unknown(file, stream_place, "stream", name, stream_names);
        ClientStream& to = client.streams[stream->second];
        if (const json* priority = find(settings, "priority")) to.priority = priority->get<std::int32_t>();
        to.tpc_mask = optional_mask(file, settings, stream_place);
      }
    }
    if (const json* arrivals = find(from, "arrivals")) {
      client.arrivals = read_arrivals(file, *arrivals, place + "/arrivals");
      client.stale = arrivals->value("stale", "keep_newest") == "queue" ? Stale::queue : Stale::keep_newest;
    }
    if (const json* cpus = find(from, "cpus")) {
      CpuSet& set = client.cpus.emplace();
      ranges(file, cpus->get_ref<const std::string&>(), place + "/cpus", kMaxCpus - 1, "CPUs", "name CPUs of the host", [&](std::uint32_t cpu) { set.set(cpu); });
    }
    client.blocking = from.value("blocking", false);
    if (const json* replica = find(from, "replica")) {
      client.replica = {(*replica)["of"].get<std::string>(), (*replica)["number"].get<std::uint32_t>() - 1, (*replica)["among"].get<std::uint32_t>()};
      if (client.replica->number >= client.replica->among)
        fail(file, place + "/replica/number", fmt::format("expected 1 to {}, got {}", client.replica->among, client.replica->number + 1), "number the replicas from 1");
    }
    if (const json* stalls = find(from, "host_stalls")) client.host_stalls = read_host_stalls(file, *stalls, place + "/host_stalls");
    if (const json* serving = find(from, "serving")) {
      if (find(from, "arrivals") != nullptr)
        fail(file, place + "/arrivals", "a client that serves sequences has no other arrivals", "remove it, or serving");
      client.serving = read_serving(file, *serving, place + "/serving");
    }
    return client;
  }

  Serving read_serving(const TraceFile& file, const json& from, const std::string& place) const {
    Serving serving;
    for (std::size_t i = 0; i < from["steps"].size(); ++i) {
      const json& step = from["steps"][i];
      const auto& name = step["program"].get_ref<const std::string&>();
      const auto known = programs_.find(name);
      if (known == programs_.end()) fail_unknown(file, fmt::format("{}/steps/{}/program", place, i), "program", name, programs_);
      serving.steps.push_back({ProgramId{known->second}, step.value("batch", 0u), step.value("context", 0u), step.value("tokens", 0u)});
    }
    serving.most_at_once = from.value("most_at_once", 0u);
    serving.padded = from.value("padded", false);
    for (std::size_t i = 0; i < from["sequences"].size(); ++i) {
      const json& one = from["sequences"][i];
      serving.sequences.push_back({time(one[0]), one[1].get<std::uint32_t>(), one[2].get<std::uint32_t>()});
      if (one.size() > 3) serving.sequences.back().blocks = one[3].get<std::vector<std::uint64_t>>();
      if (i > 0 && serving.sequences[i].at < serving.sequences[i - 1].at)
        fail(file, fmt::format("{}/sequences/{}", place, i),
             fmt::format("expected ascending times, got {} after {}", to_ns(serving.sequences[i].at), to_ns(serving.sequences[i - 1].at)),
             "sort the sequences");
    }
    serving.prefix_block = from.value("prefix_block", 0u);
    if (const json* cache = find(from, "prefix_cache")) serving.prefix_cache = cache->get<std::uint64_t>();
    if (serving.prefix_cache && serving.prefix_block == 0)
      fail(file, place + "/prefix_cache", "is of prompts whose blocks are known", "give prefix_block and the sequences' hashes, or leave it out");
    serving.first_token_slo = optional_time(from, "first_token_slo_ns");
    serving.between_tokens_slo = optional_time(from, "between_tokens_slo_ns");
    serving.end_to_end_slo = optional_time(from, "end_to_end_slo_ns");
    return serving;
  }

  static Arrivals read_arrivals(const TraceFile& file, const json& from, const std::string& place) {
    const auto& type = from["type"].get_ref<const std::string&>();
    if (type == "closed_loop") return ClosedLoop{time(from, "think_time_ns"), from.value("in_flight", 1u)};
    if (type == "periodic") return Periodic{time(from["period_ns"]), time(from, "offset_ns")};
    if (type == "poisson")
      return Poisson{from["rate_per_s"].get<double>(), from.value("seed", std::uint64_t{0})};
    if (type == "once") return Once{time(from, "at_ns")};
    ExplicitTimes explicit_times;
    for (const json& ns : from["times_ns"]) {
      const Time at = time(ns);
      if (!explicit_times.times.empty() && at < explicit_times.times.back())
        fail(file, fmt::format("{}/times_ns/{}", place, explicit_times.times.size()),
             fmt::format("expected ascending times, got {} after {}", to_ns(at),
                         to_ns(explicit_times.times.back())),
             "sort the times");
      explicit_times.times.push_back(at);
    }
    return explicit_times;
  }

  void read_run(const TraceFile& file) {
    const json* run = find(file.document, "run");
    if (run == nullptr) return;
    trace_.run.duration = optional_time(*run, "duration_ns");
    trace_.run.warm_up = time(*run, "warm_up_ns");
    trace_.run.seed = run->value("seed", trace_.run.seed);
    if (const auto slice = optional_time(*run, "cpu_slice_ns")) trace_.run.cpu_slice = *slice;
    if (trace_.run.duration && trace_.run.warm_up >= *trace_.run.duration)
      fail(file, "/run/warm_up_ns",
           fmt::format("the warm-up of {} ns leaves nothing of the run's {} ns", to_ns(trace_.run.warm_up),
                       to_ns(*trace_.run.duration)),
           "make duration_ns longer than warm_up_ns");
  }

  RecordingReader recordings_;
  Trace trace_;
  std::vector<std::unique_ptr<TraceFile>> files_;  // the root first, then included ones
  std::map<path, const TraceFile*> by_location_;
  std::vector<std::pair<path, std::string>> loading_;  // from the root to the file being loaded
  std::set<std::string> kernel_names_;
  Names programs_;
};

}  // namespace
}  // namespace reading

Trace read_trace(const std::filesystem::path& file, const RecordingReader& recordings) {
  return reading::TraceReader(recordings).read(file);
}

Trace read_trace(const nlohmann::json& document, const std::filesystem::path& file) {
  return reading::TraceReader({}).read(document, file);
}

}  // namespace corun
