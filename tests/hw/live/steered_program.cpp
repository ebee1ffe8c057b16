// A program that launches, and knows nothing of corun.
//   steered_program WAY LAUNCHES US [EACH [ENOUGH]]
// WAY: linked, dlsym, address, address-of-thread, address-of-11, context, graph, stream, two-streams, fork, allocate, bad
//      ptx, ptx-extra, fat, fat-lz4, fat-zstd, fat-unreadable, fat-static (of 8,000 US), library, kernel: a kernel of 8,448 blocks from a module; says "counted" where each block ran once a launch
//      capture, capture-first, -to-graph, -of-thread, -to-graph-of-thread, -asked-for, -forked, -forked-unjoined, -beside-thread, -beside-legacy: a graph of five kernels; says with which error the capture ended
//      ring: eight streams, each waits for the one before it; every other launch of each is of such a kernel, and those between are of one without a module
//      fork-stays: with a child that stays; at-exit: also when it ends
//      reset, reset-graph, reset-stream: after half of the launches its context is reset
//      later, later-same: the launch of a later CUDA, which is another function, or the same; counted: launches by a call that is not steered
//      next: says what it finds behind itself as dlsym, and ends
// Waits after each EACH launches and at the end.  With ENOUGH more of them, until there is this file.  Says "done LAUNCHES".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <lz4.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**);
using Wait = CUresult (*)(CUstream);

void launch(Launch function, int us, CUstream stream) {
  if (function(reinterpret_cast<CUfunction>(static_cast<std::intptr_t>(us)), 8, 1, 1, 128, 1, 1, 0, stream, nullptr, nullptr) != CUDA_SUCCESS)
    std::puts("refused");
}

#define PTX_OF(name)                                                                                                          \
  ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " name                                                      \
  "(.param .u64 counts) { .reg .b32 %r<3>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [counts]; mov.u32 %r1, %ctaid.x;"            \
  " mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; red.global.add.u32 [%rd3], 1; ret; }\n"

std::string ptx(const std::string& name) {
  std::string text = PTX_OF("@");
  return text.replace(text.find('@'), 1, name);
}

/// As nvcc puts it into a program: where nobody can write.
struct Fixed {
  std::uint32_t magic = 0xba55ed50;
  std::uint16_t version = 1, head_bytes = 16;
  std::uint64_t bytes = 64 + sizeof(text);
  std::uint16_t kind = 1, version_of_kind = 0x101;
  std::uint32_t entry_bytes = 64;
  std::uint64_t text_bytes = sizeof(text);
  std::uint32_t compressed_bytes = 0, options = 0, minor = 0, architecture = 80, other[2] = {};
  std::uint64_t flags = 0x11, zero = 0, whole_bytes = 0;
  char text[512] = PTX_OF("busy_8000");
};
constexpr Fixed kFixed;

/// A fat binary of one piece of PTX, as of nvcc; unreadable: by a method that there is not.
std::string fat(std::string text, const std::string& way) {
  const std::size_t whole = text.size() + 1;
  std::uint64_t flags = 0x11;
  std::string compressed(ZSTD_compressBound(whole), '\0');
  if (way == "fat-lz4") {
    flags |= 0x2000;
    compressed.resize(LZ4_compress_default(text.c_str(), compressed.data(), static_cast<int>(whole), static_cast<int>(compressed.size())));
  } else {
    flags |= way == "fat-zstd" ? 0x8000 : 0x1000;
    compressed.resize(ZSTD_compress(compressed.data(), compressed.size(), text.c_str(), whole, 3));
  }
  const bool plain = way == "fat";
  if (!plain) text = compressed;
  std::string all(80, '\0');
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t bytes) { all.replace(at, bytes, reinterpret_cast<const char*>(&value), bytes); };
  const std::uint64_t bytes = (text.size() + 8) / 8 * 8;
  put(0, 0xba55ed50, 4), put(4, 1, 2), put(6, 16, 2), put(8, 64 + bytes, 8);
  put(16, 1, 2), put(18, 0x101, 2), put(20, 64, 4), put(24, bytes, 8), put(44, 80, 4), put(56, plain ? 0x11 : flags, 8);
  if (!plain) put(32, text.size(), 4), put(72, whole, 8);
  return all + text + std::string(bytes - text.size(), '\0');
}

constexpr unsigned kBlocks = 8448;

/// The kernel that takes `us`, loaded in this way.
CUfunction kernel_of_module(void* driver, const std::string& way, int us) {
  const std::string name = "busy_" + std::to_string(us), text = ptx(name);
  std::string image = way.starts_with("fat") ? fat(text, way) : text;
  CUfunction f = nullptr;
  if (way == "library" || way == "kernel") {
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    reinterpret_cast<decltype(&cuLibraryLoadData)>(dlsym(driver, "cuLibraryLoadData"))(&library, image.c_str(), nullptr, nullptr, 0, nullptr,
                                                                                   nullptr, 0);
    reinterpret_cast<decltype(&cuLibraryGetKernel)>(dlsym(driver, "cuLibraryGetKernel"))(&kernel, library, name.c_str());
    if (way == "kernel") return reinterpret_cast<CUfunction>(kernel);  // as the runtime launches it
    reinterpret_cast<decltype(&cuKernelGetFunction)>(dlsym(driver, "cuKernelGetFunction"))(&f, kernel);
    return f;
  }
  CUmodule module = nullptr;
  reinterpret_cast<decltype(&cuModuleLoadData)>(dlsym(driver, "cuModuleLoadData"))(&module, way == "fat-static" ? static_cast<const void*>(&kFixed) : image.c_str());
  std::ranges::fill(image, 'x');  // it is the driver's that is used from now on
  reinterpret_cast<decltype(&cuModuleGetFunction)>(dlsym(driver, "cuModuleGetFunction"))(&f, module, name.c_str());
  return f;
}

/// Five kernels, captured in this way.  The stream in which the graph is to be launched.
CUstream capture(void* driver, const std::string& way, int us, CUgraphExec* made) {
  const auto call = [&]<class F>(F*, const char* name) { return reinterpret_cast<F*>(dlsym(driver, name)); };
#define CALL(NAME) call(static_cast<decltype(&NAME)>(nullptr), #NAME)
  constexpr auto kMode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const bool of_thread = way.ends_with("-of-thread"), to_graph = way.starts_with("capture-to-graph");
  const bool blocking = way == "capture-beside-legacy";
  CUstream stream = nullptr, other = nullptr;
  CUgraph graph = nullptr;
  CUevent event = nullptr;
  CALL(cuGraphCreate)(&graph, 0);
  CALL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
  CALL(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING);
  if (!of_thread) CALL(cuStreamCreate)(&stream, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  const auto function = of_thread ? CALL(cuLaunchKernel_ptsz) : CALL(cuLaunchKernel);
  CUresult begun = CUDA_SUCCESS;
  if (to_graph)
    begun = (of_thread ? CALL(cuStreamBeginCaptureToGraph_ptsz) : CALL(cuStreamBeginCaptureToGraph))(stream, graph, nullptr, nullptr, 0, kMode);
  else if (way == "capture-asked-for") {
    decltype(&cuStreamBeginCaptureToGraph) begin = nullptr;
    CALL(cuGetProcAddress_v2)("cuStreamBeginCaptureToGraph", reinterpret_cast<void**>(&begin), 12030, 0, nullptr);
    begun = begin(stream, graph, nullptr, nullptr, 0, kMode);
  } else if (way == "capture-first")
    begun = reinterpret_cast<CUresult (*)(CUstream)>(dlsym(driver, "cuStreamBeginCapture"))(stream);
  else
    begun = (of_thread ? CALL(cuStreamBeginCapture_v2_ptsz) : CALL(cuStreamBeginCapture_v2))(stream, kMode);
  if (begun != CUDA_SUCCESS) std::printf("not begun: %d\n", begun);
  if (blocking && function(reinterpret_cast<CUfunction>(std::intptr_t{10}), 8, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr) !=
                      CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    std::puts("taken");  // to be refused, as the driver does
  if (way == "capture-beside-thread")  // that has launched nothing yet
    std::thread([&] { launch(function, us, other), CALL(cuStreamSynchronize)(other); }).join();
  const bool forks = way.starts_with("capture-forked");
  launch(function, us, stream);
  if (forks) CALL(cuEventRecord)(event, stream), CALL(cuStreamWaitEvent)(other, event, 0);
  for (int i = 0; i < 3; ++i) launch(function, us, forks ? other : stream);
  if (forks && way != "capture-forked-unjoined") CALL(cuEventRecord)(event, other), CALL(cuStreamWaitEvent)(stream, event, 0);
  launch(function, us, stream);
  CUgraph captured = nullptr;
  const CUresult ended = (of_thread ? CALL(cuStreamEndCapture_ptsz) : CALL(cuStreamEndCapture))(stream, &captured);
  std::printf("captured: %d\n", ended);
  if (to_graph && captured != graph) std::puts("another graph");
  if (captured != nullptr) CALL(cuGraphInstantiateWithFlags)(made, captured, 0);
  return stream;
#undef CALL
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argv[1];
  if (way == "at-exit") {  // so that it is called after all that is made from here on is destroyed
    std::atexit([] {
      void* late = dlopen("libcuda.so.1", RTLD_NOW);
      launch(reinterpret_cast<Launch>(dlsym(late, "cuLaunchKernel")), 50, nullptr);
      reinterpret_cast<Wait>(dlsym(late, "cuStreamSynchronize"))(nullptr);
      std::puts("launched at exit");
    });
  }
  int launches = std::atoi(argv[2]);
  const int us = std::atoi(argv[3]), each = argc > 4 ? std::atoi(argv[4]) : launches;
  const char* enough = argc > 5 ? argv[5] : nullptr;
  if (way == "next") return std::puts(dlsym(RTLD_NEXT, "dlsym") == dlsym(RTLD_DEFAULT, "dlsym") ? "the first" : "another"), 0;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return std::puts(dlerror()), 1;
  auto init = reinterpret_cast<CUresult (*)(unsigned)>(dlsym(driver, "cuInit"));
  auto function = reinterpret_cast<Launch>(dlsym(driver, "cuLaunchKernel"));
  auto wait = reinterpret_cast<Wait>(dlsym(driver, "cuStreamSynchronize"));
  const auto graph = reinterpret_cast<CUresult (*)(CUgraphExec, CUstream)>(dlsym(driver, "cuGraphLaunch"));
  if (way == "address" || way == "address-of-thread") {
    using Get = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
    const auto first = reinterpret_cast<Get>(dlsym(driver, "cuGetProcAddress_v2"));
    Get get = nullptr;
    first("cuGetProcAddress", reinterpret_cast<void**>(&get), 12000, 0, nullptr);
    const cuuint64_t flags = way == "address-of-thread" ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
    get("cuInit", reinterpret_cast<void**>(&init), 2000, flags, nullptr);
    get("cuLaunchKernel", reinterpret_cast<void**>(&function), 7000, flags, nullptr);
    get("cuStreamSynchronize", reinterpret_cast<void**>(&wait), 7000, 0, nullptr);
  }
  CUresult (*later)(CUstream, CUfunction) = nullptr;
  if (way == "later" || way == "later-same")
    reinterpret_cast<decltype(&cuGetProcAddress_v2)>(dlsym(driver, "cuGetProcAddress_v2"))(
        "cuLaunchKernel", way == "later" ? reinterpret_cast<void**>(&later) : reinterpret_cast<void**>(&function), way == "later" ? 14000 : 13010, 0, nullptr);
  if (way == "address-of-11") {  // as the runtime of CUDA 11.3 to 11.8 does
    using Get = CUresult (*)(const char*, void**, int, cuuint64_t);
    Get get = reinterpret_cast<Get>(dlsym(driver, "cuGetProcAddress"));
    get("cuGetProcAddress", reinterpret_cast<void**>(&get), 11030, 0);
    get("cuInit", reinterpret_cast<void**>(&init), 2000, 0);
    get("cuLaunchKernel", reinterpret_cast<void**>(&function), 7000, 0);
    get("cuStreamSynchronize", reinterpret_cast<void**>(&wait), 7000, 0);
  }
  if (way == "linked") {
    init = cuInit;
    function = cuLaunchKernel;
    wait = cuStreamSynchronize;
  }
  if (way == "context") {  // as the runtime of CUDA 13 waits
    using Get = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
    const auto get = reinterpret_cast<Get>(dlsym(driver, "cuGetProcAddress_v2"));
    get("cuCtxSynchronize", reinterpret_cast<void**>(&wait), 13000, 0, nullptr);
  }
  init(0);
  CUstream stream = nullptr;
  if (way == "stream" || way == "reset-stream") reinterpret_cast<CUresult (*)(CUstream*, unsigned)>(dlsym(driver, "cuStreamCreate"))(&stream, 1);
  auto graph_made = reinterpret_cast<CUgraphExec>(static_cast<std::intptr_t>(us));
  if (way.starts_with("capture")) stream = capture(driver, way, us, &graph_made);
  if (way == "fork") {
    if (const pid_t child = fork(); child == 0) {
      launch(function, us, stream);
      _exit(0);
    } else {
      int status = 0;
      waitpid(child, &status, 0);
      std::printf("child %d\n", status);
    }
  }
  const auto call_of = [&]<class F>(F*, const char* name) { return reinterpret_cast<F*>(dlsym(driver, name)); };
#define CALL(NAME) call_of(static_cast<decltype(&NAME)>(nullptr), #NAME)
  if (way == "fork-stays") {  // its child goes on when it is killed
    if (const pid_t child = fork(); child == 0) {
      sleep(120);
      _exit(0);
    } else {
      std::printf("child %d\n", child);
      std::fflush(stdout);
    }
  }
  if (way == "allocate") {
    const auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(dlsym(driver, "cuMemAlloc_v2"));
    CUdeviceptr at = 0;
    const CUresult most = allocate(&at, std::size_t{1} << 30), more = allocate(&at, (std::size_t{1} << 30) + 1);
    std::printf("allocated %d %d\n", most, more);
  }
  const bool of_module = way == "ptx" || way == "ptx-extra" || way.starts_with("fat") || way == "library" || way == "kernel" || way == "ring";
  const CUfunction kernel = of_module ? kernel_of_module(driver, way, us) : nullptr;
  std::vector<std::uint32_t> counts(kBlocks);
  const auto launch_kernel = [&] {
    std::uint32_t* at = counts.data();
    void* arguments[] = {&at};
    std::size_t bytes = sizeof at;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &at, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    const bool packed = way == "ptx-extra";
    if (function(kernel, kBlocks, 1, 1, 128, 1, 1, 0, stream, packed ? nullptr : arguments, packed ? extra : nullptr) != CUDA_SUCCESS)
      std::puts("refused");
  };
  if (way == "ring") {
    constexpr int kRing = 8;
    CUstream streams[kRing];
    CUevent events[kRing];
    for (int i = 0; i < kRing; ++i) {
      CALL(cuStreamCreateWithPriority)(&streams[i], i % 2 != 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, i % 3 == 0 ? -1 : 0);
      CALL(cuEventCreate)(&events[i], CU_EVENT_DISABLE_TIMING);
    }
    std::uint32_t of_modules = 0;
    for (int i = 0; i < launches; ++i) {
      stream = streams[i % kRing];
      if (i > 0) CALL(cuStreamWaitEvent)(stream, events[(i - 1) % kRing], 0);
      if ((i / kRing + i) % 2 == 0)
        launch_kernel(), ++of_modules;
      else
        launch(function, 50, stream);
      CALL(cuEventRecord)(events[i % kRing], stream);
      if (i % each == each - 1)
        for (CUstream one : streams) wait(one);
    }
    for (CUstream one : streams) wait(one);
    if (std::ranges::all_of(counts, [&](std::uint32_t n) { return n == of_modules; })) std::puts("counted");
    return std::printf("done %d\n", launches), 0;
  }
  CUstream second = stream;
  if (way == "two-streams") reinterpret_cast<CUresult (*)(CUstream*, unsigned)>(dlsym(driver, "cuStreamCreate"))(&second, 1);
  const auto call = [&](int i) {
    if (of_module)
      launch_kernel();
    else if (way == "graph" || way == "reset-graph" || way.starts_with("capture"))
      graph(graph_made, stream);
    else if (later != nullptr)
      later(stream, reinterpret_cast<CUfunction>(static_cast<std::intptr_t>(us)));
    else if (way == "counted")
      reinterpret_cast<decltype(&cuLaunchGrid)>(dlsym(driver, "cuLaunchGrid"))(reinterpret_cast<CUfunction>(static_cast<std::intptr_t>(us)), 8, 1);
    else
      launch(function, way == "bad" && i == 1 ? 0 : us, i % 2 == 0 ? second : stream);
  };
  const int half = launches / 2;
  for (int i = 1; i <= launches; ++i) {
    call(i);
    if (way.starts_with("reset") && i == half) {  // in mid-run, with its streams
      wait(stream);
      CALL(cuDevicePrimaryCtxReset_v2)(0);
      if (stream != nullptr) CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
      second = stream;
    }
    if (i % each == 0) {
      wait(stream), wait(second);
      if (i == launches && enough != nullptr && access(enough, F_OK) != 0) launches += each;
    }
  }
  wait(stream), wait(second);
  if (of_module && std::ranges::all_of(counts, [&](std::uint32_t n) { return n == static_cast<std::uint32_t>(launches); })) std::puts("counted");
  std::printf("done %d\n", launches);
}
