// A program that is captured where there is no GPU: it loads what CUDA_INJECTION64_PATH names, as the driver
// does, and serves requests on a fake GPU; its ranges go through NVTX's own header.
//
//   captured_program
//   serve|chooses|unmarked|hosted|once|killed|fails|idle|long|long-unmarked|long-hosted|late|graph|
//                    unwaiting-unmarked|capturing-unmarked|polling-unmarked|bursting-unmarked|noticed-unmarked|
//                    often-unmarked|seldom-unmarked|looks|xla|nccl|staged|slows|hastens|threads|wanders|
//                    fails-there|waits-there
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "tests/hw/capture/fake_cupti.h"

namespace {

constexpr FakeKernel kGemm{"_Z4gemmPfi", 7, 264, 128, 400'000}, kBias{"_Z4biasPfS_", 7, 96, 256, 50'000},
    kOther{"_Z4gemmPfi", 8, 32, 128, 40'000}, kSmallGemm{"_Z5smallPfi", 7, 132, 128, 400'000};

bool ranges = true;

nvtxDomainHandle_t library = nullptr;  // a range in each request, where it is heard

/// On a part of the GPU another kernel, as libraries do.
bool chooses = false;

void request() {
  if (ranges) nvtxRangePushA("request");
  if (library != nullptr) {
    nvtxEventAttributes_t node{};
    node.version = NVTX_VERSION, node.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    node.messageType = NVTX_MESSAGE_TYPE_ASCII, node.message.ascii = "node";
    nvtxDomainRangePushEx(library, &node);
    nvtxDomainRangePop(library);
  }
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
void hosted_request(bool sleeps) {
  nvtxRangePushA("request");
  fake_launch(&kBias);
  fake_host_works(400'000);
  if (sleeps) std::this_thread::sleep_for(std::chrono::microseconds{250});
  fake_launch(&kBias);
  fake_synchronize(7);
  nvtxRangePop();
  fake_host_works(20'000);
}

/// For 4 s, longer than kernels are recorded at once.
constexpr int kLong = 4000;

void graph_request() {
  constexpr FakeKernel nodes[] = {kBias, kBias, kGemm, kBias};
  nvtxRangePushA("request");
  fake_launch_graph(nodes, 4);
  fake_synchronize(7);
  nvtxRangePop();
  fake_host_works(500'000);
}

/// It looks for the graph's end by no call, and has seen it after 0.7 ms.
void looking_request() {
  constexpr FakeKernel nodes[] = {kBias, kBias, kGemm, kBias};
  nvtxRangePushA("request");
  fake_launch_graph(nodes, 4);
  fake_host_works(700'000);
  nvtxRangePop();
  fake_host_works(20'000);
}

/// After the first second, of which all is recorded, another loop, whose kernels are new.
void late_requests() {
  for (int i = 0; i < 1010; ++i) request();
  for (int i = 0; i < 40; ++i) {
    nvtxRangePushA("late");
    fake_launch(&kSmallGemm);
    fake_synchronize(7);
    nvtxRangePop();
  }
}

/// As late_requests(), without ranges and waits; within the capture of a graph, or without one.
void unwaiting_requests(bool captured) {
  for (int i = 0; i < 3000; ++i) request();
  if (captured) fake_capture_begins();
  for (int i = 0; i < 400; ++i) {
    fake_launch(&kSmallGemm);
    fake_host_works(500'000);
  }
  if (captured) fake_capture_ends();
}

void marked(const char* name, int times, void (*body)()) {
  for (int i = 0; i < times; ++i) {
    nvtxRangePushA(name);
    body();
    fake_synchronize(7);
    nvtxRangePop();
    fake_host_works(20'000);
  }
}
void two_launches() {
  fake_launch(&kBias);
  fake_host_works(400'000);
  fake_launch(&kBias);
}

void two_slow_launches() {
  fake_launch(&kBias);
  fake_host_works(720'000);
  fake_launch(&kBias);
}

/// Single launches for 4 s, then a graph for 1 s, both in turns for 4 s, and another graph.
void staged_requests() {
  const auto graph = [] {
    constexpr FakeKernel nodes[] = {kBias, kBias, kGemm, kBias};
    fake_launch_graph(nodes, 4);
  };
  marked("eager", 8000, two_launches);
  marked("graph", 2000, graph);
  for (int i = 0; i < 4; ++i) {
    marked("eager", 1000, two_launches);
    marked("graph", 1000, graph);
  }
}

/// The host is slower by 1.8 times after the first second, in which all is recorded, or before.
void paced_requests(bool slows) {
  marked("request", 2200, slows ? two_launches : two_slow_launches);
  marked("request", 8000, slows ? two_slow_launches : two_launches);
}

/// In each request another thread calls, too.
void requests_of_two_threads() {
  marked("request", 8000, [] {
    two_launches();
    std::thread([] { fake_synchronize(7); }).join();
  });
}

/// Of 4 s of ranges; then the process works for 3 s without them.
void wandering_requests() {
  marked("request", 8000, two_launches);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 100 || std::chrono::steady_clock::now() - began < std::chrono::seconds{3}; ++i) {
    if (i % 100'000 == 0) fake_launch(&kSmallGemm), fake_synchronize(7);
  }
}

/// For 8.5 s: the host begins when a kernel has ended, and waits for that by no call.  In bursts, it does so for 0.4 s of each
/// second; if noticed, it has the GPU call a function, as JAX does; and it waits after each `waits_after` launches.
void polling_requests(bool bursts, bool noticed, int waits_after = 20'000) {
  for (int i = 0; i < 17'000; ++i) {
    fake_launch(&kSmallGemm);
    if (noticed) fake_launch_host_function();
    fake_host_works(500'000);
    if (bursts && i % 800 == 799) fake_host_works(600'000'000);
    if (i % waits_after == waits_after - 1) fake_synchronize(7);
  }
}

}  // namespace

int main(int, char** argv) {
  const char* what = argv[1];
  if (const char* fake = std::getenv("CORUN_FAKE_CUDA")) dlopen(fake, RTLD_NOW | RTLD_GLOBAL);
  if (const char* library = std::getenv("CUDA_INJECTION64_PATH")) {
    void* injected = dlopen(library, RTLD_NOW);
    if (injected == nullptr) return 9;
    reinterpret_cast<int (*)()>(dlsym(injected, "InitializeInjection"))();
  }
  if (std::strcmp(what, "idle") == 0) return 0;
  ranges = std::strstr(what, "unmarked") == nullptr;
  chooses = std::strcmp(what, "chooses") == 0;
  fake_allocate(1 << 30, 0x7000'0000);
  fake_allocate(1 << 20, 0x6000'0000);
  fake_free(1 << 20, 0x6000'0000);
  constexpr FakeKernel first{"_Z4initv", 7, 4, 32, 900'000};
  fake_launch(&first);
  fake_host_works(5'000'000);
  const std::string_view name = what;
  if (name == "xla") library = nvtxDomainCreateA("TSL");
  if (name == "nccl") library = nvtxDomainCreateA("NCCL");
  const bool captured = name.starts_with("capturing"), unwaiting = captured || name.starts_with("unwaiting");
  if (name == "late") late_requests();
  if (name == "staged") staged_requests();
  if (name == "slows" || name == "hastens") paced_requests(name == "slows");
  if (name == "threads") requests_of_two_threads();
  if (name == "wanders") wandering_requests();
  const bool stages =
      name == "staged" || name == "slows" || name == "hastens" || name == "threads" || name == "wanders";
  if (unwaiting) unwaiting_requests(captured);
  const bool bursts = name.starts_with("bursting"), noticed = name.starts_with("noticed");
  // With records a launch comes each 0.502 ms: a wait each 0.98 s, and each 1.03 s.
  const bool often = name.starts_with("often"), seldom = name.starts_with("seldom");
  const bool polling = name.starts_with("polling") || bursts || noticed || often || seldom;
  if (polling) polling_requests(bursts, noticed, often ? 1'952 : seldom ? 2'052 : 20'000);
  const int requests = name == "once"                                ? 1
                       : name == "late" || unwaiting || polling || stages ? 0
                       : name.starts_with("long") || name == "graph" || name == "looks" ? kLong
                                                                     : 20;
  for (int i = 0; i < requests; ++i) {
    if (name.ends_with("hosted")) hosted_request(name == "hosted");
    else if (name == "graph") graph_request();
    else if (name == "looks") looking_request();
    else request();
  }
  fake_flush();
  const bool on_part = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") != nullptr;
  if (on_part && name == "fails-there") return 5;
  if (on_part && name == "waits-there") std::this_thread::sleep_for(std::chrono::seconds{100});
  if (std::strcmp(what, "killed") == 0) {
    request();
    raise(SIGKILL);
  }
  return std::strcmp(what, "fails") == 0 ? 3 : 0;
}
