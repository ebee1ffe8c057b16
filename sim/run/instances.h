// The instances of a GPU that is divided by MIG, each a GPU of its own for the runs that take place there.
//
// Leaves out: what instances share all the same (clock, power limit, PCIe link, the latencies of the whole
// GPU's crossbar), and that a kernel finds less of its data in an instance's smaller L2.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "policies/api/policy.h"
#include "sim/run/run.h"
#include "traces/model/gpu.h"
#include "traces/model/mig.h"

namespace corun::sim {

class Instances {
 public:
  explicit Instances(const Gpu& whole, bool contention = true) : whole_(whole), contention_(contention) {}

  /// Returns how many SMs each has.  Throws InputError where the GPU cannot be divided so.
  std::vector<std::uint32_t> make(const std::vector<Instance>& wanted);

  /// Of those that were made; valid as long as this.
  const Gpu& gpu(const std::string& profile) const { return parts_.at(profile)->gpu; }
  Common& common(const std::string& profile) const { return parts_.at(profile)->common; }
  /// What a reader must know of them; empty: the GPU is not divided.
  std::vector<std::string> notes() const;

 private:
  struct Part {
    Part(const Gpu& whole, Gpu instance, bool contention)
        : gpu(std::move(instance)), common(std::make_shared<Shapes>(whole, gpu, contention)) {}
    Gpu gpu;
    Common common;
  };

  const Gpu& whole_;
  const bool contention_;
  std::map<std::string, std::unique_ptr<Part>> parts_;  // by profile
  std::vector<Instance> made_;
};

/// The divisions of a GPU into `instances` of which none can be larger beside the others, as the values of
/// mig:profile= ("3g.71gb/4g.71gb"), in every order.  Empty: the GPU cannot be divided, or not into as many.
std::vector<std::string> divisions(const Gpu& gpu, std::size_t instances);

}  // namespace corun::sim
