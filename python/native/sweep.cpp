// What the commands `sweep` and `advise` do, and clients that are composed, from Python.
#include "sim/sweep/sweep.h"

#include <fmt/format.h>

#include "policies/api/registry.h"
#include "python/native/trace_object.h"
#include "sim/advise/advice_json.h"
#include "sim/input/compose.h"
#include "sim/input/load.h"
#include "traces/model/error.h"

namespace corun::python {
namespace {

using Changes = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::vector<sim::Point> points(std::vector<std::string> traces, std::vector<std::string> gpus, Changes changes,
                               std::vector<std::uint64_t> seeds, const std::string& duration,
                               std::vector<std::string> policies) {
  for (const auto& [name, values] : changes)
    for (const std::string& value : values) (void)sim::parse_change(name + "=" + value);
  for (const std::string& policy : policies) make_policy(policy);
  return sim::points_of({std::move(traces), std::move(gpus), std::move(policies), std::move(changes), std::move(seeds),
                         duration});
}

py::dict json(const std::string& text) {
  return py::module_::import("json").attr("loads")(text).cast<py::dict>();
}

/// Ctrl-C ends what is under way.
void interrupt() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

py::dict advise(const TraceObject& t, const std::vector<std::string>& slo, const std::string& maximize,
                const std::vector<std::string>& gpus, const std::vector<std::string>& modes, const std::string& rate_of,
                const std::vector<std::uint64_t>& seeds) {
  const Trace& trace = *t.trace;
  sim::AdviseOptions options;
  options.slos = sim::promised(slo, trace);
  options.goal = sim::parse_goal(maximize, trace);
  for (const std::string& mode : modes) options.modes.push_back(sim::parse_mode(mode));
  options.seeds = seeds.empty() ? usual_seeds(trace) : seeds;
  options.threads = 1;  // interrupts are asked for in the caller's thread
  options.interrupt = interrupt;
  std::optional<std::size_t> number;
  for (std::size_t i = 0; i < trace.clients.size(); ++i)
    if (trace.clients[i].name == rate_of) number = i;
  if (!number && !rate_of.empty())
    throw InputError("", "highest_rate", fmt::format("there is no client '{}'", rate_of), "name a client of the trace");
  std::string text;
  {
    const py::gil_scoped_release release;
    const Gpu from = read_gpu(trace.gpu, std::filesystem::path(t.file).parent_path());
    std::vector<sim::AdvisedCard> cards;
    if (gpus.empty()) cards.push_back(sim::card_of(trace, from, from));
    for (const std::string& name : gpus) cards.push_back(sim::card_of(trace, from, read_gpu(name)));
    const sim::Advice advice = sim::advise(cards, options);
    std::optional<sim::HighestRate> rate;
    if (const auto shown = advice.best ? advice.best : advice.nearest; number && shown) {
      const sim::Tried& tried = advice.tried[*shown];
      rate = sim::highest_rate(cards[tried.card], tried.setting, *number, options);
    }
    text = sim::advice_json(cards, options, advice, sim::what_would_change(cards, advice, options), rate);
  }
  return json(text);
}

}  // namespace

void bind_sweep(py::module_& m) {
  py::class_<sim::Point>(m, "SweepPoint", "One run of a sweep.")
      .def_readonly("trace", &sim::Point::trace)
      .def_readonly("gpu", &sim::Point::gpu)
      .def_readonly("changes", &sim::Point::changes)
      .def_readonly("seed", &sim::Point::seed)
      .def_readonly("duration", &sim::Point::duration)
      .def_readonly("policy", &sim::Point::policy)
      .def(py::pickle(
          [](const sim::Point& p) {
            return py::make_tuple(p.trace, p.gpu, p.changes, p.seed, p.duration, p.policy);
          },
          [](const py::tuple& t) {
            return sim::Point{t[0].cast<std::string>(),
                              t[1].cast<std::string>(),
                              t[2].cast<std::vector<std::pair<std::string, std::string>>>(),
                              t[3].cast<std::optional<std::uint64_t>>(),
                              t[4].cast<std::string>(),
                              t[5].cast<std::string>()};
          }));
  m.def("sweep_points", &points, py::arg("traces"), py::arg("gpus"), py::arg("changes"), py::arg("seeds"),
        py::arg("duration"), py::arg("policies"), "The points of a grid, policies changing fastest.");
  m.def(
      "run_points",
      [](const std::vector<sim::Point>& all) {
        std::vector<std::string> lines(all.size());
        const py::gil_scoped_release release;
        sim::SweepOptions options;
        options.threads = 1;
        options.interrupt = interrupt;
        options.done = [&](std::size_t i, const std::string& line, bool) { lines[i] = line; };
        sim::sweep(all, [](const std::string& file) { return sim::read_input(file, ""); }, options);
        return lines;
      },
      py::arg("points"), "The JSON line of each point, run in this process one after the other.");
  m.def(
      "hash_points",
      [](const std::vector<sim::Point>& all) {
        const py::gil_scoped_release release;
        std::vector<std::string> hashes;
        std::unique_ptr<sim::Prepared> prepared;
        for (std::size_t i = 0; i < all.size(); ++i) try {
            if (i == 0 || !prepared || !sim::Prepared::same(all[i - 1], all[i])) {
              prepared.reset();
              prepared = std::make_unique<sim::Prepared>(all[i], [](const std::string& file) { return sim::read_input(file, ""); });
            }
            hashes.push_back(prepared->hash(all[i].policy));
          } catch (const InputError&) {  // its run tells why
            hashes.push_back(sim::hash_of_request(all[i]));
          }
        return hashes;
      },
      py::arg("points"), "What each point's line is known by.");
  m.def("line_again", &sim::line_again, py::arg("point"), py::arg("known"),
        "A line that was written before, under what the point is called now.");
  m.def(
      "compose",
      [](const std::vector<std::string>& clients, const std::optional<std::string>& gpu) {
        const py::gil_scoped_release release;
        Trace trace = sim::compose(clients, gpu.value_or(""));
        return TraceObject{"", std::make_shared<const Trace>(std::move(trace)), std::make_shared<Shared>()};
      },
      py::arg("clients"), py::kw_only(), py::arg("gpu") = py::none(),
      "Clients side by side, each as `sim --client` takes it: \"cam=resnet.json,rt,rate=50,slo=20ms\".");
  m.def("advise", &advise, py::arg("trace"), py::kw_only(), py::arg("slo") = std::vector<std::string>{},
        py::arg("maximize") = "stp", py::arg("gpus") = std::vector<std::string>{},
        py::arg("modes") = std::vector<std::string>{}, py::arg("highest_rate") = "",
        py::arg("seeds") = std::vector<std::uint64_t>{},
        "Which setting keeps what was promised: the document of `sim advise --json`.");
}

}  // namespace corun::python
