#include "tests/hw/world/device_memory.h"

namespace corun::world {

void* memory_function(std::string_view) { return nullptr; }
void memory_ended(int) {}

}  // namespace corun::world
