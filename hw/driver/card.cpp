#include "hw/driver/card.h"

#include <dlfcn.h>

#include <array>

namespace corun::hw {
namespace {

// As nvml.h has them, which the CUDA Toolkit installs but which need not be there to build.
struct Device;
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
struct Use {
  unsigned gpu, memory;
};

}  // namespace

std::optional<Card> ask_card(int index) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  const auto call = [&]<class... A>(const char* name, A... arguments) {
    const auto f = reinterpret_cast<int (*)(A...)>(dlsym(library, name));
    return f == nullptr ? -1 : f(arguments...);
  };
  std::optional<Card> card;
  Device* device = nullptr;
  if (call("nvmlInit_v2") == 0) {
    if (call("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(index), &device) == 0) {
      card.emplace();
      std::array<char, 96> text{};
      const auto length = static_cast<unsigned>(text.size());
      if (call("nvmlSystemGetDriverVersion", text.data(), length) == 0) card->driver = text.data();
      if (call("nvmlDeviceGetUUID", device, text.data(), length) == 0) card->uuid = text.data();
      std::array<Process, 64> all{};
      auto count = static_cast<unsigned>(all.size());
      if (call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, all.data()) == 0)
        for (unsigned i = 0; i < count && i < all.size(); ++i) card->processes.push_back(all[i].pid);
      Use use{};
      if (call("nvmlDeviceGetUtilizationRates", device, &use) == 0) card->busy_percent = use.gpu;
    }
    call("nvmlShutdown");
  }
  dlclose(library);
  return card;
}

}  // namespace corun::hw
