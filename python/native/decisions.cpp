#include <numeric>

#include "python/native/bind.h"

namespace corun::python {
namespace {

using py::arg;

std::uint32_t total(std::uint32_t ctas, const decide::CtasPerSm& per_sm) {
  const auto sum = std::accumulate(per_sm.begin(), per_sm.end(), std::uint32_t{0});
  if (!per_sm.empty() && ctas != 0 && ctas != sum)
    throw py::value_error("ctas is " + std::to_string(ctas) + ", but ctas_per_sm adds up to " +
                          std::to_string(sum));
  return per_sm.empty() ? ctas : sum;
}

void bind_requirements(py::module_& m) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < kCapabilities; ++i)
    names.emplace_back(to_string(static_cast<Capability>(i)));
  bind_enum<Capability>(m, "Capability", names);
  bind_enum<Contexts>(m, "Contexts", {"one", "per_process"});

  py::class_<Requirements> requirements(m, "Requirements",
                                        "What a policy needs; refused at the start if missing.");
  requirements
      .def(py::init([](CapabilitySet capabilities, Contexts contexts, bool profiles, bool memory,
                       bool deferred_memory, std::vector<double> thread_percentages, bool kernels) {
             Requirements r;
             r.capabilities = capabilities;
             r.contexts = contexts;
             r.profiles = profiles;
             r.memory = memory;
             r.deferred_memory = deferred_memory;
             r.thread_percentages = std::move(thread_percentages);
             r.kernels = kernels;
             return r;
           }),
           arg("capabilities"), arg("contexts") = Contexts::one, py::kw_only(), arg("profiles") = false,
           arg("memory") = false, arg("deferred_memory") = false,
           arg("thread_percentages") = std::vector<double>{}, arg("kernels") = false)
      .def_readwrite("capabilities", &Requirements::capabilities)
      .def_readwrite("contexts", &Requirements::contexts)
      .def_readwrite("profiles", &Requirements::profiles)
      .def_readwrite("memory", &Requirements::memory)
      .def_readwrite("deferred_memory", &Requirements::deferred_memory)
      .def_readwrite("thread_percentages", &Requirements::thread_percentages)
      .def_readwrite("kernels", &Requirements::kernels);
  as_record(requirements,
            {"capabilities", "contexts", "profiles", "memory", "deferred_memory", "thread_percentages", "kernels"});
}

}  // namespace

void bind_decisions(py::module_& m) {
  using namespace decide;
  bind_requirements(m);

  py::class_<decide::Launch> launch(m, "Launch", "Hand a pending launch to the GPU.");
  launch
      .def(py::init([](LaunchId id, std::int32_t priority, std::optional<TpcMask> mask, std::uint32_t ctas,
                       CtasPerSm per_sm) {
             const std::uint32_t sum = total(ctas, per_sm);
             return decide::Launch{id, priority, mask, sum, std::move(per_sm)};
           }),
           arg("launch"), py::kw_only(), arg("priority") = 0, arg("tpc_mask") = py::none(), arg("ctas") = 0,
           arg("ctas_per_sm") = CtasPerSm{})
      .def_readwrite("launch", &decide::Launch::launch)
      .def_readwrite("priority", &decide::Launch::priority)
      .def_readwrite("tpc_mask", &decide::Launch::tpc_mask)
      .def_readwrite("ctas", &decide::Launch::ctas)
      .def_readwrite("ctas_per_sm", &decide::Launch::ctas_per_sm);
  as_record(launch, {"launch", "priority", "tpc_mask", "ctas", "ctas_per_sm"});

  py::class_<Resize> resize(m, "Resize", "Give a persistent launch another number of CTAs.");
  resize
      .def(py::init([](LaunchId id, std::uint32_t ctas, CtasPerSm per_sm) {
             const std::uint32_t sum = total(ctas, per_sm);
             return Resize{id, sum, std::move(per_sm)};
           }),
           arg("launch"), arg("ctas") = 0, py::kw_only(), arg("ctas_per_sm") = CtasPerSm{})
      .def_readwrite("launch", &Resize::launch)
      .def_readwrite("ctas", &Resize::ctas)
      .def_readwrite("ctas_per_sm", &Resize::ctas_per_sm);
  as_record(resize, {"launch", "ctas", "ctas_per_sm"});

  py::class_<LaunchPadded> padded(m, "LaunchPadded",
                                  "Launch two pending launches of two clients as one grid.");
  padded
      .def(py::init([](LaunchId id, std::uint32_t sms, LaunchId padding, std::uint64_t padding_blocks,
                       std::int32_t priority) {
             return LaunchPadded{id, priority, sms, padding, padding_blocks};
           }),
           arg("launch"), py::kw_only(), arg("sms"), arg("padding"), arg("padding_blocks"),
           arg("priority") = 0)
      .def_readwrite("launch", &LaunchPadded::launch)
      .def_readwrite("priority", &LaunchPadded::priority)
      .def_readwrite("sms", &LaunchPadded::sms)
      .def_readwrite("padding", &LaunchPadded::padding)
      .def_readwrite("padding_blocks", &LaunchPadded::padding_blocks);
  as_record(padded, {"launch", "priority", "sms", "padding", "padding_blocks"});

  bind_enum<Stop>(m, "Stop", {"at_block", "reset"});
  py::class_<Preempt> preempt(m, "Preempt",
                              "Take a launch off the GPU, with what is behind it in its stream.");
  preempt
      .def(py::init([](LaunchId id, Stop how) { return Preempt{id, how}; }), arg("launch"),
           arg("how") = Stop::at_block)
      .def_readwrite("launch", &Preempt::launch)
      .def_readwrite("how", &Preempt::how);
  as_record(preempt, {"launch", "how"});

  py::class_<Allocate> allocate(m, "Allocate", "Grant a pending allocation.");
  allocate.def(py::init([](LaunchId id) { return Allocate{id}; }), arg("allocation"))
      .def_readwrite("allocation", &Allocate::allocation);
  as_record(allocate, {"allocation"});

  py::class_<Checkpoint> checkpoint(m, "Checkpoint", "Copy a buffer to the host and free its device memory.");
  checkpoint.def(py::init([](BufferId buffer) { return Checkpoint{buffer}; }), arg("buffer"))
      .def_readwrite("buffer", &Checkpoint::buffer);
  as_record(checkpoint, {"buffer"});

  py::class_<Restore> restore(m, "Restore", "Bring a buffer back to the device.");
  restore.def(py::init([](BufferId buffer) { return Restore{buffer}; }), arg("buffer"))
      .def_readwrite("buffer", &Restore::buffer);
  as_record(restore, {"buffer"});

  py::class_<Query> query(m, "Query", "Ask how many blocks are done; answered by ProgressReported.");
  query.def(py::init([](LaunchId id) { return Query{id}; }), arg("launch"))
      .def_readwrite("launch", &Query::launch);
  as_record(query, {"launch"});

  py::class_<WakeAt> wake(m, "WakeAt", "Ask again at this time, whatever happens.");
  wake.def(py::init([](Time at) { return WakeAt{at}; }), arg("at_ps")).def_readwrite("at_ps", &WakeAt::at);
  as_record(wake, {"at_ps"});
}

}  // namespace corun::python
