// Requests of programs, out of their pages and into the books.
#include <algorithm>

#include "hw/live/limits.h"
#include "hw/live/service.h"
#include "hw/live/untrusted.h"

namespace corun::live {

bool Service::look_at_messages() {
  bool any = false;
  for (const auto& c : connections_) {
    if (c->memory == nullptr) continue;
    c->said = c->memory->said.load(std::memory_order_acquire);
    any |= c->said != c->heard;
  }
  return any;
}

void Service::hear_all() {
  for (const auto& c : connections_) {
    if (c->memory == nullptr || c->said == c->heard) continue;
    for (std::uint32_t n = 0; c->heard != c->said && n < kMessageRing; ++n) hear(*c, copied(c->memory->messages[c->heard++ % kMessageRing]));
    c->heard = c->said;
    c->memory->heard.store(c->heard, std::memory_order_release);
  }
}

void Service::hear(Connection& c, Message message) {
  const std::uint32_t stream = std::min(message.stream, kStreams - 1);
  switch (message.what) {
    case Message::What::launch: {
      if (books_.unfinished(c.client) >= limits::kUnfinished) return let_go(c, "it asks for more launches than may be under way");
      Kernel& kernel = kernel_of(c, message.kernel);
      books_.asked(c.client, stream, message.number, kernel, now(), std::min(message.attempts, kMostAttempts));
      c.asked[stream] = std::min(message.kernel, kKernels - 1);
      tell_attempts(c, c.asked[stream]);
      break;
    }
    case Message::What::waits: books_.waits(c.client); break;
    case Message::What::failed: books_.failed(c.client, stream, message.number, now()); break;
    default:
      if (books_.memory() != nullptr) hear_of_memory(c, message);
  }
}

void Service::hear_of_memory(Connection& c, const Message& message) {
  const std::uint32_t block = std::min(message.stream, kBlocks - 1);
  switch (message.what) {
    case Message::What::allocates:
      books_.allocates(c.client, block, message.kernel, kBlockUnit * std::max(message.number, 1u), now());
      break;
    case Message::What::frees: books_.frees(c.client, block, message.kernel, now()); break;
    case Message::What::moved: books_.moved(c.client, block, message.kernel, message.number != 0, now()); break;
    case Message::What::wants: books_.wants(c.client, message.number, now()); break;
    case Message::What::has: books_.has(c.client, message.number, now()); break;
    default: break;
  }
}

Kernel& Service::kernel_of(Connection& c, std::uint32_t number) {
  number = std::min(number, kKernels - 1);
  if (number >= c.kernels.size()) c.kernels.resize(number + 1);
  std::unique_ptr<Kernel>& kernel = c.kernels[number];
  if (kernel != nullptr) return *kernel;
  const KernelEntry entry = copied(c.memory->kernels[number]);
  kernel = std::make_unique<Kernel>();
  kernel->name = text_of(entry.name, sizeof entry.name);
  // CUDA's limits: products of sizes then fit their types.
  constexpr std::uint32_t kSide = 0x7fffffff, kOtherSide = 65535, kThreads = 1024, kRegisters = 255, kShared = 1 << 20;
  kernel->grid = {std::min(entry.grid[0], kSide), std::min(entry.grid[1], kOtherSide), std::min(entry.grid[2], kOtherSide)};
  kernel->block = {std::min(entry.block[0], kThreads), std::min(entry.block[1], kThreads), std::min(entry.block[2], 64u)};
  kernel->registers_per_thread = std::min(entry.registers, kRegisters);
  kernel->static_shared_memory_bytes = std::min(entry.static_shared_bytes, kShared);
  kernel->dynamic_shared_memory_bytes = std::min(entry.shared_bytes, kShared);
  return *kernel;
}

}  // namespace corun::live
