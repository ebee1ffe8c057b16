// A trace in Python, and what its runs share until it is changed.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "python/native/bind.h"
#include "sim/run/run.h"
#include "traces/json/trace_json.h"

namespace corun::python {

/// Knowledge that runs of one trace share, and the GPUs that they were on.
class Shared {
 public:
  const Gpu& gpu(const std::string& name, const std::filesystem::path& folder) {
    const std::scoped_lock lock(mutex_);
    const auto known = gpus_.find(name);
    return known != gpus_.end() ? known->second : gpus_.emplace(name, read_gpu(name, folder)).first->second;
  }
  sim::Memory memory, audited;

 private:
  std::mutex mutex_;
  std::map<std::string, Gpu> gpus_;
};

struct TraceObject {
  std::string file;
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
};

/// Properties that can be set, and the clients' settings.
void bind_changes(py::module_& m, py::class_<TraceObject>& traces);
/// Clients composed, grids of runs, advice.
void bind_sweep(py::module_& m);

}  // namespace corun::python
