#include "python/native/policy.h"

namespace corun::python {

PythonPolicy::PythonPolicy(py::object object, Owner owner)
    : object_(std::move(object)), owner_(std::move(owner)) {
  if (PyType_Check(object_.ptr()))
    throw py::type_error("policy: an object of the class, not the class itself; write policy=" +
                         object_.attr("__name__").cast<std::string>() + "()");
  for (const char* needed : {"name", "requirements", "start", "decide"})
    if (!py::hasattr(object_, needed))
      throw py::type_error("policy: " + py::repr(object_).cast<std::string>() + " has no '" + needed +
                           "'; give a name as `sim --policy=help` lists them, or a corun.Policy");
  name_ = object_.attr("name").cast<std::string>();
  decide_ = object_.attr("decide");
}

Requirements PythonPolicy::requirements() const {
  const py::gil_scoped_acquire gil;
  const py::object requirements = object_.attr("requirements");
  if (!py::isinstance<Requirements>(requirements))
    throw py::type_error("policy " + name_ + ": its requirements are no corun.Requirements but " +
                         py::repr(requirements).cast<std::string>());
  return requirements.cast<Requirements>();
}

void PythonPolicy::start(const Topology& topology, std::span<const ClientView> clients) {
  const py::gil_scoped_acquire gil;
  py::list views;
  for (const ClientView& c : clients) views.append(ClientObject{c, owner_});
  object_.attr("start")(std::make_shared<Topology>(topology), views);
}

void PythonPolicy::decide(const Snapshot& snapshot, std::vector<Decision>& decisions) {
  const py::gil_scoped_acquire gil;
  const auto lease = std::make_shared<Lease>(Lease{&snapshot, owner_});
  struct End {
    Lease& lease;
    ~End() { lease.snapshot = nullptr; }
  } const end{*lease};
  const py::object decided = decide_(SnapshotObject{lease});
  if (!py::isinstance<py::iterable>(decided))
    throw py::type_error("policy " + name_ + ": decide() gave " + py::repr(decided).cast<std::string>() +
                         " instead of a list of decisions");
  for (const py::handle one : decided) {
    py::detail::make_caster<Decision> caster;
    if (!caster.load(one, false))
      throw py::type_error("policy " + name_ + ": decide() gave " + py::repr(one).cast<std::string>() +
                           ", which is no decision");
    decisions.push_back(py::detail::cast_op<Decision&>(caster));
  }
}

}  // namespace corun::python
