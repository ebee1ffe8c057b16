#include "hw/library/partitions.h"

#include <map>
#include <mutex>
#include <vector>

#include "hw/library/driver.h"

namespace corun::live {
namespace {

constexpr unsigned kSmsOfTpc = 2;  // of every GPU since Pascal's P100

constexpr const char* kWhere = R"(
.version 6.3
.target sm_70
.address_size 64
.visible .entry where(.param .u64 to) {
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [to];
  mov.u32 %r1, %smid;
  st.volatile.global.u32 [%d1], %r1;
  ret;
}
)";

template <class F>
struct Call;
template <class... A>
struct Call<CUresult(A...)> {
  CUresult (*function)(A...);
  explicit Call(const char* name) : function(driver<CUresult (*)(A...)>(name)) {}
  /// Whether the driver has it and it succeeds.
  template <class... B>
  bool operator()(B... b) const {
    return function != nullptr && function(b...) == CUDA_SUCCESS;
  }
};

const Call<CUresult(CUdevResourceDesc*, CUdevResource*, unsigned)>& describe() {
  static const Call<CUresult(CUdevResourceDesc*, CUdevResource*, unsigned)> call("cuDevResourceGenerateDesc");
  return call;
}

class Partitions {
 public:
  CUgreenCtx context(const Tpcs& tpcs) {
    const std::scoped_lock lock(mutex_);
    if (!looked_) looked_ = true, look();
    const auto [at, added] = contexts_.try_emplace(tpcs, nullptr);
    if (!added) return at->second;
    std::vector<CUdevResource> wanted;
    for (std::size_t t = 0; t < of_tpc_.size(); ++t)
      if ((tpcs[t / 64] >> (t % 64) & 1) != 0 && of_tpc_[t] < groups_.size()) wanted.push_back(groups_[of_tpc_[t]]);
    return at->second = make(wanted);
  }

 private:
  CUgreenCtx make(std::vector<CUdevResource> resources) const {
    static const Call<CUresult(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)> create("cuGreenCtxCreate");
    CUdevResourceDesc description{};
    CUgreenCtx context = nullptr;
    if (resources.empty() || !describe()(&description, resources.data(), static_cast<unsigned>(resources.size()))) return nullptr;
    return create(&context, description, device_, CU_GREEN_CTX_DEFAULT_STREAM) ? context : nullptr;
  }

  void look() {
    static const Call<CUresult(CUdevice*)> device_of("cuCtxGetDevice");
    static const Call<CUresult(CUdevice, CUdevResource*, CUdevResourceType)> resource("cuDeviceGetDevResource");
    static const Call<CUresult(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned, unsigned)> split(
        "cuDevSmResourceSplitByCount");
    static const Call<CUresult(CUmodule*, const void*)> load("cuModuleLoadData");
    static const Call<CUresult(CUfunction*, CUmodule, const char*)> entry("cuModuleGetFunction");
    static const Call<CUresult(CUmodule)> unload("cuModuleUnload");
    static const Call<CUresult(void**, size_t, unsigned)> host("cuMemHostAlloc");
    static const Call<CUresult(CUdeviceptr*, void*, unsigned)> address("cuMemHostGetDevicePointer_v2");
    static const Call<CUresult(void*)> free_host("cuMemFreeHost");
    static const Call<CUresult(CUgreenCtx)> destroy("cuGreenCtxDestroy");
    CUdevResource all{};
    unsigned count = 0;
    const unsigned single = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING;
    if (!device_of(&device_) || !resource(device_, &all, CU_DEV_RESOURCE_TYPE_SM) ||
        !split(nullptr, &count, &all, nullptr, single, kSmsOfTpc))
      return;
    std::vector<CUdevResource> groups(count);
    if (!split(groups.data(), &count, &all, nullptr, single, kSmsOfTpc)) return;
    CUmodule module = nullptr;
    CUfunction where = nullptr;
    void* word = nullptr;
    CUdeviceptr to = 0;
    if (!load(&module, kWhere) || !entry(&where, module, "where") || !host(&word, 4, CU_MEMHOSTALLOC_DEVICEMAP) ||
        !address(&to, word, 0))
      return;
    groups_ = groups;
    of_tpc_.assign(256, groups_.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      CUgreenCtx context = make({groups[g]});
      if (context == nullptr) continue;
      if (const unsigned tpc = sm_of(context, where, to, word) / kSmsOfTpc; tpc < of_tpc_.size()) of_tpc_[tpc] = g;
      destroy(context);
    }
    free_host(word);
    unload(module);
  }

  /// Of a block in this context; one beyond all if it did not run.
  static unsigned sm_of(CUgreenCtx context, CUfunction where, CUdeviceptr to, void* word) {
    static const Call<CUresult(CUstream*, CUgreenCtx, unsigned, int)> make_stream("cuGreenCtxStreamCreate");
    static const Call<CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)>
        launch("cuLaunchKernel");
    static const Call<CUresult(CUstream)> wait("cuStreamSynchronize"), destroy("cuStreamDestroy_v2");
    CUstream stream = nullptr;
    void* arguments[] = {&to};
    volatile unsigned* said = static_cast<volatile unsigned*>(word);
    *said = ~0u;
    if (!make_stream(&stream, context, static_cast<unsigned>(CU_STREAM_NON_BLOCKING), 0)) return ~0u;
    const bool ran = launch(where, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream, static_cast<void**>(arguments), static_cast<void**>(nullptr)) && wait(stream);
    destroy(stream);
    return ran ? *said : ~0u;
  }

  std::mutex mutex_;
  bool looked_ = false;
  CUdevice device_ = 0;
  std::vector<CUdevResource> groups_;
  std::vector<std::size_t> of_tpc_;  // group; beyond the last: this GPU has no such TPC
  std::map<Tpcs, CUgreenCtx> contexts_;
};

}  // namespace

CUstream stream_on(const Tpcs& tpcs, std::int32_t priority) {
  static auto* const partitions = new Partitions;  // lives as long as the program
  static const Call<CUresult(CUstream*, CUgreenCtx, unsigned, int)> make_stream("cuGreenCtxStreamCreate");
  CUgreenCtx context = partitions->context(tpcs);
  CUstream stream = nullptr;
  if (context == nullptr || !make_stream(&stream, context, static_cast<unsigned>(CU_STREAM_NON_BLOCKING), static_cast<int>(priority))) return nullptr;
  return stream;
}

}  // namespace corun::live
