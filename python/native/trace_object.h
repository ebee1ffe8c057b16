// A trace in Python, and what its runs share until it is changed.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "python/native/bind.h"
#include "sim/run/run.h"
#include "traces/json/trace_json.h"

namespace corun::python {

/// What runs of one trace share, whatever their policies: each client alone.
class Shared {
 public:
  struct Part {
    explicit Part(Gpu g) : gpu(std::move(g)), common(gpu) {}
    Gpu gpu;
    sim::Common common;
  };
  Part& of(const Trace& trace, const std::filesystem::path& folder, const std::string& issue, bool audit) {
    const std::scoped_lock lock(mutex_);
    std::unique_ptr<Part>& part = parts_[{trace.gpu, issue, trace.run.seed, audit}];
    if (!part) part = std::make_unique<Part>(read_gpu(trace.gpu, folder));
    return *part;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::uint64_t, bool>, std::unique_ptr<Part>> parts_;
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
