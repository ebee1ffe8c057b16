#include "sim/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/string_generator.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <charconv>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <thread>

#include "policies/api/registry.h"
#include "sim/input/carry.h"
#include "sim/input/client_settings.h"
#include "sim/run/in_parallel.h"
#include "traces/json/duration.h"
#include "traces/json/gpu_document.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/schema.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 10'000'000;

/// A UUID of version 5 has 122 bits of SHA-1.
std::string hash_of(const std::string& content) {
  static const boost::uuids::uuid space = boost::uuids::string_generator()("6f6b0c2e-8a55-4f0e-9d35-8d5c0d6e6a11");
  std::string text = boost::uuids::to_string(boost::uuids::name_generator_sha1(space)(content));
  text.erase(std::remove(text.begin(), text.end(), '-'), text.end());
  return text;
}

ordered_json described(const Point& point) {
  ordered_json to = {{"trace", point.trace}};
  if (!point.gpu.empty()) to["gpu"] = point.gpu;
  if (!point.changes.empty()) {
    to["set"] = ordered_json::object();
    for (const auto& [name, value] : point.changes) to["set"][name] = value;
  }
  if (point.seed) to["seed"] = *point.seed;
  if (!point.duration.empty()) to["duration"] = point.duration;
  to["policy"] = point.policy;
  return to;
}

std::string line_of(ordered_json head, const std::string& hash, const char* key, ordered_json body) {
  ordered_json line = {{"hash", hash}};
  line.update(head);
  line[key] = std::move(body);
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// "cam.rate" into client and setting.
std::pair<std::string, std::string> parts_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size())
    throw InputError("", "--set", fmt::format("{} names no client and setting", in_quotes(name)), "write cam.rate");
  return {name.substr(0, dot), name.substr(dot + 1)};
}

void change(Trace& trace, const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> names;
  for (const Client& client : trace.clients) names.push_back(client.name);
  for (const auto& [what, value] : changes) {
    const auto [name, key] = parts_of(what);
    const auto client = std::find(names.begin(), names.end(), name);
    const std::string place = fmt::format("--set {}", what);
    if (client == names.end())
      throw InputError("", place,
                       fmt::format("{} has no client {}{}", trace.name, in_quotes(name), did_you_mean(name, names)),
                       fmt::format("use one of {}", list_names(names)));
    apply_client_settings(trace.clients[static_cast<std::size_t>(client - names.begin())],
                          {parse_client_setting(value.empty() ? key : key + "=" + value, place)}, place, trace.notes);
  }
}

std::uint64_t whole(const std::string& text, const std::string& all) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > (std::uint64_t{1} << 62))
    throw InputError("", "--seeds", fmt::format("{} is no list of seeds", in_quotes(all)), "write 1..5 or 1,2,9");
  return value;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Grid read_grid(const std::string& file) {
  const json document = parse_json(*open_input(file), file);
  check_schema(document, "sweep", file);
  Grid grid;
  const auto strings = [&](const char* key) {
    return document.contains(key) ? document[key].get<std::vector<std::string>>() : std::vector<std::string>{};
  };
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  for (const std::string& trace : strings("traces")) grid.traces.push_back((folder / trace).string());
  grid.gpus = strings("gpus"), grid.policies = strings("policies");
  if (document.contains("set"))
    for (const auto& [name, values] : document["set"].items()) {
      std::vector<std::string> texts;
      for (const json& value : values) texts.push_back(text_of(value));
      grid.changes.emplace_back(name, std::move(texts));
    }
  if (document.contains("seeds")) grid.seeds = document["seeds"].get<std::vector<std::uint64_t>>();
  grid.duration = document.value("duration", "");
  return grid;
}

std::pair<std::string, std::vector<std::string>> parse_change(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size())
    throw InputError("", "--set", fmt::format("{} has no values", in_quotes(text)), "write cam.rate=50,100,150");
  std::pair<std::string, std::vector<std::string>> change{text.substr(0, equals), {}};
  (void)parts_of(change.first);
  std::istringstream values(text.substr(equals + 1));
  for (std::string value; std::getline(values, value, ',');) change.second.push_back(value);
  return change;
}

std::vector<std::uint64_t> parse_seeds(const std::string& text) {
  std::vector<std::uint64_t> seeds;
  std::istringstream pieces(text);
  for (std::string piece; std::getline(pieces, piece, ',');) {
    const std::size_t dots = piece.find("..");
    const std::uint64_t first = whole(piece.substr(0, dots), text);
    const std::uint64_t last = dots == std::string::npos ? first : whole(piece.substr(dots + 2), text);
    if (last < first || last - first >= kMostPoints)
      throw InputError("", "--seeds", fmt::format("{} runs backwards, or too far", in_quotes(piece)), "write 1..5");
    for (std::uint64_t seed = first; seed <= last; ++seed) seeds.push_back(seed);
  }
  return seeds;
}

std::vector<Point> points_of(const Grid& grid) {
  if (grid.traces.empty() || grid.policies.empty())
    throw InputError("", "", fmt::format("the grid has no {}", grid.traces.empty() ? "trace" : "policy"),
                     grid.traces.empty() ? "name traces, or clients with --client" : "name policies, as --policies fcfs,mps");
  std::vector<Point> points;
  const auto each_of = [](const auto& list) { return std::max<std::size_t>(1, list.size()); };
  std::size_t combinations = 1;
  for (const auto& [name, values] : grid.changes) combinations *= std::max<std::size_t>(1, values.size());
  const std::size_t total =
      grid.traces.size() * each_of(grid.gpus) * combinations * each_of(grid.seeds) * grid.policies.size();
  if (combinations > kMostPoints || total > kMostPoints)
    throw InputError("", "", fmt::format("the grid has {} points, more than {}", total, kMostPoints), "make it smaller");
  for (const std::string& trace : grid.traces)
    for (std::size_t g = 0; g < each_of(grid.gpus); ++g)
      for (std::size_t c = 0; c < combinations; ++c)
        for (std::size_t s = 0; s < each_of(grid.seeds); ++s)
          for (const std::string& policy : grid.policies) {
            Point point{trace, grid.gpus.empty() ? "" : grid.gpus[g], {}, {}, grid.duration, policy};
            std::size_t rest = c;
            for (auto change = grid.changes.rbegin(); change != grid.changes.rend(); ++change) {
              point.changes.emplace_back(change->first, change->second[rest % change->second.size()]);
              rest /= change->second.size();
            }
            std::reverse(point.changes.begin(), point.changes.end());
            if (!grid.seeds.empty()) point.seed = grid.seeds[s];
            points.push_back(std::move(point));
          }
  return points;
}

Prepared::Prepared(const Point& point, const Reader& read) : trace_(read(point.trace)) {
  const std::filesystem::path folder = std::filesystem::path(point.trace).parent_path();
  if (!point.gpu.empty()) carried_ = put_on(trace_, point.trace, point.gpu);
  if (trace_.gpu.empty())
    throw InputError(point.trace, "/gpu", "the trace names no GPU", "give --gpus; `sim gpus` lists the names");
  if (trace_.clients.empty())
    throw InputError(point.trace, "/clients", "the trace has no clients, so there is nothing to run",
                     "add a client, or give clients with --client");
  change(trace_, point.changes);
  if (point.seed) trace_.run.seed = *point.seed;
  if (!point.duration.empty()) trace_.run.duration = parse_duration(point.duration, "--duration");
  if (trace_.run.duration && *trace_.run.duration <= trace_.run.warm_up)
    throw InputError("", "--duration", "the run would end within its warm-up", "make it longer");
  gpu_ = read_gpu(trace_.gpu, folder);
  std::ostringstream content;
  Trace nameless = trace_;  // the name of a file decides nothing
  nameless.name.clear(), nameless.about.clear(), nameless.gpu.clear(), nameless.notes.clear(), nameless.carried.clear();
  write_trace(nameless, content);
  content << gpu_document(trace_.gpu, folder).json.dump() << "\nresults " << kResultsRevision << '\n';
  content_ = std::move(content).str();
}

std::string Prepared::hash(const std::string& policy) const { return hash_of(content_ + policy); }

bool Prepared::same(const Point& a, const Point& b) {
  return a.trace == b.trace && a.gpu == b.gpu && a.changes == b.changes && a.seed == b.seed && a.duration == b.duration;
}

std::string Prepared::run(const Point& point, const std::function<void()>& interrupt) {
  const std::string id = hash(point.policy);
  try {
    const RunResult result = sim::run(
        trace_, gpu_, {{.policy = point.policy, .interrupt = interrupt}, EngineOptions{}, 1, &memory_});
    std::stringstream text;
    write_summary(result, text);
    ordered_json body = ordered_json::parse(text);
    for (const char* known : {"version", "trace", "policy", "notes", "window", "alone", "gpu_basis"}) body.erase(known);
    if (!carried_.empty()) body["times"] = carried_;
    return line_of(described(point), id, "result", std::move(body));
  } catch (const InputError& error) {
    return line_of_error(point, id, error);
  }
}

std::string line_of_error(const Point& point, const std::string& hash, const std::exception& error) {
  ordered_json body = {{"problem", error.what()}};
  if (const auto* input = dynamic_cast<const InputError*>(&error))
    body = {{"file", input->file()}, {"place", input->place()}, {"problem", input->problem()}, {"remedy", input->remedy()}};
  return line_of(described(point), hash, "error", std::move(body));
}

/// A known line under what the point is called now: a file may have another name.
std::string line_again(const Point& point, const std::string& known) {
  const ordered_json line = ordered_json::parse(known, nullptr, false);
  if (!line.is_object() || !line.contains("hash") || !line["hash"].is_string() ||
      !(line.contains("result") || line.contains("error")))
    throw InputError("", "", "what was written before is no line of a sweep: " + printable(known),
                     "give a line as `sim sweep` writes it, with hash and result or error");
  const char* key = line.contains("result") ? "result" : "error";
  return line_of(described(point), line["hash"].get<std::string>(), key, line[key]);
}

std::string hash_of_request(const Point& point) { return hash_of("request" + described(point).dump()); }

void sweep(const std::vector<Point>& points, const Prepared::Reader& read, const SweepOptions& options) {
  /// Points in a row that share a trace.
  struct Group {
    std::size_t first, count;
    std::once_flag once;
    std::unique_ptr<Prepared> prepared;
    std::exception_ptr failed;
    std::size_t left;
  };
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<Group*> group_of(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == 0 || !Prepared::same(points[i - 1], points[i])) {
      groups.push_back(std::make_unique<Group>());
      groups.back()->first = i, groups.back()->count = 0;
    }
    group_of[i] = groups.back().get();
    group_of[i]->left = ++group_of[i]->count;
  }
  // Points that share a trace wait for its preparation, so each thread begins with a trace of its own.
  const std::size_t threads = options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::size_t> order;
  for (std::size_t begin = 0; begin < groups.size(); begin += threads) {
    const std::span side_by_side(groups.begin() + static_cast<std::ptrdiff_t>(begin), std::min(threads, groups.size() - begin));
    const std::size_t most = (*std::ranges::max_element(side_by_side, {}, [](const auto& group) { return group->count; }))->count;
    for (std::size_t k = 0; k < most; ++k)
      for (const auto& group : side_by_side)
        if (k < group->count) order.push_back(group->first + k);
  }
  std::mutex telling;
  in_parallel(points.size(), options.threads, [&](std::size_t turn) {
    const std::size_t i = order[turn];
    const Point& point = points[i];
    Group& group = *group_of[i];
    std::call_once(group.once, [&] {
      try {
        group.prepared = std::make_unique<Prepared>(point, read);
      } catch (const InputError&) {
        group.failed = std::current_exception();
      }
    });
    std::string line;
    bool is_new = true;
    if (group.failed) try {
        std::rethrow_exception(group.failed);
      } catch (const InputError& error) {
        line = line_of_error(point, hash_of_request(point), error);
      }
    else if (const auto known = options.known ? options.known(group.prepared->hash(point.policy)) : std::nullopt)
      line = line_again(point, *known), is_new = false;
    else
      line = group.prepared->run(point, options.interrupt);
    const std::scoped_lock lock(telling);
    if (--group.left == 0) group.prepared.reset();
    if (options.done) options.done(i, line, is_new);
  });
}

}  // namespace corun::sim
