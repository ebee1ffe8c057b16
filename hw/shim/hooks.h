// The driver's functions that the library answers for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace corun::live {

/// Which stream a null stream is: one for all threads, or one for each.
enum class Default : std::uint8_t { common, of_thread };

struct Hook {
  std::string_view symbol;  // of the driver's library; which versions of CUDA mean it by its name driver_calls.txt has
  void* own;
  void** real;
};

/// With those that touch memory, or make it.
std::vector<Hook> with_memory(std::vector<Hook> hooks);

/// Looks all of them up, so that each can be called whichever way the program came by another.
void look_up();

/// What a program gets in place of the driver's function; null: that one.
void* in_place_of(std::string_view symbol);

}  // namespace corun::live
