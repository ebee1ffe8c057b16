// What a worker's turn costs: kernels of shares.cu, made persistent, by themselves: with and without looks for orders, seats and chunks.
//   turns FOLDER NAME...     reads shares.ptx and, of each name, FOLDER/NAME-fma.ptx, -triad.ptx and -tiles.ptx (rewrite.cpp)
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "driver.h"
#include "hw/transform/ptx.h"

using namespace corun::hw;
struct Host {
  volatile Progress progress;
  volatile std::uint64_t order;
  volatile std::uint32_t done;
  volatile PtxQuota quotas[kMostSms];
};
struct Kernel {
  const char *name, *entry;
  unsigned gx, gy, bx, by;
};

int main(int n, char** v) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  FN(cuInit);
  FN(cuDeviceGet);
  FN(cuDevicePrimaryCtxRetain);
  FN(cuCtxSetCurrent);
  FN(cuModuleLoadData);
  FN(cuModuleGetFunction);
  FN(cuStreamCreate);
  FN(cuLaunchKernel);
  FN(cuMemHostAlloc);
  FN2(cuMemAlloc, "cuMemAlloc_v2");
  FN(cuMemsetD8Async);
  FN(cuStreamSynchronize);
  FN2(cuMemcpyHtoD, "cuMemcpyHtoD_v2");
  FN(cuEventCreate);
  FN(cuEventRecord);
  FN2(cuEventElapsedTime, "cuEventElapsedTime");
  OK(cuInit_(0));
  CUdevice dev;
  OK(cuDeviceGet_(&dev, 0));
  CUcontext ctx;
  OK(cuDevicePrimaryCtxRetain_(&ctx, dev));
  OK(cuCtxSetCurrent_(ctx));
  CUdeviceptr in, out, counts, control, on_device;
  OK(cuMemAlloc_(&in, 1u << 30));
  OK(cuMemAlloc_(&out, 1u << 30));
  OK(cuMemAlloc_(&counts, 1u << 20));
  OK(cuMemAlloc_(&control, sizeof(PtxControl)));
  OK(cuMemAlloc_(&on_device, sizeof(Host)));
  Host* h;
  OK(cuMemHostAlloc_(reinterpret_cast<void**>(&h), sizeof *h, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  std::memset(h, 0, sizeof *h);
  CUstream s;
  OK(cuStreamCreate_(&s, CU_STREAM_NON_BLOCKING));
  CUevent from, to;
  OK(cuEventCreate_(&from, 0));
  OK(cuEventCreate_(&to, 0));
  OK(cuMemsetD8Async_(in, 0, 1u << 30, s));
  OK(cuMemsetD8Async_(counts, 0, 1u << 20, s));
  OK(cuStreamSynchronize_(s));
  std::uint32_t number = 0;
  const std::string folder = v[1];
  const Kernel kernels[] = {{"fma", "_Z3fmaPKfPfPji", 101376, 1, 256, 1},
                            {"triad", "_Z5triadPK6float4PS_Pjf", 131072, 1, 256, 1},
                            {"tiles", "_Z5tilesPKfPfPjj", 512, 512, 32, 8}};
  CUmodule m;
  OK(cuModuleLoadData_(&m, read(folder + "/shares.ptx").c_str()));
  for (const Kernel& k : kernels) {
    int last = std::strcmp(k.name, "fma") == 0 ? 2500 : std::strcmp(k.name, "tiles") == 0 ? 16384 : 0x3fc00000;
    CUfunction plain;
    OK(cuModuleGetFunction_(&plain, m, k.entry));
    const auto time = [&](auto go) {
      std::vector<float> took;
      for (int i = 0; i < 7; ++i) {
        OK(cuMemsetD8Async_(control, 0, sizeof(PtxControl), s));
        OK(cuStreamSynchronize_(s));
        OK(cuEventRecord_(from, s));
        go();
        OK(cuEventRecord_(to, s));
        OK(cuStreamSynchronize_(s));
        float ms = 0;
        OK(cuEventElapsedTime_(&ms, from, to));
        took.push_back(ms * 1000);
      }
      std::sort(took.begin(), took.end());
      return took[took.size() / 2];
    };
    const float alone = time([&] {
      void* a[] = {&in, &out, &counts, &last};
      OK(cuLaunchKernel_(plain, k.gx, k.gy, 1, k.bx, k.by, 1, 0, s, a, nullptr));
    });
    std::printf("%s plain %.1f us\n", k.name, alone);
    for (int i = 2; i < n; ++i) {
      const std::string text = read(folder + "/" + v[i] + "-" + k.name + ".ptx");
      if (text.empty()) continue;
      CUmodule mp;
      CUfunction how;
      OK(cuModuleLoadData_(&mp, text.c_str()));
      OK(cuModuleGetFunction_(&how, mp, (std::string(k.entry) + "__persistent").c_str()));
      std::printf("%s %s", k.name, v[i]);
      const std::uint32_t blocks = k.gx * k.gy;
      const auto run = [&](std::uint32_t workers, bool order, int seats, bool far, std::uint32_t chunk, unsigned mask) {
        PtxLaunch p;
        for (unsigned sm = 0; sm < kMostSms; ++sm) h->quotas[sm].workers = sm < 132 ? static_cast<std::uint32_t>(seats) : 0;
        OK(cuMemcpyHtoD_(on_device, h, sizeof *h));
        return time([&] {
          p.number = p.done_value = ++number;
          p.launch.control = control;
          p.launch.progress = reinterpret_cast<CUdeviceptr>(h);
          p.launch.grid_x = k.gx, p.launch.grid_y = k.gy;
          p.launch.chunk = chunk, p.launch.end = blocks;
          p.launch.large = chunk > 1 ? (blocks - std::min(blocks, workers * chunk)) / chunk : 0;
          p.launch.chunks = p.launch.large + (blocks - p.launch.large * chunk);
          p.launch.progress_mask = mask;
          p.done = reinterpret_cast<CUdeviceptr>(&h->done);
          p.order = order ? reinterpret_cast<CUdeviceptr>(&h->order) : 0;
          p.launch.seated = seats != 0 ? 1 : 0;
          p.quotas = far ? reinterpret_cast<CUdeviceptr>(&h->quotas) : on_device + offsetof(Host, quotas);
          void* a[] = {&in, &out, &counts, &last, &p};
          OK(cuLaunchKernel_(how, workers, 1, 1, k.bx, k.by, 1, 0, s, a, nullptr));
        });
      };
      const bool seats = std::strstr(v[i], "old") == nullptr;
      for (std::uint32_t workers : {1056u, 264u}) {
        std::printf("; %u: no orders %.1f, orders %.1f", workers, run(workers, false, 0, true, 1, ~0u), run(workers, true, 0, true, 1, ~0u));
        const int of = static_cast<int>(workers / 132);
        if (seats) std::printf(", seats %.1f, near %.1f", run(workers, true, of, true, 1, ~0u), run(workers, true, of, false, 1, ~0u));
        for (std::uint32_t chunk : {4u, 8u})
          std::printf(", chunk %u %.1f", chunk, seats ? run(workers, true, of, true, chunk, ~0u) : run(workers, true, 0, true, chunk, ~0u));
      }
      if (seats) std::printf("; 1056 with 2 seats each %.1f", run(1056, true, 2, true, 1, ~0u));
      std::printf("\n");
    }
  }
}
