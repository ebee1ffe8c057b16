// Four threads that launch on the default stream, which they share or of which each has one (nvcc --default-stream).
#include <thread>

#include "program.h"

int main(int argc, char** argv) {
  Ballast ballast;
  const int turns = rounds(argc, argv, 3000);
  std::vector<std::vector<unsigned>> results(4);
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) threads.emplace_back([number, turns, &results] {
    Arrays arrays(number);
    cudaStream_t blocking;
    CHECK(cudaStreamCreate(&blocking));
    [[maybe_unused]] cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < turns; ++i) {
      arrays.step(nullptr, static_cast<unsigned>(i));
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
      CHECK(cudaEventRecord(event, nullptr));
      CHECK(cudaStreamWaitEvent(blocking, event, 0));
#endif
      arrays.step(blocking, number);  // the legacy stream waits for it, and it for the legacy stream
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
      CHECK(cudaEventRecord(event, blocking));
      CHECK(cudaStreamWaitEvent(nullptr, event, 0));
#endif
      if (i % 100 == 99) CHECK(cudaStreamSynchronize(nullptr));
    }
    CHECK(cudaStreamSynchronize(nullptr));
    results[number] = arrays.back();
  });
  for (std::thread& each : threads) each.join();
  Hash hash;
  for (const auto& each : results) hash.add(each);
  return ends(hash, ballast);
}
