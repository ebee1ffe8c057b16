// What attempts that are with the driver before they are needed cost, and whether a stop and a resume by
// words of host memory alone work.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "driver.h"
#include "hw/transform/ptx.h"
using namespace corun::hw;
struct Host {
  volatile Progress progress;
  volatile std::uint64_t order;
  volatile std::uint32_t go;
};
int main(int, char** v) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  FN(cuInit);
  FN(cuDeviceGet);
  FN(cuDevicePrimaryCtxRetain);
  FN(cuCtxSetCurrent);
  FN(cuModuleLoadData);
  FN(cuModuleGetFunction);
  FN(cuStreamCreateWithPriority);
  FN(cuLaunchKernel);
  FN2(cuStreamWaitValue32, "cuStreamWaitValue32_v2");
  FN(cuMemHostAlloc);
  FN2(cuMemAlloc, "cuMemAlloc_v2");
  FN2(cuMemsetD8, "cuMemsetD8_v2");
  FN(cuCtxSynchronize);
  FN(cuStreamSynchronize);
  FN2(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
  FN(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  OK(cuInit_(0));
  CUdevice dev;
  OK(cuDeviceGet_(&dev, 0));
  CUcontext ctx;
  OK(cuDevicePrimaryCtxRetain_(&ctx, dev));
  OK(cuCtxSetCurrent_(ctx));
  const std::string text = read(v[1]);
  auto parsed = parse_ptx(text);
  auto made = make_persistent(parsed.module, "work");
  if (!made.refused.empty()) {
    std::printf("refused %s\n", made.refused.c_str());
    return 1;
  }
  CUmodule m, mp;
  OK(cuModuleLoadData_(&m, text.c_str()));
  OK(cuModuleLoadData_(&mp, made.text.c_str()));
  CUfunction plain, how;
  OK(cuModuleGetFunction_(&plain, m, "work"));
  OK(cuModuleGetFunction_(&how, mp, made.entry.c_str()));
  const int blocks = 8448, threads = 256;
  int fits = 0;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor_(&fits, how, threads, 0));
  CUdeviceptr out, control;
  OK(cuMemAlloc_(&out, blocks * threads * 4));
  OK(cuMemAlloc_(&control, sizeof(PtxControl)));
  Host* h;
  OK(cuMemHostAlloc_((void**)&h, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  std::memset((void*)h, 0, sizeof *h);
  CUstream s;
  OK(cuStreamCreateWithPriority_(&s, CU_STREAM_NON_BLOCKING, 0));
  OK(cuMemsetD8_(control, 0, sizeof(PtxControl)));
  OK(cuCtxSynchronize_());
  std::uint32_t n = 0;
  const std::uint32_t workers = std::min(blocks, fits * 132);
  auto run_plain = [&](int iterations) {
    void* a[] = {&out, &iterations};
    OK(cuLaunchKernel_(plain, blocks, 1, 1, threads, 1, 1, 0, s, a, nullptr));
  };
  auto run_attempts = [&](int iterations, int attempts, bool stoppable, std::uint32_t chunk) {
    ++n;
    PtxLaunch p;
    p.launch.control = control;
    p.launch.progress = (CUdeviceptr)h;
    p.launch.grid_x = blocks;
    p.launch.chunk = chunk;
    p.launch.end = blocks;
    p.launch.large = chunk > 1 ? (blocks - workers * chunk) / chunk : 0;
    p.launch.chunks = p.launch.large + (blocks - p.launch.large * chunk);
    p.launch.progress_mask = 0xffffffff;
    p.done = (CUdeviceptr)&h->go;
    p.done_value = n * 16 + 15;
    for (int a = 0; a < attempts; ++a) {
      if (a > 0) OK(cuStreamWaitValue32_(s, (CUdeviceptr)&h->go, n * 16 + a, CU_STREAM_WAIT_VALUE_GEQ));
      p.number = n * 16 + a;
      p.order = stoppable && a + 1 < attempts ? (CUdeviceptr)&h->order : 0;
      void* args[] = {&out, &iterations, &p};
      OK(cuLaunchKernel_(how, std::min(workers, p.launch.chunks), 1, 1, threads, 1, 1, 0, s, args, nullptr));
    }
  };
  for (int iterations : {500, 2000, 8000, 30000}) {
    auto time = [&](auto go) {
      double best = 1e30;
      for (int r = 0; r < 3; ++r) {
        OK(cuStreamSynchronize_(s));
        double b = now();
        for (int i = 0; i < 30; ++i) go();
        OK(cuStreamSynchronize_(s));
        best = std::min(best, (now() - b) / 30);
      }
      return best;
    };
    double p = time([&] { run_plain(iterations); });
    std::printf("plain %.1f us; persistent", p);
    for (int k : {1, 2, 3, 4, 8})
      std::printf(" %d attempts %.1f (%.1f %%)", k, time([&] { run_attempts(iterations, k, k > 1, 1); }),
                  0.0);
    std::printf("; chunks of 4, 3 attempts %.1f\n", time([&] { run_attempts(iterations, 3, true, 4); }));
  }
  // Stops and resumes by words.
  std::vector<float> want(blocks * threads), have(blocks * threads);
  const int iterations = 20000;
  for (int chunk : {1, 4}) {
    OK(cuMemsetD8_(out, 0, blocks * threads * 4));
    OK(cuCtxSynchronize_());
    for (int i = 0; i < 3; ++i) run_plain(iterations);
    OK(cuStreamSynchronize_(s));
    OK(cuMemcpyDtoH_(want.data(), out, blocks * threads * 4));
    double b = now();
    run_plain(iterations);
    OK(cuStreamSynchronize_(s));
    double alone = now() - b;
    OK(cuMemsetD8_(out, 0, blocks * threads * 4));
    OK(cuCtxSynchronize_());
    std::vector<double> took;
    int stops = 0, whole = 0;
    std::vector<unsigned> chunks;
    for (int i = 0; i < 3; ++i) {
      run_attempts(iterations, 5, true, chunk);
      for (int a = 0; a < 4; ++a) {
        double until = now() + alone / 6;
        while (now() < until) {
        }
        if (h->go == n * 16 + 15) break;
        double asked = now();
        h->order = ptx_stop(n * 16 + a);
        while (h->progress.unused[0] != n * 16 + a && now() - asked < 1e5) {
        }
        took.push_back(now() - asked);
        chunks.push_back(unsigned{h->progress.unused[1]});
        if (h->go == n * 16 + 15) {
          ++whole;
          break;
        }
        ++stops;
        until = now() + 200;
        while (now() < until) {
        }
        if (h->progress.unused[0] != n * 16 + a) std::printf("went on by itself\n");
        h->go = n * 16 + a + 1;
      }
      OK(cuStreamSynchronize_(s));
      if (h->go != n * 16 + 15) std::printf("not done: go %u of %u\n", h->go, n * 16 + 15);
    }
    OK(cuMemcpyDtoH_(have.data(), out, blocks * threads * 4));
    std::sort(took.begin(), took.end());
    std::printf(
        "alone %.1f us, chunk %d: %d stops, %d whole, us to stop %.1f to %.1f, identical %d; chunks done",
        alone, chunk, stops, whole, took.front(), took.back(), want == have);
    for (unsigned c : chunks) std::printf(" %u", c);
    std::printf("\n");
  }
}
