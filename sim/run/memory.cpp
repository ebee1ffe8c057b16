#include "sim/run/memory.h"

#include "sim/run/profile.h"

namespace corun::sim {

Profile Memory::OnPlace::profile(const Kernel& kernel, bool by_sm) {
  return profiles_.of({kernel, by_sm}, [&] {
    Shape on_instance;
    const bool instance = place.gpu != place.whole;
    if (instance) on_instance = shapes.of(kernel, kernel.solo_time.value_or(Time{}), place.gpu.sms);
    const Shape* shape = instance ? &on_instance : nullptr;
    return by_sm ? profile_by_sm(kernel, place.gpu, shape, place.contention)
                 : profile_kernel(kernel, place.gpu, {}, shape, place.contention);
  });
}

}  // namespace corun::sim
