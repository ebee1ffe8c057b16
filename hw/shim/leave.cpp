#include "hw/shim/leave.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "hw/live/system.h"
#include "hw/shim/client.h"
#include "hw/shim/driver_calls.h"

namespace corun::live {
namespace {

struct ToSay {
  bool joined = false;
  os::Mutex mutex;
  std::map<std::string_view, std::uint64_t> calls;
  std::map<std::string, std::uint64_t> later;
};
/// Lives as long as the program, which may call the driver while it ends.
ToSay& to_say() {
  return os::of_process<ToSay>();
}

template <class Counts>
void say(const char* what, const Counts& counts) {
  if (counts.empty()) return;
  std::string all;
  for (const auto& [call, n] : counts)
    (((all += all.empty() ? "" : ", ") += call) += ' ') += std::to_string(n) + (n == 1 ? " time" : " times");
  os::complain((std::string("corun: ") + what + ": " + all + "\n").c_str());
}

[[gnu::destructor]] void leaves() {
  ToSay& all = to_say();
  const std::scoped_lock lock(all.mutex);
  if (!all.joined) return;
  say("not steered", all.calls);
  const std::string version = std::to_string(listed_version() / 1000) + '.' + std::to_string(listed_version() % 1000 / 10);
  say(("not steered, as they are of a later CUDA than " + version).c_str(), all.later);
}

}  // namespace

void not_steered(const char* call) {
  Client* client = Client::get();
  if (client == nullptr) return;
  client->count_counted();
  const std::scoped_lock lock(to_say().mutex);
  ++to_say().calls[call];
}

void of_later_cuda(std::string_view call) {
  const std::scoped_lock lock(to_say().mutex);
  ++to_say().later[std::string(call)];
}

void joined_a_service() {
  const std::scoped_lock lock(to_say().mutex);
  to_say().joined = true;
}

void forget_what_to_say() {
  new (&to_say()) ToSay;  // another thread may have held the lock
}

}  // namespace corun::live
