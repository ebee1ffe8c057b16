// What runs share, whatever their traces and policies, known by content: what kernels are like on a card, and
// what clients do alone there.  May be used from threads.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "policies/session/made_once.h"
#include "policies/session/profile_file.h"
#include "policies/session/run.h"
#include "sim/backend/shapes.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

class Memory {
 public:
  /// Where a run takes place, by all that decides what kernels and clients do there.
  struct Place {
    Gpu whole, gpu;  // another one: an instance of it
    bool contention = true;
    std::optional<HostCosts> host{};  // of the thread that issues for all
    bool operator==(const Place&) const = default;
  };
  struct OnPlace {
    explicit OnPlace(const Place& at)
        : place(at),
          shapes(at.gpu == at.whole ? Shapes(at.whole, at.contention)
                                    : Shapes(at.whole, at.gpu, at.contention)) {}
    /// Of a kernel as a persistent kernel, by CTAs or by SMs.
    Profile profile(const Kernel& kernel, bool by_sm);

    const Place place;
    Shapes shapes;
    AloneRuns alone{};

   private:
    MadeOnce<std::pair<Kernel, bool>, Profile> profiles_{};
  };
  /// Valid as long as this.
  OnPlace& at(const Place& place) {
    return *places_.of(place, [&] { return std::make_shared<OnPlace>(place); });
  }

 private:
  MadeOnce<Place, std::shared_ptr<OnPlace>> places_;
};

}  // namespace corun::sim
