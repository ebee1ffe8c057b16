#include "traces/import/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "traces/json/spelling.h"
#include "traces/model/error.h"
#include "traces/model/merge.h"

namespace corun {

Trace import_processes(const std::filesystem::path& file, std::vector<RecordedProcess> processes, const ImportOptions& options,
                       const char* tool, const std::string& wanted, RecordedTimes* recorded) {
  if (!wanted.empty()) {
    std::vector<std::string> names;
    for (const RecordedProcess& p : processes) names.push_back(p.name);
    const auto known = std::find(names.begin(), names.end(), wanted);
    if (known == names.end())
      throw InputError(file.string(), "--process",
                       fmt::format("no process {} used the GPU{}", in_quotes(wanted), did_you_mean(wanted, names)),
                       fmt::format("use one of {}", list_names(names)));
    RecordedProcess chosen = std::move(processes[static_cast<std::size_t>(known - names.begin())]);
    processes.clear();
    processes.push_back(std::move(chosen));
  }
  // A process that only issued kernels outside of the ranges has no request.
  if (!options.range.empty())
    std::erase_if(processes, [](const RecordedProcess& p) { return p.records.steps.empty(); });
  if (processes.empty())
    throw InputError(file.string(), "--range",
                     fmt::format("{} has no range {}", in_quotes(wanted), in_quotes(options.range)),
                     "leave one of the two options out");
  std::set<std::string> names;
  for (RecordedProcess& p : processes) {
    const std::string name = p.name;
    for (int n = 2; !names.insert(p.name).second; ++n) p.name = fmt::format("{} #{}", name, n);
  }
  Trace all;
  bool first = true;
  std::vector<std::optional<WithoutProfiler>> without_profiler;
  std::vector<bool> polls;
  for (RecordedProcess& p : processes) {
    RecordedTimes times;
    Trace one = import_records(file, std::move(p.records), options, tool, &times);
    one.notes.insert(one.notes.begin(), p.notes.begin(), p.notes.end());
    one.clients.front().memory_bytes = p.memory_bytes;
    one.clients.front().host_stalls = std::move(p.host_stalls);
    if (processes.size() == 1) {
      if (recorded != nullptr) *recorded = std::move(times);
      return one;
    }
    without_profiler.push_back(times.without_profiler.empty() ? std::nullopt : times.without_profiler.front());
    polls.push_back(!times.polls.empty() && times.polls.front());
    if (first && recorded != nullptr) *recorded = times;
    if (!times.told_by.empty() && recorded != nullptr) recorded->told_by = times.told_by;
    if (options.name.empty()) one.programs.front().name = p.name;
    one.clients.front().name = one.clients.front().process = p.name;
    if (first) all.name = one.name, all.about = one.about, all.gpu = one.gpu;
    first = false;
    for (std::string& note : one.notes) note = p.name + ": " + note;
    all.notes.insert(all.notes.end(), one.notes.begin(), one.notes.end());
    const Offsets at = append(all, one, p.name);
    Client client = one.clients.front();
    client.program = ProgramId{at.programs};
    all.clients.push_back(std::move(client));
  }
  if (recorded != nullptr)
    recorded->without_profiler = std::move(without_profiler), recorded->polls = std::move(polls);
  all.notes.push_back(fmt::format("{} processes were recorded beside each other: where they shared the GPU their kernels' "
                                  "times are longer than alone. Record each by itself for times alone.",
                                  processes.size()));
  return all;
}

}  // namespace corun
