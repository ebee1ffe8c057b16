#include "hw/live/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hw/live/limits.h"
#include "hw/live/wire.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

namespace files = std::filesystem;

constexpr const char* kFile = "environment";
constexpr const char* kBegun = "environment.new";
constexpr const char* kPipe = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kLog = "CUDA_MPS_LOG_DIRECTORY";
constexpr uid_t kUnmapped = 65534;  // as root of the machine is seen from within a container of a user's

[[noreturn]] void refuse(const files::path& path, const std::string& why) {
  throw InputError(path.string(), "--at", why, "name a folder with --at that is yours alone (mode 0700), or one that is not there yet");
}

/// As absolute as it was named, its last part a name: a path that ends in a slash would lead through a link.
files::path plain(const files::path& named) {
  files::path path = files::absolute(named).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// Who may rename a folder above may put another one in its place.
void check_above(const files::path& path) {
  for (files::path above = path.parent_path();; above = above.parent_path()) {
    struct stat is{};
    if (stat(above.c_str(), &is) != 0) refuse(path, fmt::format("{}: {}", above.string(), std::strerror(errno)));
    if ((is.st_mode & S_IWOTH) != 0 && (is.st_mode & S_ISVTX) == 0)
      refuse(path, fmt::format("anybody may exchange it, as {} may be written by all", above.string()));
    if (is.st_uid != 0 && is.st_uid != geteuid() && is.st_uid != kUnmapped)
      refuse(path, fmt::format("{} above it belongs to another user", above.string()));
    if (above == above.parent_path()) return;
  }
}

bool writes_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

files::path Folder::by_default() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat is{};
  if (runtime != nullptr && *runtime == '/' && stat(runtime, &is) == 0 && S_ISDIR(is.st_mode) && is.st_uid == geteuid())
    return files::path(runtime) / "corun";
  return files::temp_directory_path() / fmt::format("corun-{}", geteuid());
}

std::optional<Folder> Folder::open(const files::path& named, bool make) {
  files::path path = plain(named);
  std::error_code failed;
  const files::path above = files::canonical(path.parent_path(), failed);
  if (failed) {
    if (!make) return {};
    refuse(path, fmt::format("the folder above it: {}", failed.message()));
  }
  path = above / path.filename();
  bool made = false;
  if (make) {
    made = mkdir(path.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) refuse(path, std::strerror(errno));
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT && !make) return {};
    if (errno == ELOOP || errno == ENOTDIR) refuse(path, "is a link, or no folder");
    refuse(path, errno == EACCES ? "is no folder of yours" : std::strerror(errno));
  }
  Folder folder(std::move(path), fd, made);
  struct stat is{};
  if (fstat(fd, &is) != 0) refuse(folder.path_, std::strerror(errno));
  if (is.st_uid != geteuid()) refuse(folder.path_, "is no folder of yours: it belongs to another user");
  if ((is.st_mode & 0777) != 0700) refuse(folder.path_, fmt::format("is not yours alone: its mode is {:04o} and not 0700", is.st_mode & 07777));
  check_above(folder.path_);
  return folder;
}

Folder Folder::of_service(const files::path& named) {
  Folder folder = *open(named, true);
  if (flock(folder.fd_, LOCK_EX | LOCK_NB) != 0)  // held until the service ends, however it ends
    throw InputError(folder.path_.string(), "--at", "another service is there", "end it, or name another folder with --at for a second GPU");
  struct stat is{};
  if (fstatat(folder.fd_, "socket", &is, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISSOCK(is.st_mode))
    refuse(folder.path_, "it has a file `socket` that no service has made");
  if (const auto said = folder.read(); said && !said->starts_with(fmt::format("{}=", kSocketVariable)))  // else of one that was killed
    refuse(folder.path_, fmt::format("it has a file `{}` that no service has made", kFile));
  folder.serves_ = true;
  folder.uninvite();
  return folder;
}

std::optional<Folder> Folder::of_program(const files::path& named) { return open(named, false); }

Folder::Folder(Folder&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), made_(std::exchange(other.made_, false)),
      serves_(std::exchange(other.serves_, false)) {}

Folder::~Folder() {
  if (fd_ < 0) return;
  if (serves_) {
    uninvite();
    unlinkat(fd_, "socket", 0);
  }
  struct stat opened{}, named{};
  if (made_ && fstat(fd_, &opened) == 0 && lstat(path_.c_str(), &named) == 0 && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev)
    rmdir(path_.c_str());  // where nobody else keeps anything there
  close(fd_);
}

std::string Folder::opened(const std::string& file) const { return fmt::format("/proc/self/fd/{}/{}", fd_, file); }

void Folder::uninvite() noexcept {
  for (const char* file : {kFile, kBegun}) unlinkat(fd_, file, 0);
}

void Folder::invite(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += fmt::format("{}={}\n", name, inside(name, value));
  unlinkat(fd_, kBegun, 0);
  const int fd = openat(fd_, kBegun, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && writes_all(fd, text);
  if (fd >= 0) close(fd);
  if (!written || renameat(fd_, kBegun, fd_, kFile) != 0)
    throw InputError((path_ / kFile).string(), "--at", std::strerror(errno), "name a folder with --at that has room");
}

/// Of a value what is below the folder, each part of it the user's and no link.
std::string Folder::inside(const std::string& name, const std::string& value) const {
  const auto wrong = [&](const std::string& why) {
    throw InputError((path_ / kFile).string(), name, fmt::format("{}: nothing of the file was used", why),
                     "end the service of this folder and start it anew, as nobody but it writes this file");
  };
  const std::string before = path_.native() + "/";
  const std::string rest = value.starts_with(before) ? value.substr(before.size()) : value;
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= rest.size();) {
    const std::size_t end = std::min(rest.find('/', at), rest.size());
    parts.push_back(rest.substr(at, end - at));
    at = end + 1;
  }
  if (std::ranges::any_of(parts, [](const std::string& p) { return p.empty() || p == "." || p == ".."; }))
    wrong(fmt::format("{} is no path in the folder", value));
  if (name == kSocketVariable) {
    if (rest != "socket") wrong(fmt::format("{} is not the service's socket", value));
    return rest;
  }
  if (name != kPipe && name != kLog) wrong("a service tells programs nothing of this name");
  int fd = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  for (const std::string& part : parts) {
    const int next = openat(fd, part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    close(fd);
    fd = next;
    struct stat is{};
    if (fd < 0 || fstat(fd, &is) != 0 || is.st_uid != geteuid() || (is.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      if (fd >= 0) close(fd);
      wrong(fmt::format("{} is no folder of yours", value));
    }
  }
  close(fd);
  return rest;
}

/// The file, if there is one.
std::optional<std::string> Folder::read() const {
  const auto wrong = [&](const char* why) {
    throw InputError((path_ / kFile).string(), "--at", why, "take the file away, or name another folder with --at");
  };
  const int fd = openat(fd_, kFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return {};
  if (fd < 0) wrong("is a link, or cannot be read");
  struct stat is{};
  std::array<char, limits::kFileBytes + 1> text{};
  const bool own = fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == geteuid() && (is.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  const ssize_t bytes = own ? ::read(fd, text.data(), text.size()) : -1;
  close(fd);
  if (!own) wrong("is no file of yours alone");
  if (bytes < 0 || static_cast<std::size_t>(bytes) > limits::kFileBytes) wrong("is longer than what a service writes");
  return std::string(text.data(), static_cast<std::size_t>(bytes));
}

std::vector<std::pair<std::string, std::string>> Folder::invitation() const {
  std::vector<std::pair<std::string, std::string>> all;
  const std::string said = read().value_or("");
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = std::min(said.find('\n', at), said.size());
    const std::string line = said.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string name = line.substr(0, equals), value = line.substr(std::min(equals + 1, line.size()));
    const std::string path = inside(name, value);
    if (std::ranges::find(all, name, &std::pair<std::string, std::string>::first) != all.end())
      throw InputError((path_ / kFile).string(), name, "is said twice: nothing of the file was used", "end the service of this folder and start it anew");
    all.emplace_back(name, (path_ / path).string());
  }
  return all;
}

}  // namespace corun::live
