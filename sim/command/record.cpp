#include "sim/command/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hw/backend/cuda_backend.h"
#include "hw/run/run.h"
#include "policies/api/registry.h"
#include "policies/session/profile_file.h"
#include "traces/json/output_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string ask_nvidia_smi(const std::string& what) {
  std::string text;
  const std::string call = "nvidia-smi --query-gpu=" + what + " --format=csv,noheader 2>/dev/null";
  if (FILE* pipe = popen(call.c_str(), "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, pipe) != nullptr) text += line;
    pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// A policy as part of a file's name.
std::string file_name(std::string policy) {
  for (char& c : policy)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') c = '_';
  return policy;
}

Json summary_of(const RunResult& result) {
  std::ostringstream text;
  write_summary(result, text);
  Json summary = Json::parse(text.str());
  for (const char* key : {"version", "sm_busy", "occupancy"}) summary.erase(key);
  return summary;
}

/// By client: latencies of its finished requests in the order of their arrival, us.
Json latencies_of(const Trace& trace, const std::vector<RequestRecord>& requests) {
  Json all;
  for (const Client& client : trace.clients) all[client.name] = Json::array();
  for (const RequestRecord& r : requests)
    if (!r.dropped && r.finished != kNever)
      all[trace.clients[r.client.value].name].push_back(std::round(to_ns(r.finished - r.arrival) / 100) / 10);
  return all;
}

}  // namespace

CLI::App* add_record(CLI::App& app, RecordArguments& a) {
  CLI::App* command = app.add_subcommand(
      "record", "run traces under policies on the GPU of this machine, for `sim validate` and replays");
  command->add_option("traces", a.traces, "traces whose kernels are those of hw/kernels")->required();
  command->add_option("--policies", a.policies, "name[:key=value], separated by blanks")->required();
  command->add_option("--profiles", a.profiles, "what `sim profile --backend=cuda` measured on this card")
      ->required();
  command->add_option("--out", a.directory, "folder to write runs.json and recordings/ into")->required();
  command->add_option("--store", a.store, "folder that keeps compiled kernels between runs");
  command->add_option("--repeats", a.repeats, "runs of each; the first is recorded")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  return command;
}

int record(const RecordArguments& a) {
  const fs::path directory = a.directory;
  for (const std::string& policy : a.policies) (void)make_policy(policy);
  const Profiles profiles = read_profiles(a.profiles);
  std::error_code error;
  fs::create_directories(directory / "recordings", error);
  if (error)
    throw InputError(a.directory, "", "cannot be made: " + error.message(),
                     "choose another place with --out");
  OutputFile index(directory / "runs.json");
  hw::Runner runner(a.store);
  const hw::DeviceFacts facts = runner.facts();
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  const auto beside = [&](const fs::path& file) {
    return fs::absolute(file).lexically_normal().lexically_relative(
        fs::absolute(directory).lexically_normal());
  };
  Json document{{"corun_runs", 1},
                {"device", facts.name},
                {"driver", ask_nvidia_smi("driver_version")},
                {"cuda", facts.driver},
                {"clocks", ask_nvidia_smi("clocks.sm,clocks.mem,clocks.max.sm")},
                {"date", date},
                {"command", fmt::format("sim record --policies {}", fmt::join(a.policies, " "))},
                {"profiles", beside(a.profiles).string()},
                {"runs", Json::array()}};
  unsigned failures = 0;
  const auto failed = [&](const Trace& trace, const std::string& policy, const std::string& recording,
                          const std::exception& e) {  // the other runs are kept, or still to come
    fmt::print(stderr, "{:<12} {:<24} failed: {}\n", trace.name, policy, e.what());
    fs::remove(directory / recording, error);
    ++failures;
  };
  for (const std::string& file : a.traces) {
    const Trace trace = read_trace(file);
    const Gpu gpu = read_gpu(trace.gpu, fs::path(file).parent_path());
    for (const std::string& policy : a.policies) {
      const std::string recording =
          fmt::format("recordings/{}.{}.jsonl.gz", fs::path(file).stem().string(), file_name(policy));
      Json run{{"trace", beside(file).string()}, {"policy", policy}};
      std::vector<double> stp;
      for (unsigned repeat = 0; repeat < a.repeats; ++repeat) {
        hw::RunOptions options;
        options.policy = policy;
        options.verify = true;
        options.profiles = &profiles;
        if (repeat == 0) options.record = (directory / recording).string();
        RunResult result;
        try {
          result = runner.run(trace, gpu, options);
        } catch (const InputError& e) {  // the card or the trace cannot honour it
          fmt::print("{:<12} {:<24} not run: {}\n", trace.name, policy, e.what());
          fs::remove(directory / recording, error);
          break;
        } catch (const hw::DriverError& e) {
          failed(trace, policy, recording, e);
          stp.clear();
          break;
        } catch (const hw::Stalled& e) {
          failed(trace, policy, recording, e);
          stp.clear();
          break;
        }
        stp.push_back(result.stp);
        if (repeat != 0) continue;
        run["recording"] = recording;
        run["result"] = summary_of(result);
        run["latencies_us"] = latencies_of(trace, runner.requests());
      }
      if (stp.empty()) continue;
      run["stp"] = stp;
      fmt::print("{:<12} {:<24} STP {:.3f}  ANTT {}\n", trace.name, policy, fmt::join(stp, ", "),
                 run["result"]["antt"].dump());
      document["runs"].push_back(std::move(run));
    }
    runner.forget();
  }
  index.stream() << document.dump() << "\n";
  index.close();
  return failures == 0 ? 0 : 1;
}

}  // namespace corun::sim
