#include "hw/driver/card.h"

#include <dlfcn.h>
#include <fmt/format.h>

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

class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  explicit operator bool() const { return handle_ != nullptr; }
  /// 0 where it went well.
  template <class... A>
  int operator()(const char* name, A... arguments) const {
    const auto f = reinterpret_cast<int (*)(A...)>(dlsym(handle_, name));
    return f == nullptr ? -1 : f(arguments...);
  }

 private:
  void* handle_;
};

/// As NVML writes it, of the device that CUDA counts so: CUDA_VISIBLE_DEVICES hides devices from CUDA alone.
/// Makes no context.  Empty where there is no driver.
std::string uuid_of(int index) {
  const Library cuda("libcuda.so.1");
  std::array<unsigned char, 16> bytes{};
  int device = 0;
  if (!cuda || cuda("cuInit", 0u) != 0 || cuda("cuDeviceGet", &device, index) != 0 ||
      cuda("cuDeviceGetUuid_v2", bytes.data(), device) != 0)
    return "";
  std::string uuid = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i)
    uuid += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  return uuid;
}

}  // namespace

std::optional<Card> ask_card(int index) {
  const Library call("libnvidia-ml.so.1");
  if (!call) return std::nullopt;
  const std::string uuid = uuid_of(index);
  std::optional<Card> card;
  Device* device = nullptr;
  if (call("nvmlInit_v2") == 0) {
    if (call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device) == 0) {
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
  return card;
}

}  // namespace corun::hw
