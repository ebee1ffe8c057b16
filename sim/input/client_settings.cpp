#include "sim/input/client_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "traces/import/arrivals.h"
#include "traces/json/duration.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// All that is said of one client.
struct Said {
  const std::string& place;
  const std::vector<ClientSetting>& all;

  bool has(std::string_view key) const {
    return std::ranges::find(all, key, &ClientSetting::key) != all.end();
  }
  std::string value_of(const char* key) const {
    for (const ClientSetting& s : all)
      if (s.key == key) return s.value;
    return {};
  }
};

[[noreturn]] void fail(const Said& said, const std::string& problem, const std::string& remedy) {
  throw InputError("", said.place, problem, remedy);
}

double number(const Said& said, const ClientSetting& s, double least, double most, const char* expected) {
  double value = 0;
  const char* end = s.value.data() + s.value.size();
  const auto [stop, error] = std::from_chars(s.value.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= least && value <= most))
    fail(said, fmt::format("{}={} is out of place", s.key, printable(s.value)), fmt::format("expected {}", expected));
  return value;
}

Time duration(const Said& said, const ClientSetting& s) {
  return parse_duration(s.value, fmt::format("{}, {}", said.place, s.key).c_str());
}

std::uint64_t bytes(const Said& said, const ClientSetting& s) {
  static const std::map<std::string, double, std::less<>> units = {
      {"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024.}, {"MiB", 1048576.}, {"GiB", 1073741824.}};
  double value = -1;
  const char* end = s.value.data() + s.value.size();
  const auto [stop, error] = std::from_chars(s.value.data(), end, value);
  const auto unit = units.find(std::string_view(stop, static_cast<std::size_t>(end - stop)));
  if (error != std::errc{} || unit == units.end() || !(value >= 0 && value * unit->second < 1e18))
    fail(said, fmt::format("{}={} is no number of bytes", s.key, printable(s.value)), "write 4GB or 512MiB");
  return static_cast<std::uint64_t>(std::llround(value * unit->second));
}

/// Requests of a recording from `from` on, their times divided by `speed`.
RecordedArrivals recorded(const std::string& file, std::optional<TimeUnit> unit, Time from, double speed, std::vector<std::string>& notes) {
  RecordedArrivals arrivals = read_arrivals(file, unit);
  notes.insert(notes.end(), arrivals.notes.begin(), arrivals.notes.end());
  std::vector<RecordedRequest> requests;
  for (RecordedRequest& request : arrivals.requests) {
    if (request.at < from) continue;
    request.at = Time{std::llround(static_cast<double>((request.at - from).count()) / speed)};
    requests.push_back(std::move(request));
  }
  if (requests.empty())
    throw InputError(file, "", fmt::format("no request after {} s", to_ns(from) * 1e-9), "give an earlier from=");
  const double last_s = to_ns(requests.back().at) * 1e-9;
  notes.push_back(fmt::format("{}: {} arrivals ({}{}), {:.4g} a second", file, requests.size(), arrivals.format,
                              arrivals.times_in.empty() ? "" : ", times in " + arrivals.times_in,
                              last_s == 0 ? 0.0 : static_cast<double>(requests.size() - 1) / last_s));
  arrivals.requests = std::move(requests);
  return arrivals;
}

ExplicitTimes times_of(const std::vector<RecordedRequest>& requests) {
  ExplicitTimes times;
  for (const RecordedRequest& request : requests) times.times.push_back(request.at);
  return times;
}

std::vector<Sequence> sequences_of(const std::string& file, const std::vector<RecordedRequest>& requests,
                                   std::vector<std::string>& notes) {
  std::vector<Sequence> sequences;
  for (const RecordedRequest& request : requests)
    if (request.context_tokens != 0 && request.generated_tokens != 0)
      sequences.push_back({request.at, request.context_tokens, request.generated_tokens, request.blocks});
  if (sequences.empty())
    throw InputError(file, "", "has no numbers of tokens, which a server's sequences need",
                     "give a recording of Azure's LLM traces, BurstGPT or Mooncake");
  if (sequences.size() < requests.size())
    notes.push_back(fmt::format("{}: {} requests without tokens are left out", file, requests.size() - sequences.size()));
  return sequences;
}

/// "0-15": one range, because commas part settings.
std::pair<std::uint32_t, std::uint32_t> range(const Said& said, const ClientSetting& s, std::uint32_t most, const char* what, const char* example) {
  std::uint32_t first = 0, last = 0;
  const char* end = s.value.data() + s.value.size();
  const auto [dash, error] = std::from_chars(s.value.data(), end, first);
  last = first;
  const bool range = dash != end && *dash == '-';
  const auto [stop, wrong] = range ? std::from_chars(dash + 1, end, last) : std::from_chars_result{dash, error};
  if (error != std::errc{} || wrong != std::errc{} || stop != end || last < first || last >= most)
    fail(said, fmt::format("{}={} is no range of {}", s.key, printable(s.value), what), fmt::format("write {}", example));
  return {first, last};
}

std::uint32_t whole(const Said& said, const ClientSetting& s, std::uint32_t most) {
  const double value = number(said, s, 1, most, fmt::format("a whole number from 1 to {}", most).c_str());
  if (value != std::floor(value)) fail(said, fmt::format("{}={} is out of place", s.key, printable(s.value)), "give a whole number");
  return static_cast<std::uint32_t>(value);
}

/// Keeps the order and the relative distances.
void set_rate(std::vector<Sequence>& sequences, double per_s) {
  if (sequences.size() < 2 || sequences.back().at <= sequences.front().at) return;
  const double length_s = to_ns(sequences.back().at - sequences.front().at) * 1e-9;
  const double slower = static_cast<double>(sequences.size() - 1) / length_s / per_s;
  for (Sequence& s : sequences) s.at = Time{std::llround(static_cast<double>(s.at.count()) * slower)};
}

/// Keeps the kind of arrivals; what has no rate becomes periodic.
void set_rate(Arrivals& arrivals, double per_s) {
  if (auto* poisson = std::get_if<Poisson>(&arrivals)) {
    poisson->rate_per_s = per_s;
    return;
  }
  auto* recorded = std::get_if<ExplicitTimes>(&arrivals);
  if (recorded != nullptr && recorded->times.size() > 1 && recorded->times.back() > recorded->times.front()) {
    const double length_s = to_ns(recorded->times.back() - recorded->times.front()) * 1e-9;
    const double slower = static_cast<double>(recorded->times.size() - 1) / length_s / per_s;
    for (Time& at : recorded->times) at = Time{std::llround(static_cast<double>(at.count()) * slower)};
    return;
  }
  const auto* periodic = std::get_if<Periodic>(&arrivals);
  arrivals = Periodic{from_ns(1e9 / per_s), periodic != nullptr ? periodic->offset : Time{}};
}

struct Key {
  const char* name;
  const char* value;  // as `--help` shows it; null: it has none
  const char* meaning;
  std::function<void(Client&, const Said&, const ClientSetting&, std::vector<std::string>& notes)> set;
  bool of_file = false;  // it chooses what is taken from a file, or how many clients there are
};

template <typename Set>
Key key(const char* name, const char* value, const char* meaning, Set set) {
  return {name, value, meaning,
          [set](Client& c, const Said& w, const ClientSetting& s, std::vector<std::string>&) { set(c, w, s); }};
}

Key of_a_file(const char* name, const char* value, const char* meaning) {
  return {name, value, meaning, [](Client&, const Said&, const ClientSetting&, std::vector<std::string>&) {}, true};
}

const std::vector<Key>& keys() {
  constexpr double kMostRate = 1e6;
  const auto arrives = [](Client& c, Arrivals arrivals) { c.arrivals = std::move(arrivals); };
  // A service's requests wait; the frames of a camera, which come at a rate, replace each other.
  const auto waits_unless_told = [](Client& c, const Said& w) {
    if (!w.has("newest")) c.stale = Stale::queue;
  };
  const auto of_server = [](Client& c, const Said& w, const ClientSetting& s) -> Serving& {
    if (!c.serving) fail(w, fmt::format("{}= is of a server of sequences", s.key), "give serve=auto, or leave it out");
    return *c.serving;
  };
  const auto of_times = [](Client&, const Said& w, const ClientSetting& s) {
    if (w.value_of("times").empty())
      fail(w, fmt::format("{}= goes with times=", s.key), "give the file of arrivals, or change the rate");
  };
  static const std::vector<Key> all = {
      key("rt", nullptr, "real-time",
          [](Client& c, const Said&, const ClientSetting&) { c.service_class = ServiceClass::real_time; }),
      key("be", nullptr, "best-effort",
          [](Client& c, const Said&, const ClientSetting&) { c.service_class = ServiceClass::best_effort; }),
      key("closed", nullptr, "the next request follows the one before",
          [=](Client& c, const Said&, const ClientSetting&) { arrives(c, ClosedLoop{}); }),
      key("think", "5ms", "closed loop that waits so long before the next request",
          [=](Client& c, const Said& w, const ClientSetting& s) { arrives(c, ClosedLoop{duration(w, s)}); }),
      key("rate", "50", "requests a second: at equal distances, or random or recorded where they were so",
          [=](Client& c, const Said& w, const ClientSetting& s) {
            const double per_s = number(w, s, 1e-6, kMostRate, "requests a second, as 50");
            if (c.serving)
              set_rate(c.serving->sequences, per_s);
            else
              set_rate(c.arrivals, per_s);
          }),
      key("poisson", "50", "random (Poisson), requests a second in the mean; they queue",
          [=](Client& c, const Said& w, const ClientSetting& s) {
            arrives(c, Poisson{number(w, s, 1e-6, kMostRate, "requests a second, as 50")});
            waits_unless_told(c, w);
          }),
      {"times", "FILE", "as a recording has them: Azure LLM CSV, BurstGPT, Mooncake, or seconds, one a line; they queue",
       [=](Client& c, const Said& w, const ClientSetting& s, std::vector<std::string>& notes) {
         const std::string speed = w.value_of("speed"), from = w.value_of("from");
         const std::string unit = w.value_of("unit");
         if (!unit.empty() && unit != "s" && unit != "ms") fail(w, fmt::format("unit={} is no unit", printable(unit)), "write unit=s or unit=ms");
         const auto said = unit.empty() ? std::nullopt : std::optional(unit == "s" ? TimeUnit::seconds : TimeUnit::milliseconds);
         const RecordedArrivals arrivals =
             recorded(s.value, said, from.empty() ? Time{} : duration(w, {"from", from}), speed.empty() ? 1 : number(w, {"speed", speed}, 1e-6, 1e6, "a factor, as 2"), notes);
         if (c.serving)
           c.serving->sequences = sequences_of(s.value, arrivals.requests, notes), c.serving->prefix_block = arrivals.block_tokens;
         else
           arrives(c, times_of(arrivals.requests)), waits_unless_told(c, w);
       }},
      key("from", "3600s", "the recorded arrivals start here", of_times),
      key("speed", "2", "the recorded arrivals come faster by this factor", of_times),
      key("unit", "s", "of the recorded arrivals' times, where JSON lines do not say it: s or ms", of_times),
      key("queue", nullptr, "requests that find the client busy wait",
          [](Client& c, const Said&, const ClientSetting&) { c.stale = Stale::queue; }),
      key("newest", nullptr, "of requests that find the client busy the newest waits, the others are dropped; so where they come at rate=",
          [](Client& c, const Said&, const ClientSetting&) { c.stale = Stale::keep_newest; }),
      key("slo", "20ms", "deadline of a request, from its arrival",
          [](Client& c, const Said& w, const ClientSetting& s) { c.deadline = duration(w, s); }),
      key("priority", "-5", "of its streams: 0 lowest, -5 highest",
          [](Client& c, const Said& w, const ClientSetting& s) {
            c.priority = static_cast<std::int32_t>(std::lround(number(w, s, -5, 0, "a whole number from -5 to 0")));
          }),
      key("quota", "0.5", "most of the GPU it may hold",
          [](Client& c, const Said& w, const ClientSetting& s) {
            c.quota = number(w, s, 0.001, 1, "0.001 to 1");
          }),
      key("reservation", "0.25", "least of the GPU it is promised",
          [](Client& c, const Said& w, const ClientSetting& s) {
            c.reservation = number(w, s, 0, 1, "0 to 1");
          }),
      key("memory", "4GB", "device memory it holds",
          [](Client& c, const Said& w, const ClientSetting& s) { c.memory_bytes = bytes(w, s); }),
      key("process", "NAME", "clients of one process share a context",
          [](Client& c, const Said&, const ClientSetting& s) { c.process = s.value; }),
      key("graph", nullptr, "a request is handed over at once",
          [](Client& c, const Said&, const ClientSetting&) { c.issue = Issue::graph; }),
      key("eager", nullptr, "a request is handed over by single calls",
          [](Client& c, const Said&, const ClientSetting&) { c.issue = Issue::eager; }),
      key("steady", nullptr, "its host never stands still, whatever its recording says",
          [](Client& c, const Said&, const ClientSetting&) { c.host_stalls.reset(); }),
      key("cpus", "0-3", "CPU cores that its host thread may run on, shared with other clients that may; else it has one of its own",
          [](Client& c, const Said& w, const ClientSetting& s) {
            const auto [first, last] = range(w, s, kMaxCpus, "CPU cores", "0-3");
            c.cpus.emplace();
            for (std::uint32_t cpu = first; cpu <= last; ++cpu) c.cpus->set(cpu);
          }),
      key("blocking", nullptr, "its host sleeps while it waits for the GPU; else it spins, and keeps its core",
          [](Client& c, const Said&, const ClientSetting&) { c.blocking = true; }),
      key("tpcs", "0-15", "TPCs that it may use, for tpc-mask",
          [](Client& c, const Said& w, const ClientSetting& s) { const auto [first, last] = range(w, s, kMaxTpcs, "TPCs", "0-15");
            c.tpc_mask = TpcMask::range(first, last + 1); }),
      key("ttft", "200ms", "of a server: latest first token of a sequence",
          [=](Client& c, const Said& w, const ClientSetting& s) {
            of_server(c, w, s).first_token_slo = duration(w, s);
          }),
      key("tbt", "50ms", "of a server: longest mean time between a sequence's tokens",
          [=](Client& c, const Said& w, const ClientSetting& s) {
            of_server(c, w, s).between_tokens_slo = duration(w, s);
          }),
      key("e2e", "2s", "of a server: latest end of a sequence",
          [=](Client& c, const Said& w, const ClientSetting& s) { of_server(c, w, s).end_to_end_slo = duration(w, s); }),
      key("most", "16", "of a server: sequences in its batch",
          [=](Client& c, const Said& w, const ClientSetting& s) {
            of_server(c, w, s).most_at_once = static_cast<std::uint32_t>(number(w, s, 1, 65535, "a whole number from 1"));
          }),
      key("prefix-cache", "400000", "of a server: tokens of prompts that it keeps for those that begin alike, by the recording's hashes",
          [=](Client& c, const Said& w, const ClientSetting& s) {
            of_server(c, w, s).prefix_cache = static_cast<std::uint64_t>(number(w, s, 1, 1e15, "tokens, as 400000"));
          }),
      key("padded", nullptr,
          "of a server: a decode reads as many tokens of each sequence as the longest has, not of each its "
          "own",
          [=](Client& c, const Said& w, const ClientSetting& s) { of_server(c, w, s).padded = true; }),
      of_a_file("serve", "auto",
                "a server of sequences, of times=; steps are the file's programs by name, as prefill_512 and decode_8x2048, "
                "or as written: read:512+write:8x2048"),
      {"replicas", "4", "so many processes of it, NAME-1 to NAME-4; requests or sequences are dealt to them in turn, a closed loop is each one's own",
       [](Client&, const Said& w, const ClientSetting&, std::vector<std::string>&) { fail(w, "replicas= makes clients, which are there already", "give it with --client NAME=FILE"); }, true},
      of_a_file("program", "NAME", "which of the file's programs"),
      of_a_file("client", "NAME", "start from this client of the file"),
      of_a_file("counters", "FILE", "what `ncu --csv` printed of the recorded program"),
      of_a_file("by-sms", "FILE", "the same program recorded on a part of the GPU; 33=FILE where that does not say its SMs"),
  };
  return all;
}

const Key& key_of(const std::string& name, const std::string& place) {
  std::vector<std::string> names;
  for (const Key& k : keys()) {
    if (k.name == name) return k;
    names.emplace_back(k.name);
  }
  throw InputError("", place, fmt::format("unknown setting {}{}", in_quotes(name), did_you_mean(name, names)),
                   fmt::format("use one of {}", list_names(names, 32)));
}

}  // namespace

ClientSetting parse_client_setting(const std::string& word, const std::string& place) {
  const std::size_t equals = word.find('=');
  ClientSetting s{word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1),
                  equals != std::string::npos};
  const Key& known = key_of(s.key, place);
  if (s.has_value && known.value == nullptr)
    throw InputError("", place, fmt::format("{} takes no value", s.key), fmt::format("write {} alone", s.key));
  if (known.value != nullptr && s.value.empty())
    throw InputError("", place, fmt::format("{} has no value", s.key),
                     fmt::format("write {}={}", s.key, known.value));
  return s;
}

void check_client_settings(const std::vector<ClientSetting>& settings, const std::string& place) {
  for (std::size_t i = 0; i < settings.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (settings[i].key == settings[j].key)
        throw InputError("", place, fmt::format("{} is given twice", settings[i].key), "give it once");
  for (const auto& apart : {std::vector<const char*>{"rt", "be"}, {"graph", "eager"},
                            {"closed", "think", "rate", "poisson", "times"}}) {
    std::vector<std::string> given;
    for (const char* name : apart)
      if (std::any_of(settings.begin(), settings.end(), [&](const ClientSetting& s) { return s.key == name; }))
        given.emplace_back(name);
    if (given.size() > 1)
      throw InputError("", place, fmt::format("{} exclude each other", fmt::join(given, " and ")), "give one of them");
  }
}

void apply_client_settings(Client& client, const std::vector<ClientSetting>& settings, const std::string& place,
                           std::vector<std::string>& notes) {
  const Said said{place, settings};
  for (const ClientSetting& s : settings) key_of(s.key, place).set(client, said, s, notes);
  for (const ClientSetting& s : settings)
    if (client.serving && (s.key == "closed" || s.key == "think" || s.key == "poisson" || s.key == "slo"))
      fail(said, fmt::format("{} does not go with a server of sequences", s.key), "use times=, rate=, ttft=, tbt= and e2e=");
  if (client.serving && client.serving->prefix_cache && client.serving->prefix_block == 0)
    fail(said, "prefix-cache= needs to know which prompts begin alike", "give times= of a recording with hash_ids, as Mooncake's or Qwen's");
  if (client.serving && !client.serving->prefix_cache && client.serving->prefix_block != 0 && !said.value_of("times").empty())
    notes.push_back(fmt::format("{}: says which prompts begin alike; each is read whole without prefix-cache=TOKENS", said.value_of("times")));
  if (client.quota && client.reservation && *client.reservation > *client.quota)
    fail(said, "the reservation exceeds the quota", "promise at most what the client may hold");
}

std::uint32_t replicas_of(const std::vector<ClientSetting>& settings, const std::string& place) {
  for (const ClientSetting& s : settings)
    if (s.key == "replicas") return whole({place, settings}, s, 1000);
  return 0;
}

std::string client_settings_help(bool of_files) {
  std::string text;
  for (const Key& k : keys())
    if (of_files || !k.of_file)
      text += fmt::format("\n  {:<18}{}", k.value == nullptr ? k.name : fmt::format("{}={}", k.name, k.value), k.meaning);
  return text;
}

}  // namespace corun::sim
