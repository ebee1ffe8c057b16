// A program that allocates, and knows nothing of corun.
//   memory_program WAY MIB ROUNDS [US [FOLDER PROGRAMS]]
// It has MIB of device memory in blocks of 4 MiB, each word of which has a value of its own, and in each of ROUNDS rounds
// adds 1 to every word in kernels of US microseconds, waits, and looks at one block.  At the end it looks at all.
// WAY: plain; frees: each round also allocates a block and frees it; beyond: it asks for 64 MiB more than MIB at once, which is to fail;
// captures: some end, one twice, one with its stream; says whether memory that it frees then is free;
// tells: prints what the driver says of its memory.
// With FOLDER it leaves a file there once it has its memory, and does not end before as many as PROGRAMS have.
// Says "wrong N" words, and "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

void* driver = nullptr;
template <class F>
F* call(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(driver, name));
}
#define CALL(NAME) call(static_cast<decltype(&NAME)>(nullptr), #NAME)

constexpr std::size_t kBlock = std::size_t{4} << 20, kWords = kBlock / 4;

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s failed: %d\n", what, result);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argv[1];
  const int mib = std::atoi(argv[2]), rounds = std::atoi(argv[3]), us = argc > 4 ? std::atoi(argv[4]) : 100;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  check(CALL(cuInit)(0), "init");
  std::vector<CUdeviceptr> blocks;
  const auto value = [](std::size_t block, std::size_t word) {
    return static_cast<unsigned>(block * 2654435761u + word);
  };
  std::vector<unsigned> words(kWords);
  for (int i = 0; i < mib / 4; ++i) {
    CUdeviceptr at = 0;
    check(CALL(cuMemAlloc_v2)(&at, kBlock), "allocate");
    for (std::size_t w = 0; w < kWords; ++w) words[w] = value(static_cast<std::size_t>(i), w);
    check(CALL(cuMemcpyHtoD_v2)(at, words.data(), kBlock), "copy");
    blocks.push_back(at);
  }
  std::puts("allocated");
  std::fflush(stdout);
  const std::filesystem::path folder = argc > 5 ? argv[5] : "";
  if (argc > 6) std::ofstream(folder / std::to_string(getpid()));
  if (way == "beyond") {
    CUdeviceptr at = 0;
    std::printf("beyond %d\n", CALL(cuMemAlloc_v2)(&at, std::size_t{64} << 20));
  }
  if (way == "tells") {
    std::size_t left = 0, all = 0, bytes = 0;
    CUdeviceptr at = 0;
    CUipcMemHandle handle;
    CALL(cuMemGetInfo_v2)(&left, &all);
    CALL(cuMemGetAddressRange_v2)(&at, &bytes, blocks[1] + 12345);
    std::printf("left %zu of %zu MiB, range %d %zu\n", left >> 20, all >> 20, at == blocks[1], bytes);
    std::printf("shared %d\n", CALL(cuIpcGetMemHandle)(&handle, blocks[0]));
    check(CALL(cuMemAllocAsync)(&at, kBlock, nullptr), "pool");
    check(CALL(cuMemFreeAsync)(at, nullptr), "pool");
    check(CALL(cuMemAlloc_v2)(&at, 4096), "small");
    check(CALL(cuMemFree_v2)(at), "small");
  }
  if (way == "captures") {
    std::size_t before = 0, after = 0, all = 0;
    CUdeviceptr more = 0;
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    CALL(cuMemGetInfo_v2)(&before, &all);
    check(CALL(cuMemAlloc_v2)(&more, kBlock), "allocate more");
    check(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "stream");
    check(CALL(cuGraphCreate)(&graph, 0), "graph");
    check(CALL(cuStreamBeginCaptureToGraph)(stream, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    check(CALL(cuStreamEndCapture)(stream, &graph), "end");
    if (CALL(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS) std::puts("ended twice");
    check(CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin again");
    check(CALL(cuStreamDestroy_v2)(stream), "destroy");
    check(CALL(cuMemFree_v2)(more), "free more");
    CALL(cuMemGetInfo_v2)(&after, &all);
    std::printf("left as before %d\n", before == after);
  }
  std::uint64_t wrong = 0;
  const auto look = [&](std::size_t block, unsigned added) {
    check(CALL(cuMemcpyDtoH_v2)(words.data(), blocks[block], kBlock), "look");
    for (std::size_t w = 0; w < kWords; ++w) wrong += words[w] != value(block, w) + added;
  };
  for (int r = 1; r <= rounds; ++r) {
    CUdeviceptr more = 0;
    if (way == "frees") check(CALL(cuMemAlloc_v2)(&more, kBlock), "allocate more");
    for (CUdeviceptr at : blocks) {
      std::uint64_t count = kWords;
      void* arguments[] = {&at, &count};
      check(CALL(cuLaunchKernel)(reinterpret_cast<CUfunction>(static_cast<std::intptr_t>(us)), 8, 1, 1, 128,
                                 1, 1, 0, nullptr, arguments, nullptr),
            "launch");
    }
    check(CALL(cuStreamSynchronize)(nullptr), "wait");
    look(static_cast<std::size_t>(r) % blocks.size(), static_cast<unsigned>(r));
    if (more != 0) check(CALL(cuMemFree_v2)(more), "free");
  }
  const auto allocated = [&] {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  for (int waits = 0; argc > 6 && waits < 2000 && allocated() < std::atoi(argv[6]); ++waits) usleep(5'000);
  for (std::size_t i = 0; i < blocks.size(); ++i) look(i, static_cast<unsigned>(rounds));
  std::printf("wrong %llu\ndone\n", static_cast<unsigned long long>(wrong));
  std::fflush(stdout);  // before another program has this memory, and says so
  for (CUdeviceptr at : blocks) check(CALL(cuMemFree_v2)(at), "free");
}
