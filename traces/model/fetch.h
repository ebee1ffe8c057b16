// What will be read soon, and has lain untouched so long that it has left the caches, is asked for ahead. This
// changes no result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace corun {

/// Reads nothing: any address will do, also none, which is why it is counted with as a number. Always inlined, as are those that do nothing else: g++ 12 takes a call that
/// only fetches for one without effect, and leaves it out.
[[gnu::always_inline]] inline void fetch(const void* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  for (std::size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(reinterpret_cast<const void*>(at + i));
  __builtin_prefetch(reinterpret_cast<const void*>(at + bytes - 1));
}

}  // namespace corun
