#include "hw/shim/partitions.h"

#include <map>
#include <mutex>

#include "hw/live/groups.h"
#include "hw/live/system.h"
#include "hw/shim/client.h"
#include "hw/shim/driver.h"

namespace corun::live {
namespace {

class Partitions {
 public:
  /// Null: there is none.
  CUgreenCtx context(const Tpcs& tpcs) {
    const std::scoped_lock lock(mutex_);
    if (!looked_) looked_ = true, look();
    if (Client* client = Client::get(); client != nullptr && !client->knows_groups()) client->has_groups(tpcs_of_group_);
    const auto [at, added] = contexts_.try_emplace(tpcs, nullptr);
    if (added) at->second = make(groups_in(tpcs, tpcs_of_group_));
    return at->second;
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    contexts_.clear();
  }

 private:
  CUgreenCtx make(const std::vector<std::size_t>& groups) const {
    static const auto describe = driver<CUresult (*)(CUdevResourceDesc*, CUdevResource*, unsigned)>("cuDevResourceGenerateDesc");
    static const auto create = driver<CUresult (*)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)>("cuGreenCtxCreate");
    std::vector<CUdevResource> resources;
    for (std::size_t g : groups) resources.push_back(groups_[g]);
    CUdevResourceDesc description{};
    CUgreenCtx context = nullptr;
    if (resources.empty() || describe == nullptr || create == nullptr ||
        describe(&description, resources.data(), static_cast<unsigned>(resources.size())) != CUDA_SUCCESS ||
        create(&context, description, device_, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS)
      return nullptr;
    return context;
  }

  void look() {
    using Split = CUresult (*)(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned, unsigned);
    const auto device_of = driver<CUresult (*)(CUdevice*)>("cuCtxGetDevice");
    const auto resource = driver<CUresult (*)(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource");
    const auto split = driver<Split>("cuDevSmResourceSplitByCount");
    CUdevResource all{}, rest{};
    unsigned count = 0;
    if (device_of == nullptr || resource == nullptr || split == nullptr || device_of(&device_) != CUDA_SUCCESS ||
        resource(device_, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
        split(nullptr, &count, &all, nullptr, 0, kSmsOfTpc) != CUDA_SUCCESS)
      return;
    groups_.resize(count);
    if (split(groups_.data(), &count, &all, &rest, 0, kSmsOfTpc) != CUDA_SUCCESS) return groups_.clear();
    groups_.resize(count);
    if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount > 0) groups_.push_back(rest);
    for (const CUdevResource& group : groups_) tpcs_of_group_.push_back(group.sm.smCount / kSmsOfTpc);
  }

  os::Mutex mutex_;
  bool looked_ = false;
  CUdevice device_ = 0;
  std::vector<CUdevResource> groups_;
  std::vector<std::uint32_t> tpcs_of_group_;
  std::map<Tpcs, CUgreenCtx> contexts_;
};

}  // namespace

namespace {

/// Lives as long as the program.
Partitions& partitions() {
  return os::of_process<Partitions>();
}

}  // namespace

void forget_partitions() { partitions().forget(); }

CUstream stream_on(const Tpcs& tpcs, std::int32_t priority) {
  static const auto make_stream = driver<CUresult (*)(CUstream*, CUgreenCtx, unsigned, int)>("cuGreenCtxStreamCreate");
  CUgreenCtx context = partitions().context(tpcs);
  CUstream stream = nullptr;
  if (context == nullptr || make_stream == nullptr ||
      make_stream(&stream, context, CU_STREAM_NON_BLOCKING, priority) != CUDA_SUCCESS)
    return nullptr;
  return stream;
}

}  // namespace corun::live
