#include "hw/capture/cupti_functions.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <initializer_list>

namespace corun::capture {
namespace {

template <typename F>
bool find(void* library, F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

bool take(void* library, Cupti& c) {
  if (library == nullptr) return false;
  find(library, c.finalize, "cuptiFinalize");
  return find(library, c.subscribe, "cuptiSubscribe") && find(library, c.unsubscribe, "cuptiUnsubscribe") &&
         find(library, c.enable_callback, "cuptiEnableCallback") &&
         find(library, c.register_callbacks, "cuptiActivityRegisterCallbacks") && find(library, c.enable, "cuptiActivityEnable") &&
         find(library, c.disable, "cuptiActivityDisable") && find(library, c.next, "cuptiActivityGetNextRecord") &&
         find(library, c.flush, "cuptiActivityFlushAll") && find(library, c.flush_period, "cuptiActivityFlushPeriod") &&
         find(library, c.dropped, "cuptiActivityGetNumDroppedRecords") && find(library, c.call_name, "cuptiGetCallbackName") &&
         find(library, c.stream_number, "cuptiGetStreamIdEx") && find(library, c.now, "cuptiGetTimestamp") && find(library, c.in_words, "cuptiGetResultString");
}

std::atomic<bool> attached{false};
constexpr std::uint64_t kNear = 100'000;

std::uint64_t of_host() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

bool Cupti::load() {
  // One that is loaded already must be taken: two would each see half.
  for (const char* name : {"libcupti.so.13", "libcupti.so.12"})
    if (take(dlopen(name, RTLD_NOW | RTLD_NOLOAD), *this)) return true;
  if (const char* path = std::getenv("CORUN_CUPTI")) return take(dlopen(path, RTLD_NOW), *this);
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "/usr/local/cuda/lib64/libcupti.so",
                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "libcupti.so"})
    if (take(dlopen(name, RTLD_NOW), *this)) return true;
  return false;
}

Cupti& cupti() {
  static Cupti loaded;
  return loaded;
}

void set_attached(bool is) { attached = is; }

std::uint64_t now() {
  if (!attached.load(std::memory_order_relaxed)) return of_host();
  std::uint64_t time = 0;
  cupti().now(&time);
  return time;
}

bool one_clock() {
  const std::uint64_t before = of_host(), time = now(), after = of_host();
  return time + kNear >= before && time <= after + kNear;
}

}  // namespace corun::capture
