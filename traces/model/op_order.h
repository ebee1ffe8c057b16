// The order that a program's operations must keep: each follows its predecessor in its stream, those named by
// `after`, and, where the host waits (sync), all that was issued before.  Boost.Graph behind a handful of
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "traces/model/ids.h"
#include "traces/model/trace.h"

namespace corun {

class OpOrder {
 public:
  explicit OpOrder(const Program& program);

  /// What the GPU itself must wait for beyond the stream's order (cudaStreamWaitEvent), ascending.
  std::span<const OpId> follows(OpId op) const { return follows_.of(op); }
  /// The same and its predecessor in its stream.
  std::span<const OpId> predecessors(OpId op) const { return predecessors_.of(op); }
  std::span<const OpId> successors(OpId op) const { return successors_.of(op); }
  /// The order in which the host calls: the program's, but never before what `after` names.
  std::span<const OpId> issue_order() const { return issue_order_; }
  /// Operations on a cycle, each waiting for the next one and the last for the first; empty if there is none.
  std::span<const OpId> cycle() const { return cycle_; }

 private:
  /// Those of one operation after those of another, so that a program's go through the cache in its order.
  class Lists {
   public:
    explicit Lists(const std::vector<std::vector<OpId>>& by_op);
    std::span<const OpId> of(OpId op) const { return {all_.data() + begins_[op.value], all_.data() + begins_[op.value + 1]}; }

   private:
    std::vector<std::uint32_t> begins_;  // by op, and the end
    std::vector<OpId> all_;
  };
  Lists follows_{{}}, predecessors_{{}}, successors_{{}};
  std::vector<OpId> issue_order_;
  std::vector<OpId> cycle_;
};

}  // namespace corun
