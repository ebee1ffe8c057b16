// Every call of the driver that a program makes: how often, by which thread, and how long it took in all.  The driver loads it
// (CUDA_INJECTION64_PATH); it writes to the file that CALLS names when the program ends, most frequent first.  Without a file it
// hears nothing, so that CUPTI is attached alone; with CALLS=- it records kernels for a moment and gives CUPTI up, but for cuptiFinalize.
//
//   CALLS=FILE CUDA_INJECTION64_PATH=calls.so python3 ../../h200/capture/programs.py jax
//   g++ -O2 -shared -fPIC -I/usr/local/cuda/include -I/usr/local/cuda/extras/CUPTI/include calls.cpp -o calls.so
//       /usr/local/cuda/extras/CUPTI/lib64/libcupti.so
#include <cupti.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace {

struct Sum {
  std::uint64_t calls = 0, ns = 0;
};
std::mutex mutex;
std::map<std::pair<CUpti_CallbackId, pid_t>, Sum>& sums() {
  static auto* all = new std::map<std::pair<CUpti_CallbackId, pid_t>, Sum>;
  return *all;
}

void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  std::uint64_t now = 0;
  cuptiGetTimestamp(&now);
  if (call.callbackSite == CUPTI_API_ENTER) {
    *call.correlationData = now;
    return;
  }
  const std::scoped_lock lock(mutex);
  Sum& sum = sums()[{id, gettid()}];
  ++sum.calls, sum.ns += now - *call.correlationData;
}

void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = 1 << 20, *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
}
void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) { std::free(buffer); }

void tell() {
  const std::scoped_lock lock(mutex);
  std::FILE* file = std::fopen(std::getenv("CALLS"), "w");
  if (file == nullptr) return;
  std::vector<std::pair<std::pair<CUpti_CallbackId, pid_t>, Sum>> all(sums().begin(), sums().end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second.calls > b.second.calls; });
  for (const auto& [of, sum] : all) {
    const char* name = nullptr;
    cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, of.first, &name);
    std::fprintf(file, "%8llu calls %10.1f us each  thread %d  %s\n", static_cast<unsigned long long>(sum.calls),
                 1e-3 * static_cast<double>(sum.ns) / static_cast<double>(sum.calls), of.second - getpid(), name == nullptr ? "?" : name);
  }
  std::fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static CUpti_SubscriberHandle subscriber = nullptr;
  if (cuptiSubscribe(&subscriber, called, nullptr) != CUPTI_SUCCESS) return 1;
  const char* path = std::getenv("CALLS");
  if (path != nullptr && *path == '-') {
    cuptiActivityRegisterCallbacks(requested, completed);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiUnsubscribe(subscriber);
  } else if (path != nullptr) {
    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    std::atexit(tell);
  }
  return 1;
}
