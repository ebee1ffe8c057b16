#include "traces/json/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "traces/model/error.h"

namespace corun {

TemporaryFolder::TemporaryFolder(const std::string& purpose, const std::filesystem::path& below) {
  std::error_code failed;
  std::string name = below.empty() ? (std::filesystem::temp_directory_path(failed) / ("corun-" + purpose + "-XXXXXX")).string()
                                   : (below / (purpose + "-XXXXXX")).string();
  if (failed || mkdtemp(name.data()) == nullptr)
    throw InputError(name, "", failed ? failed.message() : std::strerror(errno),
                     "set TMPDIR to a folder that can be written and has room");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(path_, ignored);
}

}  // namespace corun
