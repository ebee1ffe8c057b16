// The driver's functions that the library answers for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace corun::live {

/// Which stream a null stream is: one for all threads, or one for each.
enum class Default : std::uint8_t { common, of_thread };

inline constexpr int kAlways = 1 << 30;

struct Hook {
  std::string_view symbol;  // of the library
  int since, until;         // versions of CUDA that mean this one by its name
  void* own;
  void** real;
  std::string_view asked{};  // by this name of cuGetProcAddress, where it is not the symbol's

  std::string_view name() const {
    if (!asked.empty()) return asked;
    std::string_view plain = symbol.substr(0, symbol.find("_pt"));
    if (plain.ends_with("_v2")) plain.remove_suffix(3);
    return plain;
  }
  Default kind() const {
    return symbol.ends_with("_ptsz") || symbol.ends_with("_ptds") ? Default::of_thread : Default::common;
  }
};

/// With those that touch memory, or make it.
std::vector<Hook> with_memory(std::vector<Hook> hooks);

/// Looks all of them up, so that each can be called whichever way the program came by another.
void look_up();

/// What a program gets in place of the driver's function; null: that one.
void* in_place_of(const char* symbol);

}  // namespace corun::live
