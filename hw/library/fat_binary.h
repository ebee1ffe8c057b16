// The PTX of what programs give to the driver to load.
//
// Leaves out: PTX that a fat binary holds compressed, by no published method: it is only counted.
#pragma once

#include <cstdint>
#include <string>

namespace corun::live {

struct Image {
  std::string ptx;          // empty: there is none
  bool compressed = false;  // a fat binary has some, compressed
};

/// `architecture`: of the GPU, as 90; the newest PTX that is no newer.  Reads what the image says it has.
Image read_image(const void* image, std::uint32_t architecture);

/// Of a program for one architecture (an ELF file in memory): the PTX that Triton keeps beside the same in
/// its cache.
std::string ptx_beside(const void* elf);

}  // namespace corun::live
