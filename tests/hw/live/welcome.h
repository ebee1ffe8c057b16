// A service's answer to a program, as it comes on a socket, and what it says of itself.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "hw/live/wire.h"

namespace corun::live {

struct Answer {
  Welcome welcome;
  int page = -1;             // with the answer of one that may join
  Memory* memory = nullptr;  // mapped; null: it could not be
};

/// None where no whole answer is there; `flags` as of recvmsg.
inline std::optional<Answer> receive_answer(int socket, int flags) {
  Answer answer;
  iovec part{&answer.welcome, sizeof answer.welcome};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof answer.welcome)) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return answer;
  std::memcpy(&answer.page, CMSG_DATA(header), sizeof answer.page);
  void* at = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, answer.page, 0);
  if (at != MAP_FAILED) answer.memory = static_cast<Memory*>(at);
  return answer;
}

/// -1: nobody listens there.
inline int connected_to(const std::string& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder + "/socket").c_str(), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  return close(fd), -1;
}

/// No object: no service answers.
inline nlohmann::json state_at(const std::string& folder) {
  const int fd = connected_to(folder);
  if (fd < 0) return {};
  Hello hello;
  hello.wish = Hello::Wish::state;
  (void)!send(fd, &hello, sizeof hello, MSG_NOSIGNAL);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = recv(fd, part, sizeof part, 0)) > 0;) text.append(part, static_cast<std::size_t>(n));
  close(fd);
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace corun::live
