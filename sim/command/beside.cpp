#include "sim/command/beside.h"

#include <fmt/format.h>

#include "traces/model/error.h"

namespace corun::sim {

std::filesystem::path beside_this(const std::string& library, const std::string& remedy) {
  std::error_code ignored;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& path : {here / library, here.parent_path() / "lib" / library})
    if (std::filesystem::exists(path)) return path;
  throw InputError("", "", fmt::format("{} is not beside the command", library), remedy);
}

}  // namespace corun::sim
