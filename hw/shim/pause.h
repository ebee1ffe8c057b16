#pragma once

namespace corun::live {

/// In a loop that looks at memory until another thread writes it.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace corun::live
