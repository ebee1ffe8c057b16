// What fat binaries hold compressed.  Their entries say how by flags: a block of LZ4, as compilers of CUDA 11
// and 12 write it, or a frame of Zstandard, as those of CUDA 13.
//
// Leaves out: what compilers before CUDA 11 wrote, by no published method; text above 256 MiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace corun::live {

/// `flags`: the entry's.  None: the method is another, or the bytes are not what `whole_bytes` bytes became.
std::optional<std::string> decompress(std::string_view bytes, std::uint64_t flags, std::uint64_t whole_bytes);

}  // namespace corun::live
