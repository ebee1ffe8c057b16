#include "sim/validate/networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "sim/input/carry.h"
#include "sim/run/in_parallel.h"
#include "sim/run/run.h"
#include "sim/validate/only.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/schema.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr Time kAlone =
    std::chrono::milliseconds(50);  // of each network; a closed loop is the same each time
constexpr double kEagerly = 8;      // requests as long as measured; they take up to thrice that

class Requests final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override { all.push_back(r); }
  std::vector<RequestRecord> all;
};

bool wanted(const std::vector<std::string>& only, const std::string& name) {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

double mean(const json& samples) {
  double sum = 0;
  for (const json& sample : samples) sum += sample.get<double>();
  return sum / static_cast<double>(samples.size());
}

class Reader {
 public:
  Reader(const fs::path& file, const NetworksOptions& options)
      : options_(options), document_(parse_json(*open_input(file), file.string())) {
    check_schema(document_, "networks", file.string());
    Names mixes{{}, &options_.mixes}, modes{{}, &options_.modes};
    for (const json& run : document_["runs"]) mixes.known.push_back(run["mix"]), modes.known.push_back(run["mode"]);
    sort_only(file.string(), options.only, {mixes, modes});
    all_.file = file.string();
    all_.device = fmt::format("{}, driver {}, CUDA {}, {}", document_["device"].get<std::string>(),
                              document_.value("driver", "unknown"), document_.value("cuda", "unknown"),
                              document_.value("date", "no date"));
  }

  MeasuredNetworks read() {
    read_all_networks();
    find_used();
    for (std::size_t i = 0; i < document_["mixes"].size(); ++i)
      if (const json& mix = document_["mixes"][i]; used_.contains(mix["name"].get<std::string>()))
        read_mix(mix, fmt::format("/mixes/{}", i));
    for (std::size_t i = 0; i < document_["runs"].size(); ++i)
      if (const json& run = document_["runs"][i]; is_wanted(run)) read_run(run, fmt::format("/runs/{}", i));
    const NetworkMix& first = all_.mixes.front();
    all_.gpu = read_gpu(first.trace.gpu, first.trace_file.parent_path());
    if (options_.gpu.empty()) return std::move(all_);
    const Gpu other = read_gpu(options_.gpu);
    all_.device += simulated_elsewhere(all_.gpu, other);
    all_.gpu = other;
    return std::move(all_);
  }

 private:
  [[noreturn]] void fail(const std::string& place, const std::string& problem, const std::string& remedy) {
    throw InputError(all_.file, place, problem, remedy);
  }
  bool is_wanted(const json& run) const {
    return wanted(options_.mixes, run["mix"]) && wanted(options_.modes, run["mode"]);
  }

  void read_all_networks() {
    for (std::size_t i = 0; i < document_["networks"].size(); ++i) {
      const json& from = document_["networks"][i];
      Network network;
      network.name = from["name"];
      network.trace = fs::path(all_.file).parent_path() / from["trace"].get<std::string>();
      network.set_aside = from.value("set_aside", false);
      network.recorded = from["graph_ms"].empty();
      network.measured_ms = network.recorded
                                ? from.value("recorded_ms", std::numeric_limits<double>::quiet_NaN())
                                : mean(from["graph_ms"]);
      const json eager_ms = from.value("eager_ms", json::array());
      network.measured_eager_ms =
          eager_ms.empty() ? std::numeric_limits<double>::quiet_NaN() : mean(eager_ms);
      if (from.contains("eager_trace"))
        network.eager_trace = fs::path(all_.file).parent_path() / from["eager_trace"].get<std::string>();
      if (index_of(all_.networks, network.name) < all_.networks.size())
        fail(fmt::format("/networks/{}/name", i),
             fmt::format("a network called {} exists already", in_quotes(network.name)),
             "give each network a name of its own");
      all_.networks.push_back(std::move(network));
    }
  }

  void find_used() {
    for (const json& run : document_["runs"])
      if (is_wanted(run)) used_.insert(run["mix"].get<std::string>());
    if (used_.empty()) fail("/runs", "no run is left to compare with", "name mixes and modes that are there");
  }

  template <class Named>
  static std::size_t index_of(const std::vector<Named>& all, const std::string& name) {
    return static_cast<std::size_t>(
        std::find_if(all.begin(), all.end(), [&](const Named& n) { return n.name == name; }) - all.begin());
  }

  template <class Named>
  std::size_t known(const std::vector<Named>& all, const json& name, const char* what,
                    const std::string& place) {
    const std::size_t found = index_of(all, name);
    if (found < all.size()) return found;
    std::vector<std::string> names;
    for (const Named& each : all) names.push_back(each.name);
    fail(place,
         fmt::format("unknown {} {}{}", what, in_quotes(name.get<std::string>()),
                     did_you_mean(name.get<std::string>(), names)),
         fmt::format("use one of {}", list_names(names)));
  }

  void read_mix(const json& from, const std::string& place) {
    NetworkMix mix;
    mix.name = from["name"];
    mix.trace_file = fs::path(all_.file).parent_path() / from["trace"].get<std::string>();
    for (std::size_t c = 0; c < from["networks"].size(); ++c) {
      mix.networks.push_back(
          known(all_.networks, from["networks"][c], "network", fmt::format("{}/networks/{}", place, c)));
      mix.set_aside |= all_.networks[mix.networks.back()].set_aside;
    }
    mix.trace = read_trace(mix.trace_file);
    if (mix.trace.clients.size() != mix.networks.size())
      fail(place + "/networks",
           fmt::format("expected the {} clients of {}, got {}", mix.trace.clients.size(),
                       mix.trace_file.string(), mix.networks.size()),
           "name the network of each client of the trace");
    const json by_mode = from.value("trace_by_mode", json::object());
    for (const auto& [mode, trace] : by_mode.items())
      read_trace_of(mix, mode, fs::path(all_.file).parent_path() / trace.get<std::string>(),
                    fmt::format("{}/trace_by_mode/{}", place, mode));
    all_.mixes.push_back(std::move(mix));
  }

  void read_trace_of(NetworkMix& mix, const std::string& mode, const fs::path& file,
                     const std::string& place) {
    if (!wanted(options_.modes, mode)) return;
    const Trace& trace = mix.trace_by_mode.emplace(mode, read_trace(file)).first->second;
    const auto same = [](const Client& a, const Client& b) {
      return a.name == b.name && a.service_class == b.service_class;
    };
    if (!std::equal(trace.clients.begin(), trace.clients.end(), mix.trace.clients.begin(),
                    mix.trace.clients.end(), same))
      fail(place,
           fmt::format("the clients of {} are others than those of {}", file.string(),
                       mix.trace_file.string()),
           "give it the same names and classes in the same order");
  }

  void read_run(const json& from, const std::string& place) {
    MeasuredRun run;
    run.mix = known(all_.mixes, from["mix"], "mix", place + "/mix");
    run.mode = from["mode"], run.policy = from["policy"];
    const Trace& trace = all_.mixes[run.mix].trace;
    if (from["clients"].size() != trace.clients.size())
      fail(place + "/clients",
           fmt::format("expected the {} clients of {}, got {}", trace.clients.size(), from["mix"].dump(),
                       from["clients"].size()),
           "collect the runs again");
    for (std::size_t c = 0; c < trace.clients.size(); ++c) {
      const bool real_time = trace.clients[c].service_class == ServiceClass::real_time;
      std::vector<Got>& repeats = run.measured.emplace_back();
      for (const json& repeat : from["clients"][c]) {
        if (!repeat.contains(real_time ? "latencies_us" : "per_s"))
          fail(fmt::format("{}/clients/{}/{}", place, c, repeats.size()),
               fmt::format("the client {} is {}, and there is no {}", in_quotes(trace.clients[c].name),
                           real_time ? "real-time" : "best-effort", real_time ? "latencies_us" : "per_s"),
               "collect the runs again, with the class that the trace gives the client");
        Got& result = repeats.emplace_back();
        result.per_s = std::numeric_limits<double>::quiet_NaN();
        if (real_time)
          result.latencies_us = repeat["latencies_us"].get<std::vector<double>>();
        else if (repeat["per_s"].is_number())
          result.per_s = repeat["per_s"];
        result.dropped = repeat.value("dropped", std::uint64_t{0});
      }
    }
    all_.runs.push_back(std::move(run));
  }

  NetworksOptions options_;
  const json document_;
  std::set<std::string> used_;
  MeasuredNetworks all_;
};

Time eagerly(const Network& network) {
  return std::isnan(network.measured_eager_ms) ? kAlone : from_ns(kEagerly * 1e6 * network.measured_eager_ms);
}

/// ms a request of the network's one client in a closed loop, from `begin` to `end`.
double alone_ms(const MeasuredNetworks& all, const fs::path& trace, Time begin, Time end, bool contention,
                Memory& memory) {
  const Trace one = read_trace(trace);
  Requests requests;
  simulate_mix(all, one, "fcfs", end, contention, memory, {&requests});
  return 1e3 / got(one, requests.all, begin, end).front().per_s;
}

}  // namespace

fs::path find_networks(const fs::path& place) {
  for (const char* name : {"networks.json", "networks.json.gz"}) {
    if (fs::is_directory(place) && fs::exists(place / name)) return place / name;
    if (place.filename() == name) return place;
  }
  return {};
}

MeasuredNetworks read_networks(const fs::path& file, const NetworksOptions& options) {
  return Reader(file, options).read();
}

std::vector<Got> got(const Trace& trace, const std::vector<RequestRecord>& requests, Time begin, Time end) {
  std::vector<Got> all(trace.clients.size());
  std::vector<std::vector<Time>> ends(trace.clients.size());
  for (const RequestRecord& r : requests) {
    Got& to = all[r.client.value];
    if (r.arrival < begin) continue;
    if (r.dropped)
      ++to.dropped;
    else if (r.finished <= end)
      to.latencies_us.push_back(to_ns(r.finished - r.arrival) / 1e3),
          ends[r.client.value].push_back(r.finished);
  }
  for (std::size_t c = 0; c < all.size(); ++c) {
    std::sort(ends[c].begin(), ends[c].end());
    all[c].per_s = ends[c].size() < 2 ? std::numeric_limits<double>::quiet_NaN()
                                      : static_cast<double>(ends[c].size() - 1) /
                                            to_seconds(ends[c].back() - ends[c].front());
    if (trace.clients[c].service_class == ServiceClass::best_effort) all[c].latencies_us.clear();
  }
  return all;
}

void simulate_mix(const MeasuredNetworks& networks, const Trace& mix, const std::string& policy,
                  Time duration, bool contention, Memory& memory, const std::vector<Sink*>& sinks) {
  Trace trace = mix;
  trace.run.duration = duration;
  RunOptions options;
  options.policy = policy;
  options.sinks = sinks;
  options.memory = &memory;
  options.alone = false;
  options.engine.contention = contention;
  run(trace, networks.gpu, options);
}

void simulate_networks(MeasuredNetworks& all, const NetworksOptions& options) {
  Memory memory;
  std::set<std::size_t> used;
  for (const MeasuredRun& r : all.runs)
    used.insert(all.mixes[r.mix].networks.begin(), all.mixes[r.mix].networks.end());
  const std::vector<std::size_t> alone(used.begin(), used.end());
  const auto tell = [&](const char* stage) {
    return [&, stage](std::size_t, double share) {
      if (options.progress) options.progress(stage, share);
    };
  };
  in_parallel(alone.size(), options.threads, tell("networks alone"), [&](std::size_t i) {
    Network& network = all.networks[alone[i]];
    network.simulated_ms =
        alone_ms(all, network.trace, kWarmUp, kWarmUp + kAlone, options.contention, memory);
    if (!network.eager_trace.empty())
      network.simulated_eager_ms =
          alone_ms(all, network.eager_trace, Time{}, eagerly(network), options.contention, memory);
  });
  std::vector<std::size_t> order(all.runs.size());  // those that take longest begin first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return all.mixes[all.runs[a].mix].networks.size() > all.mixes[all.runs[b].mix].networks.size();
  });
  in_parallel(order.size(), options.threads, tell("runs"), [&](std::size_t i) {
    MeasuredRun& r = all.runs[order[i]];
    const NetworkMix& mix = all.mixes[r.mix];
    Requests requests;
    const Time end = kWarmUp + std::min(options.duration, mix.trace.run.duration.value_or(kNever));
    simulate_mix(all, mix.trace_in(r.mode), r.policy, end, options.contention, memory, {&requests});
    r.simulated = got(mix.trace, requests.all, kWarmUp, end);
  });
}

}  // namespace corun::sim
