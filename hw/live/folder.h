// A service's folder.  Only its user can enter it: so who reaches the socket is that user, and what the file `environment`
// says was written by the user's service.  The folder is looked at once it is open, and files are reached through it, so that
// nobody can exchange what was looked at.
//
// A folder that was there before is never changed and never removed.
//
// Leaves out: what root, or another process of the same user, does in it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace corun::live {

class Folder {
 public:
  /// One for each user: corun below XDG_RUNTIME_DIR where that is the user's own, else /tmp/corun-UID.
  static std::filesystem::path by_default();
  /// Makes it where there is none, and holds it against a second service.  Throws InputError where it is not to be trusted.
  static Folder of_service(const std::filesystem::path& path);
  /// Empty: there is none.  Throws InputError where it is not to be trusted.
  static std::optional<Folder> of_program(const std::filesystem::path& path);
  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&&) = delete;
  /// Takes away what it has made.
  ~Folder();

  /// Absolute, and no link is in it.
  const std::filesystem::path& path() const { return path_; }
  /// A file of the folder that is open, whatever is behind its path now.
  std::string opened(const std::string& file) const;

  /// NAME=VALUE, of which the values are paths in the folder; who finds the file finds all of it.
  void invite(const std::vector<std::pair<std::string, std::string>>& variables);
  /// Programs that come find no service.
  void uninvite() noexcept;
  /// Variables for programs, with absolute paths; none where the service has not written any.  Throws InputError where the file
  /// has anything but the user's paths in the folder.
  std::vector<std::pair<std::string, std::string>> invitation() const;

 private:
  Folder(std::filesystem::path path, int fd, bool made) : path_(std::move(path)), fd_(fd), made_(made) {}
  static std::optional<Folder> open(const std::filesystem::path& named, bool make);
  std::optional<std::string> read() const;
  std::string inside(const std::string& name, const std::string& value) const;

  std::filesystem::path path_;
  int fd_ = -1;
  bool made_ = false, serves_ = false;
};

}  // namespace corun::live
