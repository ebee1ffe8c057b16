// How a program comes to its service: by the socket that the environment names, within a deadline, and by one that is its own user's.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "hw/live/wire.h"

namespace corun::live {

struct Joined {
  int socket = -1;
  Memory* memory = nullptr;  // null: it has not joined, and `why`
  std::uint32_t device = 0;  // of the GPUs that the program sees the service's
  std::string why;
};

bool sees_one_gpu();
/// Null: the environment names none.
const char* service_of_environment();
/// Says who the program is.  Takes limits::kFirstAnswer at most, for the connection and for the answer.
Joined join(const char* path);
/// In a forked child: the socket of a join that its parent has begun.
void close_what_joins();

}  // namespace corun::live
