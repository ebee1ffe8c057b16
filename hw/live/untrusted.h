// Values out of memory and messages that a program writes.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

namespace corun::live {

/// Its printable characters.
inline std::string text_of(const char* text, std::size_t bytes) {
  std::string kept;
  for (std::size_t i = 0; i < bytes && text[i] != '\0'; ++i)
    if (static_cast<unsigned char>(text[i]) >= ' ' && static_cast<unsigned char>(text[i]) < 127) kept += text[i];
  return kept;
}

/// Of memory that a program may write meanwhile: what is looked at is what was copied.
template <class T>
T copied(const T& shared) {
  T own;
  std::memcpy(&own, &shared, sizeof own);
  asm volatile("" ::: "memory");  // nothing is read from there a second time
  return own;
}

}  // namespace corun::live
