// Traces, runs and their results.  A run holds the GIL only where Python code decides.
#include "sim/run/run.h"

#include <fmt/format.h>
#include <pybind11/numpy.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>
#include <tuple>

#include "policies/api/registry.h"
#include "python/native/columns.h"
#include "python/native/policy.h"
#include "python/native/trace_object.h"
#include "sim/input/carry.h"
#include "sim/input/load.h"
#include "traces/json/output_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/csv.h"
#include "traces/timeline/perfetto.h"
#include "traces/timeline/report.h"

namespace corun::python {
namespace {

// Rows of the arrays.  Times are nanoseconds from the start of the run; NaN where there is none.

struct RequestRow {
  std::uint32_t client;
  std::uint64_t request;
  double arrival_ns, started_ns, finished_ns, latency_ns;
  bool dropped;
  double work_done_ns;
};
struct KernelRow {
  std::uint32_t launch, client;
  std::uint64_t request;
  std::uint32_t stream, op, kernel;
  std::int32_t priority;
  std::uint32_t ctas;
  std::uint64_t blocks;
  std::uint32_t evictions, preemptions;
  std::uint64_t redone_blocks;
  double ready_ns, submitted_ns, queued_ns, slotted_ns, started_ns, last_block_ns, finished_ns;
};
struct CopyRow {
  std::uint32_t launch, client;
  std::uint64_t request;
  std::uint32_t stream, op;
  std::uint64_t bytes;
  std::uint32_t engine;
  double started_ns, finished_ns;
};
struct BlockRow {
  std::uint32_t launch, client, kernel, block, sm, lane;
  double start_ns, end_ns;
};

struct CounterRow {
  std::uint32_t counter;
  double at_ns, value;
};

double ns(Time t) { return t == kNever ? std::numeric_limits<double>::quiet_NaN() : to_ns(t); }

RequestRow row(const RequestRecord& r) {
  const Time started = r.dropped ? kNever : r.started, finished = r.dropped ? kNever : r.finished;
  return {r.client.value, r.request,      ns(r.arrival),
          ns(started),    ns(finished),   ns(finished == kNever ? kNever : finished - r.arrival),
          r.dropped,      ns(r.work_done)};
}
KernelRow row(const KernelRecord& r) {
  return {r.launch.serial, r.client.value,  r.request,        r.stream.value,  r.op.value,
          r.kernel.value,  r.priority,      r.ctas,           r.blocks,        r.evictions,
          r.preemptions,   r.redone_blocks, ns(r.ready),      ns(r.submitted), ns(r.queued),
          ns(r.slotted),   ns(r.started),   ns(r.last_block), ns(r.finished)};
}
CopyRow row(const CopyRecord& r) {
  return {r.launch.serial, r.client.value, r.request,     r.stream.value, r.op.value,
          r.bytes,         r.engine,       ns(r.started), ns(r.finished)};
}
BlockRow row(const BlockRecord& r) {
  return {r.launch.serial, r.client.value, r.kernel.value, r.block,
          r.sm.value,      r.lane,         ns(r.start),    ns(r.end)};
}
CounterRow row(const GaugeRecord& r) { return {static_cast<std::uint32_t>(r.gauge), ns(r.at), r.value}; }

template <class Row, class Record>
py::array_t<Row> rows(const std::vector<Record>& records) {
  // As a list: from a bare number pybind11 2.10 takes strides that NumPy 2 no longer has where it looks.
  py::array_t<Row> array(std::vector{static_cast<py::ssize_t>(records.size())});
  Row* out = array.mutable_data();
  for (const Record& r : records) *out++ = row(r);
  return array;
}

class Records final : public Sink {
 public:
  Records(bool with_blocks, bool with_counters) : with_blocks_(with_blocks), with_counters_(with_counters) {}
  void record(const RequestRecord& r) override { requests.push_back(r); }
  void record(const KernelRecord& r) override { kernels.push_back(r); }
  void record(const CopyRecord& r) override { copies.push_back(r); }
  void record(std::span<const BlockRecord> b) override { blocks.insert(blocks.end(), b.begin(), b.end()); }
  void record(const GaugeRecord& r) override {
    if (with_counters_) counters.push_back(r);
  }
  using Sink::record;
  bool wants_blocks() const override { return with_blocks_; }
  bool wants_gauges() const override { return with_counters_; }

  std::vector<RequestRecord> requests;
  std::vector<KernelRecord> kernels;
  std::vector<CopyRecord> copies;
  std::vector<BlockRecord> blocks;
  std::vector<GaugeRecord> counters;

 private:
  bool with_blocks_, with_counters_;
};

/// Hands on all but, unless asked for, the counters: they take as long as the simulation.
class Picked final : public Sink {
 public:
  using Sink::record;
  Picked(PerfettoSink& to, bool counters) : to_(to), counters_(counters) {}
  void record(const RequestRecord& r) override { to_.record(r); }
  void record(const KernelRecord& r) override { to_.record(r); }
  void record(std::span<const BlockRecord> b) override { to_.record(b); }
  void record(const CopyRecord& r) override { to_.record(r); }
  void record(const MoveRecord& r) override { to_.record(r); }
  void record(const TurnRecord& r) override { to_.record(r); }
  void record(const GaugeRecord& r) override {
    if (counters_) to_.record(r);
  }
  bool wants_blocks() const override { return to_.wants_blocks(); }
  bool wants_gauges() const override { return counters_ && to_.wants_gauges(); }

 private:
  PerfettoSink& to_;
  bool counters_;
};

std::optional<TraceLevel> level_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "request") return TraceLevel::request;
  if (*name == "kernel") return TraceLevel::kernel;
  if (*name == "cta") return TraceLevel::cta;
  throw InputError("", "timeline", fmt::format("there is no level '{}'", *name),
                   "use request, kernel, cta or None");
}

struct ResultObject {
  ResultObject(std::shared_ptr<const Trace> t, std::optional<TraceLevel> l, bool c)
      : trace(std::move(t)), level(l), counters(c), records(l == TraceLevel::cta, c) {}

  std::shared_ptr<const Trace> trace;
  std::optional<TraceLevel> level;
  bool counters;
  RunResult result;
  Records records;
  std::string timeline;  // as PerfettoSink wrote it
};

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  OutputFile out(path);
  out.stream() << bytes;
  out.close();
}

std::string summary(const ResultObject& r) {
  std::ostringstream text;
  write_summary(r.result, text);
  return std::move(text).str();
}

void write_perfetto(const ResultObject& r, const std::filesystem::path& path) {
  if (!r.level)
    throw InputError("", "timeline", "the run kept no timeline",
                     "run with timeline='request', 'kernel' or 'cta'");
  write_file(path, r.timeline);
}

void write_all(const ResultObject& r, const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw InputError(directory.string(), "", "cannot be made: " + error.message(), "choose another place");
  std::ostringstream requests, kernels;
  CsvSink csv(*r.trace, requests, kernels);
  for (const RequestRecord& record : r.records.requests) csv.record(record);
  for (const KernelRecord& record : r.records.kernels) csv.record(record);
  write_file(directory / "summary.json", summary(r));
  write_file(directory / "requests.csv", requests.str());
  write_file(directory / "kernels.csv", kernels.str());
  if (r.level) write_file(directory / "timeline.pftrace", r.timeline);
}

/// Ctrl-C ends a run.
class Interrupt {
 public:
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::unique_ptr<ResultObject> run(const TraceObject& t, const py::object& policy, const sim::Adjustments& how,
                                  const std::optional<std::string>& timeline, bool counters,
                                  bool resources, sim::EngineOptions engine) {
  const std::optional<TraceLevel> level = level_of(timeline);
  Trace adjusted = *t.trace;
  sim::adjust(adjusted, t.file, how);
  const auto trace = std::make_shared<const Trace>(std::move(adjusted));
  sim::RunOptions options;
  const bool is_registered = py::isinstance<py::str>(policy);
  std::shared_ptr<Policy> served;
  if (is_registered)
    served = make_policy(options.policy = policy.cast<std::string>());
  else
    options.policy = (served = std::make_shared<PythonPolicy>(policy, trace))->name();
  options.engine = engine;
  options.resources = resources;
  options.interrupt = Interrupt{};
  const std::shared_ptr<Shared> shared = t.shared;
  const Gpu& gpu = shared->gpu(trace->gpu, std::filesystem::path(t.file).parent_path());
  options.memory = engine.audit ? &shared->audited : &shared->memory;
  const Plan plan = sim::simulated({*trace, gpu, options.policy, std::move(served), is_registered});
  const auto shown = plan.on_parts ? std::make_shared<const Trace>(*plan.on_parts) : trace;
  auto result = std::make_unique<ResultObject>(shown, level, counters);
  {
    const py::gil_scoped_release release;
    std::ostringstream written;
    std::optional<PerfettoSink> perfetto;
    std::optional<Picked> picked;
    options.sinks = {&result->records};
    if (level) {
      PerfettoOptions perfetto_options;
      perfetto_options.level = *level;
      perfetto.emplace(*shown, gpu, perfetto_options, written);
      options.sinks.push_back(&picked.emplace(*perfetto, counters));
    }
    result->result = sim::run(plan, options);
    if (perfetto) perfetto->finish();
    result->timeline = std::move(written).str();
  }
  return result;
}

template <class T>
py::tuple names(const std::vector<T>& all) {
  py::tuple tuple(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) tuple[i] = py::str(all[i].name);
  return tuple;
}

void need_blocks(const ResultObject& r) {
  if (r.level != TraceLevel::cta)
    throw InputError("", "timeline", "the run kept no blocks", "run with timeline='cta'");
}

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> out;
  for (const T& one : all) out.push_back(one.name);
  return out;
}

std::shared_ptr<Columns> columns(const ResultObject& r, const std::string& which) {
  const auto made = [&]<class Row, class Record>(const std::vector<Record>& records, Row*) {
    return columns_of<Row>(records, [](const Record& record) { return row(record); });
  };
  Columns out;
  if (which == "requests") {
    out = made(r.records.requests, static_cast<RequestRow*>(nullptr));
  } else if (which == "kernels") {
    out = made(r.records.kernels, static_cast<KernelRow*>(nullptr));
  } else if (which == "copies") {
    out = made(r.records.copies, static_cast<CopyRow*>(nullptr));
  } else if (which == "blocks") {
    need_blocks(r);
    out = made(r.records.blocks, static_cast<BlockRow*>(nullptr));
  } else if (which == "counters") {
    if (!r.counters)
      throw InputError("", "counters", "the run kept no counters", "run with counters=True");
    out = made(r.records.counters, static_cast<CounterRow*>(nullptr));
    std::vector<std::string> words;
    for (std::uint32_t i = 0; i < kGauges; ++i) words.emplace_back(to_string(static_cast<Gauge>(i)));
    put_words(out, "counter", words);
  } else {
    throw InputError("", "which", fmt::format("there are no rows '{}'", which),
                     "use requests, kernels, copies, blocks or counters");
  }
  put_words(out, "client", names_of(r.trace->clients));
  put_words(out, "kernel", names_of(r.trace->kernels));
  finish(out);
  return std::make_shared<Columns>(std::move(out));
}

void bind_errors(py::module_& m) {
  // Never destroyed: an error may be on its way when the interpreter ends.
  static py::object* type = nullptr;
  type = new py::object(py::reinterpret_steal<py::object>(
      PyErr_NewExceptionWithDoc((m.attr("__name__").cast<std::string>() + ".InputError").c_str(),
                                "Bad input: which file, where in it, what is wrong, what to do.  Its text is "
                                "that of the `sim` command.",
                                PyExc_ValueError, nullptr)));
  for (const char* part : {"file", "place", "problem", "remedy"}) type->attr(part) = "";
  m.attr("InputError") = *type;
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const InputError& error) {
      py::object object = (*type)(error.what());
      object.attr("file") = error.file();
      object.attr("place") = error.place();
      object.attr("problem") = error.problem();
      object.attr("remedy") = error.remedy();
      PyErr_SetObject(type->ptr(), object.ptr());
    }
  });
}

void bind_policies(py::module_& m) {
  py::class_<Parameter> parameter(m, "Parameter", "A parameter of a registered policy.");
  parameter.def_readonly("name", &Parameter::name)
      .def_readonly("meaning", &Parameter::meaning)
      .def_readonly("default_value", &Parameter::default_value);
  as_record(parameter, {"name", "meaning", "default_value"});
  py::class_<PolicyInfo> info(m, "PolicyInfo", "A registered policy.");
  info.def_readonly("name", &PolicyInfo::name)
      .def_readonly("summary", &PolicyInfo::summary)
      .def_readonly("source", &PolicyInfo::source)
      .def_readonly("parameters", &PolicyInfo::parameters)
      .def_readonly("also_called", &PolicyInfo::also_called)
      .def_readonly("unverified", &PolicyInfo::unverified);
  as_record(info, {"name", "summary", "source", "parameters", "also_called", "unverified"});
  m.def("policies", &policies, "The registered policies, by name.");
}

void bind_result(py::module_& m) {
  PYBIND11_NUMPY_DTYPE(RequestRow, client, request, arrival_ns, started_ns, finished_ns, latency_ns, dropped,
                       work_done_ns);
  PYBIND11_NUMPY_DTYPE(KernelRow, launch, client, request, stream, op, kernel, priority, ctas, blocks,
                       evictions, preemptions, redone_blocks, ready_ns, submitted_ns, queued_ns, slotted_ns,
                       started_ns, last_block_ns, finished_ns);
  PYBIND11_NUMPY_DTYPE(CopyRow, launch, client, request, stream, op, bytes, engine, started_ns, finished_ns);
  PYBIND11_NUMPY_DTYPE(BlockRow, launch, client, kernel, block, sm, lane, start_ns, end_ns);
  PYBIND11_NUMPY_DTYPE(CounterRow, counter, at_ns, value);

  py::class_<ResultObject>(m, "Result", "What a run gave.")
      .def_property_readonly("summary",
                             [](const ResultObject& r) {
                               return py::module_::import("json").attr("loads")(summary(r)).cast<py::dict>();
                             })
      .def_property_readonly("requests",
                             [](const ResultObject& r) { return rows<RequestRow>(r.records.requests); })
      .def_property_readonly("kernels",
                             [](const ResultObject& r) { return rows<KernelRow>(r.records.kernels); })
      .def_property_readonly("copies", [](const ResultObject& r) { return rows<CopyRow>(r.records.copies); })
      .def_property_readonly("blocks",
                             [](const ResultObject& r) {
                               need_blocks(r);
                               return rows<BlockRow>(r.records.blocks);
                             })
      .def("columns", &columns, py::arg("which"), "The same rows by column, with names, for Arrow and pandas.")
      .def("to_pandas",
           [](const py::object& self, const std::string& which) {
             return py::module_::import("corun._show").attr("result_to_pandas")(self, which);
           },
           py::arg("which") = "requests")
      .def("_repr_html_",
           [](const py::object& self) { return py::module_::import("corun._show").attr("result_html")(self); })
      .def_property_readonly("client_names", [](const ResultObject& r) { return names(r.trace->clients); })
      .def_property_readonly("kernel_names", [](const ResultObject& r) { return names(r.trace->kernels); })
      .def_property_readonly("policy", [](const ResultObject& r) { return r.result.policy; })
      .def_property_readonly("wall_s", [](const ResultObject& r) { return r.result.wall_s; })
      .def("perfetto", &write_perfetto, py::arg("path"), "Write the timeline for ui.perfetto.dev.")
      .def("write", &write_all, py::arg("directory"),
           "Write summary.json, requests.csv, kernels.csv and timeline.pftrace, as `sim --out` does.")
      .def("__str__", [](const ResultObject& r) { return format_report(r.result); })
      .def("__repr__", [](const ResultObject& r) {
        return fmt::format("<corun.Result of '{}' under {}: STP {:.3f}, ANTT {:.3f}>", r.result.trace,
                           r.result.policy, r.result.stp, r.result.antt);
      });
}

}  // namespace

void bind_run(py::module_& m) {
  bind_errors(m);
  bind_policies(m);
  bind_columns(m);
  bind_result(m);

  py::class_<TraceObject> traces(m, "Trace", "A workload that can be run, and changed.");
  bind_changes(m, traces);
  traces
      .def_property_readonly("file", [](const TraceObject& t) { return t.file; })
      .def_property_readonly("name", [](const TraceObject& t) { return t.trace->name; })
      .def_property_readonly("about", [](const TraceObject& t) { return t.trace->about; })
      .def_property_readonly("duration_ns",
                             [](const TraceObject& t) {
                               const auto& duration = t.trace->run.duration;
                               return duration ? std::optional(to_ns(*duration)) : std::nullopt;
                             })
      .def_property_readonly("client_names", [](const TraceObject& t) { return names(t.trace->clients); })
      .def_property_readonly("kernel_names", [](const TraceObject& t) { return names(t.trace->kernels); })
      .def_property_readonly("notes",
                             [](const TraceObject& t) {
                               std::vector<std::string> all = t.trace->carried;
                               all.insert(all.end(), t.trace->notes.begin(), t.trace->notes.end());
                               return all;
                             })
      .def("_repr_html_",
           [](const py::object& self) { return py::module_::import("corun._show").attr("trace_html")(self); })
      .def("__repr__",
           [](const TraceObject& t) {
             return fmt::format("<corun.Trace '{}' from {}>", t.trace->name, t.file);
           })
      .def(
          "run",
          [](const TraceObject& t, const py::object& policy, std::optional<std::uint64_t> seed,
             const std::optional<std::string>& duration, const std::optional<std::string>& gpu,
             const std::optional<std::string>& issue, const std::optional<std::string>& timeline,
             bool counters, bool resources, bool audit, bool shortcuts) {
            return run(t, policy, {gpu.value_or(""), duration.value_or(""), issue.value_or(""), seed},
                       timeline, counters, resources, {shortcuts, audit || std::getenv("CORUN_AUDIT") != nullptr});
          },
          py::arg("policy") = "fcfs", py::kw_only(), py::arg("seed") = py::none(),
          py::arg("duration") = py::none(), py::arg("gpu") = py::none(), py::arg("issue") = py::none(),
          py::arg("timeline") = "kernel", py::arg("counters") = false, py::arg("resources") = false, py::arg("audit") = false,
          py::arg("shortcuts") = true, "Simulate, and each client alone for what it is compared with.");

  m.def(
      "load",
      [](const std::filesystem::path& file, const std::optional<std::string>& gpu,
         const std::optional<std::filesystem::path>& counters) {
        const py::gil_scoped_release release;
        Trace trace = sim::read_input(file.string(), gpu.value_or(""),
                                      counters.value_or(std::filesystem::path()).string());
        if (gpu) sim::put_on(trace, file.string(), *gpu);
        return TraceObject{file.string(), std::make_shared<const Trace>(std::move(trace)),
                           std::make_shared<Shared>()};
      },
      py::arg("path"), py::kw_only(), py::arg("gpu") = py::none(), py::arg("counters") = py::none(),
      "Read a trace (traces/FORMAT.md) or a PyTorch profiler trace, plain or gzip; `counters`: what\n"
      "`ncu --csv` printed of the program that the profiler recorded.");
}

}  // namespace corun::python
