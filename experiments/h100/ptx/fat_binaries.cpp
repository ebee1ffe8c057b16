// All PTX in the fat binaries of files, as hw/shim reads it for a GPU of sm_121: how many have some, how much text it is, how long it takes.
//   fat_binaries FILE...
// g++ -std=c++20 -O2 -I ROOT fat_binaries.cpp ROOT/hw/shim/{fat_binary,decompress}.cpp -l:liblz4.a -l:libzstd.a
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "hw/shim/fat_binary.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::stringstream text;
    text << std::ifstream(argv[i], std::ios::binary).rdbuf();
    const std::string all = text.str(), magic("\x50\xed\x55\xba\x01\0\x10\0", 8);
    std::size_t with_ptx = 0, bytes = 0, unreadable = 0, most_bytes = 0;
    double ms = 0, most_ms = 0;
    for (std::size_t at = 0; (at = all.find(magic, at)) != std::string::npos; at += 16) {
      std::uint64_t size = 0;
      if (at + 16 > all.size()) break;
      std::memcpy(&size, &all[at + 8], sizeof size);
      if (size > all.size() - at - 16) continue;
      const auto began = std::chrono::steady_clock::now();
      const corun::live::Ptx ptx = corun::live::read_ptx(std::string_view(all).substr(at, 16 + size), 121);
      const double took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
      if (ptx.text.empty() && !ptx.unreadable) continue;
      ++with_ptx, bytes += ptx.text.size(), unreadable += ptx.unreadable, ms += took;
      most_bytes = std::max(most_bytes, ptx.text.size()), most_ms = std::max(most_ms, took);
    }
    std::printf("%s: %zu with PTX, %zu unreadable, %.1f MB, %.1f ms; the largest %.1f MB, the longest %.1f ms\n", argv[i], with_ptx, unreadable,
                static_cast<double>(bytes) / 1e6, ms, static_cast<double>(most_bytes) / 1e6, most_ms);
  }
}
