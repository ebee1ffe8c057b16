#include "hw/live/log.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "hw/live/system.h"

namespace corun::live {

Log::Log(int fd) : fd_(fd), levels_(os::isatty(fd) == 0) {}

bool Log::write(Level level, const std::string& text) const noexcept {
  fmt::memory_buffer line;
  if (levels_) fmt::format_to(std::back_inserter(line), "<{}>", static_cast<int>(level));
  const std::size_t room = 4096 - 16;  // what a pipe that can be written takes as a whole (PIPE_BUF)
  line.append(text.data(), text.data() + std::min(text.size(), room));
  line.push_back('\n');
  pollfd look{fd_, POLLOUT, 0};
  return os::poll(&look, 1, 0) == 1 && (look.revents & POLLOUT) != 0 && os::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

void Log::say(Level level, const std::string& text, Time now) noexcept {
  if (now - since_ >= limits::kMessagesIn) since_ = now, said_ = 0;
  const bool urgent = level <= Level::warning;
  if (!urgent && said_ >= limits::kMessages) {
    ++lost_;
    return;
  }
  ++said_;
  if (lost_ != 0 && write(Level::notice, fmt::format("{} messages were left out", lost_))) lost_ = 0;
  if (!write(level, text)) ++lost_;
}

void notify(const std::string& state) noexcept {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || (*path != '/' && *path != '@') || std::strlen(path) >= sizeof address.sun_path) return;
  std::strcpy(address.sun_path, path);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  if (*path == '@') address.sun_path[0] = '\0';  // of Linux's own names, which are no files
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length);
  close(fd);
}

}  // namespace corun::live
