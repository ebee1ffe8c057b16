#include "hw/library/fat_binary.h"

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace corun::live {
namespace {

namespace files = std::filesystem;

constexpr std::uint32_t kWrapper = 0x466243b1, kFatBinary = 0xba55ed50;

struct Wrapper {
  std::uint32_t magic, version;
  const void* data;
};
struct Head {
  std::uint32_t magic;
  std::uint16_t version, head_bytes;
  std::uint64_t bytes;  // of what follows
};
/// As compilers of CUDA 11 to 13 write it; what is not known is passed over.
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t head_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, options, minor, architecture;
  std::uint32_t other[2];
  std::uint64_t flags, zero, whole_bytes;
};
static_assert(sizeof(Entry) == 64);
constexpr std::uint16_t kPtx = 1;

template <class T>
T read(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// A text that ends with zero: PTX begins with comments and then its version.
bool is_ptx(const char* text) {
  for (;;) {
    text += std::strspn(text, " \t\r\n");
    if (std::strncmp(text, "//", 2) == 0)
      text += std::strcspn(text, "\n");
    else if (std::strncmp(text, "/*", 2) == 0 && std::strstr(text, "*/") != nullptr)
      text = std::strstr(text, "*/") + 2;
    else
      return std::strncmp(text, ".version", 8) == 0;
  }
}

}  // namespace

Image read_image(const void* image, std::uint32_t architecture) {
  Image found;
  if (image == nullptr) return found;
  if (read<std::uint32_t>(image) == kWrapper) image = read<Wrapper>(image).data;
  if (image == nullptr) return found;
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) return found;
  if (read<std::uint32_t>(image) != kFatBinary) {
    if (is_ptx(static_cast<const char*>(image))) found.ptx = static_cast<const char*>(image);
    return found;
  }
  const auto head = read<Head>(image);
  const char* at = static_cast<const char*>(image) + head.head_bytes;
  const char* const end = at + head.bytes;
  std::uint32_t newest = 0;
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(Entry))) {
    const auto entry = read<Entry>(at);
    const auto left = static_cast<std::uint64_t>(end - at);
    if (entry.head_bytes < sizeof(Entry) || entry.head_bytes > left || entry.bytes > left - entry.head_bytes)
      break;
    const char* const body = at + entry.head_bytes;
    at = body + entry.bytes;
    if (entry.kind != kPtx || entry.architecture > architecture) continue;
    if (entry.compressed_bytes != 0 || entry.whole_bytes != 0) {
      found.compressed = true;
      continue;
    }
    const std::string text(body, strnlen(body, entry.bytes));
    if (entry.architecture > newest && is_ptx(text.c_str())) newest = entry.architecture, found.ptx = text;
  }
  if (!found.ptx.empty()) found.compressed = false;
  return found;
}

std::string ptx_beside(const void* elf) {
  if (elf == nullptr || std::memcmp(elf, ELFMAG, SELFMAG) != 0) return {};
  const auto head = read<Elf64_Ehdr>(elf);
  const std::uint64_t bytes = std::max(head.e_shoff + std::uint64_t{head.e_shnum} * head.e_shentsize,
                                       head.e_phoff + std::uint64_t{head.e_phnum} * head.e_phentsize);
  const char* const named = std::getenv("TRITON_CACHE_DIR");
  const char* const home = std::getenv("HOME");
  if (named == nullptr && home == nullptr) return {};
  const files::path cache = named != nullptr ? files::path(named) : files::path(home) / ".triton" / "cache";
  std::error_code failed;
  for (files::recursive_directory_iterator i(cache, failed), none; !failed && i != none;
       i.increment(failed)) {
    const files::path& file = i->path();
    std::error_code ignored;
    if (file.extension() != ".cubin" || files::file_size(file, ignored) != bytes || ignored) continue;
    const auto text_of = [](const files::path& path) {
      std::stringstream text;
      text << std::ifstream(path, std::ios::binary).rdbuf();
      return text.str();
    };
    const std::string same = text_of(file);
    if (same.size() != bytes || std::memcmp(same.data(), elf, bytes) != 0) continue;
    if (std::string ptx = text_of(files::path(file).replace_extension(".ptx")); is_ptx(ptx.c_str()))
      return ptx;
  }
  return {};
}

}  // namespace corun::live
