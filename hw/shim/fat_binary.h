// The PTX of what programs give to the driver to load.
//
// Leaves out: PTX that compilers before CUDA 11 compressed (decompress.h): it is only counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace corun::live {

/// The fat binary that the image is, as long as its head says; empty: it is none.
std::string_view fat_binary_of(const void* image);
/// Some that is no newer than `architecture`, the GPU's, as 90.
bool has_ptx(std::string_view fat_binary, std::uint32_t architecture);

struct Ptx {
  std::string text;         // empty: there is none that can be read
  bool unreadable = false;  // there is some, and none of it can be read
};
/// The newest that is no newer than `architecture`.  Decompresses it.
Ptx read_ptx(std::string_view fat_binary, std::uint32_t architecture);

/// Of an image that is PTX as text; else empty.
std::string text_of(const void* image);

/// Of a program for one architecture (an ELF file in memory): the PTX that Triton keeps beside the same in
/// its cache.
std::string ptx_beside(const void* elf);

}  // namespace corun::live
