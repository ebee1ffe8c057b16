#include "hw/transform/embedded_device_code.h"

#include "traces/embedded.h"

namespace corun::hw {

std::string_view library_source(std::string_view name) {
  for (const EmbeddedFile& file : embedded_device_code())
    if (file.name == name) return file.text;
  return {};
}
std::string_view persistent_header() { return library_source("persistent.cuh"); }

}  // namespace corun::hw
