// A policy whose decisions Python code makes: any object with `name`, `requirements`, `start` and `decide`.
#pragma once

#include "python/native/bind.h"

namespace corun::python {

class __attribute__((visibility("hidden"))) PythonPolicy final : public Policy {
 public:
  /// `owner` keeps the trace alive for what the policy holds on to; may be null if the trace outlives it.
  /// The caller holds the GIL, here and at destruction.
  explicit PythonPolicy(py::object object, Owner owner = {});

  std::string_view name() const override { return name_; }
  Requirements requirements() const override;
  void start(const Topology& topology, std::span<const ClientView> clients) override;
  void decide(const Snapshot& snapshot, std::vector<Decision>& decisions) override;

 private:
  py::object object_, decide_;
  Owner owner_;
  std::string name_;
};

}  // namespace corun::python
