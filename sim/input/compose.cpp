#include "sim/input/compose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "sim/input/carry.h"
#include "sim/input/client_settings.h"
#include "sim/input/load.h"
#include "sim/input/serving_steps.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/model/merge.h"
#include "traces/model/serving.h"

namespace corun::sim {
namespace {

constexpr Time kDuration{1'000'000'000'000};  // a second

/// "cam=a.json,rt,rate=50"
struct Written {
  std::string name, file;
  std::vector<ClientSetting> settings;

  std::string place() const { return fmt::format("--client {}", name); }
  std::string value_of(const char* key) const {
    for (const ClientSetting& s : settings)
      if (s.key == key) return s.value;
    return {};
  }
};

[[noreturn]] void fail(const Written& written, const std::string& problem, const std::string& remedy) {
  throw InputError("", written.place(), problem, remedy);
}

Written parse(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0)
    throw InputError("", "--client", fmt::format("{} names no client", in_quotes(text)),
                     "write NAME=FILE and settings, as cam=resnet.json,rt,rate=50,slo=20ms");
  Written written{text.substr(0, sign), {}, {}};
  std::size_t at = sign + 1;
  for (bool first = true; at <= text.size(); first = false) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string piece = text.substr(at, comma - at);
    at = comma + 1;
    if (first)
      written.file = piece;
    else
      written.settings.push_back(parse_client_setting(piece, written.place()));
  }
  check_client_settings(written.settings, written.place());
  if (written.file.empty()) fail(written, "no file is given", "write NAME=FILE");
  return written;
}

/// One file's share of the composed trace.
struct Part {
  Trace trace;
  std::optional<Gpu> recorded_on;  // absent: it says nothing of that
};

class Composer {
 public:
  Trace compose(const std::vector<std::string>& clients, const std::string& gpu) {
    std::vector<Written> all;
    for (const std::string& text : clients) all.push_back(parse(text));
    std::set<std::string> names;
    for (const Written& written : all)
      if (!names.insert(written.name).second)
        fail(written, "two clients have this name", "give each a name of its own");
    for (const Written& written : all) read(written);
    choose_gpu(all, gpu);
    for (const Written& written : all) add(written);
    std::set<std::string> made;
    for (const Client& client : out_.clients)
      if (!made.insert(client.name).second)
        throw InputError("", client.origin.place, fmt::format("a client and a replica are called {}", in_quotes(client.name)), "give the client another name");
    make_servers(out_);
    out_.name = fmt::format("{}", fmt::join(names, " + "));
    out_.run.duration = kDuration;
    return std::move(out_);
  }

 private:
  using PartKey = std::tuple<std::string, std::string, std::string>;  // file, counters, recording on a part of the GPU
  static PartKey key_of_part(const Written& written) { return {written.file, written.value_of("counters"), written.value_of("by-sms")}; }

  void read(const Written& written) {
    const auto [at, is_new] = parts_.try_emplace(key_of_part(written));
    if (!is_new) return;
    at->second.trace = read_input(written.file, "", written.value_of("counters"), written.value_of("by-sms"));
    const Trace& trace = at->second.trace;
    if (!trace.gpu.empty())
      at->second.recorded_on = read_gpu(trace.gpu, std::filesystem::path(written.file).parent_path());
  }

  void choose_gpu(const std::vector<Written>& all, const std::string& gpu) {
    if (!gpu.empty()) {
      out_.gpu = locate_gpu(gpu);
      target_ = read_gpu(out_.gpu), written_ = gpu;
      return;
    }
    const Written* first = nullptr;
    for (const Written& written : all) {
      const auto& recorded_on = parts_.at(key_of_part(written)).recorded_on;
      if (!recorded_on) continue;
      if (!target_) {
        target_ = recorded_on, first = &written;
        const std::string& named = parts_.at(key_of_part(written)).trace.gpu;
        const auto beside = std::filesystem::path(written.file).parent_path() / named;
        out_.gpu = std::filesystem::exists(beside) ? locate_gpu(beside.string()) : named;
      } else if (!same_card(*target_, *recorded_on)) {
        throw InputError("", "--client",
                         fmt::format("{} was recorded on {}, {} on {}", first->file, target_->name, written.file,
                                     recorded_on->name),
                         "say with --gpu which GPU they shall share; times are carried over to it");
      }
    }
  }

  ProgramId choose_program(const Written& written, const Trace& trace, const Client* base) const {
    std::vector<std::string> names, on_all;
    std::set<ProgramId> on_parts;
    for (const Program& program : trace.programs) {
      names.push_back(program.name);
      for (const auto& [sms, there] : program.on_sms) on_parts.insert(there);
    }
    std::uint32_t only = 0;
    for (std::uint32_t i = 0; i < names.size(); ++i)
      if (!on_parts.contains(ProgramId{i})) only = i, on_all.push_back(names[i]);
    const std::string wanted = written.value_of("program");
    if (wanted.empty() && base != nullptr) return base->program;
    if (wanted.empty()) {
      if (on_all.size() != 1)
        fail(written, fmt::format("{} has {} programs: {}", written.file, on_all.size(), list_names(on_all)),
             "choose one with program=NAME");
      return ProgramId{only};
    }
    const auto known = std::find(names.begin(), names.end(), wanted);
    if (known == names.end())
      fail(written,
           fmt::format("{} has no program {}{}", written.file, in_quotes(wanted), did_you_mean(wanted, names)),
           fmt::format("use one of {}", list_names(names)));
    return ProgramId{static_cast<std::uint32_t>(known - names.begin())};
  }

  /// The file's client that `client=` names, else the only one there is (of the program that `program=` names).
  const Client* choose_base(const Written& written, const Trace& trace) const {
    const std::string wanted = written.value_of("client"), program = written.value_of("program");
    std::vector<std::string> names;
    std::vector<const Client*> fitting;
    for (const Client& client : trace.clients) {
      names.push_back(client.name);
      if (client.name == wanted) return &client;
      if (program.empty() || trace.programs[client.program.value].name == program) fitting.push_back(&client);
    }
    if (!wanted.empty())
      fail(written,
           fmt::format("{} has no client {}{}", written.file, in_quotes(wanted), did_you_mean(wanted, names)),
           names.empty() ? "leave client= out" : fmt::format("use one of {}", list_names(names)));
    if (fitting.size() > 1 && program.empty())
      fail(written, fmt::format("{} has {} clients: {}", written.file, names.size(), list_names(names)),
           "choose one with client=NAME, or a program with program=NAME");
    return fitting.size() == 1 ? fitting.front() : nullptr;
  }

  /// Kernels and programs of a file, once, as they are on the GPU that is simulated.
  void take_over(const Written& written, Part& part) {
    Trace& trace = part.trace;
    const auto [at, is_new] = taken_.try_emplace(key_of_part(written));
    if (!is_new) return;
    if (part.recorded_on) carry_over(trace, written.file, *part.recorded_on, told_apart(*target_, *part.recorded_on, written_));
    out_.notes.insert(out_.notes.end(), trace.notes.begin(), trace.notes.end());
    out_.carried.insert(out_.carried.end(), trace.carried.begin(), trace.carried.end());
    at->second = append(out_, trace, written.name);
  }

  void add(const Written& written) {
    Part& part = parts_.at(key_of_part(written));
    const Client* base = choose_base(written, part.trace);
    std::vector<ServingStep> steps;
    const std::string serve = written.value_of("serve");
    const bool has_steps = base != nullptr && base->serving && serve == "auto";  // the file says which they are
    if (!serve.empty() && !has_steps) steps = serving_steps(serve, part.trace, written.file, written.place());
    const ProgramId program = steps.empty() ? choose_program(written, part.trace, base) : steps.front().program;
    Client client = base == nullptr ? Client{} : *base;
    if (base == nullptr) client.streams.resize(part.trace.programs[program.value].streams.size());
    client.name = client.process = written.name;
    client.origin = {"", written.place()};
    if (!steps.empty()) client.serving.emplace().steps = std::move(steps);
    const std::uint32_t replicas = replicas_of(written.settings, written.place());
    std::vector<ClientSetting> of_one = written.settings;
    std::erase_if(of_one, [](const ClientSetting& s) { return s.key == "replicas"; });
    apply_client_settings(client, of_one, written.place(), out_.notes);
    if (client.serving && client.serving->sequences.empty())
      fail(written, "a server has no sequences", "give times=FILE, with the arrivals and their tokens");
    take_over(written, part);
    const std::uint32_t first = taken_.at(key_of_part(written)).programs;
    client.program = ProgramId{program.value + first};
    if (client.serving)
      for (ServingStep& step : client.serving->steps) step.program.value += first;
    if (replicas == 0) return out_.clients.push_back(std::move(client));
    for (std::uint32_t i = 0; i < replicas; ++i) {
      Client& one = out_.clients.emplace_back(client);
      one.name = fmt::format("{}-{}", written.name, i + 1);
      if (one.process == written.name) one.process = one.name;
      one.replica = {written.name, i, replicas};
    }
  }

  Trace out_;
  std::optional<Gpu> target_;
  std::string written_;  // which it was asked for by; empty: by none
  std::map<PartKey, Part> parts_;
  std::map<PartKey, Offsets> taken_;
};

}  // namespace

Trace compose(const std::vector<std::string>& clients, const std::string& gpu) {
  return Composer().compose(clients, gpu);
}

}  // namespace corun::sim
