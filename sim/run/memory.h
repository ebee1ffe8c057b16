// Knowledge that runs share, whatever their traces and policies, keyed by content: kernels' shapes and profiles on a card, and
// clients' runs alone there.  May be used from threads.
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
  /// The key: all of a card and a run's options that decides what kernels and clients do.
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
    /// Solo times of the kernel as a persistent kernel, by CTAs or by SMs.
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
