// A service that sends heartbeats for SECONDS and never grants a launch: grants_nothing SOCKET SECONDS
//   g++ -std=c++20 -I ../../../.. -o grants_nothing grants_nothing.cpp
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hw/live/wire.h"

using namespace corun::live;

int main(int, char** argv) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0), page = memfd_create("page", 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener, 1) != 0 || ftruncate(page, sizeof(Memory)) != 0) return 1;
  auto* memory = static_cast<Memory*>(mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0));
  memory->gate.store(Gate::asks);
  const int client = accept(listener, nullptr, nullptr);
  Hello hello;
  if (recv(client, &hello, sizeof hello, MSG_WAITALL) != static_cast<ssize_t>(sizeof hello)) return 1;
  Welcome welcome;
  welcome.accepted = 1;
  iovec part{&welcome, sizeof welcome};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof page)] = {};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof page);
  std::memcpy(CMSG_DATA(header), &page, sizeof page);
  if (sendmsg(client, &message, 0) < 0) return 1;
  for (int i = 0; i < 50 * std::atoi(argv[2]); ++i) memory->beat.fetch_add(1), memory->heard.store(memory->said.load()), usleep(20000);
  std::printf("%u requests\n", memory->said.load());
}
