#include "hw/shim/decompress.h"

#include <lz4.h>
#include <zstd.h>

namespace corun::live {
namespace {

constexpr std::uint64_t kLz4 = 0x2000, kZstandard = 0x8000;
constexpr std::uint64_t kMostBytes = 256u << 20;
constexpr std::uint64_t kMostOfLz4 = 255;  // what a byte can become

}  // namespace

std::optional<std::string> decompress(std::string_view bytes, std::uint64_t flags,
                                      std::uint64_t whole_bytes) {
  const bool is_lz4 = (flags & kLz4) != 0, is_zstandard = (flags & kZstandard) != 0;
  if (is_lz4 == is_zstandard || whole_bytes > kMostBytes || bytes.size() > kMostBytes) return std::nullopt;
  // Before there is memory for it, as sizes may be wrong.
  if (is_lz4 ? whole_bytes > kMostOfLz4 * bytes.size()
             : ZSTD_getFrameContentSize(bytes.data(), bytes.size()) != whole_bytes)
    return std::nullopt;
  std::string whole(whole_bytes, '\0');
  if (is_lz4) {
    const int got = LZ4_decompress_safe(bytes.data(), whole.data(), static_cast<int>(bytes.size()),
                                        static_cast<int>(whole_bytes));
    if (got < 0 || static_cast<std::uint64_t>(got) != whole_bytes) return std::nullopt;
  } else if (ZSTD_decompress(whole.data(), whole_bytes, bytes.data(), bytes.size()) != whole_bytes) {
    return std::nullopt;  // also an error, which is a number above all sizes
  }
  return whole;
}

}  // namespace corun::live
