// A folder of this process's own, gone with the object and all that is in it.
#pragma once

#include <filesystem>
#include <string>

namespace corun {

class TemporaryFolder {
 public:
  /// `purpose`: part of its name.  Throws InputError if there is no place for it.
  explicit TemporaryFolder(const std::string& purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace corun
