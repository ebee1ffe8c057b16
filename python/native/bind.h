// The parts of the extension module `corun._native`.  Every source of it includes this file, so that all see
// the same casters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policies/api/policy.h"
#include "python/native/casters.h"
#include "traces/model/trace.h"

namespace corun::python {

namespace py = pybind11;

void bind_model(py::module_& m);      // GPUs, kernels, clients: what a policy may read of a workload
void bind_decisions(py::module_& m);  // decisions, requirements
void bind_snapshot(py::module_& m);   // what a policy sees
void bind_run(py::module_& m);        // load, run, results
void bind_all(py::module_& m);

/// Keeps what views point into alive.
using Owner = std::shared_ptr<const void>;

/// A Python object that is part of something with another owner.
template <class T>
std::shared_ptr<T> part_of(const Owner& owner, const T* part) {
  return std::shared_ptr<T>(std::const_pointer_cast<void>(owner), const_cast<T*>(part));
}

/// A snapshot of one call of decide(): later its spans dangle, and it says so.
struct Lease {
  const Snapshot* snapshot = nullptr;
  Owner owner;
};
struct SnapshotObject {
  std::shared_ptr<Lease> lease;
  const Snapshot& get() const {
    if (!lease->snapshot)
      throw std::runtime_error("a Snapshot may only be read during the decide() that it was given to");
    return *lease->snapshot;
  }
};

/// Copies, good for ever.
struct LaunchObject {
  LaunchView view;
  Owner owner;
};
struct ClientObject {
  ClientView view;
  Owner owner;
};

/// A Python enumeration of these names, in the order of their values from 0.
template <class E>
void bind_enum(py::module_& m, const char* name, const std::vector<std::string>& names) {
  py::dict values;
  for (const std::string& n : names) values[py::str(n)] = values.size();
  const py::object made =
      py::module_::import("enum").attr("Enum")(name, values, py::arg("module") = m.attr("__name__"));
  for (const std::string& n : names) members<E>().push_back(made.attr(n.c_str()));
  m.attr(name) = made;
}

/// `repr` and `==` by these attributes.
template <class Class>
void as_record(Class& c, std::vector<const char*> attributes) {
  c.def("__repr__", [attributes](const py::object& self) {
    std::string text = py::str(py::type::of(self).attr("__name__")).template cast<std::string>() + "(";
    for (const char* a : attributes)
      text += (text.back() == '(' ? "" : ", ") + std::string(a) + "=" +
              py::repr(self.attr(a)).template cast<std::string>();
    return text + ")";
  });
  c.def("__eq__", [attributes](const py::object& self, const py::object& other) {
    if (!py::type::of(self).is(py::type::of(other))) return false;
    for (const char* a : attributes)
      if (!self.attr(a).equal(other.attr(a))) return false;
    return true;
  });
}

}  // namespace corun::python
