// Requests of programs, out of their pages and into the books.
#include <algorithm>

#include "hw/live/limits.h"
#include "hw/live/service.h"
#include "hw/live/untrusted.h"

namespace corun::live {

bool Service::look_at_sayings() {
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
    for (std::uint32_t n = 0; c->heard != c->said && n < kSayings; ++n) hear(*c, copied(c->memory->sayings[c->heard++ % kSayings]));
    c->heard = c->said;
    c->memory->heard.store(c->heard, std::memory_order_release);
  }
}

void Service::hear(Connection& c, Saying saying) {
  const std::uint32_t stream = std::min(saying.stream, kStreams - 1);
  switch (saying.what) {
    case Saying::What::launch: {
      if (books_.unfinished(c.client) >= limits::kUnfinished) return let_go(c, "it asks for more launches than may be under way");
      Kernel& kernel = kernel_of(c, saying.kernel);
      books_.asked(c.client, stream, saying.number, kernel, now(), std::min(saying.attempts, kMostAttempts));
      c.asked[stream] = std::min(saying.kernel, kKernels - 1);
      tell_attempts(c, c.asked[stream]);
      break;
    }
    case Saying::What::waits: books_.waits(c.client); break;
    case Saying::What::failed: books_.failed(c.client, stream, saying.number, now()); break;
    default:
      if (books_.memory() != nullptr) hear_of_memory(c, saying);
  }
}

void Service::hear_of_memory(Connection& c, const Saying& saying) {
  const std::uint32_t block = std::min(saying.stream, kBlocks - 1);
  switch (saying.what) {
    case Saying::What::allocates:
      books_.allocates(c.client, block, saying.kernel, kBlockUnit * std::max(saying.number, 1u), now());
      break;
    case Saying::What::frees: books_.frees(c.client, block, saying.kernel, now()); break;
    case Saying::What::moved: books_.moved(c.client, block, saying.kernel, saying.number != 0, now()); break;
    case Saying::What::wants: books_.wants(c.client, saying.number, now()); break;
    case Saying::What::has: books_.has(c.client, saying.number, now()); break;
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
  // What CUDA launches at most, so that products of it stay numbers.
  constexpr std::uint32_t kSide = 0x7fffffff, kOtherSide = 65535, kThreads = 1024, kRegisters = 255, kShared = 1 << 20;
  kernel->grid = {std::min(entry.grid[0], kSide), std::min(entry.grid[1], kOtherSide), std::min(entry.grid[2], kOtherSide)};
  kernel->block = {std::min(entry.block[0], kThreads), std::min(entry.block[1], kThreads), std::min(entry.block[2], 64u)};
  kernel->registers_per_thread = std::min(entry.registers, kRegisters);
  kernel->static_shared_memory_bytes = std::min(entry.static_shared_bytes, kShared);
  kernel->dynamic_shared_memory_bytes = std::min(entry.shared_bytes, kShared);
  return *kernel;
}

}  // namespace corun::live
