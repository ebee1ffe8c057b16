#include "sim/validate/timeline_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ostream>

#include "traces/import/kernel_name.h"
#include "traces/import/kineto_records.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShown = 25;
constexpr std::size_t kLookAhead = 8;  // kernels that the record may lack or have beyond the program

/// One kernel that ran.
struct Ran {
  double start = 0, end = 0;  // us
  std::size_t shape = 0;      // of the record
};

/// Of a client's program: its launches, in order.
struct Launches {
  std::vector<std::size_t> ops;
  std::vector<const Kernel*> kernels;
  std::vector<double> alone_us;
};

Launches launches_of(const Trace& trace, const Client& client) {
  Launches all;
  const Program& program = trace.programs[client.program.value];
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (const auto* launch = std::get_if<Launch>(&program.ops[i].what)) {
      const Kernel& kernel = trace.kernels[launch->kernel.value];
      all.ops.push_back(i), all.kernels.push_back(&kernel);
      all.alone_us.push_back(to_ns(launch->solo_time.value_or(kernel.solo_time.value_or(Time{}))) / 1e3);
    }
  return all;
}

/// Names of a trace may have been made unlike ("#2", a file's name before them): the shape and the function
/// tell.
bool same(const kineto::Shape& shape, const Kernel& kernel) {
  return shape.grid == kernel.grid && shape.block == kernel.block &&
         kernel.name.find(shape.name) != std::string::npos;
}

/// Without what tells kernels of one name apart.
std::string short_name(const std::string& numbered) {
  const std::string name = without_number(numbered);
  const std::string prefix = name.substr(0, name.find('/') + 1);  // of a trace's file
  return function_name(prefix.find_first_of("<( ") == std::string::npos ? name.substr(prefix.size()) : name);
}

/// Sums over requests; a launch without a previous one has no wait.
struct Sums {
  explicit Sums(std::size_t launches) : sums(launches) {}
  void add(const std::vector<Ran>& request) {
    ++requests;
    for (std::size_t i = 0; i < request.size(); ++i) {
      sums[i].duration += request[i].end - request[i].start;
      if (i > 0) sums[i].wait += request[i].start - request[i - 1].end;
    }
  }
  LaunchTimes mean(std::size_t i) const {
    const auto n = static_cast<double>(requests);
    return {requests, sums[i].wait / n, sums[i].duration / n};
  }
  std::size_t requests = 0;
  std::vector<LaunchTimes> sums;
};

/// Cuts what a stream ran into requests; one with a kernel missing is left out.
void cut(const std::vector<Ran>& stream, const std::vector<std::vector<bool>>& fits, Sums& sums,
         std::size_t& unmatched) {
  const std::size_t n = fits.front().size();
  std::vector<Ran> request;
  std::size_t next = n;  // of the program; n: none has begun
  for (std::size_t i = 0; i < stream.size(); ++i) {
    const auto& fit = fits[stream[i].shape];
    if (next < n && !fit[next]) next = n, unmatched += request.size();
    if (next == n) {  // a request begins where the first kernels of the program run
      bool begins = true;
      for (std::size_t k = 0; begins && k < std::min(n, kLookAhead); ++k)
        begins = i + k < stream.size() && fits[stream[i + k].shape][k];
      if (!begins) {
        ++unmatched;
        continue;
      }
      next = 0, request.clear();
    }
    request.push_back(stream[i]);
    if (++next == n) sums.add(request), request.clear();
  }
  if (next < n) unmatched += request.size();
}

using Streams = std::map<kineto::StreamKey, std::vector<Ran>>;

/// Each client's stream: the one of which most kernels are of its program.
std::vector<Sums> measured(const Trace& trace, const std::vector<Launches>& programs, const fs::path& file,
                           std::vector<ComparedClient>& clients) {
  const kineto::Records records = kineto::read_records(file);
  Streams streams;
  std::chrono::nanoseconds begin = std::chrono::nanoseconds::max();
  for (const kineto::GpuOp& op : records.ops) begin = std::min(begin, op.start);
  for (const kineto::GpuOp& op : records.ops) {
    if (op.kind != kineto::GpuOp::Kind::kernel) continue;
    const double start = static_cast<double>((op.start - begin).count()) / 1e3;
    streams[op.stream].push_back({start, start + static_cast<double>(op.duration.count()) / 1e3, op.shape});
  }
  for (auto& [key, stream] : streams)
    std::stable_sort(stream.begin(), stream.end(),
                     [](const Ran& a, const Ran& b) { return a.start < b.start; });
  std::vector<Sums> all;
  for (std::size_t c = 0; c < programs.size(); ++c) {
    const std::size_t n = programs[c].kernels.size();
    std::vector<std::vector<bool>> fits(records.shapes.size(), std::vector<bool>(n));
    for (std::size_t s = 0; s < fits.size(); ++s)
      for (std::size_t k = 0; k < n; ++k) fits[s][k] = same(records.shapes[s], *programs[c].kernels[k]);
    const auto of_program = [&](const std::vector<Ran>& stream) {
      return std::count_if(stream.begin(), stream.end(), [&](const Ran& r) {
        return std::find(fits[r.shape].begin(), fits[r.shape].end(), true) != fits[r.shape].end();
      });
    };
    auto best = streams.end();
    for (auto s = streams.begin(); s != streams.end(); ++s)
      if (best == streams.end() || of_program(s->second) > of_program(best->second)) best = s;
    Sums sums(n);
    if (best != streams.end() && !fits.empty()) cut(best->second, fits, sums, clients[c].unmatched);
    if (sums.requests == 0)
      throw InputError(file.string(), "",
                       fmt::format("no whole request of {} is in it", in_quotes(trace.clients[c].name)),
                       "record a longer timeline of the same networks");
    clients[c].requests = sums.requests;
    streams.erase(best);
    all.push_back(std::move(sums));
  }
  return all;
}

class Kernels final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    if (r.finished != kNever) by_request[{r.client.value, r.request}][r.op.value] = r;
  }
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<std::uint32_t, KernelRecord>> by_request;
};

std::vector<Sums> simulated(const std::vector<Launches>& programs, const Kernels& kernels) {
  std::vector<Sums> all;
  for (const Launches& program : programs) all.emplace_back(program.ops.size());
  for (const auto& [key, ops] : kernels.by_request) {
    if (key.second == 0 || ops.size() != programs[key.first].ops.size()) continue;
    std::vector<Ran> request;
    for (const auto& [op, r] : ops) request.push_back({to_ns(r.started) / 1e3, to_ns(r.finished) / 1e3, 0});
    all[key.first].add(request);
  }
  return all;
}

}  // namespace

TimelineComparison compare_timeline(const fs::path& networks_file, const std::string& name,
                                    const NetworksOptions& options) {
  const fs::path folder = networks_file.parent_path() / "timelines";
  fs::path file;
  std::vector<std::string> names;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      for (const std::string end : {".json.gz", ".json"})
        if (std::string each = entry.path().filename().string();
            each.ends_with(end) && !each.ends_with(".clients.json")) {
          names.push_back(each.substr(0, each.size() - end.size()));
          if (names.back() == name) file = entry.path();
          break;
        }
  std::sort(names.begin(), names.end());
  if (file.empty())
    throw InputError(folder.string(), "",
                     fmt::format("no timeline {}{}", in_quotes(name), did_you_mean(name, names)),
                     names.empty() ? "measure one" : fmt::format("use one of {}", list_names(names)));
  NetworksOptions one = options;
  const std::size_t dot = name.rfind('.');
  one.mixes = {name.substr(0, dot)}, one.modes = {name.substr(dot + 1)};
  const MeasuredNetworks all = read_networks(networks_file, one);
  const Trace& trace = all.mixes.front().trace_in(one.modes.front());

  TimelineComparison comparison{name, {}};
  std::vector<Launches> programs;
  for (const Client& client : trace.clients) {
    comparison.clients.push_back({client.name, 0, 0, {}});
    programs.push_back(launches_of(trace, client));
  }
  const std::vector<Sums> on_gpu = measured(trace, programs, file, comparison.clients);
  Kernels kernels;
  Memory memory;
  simulate_mix(all, trace, all.runs.front().policy, options.duration, options.contention, memory, {&kernels});
  const std::vector<Sums> in_sim = simulated(programs, kernels);
  for (std::size_t c = 0; c < programs.size(); ++c)
    for (std::size_t k = 0; k < programs[c].ops.size(); ++k) {
      const Kernel& kernel = *programs[c].kernels[k];
      comparison.clients[c].launches.push_back({programs[c].ops[k], short_name(kernel.name), kernel.blocks(),
                                                programs[c].alone_us[k], on_gpu[c].mean(k),
                                                in_sim[c].mean(k)});
    }
  return comparison;
}

std::string format_timeline(const TimelineComparison& comparison) {
  std::string text = fmt::format(
      "{}; microseconds, means over requests\n\n{:<22}{:>10}{:>6}{:>9}{:>9}{:>11}{:>11}"
      "{:>11}{:>11}{:>10}\n",
      comparison.name, "client", "", "requests", "alone", "waits", "simulated", "durations", "simulated",
      "sum", "ratio");
  struct Row {
    const ComparedClient* client;
    const ComparedLaunch* launch;
  };
  std::vector<Row> rows;
  for (const ComparedClient& client : comparison.clients) {
    double alone = 0;
    LaunchTimes m, s;
    for (const ComparedLaunch& l : client.launches) {
      rows.push_back({&client, &l});
      alone += l.alone_us;
      m.wait += l.measured.wait, m.duration += l.measured.duration;
      s.wait += l.simulated.wait, s.duration += l.simulated.duration;
    }
    const double measured = m.wait + m.duration;
    text += fmt::format(
        "{:<22}{:>16}{:>9.1f}{:>9.1f}{:>11.1f}{:>11.1f}{:>11.1f}{:>11.1f}{:>10.2f}\n", client.name,
        fmt::format("{} + {}", client.requests, client.launches.front().simulated.requests), alone, m.wait,
        s.wait, m.duration, s.duration, measured, (s.wait + s.duration) / measured);
    if (client.unmatched != 0)
      text += fmt::format("  {} measured kernels are of no whole request\n", client.unmatched);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::fabs(a.launch->difference()) > std::fabs(b.launch->difference());
  });
  text += fmt::format("\n{:<20}{:>5} {:<40}{:>8}{:>9}{:>9}{:>10}{:>9}{:>10}{:>9}\n", "client", "op", "kernel",
                      "blocks", "alone", "wait", "simulated", "stretch", "simulated", "differs");
  for (std::size_t i = 0; i < std::min(kShown, rows.size()); ++i) {
    const ComparedLaunch& l = *rows[i].launch;
    text += fmt::format("{:<20}{:>5} {:<40.39}{:>8}{:>9.1f}{:>9.1f}{:>10.1f}{:>9.2f}{:>10.2f}{:>+9.1f}\n",
                        rows[i].client->name, l.op, l.kernel, l.blocks, l.alone_us, l.measured.wait,
                        l.simulated.wait, l.measured.duration / l.alone_us, l.simulated.duration / l.alone_us,
                        l.difference());
  }
  return text +
         "\nwait        start less the end of the stream's previous kernel\n"
         "stretch     duration over that alone\n"
         "differs     wait and duration, simulated less measured\n";
}

void write_timeline_csv(const TimelineComparison& comparison, std::ostream& out) {
  out << "client,op,kernel,blocks,alone_us,measured_requests,measured_wait_us,measured_duration_us,"
         "simulated_requests,simulated_wait_us,simulated_duration_us,difference_us\n";
  for (const ComparedClient& client : comparison.clients)
    for (const ComparedLaunch& l : client.launches)
      out << fmt::format("{},{},\"{}\",{},{:.4g},{},{:.6g},{:.6g},{},{:.6g},{:.6g},{:.6g}\n", client.name,
                         l.op, l.kernel, l.blocks, l.alone_us, l.measured.requests, l.measured.wait,
                         l.measured.duration, l.simulated.requests, l.simulated.wait, l.simulated.duration,
                         l.difference());
}

}  // namespace corun::sim
