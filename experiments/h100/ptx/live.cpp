// A program for live runs; it finds the driver's library by its name, as programs do.
//   live be LAUNCHES PTX: kernels of about 5 ms, waits after each four
//   live rt REQUESTS PTX US: a request of three short kernels each US microseconds, timed from when it is due
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver.h"
int main(int, char** v) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool rt = !std::strcmp(v[1], "rt");
  const int n = std::atoi(v[2]);
  FN(cuInit);
  FN(cuDeviceGet);
  FN(cuDevicePrimaryCtxRetain);
  FN(cuCtxSetCurrent);
  FN(cuModuleLoadData);
  FN(cuModuleGetFunction);
  FN(cuStreamCreate);
  FN(cuLaunchKernel);
  FN2(cuMemAlloc, "cuMemAlloc_v2");
  FN2(cuMemsetD8, "cuMemsetD8_v2");
  FN(cuCtxSynchronize);
  FN(cuStreamSynchronize);
  FN2(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
  OK(cuInit_(0));
  CUdevice dev;
  OK(cuDeviceGet_(&dev, 0));
  CUcontext ctx;
  OK(cuDevicePrimaryCtxRetain_(&ctx, dev));
  OK(cuCtxSetCurrent_(ctx));
  const std::string ptx = read(v[3]);
  CUmodule m;
  OK(cuModuleLoadData_(&m, ptx.c_str()));
  CUfunction f;
  OK(cuModuleGetFunction_(&f, m, "work"));
  const unsigned blocks = rt ? 66 : 8448 * 12, threads = 256;
  int iterations = rt ? 3500 : 5000;
  CUdeviceptr out;
  OK(cuMemAlloc_(&out, std::size_t{blocks} * threads * 4));
  OK(cuMemsetD8_(out, 0, std::size_t{blocks} * threads * 4));
  CUstream s;
  OK(cuStreamCreate_(&s, CU_STREAM_NON_BLOCKING));
  OK(cuCtxSynchronize_());
  void* a[] = {&out, &iterations};
  auto launch = [&] { OK(cuLaunchKernel_(f, blocks, 1, 1, threads, 1, 1, 0, s, a, nullptr)); };
  std::vector<double> took;
  double begin = now();
  if (rt) {
    for (int i = 0; i < n; ++i) {
      const double at = begin + std::atof(v[4]) * i + (i * 7919 % 997);
      while (now() < at) {
      }
      for (int k = 0; k < 3; ++k) launch();
      OK(cuStreamSynchronize_(s));
      took.push_back(now() - at);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      launch();
      if (i % 4 == 3) {
        OK(cuStreamSynchronize_(s));
        took.push_back(now());
      }
    }
  }
  OK(cuStreamSynchronize_(s));
  const double all = now() - begin;
  std::vector<unsigned> have(std::size_t{blocks} * threads);
  OK(cuMemcpyDtoH_(have.data(), out, have.size() * 4));
  unsigned long long hash = 1469598103934665603ull;
  for (unsigned w : have) hash = (hash ^ w) * 1099511628211ull;
  if (rt) {
    std::sort(took.begin(), took.end());
    auto q = [&](double p) { return took[std::min(took.size() - 1, std::size_t(p * took.size()))]; };
    std::printf("rt %d requests: p50 %.1f p90 %.1f p99 %.1f max %.1f us; output %016llx\n", n, q(.5), q(.9),
                q(.99), took.back(), hash);
  } else
    std::printf("be %d launches in %.1f ms, %.2f ms each; output %016llx\n", n, all / 1e3, all / 1e3 / n,
                hash);
}
