// The readers of files that others wrote, each as a function of a path, for the fuzzers.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace corun::fuzz {

struct Reader {
  std::string_view name;  // also of its folder in corpus/
  void (*read)(const std::filesystem::path& file);
};
std::span<const Reader> readers();

}  // namespace corun::fuzz
