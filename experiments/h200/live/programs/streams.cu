// Eight streams in a ring, of which each waits for the events of the one before it.
#include "program.h"

int main(int argc, char** argv) {
  constexpr int kStreams = 8;
  Ballast ballast;
  std::vector<Arrays> arrays;
  cudaStream_t streams[kStreams];
  cudaEvent_t events[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    arrays.emplace_back(static_cast<unsigned>(i));
    CHECK(cudaStreamCreateWithPriority(&streams[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault, i % 3 == 0 ? -1 : 0));
    CHECK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
  }
  Hash hash;
  for (int round = 0; round < rounds(argc, argv, 2000); ++round) {
    for (int i = 0; i < kStreams; ++i) {
      const int before = (i + kStreams - 1) % kStreams;
      if (round + i > 0) CHECK(cudaStreamWaitEvent(streams[i], events[before], 0));
      mix<<<kBlocks, kThreads, 0, streams[i]>>>(arrays[before].now(), arrays[i].next(), static_cast<unsigned>(round));
      arrays[i].turn();
      CHECK(cudaEventRecord(events[i], streams[i]));
    }
    if (round % 50 == 49) {
      CHECK(cudaEventSynchronize(events[kStreams - 1]));
      for (cudaStream_t each : streams) CHECK(cudaStreamSynchronize(each));
      for (const Arrays& each : arrays) hash.add(each.back());
    }
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
