// Device memory of the played GPU.
#pragma once

#include <string_view>

namespace corun::world {

/// Null: there is none of that name.
void* memory_function(std::string_view name);
void memory_ended(int pid);

}  // namespace corun::world
