// A program in the background: four short kernels every 2 ms, until FOLDER/enough is there.   pulses FOLDER NAME
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "program.h"

int main(int, char** argv) {
  const std::string folder = argv[1], enough = folder + "/enough";
  Arrays arrays(1);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Hash hash;
  std::vector<double> ms;
  std::fclose(std::fopen((folder + "/" + argv[2] + ".ready").c_str(), "w"));
  struct stat is;
  for (int i = 0; i < 100 || stat(enough.c_str(), &is) != 0; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned k = 0; k < 4; ++k) arrays.step(stream, k);
    CHECK(cudaStreamSynchronize(stream));
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    if (i < 100) hash.add(arrays.back());
    std::this_thread::sleep_until(begin + std::chrono::milliseconds(2));
  }
  std::sort(ms.begin(), ms.end());
  std::printf("{\"hash\": \"%s\", \"requests\": %zu, \"p99_ms\": %.3f, \"longest_ms\": %.3f}\n", hash.text().c_str(), ms.size(), ms[ms.size() * 99 / 100], ms.back());
}
