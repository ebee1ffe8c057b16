#include "sim/command/compose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "sim/command/duration.h"
#include "sim/command/load.h"
#include "sim/model/other_card.h"
#include "traces/import/arrivals.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr Time kDuration{1'000'000'000'000};  // a second

/// "cam=a.json,rt,rate=50": what stands before and after each sign.
struct Setting {
  std::string key, value;
  bool has_value = false;
};
struct Written {
  std::string text, name, file;
  std::vector<Setting> settings;

  std::string value_of(const char* key) const {
    for (const Setting& s : settings)
      if (s.key == key) return s.value;
    return {};
  }
};

[[noreturn]] void fail(const Written& written, const std::string& problem, const std::string& remedy) {
  throw InputError("", fmt::format("--client {}", written.name), problem, remedy);
}

double number(const Written& written, const Setting& s, double least, double most, const char* expected) {
  double value = 0;
  const char* end = s.value.data() + s.value.size();
  const auto [stop, error] = std::from_chars(s.value.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= least && value <= most))
    fail(written, fmt::format("{}={} is out of place", s.key, printable(s.value)), fmt::format("expected {}", expected));
  return value;
}

Time duration(const Written& written, const Setting& s) {
  return parse_duration(s.value, fmt::format("--client {}, {}", written.name, s.key).c_str());
}

std::uint64_t bytes(const Written& written, const Setting& s) {
  static const std::map<std::string, double, std::less<>> units = {
      {"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024.}, {"MiB", 1048576.}, {"GiB", 1073741824.}};
  double value = -1;
  const char* end = s.value.data() + s.value.size();
  const auto [stop, error] = std::from_chars(s.value.data(), end, value);
  const auto unit = units.find(std::string_view(stop, static_cast<std::size_t>(end - stop)));
  if (error != std::errc{} || unit == units.end() || !(value >= 0 && value * unit->second < 1e18))
    fail(written, fmt::format("{}={} is no number of bytes", s.key, printable(s.value)), "write 4GB or 512MiB");
  return static_cast<std::uint64_t>(std::llround(value * unit->second));
}

/// Times of a recording from `from` on, divided by `speed`.
ExplicitTimes recorded(const std::string& file, Time from, double speed, std::vector<std::string>& notes) {
  const RecordedArrivals arrivals = read_arrivals(file);
  notes.insert(notes.end(), arrivals.notes.begin(), arrivals.notes.end());
  ExplicitTimes times;
  for (const RecordedRequest& request : arrivals.requests)
    if (request.at >= from)
      times.times.push_back(Time{std::llround(static_cast<double>((request.at - from).count()) / speed)});
  if (times.times.empty())
    throw InputError(file, "", fmt::format("no request after {} s", to_ns(from) * 1e-9), "give an earlier from=");
  notes.push_back(fmt::format("{}: {} arrivals ({}), {:.4g} a second", file, times.times.size(), arrivals.format,
                              times.times.size() < 2 || times.times.back() == Time{}
                                  ? 0.0
                                  : static_cast<double>(times.times.size() - 1) / (to_ns(times.times.back()) * 1e-9)));
  return times;
}

struct Key {
  const char* name;
  const char* value;  // as `--help` shows it; null: it has none
  const char* meaning;
  std::function<void(Client&, const Written&, const Setting&, std::vector<std::string>& notes)> set;
};

template <typename Set>
Key key(const char* name, const char* value, const char* meaning, Set set) {
  return {name, value, meaning,
          [set](Client& c, const Written& w, const Setting& s, std::vector<std::string>&) { set(c, w, s); }};
}

const std::vector<Key>& keys() {
  constexpr double kMostRate = 1e6;
  const auto arrives = [](Client& c, Arrivals arrivals) { c.arrivals = std::move(arrivals); };
  const auto of_times = [](Client&, const Written& w, const Setting& s) {
    if (w.value_of("times").empty())
      fail(w, fmt::format("{}= goes with times=", s.key), "give the file of arrivals, or change the rate");
  };
  const auto nothing = [](Client&, const Written&, const Setting&) {};
  static const std::vector<Key> all = {
      key("rt", nullptr, "real-time",
          [](Client& c, const Written&, const Setting&) { c.service_class = ServiceClass::real_time; }),
      key("be", nullptr, "best-effort",
          [](Client& c, const Written&, const Setting&) { c.service_class = ServiceClass::best_effort; }),
      key("closed", nullptr, "the next request follows the one before",
          [=](Client& c, const Written&, const Setting&) { arrives(c, ClosedLoop{}); }),
      key("think", "5ms", "closed loop that waits so long before the next request",
          [=](Client& c, const Written& w, const Setting& s) { arrives(c, ClosedLoop{duration(w, s)}); }),
      key("rate", "50", "periodic, requests a second",
          [=](Client& c, const Written& w, const Setting& s) {
            arrives(c, Periodic{from_ns(1e9 / number(w, s, 1e-6, kMostRate, "requests a second, as 50"))});
          }),
      key("poisson", "50", "random (Poisson), requests a second in the mean",
          [=](Client& c, const Written& w, const Setting& s) {
            arrives(c, Poisson{number(w, s, 1e-6, kMostRate, "requests a second, as 50")});
          }),
      {"times", "FILE", "as a recording has them: Azure LLM CSV, BurstGPT, Mooncake, or seconds, one a line",
       [=](Client& c, const Written& w, const Setting& s, std::vector<std::string>& notes) {
         const std::string speed = w.value_of("speed"), from = w.value_of("from");
         arrives(c, recorded(s.value, from.empty() ? Time{} : duration(w, {"from", from}),
                             speed.empty() ? 1 : number(w, {"speed", speed}, 1e-6, 1e6, "a factor, as 2"), notes));
       }},
      key("from", "3600s", "the recorded arrivals start here", of_times),
      key("speed", "2", "the recorded arrivals come faster by this factor", of_times),
      key("queue", nullptr, "requests that find the client busy wait; else the newest replaces the one that waits",
          [](Client& c, const Written&, const Setting&) { c.stale = Stale::queue; }),
      key("slo", "20ms", "deadline of a request, from its arrival",
          [](Client& c, const Written& w, const Setting& s) { c.deadline = duration(w, s); }),
      key("priority", "-5", "of its streams: 0 lowest, -5 highest",
          [](Client& c, const Written& w, const Setting& s) {
            c.priority = static_cast<std::int32_t>(std::lround(number(w, s, -5, 0, "a whole number from -5 to 0")));
          }),
      key("quota", "0.5", "most of the GPU it may hold",
          [](Client& c, const Written& w, const Setting& s) { c.quota = number(w, s, 0.001, 1, "0.001 to 1"); }),
      key("reservation", "0.25", "least of the GPU it is promised",
          [](Client& c, const Written& w, const Setting& s) { c.reservation = number(w, s, 0, 1, "0 to 1"); }),
      key("memory", "4GB", "device memory it holds",
          [](Client& c, const Written& w, const Setting& s) { c.memory_bytes = bytes(w, s); }),
      key("process", "NAME", "clients of one process share a context",
          [](Client& c, const Written&, const Setting& s) { c.process = s.value; }),
      key("graph", nullptr, "a request is handed over at once",
          [](Client& c, const Written&, const Setting&) { c.issue = Issue::graph; }),
      key("eager", nullptr, "a request is handed over by single calls",
          [](Client& c, const Written&, const Setting&) { c.issue = Issue::eager; }),
      key("program", "NAME", "which of the file's programs", nothing),
      key("client", "NAME", "start from this client of the file", nothing),
      key("counters", "FILE", "what `ncu --csv` printed of the recorded program", nothing),
  };
  return all;
}

const Key& key_of(const Written& written, const Setting& s) {
  std::vector<std::string> names;
  for (const Key& k : keys()) {
    if (k.name == s.key) return k;
    names.emplace_back(k.name);
  }
  fail(written, fmt::format("unknown setting {}{}", in_quotes(s.key), did_you_mean(s.key, names)),
       fmt::format("use one of {}", list_names(names, 32)));
}

Written parse(const std::string& text) {
  Written written{text, text.substr(0, text.find('=')), {}, {}};
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0)
    throw InputError("", "--client", fmt::format("{} names no client", in_quotes(text)),
                     "write NAME=FILE and settings, as cam=resnet.json,rt,rate=50,slo=20ms");
  std::size_t at = sign + 1;
  for (bool first = true; at <= text.size(); first = false) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string piece = text.substr(at, comma - at);
    at = comma + 1;
    if (first) {
      written.file = piece;
      continue;
    }
    const std::size_t equals = piece.find('=');
    Setting s{piece.substr(0, equals), equals == std::string::npos ? "" : piece.substr(equals + 1),
              equals != std::string::npos};
    const Key& known = key_of(written, s);
    if (s.has_value && known.value == nullptr)
      fail(written, fmt::format("{} takes no value", s.key), fmt::format("write {} alone", s.key));
    if (known.value != nullptr && s.value.empty())
      fail(written, fmt::format("{} has no value", s.key), fmt::format("write {}={}", s.key, known.value));
    if (std::any_of(written.settings.begin(), written.settings.end(),
                    [&](const Setting& other) { return other.key == s.key; }))
      fail(written, fmt::format("{} is given twice", s.key), "give it once");
    written.settings.push_back(std::move(s));
  }
  for (const auto& apart : {std::vector<const char*>{"rt", "be"}, {"graph", "eager"},
                            {"closed", "think", "rate", "poisson", "times"}}) {
    std::vector<std::string> given;
    for (const char* name : apart)
      if (std::any_of(written.settings.begin(), written.settings.end(),
                      [&](const Setting& s) { return s.key == name; }))
        given.emplace_back(name);
    if (given.size() > 1)
      fail(written, fmt::format("{} exclude each other", fmt::join(given, " and ")), "give one of them");
  }
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
    out_.name = fmt::format("{}", fmt::join(names, " + "));
    out_.run.duration = kDuration;
    return std::move(out_);
  }

 private:
  using PartKey = std::pair<std::string, std::string>;  // file, counters
  static PartKey key_of_part(const Written& written) { return {written.file, written.value_of("counters")}; }

  void read(const Written& written) {
    const auto [at, is_new] = parts_.try_emplace(key_of_part(written));
    if (!is_new) return;
    at->second.trace = read_input(written.file, "", at->first.second);
    const Trace& trace = at->second.trace;
    if (!trace.gpu.empty())
      at->second.recorded_on = read_gpu(trace.gpu, std::filesystem::path(written.file).parent_path());
  }

  void choose_gpu(const std::vector<Written>& all, const std::string& gpu) {
    if (!gpu.empty()) {
      out_.gpu = locate_gpu(gpu);
      target_ = read_gpu(out_.gpu);
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
      } else if (target_->name != recorded_on->name) {
        throw InputError("", "--client",
                         fmt::format("{} was recorded on {}, {} on {}", first->file, target_->name, written.file,
                                     recorded_on->name),
                         "say with --gpu which GPU they shall share; times are carried over to it");
      }
    }
  }

  ProgramId choose_program(const Written& written, const Trace& trace, const Client* base) const {
    std::vector<std::string> names;
    for (const Program& program : trace.programs) names.push_back(program.name);
    const std::string wanted = written.value_of("program");
    if (wanted.empty() && base != nullptr) return base->program;
    if (wanted.empty()) {
      if (names.size() != 1)
        fail(written, fmt::format("{} has {} programs: {}", written.file, names.size(), list_names(names)),
             "choose one with program=NAME");
      return ProgramId{0};
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
    at->second = {static_cast<std::uint32_t>(out_.kernels.size()), static_cast<std::uint32_t>(out_.programs.size())};
    out_.notes.insert(out_.notes.end(), trace.notes.begin(), trace.notes.end());
    if (part.recorded_on && part.recorded_on->name != target_->name) {
      CarriedOver carried = carried_over(trace, *part.recorded_on, *target_);
      out_.notes.push_back(fmt::format("{}: recorded on {}; its kernels' times are carried over to {}, {:.2f} times as "
                                       "long in the median ({:.2f} to {:.2f})",
                                       written.file, part.recorded_on->name, target_->name, carried.median,
                                       carried.least, carried.most));
      trace = std::move(carried.trace);
    }
    for (Kernel kernel : trace.kernels) {
      while (!kernel_names_.insert(kernel.name).second) kernel.name = written.name + "/" + kernel.name;
      out_.kernels.push_back(std::move(kernel));
    }
    for (Program program : trace.programs) {
      while (!program_names_.insert(program.name).second) program.name = written.name + "/" + program.name;
      for (Op& op : program.ops)
        if (Launch* launch = std::get_if<Launch>(&op.what)) launch->kernel.value += at->second.kernels;
      out_.programs.push_back(std::move(program));
    }
  }

  void add(const Written& written) {
    Part& part = parts_.at(key_of_part(written));
    const Client* base = choose_base(written, part.trace);
    const ProgramId program = choose_program(written, part.trace, base);
    Client client = base == nullptr ? Client{} : *base;
    if (base == nullptr) client.streams.resize(part.trace.programs[program.value].streams.size());
    client.name = client.process = written.name;
    client.origin = {"", fmt::format("--client {}", written.name)};
    for (const Setting& s : written.settings) key_of(written, s).set(client, written, s, out_.notes);
    if (client.quota && client.reservation && *client.reservation > *client.quota)
      fail(written, "the reservation exceeds the quota", "promise at most what the client may hold");
    take_over(written, part);
    client.program = ProgramId{program.value + taken_.at(key_of_part(written)).programs};
    out_.clients.push_back(std::move(client));
  }

  struct First {
    std::uint32_t kernels = 0, programs = 0;
  };
  Trace out_;
  std::optional<Gpu> target_;
  std::map<PartKey, Part> parts_;
  std::map<PartKey, First> taken_;
  std::set<std::string> kernel_names_, program_names_;
};

}  // namespace

Trace compose(const std::vector<std::string>& clients, const std::string& gpu) {
  return Composer().compose(clients, gpu);
}

std::string client_settings_help() {
  std::string text;
  for (const Key& k : keys())
    text += fmt::format("\n  {:<18}{}", k.value == nullptr ? k.name : fmt::format("{}={}", k.name, k.value), k.meaning);
  return text;
}

}  // namespace corun::sim
