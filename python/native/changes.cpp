// Traces that are changed from Python: the settings of clients are those of the command line.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "python/native/trace_object.h"
#include "sim/input/client_settings.h"
#include "traces/json/duration.h"
#include "traces/json/output_file.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::python {
namespace {

template <class Change>
void change(TraceObject& t, const Change& how) {
  Trace changed = *t.trace;
  how(changed);
  t.trace = std::make_shared<const Trace>(std::move(changed));
  t.shared = std::make_shared<Shared>();
}

/// A GPU that is the path of a description, from another folder.  A name stays.
std::string seen_from(const std::string& gpu, const std::filesystem::path& folder, const std::filesystem::path& to) {
  if (std::filesystem::path(gpu).is_absolute()) return gpu;  // as who set it wanted
  std::error_code none;
  if (gpu.empty() || std::ranges::count(gpu_names(), gpu) != 0 || !std::filesystem::exists(folder / gpu, none)) return gpu;
  const std::filesystem::path there = std::filesystem::proximate(folder / gpu, to.empty() ? "." : to, none);
  return none ? gpu : there.generic_string();
}

/// One of a trace's clients, by its number; the trace outlives it.
struct ClientHandle {
  TraceObject* trace;
  std::size_t number;

  const Client& get() const { return trace->trace->clients[number]; }
  void set(const std::vector<std::pair<std::string, std::string>>& settings) const {
    std::vector<sim::ClientSetting> parsed;
    const std::string place = "client " + get().name;
    for (const auto& [key, value] : settings)
      parsed.push_back(sim::parse_client_setting(value.empty() ? key : key + "=" + value, place));
    sim::check_client_settings(parsed, place);
    change(*trace, [&](Trace& to) { sim::apply_client_settings(to.clients[number], parsed, place, to.notes); });
  }
};

ClientHandle client_of(TraceObject& t, const std::string& name) {
  std::vector<std::string> names;
  for (const Client& client : t.trace->clients) {
    if (client.name == name) return {&t, names.size()};
    names.push_back(client.name);
  }
  throw InputError(t.file, "", fmt::format("there is no client {}{}", in_quotes(name), did_you_mean(name, names)),
                   fmt::format("use one of {}", list_names(names)));
}

std::optional<double> rate_of(const Client& client) {
  if (const auto* periodic = std::get_if<Periodic>(&client.arrivals)) return 1e9 / to_ns(periodic->period);
  if (const auto* poisson = std::get_if<Poisson>(&client.arrivals)) return poisson->rate_per_s;
  const auto* recorded = std::get_if<ExplicitTimes>(&client.arrivals);
  if (recorded == nullptr || recorded->times.size() < 2) return std::nullopt;
  return static_cast<double>(recorded->times.size() - 1) /
         (to_ns(recorded->times.back() - recorded->times.front()) * 1e-9);
}

/// As the settings want it: "80", "0.5", "20ms".
std::string text_of(const py::handle& value) {
  return value.is_none() || value.is(py::handle(Py_True)) ? "" : py::str(value).cast<std::string>();
}

/// A number is requests/s, a share or a priority; a time is text with a unit.
template <class Get>
void setting(py::class_<ClientHandle>& clients, const char* name, const char* key, Get get, const char* doc) {
  clients.def_property(
      name, [get](const ClientHandle& c) { return get(c.get()); },
      [key](const ClientHandle& c, const py::object& value) { c.set({{key, text_of(value)}}); }, doc);
}

std::optional<double> ns_of(const std::optional<Time>& time) {
  return time ? std::optional(to_ns(*time)) : std::nullopt;
}

}  // namespace

void bind_changes(py::module_& m, py::class_<TraceObject>& traces) {
  py::class_<ClientHandle> clients(m, "TraceClient", "A client of a Trace; what is set here holds for later runs.");
  clients.def_property_readonly("name", [](const ClientHandle& c) { return c.get().name; });
  setting(clients, "rate", "rate", rate_of,
          "Requests a second; None for one whose requests follow each other.  Set, it keeps the kind of arrivals, and\n"
          "makes a closed loop periodic.");
  setting(clients, "priority", "priority", [](const Client& c) { return c.priority; }, "0 lowest, -5 highest.");
  setting(clients, "quota", "quota", [](const Client& c) { return c.quota; }, "Most of the GPU it may hold, 0 to 1.");
  setting(clients, "reservation", "reservation", [](const Client& c) { return c.reservation; },
          "Least of the GPU it is promised, 0 to 1.");
  setting(clients, "memory_bytes", "memory", [](const Client& c) { return c.memory_bytes; },
          "Device memory it holds; set as bytes or \"4GB\".");
  setting(clients, "deadline_ns", "slo", [](const Client& c) { return ns_of(c.deadline); },
          "From the intended arrival; set as \"20ms\".");
  clients
      .def_property_readonly(
          "host_stalls",
          [](const ClientHandle& c) -> std::optional<std::pair<double, std::vector<std::pair<double, double>>>> {
            const auto& record = c.get().host_stalls;
            if (!record) return std::nullopt;
            std::vector<std::pair<double, double>> stalls;
            for (const HostStalls::Stall& s : record->stalls) stalls.emplace_back(to_ns(s.at), to_ns(s.lasting));
            return std::pair{to_ns(record->observed), std::move(stalls)};
          },
          "How long its host was watched and when it stood still, (ns, [(at, lasting), ...]); None: it never does.  set(steady=True)\n"
          "leaves that out.")
      .def_property_readonly("real_time",
                             [](const ClientHandle& c) { return c.get().service_class == ServiceClass::real_time; })
      .def(
          "set",
          [](const ClientHandle& c, const py::kwargs& settings) {
            std::vector<std::pair<std::string, std::string>> all;
            for (const auto& [key, value] : settings)
              if (!value.is(py::handle(Py_False))) all.emplace_back(py::str(key).cast<std::string>(), text_of(value));
            c.set(all);
          },
          "The settings of `sim --client`, as set(rt=True, poisson=80, slo=\"20ms\", queue=True).")
      .def("__repr__", [](const ClientHandle& c) { return fmt::format("<corun.TraceClient '{}'>", c.get().name); });

  traces
      .def("client", &client_of, py::arg("name"), py::keep_alive<0, 1>(), "A client, to be read and changed.")
      .def_property(
          "gpu", [](const TraceObject& t) { return t.trace->gpu; },
          [](TraceObject& t, const std::string& gpu) {
            const std::string found = locate_gpu(gpu);
            change(t, [&](Trace& to) { to.gpu = found; });
          },
          "A name of gpus(), or a path.  Set, the kernels' times are taken as times of that GPU.")
      .def_property(
          "seed", [](const TraceObject& t) { return t.trace->run.seed; },
          [](TraceObject& t, std::uint64_t seed) { change(t, [&](Trace& to) { to.run.seed = seed; }); })
      .def(
          "set_duration",
          [](TraceObject& t, const std::string& duration) {
            const Time length = parse_duration(duration, "duration");
            if (length <= t.trace->run.warm_up)
              throw InputError("", "duration", "the run would end within its warm-up", "make it longer");
            change(t, [&](Trace& to) { to.run.duration = length; });
          },
          py::arg("duration"), "Length of a run, as \"200ms\".")
      .def("copy", [](const TraceObject& t) { return TraceObject{t.file, t.trace, t.shared}; },
           "A trace that can be changed apart from this one.")
      .def(
          "save",
          [](const TraceObject& t, const std::filesystem::path& path) {
            Trace trace = *t.trace;
            trace.gpu = seen_from(trace.gpu, std::filesystem::path(t.file).parent_path(), path.parent_path());
            OutputFile out(path);
            write_trace(trace, out.stream(), schema_from(path, "trace"));
            out.close();
          },
          py::arg("path"), "Write it as a trace (traces/FORMAT.md), whole or not at all.");
}

}  // namespace corun::python
