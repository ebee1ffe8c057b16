// A service that does what a test wants: it says hello late or never, and leaves the memory that it shares as the test makes it.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "hw/live/wire.h"

namespace corun {

class PlayedService {
 public:
  /// `welcomes`: it answers, after `prepare` has seen the memory.
  PlayedService(const std::filesystem::path& path, bool welcomes, std::function<void(live::Memory&)> prepare = [](live::Memory&) {})
      : path_(path.string()), listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    listen(listener_, 8);
    thread_ = std::thread([this, welcomes, prepare] { play(welcomes, prepare); });
  }
  ~PlayedService() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (const int fd : {listener_, socket_.load()})
      if (fd >= 0) close(fd);
    unlink(path_.c_str());
  }
  PlayedService(const PlayedService&) = delete;
  PlayedService& operator=(const PlayedService&) = delete;

  const std::string& path() const { return path_; }
  /// Null: nobody has come yet.
  live::Memory* memory() const { return memory_.load(); }
  live::Hello hello() const { return hello_; }

 private:
  void play(bool welcomes, const std::function<void(live::Memory&)>& prepare) {
    for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      if (recv(fd, &hello_, sizeof hello_, MSG_WAITALL) != static_cast<ssize_t>(sizeof hello_) || socket_ >= 0) {
        close(fd);
        continue;
      }
      socket_ = fd;
      if (!welcomes) continue;
      const int page = memfd_create("played", MFD_CLOEXEC);
      if (ftruncate(page, sizeof(live::Memory)) != 0) std::abort();
      auto* memory = static_cast<live::Memory*>(mmap(nullptr, sizeof(live::Memory), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0));
      prepare(*memory);
      live::Welcome welcome;
      welcome.accepted = 1;
      iovec part{&welcome, sizeof welcome};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
      msghdr message{};
      message.msg_iov = &part, message.msg_iovlen = 1;
      message.msg_control = control, message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof page);
      std::memcpy(CMSG_DATA(header), &page, sizeof page);
      if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) std::abort();
      close(page);
      memory_ = memory;
    }
  }

  std::string path_;
  int listener_;
  std::atomic<int> socket_{-1};
  std::atomic<live::Memory*> memory_{nullptr};
  live::Hello hello_;
  std::thread thread_;
};

}  // namespace corun
