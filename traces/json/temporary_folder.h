// A folder of this process's own, gone with the object and all that is in it.
#pragma once

#include <filesystem>
#include <string>

namespace corun {

class TemporaryFolder {
 public:
  /// `purpose`: part of its name.  `below`: where it is to be, if not where temporary files are.  Throws InputError if there
  /// is no place for it.
  explicit TemporaryFolder(const std::string& purpose, const std::filesystem::path& below = {});
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// It stays when this object ends.
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace corun
