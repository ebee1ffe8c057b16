#include "python/native/bind.h"
#include "python/native/trace_object.h"

namespace corun::python {

void bind_all(py::module_& m) {
  m.attr("__version__") = CORUN_VERSION;
  bind_model(m);
  bind_decisions(m);
  bind_snapshot(m);
  bind_run(m);
  bind_sweep(m);
}

}  // namespace corun::python

PYBIND11_MODULE(_native, m) {
  m.doc() = "The simulator; use it through the package `corun`.";
  corun::python::bind_all(m);
}
