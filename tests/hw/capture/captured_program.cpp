// A program that is captured where there is no GPU: it loads what CUDA_INJECTION64_PATH names, as the driver does, and
// serves requests on a fake GPU; its ranges go through NVTX's own header.
//
//   captured_program serve|chooses|unmarked|hosted|once|killed|fails|idle
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/hw/capture/fake_cupti.h"

namespace {

constexpr FakeKernel kGemm{"_Z4gemmPfi", 7, 264, 128, 400'000}, kBias{"_Z4biasPfS_", 7, 96, 256, 50'000},
    kOther{"_Z4gemmPfi", 8, 32, 128, 40'000}, kSmallGemm{"_Z4smallPfi", 7, 132, 128, 400'000};

bool ranges = true;

/// On a part of the GPU another kernel, as libraries do.
bool chooses = false;

void request() {
  if (ranges) nvtxRangePushA("request");
  fake_copy_to_device(7, 1 << 20, 19'000);
  fake_launch(chooses && std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") != nullptr ? &kSmallGemm : &kGemm);
  fake_launch(&kBias);
  fake_record_event(7, 3);
  fake_wait_event(8, 3);
  fake_launch(&kOther);
  fake_launch(&kBias);
  fake_synchronize(7);
  fake_host_works(4'000);
  if (ranges) nvtxRangePop();
  fake_host_works(16'000);
}

/// The host works 0.4 ms between two kernels of 50 us; of the real clock it takes 0.25 ms and what a sleep is late.
void hosted_request() {
  nvtxRangePushA("request");
  fake_launch(&kBias);
  fake_host_works(400'000);
  std::this_thread::sleep_for(std::chrono::microseconds{250});
  fake_launch(&kBias);
  fake_synchronize(7);
  nvtxRangePop();
  fake_host_works(20'000);
}

}  // namespace

int main(int, char** argv) {
  const char* what = argv[1];
  if (const char* driver = std::getenv("CORUN_FAKE_CUDA")) dlopen(driver, RTLD_NOW | RTLD_GLOBAL);
  if (const char* library = std::getenv("CUDA_INJECTION64_PATH")) {
    void* injected = dlopen(library, RTLD_NOW);
    if (injected == nullptr) return 9;
    reinterpret_cast<int (*)()>(dlsym(injected, "InitializeInjection"))();
  }
  if (std::strcmp(what, "idle") == 0) return 0;
  ranges = std::strcmp(what, "unmarked") != 0;
  chooses = std::strcmp(what, "chooses") == 0;
  fake_allocate(1 << 30, 0x7000'0000);
  fake_allocate(1 << 20, 0x6000'0000);
  fake_free(1 << 20, 0x6000'0000);
  constexpr FakeKernel first{"_Z4initv", 7, 4, 32, 900'000};
  fake_launch(&first);
  fake_host_works(5'000'000);
  const int requests = std::strcmp(what, "once") == 0 ? 1 : 20;
  const bool hosted = std::strcmp(what, "hosted") == 0;
  for (int i = 0; i < requests; ++i) hosted ? hosted_request() : request();
  fake_flush();
  if (std::strcmp(what, "killed") == 0) {
    request();
    raise(SIGKILL);
  }
  return std::strcmp(what, "fails") == 0 ? 3 : 0;
}
