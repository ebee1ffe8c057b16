// A service's answer to a program, as it comes on a socket.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

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

}  // namespace corun::live
