#include "traces/import/nsys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "traces/import/nsys_records.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"
#include "traces/model/merge.h"

namespace corun {

Trace import_nsys(const std::filesystem::path& file, const ImportOptions& options, const std::string& process,
                  RecordedTimes* recorded) {
  std::vector<nsys::Process> processes = nsys::read(file, options.range, options.device);
  if (!process.empty()) {
    std::vector<std::string> names;
    for (const nsys::Process& p : processes) names.push_back(p.name);
    const auto known = std::find(names.begin(), names.end(), process);
    if (known == names.end())
      throw InputError(file.string(), "--process",
                       fmt::format("no process {} used the GPU{}", in_quotes(process), did_you_mean(process, names)),
                       fmt::format("use one of {}", list_names(names)));
    nsys::Process chosen = std::move(processes[static_cast<std::size_t>(known - names.begin())]);
    processes.clear();
    processes.push_back(std::move(chosen));
  }
  // A process that only issued kernels outside of the ranges has no request.
  if (!options.range.empty())
    std::erase_if(processes, [](const nsys::Process& p) { return p.records.steps.empty(); });
  Trace all;
  bool first = true;
  for (nsys::Process& p : processes) {
    RecordedTimes times;
    Trace one = import_records(file, std::move(p.records), options, "Nsight Systems", &times);
    one.notes.insert(one.notes.begin(), p.notes.begin(), p.notes.end());
    if (processes.size() == 1) {
      if (recorded != nullptr) *recorded = std::move(times);
      return one;
    }
    if (first && recorded != nullptr) *recorded = times;
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
  all.notes.push_back(fmt::format("{} processes were recorded beside each other: where they shared the GPU their kernels' "
                                  "times are longer than alone. Record each by itself for times alone.",
                                  processes.size()));
  return all;
}

bool looks_like_nsys(const std::filesystem::path& file) { return nsys::looks_like_sqlite(file); }

}  // namespace corun
