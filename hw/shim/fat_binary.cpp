#include "hw/shim/fat_binary.h"

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "hw/shim/decompress.h"

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
/// As compilers of CUDA 11 to 13 write it; what is not known is passed over.  `bytes`: with what fills them
/// up to eight.
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

struct Piece {
  Entry entry;
  std::string_view body;
};

/// Of PTX, the newest first.
std::vector<Piece> pieces_of(std::string_view bytes, std::uint32_t architecture) {
  if (bytes.size() < sizeof(Head)) return {};
  const auto head = read<Head>(bytes.data());
  if (head.magic != kFatBinary || head.head_bytes > bytes.size()) return {};
  bytes = bytes.substr(head.head_bytes, head.bytes);
  std::vector<Piece> pieces;
  while (bytes.size() >= sizeof(Entry)) {
    const auto entry = read<Entry>(bytes.data());
    if (entry.head_bytes < sizeof(Entry) || entry.head_bytes > bytes.size() ||
        entry.bytes > bytes.size() - entry.head_bytes)
      break;
    if (entry.kind == kPtx && entry.architecture <= architecture)
      pieces.push_back({entry, bytes.substr(entry.head_bytes, entry.bytes)});
    bytes.remove_prefix(entry.head_bytes + entry.bytes);
  }
  std::ranges::stable_sort(pieces, std::ranges::greater{},
                           [](const Piece& p) { return p.entry.architecture; });
  return pieces;
}

/// None: it cannot be read, or is no PTX.
std::optional<std::string> text_of(const Piece& piece) {
  const Entry& entry = piece.entry;
  std::string text(piece.body);
  if (entry.compressed_bytes != 0 || entry.whole_bytes != 0) {
    if (entry.compressed_bytes > piece.body.size()) return std::nullopt;
    std::optional<std::string> whole =
        decompress(piece.body.substr(0, entry.compressed_bytes), entry.flags, entry.whole_bytes);
    if (!whole) return std::nullopt;
    text = *std::move(whole);
  }
  text.resize(std::min(text.find('\0'), text.size()));
  return is_ptx(text.c_str()) ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace

std::string_view fat_binary_of(const void* image) {
  if (image == nullptr) return {};
  if (read<std::uint32_t>(image) == kWrapper) image = read<Wrapper>(image).data;
  if (image == nullptr || read<std::uint32_t>(image) != kFatBinary) return {};
  const auto head = read<Head>(image);
  return {static_cast<const char*>(image), head.head_bytes + head.bytes};
}

bool has_ptx(std::string_view fat_binary, std::uint32_t architecture) {
  return !pieces_of(fat_binary, architecture).empty();
}

Ptx read_ptx(std::string_view fat_binary, std::uint32_t architecture) {
  const std::vector<Piece> pieces = pieces_of(fat_binary, architecture);
  for (const Piece& piece : pieces)
    if (std::optional<std::string> text = text_of(piece)) return {*std::move(text), false};
  return {{}, !pieces.empty()};
}

std::string text_of(const void* image) {
  if (image == nullptr || !fat_binary_of(image).empty() || std::memcmp(image, ELFMAG, SELFMAG) == 0)
    return {};
  const char* const text = static_cast<const char*>(image);
  return is_ptx(text) ? text : "";
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
    const auto content_of = [](const files::path& path) {
      std::stringstream text;
      text << std::ifstream(path, std::ios::binary).rdbuf();
      return text.str();
    };
    const std::string same = content_of(file);
    if (same.size() != bytes || std::memcmp(same.data(), elf, bytes) != 0) continue;
    if (std::string ptx = content_of(files::path(file).replace_extension(".ptx")); is_ptx(ptx.c_str()))
      return ptx;
  }
  return {};
}

}  // namespace corun::live
