// One step at a time; after a second without an end it says what the words are.
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
  FN(cuMemHostAlloc);
  FN2(cuMemAlloc, "cuMemAlloc_v2");
  FN2(cuMemsetD8Async, "cuMemsetD8Async");
  FN(cuStreamQuery);
  FN(cuCtxSynchronize);
  FN(cuStreamSynchronize);
  FN2(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  FN2(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
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
  const int threads = 256, most = 8448;
  int fits = 0;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor_(&fits, how, threads, 0));
  CUdeviceptr out, control;
  OK(cuMemAlloc_(&out, most * threads * 4));
  OK(cuMemAlloc_(&control, sizeof(PtxControl)));
  Host* h;
  OK(cuMemHostAlloc_((void**)&h, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  char* back;
  OK(cuMemHostAlloc_((void**)&back, most * threads * 4, CU_MEMHOSTALLOC_PORTABLE));
  std::vector<char> want(most * threads * 4);
  PtxControl* c;
  OK(cuMemHostAlloc_((void**)&c, 4096, CU_MEMHOSTALLOC_PORTABLE));
  CUstream s, other;
  OK(cuStreamCreateWithPriority_(&s, CU_STREAM_NON_BLOCKING, 0));
  OK(cuStreamCreateWithPriority_(&other, CU_STREAM_NON_BLOCKING, 0));
  std::uint32_t n = 0;
  std::string step = v[2];
  auto words = [&](const char* what) {
    std::printf(
        "  %s: taken %u all %u | gone-number %u done-chunks %u left %u | stopped_at %x %x | seats %llx | "
        "order %llx done %u (number %u)\n",
        what, h->progress.taken, h->progress.all_taken, h->progress.unused[0], h->progress.unused[1],
        h->progress.unused[2], h->progress.stopped_at[0], h->progress.stopped_at[1],
        (unsigned long long)h->progress.seats[0], (unsigned long long)h->order, h->done, n);
  };
  auto ends = [&](const char* what) {
    double b = now();
    while (now() - b < 1e6) {
      CUresult r = cuStreamQuery_(s);
      if (r == CUDA_SUCCESS) {
        return;
      }
      if (r != CUDA_ERROR_NOT_READY) {
        std::printf("%s %s: error %d\n", step.c_str(), what, r);
        words("words");
        std::fflush(stdout);
        _exit(3);
      }
    }
    std::printf("%s %s: HANGS\n", step.c_str(), what);
    words("words");
    std::memset(c, 0xee, sizeof *c);
    if (cuMemcpyDtoHAsync_(c, control, sizeof *c, other) == 0) {
      b = now();
      while (cuStreamQuery_(other) != CUDA_SUCCESS && now() - b < 5e5) {
      }
    }
    std::printf(
        "  control: taken %u command %x leave %u left %u stopped_at %x records %u seats %llx order %llx gone "
        "%u\n",
        c->control.taken, c->control.command, c->control.leave, c->control.left, c->control.stopped_at,
        c->control.records, (unsigned long long)c->control.seats, (unsigned long long)c->order, c->gone);
    std::fflush(stdout);
    _exit(2);
  };
  auto clear = [&] {
    OK(cuMemsetD8Async_(control, 0, sizeof(PtxControl), s));
    OK(cuMemsetD8Async_(out, 0, most * threads * 4, s));
    ends("clear");
    std::memset((void*)h, 0, sizeof *h);
    for (auto& at : h->progress.stopped_at) at = kNotStopped;
  };
  auto result = [&] {
    OK(cuMemcpyDtoHAsync_(back, out, most * threads * 4, s));
    ends("copy");
  };
  auto control_now = [&] {
    OK(cuMemcpyDtoHAsync_(c, control, sizeof *c, s));
    ends("control");
  };
  int iterations = 200;
  std::uint32_t workers = fits * 132;
  auto plain_once = [&](int blocks) {
    clear();
    void* a[] = {&out, &iterations};
    OK(cuLaunchKernel_(plain, blocks, 1, 1, threads, 1, 1, 0, s, a, nullptr));
    ends("plain");
    result();
    std::memcpy(want.data(), back, want.size());
    clear();
    double b = now();
    OK(cuLaunchKernel_(plain, blocks, 1, 1, threads, 1, 1, 0, s, a, nullptr));
    ends("plain");
    b = now() - b;
    clear();
    return b;
  };
  auto same = [&] {
    result();
    return std::memcmp(want.data(), back, want.size()) == 0;
  };
  auto made_for = [&](std::uint32_t blocks, std::uint32_t w, std::uint32_t chunk, bool order) {
    ++n;
    PtxLaunch p;
    auto& l = p.launch;
    l.control = control;
    l.progress = (CUdeviceptr)h;
    l.grid_x = blocks;
    l.chunk = chunk;
    l.end = blocks;
    l.large = chunk > 1 && blocks > w * chunk ? (blocks - w * chunk) / chunk : 0;
    l.chunks = blocks - l.large * (chunk - 1);
    l.progress_mask = 0;
    l.single = l.chunks <= w && !order;
    p.order = order ? (CUdeviceptr)&h->order : 0;
    p.done = (CUdeviceptr)&h->done;
    p.number = p.done_value = n;
    return p;
  };
  auto go = [&](PtxLaunch p, std::uint32_t w) {
    void* a[] = {&out, &iterations, &p};
    OK(cuLaunchKernel_(how, std::min(w, p.launch.chunks), 1, 1, threads, 1, 1, 0, s, a, nullptr));
  };
  auto whole = [&](const char* what, std::uint32_t blocks, std::uint32_t w, std::uint32_t chunk, bool order) {
    double alone = plain_once(blocks);
    PtxLaunch p = made_for(blocks, w, chunk, order);
    double b = now();
    go(p, w);
    ends(what);
    double took = now() - b;
    bool ok = same();
    control_now();
    std::printf("%s %s: identical %d done %d chunks %u of %u, control %u, %.0f us, plain %.0f\n",
                step.c_str(), what, ok, h->done == n, h->progress.unused[1], p.launch.chunks,
                c->control.taken, took, alone);
  };
  auto stopped = [&](const char* what, std::uint32_t blocks, std::uint32_t w, std::uint32_t chunk,
                     int attempts, bool before) {
    double alone = plain_once(blocks);
    PtxLaunch p = made_for(blocks, w, chunk, true);
    std::vector<double> took;
    std::string each;
    bool good = true;
    int stops = 0;
    for (int a = 0;; ++a) {
      p.number = p.done_value = ++n;
      const bool last = a == attempts;
      if (last) p.order = 0;
      if (before && !last) h->order = ptx_stop(n);
      go(p, w);
      if (!last) {
        double until = now() + alone / (attempts + 3);
        if (!before) {
          while (now() < until) {
          }
        }
        double b = now();
        h->order = ptx_stop(n);
        while (h->progress.unused[0] != n && now() - b < 1e6) {
        }
        took.push_back(now() - b);
      }
      ends(what);
      good &= h->progress.unused[0] == n && (h->done == n) == (h->progress.unused[1] == p.launch.chunks);
      each += " " + std::to_string(h->progress.unused[1]);
      if (last) break;
      stops += h->done != n;
    }
    bool ok = same();
    control_now();
    std::sort(took.begin(), took.end());
    std::printf(
        "%s %s: identical %d done %d consistent %d, control %u, %d stops, us to stop %.1f to %.1f, alone "
        "%.0f, chunks%s of %u\n",
        step.c_str(), what, ok, h->done == n, good, c->control.taken, stops, took.front(), took.back(), alone,
        each.c_str(), p.launch.chunks);
  };
  std::printf("%s: %d workers per SM, %zu bytes\n", step.c_str(), fits, made.text.size());
  if (step == "a1") whole("one block, one worker", 1, 1, 1, false);
  if (step == "a2") whole("one block, one worker, an order's word", 1, 1, 1, true);
  if (step == "b1") whole("64 blocks, one worker", 64, 1, 1, false);
  if (step == "b2") {
    whole("8448 blocks", most, workers, 1, false);
    whole("8448 blocks, an order's word", most, workers, 1, true);
    whole("8448 blocks in chunks of 4", most, workers, 4, false);
    whole("8448 blocks, chunks of 4, an order's word", most, workers, 4, true);
  }
  if (step == "b3") {
    for (int i = 0; i < 50; ++i) {
      clear();
      PtxLaunch p = made_for(most, workers, 1 + i % 4, i % 2);
      go(p, workers);
      ends("repeat");
    }
    std::printf("b3: 50 launches ended\n");
  }
  if (step == "c1") stopped("stopped before it began", 8448, workers, 1, 2, true);
  if (step == "d1") {
    iterations = 20000;
    stopped("stops", 8448, workers, 1, 4, false);
    stopped("stops, chunks of 4", 8448, workers, 4, 4, false);
  }
  if (step == "d2") {
    iterations = 20000;
    for (int i = 0; i < 10; ++i) stopped("stops", 8448, workers, 1 + i % 4, 10, false);
  }
  if (step == "e1") {
    iterations = 20000;
    double alone = plain_once(most);
    PtxLaunch p = made_for(most, workers, 1, true);
    go(p, workers);
    double b = now();
    while (now() < b + alone / 3) {
    }
    h->order = ptx_leave(n, workers / 2);
    ends("leave");
    b = now() - b;
    bool ok = same();
    std::printf("e1 leave: identical %d done %d left %u of %u; %.0f us, alone %.0f\n", ok, h->done == n,
                h->progress.unused[2], workers / 2, b, alone);
  }
  if (step == "e2") {
    iterations = 20000;
    double alone = plain_once(most);
    std::memset(c, 0, sizeof *c);
    for (int i = 0; i < 132; i += 2) c->control.quota[i] = 2;
    OK(cuMemcpyHtoDAsync_(control, c, sizeof *c, s));
    ends("quota");
    PtxLaunch p = made_for(most, workers, 1, false);
    p.launch.seated = 1;
    p.launch.single = 0;
    double b = now();
    go(p, workers);
    ends("seats");
    b = now() - b;
    bool ok = same();
    std::printf("e2 seats: identical %d done %d; seats told %u; %.0f us, alone %.0f\n", ok, h->done == n,
                seats_in(h->progress).taken, b, alone);
  }
  std::fflush(stdout);
  _exit(0);
}
