// A trace on a GPU that is divided by MIG: each instance is a GPU with its part of the clients and a session.
//
// Leaves out: what instances share all the same (clock, power limit, PCIe link, the latencies of the whole
// GPU's crossbar), and that a kernel finds less of its data in an instance's smaller L2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/api/policy.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// The instances as GPUs.  Throws InputError where the GPU cannot be divided so.
std::vector<Gpu> instances_of(const Gpu& whole, const std::vector<Instance>& wanted);

/// The divisions of a GPU into `instances` of which none can be larger beside the others, as the values of
/// mig:profile= ("3g.71gb/4g.71gb"), in every order.  Empty: the GPU cannot be divided, or not into as many.
std::vector<std::string> divisions(const Gpu& gpu, std::size_t instances);

struct InstancePart {
  std::uint32_t number;  // of the instance
  Instance instance;
  std::vector<ClientId> clients;  // of the whole trace, by their numbers in the part
  Trace trace;                    // with these clients
};

/// Clients that no instance names go to the instances in turn, if none is named at all.  Instances without
/// clients are left out.  Throws InputError for a client that is not in the trace, or in no instance or two.
std::vector<InstancePart> divide(const Trace& trace, const std::vector<Instance>& instances);

/// Hands records of a part on as of the whole.
class OfTheWhole final : public Sink {
 public:
  /// `number` of the part: the launches of each have serials of their own.  `first_sm`: of its instance, where
  /// instances lie side by side in their order.  `to` and `part` must outlive it.
  OfTheWhole(Sink& to, const InstancePart& part, std::uint32_t number, std::uint32_t first_sm)
      : to_(to), clients_(part.clients), first_serial_(number << 28), first_sm_(first_sm) {}

  using Sink::record;  // turns, and how full a part is, mean nothing beside those of other parts
  void record(const RequestRecord& r) override { to_.record(renamed(r)); }
  void record(const KernelRecord& r) override { to_.record(renumbered(r)); }
  void record(std::span<const BlockRecord> blocks) override {
    std::vector<BlockRecord> all;
    for (const BlockRecord& b : blocks) {
      all.push_back(renumbered(b));
      all.back().sm.value += first_sm_;
    }
    to_.record(std::span<const BlockRecord>(all));
  }
  void record(const CopyRecord& r) override { to_.record(renumbered(r)); }
  void record(const MoveRecord& r) override { to_.record(renamed(r)); }
  void record(const PreemptionRecord& r) override { to_.record(renamed(r)); }
  bool wants_blocks() const override { return to_.wants_blocks(); }

 private:
  template <class Record>
  Record renamed(Record r) const {
    r.client = clients_[r.client.value];
    return r;
  }
  template <class Record>
  Record renumbered(Record r) const {
    r.launch.serial += first_serial_;
    return renamed(std::move(r));
  }

  Sink& to_;
  const std::vector<ClientId>& clients_;
  std::uint32_t first_serial_, first_sm_;
};

}  // namespace corun
